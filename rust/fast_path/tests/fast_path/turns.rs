//! Many requests that wait are worked off in turns: each turn answers so many, others are served in
//! between, and nobody is answered twice or forgotten.

use std::collections::HashSet;

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::ConnectionId;
use mqcore_fast_path::holds::HoldLimits;
use mqcore_fast_path::parked::ParkLimits;
use mqcore_fast_path::policy::{Broker, PopRules};

use crate::popping::{Popped, one_revive_queue};
use crate::serving::{Serving, commands, host, pull_with, request, response, send_with};

const MANY: i32 = 3_000;
/// More than one turn of any kind answers.
const PER_TURN_MAX: usize = 450;
const WAIT: [(&str, &str); 2] = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];

fn serving_with(flush: FlushDiskType, change: impl FnOnce(&mut Broker)) -> Serving {
    let mut serving = Serving::new(flush);
    let mut broker = Broker::clone(&serving.fast_path.policy.broker);
    broker.held = HoldLimits {
        per_queue: MANY as usize,
        ..HoldLimits::default()
    };
    change(&mut broker);
    serving.fast_path.decide_broker(broker);
    serving
}

fn holding(count: i32) -> Serving {
    let mut serving = serving_with(FlushDiskType::Async, |_broker| {});
    for opaque in 0..count {
        serving.feed(&pull_with(opaque, &WAIT));
    }
    assert_eq!(serving.number("held"), count as u64);
    serving
}

fn is_at_work(serving: &Serving) -> bool {
    serving
        .fast_path
        .next_deadline_ms()
        .is_some_and(|at| at <= serving.now_ms)
}

/// Drains until nothing is to be done; the answers of each turn, by their numbers.
fn turns(serving: &mut Serving) -> Vec<Vec<i32>> {
    let mut turns = Vec::new();
    while is_at_work(serving) || turns.is_empty() {
        serving.drain();
        turns.push(serving.answers().iter().map(|a| a.opaque).collect());
        assert!(turns.len() < 10_000, "it goes on for ever");
    }
    turns
}

fn assert_in_turns(turns: &[Vec<i32>], count: i32) {
    let largest = turns.iter().map(Vec::len).max().unwrap_or(0);
    assert!(largest <= PER_TURN_MAX, "{largest} in one turn");
    let all: Vec<i32> = turns.iter().flatten().copied().collect();
    let each: HashSet<i32> = all.iter().copied().collect();
    assert_eq!((all.len(), each.len()), (count as usize, count as usize));
}

/// What another connection is answered by a request, at once.
fn ask_beside(serving: &mut Serving, other: ConnectionId, frame: &[u8]) -> i32 {
    serving
        .fast_path
        .feed(other, frame, serving.now_ms)
        .unwrap();
    let taken = |output: &mut mqcore_fast_path::output::Output<_>| output.take(usize::MAX);
    let bytes = serving
        .fast_path
        .connections
        .change_output(other, taken)
        .unwrap();
    commands(&bytes).remove(0).code
}

#[test]
fn a_send_that_wakes_many_is_worked_off_in_turns_and_others_are_served_between() {
    let mut serving = holding(MANY);
    let other = serving.fast_path.open(host(10), "1.2.3.4:10");
    serving
        .fast_path
        .feed(other, &send_with(1, &[], b"x"), 0)
        .unwrap();
    while serving.store.dispatching().step().unwrap_or(false) {}
    serving.drain();
    let first: Vec<i32> = serving.answers().iter().map(|a| a.opaque).collect();
    assert!(!first.is_empty() && is_at_work(&serving));
    serving
        .fast_path
        .connections
        .change_output(other, |output| output.take(usize::MAX));
    assert_eq!(
        ask_beside(&mut serving, other, &send_with(2, &[("e", "1")], b"x")),
        0
    );
    let mut all = vec![first];
    all.extend(turns(&mut serving));
    assert_in_turns(&all, MANY);
    let order: Vec<i32> = all.into_iter().flatten().collect();
    assert!(order.is_sorted(), "who waits longest comes first");
}

#[test]
fn pulls_whose_time_is_over_together_end_in_turns() {
    let mut serving = holding(MANY);
    serving.now_ms += 20_000;
    assert_in_turns(&turns(&mut serving), MANY);
}

#[test]
fn the_check_wakes_in_turns() {
    let mut serving = holding(MANY);
    serving.feed(&send_with(-1, &[], b"x"));
    while serving.store.dispatching().step().unwrap_or(false) {}
    let (mut news, before) = (Vec::new(), serving.answers().len());
    // As if nobody had reported it.
    serving.store.arrivals().drain(usize::MAX, &mut news);
    assert_eq!((before, news.len()), (1, 1));
    serving.drain();
    assert_eq!(serving.answers().len(), 0);
    serving.now_ms += 5_000;
    assert_in_turns(&turns(&mut serving), MANY);
}

#[test]
fn a_closed_connection_is_answered_nothing_and_forgotten_in_turns() {
    let mut serving = holding(MANY);
    let other = serving.fast_path.open(host(10), "1.2.3.4:10");
    serving
        .fast_path
        .feed(other, &pull_with(7, &WAIT), 0)
        .unwrap();
    serving.fast_path.close(serving.client);
    assert!(
        is_at_work(&serving),
        "what it has left is taken out in turns"
    );
    let left = serving.number("held");
    assert!(
        left > MANY as u64 - 200,
        "the close itself does little: {left}"
    );
    serving
        .fast_path
        .feed(other, &send_with(8, &[], b"x"), 0)
        .unwrap();
    while serving.store.dispatching().step().unwrap_or(false) {}
    let pulls = serving.number("pulls");
    let mut before = left;
    while is_at_work(&serving) || before == left {
        serving.drain();
        let now = serving.number("held");
        // Those that news and those that the close takes out.
        assert!(before - now <= 10_000, "{before} to {now}");
        before = now;
    }
    assert_eq!(
        (serving.number("held"), serving.number("pulls") - pulls),
        (0, 1)
    );
}

#[test]
fn a_pull_beyond_the_limit_is_refused_in_words_and_others_are_held() {
    let mut serving = holding(MANY);
    let answer = serving.ask(&pull_with(-1, &WAIT));
    assert_eq!(answer.code, 2);
    let remark = response(&answer).1.to_owned();
    assert!(
        remark.ends_with("3000 pulls of this connection at this queue wait already"),
        "{remark}"
    );
    let elsewhere = [WAIT[0], WAIT[1], ("queueId", "1")];
    serving.feed(&pull_with(-2, &elsewhere));
    assert_eq!(serving.number("held"), MANY as u64 + 1);
}

#[test]
fn a_sync_answers_so_many_sends_per_turn() {
    let mut serving = serving_with(FlushDiskType::Sync, |broker| {
        broker.parked = ParkLimits {
            all: 6_000,
            per_connection: 5_000,
        };
    });
    for opaque in 0..5_001 {
        serving.feed(&send_with(opaque, &[], b"x"));
    }
    let refused = serving.answers();
    assert_eq!((refused.len(), refused[0].code), (1, 2));
    serving.store.durability().flush().unwrap();
    let turns = turns(&mut serving);
    assert!(
        turns.iter().all(|turn| turn.len() <= 2_048),
        "a turn has a bound"
    );
    let order: Vec<i32> = turns.into_iter().flatten().collect();
    assert_eq!(order, (0..5_000).collect::<Vec<_>>());
}

#[test]
fn pops_and_questions_end_in_turns() {
    for code in [200_050, 200_054] {
        let mut serving = Popped::new(PopRules {
            held_per_line: MANY as usize,
            ..one_revive_queue()
        })
        .serving;
        let fields = [
            ("consumerGroup", "g"),
            ("topic", "t"),
            ("queueId", "-1"),
            ("maxMsgNums", "1"),
            ("invisibleTime", "60000"),
            ("pollTime", "20000"),
            ("initMode", "0"),
        ];
        for opaque in 0..MANY {
            serving.feed(&request(code, opaque, &fields, b""));
        }
        assert_eq!(serving.number("pops_held"), MANY as u64, "{code}");
        let passed = std::time::Duration::from_secs(20);
        serving.clock.advance(passed);
        serving.now_ms += 20_000;
        let mut all = Vec::new();
        while serving.number("pops_held") > 0 || is_at_work(&serving) {
            serving.drain();
            all.push(serving.answers().iter().map(|a| a.opaque).collect());
            serving.now_ms += 1;
        }
        assert_in_turns(&all, MANY);
    }
}

/// 160 tests, each of which searches 1,800 bytes: some ten times what the loop gives one pull.
fn expensive() -> (String, String) {
    let tests = (0..160).map(|at| format!("p{} CONTAINS 'zz{at}'", at % 8));
    let value = "a".repeat(1_800);
    let properties: String = (0..8).map(|at| format!("p{at}\u{1}{value}\u{2}")).collect();
    (tests.collect::<Vec<_>>().join(" OR "), properties)
}

#[test]
fn pulls_by_expensive_expressions_go_to_the_threads_and_take_turns() {
    let mut serving = serving_with(FlushDiskType::Async, |broker| {
        broker.filters_properties = true;
    });
    let (expression, properties) = expensive();
    for _ in 0..8 {
        serving.feed(&send_with(1, &[("i", &properties)], b"x"));
    }
    serving.settle();
    serving.answers();
    let fields = [
        ("sysFlag", "4"),
        ("subscription", expression.as_str()),
        ("expressionType", "SQL92"),
    ];
    for opaque in 0..32 {
        serving.feed(&pull_with(opaque, &fields));
    }
    let other = serving.fast_path.open(host(10), "1.2.3.4:10");
    serving
        .fast_path
        .feed(other, &pull_with(1, &fields), 0)
        .unwrap();
    assert_eq!(serving.answers().len(), 0, "none is done in the loop");
    assert!(serving.number("filtered_waiting") >= 32);
    // Taken out of the first turns: that of the other connection is not behind all of the first one's.
    let mut answers = Vec::new();
    for turn in 0..40 {
        serving.drain();
        let of_turn = serving.answers();
        assert!(of_turn.len() <= 1, "one read at once");
        answers.extend(of_turn);
        if turn == 3 {
            let taken = |output: &mut mqcore_fast_path::output::Output<_>| output.take(usize::MAX);
            let beside = serving
                .fast_path
                .connections
                .change_output(other, taken)
                .unwrap();
            assert_eq!(commands(&beside).len(), 1, "serving take turns");
        }
    }
    assert_eq!(answers.len(), 32);
    for answer in answers {
        let next: u64 = answer.ext["nextBeginOffset"].parse().unwrap();
        assert_eq!(response(&answer), (20, "NO_MATCHED_MESSAGE"));
        assert!((1..=8).contains(&next), "it comes on: {next}");
    }
}

#[test]
fn a_held_pull_by_an_expensive_expression_does_not_stop_the_turn() {
    let mut serving = serving_with(FlushDiskType::Async, |broker| {
        broker.filters_properties = true;
    });
    let (expression, properties) = expensive();
    let fields = [
        ("sysFlag", "6"),
        ("suspendTimeoutMillis", "20000"),
        ("subscription", expression.as_str()),
        ("expressionType", "SQL92"),
    ];
    let count = 100;
    for opaque in 0..count {
        serving.feed(&pull_with(opaque, &fields));
    }
    assert_eq!(serving.number("held"), count as u64);
    serving.feed(&send_with(-1, &[("i", &properties)], b"x"));
    while serving.store.dispatching().step().unwrap_or(false) {}
    serving.drain();
    assert!(serving.number("held") > 50, "a turn asks a few of them");
    let mut answered = serving.answers().len() - 1;
    for _ in 0..1_000 {
        serving.drain();
        answered += serving.answers().len();
    }
    assert_eq!(answered as i32, count);
}
