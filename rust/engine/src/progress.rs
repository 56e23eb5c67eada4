//! What the owner may wait on: one wake descriptor, raised on the edge from idle, for an event loop
//! that then drains what has become known. Knows nothing of what it announces.
//! The order of its steps is written over a trait for the flag and one for the descriptor, so that the
//! model checker of `rust/reactor/tests/model.rs` runs this code.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::error::{Error, Result};

/// The flag of a wake descriptor: the standard library's, or that of a model checker.
pub trait Flag {
    /// Sets it; what it was.
    fn swap(&self, is_raised: bool, ordering: Ordering) -> bool;
}

impl Flag for AtomicBool {
    fn swap(&self, is_raised: bool, ordering: Ordering) -> bool {
        Self::swap(self, is_raised, ordering)
    }
}

/// What a loop waits for: a descriptor of the system, or a model of one.
pub trait Counter {
    /// Makes it readable.
    fn add(&self);
    /// Makes it not readable.
    fn reset(&self);
}

/// An `eventfd`.
#[derive(Debug)]
pub struct EventCounter(OwnedFd);

impl Counter for EventCounter {
    fn add(&self) {
        // It can fail only when the counter is full, and then it is readable already.
        let _full = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn reset(&self) {
        let mut count = [0; 8];
        // It can fail only when it was not readable.
        let _empty = rustix::io::read(&self.0, &mut count);
    }
}

/// A descriptor that becomes readable when there is something to drain.
pub type WakeDescriptor = Wake<EventCounter, AtomicBool>;

/// A counter that is added to on the edge from idle alone.
#[derive(Debug)]
pub struct Wake<C, F> {
    counter: C,
    is_raised: F,
}

impl<C: Counter, F: Flag> Wake<C, F> {
    /// Of a counter that is not readable and a flag that is not set.
    pub const fn of(counter: C, is_raised: F) -> Self {
        Self { counter, is_raised }
    }

    /// Makes it readable; one system call on the edge from idle, none after it. To be called after
    /// what is announced can be seen.
    pub fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::AcqRel) {
            self.counter.add();
        }
    }

    /// Makes it not readable; to be called before draining, so that what comes later raises it
    /// again.
    pub fn clear(&self) {
        // Read first, then lower the flag: a raise in between is answered by the drain that follows.
        // The other way round its write could be read here while the flag stays up, and no later
        // raise would write again.
        self.counter.reset();
        self.is_raised.swap(false, Ordering::AcqRel);
    }
}

impl AsFd for WakeDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.0.as_fd()
    }
}

impl WakeDescriptor {
    /// Makes one.
    ///
    /// # Errors
    /// [`Error::Io`] when descriptors are exhausted.
    pub fn new() -> Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = eventfd(0, flags)
            .map_err(|errno| Error::io("make", Path::new("wake descriptor"), &errno.into()))?;
        Ok(Self::of(EventCounter(descriptor), AtomicBool::new(false)))
    }

    /// The number for an event loop.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.counter.0.as_raw_fd()
    }

    /// Whether it was raised and not cleared since, without a system call: for who has no loop and raises
    /// on the same thread.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// Waits until it is readable, at most `timeout`; true when it is.
    ///
    /// # Blocking
    /// At most `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let Ok(timeout) = Timespec::try_from(timeout) else {
            return false;
        };
        let mut one = [PollFd::new(&self.counter.0, PollFlags::IN)];
        // A signal ends the wait early: the caller looks and waits again.
        poll(&mut one, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_raised_until_it_is_cleared() {
        let wake = WakeDescriptor::new().unwrap();
        assert!(!wake.is_raised());
        wake.raise();
        assert!(wake.is_raised() && wake.wait(Duration::ZERO));
        wake.clear();
        assert!(!wake.is_raised() && !wake.wait(Duration::ZERO));
    }
}
