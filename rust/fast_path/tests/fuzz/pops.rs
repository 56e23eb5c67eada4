//! Bad bytes around pops: conversations of a group that pops, and records in the topic of check points.
//! Another group gets all messages all the same, and once where it acknowledges them.

use mqcore_fast_path::pop::headers::batch_acks;
use mqcore_fast_path::pop::points::{
    ACK_TAG, Acknowledgement, BATCH_ACK_TAG, CheckPoint, POINT_TAG,
};
use mqcore_fast_path::pop_run::handle::Handle;
use mqcore_record::Message;

use crate::popping::{Popped, REVIVE, one_revive_queue};
use crate::serving::{START_MS, TOPIC, host, request, send_with};

/// The group whose requests are bad: no change of one byte makes it the other's.
const GROUP: &str = "zz";
/// Longer than messages stay invisible that were popped for a minute, with the timers behind.
const LATER_MS: u64 = 70_000;

/// Messages in a topic of plain queues and one of batch queues; two groups.
fn popped() -> Popped {
    let mut popped = Popped::new(one_revive_queue());
    let policy = &mut popped.serving.fast_path.policy;
    policy.topics.insert("b".into(), TOPIC);
    let group = policy.groups["g"];
    policy.groups.insert(GROUP.into(), group);
    for body in ["0", "1", "2"] {
        popped.send(0, body);
    }
    let batch = [("b", "b"), ("m", "true"), ("i", "UNIQ_KEY\u{1}K\u{2}")];
    let answer = popped.serving.ask(&send_with(9, &batch, &crate::batch()));
    assert_eq!(answer.code, 0, "{answer:?}");
    popped.serving.settle();
    popped
}

/// Pops with the handles that belong to them: pops of the first moment.
pub(crate) fn conversations() -> Vec<Vec<u8>> {
    let pop = |topic: &'static str, order: &'static str| {
        [
            ("consumerGroup", GROUP),
            ("topic", topic),
            ("queueId", "-1"),
            ("maxMsgNums", "2"),
            ("invisibleTime", "1000"),
            ("pollTime", "1000"),
            ("order", order),
        ]
    };
    let handle =
        |queue: &str, offset: &str| format!("0 {START_MS} 1000 {queue} 0 broker-a 0 {offset}");
    let (first, second, ordered) = (handle("0", "0"), handle("0", "1"), handle("999", "0"));
    let ack = |topic: &'static str, handle: &str, offset: &'static str| {
        let fields = [
            ("consumerGroup", GROUP),
            ("topic", topic),
            ("queueId", "0"),
            ("offset", offset),
            ("invisibleTime", "2000"),
            ("extraInfo", handle),
        ];
        [200_051, 200_053].map(|code| request(code, 7, &fields, b""))
    };
    let many = format!(
        r#"{{"acks":[{{"b":"Aw==","c":"{GROUP}","it":1000,"pt":{START_MS},"q":0,"r":"0","rq":0,"so":0,"t":"t"}}],"b":"broker-a"}}"#
    );
    let mut all = vec![request(200_050, 1, &pop("t", "false"), b"")];
    all.push(request(200_050, 2, &pop("t", "false"), b""));
    all.push(request(200_050, 3, &pop("b", "false"), b""));
    all.extend(ack("t", &first, "0"));
    all.extend(ack("t", &second, "1"));
    all.extend(ack("b", &first, "0"));
    all.push(request(200_151, 4, &[], many.as_bytes()));
    all.push(request(200_050, 5, &pop("t", "true"), b""));
    all.extend(ack("t", &ordered, "0"));
    all.push(request(200_050, 6, &pop("b", "true"), b""));
    all.extend(ack("b", &ordered, "0"));
    let mut seeds = vec![all.concat(), all.iter().rev().flatten().copied().collect()];
    seeds.extend(all);
    seeds
}

pub(crate) fn pops(bytes: &[u8], number: u64) {
    let mut popped = popped();
    let mut broker =
        mqcore_fast_path::policy::Broker::clone(&popped.serving.fast_path.policy.broker);
    broker.pops.has_buffer = !number.is_multiple_of(3);
    broker.pops.in_flight_max = number.is_multiple_of(2).then_some(number % 5);
    popped.serving.fast_path.decide_broker(broker);
    let other = popped.serving.fast_path.open(host(10), "1.2.3.4:10");
    let piece = (number % 700 + 1) as usize;
    for part in bytes.chunks(piece) {
        let serving = &mut popped.serving;
        if serving
            .fast_path
            .feed(serving.client, part, serving.now_ms)
            .is_err()
        {
            break;
        }
    }
    popped.serving.drain();
    later(&mut popped);
    popped.serving.fast_path.close(popped.serving.client);
    popped.serving.client = other;
    for left in [
        "half_frames_bytes",
        "queued_bytes",
        "pinned_bytes",
        "pops_held",
    ] {
        assert_eq!(popped.serving.number(left), 0, "{left}");
    }
    // The other group has no bound and gets everything, once.
    let mut broker =
        mqcore_fast_path::policy::Broker::clone(&popped.serving.fast_path.policy.broker);
    broker.pops.in_flight_max = None;
    popped.serving.fast_path.decide_broker(broker);
    for (topic, least) in [("t", 3), ("b", 1)] {
        let mut found = 0;
        loop {
            let got = popped.pop(&[("topic", topic)]);
            if got.is_empty() {
                break;
            }
            found += got.len();
            for each in &got {
                assert_eq!(popped.ack(each).code, 0);
            }
        }
        assert!(found >= least, "{found} of {topic}");
    }
    later(&mut popped);
    for topic in ["t", "b"] {
        assert!(popped.pop(&[("topic", topic)]).is_empty(), "{topic}");
    }
}

/// Lets time pass, and brings back what nobody acknowledged.
fn later(popped: &mut Popped) {
    popped.serving.pass(LATER_MS);
    popped.tick();
    popped.revive();
}

/// Bodies of records in the topic of check points.
pub(crate) fn points() -> Vec<Vec<u8>> {
    let texts = [
        format!(
            r#"{{"bm":1,"bn":"broker-a","c":"{GROUP}","d":[0,2],"it":1000,"n":2,"pt":{START_MS},"q":0,"ro":0,"so":0,"t":"t"}}"#
        ),
        format!(r#"{{"c":"{GROUP}","it":9,"n":3,"pt":1,"q":0,"rp":"3","so":0,"t":"b"}}"#),
        format!(r#"{{"ao":2,"bn":"broker-a","c":"{GROUP}","pt":{START_MS},"q":0,"so":0,"t":"t"}}"#),
        format!(
            r#"{{"ao":-1,"aol":[0,1,2],"bn":"broker-a","c":"{GROUP}","pt":{START_MS},"q":0,"so":0,"t":"t"}}"#
        ),
        format!("0 {START_MS} 1000 0 0 broker-a 0 2"),
        r#"{"acks":[{"b":"Aw==","c":"g","it":9,"pt":1,"q":0,"r":"0","rq":0,"so":0,"t":"t"}]}"#
            .to_owned(),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn point(bytes: &[u8], number: u64) {
    let found = CheckPoint::parse(bytes);
    if let Some(point) = &found {
        assert_eq!(
            CheckPoint::parse(point.json().as_bytes()).as_ref(),
            Some(point)
        );
    }
    for is_batch in [false, true] {
        if let Some(ack) = Acknowledgement::parse(bytes, is_batch) {
            assert!(Acknowledgement::parse(ack.json().as_bytes(), is_batch).is_some());
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let _may_be_none = Handle::parse(&text);
    let _may_be_bad = batch_acks(bytes);

    let mut popped = popped();
    let tag = [POINT_TAG, ACK_TAG, BATCH_ACK_TAG][(number % 3) as usize];
    let good = CheckPoint {
        topic: "t".to_owned(),
        group: "g".to_owned(),
        pop_time_ms: START_MS,
        invisible_ms: 1_000,
        distances: vec![0, 1, 2],
        count: 3,
        broker: popped.serving.fast_path.policy.broker.name.clone(),
        ..CheckPoint::default()
    };
    put(&popped, tag, bytes);
    put(&popped, POINT_TAG, good.json().as_bytes());
    popped.serving.settle();
    popped.serving.pass(LATER_MS);
    let revived = popped.revive();
    let waits_ms = found
        .filter(|_| tag == POINT_TAG)
        .map_or(0, |point| point.due_ms());
    // One that is not due keeps those behind it, as officially.
    if waits_ms < START_MS + LATER_MS.cast_signed() - 3_000 {
        assert!(revived.revived >= 3, "{revived:?}");
        assert_eq!(popped.revivers[0].done_offset(), 1);
    }
}

/// Stores a record in the topic of check points.
fn put(popped: &Popped, tag: &str, body: &[u8]) {
    let store = &popped.serving.store;
    let host = host(1);
    let properties = format!("TAGS\u{1}{tag}\u{2}");
    let message = Message {
        born_timestamp_ms: START_MS,
        properties: properties.as_bytes(),
        ..Message::of(REVIVE, 0, body, host)
    };
    store.writer().append(&message).unwrap();
}
