//! Pulls by expressions: who is refused and why, what is given, what wakes a held one.

use std::sync::Arc;

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::policy::{Broker, Filters, Registered, Subscription, Wanted};
use mqcore_fast_path::sql::Sql;

use crate::serving::{Serving, TOPIC, pull_with, response, send_with};

const SQL: (&str, &str) = ("expressionType", "SQL92");

/// A fast path whose broker knows expressions, with so many messages of `n` = 0, 1, ...
fn filled(count: i32) -> Serving {
    let mut serving = Serving::new(FlushDiskType::Async);
    switch(&mut serving, |broker| broker.filters_properties = true);
    for at in 0..count {
        send(&mut serving, &format!("n\u{1}{at}\u{2}"));
    }
    serving.settle();
    serving
}

fn switch(serving: &mut Serving, change: impl FnOnce(&mut Broker)) {
    let mut broker = Broker::clone(&serving.fast_path.policy.broker);
    change(&mut broker);
    serving.fast_path.decide_broker(broker);
}

fn send(serving: &mut Serving, properties: &str) {
    serving.feed(&send_with(1, &[("i", properties)], b"x"));
    serving.bytes();
}

/// Lets the group subscribe a topic by an expression, and register one.
fn subscribe(serving: &mut Serving, topic: &str, registered: Option<(&str, i64)>) {
    let members = serving.fast_path.policy.members.get_mut("g").unwrap();
    let subscription = Subscription {
        wanted: Some(Wanted::Expression("SQL92".into())),
        version: 5,
    };
    members.subscriptions.insert(topic.into(), subscription);
    let row = registered.map(|(text, version)| {
        let sql = Arc::new(Sql::compile(text).unwrap());
        let bits = None;
        (topic.into(), Registered { sql, version, bits })
    });
    members.filters = Arc::new(row.into_iter().collect::<Filters>());
}

fn bring<'a>(text: &'a str, more: &[(&'a str, &'a str)]) -> Vec<u8> {
    let fields = [("sysFlag", "4"), SQL, ("subscription", text)];
    let fields: Vec<_> = fields.iter().chain(more).copied().collect();
    pull_with(1, &fields)
}

fn counted(serving: &mut Serving, request: &[u8]) -> (i32, usize, String) {
    let before = serving.number("pulled");
    let answer = serving.ask(request);
    let count = (serving.number("pulled") - before) as usize;
    (answer.code, count, answer.ext["nextBeginOffset"].clone())
}

#[test]
fn a_pull_that_brings_its_expression_gets_what_matches() {
    let mut serving = filled(40);
    let (code, count, next) = counted(&mut serving, &bring("n BETWEEN 10 AND 19", &[]));
    assert_eq!((code, count, next.as_str()), (0, 10, "40"));
    let few = bring("n >= 10", &[("maxMsgNums", "4")]);
    let (code, count, next) = counted(&mut serving, &few);
    assert_eq!((code, count, next.as_str()), (0, 4, "14"));
    let (code, count, next) = counted(&mut serving, &bring("n > 1000", &[]));
    assert_eq!((code, count, next.as_str()), (20, 0, "40"));
    let answer = serving.ask(&bring("missing > 1", &[]));
    assert_eq!(response(&answer), (20, "NO_MATCHED_MESSAGE"));
}

#[test]
fn an_expression_that_is_none_is_refused_with_its_position() {
    let mut serving = filled(1);
    let long = "x".repeat(1 << 20);
    let nested = format!("{}a{}", "(".repeat(10_000), ")".repeat(10_000));
    let cases = [
        ("", "parse the consumer's subscription failed"),
        ("n >", "but the text ends at line 1, column 3"),
        (&nested, "brackets in one another at line 1, column 129"),
        (&long, "1048576 bytes of text"),
    ];
    for (text, wanted) in cases {
        let answer = serving.ask(&bring(text, &[]));
        assert_eq!(answer.code, 23);
        let remark = answer.remark.unwrap();
        assert!(
            remark.starts_with("parse the consumer's subscription failed"),
            "{remark}"
        );
        assert!(remark.contains(wanted), "{remark}");
    }
    let other = [
        ("sysFlag", "4"),
        ("expressionType", "XPATH"),
        ("subscription", "n"),
    ];
    assert_eq!(serving.ask(&pull_with(1, &other)).code, 23);
}

#[test]
fn a_group_goes_by_what_it_has_registered() {
    let mut serving = filled(10);
    subscribe(&mut serving, "t", None);
    let answer = serving.ask(&pull_with(1, &[]));
    let none = "The broker's consumer filter data is not exist!Your expression may be wrong!";
    assert_eq!(response(&answer), (27, none));
    subscribe(&mut serving, "t", Some(("n > 5", 4)));
    let answer = serving.ask(&pull_with(1, &[]));
    assert_eq!(
        response(&answer),
        (28, "the consumer's consumer filter data not latest")
    );
    subscribe(&mut serving, "t", Some(("n > 5", 5)));
    let (code, count, next) = counted(&mut serving, &pull_with(1, &[]));
    assert_eq!((code, count, next.as_str()), (0, 4, "10"));
    let newer = pull_with(1, &[("subVersion", "6")]);
    assert_eq!(serving.ask(&newer).code, 25);
    switch(&mut serving, |broker| broker.filters_properties = false);
    let off = "The broker does not support consumer to filter message by SQL92";
    assert_eq!(response(&serving.ask(&pull_with(1, &[]))), (1, off));
    assert_eq!(response(&serving.ask(&bring("n > ", &[]))), (1, off));
    assert_eq!(serving.ask(&bring("", &[])).code, 23);
}

#[test]
fn a_held_pull_wakes_with_the_message_that_matches() {
    let mut serving = filled(3);
    subscribe(&mut serving, "t", Some(("n > 5", 5)));
    let wait = [
        ("sysFlag", "2"),
        ("suspendTimeoutMillis", "20000"),
        ("queueOffset", "3"),
    ];
    serving.feed(&pull_with(50, &wait));
    for at in ["1", "2", "x"] {
        send(&mut serving, &format!("n\u{1}{at}\u{2}"));
        serving.settle();
        assert!(serving.answers().is_empty(), "{at}");
    }
    send(&mut serving, "n\u{1}6\u{2}");
    serving.settle();
    let answer = serving.answers().remove(0);
    assert_eq!((answer.opaque, response(&answer)), (50, (0, "FOUND")));
    assert_eq!(answer.ext["nextBeginOffset"], "7");
}

#[test]
fn the_check_answers_what_does_not_match_so_that_the_offset_goes_on() {
    let mut serving = filled(0);
    subscribe(&mut serving, "t", Some(("n > 5", 5)));
    let wait = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    serving.feed(&pull_with(50, &wait));
    send(&mut serving, "n\u{1}1\u{2}");
    serving.settle();
    assert!(serving.answers().is_empty());
    serving.pass(5_000);
    let answer = serving.answers().remove(0);
    assert_eq!(response(&answer), (20, "NO_MATCHED_MESSAGE"));
    assert_eq!(answer.ext["nextBeginOffset"], "1");
}

#[test]
fn a_held_pull_goes_by_what_its_group_wants_when_it_runs_again() {
    let mut serving = filled(0);
    subscribe(&mut serving, "t", Some(("n > 5", 5)));
    let wait = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    serving.feed(&pull_with(50, &wait));
    serving.feed(&pull_with(51, &wait));
    subscribe(&mut serving, "t", Some(("n = 1", 6)));
    send(&mut serving, "n\u{1}1\u{2}");
    serving.settle();
    assert!(
        serving.answers().is_empty(),
        "woken by what it was held for"
    );
    serving.pass(5_000);
    for answer in serving.answers() {
        assert_eq!(response(&answer), (0, "FOUND"));
    }
    serving.feed(&pull_with(52, &[wait[0], wait[1], ("queueOffset", "1")]));
    serving.fast_path.policy.members.clear();
    serving.pass(20_000);
    assert_eq!(serving.answers().remove(0).code, 24);
}

#[test]
fn many_arrivals_at_once_wake_whoever_looks_for_itself() {
    let mut serving = filled(0);
    subscribe(&mut serving, "t", Some(("n > 5", 5)));
    let wait = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    serving.feed(&pull_with(50, &wait));
    for _ in 0..100 {
        send(&mut serving, "n\u{1}1\u{2}");
    }
    serving.settle();
    let answer = serving.answers().remove(0);
    assert_eq!(
        (answer.code, answer.ext["nextBeginOffset"].as_str()),
        (20, "100")
    );
}

#[test]
fn an_expensive_expression_goes_through_a_queue_in_parts() {
    let mut serving = filled(700);
    let terms: Vec<String> = (0..4_000).map(|at| format!("n = -{}", at + 1)).collect();
    let text = terms.join(" OR ");
    let mut from = "0".to_owned();
    let mut answers = 0;
    while from != "700" {
        let fields = [("queueOffset", from.as_str())];
        let (code, count, next) = counted(&mut serving, &bring(&text, &fields));
        assert_eq!((code, count), (20, 0));
        let (before, after): (u64, u64) = (from.parse().unwrap(), next.parse().unwrap());
        assert!(before < after && after <= before + 60, "{before} {after}");
        from = next;
        answers += 1;
    }
    assert!(answers > 10);
}

#[test]
fn retries_are_filtered_by_their_origin_where_the_broker_does_so() {
    let mut serving = filled(0);
    subscribe(&mut serving, "t", Some(("n > 5", 5)));
    serving
        .fast_path
        .policy
        .topics
        .insert("%RETRY%g".into(), TOPIC);
    let texts = [
        "n\u{1}1\u{2}RETRY_TOPIC\u{1}t\u{2}",
        "n\u{1}6\u{2}RETRY_TOPIC\u{1}t\u{2}",
        "n\u{1}1\u{2}RETRY_TOPIC\u{1}u\u{2}",
    ];
    for text in texts {
        serving.feed(&send_with(1, &[("b", "%RETRY%g"), ("i", text)], b"x"));
        assert_eq!(serving.answers().remove(0).code, 0);
    }
    serving.settle();
    let pull = bring("n > 100", &[("topic", "%RETRY%g")]);
    let (code, count, _next) = counted(&mut serving, &pull);
    assert_eq!((code, count), (20, 0), "off: by its own expression");
    switch(&mut serving, |broker| broker.filters_retries = true);
    let (code, count, next) = counted(&mut serving, &pull);
    assert_eq!((code, count, next.as_str()), (0, 2, "3"));
}
