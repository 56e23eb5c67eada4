//! Keeping what is whole behind bad bytes.

use std::path::Path;

use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::Error;
use mqcore_engine::store::OpenHow;
use mqcore_record::CrcCheck;

use super::*;

/// Keeps what is behind, and looks at the store then and after both ends.
fn kept(disk: &TwinDisk, count: usize, len: usize, bad: &[usize], pairs: &[(&str, &str)]) {
    let store = open_with(disk, OpenHow::KeepBehind, pairs).unwrap();
    let replaced = &store.report().replaced;
    assert!(!replaced.at.is_empty());
    assert_eq!(replaced.kept_in.len(), replaced.at.len());
    assert!(!store.report().cut.is_loss(), "{:?}", store.report());
    assert!(!errors(&store).is_empty());
    let check = |store: &TwinStore| {
        for queue_id in 0..3 {
            let expected: Vec<Vec<u8>> = (0..count)
                .filter(|number| number % 3 == queue_id)
                .map(|number| {
                    if bad.contains(&number) {
                        Vec::new()
                    } else {
                        body(number, len)
                    }
                })
                .collect();
            assert_eq!(
                consumed(store, queue_id as i32),
                expected,
                "queue {queue_id}"
            );
        }
        assert!(official_walk(store) >= count as u64);
    };
    check(&store);
    for is_stopped in [true, false] {
        let image = disk.fork();
        let store = if is_stopped {
            open_with(&image, OpenHow::RefuseDamage, pairs).unwrap()
        } else {
            open_with(&disk.fork(), OpenHow::RefuseDamage, pairs).unwrap()
        };
        check(&store);
        assert_eq!(
            append(&store, "T", 0, b"next").unwrap().1,
            count.div_ceil(3) as u64
        );
        if is_stopped {
            assert!(store.close().unwrap());
            let store = open_with(&image, OpenHow::RefuseDamage, pairs).unwrap();
            assert_eq!(
                store.topics().bounds(b"T", 0).unwrap().unwrap().max,
                count.div_ceil(3) as u64 + 1
            );
        }
    }
}

#[test]
fn a_flip_anywhere_in_a_record_is_seen_or_harmless_and_what_follows_can_be_kept() {
    let mut seen = 0;
    for left in [Left::Killed, Left::Dispatched] {
        let (disk, offsets) = stored(left, 12, 40, &[]);
        for at in offsets[4]..offsets[5] {
            let image = disk.fork();
            assert!(image.flip_bit(Path::new(LOG), at, 6));
            match open_with(&image.fork(), OpenHow::RefuseDamage, &[]) {
                // Fields that no CRC covers.
                Ok(store) => assert!(!store.report().cut.is_loss(), "byte {at}"),
                Err(Error::Damaged {
                    physical_offset, ..
                }) => {
                    assert_eq!(physical_offset, offsets[4], "byte {at}");
                    seen += 1;
                    kept(&image, 12, 40, &[4], &[]);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn with_record_crcs_a_flip_anywhere_is_seen_and_what_follows_can_be_kept() {
    let (disk, offsets) = stored(Left::Dispatched, 12, 40, &CRC);
    for at in offsets[4]..offsets[5] {
        let image = disk.fork();
        assert!(image.flip_bit(Path::new(LOG), at, 6));
        let refused = open_with(&image, OpenHow::RefuseDamage, &CRC).err();
        assert!(matches!(refused, Some(Error::Damaged { .. })), "byte {at}");
        kept(&image, 12, 40, &[4], &CRC);
    }
}

#[test]
fn several_bad_stretches_and_whole_pages_are_kept_around() {
    for left in [Left::Killed, Left::HalfNoted, Left::Dispatched] {
        let (disk, offsets) = stored(left, 60, 300, &[]);
        let file = disk.open(Path::new(LOG), Open::Write).unwrap();
        // Records 10 to 13 in part or whole, 30, and 45 with its head.
        file.write_at(&[0; 1_000], offsets[10] + 200).unwrap();
        assert!(disk.flip_bit(Path::new(LOG), offsets[30] + 150, 1));
        file.write_at(&[0xee; 60], offsets[45]).unwrap();
        let bad: Vec<usize> = (10..60)
            .filter(|number| {
                let end = offsets.get(number + 1).copied().unwrap_or(u64::MAX);
                let is_hit = offsets[*number] < offsets[10] + 1_200 && end > offsets[10] + 200;
                is_hit || [30, 45].contains(number)
            })
            .collect();
        assert_eq!(bad.len(), 5);
        kept(&disk, 60, 300, &bad, &[]);
    }
}

#[test]
fn bad_bytes_at_the_end_of_a_file_are_kept_around() {
    for left in [Left::Killed, Left::Dispatched] {
        for (records_back, bytes) in [(1, 8), (1, 900), (3, 2_500), (0, 8)] {
            let (disk, offsets) = stored(left, 200, 1_000, &[]);
            let first_behind = offsets
                .iter()
                .position(|offset| *offset >= SEGMENT)
                .unwrap();
            let from = if records_back == 0 {
                // The blank marker itself.
                offsets[first_behind - 1] + (offsets[1] - offsets[0])
            } else {
                offsets[first_behind - records_back]
            };
            let file = disk.open(Path::new(LOG), Open::Write).unwrap();
            file.write_at(&vec![0x77; bytes], from).unwrap();
            let bad: Vec<usize> = (0..200)
                .filter(|number| {
                    let len = offsets[1] - offsets[0];
                    offsets[*number] < from + bytes as u64 && offsets[*number] + len > from
                })
                .collect();
            kept(&disk, 200, 1_000, &bad, &[]);
        }
    }
}

#[test]
fn a_bad_record_of_any_length_is_replaced_by_one_of_the_same_length() {
    for len in [0, 1, 16, 17, 18, 300, 33_000, 59_000] {
        for left in [Left::Killed, Left::Dispatched] {
            let (disk, offsets) = stored(left, 6, len, &[]);
            let file = disk.open(Path::new(LOG), Open::Write).unwrap();
            file.write_at(&[9; 4], offsets[1] + 8).unwrap();
            file.write_at(&[9; 4], offsets[1] + 28).unwrap();
            let store = open_with(&disk, OpenHow::KeepBehind, &[]).unwrap();
            assert_eq!(
                store
                    .reader()
                    .record_at(offsets[2])
                    .unwrap()
                    .view(CrcCheck::Verify)
                    .unwrap()
                    .body,
                body(2, len)
            );
            assert_eq!(store.report().replaced.bytes, offsets[2] - offsets[1]);
            while store.dispatching().step().unwrap() {}
            assert_eq!(
                store.topics().bounds(b"T", 1).unwrap().unwrap().max,
                2,
                "{len} {left:?}"
            );
            let official = official_walk(&store);
            assert!((5..=7).contains(&official), "{official}");
        }
    }
}

#[test]
fn keeping_is_finished_after_a_crash_anywhere() {
    let (disk, offsets) = stored(Left::Dispatched, 12, 300, &[]);
    assert!(disk.flip_bit(Path::new(LOG), offsets[4] + 200, 3));
    let original = disk.read(Path::new(LOG)).unwrap();
    let original = &original[offsets[4] as usize..offsets[5] as usize];
    for call in 1.. {
        let image = disk.fork();
        image.stop_at_call(call);
        let is_through = open_with(&image, OpenHow::KeepBehind, &[]).is_ok();
        image.heal();
        let store = open_with(&image, OpenHow::KeepBehind, &[]).unwrap();
        for queue_id in 0..3 {
            assert_eq!(
                consumed(&store, queue_id).len(),
                4,
                "stopped at call {call}"
            );
        }
        let name = format!("/store/truncated/{:020}", offsets[4]);
        assert_eq!(image.read(Path::new(&name)).unwrap(), original);
        if is_through {
            assert!(call > 40);
            break;
        }
    }
}
