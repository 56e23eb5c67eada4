//! Topics of batch queues: a batch is kept as one record, answered with its key, and pulled as one;
//! what only looks like a batch is refused.

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_fast_path::repeats::Repeats;
use mqcore_record::batch::{Item, encode as encode_item, items};
use mqcore_record::properties::lookup;
use mqcore_record::sys_flag::{INNER_BATCH, NEED_UNWRAP};
use mqcore_record::{CrcCheck, Found, RecordView, check};

use crate::serving::{Serving, TOPIC, pull_with, response, send_with};

const ILLEGAL: i32 = 13;

fn serving() -> Serving {
    let mut serving = Serving::with(StoreConfig {
        flush_disk_type: FlushDiskType::Async,
        batch_topics: "b".to_owned(),
        ..StoreConfig::default()
    });
    serving.fast_path.policy.topics.insert("b".into(), TOPIC);
    serving
}

fn body(parts: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        let item = Item {
            flag: 0,
            body: part.as_bytes(),
            properties: b"UNIQ_KEY\x01own\x02",
        };
        encode_item(&item, &mut body).unwrap();
    }
    body
}

fn batch(topic: &str, properties: &str, parts: &[&str]) -> Vec<u8> {
    let fields = [("b", topic), ("i", properties), ("m", "true")];
    send_with(1, &fields, &body(parts))
}

/// Queue offset, INNER_NUM and system flag of each record of a pull, and where the next one begins.
fn pulled(serving: &mut Serving, from: u64) -> (Vec<(i64, String, i32)>, String) {
    let from = from.to_string();
    let fields = [
        ("topic", "b"),
        ("queueOffset", from.as_str()),
        ("sysFlag", "4"),
        ("subscription", "*"),
    ];
    let answer = serving.ask(&pull_with(1, &fields));
    assert_eq!(answer.code, 0, "{answer:?}");
    let mut rest = answer.body.as_ref();
    let mut records = Vec::new();
    while let Ok(Found::Record(record)) = check(rest, CrcCheck::Verify) {
        records.push((
            record.queue_offset,
            property(&record, "INNER_NUM"),
            record.sys_flag,
        ));
        rest = &rest[record.total_len_bytes..];
    }
    (records, answer.ext["nextBeginOffset"].clone())
}

fn property(record: &RecordView<'_>, name: &str) -> String {
    let value = lookup(record.properties, name).unwrap_or_default();
    String::from_utf8(value.to_vec()).unwrap()
}

#[test]
fn a_pull_of_offsets_of_a_batch_queue_has_its_records() {
    let mut serving = serving();
    serving.ask(&batch("b", "UNIQ_KEY\u{1}K\u{2}", &["x", "y", "z"]));
    serving.settle();
    let fields = [("topic", "b"), ("sysFlag", "4"), ("subscription", "*")];
    let with = |shape| [fields[0], fields[1], fields[2], ("mqcoreBulk", shape)];
    let bare = serving.ask(&pull_with(1, &with("places")));
    assert_eq!(bare.code, 0, "{bare:?}");
    assert_eq!(bare.ext["nextBeginOffset"], "3");
    let same = serving.ask(&pull_with(1, &with("bodiless")));
    assert_eq!(bare.body, same.body);
}

#[test]
fn messages_inside_a_record_lose_the_handles_of_earlier_pops() {
    let mut serving = serving();
    let mut body = Vec::new();
    let texts = ["POP_CK\u{1}0 1\u{2}k\u{1}v\u{2}", "k\u{1}v\u{2}"];
    for text in texts {
        let item = Item {
            flag: 7,
            body: b"body",
            properties: text.as_bytes(),
        };
        encode_item(&item, &mut body).unwrap();
    }
    let key = ("i", "UNIQ_KEY\u{1}K\u{2}POP_CK\u{1}0 1\u{2}");
    let fields = [("b", "b"), key, ("m", "true")];
    assert_eq!(serving.ask(&send_with(1, &fields, &body)).code, 0);
    let record = serving.store.reader().record_at(0).unwrap();
    let view = record.view(CrcCheck::Verify).unwrap();
    assert_eq!(property(&view, "POP_CK"), "");
    let kept: Vec<_> = items(view.body).map(|item| item.unwrap()).collect();
    assert_eq!(kept.len(), 2);
    for item in kept {
        assert_eq!((item.flag, item.body), (7, &b"body"[..]));
        assert_eq!(item.properties, b"k\x01v\x02");
    }
}

#[test]
fn a_batch_with_a_key_is_one_record_that_takes_an_offset_a_message() {
    let mut serving = serving();
    let single = serving.ask(&send_with(1, &[("b", "b")], b"alone"));
    assert_eq!(single.ext["queueOffset"], "0");
    assert!(!single.ext.contains_key("batchUniqId"));
    let first = serving.ask(&batch("b", "UNIQ_KEY\u{1}K\u{2}", &["x", "y", "z"]));
    assert_eq!((first.code, first.ext["queueOffset"].as_str()), (0, "1"));
    assert_eq!(first.ext["batchUniqId"], "K");
    assert_eq!(first.ext["msgId"].len(), 32, "one id");
    let without = serving.ask(&batch("b", "", &["p", "q"]));
    assert_eq!(without.ext["queueOffset"], "4");
    assert_eq!(without.ext["msgId"].len(), 65, "two records");
    let last = serving.ask(&batch("b", "UNIQ_KEY\u{1}L\u{2}", &["w"]));
    assert_eq!(last.ext["queueOffset"], "6");
    serving.settle();
    let wrapped = INNER_BATCH | NEED_UNWRAP;
    let whole = [
        (0, String::new(), 0),
        (1, "3".to_owned(), wrapped),
        (4, String::new(), 0),
        (5, String::new(), 0),
        (6, "1".to_owned(), wrapped),
    ];
    assert_eq!(pulled(&mut serving, 0), (whole.to_vec(), "7".to_owned()));
    assert_eq!(
        pulled(&mut serving, 2),
        (whole[1..].to_vec(), "7".to_owned())
    );
    assert_eq!(serving.number("sends"), 7);
    let plain = serving.ask(&batch("t", "UNIQ_KEY\u{1}K\u{2}", &["x", "y"]));
    assert_eq!(plain.ext["msgId"].len(), 65, "a topic of plain queues");
    assert!(!plain.ext.contains_key("batchUniqId"));
}

#[test]
fn what_only_looks_like_a_batch_is_illegal() {
    let mut serving = serving();
    let flag = INNER_BATCH.to_string();
    let number = "INNER_NUM\u{1}2\u{2}";
    let cases: [(&str, &str, &str); 6] = [
        ("b", "0", number),
        ("t", "0", number),
        ("t", &flag, number),
        ("b", &flag, "INNER_NUM\u{1}many\u{2}"),
        ("b", &flag, "INNER_NUM\u{1}2\u{2}DELAY\u{1}3\u{2}"),
        ("b", &flag, "INNER_NUM\u{1}2\u{2}TRAN_MSG\u{1}true\u{2}"),
    ];
    for (topic, flags, properties) in cases {
        let fields = [("b", topic), ("f", flags), ("i", properties)];
        let answer = serving.ask(&send_with(1, &fields, b"x"));
        assert_eq!(answer.code, ILLEGAL, "{topic} {flags} {properties:?}");
        let fields = [("b", topic), ("f", flags), ("i", properties), ("m", "true")];
        let answer = serving.ask(&send_with(1, &fields, &body(&["x"])));
        assert_eq!(
            answer.code, ILLEGAL,
            "batch: {topic} {flags} {properties:?}"
        );
    }
    let key = "UNIQ_KEY\u{1}K\u{2}";
    let torn = [("b", "b"), ("i", key), ("m", "true")];
    assert_eq!(serving.ask(&send_with(1, &torn, b"no batch")).code, ILLEGAL);
    let empty = serving.ask(&send_with(1, &torn, b""));
    assert_eq!(response(&empty).0, ILLEGAL);
    let long = vec![""; 32_768];
    let long = serving.ask(&batch("b", key, &long));
    assert_eq!(long.code, ILLEGAL, "a unit counts to 32767");
    let fields = [("b", "b"), ("f", flag.as_str()), ("i", number)];
    let own = serving.ask(&send_with(1, &fields, &body(&["x", "y"])));
    assert_eq!((own.code, own.ext["queueOffset"].as_str()), (0, "0"));
    let next = serving.ask(&send_with(1, &[("b", "b")], b"x"));
    assert_eq!(next.ext["queueOffset"], "2");
}

#[test]
fn a_batch_to_the_retry_topic_of_a_group_is_illegal() {
    let mut serving = serving();
    let retry = "%RETRY%g";
    let topics = &mut serving.fast_path.policy.topics;
    topics.insert(retry.into(), TOPIC);
    let refused = serving.ask(&batch(retry, "", &["x", "y"]));
    let remark = "batch request does not support retry group %RETRY%g";
    assert_eq!(
        (refused.code, refused.remark.as_deref()),
        (ILLEGAL, Some(remark))
    );
    let alone = serving.ask(&send_with(2, &[("b", retry)], b"x"));
    assert_eq!(alone.code, 0, "{alone:?}");
}

#[test]
fn a_batch_that_comes_again_is_answered_as_the_first() {
    let mut serving = serving();
    let (repeats, _found) = Repeats::open(&serving.store, 60_000, 1 << 20).unwrap();
    serving.fast_path.remember(Some(repeats));
    let first = serving.ask(&batch("b", "UNIQ_KEY\u{1}K\u{2}", &["x", "y"]));
    for _ in 0..2 {
        let again = serving.ask(&batch("b", "UNIQ_KEY\u{1}K\u{2}", &["x", "y"]));
        assert_eq!((&again.ext, again.code), (&first.ext, 0));
        // Also once its unit is in the queue.
        serving.settle();
    }
    let other = serving.ask(&batch("b", "UNIQ_KEY\u{1}K\u{2}", &["x", "z"]));
    assert_eq!(other.ext["queueOffset"], "2", "another body");
}
