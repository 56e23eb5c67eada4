//! What the owner may wait on: one wake descriptor, raised on the edge from idle, for an event loop
//! that then drains what has become known. Knows nothing of what it announces.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::error::{Error, Result};

/// A descriptor that becomes readable when there is something to drain.
#[derive(Debug)]
pub struct WakeDescriptor {
    descriptor: OwnedFd,
    is_raised: AtomicBool,
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
        Ok(Self {
            descriptor,
            is_raised: AtomicBool::new(false),
        })
    }

    /// The number for an event loop.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Makes it readable; one system call on the edge from idle, none after it.
    pub fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::AcqRel) {
            // It can fail only when the counter is full, and then it is readable already.
            let _full = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// Makes it not readable; to be called before draining, so that what comes later raises it
    /// again.
    pub fn clear(&self) {
        let mut count = [0; 8];
        // It can fail only when it was not readable. Read first, then lower the flag: a raise in
        // between is answered by the drain that follows. The other way round its write could be
        // read here while the flag stays up, and no later raise would write again.
        let _empty = rustix::io::read(&self.descriptor, &mut count);
        self.is_raised.swap(false, Ordering::AcqRel);
    }

    /// Waits until it is readable, at most `timeout`; true when it is.
    ///
    /// # Blocking
    /// At most `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let Ok(timeout) = Timespec::try_from(timeout) else {
            return false;
        };
        let mut one = [PollFd::new(&self.descriptor, PollFlags::IN)];
        // A signal ends the wait early: the caller looks and waits again.
        poll(&mut one, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }
}
