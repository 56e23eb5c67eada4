//! Opening, recovering, cutting, retaining, deleting, and the manifest.

use super::*;
use crate::error::Error;

fn overwrite(path: &Path, position: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, position).unwrap();
}

fn file(home: &Home, base: u64) -> PathBuf {
    home.queue_dir("t", 0).join(format!("{base:020}"))
}

#[test]
fn a_file_of_another_length_is_refused_by_name() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 15);
    flush(&table);
    drop(table);
    std::fs::File::options()
        .write(true)
        .open(file(&home, 0))
        .unwrap()
        .set_len(199)
        .unwrap();
    match home.open_with(None, 16).err() {
        Some(Error::WrongFileSize {
            path,
            len_bytes,
            expected_bytes,
            key,
        }) => {
            assert_eq!(path, file(&home, 0));
            assert_eq!((len_bytes, expected_bytes), (199, 200));
            assert_eq!(key, "mappedFileSizeConsumeQueue");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_that_are_no_queue_are_left_alone() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 5);
    flush(&table);
    drop(table);
    let stray = home.queue_dir("t", 0).join("notes.txt");
    std::fs::write(&stray, b"mine").unwrap();
    std::fs::create_dir_all(home.root.join("consumequeue/t/backup")).unwrap();
    std::fs::write(home.root.join("consumequeue/list"), b"mine").unwrap();
    let table = home.open();
    assert_eq!(table.len(), 1);
    assert_eq!(read(&table, "t", 0), units(0, 5));
    assert_eq!(table.delete_topic(b"t").unwrap(), 1);
    assert_eq!(std::fs::read(&stray).unwrap(), b"mine");
    assert!(home.root.join("consumequeue/t/backup").exists());
}

#[test]
fn a_file_that_a_crash_left_without_length_is_used() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 10);
    flush(&table);
    drop(table);
    std::fs::write(file(&home, 200), b"").unwrap();
    let table = home.open();
    assert_eq!(bounds(&table, "t"), Some((0, 10)));
    append(&table, "t", 10, 12);
    flush(&table);
    drop(table);
    assert_eq!(read(&home.open(), "t", 0), units(0, 12));
}

#[test]
fn what_follows_a_file_without_length_never_comes_back() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 35);
    flush(&table);
    drop(table);
    let length_lost = std::fs::File::options().write(true).open(file(&home, 200));
    length_lost.unwrap().set_len(0).unwrap();
    let table = home.open();
    let found = table.recovery().recover(Trust::Below(0)).unwrap();
    assert_eq!((found.max_physical_end, found.cut), (1000, 1));
    assert_eq!(home.names("t", 0), [0]);
    append(&table, "t", 10, 21);
    flush(&table);
    drop(table);
    let table = home.open();
    assert_eq!(table.recovery().recover(Trust::Below(0)).unwrap().cut, 0);
    assert_eq!(read(&table, "t", 0), units(0, 21));
}

#[test]
fn recovery_stops_at_a_hole_and_nothing_behind_it_comes_back() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 27);
    flush(&table);
    drop(table);
    overwrite(&file(&home, 200), 3 * 20, &[0; 20]);
    let table = home.open();
    let found = table.recovery().recover(Trust::Below(500)).unwrap();
    assert_eq!(
        (found.max_physical_end, found.queues, found.cut),
        (1300, 1, 1)
    );
    assert_eq!(read(&table, "t", 0), units(0, 13));
    assert_eq!(home.names("t", 0), [0, 200]);
    assert_eq!(file_bytes(&home.queue_dir("t", 0), 200)[60..], [0; 140]);
    append(&table, "t", 13, 14);
    flush(&table);
    drop(table);
    let table = home.open();
    assert_eq!(table.recovery().recover(Trust::Below(0)).unwrap().cut, 0);
    assert_eq!(read(&table, "t", 0), units(0, 14));
}

#[test]
fn recovery_stops_where_the_order_of_the_log_ends() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 27);
    flush(&table);
    drop(table);
    overwrite(&file(&home, 200), 3 * 20, &unit(2).encode());
    let table = home.open();
    assert_eq!(
        table
            .recovery()
            .recover(Trust::Below(1000))
            .unwrap()
            .max_physical_end,
        1300
    );
    assert_eq!(read(&table, "t", 0), units(0, 13));
}

#[test]
fn recovery_of_a_clean_store_changes_no_byte() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 3, 27);
    flush(&table);
    drop(table);
    let before = file_bytes(&home.queue_dir("t", 0), 400);
    let table = home.open();
    let found = table.recovery().recover(Trust::All).unwrap();
    assert_eq!((found.max_physical_end, found.cut), (2700, 0));
    assert_eq!(file_bytes(&home.queue_dir("t", 0), 400), before);
    assert_eq!(bounds(&table, "t"), Some((3, 27)));
}

#[test]
fn truncation_cuts_files_and_tail_and_leaves_zeros() {
    for (cut, kept) in [
        (2600, 26),
        (2250, 23),
        (2000, 20),
        (1950, 20),
        (100, 1),
        (0, 0),
    ] {
        for written in [0, 12, 27] {
            let home = Home::new();
            let table = home.open();
            append(&table, "t", 0, written);
            flush(&table);
            append(&table, "t", written, 27);
            table.truncate_from(cut).unwrap();
            assert_eq!(bounds(&table, "t"), Some((0, kept)), "{cut} {written}");
            assert_eq!(read(&table, "t", 0), units(0, kept));
            let other: Vec<Unit> = (0..4).map(|n| unit(1000 + n)).collect();
            for (n, unit) in other.iter().enumerate() {
                let placed = table.append(b"t", 0, kept + n as u64, *unit, 0).unwrap();
                assert_eq!(placed, Placed::Appended);
            }
            flush(&table);
            assert_eq!(table.pending_bytes(), 0);
            drop(table);
            let table = home.open();
            table.recovery().recover(Trust::Below(0)).unwrap();
            assert_eq!(read(&table, "t", 0), [units(0, kept), other].concat());
        }
    }
}

#[test]
fn a_queue_that_lost_all_its_records_goes_on_where_it_was() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 20, 35);
    flush(&table);
    table.truncate_from(0).unwrap();
    assert_eq!(bounds(&table, "t"), Some((20, 20)));
    flush(&table);
    drop(table);
    let table = home.open();
    assert_eq!(bounds(&table, "t"), Some((20, 20)));
    append(&table, "t", 20, 22);
    assert_eq!(read(&table, "t", 20), units(20, 22));
}

#[test]
fn retention_follows_the_log() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 45);
    flush(&table);
    append(&table, "t", 45, 47);
    table.correct_min(1250).unwrap();
    assert_eq!(bounds(&table, "t"), Some((13, 47)));
    assert_eq!(home.names("t", 0).len(), 5);
    let deleted = table.retain(2000).unwrap();
    assert_eq!((deleted.files, deleted.bytes), (2, 400));
    assert_eq!(home.names("t", 0), [400, 600, 800]);
    assert_eq!(read(&table, "t", 20), units(20, 47));
    assert!(read(&table, "t", 19).is_empty());
    // Nothing left: the queue is empty and keeps its offset, and its newest file.
    assert_eq!(table.retain(1_000_000).unwrap().files, 2);
    assert_eq!(bounds(&table, "t"), Some((47, 47)));
    flush(&table);
    drop(table);
    let table = home.open();
    table.correct_min(1_000_000).unwrap();
    assert_eq!(bounds(&table, "t"), Some((47, 47)));
    append(&table, "t", 47, 48);
    assert_eq!(bounds(&table, "t"), Some((47, 48)));
}

#[test]
fn a_deleted_topic_is_gone_and_can_come_again() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 15);
    append(&table, "u", 0, 5);
    let handle = table.find(b"t", 0).unwrap();
    flush(&table);
    append(&table, "t", 15, 17);
    assert_eq!(table.delete_topic(b"t").unwrap(), 1);
    assert_eq!(
        (bounds(&table, "t"), bounds(&table, "u")),
        (None, Some((0, 5)))
    );
    assert!(!home.root.join("consumequeue/t").exists());
    assert_eq!(table.pending_bytes(), 0);
    let placed = table.append_to(&handle, 0, unit(50), 9).unwrap();
    assert_eq!(
        placed,
        Placed::Appended,
        "a stale handle finds the new queue"
    );
    flush(&table);
    assert_eq!(read(&table, "t", 0), units(50, 51));
    assert!(table.delete_queue(b"u", 0).unwrap());
    assert!(!table.delete_queue(b"u", 0).unwrap());
    assert_eq!(table.destroy_all().unwrap(), 1);
    drop(table);
    assert!(home.open().is_empty());
}

#[test]
fn the_manifest_counts_with_its_stamp_alone() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 13, 40);
    append(&table, "u", 0, 4);
    table.retain(1500).unwrap();
    table.save_manifest(b"stamp").unwrap();
    drop(table);
    let with = home.open_with(Some(b"stamp"), 16).unwrap();
    assert_eq!(
        (bounds(&with, "t"), bounds(&with, "u")),
        (Some((15, 40)), Some((4, 4)))
    );
    assert_eq!(
        with.recovery()
            .recover(Trust::All)
            .unwrap()
            .max_physical_end,
        4000
    );
    assert_eq!(with.open_files(), 0, "nothing was looked at");
    assert_eq!(read(&with, "t", 15), units(15, 40));
    assert!(home.root.join(MANIFEST_NAME).exists());
    append(&with, "t", 40, 41);
    with.write_pending().unwrap();
    assert!(
        !home.root.join(MANIFEST_NAME).exists(),
        "gone before the first write"
    );
    drop(with);
    assert_eq!(bounds(&home.open(), "t"), Some((13, 41)));
}

#[test]
fn a_manifest_of_another_time_or_with_a_flipped_bit_is_not_believed() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 12);
    table.save_manifest(b"stamp").unwrap();
    append(&table, "v", 0, 3);
    drop(table);
    let path = home.root.join(MANIFEST_NAME);
    let good = std::fs::read(&path).unwrap();
    assert_eq!(
        bounds(&home.open_with(Some(b"other"), 16).unwrap(), "t"),
        Some((0, 12))
    );
    for position in 0..good.len() {
        let mut bad = good.clone();
        bad[position] ^= 0x10;
        std::fs::write(&path, &bad).unwrap();
        assert_eq!(
            bounds(&home.open_with(Some(b"stamp"), 16).unwrap(), "t"),
            Some((0, 12))
        );
        std::fs::write(&path, &good[..position]).unwrap();
        assert_eq!(
            bounds(&home.open_with(Some(b"stamp"), 16).unwrap(), "t"),
            Some((0, 12))
        );
    }
    // Somebody removed a file behind our back: seen at the first use.
    std::fs::write(&path, &good).unwrap();
    std::fs::remove_file(file(&home, 200)).unwrap();
    let table = home.open_with(Some(b"stamp"), 16).unwrap();
    assert_eq!(
        table.append(b"t", 0, 10, unit(10), 0).unwrap(),
        Placed::Appended
    );
    assert_eq!(bounds(&table, "t"), Some((0, 11)));
}

#[test]
fn searches_by_time_follow_both_releases() {
    let home = Home::new();
    let table = home.open();
    // Store times 10, 10, 20, 20, ... in pairs; record n is at 100 n.
    append(&table, "t", 0, 30);
    table.write_pending().unwrap();
    append(&table, "t", 30, 34);
    let time = |unit: &Unit| Some((unit.physical_offset / 200 + 1) * 10);
    let lower = |ms| {
        table
            .search_by_time(b"t", 0, ms, Boundary::Lower, &time)
            .unwrap()
    };
    let upper = |ms| {
        table
            .search_by_time(b"t", 0, ms, Boundary::Upper, &time)
            .unwrap()
    };
    let nearest = |ms| table.search_nearest_by_time(b"t", 0, ms, &time).unwrap();
    assert_eq!(
        (lower(0), upper(0), nearest(0)),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!((lower(20), upper(20)), (Some(2), Some(3)));
    assert_eq!(
        (lower(25), upper(25), nearest(24), nearest(26)),
        (Some(4), Some(3), Some(3), Some(4))
    );
    assert_eq!(
        (lower(60), upper(60)),
        (Some(10), Some(11)),
        "first of a file"
    );
    assert_eq!((lower(50), upper(55)), (Some(8), Some(9)), "last of a file");
    assert_eq!((lower(170), upper(170)), (Some(32), Some(33)));
    assert_eq!(
        (lower(171), upper(171), nearest(999)),
        (Some(34), Some(33), Some(33))
    );
    table.correct_min(700).unwrap();
    assert_eq!(
        (lower(0), upper(0), nearest(0)),
        (Some(7), Some(7), Some(7))
    );
    assert_eq!(
        table.search_nearest_by_time(b"x", 0, 1, &time).unwrap(),
        None
    );
}
