//! Quotas on the way of requests: sends go later and in their order, or are refused after a while; reads wait
//! until nothing is owed.

use std::sync::Arc;

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::policy::Broker;
use mqcore_fast_path::quotas::Rules;
use mqcore_record::batch::{Item, encode as encode_item};
use mqcore_wire::Command;

use crate::popping::{Popped, one_revive_queue};
use crate::serving::{Serving, TOPIC, host, pull_with, request, response, send_with};

fn with_quotas(text: &str) -> Serving {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.fast_path.policy.topics.insert("u".into(), TOPIC);
    set(&mut serving, text);
    serving
}

fn set(serving: &mut Serving, text: &str) {
    let broker = Broker {
        quotas: Arc::new(Rules::read(text).unwrap()),
        ..Broker::clone(&serving.fast_path.policy.broker)
    };
    serving.fast_path.decide_broker(broker);
}

fn send(opaque: i32) -> Vec<u8> {
    send_with(opaque, &[], b"body")
}

fn opaques(answers: &[Command]) -> Vec<i32> {
    answers.iter().map(|answer| answer.opaque).collect()
}

#[test]
fn sends_go_by_their_rate_and_in_their_order_and_none_is_lost() {
    let mut serving = with_quotas("topic:t=producer_message_rate:10");
    for opaque in 0..15 {
        serving.feed(&send(opaque));
    }
    let mut seen = opaques(&serving.answers());
    assert_eq!(seen, (0..10).collect::<Vec<_>>(), "a burst goes at once");
    assert_eq!(serving.number("throttled"), 5);
    for at in 10..15 {
        assert_eq!(serving.fast_path.next_deadline_ms(), Some(100 * (at - 9)));
        serving.pass(99);
        assert_eq!(serving.answers(), []);
        serving.pass(1);
        seen.extend(opaques(&serving.answers()));
    }
    assert_eq!(seen, (0..15).collect::<Vec<_>>());
    let row = &serving.fast_path.connections.quotas.rows(serving.now_ms)[0];
    assert_eq!(
        (row.counts.held, row.counts.waiting, row.counts.refused),
        (5, 0, 0)
    );
    assert_eq!(row.counts.held_ms, 100 + 200 + 300 + 400 + 500);
    serving.settle();
    let bounds = serving.store.topics().bounds(b"t", 0).unwrap().unwrap();
    assert_eq!(bounds.max, 15);
}

#[test]
fn a_send_beyond_what_may_wait_is_refused_and_not_at_once() {
    let mut serving = with_quotas("group:p=producer_message_rate:1");
    for opaque in 0..3 {
        serving.feed(&send(opaque));
    }
    assert_eq!(opaques(&serving.answers()), [0]);
    serving.pass(499);
    assert_eq!(serving.answers(), []);
    serving.pass(1);
    let answers = serving.answers();
    let remark =
        "[QUOTA]group:p has used up producer_message_rate:1, the next message may come in 1000 ms";
    assert_eq!(
        answers.iter().map(response).collect::<Vec<_>>(),
        [(2, remark); 2]
    );
    assert_eq!(answers[0].ext["MSG_REGION"], "DefaultRegion");
    serving.settle();
    let bounds = serving.store.topics().bounds(b"t", 0).unwrap().unwrap();
    assert_eq!(bounds.max, 1, "what is refused is not stored");
    serving.pass(500);
    assert_eq!(serving.ask(&send(9)).code, 0);
}

#[test]
fn no_send_of_a_connection_passes_one_that_is_held_back() {
    let mut serving = with_quotas("topic:t=producer_byte_rate:10");
    let other = |opaque| send_with(opaque, &[("b", "u")], b"body");
    for frame in [send(1), send(2), send(3), other(4), other(5)] {
        serving.feed(&frame);
    }
    assert_eq!(opaques(&serving.answers()), [1, 2]);
    // Another connection does not wait for this one.
    let neighbour = serving.fast_path.open(host(10), "1.2.3.5:9");
    let first = std::mem::replace(&mut serving.client, neighbour);
    serving.feed(&other(6));
    assert_eq!(opaques(&serving.answers()), [6]);
    serving.client = first;
    serving.pass(200);
    assert_eq!(opaques(&serving.answers()), [3, 4, 5]);
    serving.feed(&other(7));
    assert_eq!(opaques(&serving.answers()), [7]);
}

#[test]
fn every_message_of_a_batch_counts() {
    let mut serving = with_quotas("topic:t=producer_message_rate:4");
    let mut body = Vec::new();
    for _ in 0..3 {
        let item = Item {
            flag: 0,
            body: b"x",
            properties: b"",
        };
        encode_item(&item, &mut body).unwrap();
    }
    let batch = |opaque| send_with(opaque, &[("m", "true")], &body);
    serving.feed(&batch(1));
    serving.feed(&batch(2));
    assert_eq!(opaques(&serving.answers()), [1]);
    serving.pass(499);
    assert_eq!(serving.answers(), []);
    serving.pass(1);
    assert_eq!(opaques(&serving.answers()), [2]);
}

#[test]
fn a_read_waits_until_nothing_is_owed_or_is_sent_away_for_a_while() {
    let mut serving = with_quotas("group:g=consumer_message_rate:2");
    for opaque in 0..6 {
        serving.feed(&send(opaque));
    }
    serving.bytes();
    serving.settle();
    let pull = |opaque, offset, more: &[(&str, &str)]| {
        let fields = [("queueOffset", offset), ("maxMsgNums", "4")];
        pull_with(opaque, &[&fields, more].concat())
    };
    assert_eq!(serving.ask(&pull(1, "0", &[])).code, 0);
    // Four were given of two a second: a second is owed.
    let held = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    serving.feed(&pull(2, "4", &held));
    serving.feed(&pull(3, "4", &[]));
    assert_eq!(serving.answers(), []);
    serving.pass(500);
    let answers = serving.answers();
    let remark =
        "[QUOTA]group:g has used up consumer_message_rate:2, the next read may come in 500 ms";
    assert_eq!(
        answers.iter().map(response).collect::<Vec<_>>(),
        [(215, remark)]
    );
    assert_eq!(opaques(&answers), [3]);
    serving.pass(499);
    assert_eq!(serving.answers(), []);
    serving.pass(1);
    let answers = serving.answers();
    assert_eq!((opaques(&answers), answers[0].code), (vec![2], 0));
    assert_eq!(answers[0].ext["nextBeginOffset"], "6");
}

#[test]
fn pops_are_counted_and_held_back_as_pulls_are() {
    let mut popped = Popped::new(one_revive_queue());
    let serving = &mut popped.serving;
    set(serving, "topic:t=consumer_byte_rate:100");
    for opaque in 0..2 {
        serving.feed(&send_with(opaque, &[], &[7; 400]));
    }
    serving.bytes();
    serving.settle();
    let pop = |opaque| {
        let fields = [
            ("consumerGroup", "g"),
            ("topic", "t"),
            ("queueId", "0"),
            ("maxMsgNums", "1"),
            ("invisibleTime", "60000"),
            ("pollTime", "10000"),
            ("initMode", "0"),
        ];
        request(200_050, opaque, &fields, b"")
    };
    let first = serving.ask(&pop(1));
    assert_eq!((first.code, first.body.len() > 400), (0, true), "{first:?}");
    serving.feed(&pop(2));
    assert_eq!(serving.answers(), []);
    let owed_ms = (first.body.len() as u64) * 10 - 1_000;
    serving.pass(owed_ms - 1);
    assert_eq!(serving.answers(), []);
    serving.pass(1);
    assert_eq!(
        serving.answers().iter().map(|a| a.code).collect::<Vec<_>>(),
        [0]
    );
}

#[test]
fn other_rules_let_go_what_waits_and_none_hold_nothing_back() {
    let mut serving = with_quotas("topic:t=producer_message_rate:1");
    serving.feed(&send(1));
    for opaque in 2..5 {
        serving.feed(&send_with(opaque, &[("b", "u")], b""));
    }
    set(
        &mut serving,
        "topic:t=producer_message_rate:4;topic:u=producer_message_rate:2",
    );
    serving.bytes();
    for opaque in 5..9 {
        serving.feed(&send(opaque));
    }
    serving.feed(&send(9));
    assert_eq!(opaques(&serving.answers()), [5, 6, 7, 8]);
    set(&mut serving, "");
    assert_eq!(serving.fast_path.next_deadline_ms(), Some(0));
    serving.drain();
    assert_eq!(opaques(&serving.answers()), [9]);
    for opaque in 10..1_000 {
        serving.feed(&send(opaque));
    }
    assert_eq!(serving.answers().len(), 990);
    assert_eq!(serving.number("throttled"), 0);
}

#[test]
fn what_a_closed_connection_had_held_back_is_not_done_and_leaves_nothing() {
    let mut serving = with_quotas("topic:t=producer_message_rate:2");
    for opaque in 0..3 {
        serving.feed(&send(opaque));
    }
    let client = serving.client;
    serving.fast_path.close(client);
    serving.pass(1_000);
    assert_eq!(serving.number("throttled"), 0);
    let row = &serving.fast_path.connections.quotas.rows(serving.now_ms)[0];
    assert_eq!(row.counts.waiting, 0);
    serving.settle();
    let bounds = serving.store.topics().bounds(b"t", 0).unwrap().unwrap();
    assert_eq!(bounds.max, 2);
}

#[test]
fn a_send_without_an_answer_is_held_back_as_well() {
    let mut serving = with_quotas("topic:t=producer_message_rate:2");
    let mut oneway = send(0);
    for _ in 0..2 {
        serving.feed(&oneway);
    }
    // The flag of one-way requests in a JSON header.
    let text = String::from_utf8_lossy(&oneway).into_owned();
    assert!(text.contains("\"flag\":0"), "{text}");
    let at = oneway.windows(8).position(|w| w == b"\"flag\":0").unwrap();
    oneway[at + 7] = b'2';
    serving.feed(&oneway);
    serving.bytes();
    let stored = |serving: &mut Serving| {
        serving.settle();
        serving.store.topics().bounds(b"t", 0).unwrap().unwrap().max
    };
    assert_eq!(stored(&mut serving), 2);
    serving.pass(500);
    assert_eq!(stored(&mut serving), 3);
    assert_eq!(serving.answers(), []);
}
