//! The slowest requests of the last minutes: so many of each minute, in bounded memory. Pure: times are
//! passed in.

use std::collections::VecDeque;

use super::{Stages, Subject};

/// Requests kept of one minute.
pub const PER_MINUTE: usize = 64;
/// Minutes kept.
pub const MINUTES: usize = 16;
const US_PER_MINUTE: u64 = 60_000_000;

/// A slow request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slow {
    /// When it was answered, us of the clock of the fast path.
    pub answered_us: u64,
    /// From its bytes until its answer went out, without the time for which it was held, us.
    pub total_us: u64,
    /// The request code.
    pub code: i32,
    /// The response code.
    pub response: i32,
    /// Where its client is.
    pub peer: Box<str>,
    /// What it was about.
    pub subject: Subject,
    /// How long each stage took.
    pub stages: Stages,
}

/// Those of one minute.
#[derive(Debug, Default)]
struct Minute {
    number: u64,
    entries: Vec<Slow>,
    /// The shortest of them, once there are as many as are kept.
    least_us: u64,
}

/// The slowest requests.
#[derive(Debug, Default)]
pub struct Slowest {
    minutes: VecDeque<Minute>,
}

impl Slowest {
    /// Whether a request that took so long would be kept.
    #[inline]
    #[must_use]
    pub fn wants(&self, total_us: u64, answered_us: u64) -> bool {
        match self.minutes.back() {
            Some(minute) if minute.number == answered_us / US_PER_MINUTE => {
                total_us > minute.least_us
            }
            _ => true,
        }
    }

    /// Keeps a request, instead of the shortest of its minute where there are enough.
    pub fn keep(&mut self, slow: Slow) {
        let number = slow.answered_us / US_PER_MINUTE;
        if self.minutes.back().is_none_or(|last| last.number != number) {
            if self.minutes.len() == MINUTES {
                self.minutes.pop_front();
            }
            self.minutes.push_back(Minute {
                number,
                ..Minute::default()
            });
        }
        let Some(minute) = self.minutes.back_mut() else {
            return;
        };
        if minute.entries.len() < PER_MINUTE {
            minute.entries.push(slow);
        } else if let Some(least) = minute.entries.iter_mut().min_by_key(|each| each.total_us) {
            *least = slow;
        }
        if minute.entries.len() == PER_MINUTE {
            let totals = minute.entries.iter().map(|each| each.total_us);
            minute.least_us = totals.min().unwrap_or(0);
        }
    }

    /// Those that were answered behind a time, of the minutes that are kept at `now_us`.
    pub fn since(&self, after_us: u64, now_us: u64) -> impl Iterator<Item = &Slow> {
        let first = (now_us / US_PER_MINUTE).saturating_sub(MINUTES as u64 - 1);
        let minutes = self.minutes.iter().filter(move |each| each.number >= first);
        let entries = minutes.flat_map(|minute| &minute.entries);
        entries.filter(move |each| each.answered_us > after_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(answered_us: u64, total_us: u64) -> Slow {
        Slow {
            answered_us,
            total_us,
            code: 310,
            response: 0,
            peer: "p".into(),
            subject: Subject::None,
            stages: Stages::default(),
        }
    }

    #[test]
    fn the_slowest_of_each_minute_are_kept_and_old_minutes_end() {
        let mut slowest = Slowest::default();
        for total_us in 1..=1_000 {
            assert!(slowest.wants(total_us, 5));
            slowest.keep(slow(5, total_us));
        }
        assert!(!slowest.wants(1_000 - PER_MINUTE as u64 + 1, 5));
        let totals: Vec<u64> = slowest.since(0, 5).map(|each| each.total_us).collect();
        assert_eq!(totals.len(), PER_MINUTE);
        assert_eq!(totals.iter().min(), Some(&(1_001 - PER_MINUTE as u64)));
        assert_eq!(slowest.since(5, 5).count(), 0);
        // Another minute begins anew, and the first one ends with time.
        assert!(slowest.wants(1, US_PER_MINUTE));
        slowest.keep(slow(US_PER_MINUTE, 1));
        assert_eq!(slowest.since(0, US_PER_MINUTE).count(), PER_MINUTE + 1);
        let late_us = MINUTES as u64 * US_PER_MINUTE;
        assert_eq!(slowest.since(0, late_us).count(), 1);
        for minute in 2..100 {
            slowest.keep(slow(minute * US_PER_MINUTE, 1));
        }
        assert_eq!(slowest.minutes.len(), MINUTES);
    }
}
