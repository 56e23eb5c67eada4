//! Which of the populated pages ahead of the append are to be populated once more, because the kernel
//! may have taken them back: under memory pressure it takes what nobody has touched for a while, and
//! the append would read the page from the disk under its lock. Knows positions and times, no file.

use std::ops::Range;
use std::time::Duration;

use crate::units::MIB;

/// So often the pages next to the append are looked after: what has just been touched lasts longer than
/// this where readers turn over half a gigabyte in a second, and a round costs a tenth of a millisecond.
const INTERVAL: Duration = Duration::from_millis(100);
/// The pages that the append reaches within so many intervals at its pace of now: a round that has to
/// read pages, or comes late, still comes before the append.
const INTERVALS_AHEAD: u64 = 3;
/// And at least so many bytes: for an append that becomes faster.
const AHEAD_BYTES_MIN: u64 = 2 * MIB;

/// So long after the last append its next pages are looked after: an append that comes back within
/// seconds finds them, and a store that nobody writes to is not woken.
const FOLLOWED_MS: u64 = 5_000;

/// What was seen at the last round.
#[derive(Debug, Default)]
pub struct Refresh {
    due_ms: u64,
    appended: u64,
    populated: u64,
    /// Until when there are rounds although nothing is appended.
    followed_until_ms: u64,
}

impl Refresh {
    /// When to come again; `None` when nothing has been appended for a while.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        (self.due_ms < self.followed_until_ms).then_some(INTERVAL)
    }

    /// The pages of the log to populate once more at `now_ms` (of a clock that never steps back), with
    /// the log appended up to `appended` and populated up to `populated`. What has been populated
    /// since the last round is fresh, and an append of hundreds of megabytes a second gets `None`.
    pub fn due(&mut self, now_ms: u64, appended: u64, populated: u64) -> Option<Range<u64>> {
        if now_ms < self.due_ms {
            return None;
        }
        let interval_ms = u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX);
        let followed_until_ms = if appended > self.appended {
            now_ms + FOLLOWED_MS
        } else {
            self.followed_until_ms
        };
        let last = std::mem::replace(
            self,
            Self {
                due_ms: now_ms + interval_ms,
                appended,
                populated,
                followed_until_ms,
            },
        );
        let moved = appended.saturating_sub(last.appended);
        if now_ms >= followed_until_ms {
            return None;
        }
        let ahead = moved.saturating_mul(INTERVALS_AHEAD).max(AHEAD_BYTES_MIN);
        let end = appended.saturating_add(ahead).min(last.populated);
        (appended < end).then_some(appended..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 64 * MIB;

    #[test]
    fn nothing_is_due_while_nothing_is_appended() {
        let mut refresh = Refresh::default();
        assert_eq!(refresh.due(1_000, 0, WINDOW), None);
        assert_eq!(refresh.due(2_000, 0, WINDOW), None);
        assert_eq!(refresh.interval(), None);
    }

    #[test]
    fn the_next_intervals_of_the_append_are_due_in_each() {
        let mut refresh = Refresh::default();
        assert_eq!(refresh.due(1_000, 0, WINDOW), None);
        let (at, end) = (4 * MIB, 4 * MIB + WINDOW);
        assert_eq!(refresh.due(1_100, at, end), Some(at..at + 12 * MIB));
        assert_eq!(refresh.interval(), Some(INTERVAL));
        assert_eq!(refresh.due(1_199, at + 1, end), None, "before its time");
        let slow = at + 1..at + 1 + AHEAD_BYTES_MIN;
        assert_eq!(refresh.due(1_200, at + 1, end), Some(slow.clone()));
        assert_eq!(refresh.due(6_199, at + 1, end), Some(slow), "it rests");
        assert_eq!(refresh.interval(), None);
        assert_eq!(refresh.due(6_300, at + 1, end), None, "for long");
        assert_eq!(refresh.interval(), None);
        let again = at + 2..at + 2 + AHEAD_BYTES_MIN;
        assert_eq!(refresh.due(9_000, at + 2, end), Some(again));
    }

    #[test]
    fn pages_that_were_populated_since_the_last_round_are_not_due() {
        let mut refresh = Refresh::default();
        assert_eq!(refresh.due(1_000, 0, MIB), None);
        assert_eq!(refresh.due(1_100, MIB / 2, WINDOW), Some(MIB / 2..MIB));
        let fast = WINDOW + MIB;
        assert_eq!(refresh.due(1_200, fast, fast + WINDOW), None);
        assert!(refresh.interval().is_some());
    }
}
