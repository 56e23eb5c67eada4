//! Pulls: every status, who may pull, what is held and when it goes on.

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_fast_path::Escalation;
use mqcore_fast_path::policy::{Broker, Group, Perm, Topic};
use mqcore_record::{CrcCheck, Found, Outline, check, write_bodiless};
use mqcore_wire::Command;

use crate::serving::{GROUP, Serving, TOPIC, pull_with, request, response, send_with};

fn filled(count: i32) -> Serving {
    let mut serving = Serving::new(FlushDiskType::Async);
    for at in 0..count {
        let tag = if at % 2 == 0 { "even" } else { "odd" };
        let text = format!("TAGS\u{1}{tag}\u{2}");
        serving.feed(&send_with(at, &[("i", text.as_str())], b"x"));
    }
    serving.bytes();
    serving.settle();
    serving
}

#[test]
fn every_status_has_its_code_and_its_next_offset() {
    let mut serving = filled(4);
    let cases = [
        ("0", "4", 19, "OFFSET_OVERFLOW_ONE", "4"),
        ("0", "5", 21, "OFFSET_OVERFLOW_BADLY", "4"),
        ("0", "-1", 21, "OFFSET_TOO_SMALL", "0"),
        ("0", "1", 0, "FOUND", "4"),
        ("1", "0", 19, "NO_MATCHED_LOGIC_QUEUE", "0"),
        ("1", "7", 21, "NO_MATCHED_LOGIC_QUEUE", "0"),
        ("1", "-7", 21, "NO_MATCHED_LOGIC_QUEUE", "0"),
    ];
    for (queue, offset, code, status, next) in cases {
        let fields = [("queueId", queue), ("queueOffset", offset)];
        let answer = serving.ask(&pull_with(1, &fields));
        assert_eq!(response(&answer), (code, status), "{queue} {offset}");
        assert_eq!(answer.ext["nextBeginOffset"], next, "{queue} {offset}");
        assert_eq!(answer.ext.len(), 4);
    }
    let tags = [("sysFlag", "4"), ("subscription", "none || at all")];
    let answer = serving.ask(&pull_with(1, &tags));
    assert_eq!(response(&answer), (20, "NO_MATCHED_MESSAGE"));
    assert_eq!(answer.ext["nextBeginOffset"], "4");
    for count in ["0", "-5", "1"] {
        let answer = serving.ask(&pull_with(1, &[("maxMsgNums", count)]));
        assert_eq!(
            answer.ext["nextBeginOffset"], "1",
            "one whatever was asked for"
        );
    }
    let answer = serving.ask(&pull_with(1, &[("maxMsgNums", "2147483647")]));
    assert_eq!(answer.ext["nextBeginOffset"], "4");
}

fn refused(serving: &mut Serving, fields: &[(&str, &str)], code: i32, remark: &str) {
    let answer = serving.ask(&pull_with(1, fields));
    assert_eq!(answer.code, code, "{answer:?}");
    assert!(
        answer.remark.as_deref().unwrap().starts_with(remark),
        "{answer:?}"
    );
    assert!(answer.body.is_empty());
}

#[test]
fn who_may_not_pull_gets_the_reason() {
    let mut serving = filled(1);
    for queue_id in ["4", "-1"] {
        let remark = format!("queueId[{queue_id}] is illegal, topic:[t]");
        refused(&mut serving, &[("queueId", queue_id)], 1, &remark);
    }
    refused(
        &mut serving,
        &[("subVersion", "6")],
        25,
        "the consumer's subscription not latest",
    );
    let sql = [
        ("sysFlag", "4"),
        ("expressionType", "SQL92"),
        ("subscription", "a > 1"),
    ];
    let remark = "The broker does not support consumer to filter message by SQL92";
    refused(&mut serving, &sql, 1, remark);
    let bad = [("sysFlag", "4"), ("subscription", "||")];
    refused(
        &mut serving,
        &bad,
        23,
        "parse the consumer's subscription failed",
    );
    let retry = [("topic", "%RETRY%g")];
    refused(
        &mut serving,
        &retry,
        24,
        "the consumer's subscription not exist",
    );
    serving.fast_path.policy.members.clear();
    refused(&mut serving, &[], 24, "the consumer's group info not exist");
    let unreadable = Topic {
        perm: Perm(2),
        ..TOPIC
    };
    serving
        .fast_path
        .policy
        .topics
        .insert("t".into(), unreadable);
    refused(
        &mut serving,
        &[],
        16,
        "the topic[t] pulling message is forbidden",
    );
    let disabled = Group {
        is_consume_enabled: false,
        ..GROUP
    };
    serving.fast_path.policy.groups.insert("g".into(), disabled);
    refused(&mut serving, &[], 16, "subscription group no permission, g");
    serving.feed(&pull_with(1, &[("consumerGroup", "h")]));
    let escalated = serving.fast_path.take_escalated().remove(0);
    assert_eq!(escalated.escalation, Escalation::Group("h".to_owned()));
    assert!(
        serving
            .fast_path
            .execute(serving.client, escalated.command, 0)
    );
    let answer = serving.answers().remove(0);
    assert_eq!(answer.code, 26);
}

#[test]
fn a_held_pull_goes_on_with_the_message_it_waits_for() {
    let mut serving = filled(0);
    let wait = [
        ("sysFlag", "6"),
        ("suspendTimeoutMillis", "20000"),
        ("subscription", "odd"),
    ];
    serving.feed(&pull_with(50, &wait));
    assert!(serving.answers().is_empty());
    serving.feed(&send_with(1, &[("i", "TAGS\u{1}even\u{2}")], b"no"));
    serving.settle();
    assert_eq!(serving.answers().len(), 1, "the answer to the send alone");
    serving.feed(&send_with(2, &[("i", "TAGS\u{1}odd\u{2}")], b"yes"));
    serving.bytes();
    serving.settle();
    let answer = serving.answers().remove(0);
    assert_eq!((answer.opaque, response(&answer)), (50, (0, "FOUND")));
    assert!(answer.body.windows(3).any(|three| three == b"yes"));
    assert_eq!(serving.store.arrivals().watched(), 0);
}

#[test]
fn a_held_pull_is_answered_at_its_time_and_its_topic_may_be_gone_by_then() {
    let mut serving = filled(0);
    let wait = |ms| [("sysFlag", "2"), ("suspendTimeoutMillis", ms)];
    serving.feed(&pull_with(1, &wait("15000")));
    serving.feed(&pull_with(2, &wait("16000")));
    serving.pass(14_999);
    assert!(serving.answers().is_empty());
    serving.pass(1);
    let answer = serving.answers().remove(0);
    assert_eq!((answer.opaque, answer.code), (1, 19));
    serving.fast_path.policy.topics.remove("t");
    serving.pass(1_000);
    let answer = serving.answers().remove(0);
    assert_eq!((answer.opaque, answer.code), (2, 17));
    assert_eq!(serving.number("held"), 0);
}

#[test]
fn without_news_the_check_finds_what_came() {
    let mut serving = filled(0);
    let wait = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    serving.feed(&pull_with(1, &wait));
    serving.store.arrivals().unwatch(b"t", 0);
    serving.feed(&send_with(2, &[], b"x"));
    serving.bytes();
    serving.settle();
    assert!(serving.answers().is_empty());
    serving.pass(5_000);
    assert_eq!(serving.answers().remove(0).code, 0);
}

#[test]
fn a_pull_carries_the_offset_to_commit() {
    let mut serving = filled(1);
    serving.ask(&pull_with(1, &[("sysFlag", "0"), ("commitOffset", "9")]));
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), None);
    serving.ask(&pull_with(1, &[("sysFlag", "1"), ("commitOffset", "9")]));
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), Some(9));
}

#[test]
fn a_queue_that_was_reset_goes_on_there_with_the_next_pull() {
    let mut serving = filled(3);
    let commit = |serving: &mut Serving, offset| {
        let names = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0")];
        let fields = [&names[..], &[("commitOffset", offset)]].concat();
        serving.ask(&request(15, 1, &fields, b""))
    };
    assert_eq!(response(&commit(&mut serving, "3")), (0, ""));
    let at_end = [("sysFlag", "3"), ("queueOffset", "3")];
    let held = [
        ("commitOffset", "3"),
        ("suspendTimeoutMillis", "60000"),
        at_end[0],
        at_end[1],
    ];
    serving.feed(&pull_with(1, &held));
    assert!(serving.answers().is_empty());
    assert!(serving.fast_path.reset_offset("g", "t", 0, 1));
    assert!(!serving.fast_path.reset_offset("g", "t", -1, 1));
    // Who has not heard of it commits in vain, by a request or with a pull.
    let remark = "Offset has been previously reset";
    assert_eq!(response(&commit(&mut serving, "3")), (0, remark));
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), Some(1));
    let offsets = &serving.fast_path.shared.offsets;
    assert!(!offsets.has_reset("g", "t", 1) && !offsets.has_reset("h", "t", 0));
    let answer = serving.ask(&pull_with(3, &[held[0], at_end[1], ("sysFlag", "1")]));
    assert_eq!(response(&answer), (21, "OFFSET_RESET"));
    let record_offsets =
        ["nextBeginOffset", "minOffset", "maxOffset"].map(|name| &*answer.ext[name]);
    assert_eq!(record_offsets, ["1", "0", "3"]);
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), Some(1));
    // Once is enough.
    assert_eq!(serving.ask(&pull_with(4, &[("queueOffset", "1")])).code, 0);
    assert_eq!(response(&commit(&mut serving, "2")), (0, ""));
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), Some(2));
    // A held pull is corrected when it runs again.
    assert!(serving.fast_path.reset_offset("g", "t", 0, 0));
    serving.feed(&send_with(5, &[], b"x"));
    serving.bytes();
    serving.settle();
    let answer = serving.answers().remove(0);
    assert_eq!(
        (answer.opaque, response(&answer)),
        (1, (21, "OFFSET_RESET"))
    );
    assert_eq!(answer.ext["nextBeginOffset"], "0");
    // What is forgotten corrects nothing.
    assert!(serving.fast_path.reset_offset("g", "t", 0, 0));
    serving.fast_path.remove_offsets(Some("g"), None);
    assert_eq!(serving.ask(&pull_with(6, &[("queueOffset", "1")])).code, 0);
}

#[test]
fn cold_records_are_read_elsewhere_and_come_with_the_next_drain() {
    let mut serving = Serving::with(StoreConfig {
        hot_window_bytes: 1,
        ..StoreConfig::default()
    });
    let body = vec![b'c'; 90_000];
    for at in 0..12 {
        serving.feed(&send_with(at, &[], &body));
    }
    serving.bytes();
    serving.settle();
    while serving.store.preparation().step().unwrap() {}
    serving.feed(&pull_with(1, &[("maxMsgNums", "2")]));
    assert_eq!(serving.number("cold_pulls"), 1);
    assert!(serving.answers().is_empty());
    serving.drain();
    let answer = serving.answers().remove(0);
    assert_eq!(
        (answer.code, answer.ext["nextBeginOffset"].as_str()),
        (0, "2")
    );
    assert!(answer.body.len() > 180_000);
}

#[test]
fn a_broadcasting_group_that_may_not_is_refused() {
    let mut serving = filled(1);
    let quiet = Group {
        is_broadcast_enabled: false,
        ..GROUP
    };
    serving.fast_path.policy.groups.insert("g".into(), quiet);
    assert_eq!(serving.ask(&pull_with(1, &[])).code, 0);
    let members = serving.fast_path.policy.members.get_mut("g").unwrap();
    members.is_broadcasting = true;
    assert_eq!(serving.ask(&pull_with(1, &[])).code, 16);
}

#[test]
fn a_bulk_pull_is_bound_by_what_it_asks_and_not_by_the_official_limits() {
    let mut serving = filled(100);
    let next = |serving: &mut Serving, fields: &[(&str, &str)]| {
        let answer = serving.ask(&pull_with(1, fields));
        answer.ext["nextBeginOffset"].clone()
    };
    let many = ("maxMsgNums", "90");
    assert_eq!(next(&mut serving, &[many]), "32", "the official limit");
    assert_eq!(next(&mut serving, &[many, ("mqcoreBulk", "true")]), "90");
    assert_eq!(next(&mut serving, &[many, ("mqcoreBulk", "yes")]), "32");
    let huge = ("maxMsgNums", "2147483647");
    assert_eq!(next(&mut serving, &[huge, ("mqcoreBulk", "true")]), "100");
    let bytes = [huge, ("mqcoreBulk", "true"), ("maxMsgBytes", "1000")];
    let short: u32 = next(&mut serving, &bytes).parse().unwrap();
    assert!((1..20).contains(&short), "{short} records in 1,000 bytes");
}

#[test]
fn a_bodiless_pull_gives_whole_records_without_their_bodies() {
    let mut serving = filled(3);
    let whole = serving.ask(&pull_with(1, &[("mqcoreBulk", "true")]));
    let bare = serving.ask(&pull_with(1, &[("mqcoreBulk", "bodiless")]));
    assert_eq!(bare.code, 0);
    assert_eq!(bare.ext, whole.ext, "what an answer says of its place");
    let mut want = Vec::new();
    let mut rest = &whole.body[..];
    while let Some(outline) = Outline::of(rest) {
        write_bodiless(&rest[..outline.total_len_bytes], &mut want);
        rest = &rest[outline.total_len_bytes..];
    }
    assert!(rest.is_empty());
    assert_eq!(bare.body, want);
    assert!(bare.body.len() < whole.body.len());
}

/// Where the records of an answer are: topic, queue, queue offset, physical offset.
fn record_offsets(answer: &Command) -> Vec<(Vec<u8>, i32, i64, i64)> {
    let mut rest = answer.body.as_ref();
    let mut found = Vec::new();
    while let Ok(Found::Record(record)) = check(rest, CrcCheck::Verify) {
        found.push((
            record.topic.to_vec(),
            record.queue_id,
            record.queue_offset,
            record.physical_offset,
        ));
        rest = &rest[record.total_len_bytes..];
    }
    assert!(rest.is_empty());
    found
}

#[test]
fn a_pull_of_offsets_has_those_of_the_records() {
    let mut serving = filled(100);
    let all = ("maxMsgNums", "2147483647");
    let whole = serving.ask(&pull_with(1, &[all, ("mqcoreBulk", "true")]));
    let wanted = [all, ("mqcoreBulk", "places")];
    let bare = serving.ask(&pull_with(1, &wanted));
    assert_eq!(bare.code, 0);
    assert_eq!(bare.ext, whole.ext, "what an answer says of its place");
    assert_eq!(record_offsets(&bare), record_offsets(&whole));
    assert_eq!(record_offsets(&bare).len(), 100);
    let one_len = bare.body.len() / 100;
    let topic_len = record_offsets(&bare)[0].0.len();
    assert_eq!(one_len, 91 + topic_len, "a record with nothing else");
    let short = [wanted[0], wanted[1], ("maxMsgBytes", "1000")];
    let few = serving.ask(&pull_with(1, &short));
    assert_eq!(record_offsets(&few).len(), 1000 / one_len);
    assert_eq!(few.ext["nextBeginOffset"], (1000 / one_len).to_string());
    let tiny = [wanted[0], wanted[1], ("maxMsgBytes", "1")];
    assert_eq!(record_offsets(&serving.ask(&pull_with(1, &tiny))).len(), 1);
    for (offset, code) in [("100", 19), ("101", 21), ("-1", 21)] {
        let outside = [wanted[0], wanted[1], ("queueOffset", offset)];
        assert_eq!(serving.ask(&pull_with(1, &outside)).code, code, "{offset}");
    }
}

#[test]
fn a_pull_of_offsets_with_a_filter_looks_at_records() {
    let mut serving = filled(10);
    let odd = [("sysFlag", "4"), ("subscription", "odd")];
    let bare = serving.ask(&pull_with(1, &[odd[0], odd[1], ("mqcoreBulk", "places")]));
    let same = serving.ask(&pull_with(1, &[odd[0], odd[1], ("mqcoreBulk", "bodiless")]));
    assert_eq!(bare.body, same.body);
    assert_eq!(record_offsets(&bare).len(), 5);
}

/// Sends to queue 0 with everything, or nothing, counting as far behind the end of the log.
fn suggested_broker(is_far: bool, is_readable: bool, fields: &[(&str, &str)]) -> (i32, String) {
    let mut serving = Serving::with(StoreConfig {
        memory_ratio_percent: if is_far { 0 } else { 40 },
        ..StoreConfig::default()
    });
    let broker = Broker {
        is_replica_readable: is_readable,
        ..Broker::default()
    };
    serving.fast_path.decide_broker(broker);
    let group = Group {
        broker_id: 3,
        slow_broker_id: 7,
        ..GROUP
    };
    serving.fast_path.policy.groups.insert("g".into(), group);
    for at in 0..4 {
        serving.feed(&send_with(at, &[("i", "TAGS\u{1}a\u{2}")], b"x"));
    }
    serving.bytes();
    serving.settle();
    let answer = serving.ask(&pull_with(1, fields));
    (answer.code, answer.ext["suggestWhichBrokerId"].clone())
}

#[test]
fn a_slow_consumer_is_sent_to_the_broker_for_slow_ones() {
    let nothing = [("sysFlag", "4"), ("subscription", "b")];
    let reported = |code: i32, id: &str| (code, id.to_owned());
    assert_eq!(suggested_broker(true, true, &[]), reported(0, "7"));
    assert_eq!(suggested_broker(true, true, &nothing), reported(20, "7"));
    assert_eq!(suggested_broker(false, true, &[]), reported(0, "3"));
    assert_eq!(suggested_broker(false, true, &nothing), reported(20, "3"));
    assert_eq!(suggested_broker(true, false, &[]), reported(0, "0"));
    // At the end, or beyond, nobody is slow.
    assert_eq!(
        suggested_broker(true, true, &[("queueOffset", "4")]),
        reported(19, "3")
    );
    assert_eq!(
        suggested_broker(true, true, &[("queueOffset", "9")]),
        reported(21, "3")
    );
}

#[test]
fn what_is_held_is_let_go_once_when_requests_are_for_another_master() {
    let mut serving = filled(1);
    let wait = [
        ("sysFlag", "2"),
        ("queueOffset", "1"),
        ("suspendTimeoutMillis", "20000"),
    ];
    for opaque in 0..300 {
        serving.feed(&pull_with(opaque, &wait));
    }
    assert!(serving.answers().is_empty());
    let broker = Broker::clone(&serving.fast_path.policy.broker);
    serving.fast_path.decide_broker(Broker {
        passes_on: true,
        ..broker
    });
    while serving.fast_path.next_deadline_ms() == Some(0) {
        serving.drain();
    }
    assert_eq!(serving.number("held"), 0);
    let answers = serving.answers();
    assert_eq!(answers.len(), 300);
    assert!(answers.iter().all(|answer| answer.code == 19));
    // Who asks again waits as ever, and is given what comes with the log.
    serving.feed(&pull_with(1_000, &wait));
    serving.drain();
    assert!(serving.answers().is_empty());
    assert_eq!(serving.ask(&pull_with(1_001, &[])).code, 0);
}
