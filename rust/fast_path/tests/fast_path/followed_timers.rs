//! Timers of a slave that follow those of its master, and deliver in its place.

use mqcore_engine::store::OpenHow;
use mqcore_fast_path::timers::Progress;

use crate::timers::{SECOND_MS, Timed, config, timing};

/// Two messages that are due within the third second, both entered.
fn entered() -> Timed {
    let mut timed = Timed::new(config(1_000, 3_600), timing());
    timed.send_at("a", SECOND_MS + 2_100);
    timed.send_at("b", SECOND_MS + 2_200);
    assert_eq!(timed.tick().delivered, 0);
    let Progress { queue_offset, .. } = timed.timers.progress().unwrap();
    assert_eq!(queue_offset, 2);
    timed
}

/// Follows a master that has delivered everything up to the end of the third second, and has entered so much;
/// what is delivered when it is gone.
fn delivered_behind(queue_offset: u64) -> u64 {
    let mut timed = entered();
    let now_ms = timed.serving.store.wall_ms();
    let read_ms = SECOND_MS + 3_000;
    let followed = timed.timers.follow_master(read_ms, queue_offset, now_ms);
    assert_eq!(followed.unwrap().entered, 0);
    timed.pass(10_000).delivered
}

#[test]
fn what_the_master_has_delivered_is_passed_over() {
    assert_eq!(delivered_behind(2), 0);
}

#[test]
fn what_the_master_has_not_entered_is_not_passed_over_with_its_slot() {
    // The first one comes again: which of a slot the master had is not known.
    assert_eq!(delivered_behind(1), 2);
}

#[test]
fn what_comes_instead_of_what_was_cut_is_entered_by_the_next_start() {
    let mut timed = Timed::new(config(1_000, 3_600), timing());
    timed.send_at("kept", SECOND_MS + 5_000);
    timed.tick();
    let end = timed.serving.store.replica().appended();
    timed.send_at("cut", SECOND_MS + 5_100);
    timed.tick();
    let now_ms = timed.serving.store.wall_ms();
    timed.timers.flush(now_ms).unwrap();
    timed.serving.store.abandon();
    timed.start(OpenHow::CutAt(end));
    timed.send_at("instead", SECOND_MS + 5_200);
    // Before the timers are written down again.
    timed.kill();
    timed.pass(10_000);
    let arrived = timed.arrived().into_iter().map(|(key, _)| key);
    assert_eq!(arrived.collect::<Vec<_>>(), ["kept", "instead"]);
}

#[test]
fn what_is_due_before_a_clock_that_was_ahead_outlives_a_kill() {
    let mut timed = Timed::new(config(1_000, 3_600), timing());
    timed.send_at("first", SECOND_MS + 1_000);
    assert_eq!(timed.pass(15_000).delivered, 1);
    timed.timers.flush(timed.serving.store.wall_ms()).unwrap();
    timed.serving.clock.set_wall_ms(SECOND_MS);
    timed.tick();
    timed.send_at("second", SECOND_MS + 5_000);
    timed.tick();
    // Before the timers are written down again.
    timed.kill();
    timed.pass(10_000);
    let arrived = timed.arrived().into_iter().map(|(key, _)| key);
    assert_eq!(arrived.collect::<Vec<_>>(), ["first", "second"]);
}

#[test]
fn where_a_master_is_behind_is_kept_before_anything_is_entered() {
    let mut timed = Timed::new(config(1_000, 3_600), timing());
    timed.send_at("first", SECOND_MS + 1_000);
    assert_eq!(timed.pass(15_000).delivered, 1);
    let now_ms = timed.serving.store.wall_ms();
    timed.timers.flush(now_ms).unwrap();
    let read_ms = SECOND_MS + 2_000;
    timed.timers.follow_master(read_ms, 1, now_ms).unwrap();
    assert_eq!(timed.timers.point().read_ms, read_ms);
}
