//! Pops on a disk in memory and a clock that is turned by hand: what is given, to whom, until when;
//! what comes back; bad handles; a broker that is killed, and one that stops.

use mqcore_fast_path::policy::PopRules;
use mqcore_fast_path::pop::points::{Acknowledgement, CheckPoint};
use mqcore_record::Message;

use crate::popping::{Got, Popped, REVIVE, bodies, got, one_revive_queue};
use crate::serving::{GROUP, START_MS, host, request, response, send_with};

#[test]
fn what_is_popped_is_nobody_elses_until_its_time_is_over() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..6 {
        popped.send(at % 4, &at.to_string());
    }
    popped.serving.settle();
    let first = popped.pop(&[("maxMsgNums", "4")]);
    let second = popped.pop(&[]);
    assert_eq!((first.len(), second.len()), (4, 2));
    assert!(popped.pop(&[]).is_empty());
    for each in &first {
        assert_eq!(response(&popped.ack(each)), (0, ""));
    }
    popped.pass(70_000);
    let again = popped.pop(&[]);
    assert_eq!(bodies(&again), bodies(&second));
    assert!(
        again
            .iter()
            .all(|each| each.times == 1 && each.topic == "t")
    );
    for each in &again {
        assert_eq!(response(&popped.ack(each)), (0, ""));
    }
    popped.pass(70_000);
    assert!(popped.pop(&[]).is_empty());
}

#[test]
fn what_is_acknowledged_soon_is_never_stored() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..100 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    loop {
        let got = popped.pop(&[]);
        if got.is_empty() {
            break;
        }
        for each in got.iter().rev() {
            popped.ack(each);
        }
    }
    assert_eq!(popped.serving.number("pop_records"), 0);
    assert_eq!(popped.serving.number("pops_open"), 0);
    assert_eq!(
        popped.serving.fast_path.shared.offsets.find("g", "t", 0),
        Some(100)
    );
}

#[test]
fn without_a_buffer_all_is_stored_and_acknowledged_in_the_log() {
    let mut popped = Popped::new(PopRules {
        has_buffer: false,
        ..one_revive_queue()
    });
    for at in 0..3 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    let got = popped.pop(&[]);
    assert_eq!(
        popped.serving.fast_path.shared.offsets.find("g", "t", 0),
        Some(3)
    );
    popped.ack(&got[1]);
    popped.ack(&got[1]);
    assert_eq!(popped.serving.number("pop_records"), 3);
    popped.pass(70_000);
    assert_eq!(bodies(&popped.pop(&[])), ["0", "2"]);
}

#[test]
fn pops_begin_where_a_queue_was_reset_to() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..4 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    let first = popped.pop(&[("maxMsgNums", "3")]);
    assert_eq!(bodies(&first), ["0", "1", "2"]);
    assert!(popped.serving.fast_path.reset_offset("g", "t", 0, 1));
    for each in &first {
        popped.ack(each);
    }
    assert_eq!(
        popped.serving.fast_path.shared.offsets.find("g", "t", 0),
        Some(1)
    );
    assert_eq!(bodies(&popped.pop(&[])), ["1", "2", "3"]);
    assert!(popped.pop(&[]).is_empty(), "once is enough");
}

#[test]
fn an_ordered_queue_that_was_reset_is_free_and_old_acknowledgements_move_nothing() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..3 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    let ordered = [("order", "true")];
    let first = popped.pop(&ordered);
    assert_eq!(first.len(), 3);
    assert!(popped.pop(&ordered).is_empty(), "it is blocked");
    assert!(popped.serving.fast_path.reset_offset("g", "t", 0, 1));
    for each in &first {
        popped.ack(each);
    }
    assert_eq!(
        popped.serving.fast_path.shared.offsets.find("g", "t", 0),
        Some(1)
    );
    assert_eq!(bodies(&popped.pop(&ordered)), ["1", "2"]);
}

#[test]
fn a_changed_time_counts_from_now() {
    let mut popped = Popped::new(one_revive_queue());
    popped.send(0, "x");
    popped.serving.settle();
    let got = popped.pop(&[]);
    let answer = popped.change(&got[0], 5_000);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.ext["invisibleTime"], "5000");
    popped.pass(4_000);
    assert!(popped.pop(&[]).is_empty());
    popped.pass(6_000);
    let again = popped.pop(&[]);
    assert_eq!((again.len(), again[0].times), (1, 1));
    assert_eq!(
        popped.change(&again[0], -5).code,
        0,
        "its time is over at once"
    );
    popped.pass(4_000);
    assert_eq!(popped.pop(&[])[0].times, 2);
    popped.pass(80_000);
    assert_eq!(popped.pop(&[])[0].times, 3);
}

#[test]
fn a_held_pop_is_answered_when_something_comes() {
    let mut popped = Popped::new(one_revive_queue());
    let now = START_MS.to_string();
    let held = [("pollTime", "15000"), ("bornTime", now.as_str())];
    for filter in ["b", "a", "a"] {
        let more = [held[0], held[1], ("exp", filter), ("expType", "TAG")];
        let request = popped.pop_request(&more);
        popped.serving.feed(&request);
    }
    assert_eq!(popped.serving.number("pops_held"), 3);
    assert!(popped.serving.answers().is_empty());
    popped.opaque += 1;
    let sent = send_with(popped.opaque, &[("i", "TAGS\u{1}a\u{2}")], b"x");
    assert_eq!(popped.serving.ask(&sent).code, 0);
    popped.serving.settle();
    popped.serving.pass(5);
    let answers = popped.serving.answers();
    assert_eq!(answers.len(), 1, "one of those who want it: {answers:?}");
    assert_eq!(got(&answers[0]).len(), 1);
    popped.serving.pass(15_000);
    let answers = popped.serving.answers();
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| answer.code == 210));
    assert_eq!(popped.serving.number("pops_held"), 0);
    assert_eq!(popped.serving.store.arrivals().watched(), 0);
}

#[test]
fn who_waits_gets_what_comes_back() {
    let mut popped = Popped::new(one_revive_queue());
    popped.send(0, "x");
    popped.serving.settle();
    assert_eq!(popped.pop(&[("invisibleTime", "5000")]).len(), 1);
    let request = popped.pop_request(&[("pollTime", "60000")]);
    popped.serving.feed(&request);
    popped.pass(9_000);
    popped.serving.pass(5);
    let answers = popped.serving.answers();
    assert_eq!(answers.len(), 1);
    assert_eq!(got(&answers[0])[0].times, 1);
}

#[test]
fn bad_requests_have_the_official_codes() {
    let mut popped = Popped::new(one_revive_queue());
    popped.send(0, "x");
    popped.serving.settle();
    for (more, code) in [
        (vec![("maxMsgNums", "33")], 29),
        (vec![("queueId", "4")], 29),
        (vec![("bornTime", "1000")], 210),
        (vec![("exp", "||")], 23),
        (vec![("exp", "a >"), ("expType", "SQL92")], 23),
        (vec![("invisibleTime", "9223372036854775807")], 29),
        (vec![("maxMsgNums", "many")], 1),
        (vec![("maxMsgNums", "-7")], 210),
        (vec![("maxMsgNums", "0")], 210),
    ] {
        let request = popped.pop_request(&more);
        assert_eq!(popped.serving.ask(&request).code, code, "{more:?}");
    }
    let got = popped.pop(&[]).remove(0);
    let with = |change: &dyn Fn(&mut Got)| {
        let mut other = got.clone();
        change(&mut other);
        other
    };
    let cases: [(Got, i32); 7] = [
        (with(&|got| got.topic = "none".to_owned()), 17),
        (with(&|got| got.queue_id = 4), 13),
        (with(&|got| got.queue_id = -1), 13),
        (with(&|got| got.offset = -1), 208),
        (with(&|got| got.offset = 9), 208),
        (with(&|got| got.handle = "0 x".to_owned()), 1),
        (
            with(&|got| got.handle = "0 1 2 5000 0 broker-a 0 0".to_owned()),
            0,
        ),
    ];
    for (other, code) in cases {
        assert_eq!(popped.ack(&other).code, code, "{other:?}");
    }
    let beyond = with(&|got| got.offset = 1);
    assert_eq!(
        (popped.ack(&beyond).code, popped.change(&beyond, 1).code),
        (0, 208)
    );
    let lost = with(&|got| got.handle = "0 1 2 5000 0 broker-a 0 0".to_owned());
    assert_eq!(
        popped.change(&lost, 1_000).code,
        1,
        "it would come back from nowhere"
    );
    for wild in [i64::MIN, i64::MAX] {
        let handle = format!("{wild} {wild} {wild} 0 0 broker-a 0 0");
        assert_eq!(
            popped
                .ack(&with(&|got| got.handle.clone_from(&handle)))
                .code,
            0
        );
    }
    assert_eq!(popped.change(&got, i64::MAX).code, 1);
    assert_eq!(response(&popped.ack(&got)), (0, ""));
    assert_eq!(response(&popped.ack(&got)), (0, ""), "twice");
}

#[test]
fn many_acknowledgements_come_in_one_request() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..5 {
        popped.send(1, &at.to_string());
    }
    popped.serving.settle();
    let answer = popped.pop_request(&[]);
    let answer = popped.serving.ask(&answer);
    let body = format!(
        "{{\"acks\":[{{\"b\":\"Dw==\",\"c\":\"g\",\"it\":60000,\"pt\":{},\"q\":1,\"r\":\"0\",\"rq\":0,\
         \"so\":0,\"t\":\"t\"}}],\"brokerName\":\"broker-a\"}}",
        answer.ext["popTime"]
    );
    let batch = request(200_151, 1, &[], body.as_bytes());
    assert_eq!(popped.serving.ask(&batch).code, 0);
    assert_eq!(
        popped.serving.ask(&request(200_151, 2, &[], b"{}")).code,
        208
    );
    assert_eq!(popped.serving.ask(&request(200_151, 3, &[], b"")).code, 208);
    assert_eq!(
        popped
            .serving
            .ask(&request(200_151, 4, &[], b"{\"acks\":[{}]}"))
            .code,
        1
    );
    popped.pass(70_000);
    assert_eq!(bodies(&popped.pop(&[])), ["4"]);
}

#[test]
fn what_is_asked_without_popping_pops_nothing() {
    let mut popped = Popped::new(one_revive_queue());
    let fields = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "-1")];
    let wait = [("pollTime", "20000"), ("bornTime", "0")];
    let ask = popped.request(200_054, &fields, &wait);
    popped.serving.feed(&ask);
    let held = popped.pop_request(&[("pollTime", "20000"), ("consumerGroup", "g")]);
    popped.serving.feed(&held);
    let info = popped.request(200_055, &fields, &[]);
    assert_eq!(popped.serving.ask(&info).ext["pollingNum"], "1");
    popped.send(0, "x");
    popped.serving.settle();
    popped.serving.pass(2);
    let answers = popped.serving.answers();
    let reported = answers
        .iter()
        .find(|answer| answer.ext.contains_key("hasMsg"));
    assert_eq!(reported.unwrap().ext["hasMsg"], "true");
    popped.send(0, "y");
    popped.serving.settle();
    let peek = popped.request(200_052, &fields, &[("maxMsgNums", "32")]);
    let peeked = popped.serving.ask(&peek);
    assert_eq!((peeked.code, peeked.ext["restNum"].as_str()), (0, "1"));
    let ask = popped.request(200_054, &fields, &[("pollTime", "0")]);
    assert_eq!(popped.serving.ask(&ask).ext["hasMsg"], "true");
    assert_eq!(popped.pop(&[]).len(), 1);
    assert_eq!(popped.serving.ask(&ask).ext["hasMsg"], "false");
}

#[test]
fn a_new_group_begins_where_its_init_mode_asks() {
    let mut popped = Popped::new(PopRules {
        begins_in_memory: false,
        ..one_revive_queue()
    });
    for at in 0..5 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    popped
        .serving
        .fast_path
        .policy
        .groups
        .insert("h".into(), GROUP);
    assert_eq!(
        popped
            .pop(&[("initMode", "1"), ("consumerGroup", "h")])
            .len(),
        1
    );
    assert_eq!(popped.pop(&[]).len(), 5);
}

#[test]
fn ordered_pops_wait_for_one_another() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..4 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    let order = [("order", "true"), ("maxMsgNums", "2")];
    let first = popped.pop(&order);
    assert_eq!(bodies(&first), ["0", "1"]);
    assert!(popped.pop(&order).is_empty());
    let held = [order[0], order[1], ("pollTime", "60000")];
    let request = popped.pop_request(&held);
    popped.serving.feed(&request);
    popped.ack(&first[0]);
    assert!(popped.serving.answers().is_empty());
    let fields = Popped::ack_fields(&first[1]);
    let fields = fields
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let ack = popped.request(200_051, &fields, &[]);
    popped.serving.feed(&ack);
    let answers = popped.serving.answers();
    assert_eq!(answers.len(), 2, "{answers:?}");
    let second = got(answers
        .iter()
        .find(|answer| !answer.body.is_empty())
        .unwrap());
    assert_eq!(bodies(&second), ["2", "3"]);
    assert_eq!(popped.change(&second[0], 1_000).code, 0);
    popped.serving.pass(61_000);
    let request = popped.pop_request(&order);
    let answer = popped.serving.ask(&request);
    assert_eq!(answer.ext["reviveQid"], "999");
    assert_eq!(answer.ext["orderCountInfo"], "0 qo0%2 1;0 qo0%3 1;0 0 1");
    assert_eq!(bodies(&got(&answer)), ["2", "3"]);
    assert_eq!(popped.serving.number("pop_records"), 0);
}

#[test]
fn what_is_open_survives_a_stop_and_a_kill() {
    for is_killed in [false, true] {
        let mut popped = Popped::new(one_revive_queue());
        for at in 0..6 {
            popped.send(0, &at.to_string());
        }
        popped.serving.settle();
        let got = popped.pop(&[]);
        popped.ack(&got[0]);
        if is_killed {
            let saved = popped.offsets();
            popped.kill(saved);
            // What was open was never committed.
            assert_eq!(popped.pop(&[]).len(), 6);
        } else {
            popped.stop();
            assert!(popped.pop(&[]).is_empty());
            assert_eq!(
                response(&popped.ack(&got[1])),
                (0, ""),
                "with the handle of before"
            );
            popped.pass(70_000);
            assert_eq!(bodies(&popped.pop(&[])), ["2", "3", "4", "5"]);
        }
    }
}

#[test]
fn a_group_that_goes_back_gets_its_messages_again() {
    let mut popped = Popped::new(one_revive_queue());
    for at in 0..3 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    assert_eq!(popped.pop(&[]).len(), 3);
    let fields = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("commitOffset", "1"),
    ];
    let back = request(15, 1, &fields, b"");
    assert_eq!(popped.serving.ask(&back).code, 0);
    assert_eq!(bodies(&popped.pop(&[])), ["1", "2"]);
}

/// Stores a record for the rounds, as another broker may have.
fn note(popped: &Popped, tag: &str, body: &str) {
    let properties = format!("TAGS\u{1}{tag}\u{2}");
    let store_host = host(10_911);
    let message = Message {
        born_timestamp_ms: popped.serving.store.wall_ms(),
        properties: properties.as_bytes(),
        ..Message::of(REVIVE, 0, body.as_bytes(), store_host)
    };
    popped.serving.store.writer().append(&message).unwrap();
}

#[test]
fn the_later_of_two_check_points_with_one_key_is_acknowledged() {
    let mut popped = Popped::new(one_revive_queue());
    popped.send(0, "x");
    popped.serving.settle();
    let pop_time_ms = popped.serving.store.wall_ms() - 10_000;
    // The official broker gives a pop and a change in the same millisecond one key.
    for invisible_ms in [5_000, 20_000] {
        let point = CheckPoint {
            topic: "t".to_owned(),
            group: "g".to_owned(),
            pop_time_ms,
            invisible_ms,
            distances: vec![0],
            count: 1,
            broker: "broker-a".to_owned(),
            ..CheckPoint::default()
        };
        note(&popped, "ck", &point.json());
    }
    assert_eq!(popped.revive().revived, 1, "one was due");
    let ack = Acknowledgement {
        topic: "t".to_owned(),
        group: "g".to_owned(),
        pop_time_ms,
        broker: "broker-a".to_owned(),
        offsets: vec![0],
        ..Acknowledgement::default()
    };
    note(&popped, "ack", &ack.json());
    popped.serving.pass(20_000);
    let revived = popped.revive();
    assert_eq!((revived.revived, revived.skipped), (0, 0));
}
