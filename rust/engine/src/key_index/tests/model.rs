//! The index against a naive model: a list of records.

use proptest::prelude::*;

use super::setup::{Dir, START_MS, Setup, abnormal, keyed};
use crate::clock::ManualClock;
use crate::disk::RealDisk;
use crate::key_index::{KeyIndex, LastExit, Layout, verify_file};

/// What is done to the index and its model.
#[derive(Debug, Clone)]
enum Step {
    Put { keys: Vec<u8>, pause_s: u8 },
    Sync,
    Retain(u8),
    Truncate(u8),
    Reopen { is_clean: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (proptest::collection::vec(0u8..6, 0..4), 0u8..3)
            .prop_map(|(keys, pause_s)| Step::Put { keys, pause_s }),
        2 => Just(Step::Sync),
        1 => any::<u8>().prop_map(Step::Retain),
        1 => any::<u8>().prop_map(Step::Truncate),
        2 => any::<bool>().prop_map(|is_clean| Step::Reopen { is_clean }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A record of the model's log.
#[derive(Debug, Clone)]
struct Record {
    offset: u64,
    time_ms: i64,
    keys: String,
}

fn dispatch(index: &KeyIndex<RealDisk, ManualClock>, log: &[Record], from: u64) {
    for record in log.iter().filter(|record| record.offset >= from) {
        let message = keyed(&record.keys, record.offset, record.time_ms);
        index.writer().put_message(&message).unwrap();
    }
}

fn check(index: &KeyIndex<RealDisk, ManualClock>, log: &[Record], kept_from: u64) {
    for key in 0..6u8 {
        let key = format!("k{key}");
        let expected: Vec<u64> = log
            .iter()
            .rev()
            .flat_map(|record| {
                let times = record.keys.split(' ').filter(|piece| *piece == key).count();
                std::iter::repeat_n(record.offset, times)
            })
            .collect();
        let mut found = index
            .query(b"t", key.as_bytes(), 64, 0, i64::MAX)
            .unwrap()
            .physical_offsets;
        // Files go as a whole: the oldest one may hold records that are gone.
        found.retain(|offset| *offset >= kept_from);
        let kept = expected.iter().filter(|offset| **offset >= kept_from);
        let kept: Vec<u64> = kept.copied().take(64).collect();
        assert_eq!(found, kept, "{key}");
        if let (Some(first), Some(last)) = (log.first(), log.last()) {
            let middle = (first.time_ms + last.time_ms) / 2000 * 1000;
            let answer = index
                .query(b"t", key.as_bytes(), 64, middle, i64::MAX)
                .unwrap();
            let time = |offset: &u64| log.iter().find(|r| r.offset == *offset).map(|r| r.time_ms);
            let in_time = expected
                .iter()
                .filter(|offset| time(offset) >= Some(middle));
            let in_time: Vec<u64> = in_time
                .filter(|o| **o >= kept_from)
                .copied()
                .take(64)
                .collect();
            let mut found = answer.physical_offsets;
            found.retain(|offset| *offset >= kept_from);
            assert_eq!(found, in_time, "{key} from {middle}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_index_finds_what_the_model_finds(
        steps in steps(),
        slots in 1u64..9,
        entries in 2u64..12,
    ) {
        let dir = Dir::new();
        let setup = Setup::new(RealDisk, slots, entries);
        let mut index = setup.open(&dir.0, LastExit::Clean).unwrap();
        let mut log: Vec<Record> = Vec::new();
        let (mut now_ms, mut checkpoint_ms, mut kept_from, mut end) = (START_MS, 0, 0, 0);
        for step in steps {
            match step {
                Step::Put { keys, pause_s } => {
                    now_ms += i64::from(pause_s) * 1000;
                    let keys: Vec<String> = keys.iter().map(|key| format!("k{key}")).collect();
                    let record = Record { offset: end, time_ms: now_ms, keys: keys.join(" ") };
                    end += 10;
                    dispatch(&index, std::slice::from_ref(&record), 0);
                    log.push(record);
                }
                Step::Sync => {
                    checkpoint_ms = index.syncing().sync().unwrap().unwrap_or(0).max(checkpoint_ms);
                }
                Step::Retain(part) => {
                    kept_from = kept_from.max(end * u64::from(part) / 512);
                    index.retain(kept_from).unwrap();
                }
                Step::Truncate(part) => {
                    let cut = kept_from + (end - kept_from) * (256 + u64::from(part)) / 512;
                    log.retain(|record| record.offset < cut);
                    let from = index.writer().truncate_from(cut).unwrap();
                    dispatch(&index, &log, from);
                }
                Step::Reopen { is_clean } => {
                    let last_exit = if is_clean {
                        index.syncing().sync_all().unwrap();
                        LastExit::Clean
                    } else {
                        abnormal(checkpoint_ms)
                    };
                    drop(index);
                    index = setup.open(&dir.0, last_exit).unwrap();
                    let from = index.writer().resume_offset();
                    dispatch(&index, &log, from);
                }
            }
            check(&index, &log, kept_from);
            // Dispatching everything again changes nothing.
            let before = dir.bytes();
            dispatch(&index, &log, 0);
            prop_assert!(before == dir.bytes());
        }
        for (path, _) in dir.bytes() {
            let problems = verify_file(&RealDisk, &path, Layout::of(slots, entries)).unwrap();
            prop_assert_eq!(problems, []);
        }
    }
}
