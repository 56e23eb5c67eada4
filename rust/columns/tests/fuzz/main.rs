//! Bad bytes into the walk and the columns: rows or damage, never a panic, and never more memory
//! than the bytes give reason for.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../log/mod.rs"]
#[allow(dead_code, reason = "the property tests use all of it")]
mod log;
#[path = "../../../engine/tests/fuzz/run.rs"]
mod run;

use arrow_array::Array;
use mqcore_columns::{BadRecords, Column, Filter, Limits, RecordColumns, queue_units};
use mqcore_record::CrcCheck;
use run::{Target, target};

const BASE: u64 = 1 << 30;
const COLUMNS: [&str; 21] = [
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "msgId",
    "keys",
    "tags",
    "messageGroup",
    "body",
    "bodyLength",
    "flag",
    "sysFlag",
    "reconsumeTimes",
    "bornTimestamp",
    "storeTimestamp",
    "deliverTimestamp",
    "bornHost",
    "storeHost",
    "properties",
    "_corrupt",
];

const TARGETS: [Target; 3] = [
    target("log", logs, read_log),
    target("answer", logs, read_answer),
    target(
        "units",
        || vec![vec![7; 100]],
        |bytes, number| {
            let rows = queue_units(bytes, number.cast_signed()).rows;
            assert!(rows <= bytes.len() / 20);
        },
    ),
];

fn logs() -> Vec<Vec<u8>> {
    let message = |number: usize| log::Sent {
        topic: format!("topic{number}"),
        body: vec![number as u8; number * 13],
        pairs: vec![
            ("TAGS".to_owned(), "t".to_owned()),
            ("KEYS".to_owned(), "k".to_owned()),
        ],
        is_v6: number.is_multiple_of(3),
        is_v2: number.is_multiple_of(2),
        sys_flag: i32::from(number.is_multiple_of(5)),
    };
    let sent: Vec<_> = (1..9).map(message).collect();
    let whole = log::log(&sent, BASE);
    let zeros = [&whole[..], &[0; 200]].concat();
    vec![whole, zeros, log::log(&sent[..1], BASE)]
}

fn reading(bytes: &[u8], number: u64) -> RecordColumns {
    let columns: Vec<Column> = COLUMNS
        .iter()
        .filter_map(|name| Column::named(name))
        .collect();
    let limits = Limits {
        batch_rows: 5,
        batch_bytes: 300,
        inflated_bytes: 10_000,
    };
    let bad = if number.is_multiple_of(2) {
        BadRecords::Skip
    } else {
        BadRecords::Emit
    };
    let mut span = log::whole(bytes, BASE, number.is_multiple_of(3));
    span.is_inside = number.is_multiple_of(5);
    RecordColumns::new(
        &columns,
        Filter::default(),
        None,
        limits,
        bad,
        (span, CrcCheck::Verify),
    )
}

fn check(batches: &[mqcore_columns::Batch]) {
    for batch in batches {
        assert!(batch.rows > 0 && batch.rows <= 5);
        for column in &batch.columns {
            assert_eq!(column.len(), batch.rows);
            column.to_data().validate_full().unwrap();
        }
    }
}

fn read_log(bytes: &[u8], number: u64) {
    let mut reading = reading(bytes, number);
    let mut out = Vec::new();
    for piece in bytes.chunks((number % 90 + 1) as usize) {
        reading.feed(piece, &mut out).unwrap();
    }
    reading.finish(&mut out).unwrap();
    check(&out);
    assert!(reading.walk().good_end() <= BASE + bytes.len() as u64);
}

fn read_answer(bytes: &[u8], number: u64) {
    let mut reading = reading(bytes, number);
    let mut out = Vec::new();
    reading.answer(bytes, &mut out).unwrap();
    reading.flush(&mut out);
    check(&out);
}

#[test]
fn a_sample_of_bad_bytes() {
    run::sample(&TARGETS);
}

#[test]
#[ignore = "minutes: make fuzz runs it"]
fn bad_bytes_for_minutes() {
    run::for_long(&TARGETS);
}
