//! One connection is executed for a turn, then others have theirs; what is left keeps its order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::bounds::Bounds;
use mqcore_fast_path::feed::Fault;

use crate::serving::{Serving, host, request, send_with};

/// Requests of one buffer.
const COUNT: i32 = 200;
/// So much passes with each reading of the clock in these tests.
const STEP_US: u64 = 1_000;

/// A fast path whose clock moves on with each reading.
fn serving(budget: Duration) -> (Serving, Arc<AtomicU64>) {
    let mut serving = Serving::new(FlushDiskType::Async);
    let readings = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&readings);
    let elapsed = move || Duration::from_micros(STEP_US * count.fetch_add(1, Ordering::SeqCst));
    serving
        .fast_path
        .connections
        .execution_time
        .bound(budget, elapsed);
    (serving, readings)
}

fn questions() -> Vec<u8> {
    let ask = |opaque| request(30, opaque, &[("topic", "t"), ("queueId", "1")], b"");
    (1..=COUNT).flat_map(ask).collect()
}

#[test]
fn a_connection_with_much_to_do_stops_after_its_turn_and_goes_on_in_order() {
    let (mut serving, readings) = serving(Duration::from_millis(5));
    serving.feed(&questions());
    assert!(serving.fast_path.connections.execution_time.is_over());
    assert_eq!(serving.fast_path.connections.execution_time.waiting, 1);
    // One reading per eight requests: the first begins the turn, the sixth ends it.
    assert_eq!(readings.load(Ordering::SeqCst), 6);
    let mut opaques: Vec<i32> = serving.answers().iter().map(|a| a.opaque).collect();
    assert_eq!(opaques.len(), 48);
    let mut turns = 1;
    while serving.fast_path.connections.execution_time.is_over() {
        serving.fast_path.resume(serving.client, 0).unwrap();
        opaques.extend(serving.answers().iter().map(|a| a.opaque));
        turns += 1;
    }
    assert_eq!(turns, 5);
    assert_eq!(opaques, (1..=COUNT).collect::<Vec<_>>());
    assert_eq!(serving.fast_path.connections.execution_time.waiting, 0);
    assert_eq!(serving.number("half_frames_bytes"), 0);
}

#[test]
fn what_comes_before_the_next_turn_stays_behind() {
    let (mut serving, _readings) = serving(Duration::from_millis(5));
    let questions = questions();
    let (first, second) = questions.split_at(questions.len() - 31);
    serving.feed(first);
    assert!(serving.fast_path.connections.execution_time.is_over());
    serving.feed(second);
    let mut opaques: Vec<i32> = Vec::new();
    loop {
        opaques.extend(serving.answers().iter().map(|a| a.opaque));
        if !serving.fast_path.connections.execution_time.is_over() {
            break;
        }
        serving.fast_path.resume(serving.client, 0).unwrap();
    }
    assert_eq!(opaques, (1..=COUNT).collect::<Vec<_>>());
}

#[test]
fn those_that_wait_share_a_turn_and_who_goes_waits_no_more() {
    let (mut serving, _readings) = serving(Duration::from_millis(5));
    let greedy: Vec<_> = (0..4)
        .map(|_| serving.fast_path.open(host(9), "1.2.3.4:9"))
        .collect();
    for id in &greedy {
        serving.fast_path.feed(*id, &questions(), 0).unwrap();
    }
    assert_eq!(serving.fast_path.connections.execution_time.waiting, 4);
    serving.feed(&questions());
    // A fifth of 5 ms: over at the second reading.
    assert_eq!(serving.answers().len(), 16);
    for id in greedy {
        serving.fast_path.close(id);
    }
    assert_eq!(serving.fast_path.connections.execution_time.waiting, 1);
    serving.fast_path.close(serving.client);
    assert_eq!(serving.fast_path.connections.execution_time.waiting, 0);
}

#[test]
fn unfinished_frames_of_all_connections_have_the_bound_that_was_given() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.fast_path.connections.bounds = Bounds {
        half_frames_bytes: 1_000,
        ..Bounds::default()
    };
    let frame = send_with(1, &[], &[b'x'; 900]);
    let (half, _rest) = frame.split_at(800);
    serving.feed(half);
    let other = serving.fast_path.open(host(9), "1.2.3.4:9");
    let fault = serving.fast_path.feed(other, half, 0);
    assert_eq!(fault, Err(Fault::TooManyHalfFrames { bytes_max: 1_000 }));
    assert_eq!(serving.number("half_frames_bytes"), 800);
}

#[test]
fn where_all_answers_together_are_too_many_a_client_that_has_some_is_not_executed() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.fast_path.connections.bounds = Bounds {
        output_bytes: 1_000,
        ..Bounds::default()
    };
    serving.feed(&questions());
    let first = serving.answers().len();
    assert!(first < COUNT as usize, "{first}");
    // Another one that reads what it is sent is executed.
    let slow = serving.client;
    serving.client = serving.fast_path.open(host(9), "1.2.3.4:9");
    serving.fast_path.resume(slow, 0).unwrap();
    let ask = request(30, 1, &[("topic", "t"), ("queueId", "1")], b"");
    assert_eq!(serving.ask(&ask).code, 0);
}

#[test]
fn an_offset_without_a_group_or_a_topic_is_refused() {
    let mut serving = Serving::new(FlushDiskType::Async);
    for (group, topic) in [("", "t"), ("g", ""), ("", ""), (" ", "t")] {
        let fields = [
            ("consumerGroup", group),
            ("topic", topic),
            ("queueId", "0"),
            ("commitOffset", "5"),
        ];
        let answer = serving.ask(&request(15, 1, &fields, b""));
        assert_eq!(answer.code, 1, "{group:?} {topic:?}");
        assert!(answer.remark.unwrap().contains("empty"));
    }
    assert_eq!(serving.fast_path.shared.offsets.all().len(), 0);
}
