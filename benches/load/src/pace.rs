//! When messages are due in an open loop: at a steady rate from the start, whatever the answers do.

use std::time::{Duration, Instant};

/// A steady rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    start: Instant,
    per_second: f64,
    made: u64,
}

impl Pace {
    pub(crate) fn new(start: Instant, per_second: f64) -> Self {
        Self {
            start,
            per_second,
            made: 0,
        }
    }

    /// When the next message is due. Its latency counts from here, so that a broker that stalls
    /// pays for the messages it kept from being sent too.
    pub(crate) fn due(&self) -> Instant {
        // Computed from the start each time: rounding does not add up.
        self.start + Duration::from_secs_f64(self.made as f64 / self.per_second)
    }

    /// The next one is on its way.
    pub(crate) fn step(&mut self, messages: u64) {
        self.made += messages;
    }

    /// Messages that are due and not on their way.
    pub(crate) fn behind(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start).as_secs_f64();
        ((passed * self.per_second) as u64).saturating_sub(self.made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_due_at_the_rate_and_not_after_the_answers() {
        let start = Instant::now();
        let mut pace = Pace::new(start, 4.0);
        assert_eq!(pace.due(), start);
        pace.step(6);
        assert_eq!(pace.due(), start + Duration::from_millis(1_500));
        assert_eq!(pace.behind(start + Duration::from_secs(2)), 2);
        assert_eq!(pace.behind(start), 0);
    }
}
