//! Sends: what is refused and how, and what a stored message has become.

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::Escalation;
use mqcore_fast_path::policy::{Broker, Perm, Topic};
use mqcore_record::batch::{Item, encode as encode_item};
use mqcore_record::properties::{lookup, pairs};
use mqcore_record::{CrcCheck, RecordView};

use crate::serving::{STAMP, START_MS, Serving, TOPIC, commands, request, response, send_with};

fn property(view: &RecordView<'_>, name: &str) -> Option<String> {
    lookup(view.properties, name).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn serving() -> Serving {
    Serving::new(FlushDiskType::Async)
}

#[test]
fn what_cannot_stand_gets_the_official_refusal() {
    let mut serving = serving();
    let topic = |name| [("b", name)];
    let long = "x".repeat(128);
    let cases = [
        ("../x", 1, "The specified topic contains illegal characters"),
        ("", 1, "The specified topic is blank."),
        (long.as_str(), 1, "The specified topic is longer than"),
        (
            "SCHEDULE_TOPIC_XXXX",
            16,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX]",
        ),
    ];
    for (name, code, remark) in cases {
        let answer = serving.ask(&send_with(1, &topic(name), b"x"));
        assert_eq!(answer.code, code, "{name}");
        assert!(
            answer.remark.as_deref().unwrap().starts_with(remark),
            "{answer:?}"
        );
        assert_eq!(answer.ext.get("TRACE_ON").map(String::as_str), Some("true"));
    }
    let beyond = serving.ask(&send_with(1, &[("e", "4")], b"x"));
    assert_eq!(
        response(&beyond),
        (
            1,
            "request queueId[4] is illegal, TopicConfig [topicName=t, readQueueNums=4, \
             writeQueueNums=4, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, \
             order=false] Producer: 1.2.3.4:9"
        )
    );
    let no_number = serving.ask(&send_with(1, &[("f", "x")], b"x"));
    assert_eq!(
        response(&no_number),
        (1, "the custom field <sysFlag> is no \"x\"")
    );
    let too_large = serving.ask(&send_with(1, &[], &[0; 100_001]));
    assert_eq!(too_large.code, 13);
    let properties = format!("k\u{1}{}\u{2}", "v".repeat(40_000));
    assert_eq!(
        serving.ask(&send_with(1, &[("i", &properties)], b"x")).code,
        13
    );
    let delay = serving.ask(&send_with(1, &[("i", "DELAY\u{1}x\u{2}")], b"x"));
    assert_eq!(
        response(&delay),
        (1, "the property DELAY is no number: \"x\"")
    );
    assert_eq!(serving.number("refused_illegal"), 2);
    assert_eq!(serving.number("sends"), 0);
    assert!(serving.fast_path.take_escalated().is_empty());
}

#[test]
fn an_order_topic_of_a_broker_without_write_permission_is_refused() {
    let mut serving = serving();
    serving.fast_path.decide_broker(Broker {
        perm: Perm(4),
        ..Broker::default()
    });
    assert_eq!(
        serving.ask(&send_with(1, &[], b"x")).code,
        0,
        "other topics go on"
    );
    let ordered = Topic {
        is_ordered: true,
        ..TOPIC
    };
    serving.fast_path.policy.topics.insert("t".into(), ordered);
    let answer = serving.ask(&send_with(2, &[], b"x"));
    assert_eq!(
        response(&answer),
        (16, "the broker[127.0.0.1] sending message is forbidden")
    );
}

#[test]
fn an_unknown_topic_is_pythons_to_decide_and_then_refused_or_stored() {
    let mut serving = serving();
    serving.feed(&send_with(1, &[("b", "new")], b"x"));
    assert!(serving.answers().is_empty());
    let escalated = serving.fast_path.take_escalated().remove(0);
    assert_eq!(escalated.escalation, Escalation::Topic("new".to_owned()));
    assert!(
        serving
            .fast_path
            .execute(serving.client, escalated.command.clone(), 0)
    );
    let refused = serving.answers().remove(0);
    assert_eq!(refused.code, 17);
    serving.fast_path.policy.topics.insert("new".into(), TOPIC);
    assert!(
        serving
            .fast_path
            .execute(serving.client, escalated.command, 0)
    );
    assert_eq!(serving.answers().remove(0).code, 0);
}

#[test]
fn any_queue_means_each_in_turn() {
    let mut serving = serving();
    let mut queues = Vec::new();
    for at in 0..8 {
        let answer = serving.ask(&send_with(at, &[("e", "-1")], b"x"));
        queues.push(answer.ext["queueId"].parse::<i32>().unwrap());
    }
    queues.sort_unstable();
    assert_eq!(queues, [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_oneway_send_is_stored_and_not_answered() {
    let mut serving = serving();
    let [command] = &commands(&send_with(1, &[], b"x"))[..] else {
        panic!("one request");
    };
    let mut command = command.clone();
    command.flag = 2;
    serving.feed(&command.encode().unwrap());
    assert!(serving.bytes().is_empty());
    assert_eq!(serving.number("sends"), 1);
}

#[test]
fn a_batch_is_stored_as_messages_of_their_own() {
    let mut serving = serving();
    let mut body = Vec::new();
    for (text, properties) in [(&b"b1"[..], &b"TAGS\x01A"[..]), (b"b22", b"")] {
        let item = Item {
            flag: 4,
            body: text,
            properties,
        };
        encode_item(&item, &mut body).unwrap();
    }
    let batch = [("m", "true"), ("e", "2"), ("i", "k\u{1}v\u{2}")];
    let answer = serving.ask(&send_with(1, &batch, &body));
    assert_eq!((answer.code, answer.ext["queueOffset"].as_str()), (0, "0"));
    let ids: Vec<&str> = answer.ext["msgId"].split(',').collect();
    assert_eq!(ids.len(), 2);
    let first = serving.store.reader().record_at(0).unwrap();
    let second_at = first.as_bytes().len() as u64;
    let second = serving.store.reader().record_at(second_at).unwrap();
    let (first, second) = (
        first.view(CrcCheck::Verify).unwrap(),
        second.view(CrcCheck::Verify).unwrap(),
    );
    assert_eq!((first.body, second.body), (&b"b1"[..], &b"b22"[..]));
    assert_eq!(
        first.properties,
        [b"TAGS\x01A\x02k\x01v\x02", STAMP].concat()
    );
    assert_eq!(second.properties, [b"k\x01v\x02", STAMP].concat());
    assert_eq!(
        (second.queue_offset, second.queue_id, second.flag),
        (1, 2, 4)
    );
    assert_eq!(ids, [first.offset_id(), second.offset_id()]);
    for bad in [&b""[..], &body[..20], b"\0\0\0\x7f"] {
        assert_eq!(serving.ask(&send_with(2, &batch, bad)).code, 13, "{bad:?}");
    }
    let delayed = [("m", "true"), ("i", "DELAY\u{1}2\u{2}")];
    assert_eq!(serving.ask(&send_with(3, &delayed, &body)).code, 13);
    assert_eq!(serving.number("sends"), 2);
}

#[test]
fn messages_of_a_batch_keep_the_key_of_their_own() {
    let mut serving = serving();
    let mut body = Vec::new();
    for properties in [&b"UNIQ_KEY\x01A\x02"[..], b"TAGS\x01a", b"UNIQ_KEY\x01C"] {
        let item = Item {
            flag: 0,
            body: b"b",
            properties,
        };
        encode_item(&item, &mut body).unwrap();
    }
    let properties = "UNIQ_KEY\u{1}BATCH\u{2}k\u{1}v\u{2}";
    let batch = [("m", "true"), ("i", properties)];
    assert_eq!(serving.ask(&send_with(1, &batch, &body)).code, 0);
    let (mut at, mut found) = (0, Vec::new());
    for _ in 0..3 {
        let record = serving.store.reader().record_at(at).unwrap();
        let view = record.view(CrcCheck::Verify).unwrap();
        assert_eq!(property(&view, "k").as_deref(), Some("v"));
        let keys = pairs(view.properties).filter(|(name, _)| *name == b"UNIQ_KEY");
        found.extend(keys.map(|(_, key)| String::from_utf8(key.to_vec()).unwrap()));
        at += record.as_bytes().len() as u64;
    }
    assert_eq!(found, ["A", "BATCH", "C"]);
}

#[test]
fn the_handle_of_an_earlier_pop_is_not_stored() {
    let mut serving = serving();
    let handle = "POP_CK\u{1}0 1 60000 0 0 b 0 0\u{2}";
    let text = format!("POP_CK_OFFSET\u{1}4\u{2}{handle}k\u{1}v\u{2}{handle}");
    let mut body = Vec::new();
    for properties in [text.as_str(), "k\u{1}v\u{2}"] {
        let properties = properties.as_bytes();
        let (flag, text) = (0, &b"x"[..]);
        let item = Item {
            flag,
            body: text,
            properties,
        };
        encode_item(&item, &mut body).unwrap();
    }
    let delayed = format!("{text}DELAY\u{1}1\u{2}");
    let half = format!("{text}TRAN_MSG\u{1}true\u{2}");
    let mut send = |fields: &[(&str, &str)], body: &[u8]| {
        assert_eq!(
            serving.ask(&send_with(1, fields, body)).code,
            0,
            "{fields:?}"
        );
    };
    send(&[("i", &text)], b"x");
    send(&[("i", &delayed)], b"x");
    send(&[("i", &half), ("f", "4")], b"x");
    send(&[("i", &text), ("m", "true")], &body);
    let mut at = 0;
    for _ in 0..5 {
        let record = serving.store.reader().record_at(at).unwrap();
        let view = record.view(CrcCheck::Verify).unwrap();
        assert_eq!(property(&view, "POP_CK"), None, "{view:?}");
        assert_eq!(property(&view, "POP_CK_OFFSET").as_deref(), Some("4"));
        assert_eq!(property(&view, "k").as_deref(), Some("v"));
        at += record.as_bytes().len() as u64;
    }
}

#[test]
fn a_delayed_message_waits_in_the_queue_of_its_level() {
    let mut serving = serving();
    let answer = serving.ask(&send_with(
        1,
        &[
            ("e", "3"),
            ("i", "DELAY\u{1}99\u{2}REAL_TOPIC\u{1}old\u{2}"),
        ],
        b"x",
    ));
    assert_eq!((answer.code, answer.ext["queueId"].as_str()), (0, "3"));
    let record = serving.store.reader().record_at(0).unwrap();
    let view = record.view(CrcCheck::Verify).unwrap();
    assert_eq!(
        (view.topic_str().as_ref(), view.queue_id),
        ("SCHEDULE_TOPIC_XXXX", 17)
    );
    assert_eq!(property(&view, "DELAY").as_deref(), Some("18"));
    assert_eq!(property(&view, "REAL_TOPIC").as_deref(), Some("t"));
    assert_eq!(property(&view, "REAL_QID").as_deref(), Some("3"));
    assert_eq!(
        pairs(view.properties).count(),
        6,
        "the stamp and nothing twice"
    );
}

#[test]
fn a_half_message_waits_in_the_half_topic() {
    let mut serving = serving();
    let half = [("f", "4"), ("i", "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}")];
    let answer = serving.ask(&send_with(1, &half, b"x"));
    assert_eq!(answer.code, 0);
    let record = serving.store.reader().record_at(0).unwrap();
    let view = record.view(CrcCheck::Verify).unwrap();
    assert_eq!(view.topic_str(), "RMQ_SYS_TRANS_HALF_TOPIC");
    assert_eq!((view.queue_id, view.sys_flag), (0, 0));
    assert_eq!(property(&view, "REAL_TOPIC").as_deref(), Some("t"));
    serving.fast_path.decide_broker(Broker {
        rejects_transactions: true,
        ..Broker::default()
    });
    let refused = serving.ask(&send_with(2, &half, b"x"));
    assert_eq!(
        response(&refused),
        (
            16,
            "the broker[127.0.0.1] sending transaction message is forbidden"
        )
    );
}

#[test]
fn a_message_tried_often_enough_becomes_a_dead_letter() {
    let mut serving = serving();
    let tried = |times, max| {
        [
            ("b", "%RETRY%g"),
            ("j", times),
            ("l", max),
            ("i", "DELAY\u{1}5\u{2}"),
        ]
    };
    serving.ask(&send_with(1, &tried("2", "3"), b"x"));
    let again = serving.store.reader().record_at(0).unwrap();
    let view = again.view(CrcCheck::Verify).unwrap();
    assert_eq!(property(&view, "REAL_TOPIC").as_deref(), Some("%RETRY%g"));
    assert_eq!(serving.ask(&send_with(2, &tried("3", "3"), b"x")).code, 0);
    let again = serving
        .store
        .reader()
        .record_at(view.total_len_bytes as u64)
        .unwrap();
    let view = again.view(CrcCheck::Verify).unwrap();
    assert_eq!(property(&view, "REAL_TOPIC").as_deref(), Some("%RETRY%g"));
    let second_at = again.as_bytes().len() as u64;
    serving.feed(&send_with(3, &tried("4", "3"), b"x"));
    let escalated = serving.fast_path.take_escalated().remove(0);
    assert_eq!(escalated.escalation, Escalation::Topic("%DLQ%g".to_owned()));
    serving
        .fast_path
        .policy
        .topics
        .insert("%DLQ%g".into(), TOPIC);
    assert!(
        serving
            .fast_path
            .execute(serving.client, escalated.command, 0)
    );
    assert_eq!(serving.answers().remove(0).code, 0);
    let dead = serving.store.reader().record_at(2 * second_at).unwrap();
    let view = dead.view(CrcCheck::Verify).unwrap();
    assert_eq!((view.topic_str().as_ref(), view.queue_id), ("%DLQ%g", 0));
    assert_eq!(view.reconsume_times, 4);
    assert_eq!(property(&view, "DELAY"), None);
}

#[test]
fn what_a_group_gives_up_that_holds_queues_in_order_is_a_dead_letter_at_once() {
    let mut serving = serving();
    serving
        .fast_path
        .policy
        .topics
        .insert("%DLQ%g".into(), TOPIC);
    let locked = &mut serving.fast_path.policy.locked_until_ms;
    locked.insert("g".into(), START_MS + 1_000);
    locked.insert("other".into(), START_MS + 100_000);
    let given_up = [("b", "%RETRY%g"), ("j", "1"), ("l", "16")];
    let mut at = 0;
    for topic in ["%DLQ%g", "%RETRY%g"] {
        assert_eq!(serving.ask(&send_with(1, &given_up, b"x")).code, 0);
        let record = serving.store.reader().record_at(at).unwrap();
        let view = record.view(CrcCheck::Verify).unwrap();
        assert_eq!(view.topic_str().as_ref(), topic);
        at += record.as_bytes().len() as u64;
        // A lock that is not renewed.
        serving
            .clock
            .advance(std::time::Duration::from_millis(1_001));
    }
}

#[test]
fn delayed_messages_come_out_when_due_once_and_as_they_went_in() {
    let mut serving = serving();
    for at in 0..3 {
        let text = [
            "DELAY\u{1}1\u{2}KEYS\u{1}k\u{2}",
            "DELAY\u{1}1\u{2}",
            "DELAY\u{1}1\u{2}",
        ];
        serving.ask(&send_with(
            at,
            &[("e", "1"), ("i", text[at as usize])],
            b"later",
        ));
        serving.clock.advance(std::time::Duration::from_millis(400));
    }
    serving.settle();
    let deliver = |serving: &Serving, from: u64, at_ms: i64| {
        mqcore_fast_path::delay::deliver_due(&serving.store, 1, from, START_MS + at_ms, 100)
            .unwrap()
    };
    let early = deliver(&serving, 0, 999);
    assert_eq!(
        (early.count, early.next_due_ms),
        (0, Some(START_MS + 1_000))
    );
    let two = deliver(&serving, 0, 1_400);
    assert_eq!((two.count, two.next_offset), (2, 2));
    assert_eq!(two.next_due_ms, Some(START_MS + 1_800));
    let rest = deliver(&serving, two.next_offset, 60_000);
    assert_eq!((rest.count, rest.next_offset, rest.has_more), (1, 3, false));
    assert_eq!(
        deliver(&serving, 99, 60_000).next_offset,
        3,
        "brought into the queue's bounds"
    );
    serving.settle();
    assert_eq!(
        serving.store.topics().bounds(b"t", 1).unwrap().unwrap().max,
        3
    );
    let record = serving.store.reader().record_at(two.end).unwrap();
    let view = record.view(CrcCheck::Verify).unwrap();
    assert_eq!((view.topic_str().as_ref(), view.queue_id), ("t", 1));
    assert_eq!(view.born_timestamp_ms, 1_700_000_000_000);
}

#[test]
fn what_is_for_another_master_is_handed_over_whoever_has_decided_on_it() {
    let mut serving = serving();
    let broker = Broker::clone(&serving.fast_path.policy.broker);
    serving.fast_path.decide_broker(Broker {
        passes_on: true,
        ..broker.clone()
    });
    serving.feed(&send_with(1, &[], b"x"));
    let commit = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("commitOffset", "1"),
    ];
    serving.feed(&request(15, 2, &commit, b""));
    let escalated = serving.fast_path.take_escalated();
    assert!(serving.answers().is_empty());
    let reasons: Vec<_> = escalated.iter().map(|each| &each.escalation).collect();
    assert_eq!(reasons, [&Escalation::PassOn, &Escalation::PassOn]);
    let send = escalated.into_iter().next().unwrap().command;
    let execute =
        |serving: &mut Serving, command| serving.fast_path.execute(serving.client, command, 0);
    assert!(!execute(&mut serving, send.clone()), "decided on or not");
    assert_eq!(serving.number("sends"), 0);
    serving.fast_path.decide_broker(broker);
    assert!(execute(&mut serving, send));
    assert_eq!(serving.answers().remove(0).code, 0);
}
