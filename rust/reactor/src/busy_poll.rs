//! Whether a reactor looks for events a little longer before it lets the system wake it: a thread that
//! sleeps is woken 20 to 50 us late, which is most of the time of a message that is sent alone. It does so
//! while it pays: where a look finds nothing several times, it only tries now and then. Knows neither
//! sockets nor clocks.

use std::time::Duration;

/// Requests of a turn after which it looks: where several come at once more come while it sleeps, and are
/// executed together.
const REQUESTS_MAX: u64 = 1;
/// Vain looks in a row after which a reactor sleeps at once.
const VAIN_MAX: u32 = 4;
/// Of so many waits after that one is tried again: what vain looks cost is divided by it.
const WAITS_PER_TRIAL: u32 = 32;

/// What earlier looks have brought.
#[derive(Debug)]
pub(crate) struct BusyPoll {
    limit: Duration,
    vain: u32,
    /// Waits without a look since the last one.
    skipped: u32,
}

impl BusyPoll {
    /// Looks for at most `limit` at a time; zero: never.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            vain: 0,
            skipped: 0,
        }
    }

    /// For how long to look before the next wait, after a turn of so many requests; `None`: it is to sleep
    /// at once.
    pub(crate) fn next(&mut self, requests: u64) -> Option<Duration> {
        if self.limit.is_zero() || requests > REQUESTS_MAX {
            return None;
        }
        if self.vain >= VAIN_MAX && self.skipped < WAITS_PER_TRIAL {
            self.skipped += 1;
            return None;
        }
        self.skipped = 0;
        Some(self.limit)
    }

    /// Notes whether a look has found something.
    pub(crate) fn ended(&mut self, has_found: bool) {
        self.vain = if has_found {
            0
        } else {
            self.vain.saturating_add(1)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(50);

    /// Of `waits` in vain, those before which it looked.
    fn looks(busy_poll: &mut BusyPoll, waits: u32) -> u32 {
        let mut looks = 0;
        for _ in 0..waits {
            if busy_poll.next(1).is_some() {
                looks += 1;
                busy_poll.ended(false);
            }
        }
        looks
    }

    #[test]
    fn where_it_is_off_nothing_is_looked_for() {
        assert_eq!(looks(&mut BusyPoll::new(Duration::ZERO), 1_000), 0);
    }

    #[test]
    fn looks_that_find_something_go_on() {
        let mut busy_poll = BusyPoll::new(LIMIT);
        for _ in 0..1_000 {
            assert_eq!(busy_poll.next(1), Some(LIMIT));
            busy_poll.ended(true);
        }
    }

    #[test]
    fn after_a_turn_of_several_requests_nothing_is_looked_for() {
        let mut busy_poll = BusyPoll::new(LIMIT);
        assert!(busy_poll.next(0).is_some() && busy_poll.next(1).is_some());
        assert!(busy_poll.next(2).is_none() && busy_poll.next(64).is_none());
    }

    #[test]
    fn vain_looks_are_given_up_and_tried_now_and_then() {
        let mut busy_poll = BusyPoll::new(LIMIT);
        assert_eq!(looks(&mut busy_poll, VAIN_MAX), VAIN_MAX);
        assert_eq!(looks(&mut busy_poll, WAITS_PER_TRIAL), 0);
        assert_eq!(looks(&mut busy_poll, 1), 1);
        let waits = 100 * (WAITS_PER_TRIAL + 1);
        assert_eq!(looks(&mut busy_poll, waits), 100);
    }

    #[test]
    fn one_that_finds_something_is_enough_to_go_on() {
        let mut busy_poll = BusyPoll::new(LIMIT);
        looks(&mut busy_poll, 1_000);
        while busy_poll.next(1).is_none() {}
        busy_poll.ended(true);
        assert_eq!(looks(&mut busy_poll, VAIN_MAX), VAIN_MAX);
        assert!(busy_poll.next(1).is_none());
    }
}
