//! Messages that are farther ahead than the wheel's window and go around it several times: in time,
//! and deleted by what was recalled, whatever the broker was down for.

use crate::timers::{SECOND_MS, Timed, config, timing};

#[test]
fn what_is_farther_than_the_window_goes_around_and_still_comes_in_time() {
    let mut timed = Timed::new(config(1_000, 6), timing());
    for ahead_s in [5, 6, 7, 11, 12, 13, 40] {
        timed.send_at(&format!("{ahead_s}"), SECOND_MS + ahead_s * 1_000);
    }
    let mut rolled = 0;
    for _second in 0..60 {
        rolled += timed.pass(1_000).rolled;
    }
    assert!(rolled > 8, "{rolled}");
    for (key, stored_ms) in timed.arrived() {
        let due_ms = SECOND_MS + key.parse::<i64>().unwrap() * 1_000;
        assert!((due_ms..due_ms + 1_000).contains(&stored_ms), "{key}");
    }
    assert_eq!(timed.keys().len(), 7);
}

#[test]
fn a_recall_holds_over_an_outage_that_rounds_fell_into() {
    // The window is six steps: both go around several times, each at its own times.
    for (recalled_s, outage_s) in [(1, 9), (1, 14), (4, 30), (13, 60), (20, 400)] {
        for is_killed in [false, true] {
            let mut timed = Timed::new(config(1_000, 6), timing());
            let answer = timed.send_at("gone", SECOND_MS + 40_000);
            timed.send_at("kept", SECOND_MS + 40_000);
            for _second in 0..recalled_s {
                timed.pass(1_000);
            }
            let handle = answer.ext.get("recallHandle").unwrap();
            assert_eq!(timed.recall(handle).code, 0);
            if recalled_s % 2 == 0 {
                // Entered before the outage, or found in the queue after it.
                timed.tick();
            }
            if is_killed {
                // What was not flushed would come twice, and what deletes it once.
                let now_ms = timed.serving.store.wall_ms();
                assert!(timed.timers.flush(now_ms).unwrap());
                timed.kill();
            }
            timed.serving.pass(outage_s * 1_000);
            for _second in 0..60 {
                timed.pass(1_000);
            }
            assert_eq!(timed.keys(), ["kept"], "{recalled_s} s, {outage_s} s");
            let waits: Vec<i64> = timed.timers.waiting().map(|(_, each)| each.count).collect();
            assert!(is_killed || waits == [0], "{waits:?}");
        }
    }
}
