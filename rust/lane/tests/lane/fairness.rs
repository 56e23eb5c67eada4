//! One connection is executed for a turn, then others have theirs; what is left keeps its order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mqcore_engine::config::FlushDiskType;
use mqcore_lane::bounds::Bounds;
use mqcore_lane::feed::Fault;

use crate::desk::{Desk, host, request, send_with};

/// Requests of one buffer.
const COUNT: i32 = 200;
/// Each reading of the clock in these tests says that so much has passed.
const STEP_US: u64 = 1_000;

/// A desk whose clock moves on with each reading.
fn desk(budget: Duration) -> (Desk, Arc<AtomicU64>) {
    let mut desk = Desk::new(FlushDiskType::Async);
    let readings = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&readings);
    let elapsed = move || Duration::from_micros(STEP_US * count.fetch_add(1, Ordering::SeqCst));
    desk.lane.desk.execution_time.bound(budget, elapsed);
    (desk, readings)
}

fn questions() -> Vec<u8> {
    let ask = |opaque| request(30, opaque, &[("topic", "t"), ("queueId", "1")], b"");
    (1..=COUNT).flat_map(ask).collect()
}

#[test]
fn a_connection_with_much_to_do_stops_after_its_turn_and_goes_on_in_order() {
    let (mut desk, readings) = desk(Duration::from_millis(5));
    desk.feed(&questions());
    assert!(desk.lane.desk.execution_time.is_over());
    assert_eq!(desk.lane.desk.execution_time.waiting, 1);
    // One reading per eight requests: the first begins the turn, the sixth ends it.
    assert_eq!(readings.load(Ordering::SeqCst), 6);
    let mut opaques: Vec<i32> = desk.answers().iter().map(|a| a.opaque).collect();
    assert_eq!(opaques.len(), 48);
    let mut turns = 1;
    while desk.lane.desk.execution_time.is_over() {
        desk.lane.resume(desk.client, 0).unwrap();
        opaques.extend(desk.answers().iter().map(|a| a.opaque));
        turns += 1;
    }
    assert_eq!(turns, 5);
    assert_eq!(opaques, (1..=COUNT).collect::<Vec<_>>());
    assert_eq!(desk.lane.desk.execution_time.waiting, 0);
    assert_eq!(desk.number("half_frames_bytes"), 0);
}

#[test]
fn what_comes_before_the_next_turn_stays_behind() {
    let (mut desk, _readings) = desk(Duration::from_millis(5));
    let questions = questions();
    let (first, second) = questions.split_at(questions.len() - 31);
    desk.feed(first);
    assert!(desk.lane.desk.execution_time.is_over());
    desk.feed(second);
    let mut opaques: Vec<i32> = Vec::new();
    loop {
        opaques.extend(desk.answers().iter().map(|a| a.opaque));
        if !desk.lane.desk.execution_time.is_over() {
            break;
        }
        desk.lane.resume(desk.client, 0).unwrap();
    }
    assert_eq!(opaques, (1..=COUNT).collect::<Vec<_>>());
}

#[test]
fn those_that_wait_share_a_turn_and_who_goes_waits_no_more() {
    let (mut desk, _readings) = desk(Duration::from_millis(5));
    let greedy: Vec<_> = (0..4)
        .map(|_| desk.lane.open(host(9), "1.2.3.4:9"))
        .collect();
    for id in &greedy {
        desk.lane.feed(*id, &questions(), 0).unwrap();
    }
    assert_eq!(desk.lane.desk.execution_time.waiting, 4);
    desk.feed(&questions());
    // A fifth of 5 ms: over at the second reading.
    assert_eq!(desk.answers().len(), 16);
    for id in greedy {
        desk.lane.close(id);
    }
    assert_eq!(desk.lane.desk.execution_time.waiting, 1);
    desk.lane.close(desk.client);
    assert_eq!(desk.lane.desk.execution_time.waiting, 0);
}

#[test]
fn unfinished_frames_of_all_connections_have_the_bound_that_was_given() {
    let mut desk = Desk::new(FlushDiskType::Async);
    desk.lane.desk.bounds = Bounds {
        half_frames_bytes: 1_000,
        ..Bounds::default()
    };
    let frame = send_with(1, &[], &[b'x'; 900]);
    let (half, _rest) = frame.split_at(800);
    desk.feed(half);
    let other = desk.lane.open(host(9), "1.2.3.4:9");
    let fault = desk.lane.feed(other, half, 0);
    assert_eq!(fault, Err(Fault::TooManyHalfFrames { bytes_max: 1_000 }));
    assert_eq!(desk.number("half_frames_bytes"), 800);
}

#[test]
fn where_all_answers_together_are_too_many_a_client_that_has_some_is_not_executed() {
    let mut desk = Desk::new(FlushDiskType::Async);
    desk.lane.desk.bounds = Bounds {
        output_bytes: 1_000,
        ..Bounds::default()
    };
    desk.feed(&questions());
    let first = desk.answers().len();
    assert!(first < COUNT as usize, "{first}");
    // Another one that reads what it is sent is executed.
    let slow = desk.client;
    desk.client = desk.lane.open(host(9), "1.2.3.4:9");
    desk.lane.resume(slow, 0).unwrap();
    let ask = request(30, 1, &[("topic", "t"), ("queueId", "1")], b"");
    assert_eq!(desk.ask(&ask).code, 0);
}

#[test]
fn an_offset_without_a_group_or_a_topic_is_refused() {
    let mut desk = Desk::new(FlushDiskType::Async);
    for (group, topic) in [("", "t"), ("g", ""), ("", ""), (" ", "t")] {
        let fields = [
            ("consumerGroup", group),
            ("topic", topic),
            ("queueId", "0"),
            ("commitOffset", "5"),
        ];
        let answer = desk.ask(&request(15, 1, &fields, b""));
        assert_eq!(answer.code, 1, "{group:?} {topic:?}");
        assert!(answer.remark.unwrap().contains("empty"));
    }
    assert_eq!(desk.lane.offsets.all().len(), 0);
}
