//! Positions that only rise, and the waiting for them. Knows no file. Raising is cheap while nobody
//! waits; a waiter is woken when its position is reached or when the owner gives up.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

use crate::lock::{Condvar, Mutex};

/// A position that only rises.
#[derive(Debug, Default)]
pub struct Watermark {
    position: AtomicU64,
    waiting: AtomicUsize,
    gate: Mutex<()>,
    raised: Condvar,
}

impl Watermark {
    /// Starts at `position`.
    #[must_use]
    pub fn at(position: u64) -> Self {
        Self {
            position: AtomicU64::new(position),
            ..Self::default()
        }
    }

    /// The position now.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Raises the position to `to` (never lowers it) and wakes whoever waits.
    pub fn raise(&self, to: u64) {
        self.position.fetch_max(to, Ordering::AcqRel);
        self.wake_waiting();
    }

    /// Wakes whoever waits, after a change that their `give_up` reads: cheap while nobody waits.
    pub fn wake_waiting(&self) {
        // The waiter counts itself, then looks; we change what it looks at, then look at the count:
        // the fences on both sides make sure that one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    /// Raises the position to `to` when nobody ever waits for this mark: one plain store. Only one
    /// thread at a time may call this, and `to` must not fall.
    #[inline]
    pub fn publish(&self, to: u64) {
        self.position.store(to, Ordering::Release);
    }

    /// Sets the position when the store is opened, before anyone waits.
    pub fn reset(&self, to: u64) {
        self.position.store(to, Ordering::Release);
    }

    /// Wakes every waiter so that it looks at its `give_up` again.
    pub fn wake_all(&self) {
        // Passed through, so that who has looked but does not wait yet is waited for, and free again
        // before anyone wakes: the woken would only wait for it.
        drop(self.gate.lock());
        self.raised.notify_all();
    }

    /// Waits until the position is at least `target`, `give_up` returns true, or `timeout` has passed;
    /// true when the position was reached.
    ///
    /// # Blocking
    /// At most `timeout`.
    pub fn wait(&self, target: u64, timeout: Duration, give_up: impl Fn() -> bool) -> bool {
        if self.position() >= target {
            return true;
        }
        let deadline = Instant::now() + timeout;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut gate = self.gate.lock();
        let reached = loop {
            if self.position() >= target {
                break true;
            }
            if give_up() {
                break self.position() >= target;
            }
            let timed_out;
            (gate, timed_out) = self.raised.wait_until(gate, deadline);
            if timed_out {
                break self.position() >= target;
            }
        };
        drop(gate);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        reached
    }
}

const IDLE: usize = 0;
const BUSY: usize = 1;
const NOTIFIED: usize = 2;

/// Wakes one worker thread, on the edge from idle only: notifying costs one atomic read while the
/// worker is busy and has already been notified.
#[derive(Debug, Default)]
pub struct Signal {
    state: AtomicUsize,
    gate: Mutex<()>,
    notified: Condvar,
}

impl Signal {
    /// Notifies the worker that there is work. What was written before is seen by the worker's next
    /// look.
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Relaxed) == NOTIFIED {
            return;
        }
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == IDLE {
            // As in `Watermark::wake_all`.
            drop(self.gate.lock());
            self.notified.notify_one();
        }
    }

    /// Worker only: takes a notice that came while it was busy, without waiting; true when there was
    /// one. What was written before that notice is seen by the worker's next look.
    pub fn take(&self) -> bool {
        let taken =
            self.state
                .compare_exchange(NOTIFIED, BUSY, Ordering::AcqRel, Ordering::Acquire);
        fence(Ordering::SeqCst);
        taken.is_ok()
    }

    /// Worker only: waits for a signal, at most `timeout` (`None`: as long as it takes); true when it
    /// was notified.
    ///
    /// # Blocking
    /// Until notified or timed out.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut gate = self.gate.lock();
        if self
            .state
            .compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // Notified while busy, or never waited before (the first state is idle).
            if self.state.load(Ordering::Acquire) == NOTIFIED {
                self.state.store(BUSY, Ordering::Release);
                fence(Ordering::SeqCst);
                return true;
            }
        }
        loop {
            let timed_out;
            (gate, timed_out) = match deadline {
                Some(deadline) => self.notified.wait_until(gate, deadline),
                None => (self.notified.wait(gate), false),
            };
            let was_rung = self.state.load(Ordering::Acquire) == NOTIFIED;
            if was_rung || timed_out {
                self.state.store(BUSY, Ordering::Release);
                fence(Ordering::SeqCst);
                return was_rung;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_waiter_is_woken_when_its_position_is_reached() {
        let mark = Arc::new(Watermark::at(10));
        assert!(mark.wait(10, Duration::ZERO, || false));
        assert!(!mark.wait(11, Duration::from_millis(5), || false));
        let other = Arc::clone(&mark);
        let thread = std::thread::spawn(move || other.wait(50, Duration::from_secs(20), || false));
        mark.raise(49);
        mark.raise(50);
        assert!(thread.join().unwrap());
        mark.raise(5);
        assert_eq!(mark.position(), 50);
    }

    #[test]
    fn a_notice_is_taken_once_and_without_a_wait() {
        let signal = Signal::default();
        assert!(!signal.take());
        signal.notify();
        signal.notify();
        assert!(signal.take());
        assert!(!signal.take());
        assert!(!signal.wait(Some(Duration::from_millis(1))));
        signal.notify();
        assert!(signal.wait(Some(Duration::from_secs(20))));
    }

    #[test]
    fn a_ring_is_never_lost() {
        let signal = Arc::new(Signal::default());
        let seen = Arc::new(AtomicU64::new(0));
        let work = Arc::new(AtomicU64::new(0));
        let (b, s, w) = (Arc::clone(&signal), Arc::clone(&seen), Arc::clone(&work));
        let worker = std::thread::spawn(move || {
            while s.load(Ordering::SeqCst) < 100_000 {
                assert!(b.wait(Some(Duration::from_secs(20))), "a signal was lost");
                s.store(w.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        });
        for n in 1..=100_000u64 {
            work.store(n, Ordering::SeqCst);
            signal.notify();
        }
        worker.join().unwrap();
    }
}
