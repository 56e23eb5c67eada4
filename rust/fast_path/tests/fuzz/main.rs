//! Bad bytes into a fast path over a store: requests are executed, refused or end their connection; what
//! was stored is whole, the other serving do not notice, and nothing stays behind.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[allow(dead_code, reason = "the tests of pops need all of it")]
#[path = "../fast_path/popping.rs"]
mod popping;
mod pops;
#[path = "../../../engine/tests/fuzz/run.rs"]
mod run;
#[allow(dead_code, reason = "the other tests of the fast path need all of it")]
#[path = "../fast_path/serving.rs"]
mod serving;

use mqcore_engine::commit_log::{Scan, Stop, scan};
use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::sql::Sql;
use mqcore_record::CrcCheck;
use mqcore_wire::command::encode;
use mqcore_wire::{Head, Serialization};
use run::{Target, target};
use serving::{Serving, host, pull_with, request, send_with};

const TARGETS: [Target; 4] = [
    Target {
        is_slow: true,
        ..target("lane", conversations, fast_path)
    },
    target("sql", expressions, sql),
    Target {
        is_slow: true,
        ..target("pops", pops::conversations, pops::pops)
    },
    Target {
        is_slow: true,
        ..target("points", pops::points, pops::point)
    },
];

/// Expressions with every construct.
fn expressions() -> Vec<Vec<u8>> {
    let texts = [
        "dep_delay > 60 AND origin = 'JFK'",
        "a BETWEEN -1 AND 2.5 OR NOT (b NOT BETWEEN 1 AND c) -- c\n AND TRUE",
        "a IN ('x', 'it''s', '') and b not in ('ä') /* c */ or c IS NOT NULL",
        "a CONTAINS 'b' OR a NOT STARTSWITH 'c' OR a ENDSWITH '' AND NULL <> FALSE",
        "((((- + a >= 5l))) = (b <> .5e1)) IS NULL",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A text is refused or compiled; compiled, it yields the same twice, of any properties.
fn sql(bytes: &[u8], number: u64) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(sql) = Sql::compile(&text) else {
        return;
    };
    let value = (number % 300).to_string();
    let usual = format!("a\u{1}{value}\u{2}b\u{1}x\u{2}c\u{1}0x1p{value}\u{2}");
    for properties in [usual.as_bytes(), bytes] {
        let response = sql.matches(properties);
        let again = Sql::compile(sql.text()).map(|sql| sql.matches(properties));
        assert_eq!(again, Ok(response));
    }
}

/// The hot requests, each as JSON and binary, in two orders.
fn conversations() -> Vec<Vec<u8>> {
    let queue = [("topic", "t"), ("queueId", "0")];
    let offset = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("commitOffset", "1"),
    ];
    let at = [("topic", "t"), ("queueId", "0"), ("timestamp", "1")];
    let pop = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "-1"),
        ("maxMsgNums", "8"),
        ("invisibleTime", "1000"),
        ("pollTime", "1000"),
        ("initMode", "0"),
        ("exp", "A"),
    ];
    let ack = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("offset", "0"),
        ("invisibleTime", "1000"),
        ("extraInfo", "0 1 1000 0 0 broker-a 0 0"),
    ];
    let json = [
        send_with(1, &[], b"body"),
        send_with(2, &[("i", "TAGS\u{1}A\u{2}KEYS\u{1}k\u{2}")], &[7; 900]),
        pull_with(3, &[]),
        pull_with(4, &[("sysFlag", "7"), ("suspendTimeoutMillis", "1000")]),
        pull_with(
            12,
            &[
                ("sysFlag", "6"),
                ("suspendTimeoutMillis", "1000"),
                ("expressionType", "SQL92"),
                ("subscription", "KEYS = 'k' OR n > 5"),
            ],
        ),
        request(15, 5, &offset, b""),
        request(14, 6, &offset[..3], b""),
        request(29, 7, &at, b""),
        request(30, 8, &queue, b""),
        request(31, 9, &queue, b""),
        request(361, 10, &offset, b""),
        send_with(11, &[("m", "true")], &batch()),
        request(200_050, 12, &pop, b""),
        request(200_051, 13, &ack, b""),
        request(200_053, 14, &ack, b""),
        request(200_054, 15, &pop, b""),
        request(200_052, 16, &pop, b""),
        request(200_151, 17, &[], ACKS),
        request(370, 18, &RECALL, b""),
    ];
    let mut all = vec![
        json.concat(),
        json.iter().rev().flatten().copied().collect(),
    ];
    all.extend(json);
    all.push(binary(
        310,
        &[("b", "t"), ("e", "3"), ("d", "4"), ("g", "1")],
    ));
    all.push(binary(30, &queue));
    all
}

/// A timed message is taken back: `v1 t broker-a 1700000000000 K` as base64.
const RECALL: [(&str, &str); 4] = [
    ("producerGroup", "p"),
    ("topic", "t"),
    ("recallHandle", "djEgdCBicm9rZXItYSAxNzAwMDAwMDAwMDAwIEs="),
    ("brokerName", "broker-a"),
];

/// Acknowledgements of two messages of a pop.
const ACKS: &[u8] =
    br#"{"acks":[{"b":"Aw==","c":"g","it":9,"pt":1,"q":0,"r":"0","rq":0,"so":0,"t":"t"}]}"#;

/// Two messages as the body of a batch.
fn batch() -> Vec<u8> {
    let mut body = Vec::new();
    for text in [&b"one"[..], b"two"] {
        let total = 4 + 4 + 4 + 4 + 4 + text.len() + 2;
        body.extend((total as i32).to_be_bytes());
        body.extend([0; 12]);
        body.extend((text.len() as i32).to_be_bytes());
        body.extend(text);
        body.extend([0; 2]);
    }
    body
}

fn binary(code: i32, fields: &[(&str, &str)]) -> Vec<u8> {
    let head = Head {
        code,
        opaque: 99,
        serialization: Serialization::Binary,
        ..Head::default()
    };
    encode(&head, fields.iter().copied(), b"body").unwrap()
}

fn fast_path(bytes: &[u8], number: u64) {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut broker = mqcore_fast_path::policy::Broker::clone(&serving.fast_path.policy.broker);
    broker.filters_properties = true;
    broker.timing.is_enabled = true;
    serving.fast_path.decide_broker(broker);
    let other = serving.fast_path.open(host(10), "1.2.3.4:10");
    let piece = (number % 700 + 1) as usize;
    for part in bytes.chunks(piece) {
        if serving
            .fast_path
            .feed(serving.client, part, serving.now_ms)
            .is_err()
        {
            break;
        }
    }
    assert!(serving.number("half_frames_bytes") <= bytes.len() as u64);
    while serving.store.dispatching().step().unwrap() {}
    serving.pass(2_000);
    serving.fast_path.close(serving.client);
    serving.client = other;
    let answer = serving.ask(&request(30, 1, &[("topic", "t"), ("queueId", "1")], b""));
    assert_eq!(answer.code, 0);
    for left in ["half_frames_bytes", "queued_bytes", "pinned_bytes"] {
        assert_eq!(serving.number(left), 0, "{left}");
    }
    let files = serving.store.files();
    let walk = Scan {
        from: files.chain.start(),
        limit: files.readable(),
        crc: CrcCheck::Verify,
        is_recovery: true,
        torn_from: 0,
        has_property_crc: false,
        forgets: false,
    };
    let end = scan(&files.chain, walk, |_, _| Ok(true)).unwrap();
    assert_eq!(end.stop, Stop::End);
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
