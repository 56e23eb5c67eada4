//! Wrong signatures by the address that they come from: where there are many, answers are late, so that nobody
//! tries out secrets fast. A good signature is never late, and nobody is locked out: that would be an attack
//! on whose name is used. Knows no user.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

/// How late an answer is, ms.
pub const LATE_MS: u64 = 1_000;
/// Late answers of one address a second: with those that come beyond it nobody waits, they have none.
pub const LATE_MAX: u32 = 100;
/// Addresses that are counted at the most, some 1 MB: what comes from others beyond is counted together.
pub const ADDRESSES_MAX: usize = 10_000;
/// The span in which some are free, ms.
const SPAN_MS: i64 = 60_000;
const SECOND_MS: i64 = 1_000;

/// When a wrong signature is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// [`LATE_MS`] later.
    Late,
    /// Not at all: as many of the address wait as may.
    Never,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// Since when, and how many in the span.
    span_ms: i64,
    wrong: u32,
    /// The same of late answers in a second.
    second_ms: i64,
    late: u32,
}

impl Count {
    fn is_over(&self, now_ms: i64) -> bool {
        // The wall clock may step back.
        !(self.span_ms..self.span_ms.saturating_add(SPAN_MS)).contains(&now_ms)
    }

    fn next(&mut self, now_ms: i64, free: u32) -> When {
        if self.is_over(now_ms) {
            *self = Self {
                span_ms: now_ms,
                ..Self::default()
            };
        }
        self.wrong = self.wrong.saturating_add(1);
        if self.wrong <= free {
            return When::Now;
        }
        let second_end = self.second_ms.saturating_add(SECOND_MS);
        if !(self.second_ms..second_end).contains(&now_ms) {
            (self.second_ms, self.late) = (now_ms, 0);
        }
        self.late = self.late.saturating_add(1);
        if self.late <= LATE_MAX {
            When::Late
        } else {
            When::Never
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    of: HashMap<Box<str>, Count>,
    others: Count,
    late: u64,
    never: u64,
}

/// The wrong signatures of the last minute.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Table>);

impl Failures {
    /// Counts a wrong signature from an address; when it is answered.
    pub fn note(&self, address: &str, now_ms: i64, free: u32) -> When {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let table = &mut *table;
        if !table.of.contains_key(address) {
            if table.of.len() >= ADDRESSES_MAX {
                table.of.retain(|_, count| !count.is_over(now_ms));
            }
            if table.of.len() < ADDRESSES_MAX {
                table.of.insert(address.into(), Count::default());
            }
        }
        let count = table.of.get_mut(address).unwrap_or(&mut table.others);
        let when = count.next(now_ms, free);
        table.late += u64::from(when == When::Late);
        table.never += u64::from(when == When::Never);
        when
    }

    /// How many answers were late, and how many were not given.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (table.late, table.never)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: i64 = 1_795_249_596_000;

    #[test]
    fn some_a_minute_are_answered_at_once_and_the_rest_late() {
        let failures = Failures::default();
        let note = |address, at_ms| failures.note(address, START_MS + at_ms, 10);
        for _ in 0..10 {
            assert_eq!(note("10.0.0.1", 0), When::Now);
        }
        assert_eq!(note("10.0.0.1", 59_999), When::Late);
        assert_eq!(note("10.0.0.2", 59_999), When::Now, "another address");
        assert_eq!(note("10.0.0.1", 60_000), When::Now, "another minute");
        assert_eq!(note("10.0.0.1", -1), When::Now, "the clock was set back");
        assert_eq!(failures.counts(), (1, 0));
    }

    #[test]
    fn so_many_are_late_in_a_second_and_more_have_no_answer() {
        let failures = Failures::default();
        for _ in 0..LATE_MAX {
            assert_eq!(failures.note("a", START_MS, 0), When::Late);
        }
        assert_eq!(failures.note("a", START_MS + 999, 0), When::Never);
        assert_eq!(failures.note("a", START_MS + 1_000, 0), When::Late);
        assert_eq!(failures.counts(), (u64::from(LATE_MAX) + 1, 1));
    }

    #[test]
    fn addresses_are_bounded_and_those_beyond_are_counted_together() {
        let failures = Failures::default();
        for at in 0..ADDRESSES_MAX {
            assert_eq!(failures.note(&at.to_string(), START_MS, 1), When::Now);
        }
        assert_eq!(failures.note("more", START_MS, 1), When::Now);
        assert_eq!(failures.note("others", START_MS, 1), When::Late);
        // Those of the last minute are over: each has its own again.
        assert_eq!(failures.note("more", START_MS + 60_000, 1), When::Now);
        assert_eq!(failures.note("others", START_MS + 60_000, 1), When::Now);
    }
}
