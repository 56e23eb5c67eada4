//! The records of a real store decode to what the official decoder reads, and encode to the same
//! bytes. Reads `tests/golden/vectors`; knows the format only through the crate's public face.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use std::collections::BTreeMap;
use std::fs;

use mqcore_record::{
    CrcCheck, Found, Limits, Message, Prepared, RecordError, RecordView, check, head,
    index_key_hash, properties, scan_wanted, tags_code,
};
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/vectors");
const LIMITS: Limits = Limits {
    body_len_max: 65_536,
};

/// The vectors and how many records each holds.
const VECTORS: [(&str, usize); 2] = [("tiny", 6), ("v53", 5)];

fn log(name: &str) -> Vec<u8> {
    fs::read(format!("{FOLDER}/{name}.commitlog")).unwrap()
}

fn manifest(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(format!("{FOLDER}/{name}.manifest.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Calls `see` with every record and its line.
fn each(mut see: impl FnMut(&RecordView<'_>, &Value)) {
    for (name, count) in VECTORS {
        let (log, manifest) = (log(name), manifest(name));
        let records = records(&log);
        assert_eq!((records.len(), manifest.len()), (count, count), "{name}");
        records
            .iter()
            .zip(&manifest)
            .for_each(|(record, line)| see(record, line));
    }
}

fn records(log: &[u8]) -> Vec<RecordView<'_>> {
    let mut records = Vec::new();
    let mut rest = log;
    while !rest.is_empty() {
        let Found::Record(record) = check(rest, CrcCheck::Verify).unwrap() else {
            panic!("a blank at {}", log.len() - rest.len());
        };
        assert_eq!(head(rest).unwrap(), Found::Record(record));
        rest = &rest[record.total_len_bytes..];
        records.push(record);
    }
    records
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8(bytes.to_vec()).unwrap().into()
}

fn encode_again(record: &RecordView<'_>) -> Vec<u8> {
    let topic = record.topic_str();
    let message = Message {
        topic: &topic,
        queue_id: record.queue_id,
        flag: record.flag,
        sys_flag: record.sys_flag,
        born_timestamp_ms: record.born_timestamp_ms,
        born_host: record.born_host,
        store_host: record.store_host,
        reconsume_times: record.reconsume_times,
        prepared_transaction_offset: record.prepared_transaction_offset,
        body: record.body,
        properties: record.properties,
        version: None,
    };
    let mut prepared = Prepared::new(&message, &LIMITS).unwrap();
    prepared.stamp(
        record.queue_offset,
        record.physical_offset,
        record.store_timestamp_ms,
    );
    let mut written = vec![0xEE; prepared.total_len()];
    prepared.write_to(&mut written);
    written
}

#[test]
fn every_record_has_the_fields_of_the_manifest() {
    each(|record, line| {
        assert_eq!(line["topic"], record.topic_str().as_ref());
        assert_eq!(line["queue_id"], record.queue_id);
        assert_eq!(line["queue_offset"], record.queue_offset);
        assert_eq!(line["physical_offset"], record.physical_offset);
        assert_eq!(line["store_size"], record.total_len_bytes);
        assert_eq!(line["magic"], format!("{:08x}", record.version.magic()));
        assert_eq!(line["sys_flag"], record.sys_flag);
        assert_eq!(line["flag"], record.flag);
        assert_eq!(line["born_timestamp"], record.born_timestamp_ms);
        assert_eq!(line["store_timestamp"], record.store_timestamp_ms);
        assert_eq!(line["born_host"], record.born_host.to_string());
        assert_eq!(line["store_host"], record.store_host.to_string());
        assert_eq!(line["reconsume_times"], record.reconsume_times);
        assert_eq!(
            line["prepared_transaction_offset"],
            record.prepared_transaction_offset
        );
        assert_eq!(line["body_crc"], record.body_crc);
        assert_eq!(line["stored_body_length"], record.body.len());
        assert_eq!(line["msg_id"], record.offset_id());
        assert_eq!(line["tags"], record.tags().map_or(Value::Null, text));
    });
}

#[test]
fn every_record_has_the_properties_of_the_manifest() {
    each(|record, line| {
        let read: BTreeMap<String, Value> = properties::pairs(record.properties)
            .map(|(name, value)| (String::from_utf8(name.to_vec()).unwrap(), text(value)))
            .collect();
        assert_eq!(line["properties"], serde_json::to_value(read).unwrap());
        let wanted = scan_wanted(record.properties);
        assert_eq!(line["tags"], wanted.tags.map_or(Value::Null, text));
        assert_eq!(line["keys"], wanted.keys.map_or(Value::Null, text));
        assert_eq!(line["uniq_key"], wanted.uniq_key.map_or(Value::Null, text));
        let delay = line["properties"]
            .get("DELAY")
            .cloned()
            .unwrap_or(Value::Null);
        assert_eq!(delay, wanted.delay.map_or(Value::Null, text));
        let inner_num = line["properties"]
            .get("INNER_NUM")
            .cloned()
            .unwrap_or(Value::Null);
        assert_eq!(inner_num, wanted.inner_num.map_or(Value::Null, text));
    });
}

#[test]
fn every_record_encodes_to_the_same_bytes() {
    for (name, _) in VECTORS {
        let log = log(name);
        let written: Vec<u8> = records(&log).iter().flat_map(encode_again).collect();
        assert_eq!(written, log, "{name}");
    }
}

#[test]
fn codes_and_hashes_are_those_of_the_stores_queue_and_index() {
    let log = log("tiny");
    let records = records(&log);
    let codes: Vec<i64> = records
        .iter()
        .map(|record| record.tags().map_or(0, tags_code))
        .collect();
    // The fifth lies in the schedule topic, whose queue holds delivery times instead.
    assert_eq!(
        codes,
        [2_598_919, 0, 2_598_920, 2_598_919, 2_598_919, 2_598_919]
    );
    let hashes: Vec<u32> = records
        .iter()
        .flat_map(|record| {
            let wanted = scan_wanted(record.properties);
            let keys = wanted.keys.unwrap_or_default().split(|byte| *byte == b' ');
            let keys = wanted
                .uniq_key
                .into_iter()
                .chain(keys.filter(|key| !key.is_empty()));
            keys.map(|key| index_key_hash(record.topic, key))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        hashes,
        [
            1_982_730_028,
            616_737_015,
            1_427_504_149,
            1_322_222_754,
            1_415_614_898,
            616_737_015,
            616_737_012,
            1_378_136_819,
            585_724_452,
            1_314_951_108,
            616_737_011,
        ]
    );
}

#[test]
fn a_log_ends_where_zeros_begin() {
    let mut log = log("tiny");
    let end = log.len();
    log.resize(end + 64, 0);
    assert_eq!(
        check(&log[end..], CrcCheck::Verify),
        Err(RecordError::BadMagic { magic: 0 })
    );
}
