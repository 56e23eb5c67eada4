//! What the master before has done already: a slave that becomes master enters its whole queue, and must
//! not deliver again what was delivered. Pure.
//!
//! The check point of a slave has the numbers of its master (`TimerMessageStore`, `masterTimerQueueOffset`):
//! what was entered there, and up to which time it was delivered.

use mqcore_engine::timer::Point;

/// A message that goes around the wheel is in the slot of the moment at which it was entered, which nobody
/// wrote down: the moment at which it was stored, or later by this at the most, ms. What is not surely done
/// is entered, and may come twice.
const ENTERED_LATE_MAX_MS: i64 = 3_600_000;

/// Messages that are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Handled {
    /// Messages of the queue before this one were entered.
    before: i64,
    /// Slots before this time were delivered, ms.
    read_ms: i64,
    /// Distance at which a message goes around, ms.
    window_ms: i64,
}

impl Handled {
    /// What the check point has of a master before; nothing where the own wheel has it all.
    pub(super) fn of(point: &Point, window_ms: i64) -> Self {
        if point.master_queue_offset <= point.queue_offset {
            return Self::default();
        }
        Self {
            before: point.master_queue_offset,
            read_ms: point.read_ms,
            window_ms,
        }
    }

    /// Whether a message was delivered, or entered again, by its queue offset and its times.
    pub(super) fn has(&self, queue_offset: i64, stored_ms: i64, due_ms: i64) -> bool {
        if queue_offset >= self.before {
            return false;
        }
        if due_ms - stored_ms < self.window_ms {
            return due_ms < self.read_ms;
        }
        // A whole window is the farthest slot that it goes to first.
        stored_ms + self.window_ms + ENTERED_LATE_MAX_MS < self.read_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: i64 = 10_000_000;

    fn handled() -> Handled {
        let point = Point {
            read_ms: 50_000_000,
            queue_offset: 0,
            master_queue_offset: 10,
            ..Point::default()
        };
        Handled::of(&point, WINDOW_MS)
    }

    #[test]
    fn what_was_due_before_the_master_ended_is_done() {
        assert!(handled().has(9, 49_000_000, 49_999_999));
        assert!(!handled().has(9, 49_000_000, 50_000_000));
    }

    #[test]
    fn what_the_master_had_not_entered_is_not_done() {
        assert!(!handled().has(10, 49_000_000, 49_999_999));
    }

    #[test]
    fn what_went_around_surely_is_done_and_what_may_wait_is_not() {
        let due_ms = 90_000_000;
        assert!(handled().has(3, 50_000_000 - WINDOW_MS - ENTERED_LATE_MAX_MS - 1, due_ms));
        assert!(!handled().has(3, 50_000_000 - WINDOW_MS - ENTERED_LATE_MAX_MS, due_ms));
    }

    #[test]
    fn a_master_that_starts_again_has_done_nothing_behind_its_own_mark() {
        let point = Point {
            read_ms: 50_000_000,
            queue_offset: 10,
            master_queue_offset: 10,
            ..Point::default()
        };
        assert!(!Handled::of(&point, WINDOW_MS).has(0, 0, 1));
    }
}
