//! Appending, writing, reading and syncing.

use super::*;
use crate::consume_queue::ReadBy;
use crate::error::Error;

#[test]
fn units_are_seen_from_their_append_on_and_after_every_step() {
    let home = Home::new();
    let table = home.open();
    assert_eq!(bounds(&table, "t"), None);
    append(&table, "t", 0, 25);
    assert_eq!(table.pending_bytes(), 500);
    assert_eq!(read(&table, "t", 0), units(0, 25));
    assert_eq!(table.write_pending().unwrap(), 500);
    assert_eq!(table.pending_bytes(), 0);
    append(&table, "t", 25, 28);
    assert_eq!(read(&table, "t", 3), units(3, 28));
    assert_eq!(bounds(&table, "t"), Some((0, 28)));
    flush(&table);
    drop(table);
    let table = home.open();
    assert_eq!(bounds(&table, "t"), Some((0, 28)));
    assert_eq!(read(&table, "t", 0), units(0, 28));
    assert_eq!(home.names("t", 0), [0, 200, 400]);
    for base in [0, 200, 400] {
        assert_eq!(
            file_bytes(&home.queue_dir("t", 0), base).len(),
            200,
            "full length"
        );
    }
}

#[test]
fn reads_keep_to_count_and_bounds() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 15);
    table.write_pending().unwrap();
    append(&table, "t", 15, 18);
    let mut out = vec![unit(999)];
    let got = table.read(b"t", 0, 8, 9, &mut out).unwrap();
    assert_eq!(out, [vec![unit(999)], units(8, 17)].concat());
    assert_eq!((got.next, got.is_cold), (17, false));
    assert_eq!(got.bounds, Some(Bounds { min: 0, max: 18 }));
    out.clear();
    let got = table
        .read_by(b"t", 0, 8, (9, &mut out), ReadBy::Cache)
        .unwrap();
    assert!(
        got.is_cold || out == units(8, 17),
        "just written: in the cache, or it says so"
    );
    for from in [18, 19, u64::MAX] {
        out.clear();
        assert_eq!(table.read(b"t", 0, from, 5, &mut out).unwrap().next, from);
        assert!(out.is_empty());
    }
    assert_eq!(table.read(b"t", 1, 0, 5, &mut out).unwrap().bounds, None);
    assert_eq!(table.read(b"u", 0, 0, 5, &mut out).unwrap().bounds, None);
}

#[test]
fn the_same_range_twice_changes_nothing() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 15);
    table.write_pending().unwrap();
    for n in 0..15 {
        let placed = table.append(b"t", 0, n, unit(n), 0).unwrap();
        assert_eq!(placed, Placed::Duplicate);
    }
    assert_eq!(table.pending_bytes(), 0);
    assert_eq!(read(&table, "t", 0), units(0, 15));
}

#[test]
fn a_queue_that_begins_late_is_led_by_blanks_as_java_writes_them() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 13, 22);
    assert_eq!(bounds(&table, "t"), Some((13, 22)));
    assert_eq!(read(&table, "t", 13), units(13, 22));
    flush(&table);
    assert_eq!(home.names("t", 0), [200, 400]);
    let first = file_bytes(&home.queue_dir("t", 0), 200);
    let blank = b"\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\0\0\0".repeat(3);
    assert_eq!(first[..60], blank[..]);
    assert_eq!(first[60..80], unit(13).encode());
    drop(table);
    let table = home.open();
    assert_eq!(bounds(&table, "t"), Some((13, 22)));
    assert_eq!(read(&table, "t", 13), units(13, 22));
    assert!(read(&table, "t", 12).is_empty());
}

#[test]
fn a_gap_is_filled_so_that_every_unit_stays_at_its_offset() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 3);
    let placed = table.append(b"t", 0, 27, unit(27), 0).unwrap();
    assert_eq!(placed, Placed::Gap { missing: 24 });
    assert!(
        home.notices
            .drain()
            .iter()
            .any(|n| n.text.contains("24 messages"))
    );
    append(&table, "t", 28, 30);
    let expected = [units(0, 3), vec![Unit::BLANK; 24], units(27, 30)].concat();
    assert_eq!(read(&table, "t", 0), expected);
    flush(&table);
    assert_eq!(read(&table, "t", 0), expected);
    drop(table);
    let table = home.open();
    assert_eq!(read(&table, "t", 0), expected);
    table.correct_min(100).unwrap();
    assert_eq!(bounds(&table, "t"), Some((1, 30)));
    table.correct_min(300).unwrap();
    assert_eq!(
        bounds(&table, "t"),
        Some((27, 30)),
        "blanks count for nothing"
    );
    drop(table);
    let table = home.open();
    table.recovery().recover(Trust::Below(0)).unwrap();
    assert_eq!(read(&table, "t", 0), expected);
}

#[test]
fn a_queue_that_starts_again_at_0_is_emptied_first() {
    let home = Home::new();
    let table = home.open();
    append(&table, "t", 0, 25);
    table.write_pending().unwrap();
    append(&table, "t", 25, 26);
    for (n, record) in (100..103).enumerate() {
        let placed = table.append(b"t", 0, n as u64, unit(record), 0).unwrap();
        let expected = if n == 0 {
            Placed::Restarted { dropped: 26 }
        } else {
            Placed::Appended
        };
        assert_eq!(placed, expected);
    }
    assert_eq!(read(&table, "t", 0), units(100, 103));
    flush(&table);
    assert_eq!(home.names("t", 0), [0]);
    assert_eq!(file_bytes(&home.queue_dir("t", 0), 0)[60..], [0; 140]);
    for n in 0..26 {
        assert_eq!(
            table.append(b"t", 0, n, unit(n), 0).unwrap(),
            Placed::Duplicate
        );
    }
    assert_eq!(
        table.append(b"t", 0, 1, unit(200), 0).unwrap(),
        Placed::Taken
    );
    assert_eq!(read(&table, "t", 0), units(100, 103));
}

#[test]
fn what_cannot_be_a_queue_is_refused_and_leaves_no_file() {
    let home = Home::new();
    let table = home.open();
    for topic in [&b".."[..], b"", b"a/b", b"a\0", b"\xff", &[b'x'; 256]] {
        assert_eq!(
            table.append(topic, 0, 0, unit(0), 0).unwrap(),
            Placed::Refused
        );
    }
    let placed = table.append(b"t", 0, u64::MAX, unit(0), 0).unwrap();
    assert_eq!(placed, Placed::Refused);
    table.write_pending().unwrap();
    assert!(!home.root.join("consumequeue").exists());
}

#[test]
fn the_sync_covers_what_was_written_and_nothing_else() {
    let home = Home::new();
    let table = home.open();
    assert_eq!(table.sync(0).unwrap().covered_ms, None);
    table.append(b"a", 0, 0, unit(0), 1000).unwrap();
    table.append(b"b", 0, 0, unit(1), 1005).unwrap();
    assert_eq!(
        table.sync(0).unwrap().covered_ms,
        Some(999),
        "nothing is written"
    );
    table.write_pending().unwrap();
    let thin = table.sync(2).unwrap();
    assert_eq!(
        (thin.covered_ms, thin.files),
        (Some(999), 0),
        "a sync of two pages takes neither"
    );
    table.append(b"c", 0, 0, unit(2), 1010).unwrap();
    let all = table.sync(0).unwrap();
    assert_eq!((all.covered_ms, all.files), (Some(1009), 2));
    table.write_pending().unwrap();
    assert_eq!(table.sync(0).unwrap().covered_ms, Some(1010));
    assert_eq!(table.sync(0).unwrap().files, 0);
}

#[test]
fn a_failed_write_keeps_the_tail() {
    let home = Home::new();
    let table = home.open();
    // A file where the topic's directory should be: the write cannot work.
    std::fs::create_dir_all(home.root.join("consumequeue")).unwrap();
    let obstacle = home.root.join("consumequeue").join("t");
    std::fs::write(&obstacle, b"").unwrap();
    append(&table, "t", 0, 12);
    append(&table, "u", 0, 12);
    assert!(matches!(table.write_pending(), Err(Error::Io { .. })));
    assert_eq!(table.pending_bytes(), 240, "u is written");
    append(&table, "t", 12, 14);
    assert_eq!(read(&table, "t", 0), units(0, 14));
    assert_eq!(table.sync(0).unwrap().covered_ms, Some(-1));
    std::fs::remove_file(&obstacle).unwrap();
    flush(&table);
    assert_eq!(table.sync(0).unwrap().covered_ms, Some(13));
    drop(table);
    assert_eq!(read(&home.open(), "t", 0), units(0, 14));
}

#[test]
fn readers_beside_appends_writes_and_syncs_see_no_hole() {
    const UNITS: u64 = 3_000;
    let home = Home::new();
    let table = Arc::new(home.open());
    let is_done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _reader in 0..2 {
            scope.spawn(|| {
                let mut next = 0;
                while next < UNITS {
                    let mut out = Vec::new();
                    let read = table.read(b"t", 0, next, 500, &mut out).unwrap();
                    assert_eq!(out, units(next, next + out.len() as u64));
                    next = read.next;
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                table.sync(0).unwrap();
            }
        });
        for n in 0..UNITS {
            table.append(b"t", 0, n, unit(n), n.cast_signed()).unwrap();
            if n % 97 == 0 {
                table.write_pending().unwrap();
            }
        }
        table.write_pending().unwrap();
        is_done.store(true, Ordering::Release);
    });
    assert_eq!(
        table.sync(0).unwrap().covered_ms,
        Some(UNITS.cast_signed() - 1)
    );
    assert_eq!(read(&table, "t", 0), units(0, UNITS));
}

#[test]
fn descriptors_stay_below_their_bound() {
    let home = Home::new();
    let table = home.open_with(None, 16).unwrap();
    for round in 0..3 {
        for queue_id in 0..100 {
            let placed = table.append(b"t", queue_id, round, unit(round), 5).unwrap();
            assert_eq!(placed, Placed::Appended);
        }
        table.write_pending().unwrap();
        assert!(table.open_files() <= 16);
    }
    let synced = table.sync(0).unwrap();
    assert_eq!((synced.files, synced.covered_ms), (100, Some(5)));
    assert!(table.open_files() <= 16);
    for queue_id in 0..100 {
        let mut out = Vec::new();
        table.read(b"t", queue_id, 0, 10, &mut out).unwrap();
        assert_eq!(out, units(0, 3));
    }
}
