//! Random rows against a naive model: every row leaves once, with its columns' values, within the
//! bounds.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, StructArray};
use mqcore_packing::{Ids, Packed, Packer, RowError, RowFault, Rows, Settings, Topic};
use mqcore_record::batch::items;
use mqcore_record::properties::lookup;
use proptest::prelude::*;

const QUEUES: i32 = 3;
const TOPICS: [&str; 2] = ["red", "blue"];

#[derive(Debug, Clone)]
struct Row {
    topic: usize,
    body: Vec<u8>,
    group: Option<String>,
    queue: Option<i32>,
    delay: i32,
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        0..TOPICS.len(),
        proptest::collection::vec(any::<u8>(), 1..200),
        proptest::option::of("[a-c]"),
        proptest::option::of(0..QUEUES),
        prop_oneof![9 => Just(0), 1 => Just(2)],
    );
    let made = row.prop_map(|(topic, body, group, queue, delay)| Row {
        topic,
        body,
        group,
        queue,
        delay,
    });
    proptest::collection::vec(made, 0..120)
}

fn settings(batch_bytes: usize, open_bytes_max: usize) -> Settings {
    Settings {
        batch_bytes,
        message_bytes_max: 4096,
        open_bytes_max,
        compression: None,
        compression_level: 5,
        compress_above_bytes: 0,
        shared_len_bytes: 0,
        is_marked: true,
        system_names: Vec::new(),
    }
}

fn packer(batch_bytes: usize, open_bytes_max: usize) -> Packer {
    let mut packer = Packer::new(settings(batch_bytes, open_bytes_max));
    for name in TOPICS {
        let queues = (0..QUEUES).map(|queue| ("b".to_owned(), queue)).collect();
        let name = name.to_owned();
        packer.topic(Topic { name, queues });
    }
    packer
}

fn pack(packer: &mut Packer, list: &[Row]) -> Result<Vec<Packed>, RowError> {
    let topics = list.iter().map(|row| TOPICS.get(row.topic));
    let bodies = list.iter().map(|row| Some(&row.body));
    let groups = list.iter().map(|row| row.group.as_ref());
    let queues = list.iter().map(|row| row.queue.map(i64::from));
    let delays = list.iter().map(|row| Some(i64::from(row.delay)));
    let columns: [(&str, ArrayRef); 5] = [
        ("topic", Arc::new(topics.collect::<BinaryArray>())),
        ("body", Arc::new(bodies.collect::<BinaryArray>())),
        ("messageGroup", Arc::new(groups.collect::<BinaryArray>())),
        ("queueId", Arc::new(queues.collect::<Int64Array>())),
        ("delayLevel", Arc::new(delays.collect::<Int64Array>())),
    ];
    let columns = StructArray::try_from(columns.to_vec()).unwrap();
    let rows = Rows::new(&columns, None).unwrap();
    packer.pack(
        &rows,
        Ids {
            lead: "ID",
            first: 0,
        },
    )
}

/// Number and body of each message of a request.
fn messages(packed: &Packed) -> Vec<(u64, Vec<u8>)> {
    let numbered = |text: &[u8], body: &[u8]| {
        let number = std::str::from_utf8(lookup(text, "SPARK_ROW").unwrap()).unwrap();
        (number.parse().unwrap(), body.to_vec())
    };
    if !packed.is_batch {
        return vec![numbered(&packed.properties, &packed.body)];
    }
    let whole = items(&packed.body).map(Result::unwrap);
    whole
        .map(|item| numbered(item.properties, item.body))
        .collect()
}

proptest! {
    #[test]
    fn every_row_leaves_once_in_the_order_of_its_queue(
        list in rows(),
        cut in 1_usize..40,
        batch_bytes in 100_usize..2_000,
        open_bytes_max in 200_usize..4_000,
    ) {
        let mut packer = packer(batch_bytes, open_bytes_max);
        let mut sent = Vec::new();
        for part in list.chunks(cut) {
            sent.extend(pack(&mut packer, part).unwrap());
        }
        let end = packer.finish();
        // Whoever is last of its topic comes behind all others.
        let first_last = end.iter().position(|packed| packed.topic_rows.is_some());
        let others = &end[first_last.unwrap_or(end.len())..];
        prop_assert!(others.iter().all(|packed| packed.topic_rows.is_some()));
        for (topic, _) in TOPICS.iter().enumerate() {
            let count = list.iter().filter(|row| row.topic == topic).count() as u64;
            let last: Vec<_> = others.iter().filter(|packed| packed.topic == topic).collect();
            let row_counts: Vec<_> = last.iter().filter_map(|packed| packed.topic_rows).collect();
            prop_assert_eq!(row_counts, if count == 0 { vec![] } else { vec![count] });
        }
        sent.extend(end);
        let mut seen = BTreeMap::new();
        let mut last_of_queue: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for packed in &sent {
            prop_assert!(!packed.is_batch || packed.body.len() <= batch_bytes);
            let found = messages(packed);
            prop_assert_eq!(found.len() as u64, packed.rows);
            prop_assert_eq!(found.first().map(|one| one.0), Some(packed.first_row));
            prop_assert_eq!(found.last().map(|one| one.0), Some(packed.last_row));
            for (number, body) in found {
                let row = &list[usize::try_from(number).unwrap()];
                prop_assert_eq!(&row.body, &body);
                prop_assert_eq!(row.topic, packed.topic);
                prop_assert!(seen.insert(number, ()).is_none(), "row {} leaves twice", number);
                if let Some(queue) = row.queue {
                    prop_assert_eq!(packed.queue, usize::try_from(queue).ok());
                } else {
                    prop_assert_eq!(row.group.is_some(), packed.queue.is_some());
                }
                if let Some(queue) = packed.queue {
                    let before = last_of_queue.insert((packed.topic, queue), number);
                    prop_assert!(before.is_none_or(|before| before < number), "rows overtake");
                }
            }
        }
        prop_assert_eq!(seen.len(), list.len());
    }
}

#[test]
fn the_first_row_that_cannot_go_is_numbered_over_all_calls() {
    let fine = Row {
        topic: 0,
        body: b"x".to_vec(),
        group: None,
        queue: None,
        delay: 0,
    };
    let mut packer = packer(1_000, 10_000);
    pack(&mut packer, &[fine.clone(), fine.clone()]).unwrap();
    let bad = Row {
        body: vec![0; 5_000],
        ..fine.clone()
    };
    let refused = pack(&mut packer, &[fine, bad]).unwrap_err();
    assert_eq!(refused.row, 3);
    assert_eq!(
        refused.fault,
        RowFault::BodyTooLarge {
            len: 5_000,
            max: 4_096
        }
    );
}
