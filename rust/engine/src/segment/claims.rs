//! Who may write behind the end of the log: the append its records, the preparation zeros into a file
//! that reads as zeros there anyway. A write of zeros that came after a record would erase it, so each
//! claims its bytes first. Knows positions of the log, and no file.
//!
//! An append claims far at once, up to where pages are populated, and compares with that end alone
//! until it is reached. It waits only where zeros are being written at that very place.

use std::ops::Range;

use crate::lock::{Condvar, Mutex};

/// All of the log: nothing will ever be written but by appends.
pub(super) const EVERYTHING: u64 = u64::MAX;

/// The claims of one log. Both sides take the lock for some instructions, never for a write.
pub(super) struct Claims {
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    /// Bytes below are the append's, for good.
    appended_to: u64,
    /// Bytes that are being made zero.
    zeroed: Option<Range<u64>>,
}

impl Default for Claims {
    /// No zeros may be written until [`Claims::begin`].
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                appended_to: EVERYTHING,
                zeroed: None,
            }),
            released: Condvar::new(),
        }
    }
}

impl Claims {
    /// The log ends at `position`: what is behind may be claimed by either side. To be called before
    /// the first append.
    pub(super) fn begin(&self, position: u64) {
        self.state.lock().appended_to = position;
    }

    /// The append will write below `needed`; where it may write without asking again: `needed`, or
    /// `populated` where that is farther. No zeros will be written below.
    ///
    /// # Blocking
    /// While zeros are being written below `needed`: for one step of the window.
    pub(super) fn for_append(&self, needed: u64, populated: u64) -> u64 {
        let mut state = self.state.lock();
        while let Some(zeroed) = &state.zeroed
            && zeroed.start < needed
        {
            state = self.released.wait(state);
        }
        let free = state
            .zeroed
            .as_ref()
            .map_or(EVERYTHING, |zeroed| zeroed.start);
        let end = needed.max(populated.min(free));
        state.appended_to = state.appended_to.max(end);
        state.appended_to
    }

    /// Claims `range` for zeros until the answer is dropped; `None` where a part of it is the append's,
    /// or somebody else is at it.
    pub(super) fn for_zeros(&self, range: Range<u64>) -> Option<ZeroClaim<'_>> {
        let mut state = self.state.lock();
        if state.appended_to > range.start || state.zeroed.is_some() {
            return None;
        }
        state.zeroed = Some(range);
        Some(ZeroClaim { claims: self })
    }
}

/// The right to make a range zero.
pub(super) struct ZeroClaim<'a> {
    claims: &'a Claims,
}

impl Drop for ZeroClaim<'_> {
    fn drop(&mut self) {
        self.claims.state.lock().zeroed = None;
        self.claims.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_zero_before_the_end_of_the_log_is_known() {
        let claims = Claims::default();
        assert!(claims.for_zeros(0..4096).is_none());
        claims.begin(100);
        assert!(claims.for_zeros(0..4096).is_none(), "records are there");
        assert!(claims.for_zeros(99..4096).is_none(), "one byte of them");
        assert!(claims.for_zeros(100..4096).is_some());
    }

    #[test]
    fn an_append_claims_up_to_what_is_populated_for_good() {
        let claims = Claims::default();
        claims.begin(0);
        assert_eq!(claims.for_append(10, 8192), 8192);
        assert!(claims.for_zeros(4096..8192).is_none());
        assert_eq!(claims.for_append(9000, 8192), 9000, "beyond the window");
        assert!(claims.for_zeros(8192..12_288).is_none());
        assert_eq!(claims.for_append(20, 40), 9000, "never less than before");
        assert!(claims.for_zeros(12_288..16_384).is_some());
    }

    #[test]
    fn an_append_is_not_given_what_is_being_made_zero() {
        let claims = Claims::default();
        claims.begin(0);
        let zeros = claims.for_zeros(4096..8192).unwrap();
        assert!(claims.for_zeros(8192..12_288).is_none(), "one at a time");
        assert_eq!(claims.for_append(4096, 65_536), 4096);
        drop(zeros);
        assert_eq!(claims.for_append(4097, 65_536), 65_536);
    }

    #[test]
    fn an_append_waits_for_zeros_there_and_no_byte_of_it_is_lost() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let claims = Claims::default();
        claims.begin(0);
        let is_zero = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let zeros = claims.for_zeros(0..4096).unwrap();
            let append = scope.spawn(|| {
                claims.for_append(1, 0);
                assert!(
                    is_zero.load(Ordering::Acquire),
                    "went on before the zeros were there"
                );
            });
            // Whether the other thread waits already or comes later: both must find the flag set.
            std::thread::yield_now();
            is_zero.store(true, Ordering::Release);
            drop(zeros);
            append.join().unwrap();
        });
    }

    /// Two threads on one array: what the one wrote is never made zero by the other.
    #[test]
    fn zeros_never_meet_a_record() {
        use std::sync::atomic::{AtomicU64, Ordering};
        const END: u64 = 200_000;
        let cells: Vec<AtomicU64> = (0..END).map(|_| AtomicU64::new(0)).collect();
        let cells_of = |from: u64, to: u64| cells.get(from as usize..to as usize).unwrap();
        let (claims, at, populated) = (Claims::default(), AtomicU64::new(0), AtomicU64::new(0));
        claims.begin(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut from = 0;
                while at.load(Ordering::Acquire) < END {
                    from = from.max(at.load(Ordering::Acquire));
                    let to = (from + 64).min(END);
                    if let Some(_zeros) = claims.for_zeros(from..to) {
                        for cell in cells_of(from, to) {
                            cell.store(0, Ordering::Relaxed);
                        }
                        populated.store(to, Ordering::Release);
                    }
                    from = to;
                }
            });
            let mut claimed = 0;
            for n in (0..END).step_by(10) {
                if n + 10 > claimed {
                    claimed = claims.for_append(n + 10, populated.load(Ordering::Acquire));
                }
                for cell in cells_of(n, n + 10) {
                    cell.store(n + 1, Ordering::Relaxed);
                }
                at.store(n + 10, Ordering::Release);
            }
        });
        for (n, cell) in (0..END).zip(&cells) {
            assert_eq!(cell.load(Ordering::Relaxed), n - n % 10 + 1, "cell {n}");
        }
    }
}
