//! The index at its edges: roll-over, crash, full disk, damage, concurrency.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::setup::{Dir, START_MS, Setup, abnormal, find, keyed};
use super::tight_disk::TightDisk;
use crate::clock::ManualClock;
use crate::disk::{Disk, RealDisk};
use crate::error::Error;
use crate::key_index::{IndexState, KeyIndex, Keyed, LastExit, Layout, Put, verify_file};

#[test]
fn keys_follow_the_build_rules() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 7, 20);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    assert_eq!(
        index.writer().put_message(&keyed("", 0, 1)).unwrap(),
        Put::NothingToIndex
    );
    let both = Keyed {
        unique_key: Some(b"u"),
        ..keyed(" a  b a", 0, START_MS)
    };
    let rolled_back = Keyed {
        is_rollback: true,
        ..both
    };
    assert_eq!(
        index.writer().put_message(&rolled_back).unwrap(),
        Put::NothingToIndex
    );
    assert!(!dir.0.exists(), "no file before the first key");
    assert_eq!(
        index.writer().put_message(&both).unwrap(),
        Put::Indexed { entries: 4 }
    );
    assert_eq!(
        index.writer().put_message(&both).unwrap(),
        Put::AlreadyIndexed
    );
    assert_eq!(
        index.writer().put(b"t", b"u", 0, START_MS).unwrap(),
        Put::AlreadyIndexed
    );
    let next = index.writer().put(b"t", b"u", 100, START_MS + 5).unwrap();
    assert_eq!(next, Put::Indexed { entries: 1 });
    assert_eq!(
        index.writer().put_message(&both).unwrap(),
        Put::AlreadyIndexed
    );
    assert_eq!(find(&index, "u"), [100, 0]);
    assert_eq!(find(&index, "a"), [0, 0], "as the official index has it");
    assert_eq!(find(&index, "b"), [0]);
    assert_eq!(find(&index, ""), [] as [u64; 0]);
    let answer = index.query(b"t", b"u", 1, 0, i64::MAX).unwrap();
    assert_eq!(answer.physical_offsets, [100]);
    assert_eq!(answer.last_update_timestamp_ms, START_MS + 5);
    assert_eq!(answer.last_update_physical_offset, 100);
    assert!(index.writer().put(b"t", b"u", u64::MAX, START_MS).is_err());
    let stats = index.stats();
    assert_eq!((stats.files, stats.entries, stats.end_offset), (1, 5, 100));
    let name = dir.bytes()[0].0.file_name().unwrap().to_owned();
    assert_eq!(name.len(), 17);
    assert_eq!(index.entries().unwrap().count(), 5);
}

#[test]
fn files_roll_over_and_end_in_the_middle_of_a_record() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 3, 4);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    for n in 0..5u64 {
        let message = keyed("a b", n * 10, START_MS + n as i64 * 1000);
        index.writer().put_message(&message).unwrap();
    }
    // Three entries per file, all made within one millisecond of the clock.
    assert_eq!(index.stats().files, 4);
    assert_eq!(find(&index, "a"), [40, 30, 20, 10, 0]);
    assert_eq!(find(&index, "b"), [40, 30, 20, 10, 0]);
    let within = |begin, end| {
        let (begin, end) = (START_MS + begin, START_MS + end);
        index
            .query(b"t", b"a", 64, begin, end)
            .unwrap()
            .physical_offsets
    };
    assert_eq!(within(1000, 3000), [30, 20, 10]);
    assert_eq!(within(1001, 2999), [20]);
    assert_eq!(within(4001, 9000), [] as [u64; 0]);
    let names: Vec<_> = dir.bytes().into_iter().map(|(path, _)| path).collect();
    assert!(names.is_sorted());
    // Three files are full; the last of them shares its end with the file that is being filled.
    assert_eq!(index.syncing().sync().unwrap(), Some(START_MS + 2000));
    assert_eq!(
        index.stats().mapped_bytes,
        40 + 12 + 80,
        "the one being filled"
    );
    assert_eq!(find(&index, "a"), [40, 30, 20, 10, 0]);
    for path in &names {
        let problems = verify_file(&RealDisk, path, Layout::of(3, 4)).unwrap();
        assert_eq!(problems, []);
    }
}

#[test]
fn after_a_crash_only_synced_full_files_are_trusted_and_the_rest_is_made_again() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 3, 4);
    let put_all = |index: &KeyIndex<RealDisk, ManualClock>| {
        for n in 0..5u64 {
            let message = keyed("a b", n * 10, START_MS + n as i64 * 1000);
            index.writer().put_message(&message).unwrap();
        }
    };
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    put_all(&index);
    let before = dir.bytes();
    drop(index);
    // Two files end at or before this; the record at 10 is in both.
    let index = setup.open(&dir.0, abnormal(START_MS + 2000)).unwrap();
    assert_eq!(index.stats().files, 2);
    assert_eq!(index.writer().resume_offset(), 20);
    put_all(&index);
    assert_eq!(find(&index, "b"), [40, 30, 20, 10, 0]);
    let same = |a: &[(PathBuf, Vec<u8>)], b: &[(PathBuf, Vec<u8>)]| {
        a.iter()
            .map(|(_, bytes)| bytes)
            .eq(b.iter().map(|(_, bytes)| bytes))
    };
    assert!(same(&before, &dir.bytes()));
    drop(index);
    // Only the first file stays: it ends with the first key of the record at 10.
    let index = setup.open(&dir.0, abnormal(START_MS + 1999)).unwrap();
    assert_eq!(
        (index.stats().files, index.writer().resume_offset()),
        (1, 10)
    );
    put_all(&index);
    assert!(same(&before, &dir.bytes()));
    drop(index);
    let index = setup.open(&dir.0, abnormal(0)).unwrap();
    assert_eq!(
        (index.stats().files, index.writer().resume_offset()),
        (0, 0)
    );
    put_all(&index);
    assert!(same(&before, &dir.bytes()));
    index.writer().clear().unwrap();
    assert_eq!(dir.bytes(), []);
}

#[test]
fn a_wrong_size_refuses_and_other_names_are_left_alone() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 3, 4);
    std::fs::create_dir_all(dir.0.join("20261121082636209")).unwrap();
    for (name, content) in [
        ("notes.txt", "x"),
        ("20261121082636210.new", "x"),
        ("123", "x"),
    ] {
        std::fs::write(dir.0.join(name), content).unwrap();
    }
    std::fs::write(dir.0.join("20261121082636211"), "four").unwrap();
    let error = setup.open(&dir.0, abnormal(0)).map(drop).unwrap_err();
    assert!(
        matches!(error, Error::WrongFileSize { len_bytes: 4, .. }),
        "{error}"
    );
    assert_eq!(
        RealDisk.list(&dir.0).unwrap().len(),
        5,
        "nothing was changed"
    );
    std::fs::write(dir.0.join("20261121082636211"), "").unwrap();
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    let names: Vec<String> = RealDisk
        .list(&dir.0)
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    assert_eq!(names, ["123", "20261121082636209", "notes.txt"]);
    assert_eq!(index.stats().files, 0);
}

#[test]
fn indexing_pauses_on_a_full_disk_and_comes_back() {
    let dir = Dir::new();
    let disk = TightDisk::default();
    let setup = Setup::new(disk.clone(), 3, 4);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    let writer = index.writer();
    writer.put_message(&keyed("a b", 0, START_MS)).unwrap();
    disk.is_full.store(true, Ordering::SeqCst);
    // The first key of the record still fits.
    assert_eq!(
        writer.put_message(&keyed("a b", 10, START_MS)).unwrap(),
        Put::Paused
    );
    assert_eq!(writer.state(), IndexState::Paused { resume_offset: 10 });
    assert_eq!(setup.notices.drain().len(), 1);
    for offset in [20, 30] {
        let answer = writer.put_message(&keyed("a b", offset, START_MS)).unwrap();
        assert_eq!(answer, Put::Paused);
    }
    assert_eq!(find(&index, "a"), [10, 0]);
    setup.clock.advance(Duration::from_secs(2));
    assert_eq!(writer.needs_catch_up().unwrap(), None);
    assert_eq!(index.stats().files, 1);
    assert_eq!(
        RealDisk.list(&dir.0).unwrap().len(),
        1,
        "no unfinished file is left"
    );
    disk.is_full.store(false, Ordering::SeqCst);
    assert_eq!(writer.needs_catch_up().unwrap(), None, "not looked yet");
    setup.clock.advance(Duration::from_secs(2));
    assert_eq!(
        writer.put_message(&keyed("a", 40, START_MS)).unwrap(),
        Put::Paused
    );
    assert_eq!(writer.needs_catch_up().unwrap(), Some(10));
    assert_eq!(writer.resume_offset(), 10);
    assert_eq!(setup.notices.drain().len(), 1);
    let entries = [(0, Put::AlreadyIndexed), (10, Put::Indexed { entries: 1 })];
    for (offset, expected) in entries {
        let answer = writer.put_message(&keyed("a b", offset, START_MS)).unwrap();
        assert_eq!(answer, expected);
    }
    assert_eq!(writer.needs_catch_up().unwrap(), None);
    for offset in [20, 30, 40] {
        writer.put_message(&keyed("a b", offset, START_MS)).unwrap();
    }
    assert_eq!(find(&index, "a"), [40, 30, 20, 10, 0]);
    assert_eq!(find(&index, "b"), [40, 30, 20, 10, 0]);
}

#[test]
fn a_sparse_file_of_another_broker_is_not_written_on_a_full_disk() {
    let dir = Dir::new();
    let disk = TightDisk::default();
    let setup = Setup::new(disk.clone(), 3, 9);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    index
        .writer()
        .put_message(&keyed("a b", 0, START_MS))
        .unwrap();
    index.syncing().sync_all().unwrap();
    drop(index);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    disk.is_full.store(true, Ordering::SeqCst);
    assert_eq!(
        index
            .writer()
            .put_message(&keyed("a b", 10, START_MS))
            .unwrap(),
        Put::Paused
    );
    assert_eq!(index.writer().resume_offset(), 10);
    assert_eq!(find(&index, "a"), [0]);
}

#[test]
fn retention_keeps_the_newest_file_and_truncation_gives_the_offset_to_go_on() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 3, 4);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    for n in 0..6u64 {
        index
            .writer()
            .put_message(&keyed("a b c", n * 10, START_MS))
            .unwrap();
    }
    assert_eq!(index.stats().files, 6);
    assert_eq!(index.retain(10).unwrap(), 1);
    assert_eq!(find(&index, "c"), [50, 40, 30, 20, 10]);
    assert_eq!(index.writer().truncate_from(1000).unwrap(), 50);
    assert_eq!(index.writer().truncate_from(35).unwrap(), 30);
    assert_eq!(find(&index, "c"), [30, 20, 10]);
    assert_eq!(
        index
            .writer()
            .put_message(&keyed("a b c", 30, START_MS))
            .unwrap(),
        Put::AlreadyIndexed
    );
    index
        .writer()
        .put_message(&keyed("x", 40, START_MS))
        .unwrap();
    assert_eq!(find(&index, "x"), [40]);
    assert_eq!(index.retain(1000).unwrap(), 3);
    assert_eq!(find(&index, "x"), [40]);
    assert_eq!(index.writer().truncate_from(0).unwrap(), 0);
    assert_eq!(dir.bytes(), []);
}

#[test]
fn the_checkpoint_stays_below_the_end_of_what_is_not_synced() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 3, 3);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    assert_eq!(index.syncing().sync().unwrap(), None);
    index
        .writer()
        .put_message(&keyed("a b", 0, START_MS))
        .unwrap();
    assert_eq!(
        index.syncing().sync().unwrap(),
        None,
        "the next file may end at the same time"
    );
    index
        .writer()
        .put_message(&keyed("a", 10, START_MS))
        .unwrap();
    assert_eq!(index.syncing().sync().unwrap(), None);
    index
        .writer()
        .put_message(&keyed("b", 20, START_MS + 1))
        .unwrap();
    // Both are full and synced now; the second one's end may still be shared.
    assert_eq!(index.syncing().sync().unwrap(), Some(START_MS));
    index
        .writer()
        .put_message(&keyed("b", 30, START_MS + 2))
        .unwrap();
    assert_eq!(index.syncing().sync_all().unwrap(), Some(START_MS + 1));
}

#[test]
fn damaged_files_never_loop_or_fail() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 1, 6);
    let index = setup.open(&dir.0, LastExit::Clean).unwrap();
    for n in 0..5u64 {
        index
            .writer()
            .put_message(&keyed("a", n * 10, START_MS))
            .unwrap();
    }
    index.syncing().sync_all().unwrap();
    let (path, good) = dir.bytes().remove(0);
    let mut found_problems = 0;
    for position in 0..good.len() {
        for value in [0x01, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[position] = value;
            std::fs::write(&path, &bad).unwrap();
            let opened = setup.open(&dir.0, LastExit::Clean).unwrap();
            assert!(find(&opened, "a").len() <= 5);
            opened
                .writer()
                .put_message(&keyed("a", 1 << 40, START_MS))
                .unwrap();
            drop(opened);
            // The files after the damaged one, and itself when it was dropped.
            for (other, _) in dir.bytes() {
                std::fs::remove_file(other).unwrap();
            }
            std::fs::write(&path, &bad).unwrap();
            if bad != good {
                let problems = verify_file(&RealDisk, &path, Layout::of(1, 6)).unwrap();
                found_problems += usize::from(!problems.is_empty());
            }
        }
    }
    assert!(found_problems > 100, "{found_problems}");
}

#[test]
fn readers_see_whole_entries_while_keys_are_put() {
    let dir = Dir::new();
    let setup = Setup::new(RealDisk, 64, 5_000);
    let index = Arc::new(setup.open(&dir.0, LastExit::Clean).unwrap());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2u64 {
            let (index, is_done) = (&index, &is_done);
            scope.spawn(move || {
                let key = format!("k{reader}");
                let mut newest = 0;
                while !is_done.load(Ordering::SeqCst) {
                    let found = find(index, &key);
                    assert!(found.is_sorted_by(|a, b| a > b), "{found:?}");
                    assert!(found.iter().all(|offset| (offset >> 33) % 10 == reader));
                    let first = found.first().copied().unwrap_or(0);
                    assert!(first >= newest, "what was found once is found again");
                    newest = first;
                }
            });
        }
        for n in 1..40_000u64 {
            // Both halves of the offset change with every record.
            let message = keyed("", (n << 33) | n, START_MS + n as i64);
            let key = format!("k{}", n % 10);
            let keys = Some(key.as_bytes());
            index
                .writer()
                .put_message(&Keyed { keys, ..message })
                .unwrap();
            if n % 9_000 == 0 {
                index.syncing().sync().unwrap();
            }
        }
        is_done.store(true, Ordering::SeqCst);
    });
}
