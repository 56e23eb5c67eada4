//! Random logs, cut and damaged anywhere, read by several readers in pieces of any length: the same
//! records and the same damage as one reader sees, and every whole record among them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

mod log;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use log::{Seen, Sent, record_offsets, spans, walk, whole};
use mqcore_columns::{BadRecords, Column, Filter, Limits, RecordColumns, ScanError, Span, Walk};
use mqcore_record::{CrcCheck, Found, RecordView, check, properties, write_blank};
use proptest::prelude::*;

const BASE: u64 = 3 << 20;

fn sent() -> impl Strategy<Value = Sent> {
    let body = proptest::collection::vec(any::<u8>(), 0..200);
    let pairs = proptest::collection::vec(("[A-Z]{1,6}", "[a-z]{1,9}"), 0..4);
    ("[a-z]{1,20}", body, pairs, any::<bool>(), any::<bool>()).prop_map(
        |(topic, body, pairs, is_v6, is_v2)| Sent {
            topic,
            body,
            pairs,
            is_v6,
            is_v2,
            sys_flag: 0,
        },
    )
}

fn logs() -> impl Strategy<Value = Vec<Sent>> {
    proptest::collection::vec(sent(), 1..12)
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![1..9_usize, 1..400_usize], 1..6)
}

fn side_by_side(bytes: &[u8], cuts: &[usize], pieces: &[usize], is_log_end: bool) -> Seen {
    let mut all = Seen::default();
    for span in spans(bytes, BASE, cuts, is_log_end) {
        let start = (span.start - BASE) as usize;
        let seen = walk(&bytes[start..], span.start, span, pieces);
        all.records.extend(seen.records);
        all.damage.extend(seen.damage);
    }
    all
}

proptest! {
    #[test]
    fn readers_side_by_side_see_what_one_sees(
        sent in logs(), cuts in proptest::collection::vec(any::<usize>(), 0..6), pieces in pieces(),
    ) {
        let bytes = log::log(&sent, BASE);
        let expected = record_offsets(&bytes, BASE);
        prop_assert_eq!(expected.len(), sent.len());
        let all = side_by_side(&bytes, &cuts, &pieces, false);
        prop_assert_eq!(all.records, expected);
        prop_assert_eq!(all.damage, vec![]);
    }

    #[test]
    fn behind_damage_every_whole_record_is_found(
        sent in logs(),
        (at, junk) in (any::<usize>(), proptest::collection::vec(any::<u8>(), 1..60)),
        cuts in proptest::collection::vec(any::<usize>(), 0..6),
        pieces in pieces(),
    ) {
        let mut bytes = log::log(&sent, BASE);
        let expected = record_offsets(&bytes, BASE);
        let at = at % bytes.len();
        let end = bytes.len().min(at + junk.len());
        bytes[at..end].copy_from_slice(&junk[..end - at]);
        let one = walk(&bytes, BASE, whole(&bytes, BASE, false), &[usize::MAX]);
        // What the junk did not touch is all there.
        let mut ends: Vec<u64> = expected[1..].to_vec();
        ends.push(BASE + bytes.len() as u64);
        for (start, after) in expected.iter().zip(ends) {
            let is_touched = *start < BASE + end as u64 && after > BASE + at as u64;
            prop_assert!(is_touched || one.records.contains(start), "{start}");
        }
        // Records and damage lie side by side, to the end.
        for damage in &one.damage {
            prop_assert!(damage.end > damage.at);
            let inside = one.records.iter().any(|r| (damage.at..damage.end).contains(r));
            prop_assert!(!inside);
        }
        // What is wrong may be described in other words where less of it had come.
        let all = side_by_side(&bytes, &cuts, &pieces, false);
        let damaged = |seen: &Seen| -> Vec<_> {
            seen.damage.iter().map(|damage| (damage.at, damage.end)).collect()
        };
        prop_assert_eq!(damaged(&all), damaged(&one));
        prop_assert_eq!(all.records, one.records);
    }

    #[test]
    fn the_end_of_a_log_is_no_damage(
        sent in logs(), zeros in 0..300_usize, cut in any::<usize>(), pieces in pieces(),
    ) {
        let mut bytes = log::log(&sent, BASE);
        let torn = cut % bytes.len();
        bytes.truncate(torn);
        bytes.resize(torn + zeros, 0);
        prop_assume!(!bytes.is_empty());
        let seen = walk(&bytes, BASE, whole(&bytes, BASE, true), &pieces);
        let all = record_offsets(&log::log(&sent, BASE), BASE);
        prop_assert!(all.starts_with(&seen.records));
        prop_assert_eq!(seen.damage, vec![]);
    }

    #[test]
    fn a_batch_ends_with_the_row_that_passes_its_bytes(sent in logs(), batch_bytes in 1..900_usize) {
        let bytes = log::log(&sent, BASE);
        let columns = [Column::Topic, Column::BrokerName, Column::Body, Column::MsgId, Column::BornHost];
        let limits = Limits { batch_rows: 100, batch_bytes, inflated_bytes: 1 << 20 };
        let span = (whole(&bytes, BASE, false), CrcCheck::Verify);
        let name = Some(b"a broker".to_vec());
        let filter = Filter::default();
        let mut reading =
            RecordColumns::new(&columns, filter, name, limits, BadRecords::Fail, span);
        let mut batches = Vec::new();
        reading.feed(&bytes, &mut batches).unwrap();
        reading.finish(&mut batches).unwrap();
        prop_assert_eq!(batches.iter().map(|batch| batch.rows).sum::<usize>(), sent.len());
        for (at, batch) in batches.iter().enumerate() {
            let of_row = |row: usize| -> usize {
                batch.columns.iter().map(|column| texts(column)[row].len()).sum()
            };
            let all: usize = (0..batch.rows).map(of_row).sum();
            prop_assert!(all - of_row(batch.rows - 1) < batch_bytes, "not one row more");
            prop_assert!(all >= batch_bytes || at + 1 == batches.len(), "nor one fewer");
        }
    }

    #[test]
    fn columns_hold_what_was_sent(sent in logs(), batch_rows in 1..5_usize, pieces in pieces()) {
        let bytes = log::log(&sent, BASE);
        let columns = [Column::Topic, Column::Body, Column::QueueOffset, Column::StoreTimestamp];
        let limits = Limits { batch_rows, batch_bytes: 1 << 20, inflated_bytes: 1 << 20 };
        let span = whole(&bytes, BASE, false);
        let mut reading = RecordColumns::new(
            &columns, Filter::default(), None, limits, BadRecords::Fail, (span, CrcCheck::Verify),
        );
        let (mut batches, mut rest) = (Vec::new(), &bytes[..]);
        for len in pieces.iter().cycle() {
            if rest.is_empty() { break }
            let (piece, later) = rest.split_at((*len).min(rest.len()));
            reading.feed(piece, &mut batches).unwrap();
            rest = later;
        }
        reading.finish(&mut batches).unwrap();
        let mut rows = Vec::new();
        for batch in &batches {
            prop_assert!(batch.rows <= batch_rows);
            let topics = texts(&batch.columns[0]);
            let bodies = texts(&batch.columns[1]);
            rows.extend(topics.into_iter().zip(bodies));
        }
        let expected: Vec<_> =
            sent.iter().map(|m| (m.topic.clone().into_bytes(), m.body.clone())).collect();
        prop_assert_eq!(rows, expected);
        prop_assert_eq!(reading.tally().records, sent.len() as u64);
    }
}

/// The values of a column of texts or bytes, none of them null.
fn texts(column: &ArrayRef) -> Vec<Vec<u8>> {
    assert_eq!(column.null_count(), 0);
    match column.as_binary_opt::<i32>() {
        Some(bytes) => bytes.iter().flatten().map(<[u8]>::to_vec).collect(),
        None => {
            let texts = column.as_string::<i32>().iter().flatten();
            texts.map(|text| text.as_bytes().to_vec()).collect()
        }
    }
}

fn reading(columns: &[Column], filter: Filter, bad: BadRecords, span: Span) -> RecordColumns {
    let limits = Limits {
        batch_rows: 100,
        batch_bytes: 1 << 20,
        inflated_bytes: 1_000,
    };
    RecordColumns::new(columns, filter, None, limits, bad, (span, CrcCheck::Verify))
}

#[test]
fn a_blank_ends_a_file_wherever_it_is_cut() {
    let mut bytes = log::log(&[Sent::plain("a", b"1"), Sent::plain("b", b"2")], BASE);
    let expected = record_offsets(&bytes, BASE);
    let end = bytes.len();
    bytes.resize(end + 500, 0xDA);
    write_blank(&mut bytes[end..], 500);
    for cut in 0..bytes.len() {
        let all = side_by_side(&bytes, &[cut], &[7], false);
        assert_eq!(
            (all.records, all.damage),
            (expected.clone(), vec![]),
            "{cut}"
        );
    }
}

#[test]
fn damage_behind_a_cut_is_reported_once() {
    let sent: Vec<Sent> = (0..5).map(|_| Sent::plain("topic", &[7; 50])).collect();
    let mut bytes = log::log(&sent, BASE);
    let starts = record_offsets(&bytes, BASE);
    let second = (starts[2] - BASE) as usize;
    bytes[second + 4] ^= 0xFF; // the magic
    for cut in 0..bytes.len() {
        let all = side_by_side(&bytes, &[cut], &[64], false);
        assert_eq!(all.damage.len(), 1, "{cut}");
        assert_eq!(
            (all.damage[0].at, all.damage[0].end),
            (starts[2], starts[3])
        );
        assert_eq!(all.records.len(), 4);
    }
}

#[test]
fn a_claimed_length_that_cannot_be_is_not_waited_for() {
    let sent: Vec<Sent> = (0..4).map(|_| Sent::plain("topic", &[7; 200])).collect();
    let mut bytes = log::log(&sent, BASE);
    let starts = record_offsets(&bytes, BASE);
    let first = (starts[1] - BASE) as usize;
    bytes[first..first + 4].copy_from_slice(&(900_000_i32).to_be_bytes());
    let mut walk = Walk::new(
        Span {
            limit: BASE + (1 << 30),
            ..whole(&bytes, BASE, false)
        },
        CrcCheck::Skip,
    );
    let mut seen = Seen::default();
    walk.feed(&bytes, |step| seen.note(step)).unwrap();
    assert_eq!(seen.records, [starts[0], starts[2], starts[3]]);
    assert_eq!(
        (seen.damage[0].at, seen.damage[0].end),
        (starts[1], starts[2])
    );
}

#[test]
fn filters_are_asked_before_bodies() {
    let mut sent: Vec<Sent> = Vec::new();
    for number in 0..12 {
        let mut message = Sent::plain(["a", "b", "rmq_sys_c"][number % 3], b"x");
        let tag = ["s", "t"][number % 2].to_owned();
        message.pairs.push(("TAGS".to_owned(), tag));
        // A body that is no zlib stream: only wanted ones are inflated.
        message.sys_flag = i32::from(message.topic == "b");
        sent.push(message);
    }
    let bytes = log::log(&sent, BASE);
    let set = |names: &[&str]| Some(names.iter().map(|n| n.as_bytes().to_vec()).collect());
    let run = |filter: Filter, bad| {
        let mut out = Vec::new();
        let columns = [Column::QueueOffset, Column::Body, Column::Corrupt];
        let span = whole(&bytes, BASE, false);
        let mut reading = reading(&columns, filter, bad, span);
        reading.feed(&bytes, &mut out)?;
        reading.finish(&mut out)?;
        let offsets = |batch: &mqcore_columns::Batch| {
            let offsets = batch.columns[0].as_primitive::<Int64Type>();
            offsets.values().to_vec()
        };
        Ok::<_, ScanError>((
            out.iter().flat_map(offsets).collect::<Vec<_>>(),
            reading.tally(),
        ))
    };
    let fail = |filter| run(filter, BadRecords::Fail).unwrap().0;
    let only_a = Filter {
        topics: set(&["a"]),
        ..Filter::default()
    };
    assert_eq!(fail(only_a.clone()), [0, 3, 6, 9]);
    let tagged = Filter {
        tags: set(&["t"]),
        ..only_a.clone()
    };
    assert_eq!(fail(tagged), [3, 9]);
    let timed = Filter {
        start_ms: Some(2_003),
        end_ms: Some(2_009),
        ..only_a.clone()
    };
    assert_eq!(fail(timed), [3, 6]);
    let placed = Filter {
        start_queue_offset: Some(1),
        end_queue_offset: Some(7),
        queue_ids: Some([0].into()),
        ..only_a
    };
    assert_eq!(fail(placed), [3, 6]);
    let hidden = Filter {
        hidden_topics: set(&["a"]).unwrap(),
        hidden_prefixes: vec![b"rmq_sys_".to_vec()],
        ..Filter::default()
    };
    let (offsets, tally) = run(hidden.clone(), BadRecords::Skip).unwrap();
    assert_eq!((offsets, tally.skipped, tally.records), (vec![], 4, 12));
    let (offsets, _) = run(hidden.clone(), BadRecords::Emit).unwrap();
    assert_eq!(offsets.len(), 4);
    assert!(run(hidden, BadRecords::Fail).is_err());
}

#[test]
fn answers_are_read_wherever_their_records_stand() {
    let one = log::log(&[Sent::plain("a", b"1"), Sent::plain("a", b"2")], 5_000);
    let two = log::log(&[Sent::plain("a", b"3")], 77);
    let span = whole(&[], 0, true);
    let mut reading = reading(&[Column::Body], Filter::default(), BadRecords::Fail, span);
    let mut out = Vec::new();
    reading.answer(&one, &mut out).unwrap();
    reading.answer(&two, &mut out).unwrap();
    assert!(out.is_empty());
    reading.flush(&mut out);
    assert_eq!(texts(&out[0].columns[0]), [b"1", b"2", b"3"]);
    let cut = reading.answer(&one[..one.len() - 1], &mut out).unwrap_err();
    let ScanError::Damaged(damage) = cut;
    assert_eq!(damage.end, one.len() as u64 - 1);
}

#[test]
fn of_a_name_that_comes_twice_the_last_value_is_kept() {
    for many in [2, 40] {
        let mut message = Sent::plain("a", b"");
        for number in 0..many {
            message.pairs.push((format!("k{number}"), "x".to_owned()));
        }
        message.pairs.push(("k0".to_owned(), "last".to_owned()));
        let bytes = log::log(&[message], BASE);
        let span = whole(&bytes, BASE, false);
        let mut reading = reading(
            &[Column::Properties],
            Filter::default(),
            BadRecords::Fail,
            span,
        );
        let mut out = Vec::new();
        reading.feed(&bytes, &mut out).unwrap();
        reading.finish(&mut out).unwrap();
        let map = out[0].columns[0].as_map();
        assert_eq!(map.value_offsets(), [0, many]);
        let values = texts(map.values());
        assert_eq!(values.last().unwrap(), b"last");
        assert_eq!(
            values.iter().filter(|value| *value == b"x").count(),
            many as usize - 1
        );
    }
}

#[test]
fn text_that_is_no_utf8_is_replaced_value_by_value() {
    let sent = ["a\u{e9}", "b"].map(|topic| Sent::plain(topic, b"x"));
    let mut bytes = log::log(&sent, BASE);
    let at = bytes
        .windows(2)
        .position(|pair| pair == [0xC3, 0xA9])
        .unwrap();
    bytes[at] = b'c';
    let span = whole(&bytes, BASE, false);
    let columns = [Column::Topic];
    let mut reading = reading(&columns, Filter::default(), BadRecords::Fail, span);
    let mut out = Vec::new();
    reading.feed(&bytes, &mut out).unwrap();
    reading.finish(&mut out).unwrap();
    assert_eq!(texts(&out[0].columns[0]), ["ac\u{FFFD}".as_bytes(), b"b"]);
}

#[test]
fn batches_that_are_one_record_are_taken_apart_in_answers() {
    const VECTOR: &[u8] = include_bytes!("../../../tests/golden/vectors/v53.commitlog");
    let mut records = Vec::new();
    let mut rest = VECTOR;
    while let Ok(Found::Record(record)) = check(rest, CrcCheck::Verify) {
        rest = &rest[record.total_len_bytes..];
        records.push(record);
    }
    let inner = |record: &RecordView<'_>| -> Option<usize> {
        let count = properties::lookup(record.properties, properties::INNER_NUM)?;
        str::from_utf8(count).unwrap().parse().ok()
    };
    let messages: usize = records
        .iter()
        .map(|record| inner(record).unwrap_or(1))
        .sum();
    assert!(messages > records.len());
    let span = whole(&[], 0, true);
    let columns = [Column::QueueOffset, Column::Body];
    let mut reading = reading(&columns, Filter::default(), BadRecords::Fail, span);
    let mut out = Vec::new();
    reading.answer(VECTOR, &mut out).unwrap();
    reading.flush(&mut out);
    assert_eq!(out[0].rows, messages);
    assert_eq!(reading.tally().records, messages as u64);
}
