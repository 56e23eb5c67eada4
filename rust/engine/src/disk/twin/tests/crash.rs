//! What crash images hold, case by case.

use std::collections::BTreeSet;

use super::{all, contents, hashes, last, path, with_file};
use crate::disk::twin::{Bound, CallKind, Fault, ImageId, Tear, Times, TwinDisk};
use crate::disk::{CellRegion, Disk, DiskFile, Open, Region};

#[test]
fn pages_are_lost_independently() {
    let (twin, file) = with_file("/f", 8192);
    file.write_at(&[1; 8], 0).unwrap();
    file.write_at(&[2; 8], 4096).unwrap();
    let found = contents(&twin, "/f", Tear::Words);
    let firsts: BTreeSet<(u8, u8)> = found
        .iter()
        .map(|bytes| bytes.as_ref().map(|b| (b[7], b[4103])).unwrap())
        .collect();
    assert_eq!(firsts, BTreeSet::from([(0, 0), (1, 0), (0, 2), (1, 2)]));
    assert_eq!(found.len(), 4, "8 aligned bytes are never torn");
}

#[test]
fn a_page_keeps_a_prefix_of_its_writes() {
    let (twin, file) = with_file("/f", 4096);
    for value in 1..=3u8 {
        file.write_at(&[value], u64::from(value)).unwrap();
    }
    let found: BTreeSet<Vec<u8>> = contents(&twin, "/f", Tear::Words)
        .into_iter()
        .map(|bytes| bytes.unwrap()[..4].to_vec())
        .collect();
    let wanted: [&[u8]; 4] = [&[0, 0, 0, 0], &[0, 1, 0, 0], &[0, 1, 2, 0], &[0, 1, 2, 3]];
    assert_eq!(found, wanted.map(<[u8]>::to_vec).into());
}

#[test]
fn writes_are_torn_at_words_and_sectors() {
    let (twin, file) = with_file("/f", 4096);
    file.write_at(&[7; 1024], 256).unwrap();
    let spans = |tear| -> BTreeSet<(usize, usize)> {
        let span = |bytes: Option<Vec<u8>>| {
            let bytes = bytes.unwrap();
            let first = bytes.iter().position(|b| *b == 7).unwrap_or(0);
            let end = bytes.iter().rposition(|b| *b == 7).map_or(0, |at| at + 1);
            (first, end)
        };
        contents(&twin, "/f", tear).into_iter().map(span).collect()
    };
    assert_eq!(spans(Tear::Whole), [(0, 0), (256, 1280)].into());
    let sectors: BTreeSet<_> = [
        (0, 0),
        (256, 512),
        (256, 1024),
        (512, 1280),
        (1024, 1280),
        (256, 1280),
    ]
    .into();
    assert_eq!(spans(Tear::Sectors), sectors);
    let words = spans(Tear::Words);
    assert_eq!(words.len(), 1 + 127 + 2 + 1);
    assert!(words.is_superset(&sectors) && words.contains(&(256, 264)));
}

#[test]
fn synced_bytes_are_in_every_image() {
    let (twin, file) = with_file("/f", 8192);
    file.write_at(b"kept", 0).unwrap();
    file.write_at(b"kept too", 5000).unwrap();
    file.sync_data().unwrap();
    file.write_at(b"perhaps", 4).unwrap();
    let found = contents(&twin, "/f", Tear::Words);
    assert!(found.len() > 1);
    for bytes in found {
        let bytes = bytes.unwrap();
        assert_eq!(
            (&bytes[..4], &bytes[5000..5008]),
            (&b"kept"[..], &b"kept too"[..])
        );
    }
}

#[test]
fn a_sync_covers_what_came_before_it_began() {
    let (twin, file) = with_file("/f", 4096);
    file.write_at(&[1], 0).unwrap();
    let other = twin.open(path("/f"), Open::Write).unwrap();
    twin.on_call(move |call, _| {
        if call == CallKind::Sync {
            other.write_at(&[2], 1).unwrap();
        }
    });
    file.sync_data().unwrap();
    let found: BTreeSet<_> = contents(&twin, "/f", Tear::Words)
        .into_iter()
        .map(|bytes| bytes.unwrap()[..2].to_vec())
        .collect();
    assert_eq!(found, [vec![1, 0], vec![1, 2]].into());
}

#[test]
fn a_name_is_durable_only_with_its_directory() {
    let twin = TwinDisk::new();
    let file = twin.open(path("/new"), Open::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap();
    let found = contents(&twin, "/new", Tear::Words);
    assert_eq!(found, [None, Some(b"x".to_vec())].into());
    twin.sync_dir(path("/")).unwrap();
    let found = contents(&twin, "/new", Tear::Words);
    assert_eq!(found, [Some(b"x".to_vec())].into());
    twin.unlink(path("/new")).unwrap();
    assert_eq!(contents(&twin, "/new", Tear::Words).len(), 2);
    twin.sync_dir(path("/")).unwrap();
    assert_eq!(contents(&twin, "/new", Tear::Words), [None].into());
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_one_never_a_mix() {
    let twin = TwinDisk::new();
    twin.write_raw(path("/c/a.json"), b"old");
    twin.forget();
    let file = twin.open(path("/c/a.json.tmp"), Open::Create).unwrap();
    file.write_at(b"new content", 0).unwrap();
    file.sync_data().unwrap();
    twin.rename(path("/c/a.json.tmp"), path("/c/a.json"))
        .unwrap();
    let both: BTreeSet<_> = [Some(b"old".to_vec()), Some(b"new content".to_vec())].into();
    assert_eq!(contents(&twin, "/c/a.json", Tear::Words), both);
    twin.sync_dir(path("/c")).unwrap();
    let new = [Some(b"new content".to_vec())].into();
    assert_eq!(contents(&twin, "/c/a.json", Tear::Words), new);
    assert_eq!(contents(&twin, "/c/a.json.tmp", Tear::Words), [None].into());
}

#[test]
fn a_replacement_that_was_not_synced_may_be_empty() {
    let twin = TwinDisk::new();
    twin.write_raw(path("/a"), b"old");
    twin.forget();
    let file = twin.open(path("/t"), Open::Create).unwrap();
    file.write_at(b"new", 0).unwrap();
    twin.rename(path("/t"), path("/a")).unwrap();
    twin.sync_dir(path("/")).unwrap();
    let found = contents(&twin, "/a", Tear::Words);
    let zeros = Some(vec![0; 3]);
    assert_eq!(found, [Some(vec![]), zeros, Some(b"new".to_vec())].into());
}

#[test]
fn names_are_reordered_but_no_file_has_two() {
    let twin = TwinDisk::new();
    for name in ["/a", "/b"] {
        twin.write_raw(path(name), name.as_bytes());
    }
    twin.forget();
    twin.rename(path("/a"), path("/x")).unwrap();
    twin.rename(path("/x"), path("/y")).unwrap();
    twin.unlink(path("/b")).unwrap();
    let history = twin.history();
    let mut trees = BTreeSet::new();
    for image in history.images(last(&history), &all(Tear::Words)) {
        let disk = image.disk();
        let names: Vec<_> = disk.tree().into_iter().map(|(name, _)| name).collect();
        let holders = names
            .iter()
            .filter(|name| disk.read(path(name)).unwrap() == b"/a");
        assert_eq!(holders.count(), 1, "{names:?}");
        trees.insert(names.join(" "));
    }
    let wanted = ["/a /b", "/b /x", "/b /y", "/a", "/x", "/y"];
    assert_eq!(trees, wanted.map(str::to_owned).into());
}

#[test]
fn a_rename_between_directories_needs_both_synced() {
    let twin = TwinDisk::new();
    twin.write_raw(path("/d/f"), b"1");
    twin.write_raw(path("/e/other"), b"2");
    twin.forget();
    twin.rename(path("/d/f"), path("/e/f")).unwrap();
    twin.sync_dir(path("/e")).unwrap();
    assert_eq!(contents(&twin, "/d/f", Tear::Words).len(), 2);
    twin.sync_dir(path("/d")).unwrap();
    assert_eq!(contents(&twin, "/d/f", Tear::Words), [None].into());
}

#[test]
fn a_durable_removal_is_not_undone_by_an_earlier_uncertain_one() {
    let twin = TwinDisk::new();
    twin.open(path("/f"), Open::CreateNew).unwrap();
    twin.fail(Fault {
        call: CallKind::SyncDir,
        path_contains: None,
        nth: 1,
        errno: libc::EIO,
        times: Times::Once,
    });
    twin.sync_dir(path("/")).unwrap_err();
    twin.sync_dir(path("/")).unwrap();
    assert_eq!(contents(&twin, "/f", Tear::Words).len(), 2, "in doubt");
    twin.unlink(path("/f")).unwrap();
    twin.sync_dir(path("/")).unwrap();
    assert_eq!(contents(&twin, "/f", Tear::Words), [None].into());
}

#[test]
fn lengths_are_lost_until_the_file_is_synced() {
    let (twin, file) = with_file("/f", 0);
    file.allocate(100).unwrap();
    file.set_len(50).unwrap();
    let lens = |twin: &TwinDisk| -> BTreeSet<usize> {
        let found = contents(twin, "/f", Tear::Words).into_iter();
        found.map(|bytes| bytes.unwrap().len()).collect()
    };
    assert_eq!(lens(&twin), [0, 50, 100].into());
    file.sync_data().unwrap();
    assert_eq!(lens(&twin), [50].into());
}

#[test]
fn what_was_cut_does_not_come_back_when_the_cut_is_kept() {
    let (twin, file) = with_file("/f", 0);
    file.write_at(&[5; 6000], 0).unwrap();
    file.sync_data().unwrap();
    file.set_len(10).unwrap();
    file.write_at(&[6; 2], 8).unwrap();
    file.set_len(6000).unwrap();
    let found = contents(&twin, "/f", Tear::Whole);
    for bytes in &found {
        let bytes = bytes.as_ref().unwrap();
        let rest: BTreeSet<u8> = bytes.iter().skip(10).copied().collect();
        assert!(rest.len() <= 1, "cut and not cut at once");
        assert!(bytes[8..10] == [5, 5] || bytes[8..10] == [6, 6]);
    }
    // Not cut, cut, cut and grown again; each with the write and without.
    assert_eq!(found.len(), 6);
    file.sync_data().unwrap();
    let mut wanted = vec![0; 6000];
    wanted[..8].fill(5);
    wanted[8..10].fill(6);
    assert_eq!(contents(&twin, "/f", Tear::Words), [Some(wanted)].into());
}

#[test]
fn bytes_of_a_failed_sync_stay_uncertain() {
    let (twin, file) = with_file("/f", 8192);
    file.write_at(&[1], 0).unwrap();
    file.write_at(&[2], 4096).unwrap();
    twin.fail(Fault {
        call: CallKind::Sync,
        path_contains: Some("f".to_owned()),
        nth: 1,
        errno: libc::EIO,
        times: Times::Once,
    });
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.errno(), Some(libc::EIO));
    // A second sync succeeds, and the first page may still be lost; the second one is written anew.
    file.write_at(&[3], 4097).unwrap();
    file.sync_data().unwrap();
    let found: BTreeSet<_> = contents(&twin, "/f", Tear::Words)
        .into_iter()
        .map(|bytes| bytes.map(|b| (b[0], b[4096], b[4097])).unwrap())
        .collect();
    assert_eq!(found, [(0, 2, 3), (1, 2, 3)].into());
}

#[test]
fn mapped_writes_and_cells_are_events_like_others() {
    let (twin, file) = with_file("/f", 8192);
    let region = file.map(4096, 0).unwrap();
    let mut reservation = region.reserve(0, 4).unwrap();
    reservation.copy_from_slice(b"abcd");
    assert_eq!(twin.events(), 0, "nothing happened before it is published");
    region.publish(reservation);
    let cells = file.map_cells(8192).unwrap();
    assert!(cells.store(4096, 9));
    assert_eq!(cells.load(0), u32::from_be_bytes(*b"abcd"));
    assert_eq!(twin.events(), 2);
    assert_eq!(contents(&twin, "/f", Tear::Words).len(), 4);
    file.sync_data().unwrap();
    assert_eq!(contents(&twin, "/f", Tear::Words).len(), 1);
}

#[test]
fn a_written_reservation_that_was_dropped_is_noticed() {
    let (twin, file) = with_file("/f", 4096);
    let region = file.map(4096, 0).unwrap();
    let mut reservation = region.reserve(0, 2).unwrap();
    reservation.copy_from_slice(b"zz");
    drop(reservation);
    let reservation = region.reserve(0, 4).unwrap();
    assert_eq!(&*reservation, b"zz\0\0");
    assert_eq!(twin.events(), 1);
    assert_eq!(&twin.read(path("/f")).unwrap()[..2], b"zz");
}

#[test]
fn images_are_made_again_by_their_ids() {
    let run = || {
        let twin = TwinDisk::new();
        twin.create_dir_all(path("/log")).unwrap();
        let file = twin.open(path("/log/0"), Open::CreateNew).unwrap();
        file.allocate(16384).unwrap();
        for at in 0..20u64 {
            file.write_at(&[at as u8 + 1; 300], at * 300).unwrap();
            if at == 5 {
                file.sync_data().unwrap();
            }
        }
        twin.history()
    };
    let (one, other) = (run(), run());
    let mut distinct = BTreeSet::new();
    for stop in 0..one.stop_points() {
        let bound = Bound {
            images_max: 200,
            tear: Tear::Words,
            seed: 7,
        };
        for (a, b) in one.images(stop, &bound).zip(other.images(stop, &bound)) {
            assert_eq!((a.id(), a.hash()), (b.id(), b.hash()));
            let text = a.id().to_string();
            let again = other.image(&text.parse::<ImageId>().unwrap());
            assert_eq!(again.hash(), a.hash(), "{text}");
            assert_eq!(a.disk().content_hash(), a.hash(), "{text}");
            assert_eq!(again.disk().tree(), a.disk().tree(), "{text}");
            distinct.insert(a.hash());
        }
    }
    assert!(distinct.len() > 500, "{}", distinct.len());
    for wrong in [
        "", "1", "1.w", "1.q.e1", "x.w.e1", "1.w.z1", "1.w.e", "1.w.é",
    ] {
        assert!(wrong.parse::<ImageId>().is_err(), "{wrong}");
    }
}

#[test]
fn a_sample_has_the_extremes_and_keeps_its_bound() {
    let (twin, file) = with_file("/f", 1 << 20);
    for page in 0..64u64 {
        file.write_at(&[page as u8 + 1; 64], page * 4096).unwrap();
    }
    let history = twin.history();
    let stop = last(&history);
    assert_eq!(history.image_count(stop, Tear::Words), u64::MAX);
    let bound = Bound {
        images_max: 500,
        tear: Tear::Words,
        seed: 1,
    };
    let images: Vec<_> = history.images(stop, &bound).collect();
    assert_eq!(images.len(), 500);
    let killed = history.killed(stop).hash();
    assert_eq!(killed, twin.content_hash());
    let found = hashes(images.into_iter());
    assert!(found.contains(&killed) && found.contains(&history.killed(0).hash()));
    assert!(found.len() > 300, "{}", found.len());
    let other = Bound { seed: 2, ..bound };
    assert_ne!(found, hashes(history.images(stop, &other)));
}

#[test]
fn a_crash_during_recovery_starts_from_the_image() {
    let (twin, file) = with_file("/f", 4096);
    file.write_at(&[1], 0).unwrap();
    let history = twin.history();
    let disk = history.killed(1).disk();
    assert_eq!(disk.events(), 0);
    let again = disk.open(path("/f"), Open::Write).unwrap();
    again.write_at(&[2], 1).unwrap();
    let found: BTreeSet<_> = contents(&disk, "/f", Tear::Words)
        .into_iter()
        .map(|bytes| bytes.unwrap()[..2].to_vec())
        .collect();
    assert_eq!(found, [vec![1, 0], vec![1, 2]].into());
    assert_eq!(twin.read(path("/f")).unwrap()[..2], [1, 0], "not shared");
}

#[test]
fn the_order_of_names_survives_a_later_sync() {
    let twin = TwinDisk::new();
    twin.write_raw(path("/d/first"), b"1");
    twin.write_raw(path("/second"), b"2");
    twin.forget();
    twin.rename(path("/d/first"), path("/f")).unwrap();
    twin.rename(path("/second"), path("/f")).unwrap();
    twin.sync_dir(path("/")).unwrap();
    // The first rename is open until both of its directories are synced; the second is certain.
    assert_eq!(
        contents(&twin, "/f", Tear::Words),
        [Some(b"2".to_vec())].into()
    );
    assert_eq!(contents(&twin, "/d/first", Tear::Words).len(), 2);
    twin.sync_dir(path("/d")).unwrap();
    assert_eq!(
        contents(&twin, "/f", Tear::Words),
        [Some(b"2".to_vec())].into()
    );
    assert_eq!(contents(&twin, "/d/first", Tear::Words), [None].into());
}

#[test]
fn an_uncertain_cut_is_certain_with_the_next_write() {
    let (twin, file) = with_file("/f", 0);
    file.write_at(&[1; 100], 0).unwrap();
    file.set_len(0).unwrap();
    file.write_at(&[1; 4], 0).unwrap();
    twin.fail(Fault {
        call: CallKind::Sync,
        path_contains: None,
        nth: 1,
        errno: libc::EIO,
        times: Times::Once,
    });
    file.sync_data().unwrap_err();
    file.write_at(&[2], 1).unwrap();
    file.sync_data().unwrap();
    let wanted = [Some(vec![1, 2, 1, 1])].into();
    assert_eq!(contents(&twin, "/f", Tear::Words), wanted);
}
