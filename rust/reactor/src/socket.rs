//! The socket of one connection: reads and writes without waiting, and what of it is known to be ready.
//! Knows no frame.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// What reading came to.
pub(crate) enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing has come.
    Nothing,
    /// The peer ended the connection, or it broke.
    Ended,
}

/// What writing came to.
pub(crate) enum Sent {
    /// So many bytes.
    Bytes(usize),
    /// Nothing: it is full.
    Full,
    /// It is broken.
    Broken,
}

/// A connection's socket.
pub(crate) struct Socket {
    descriptor: OwnedFd,
    /// There may be something to read.
    pub(crate) is_readable: bool,
    /// Its end is announced: it stays readable until the end is read.
    pub(crate) is_read_closed: bool,
    /// It may take something.
    pub(crate) is_writable: bool,
    /// Is in the list of those that have something to do.
    pub(crate) is_listed: bool,
    /// Somebody asked not to read it.
    pub(crate) is_held: bool,
    /// Requests are left that wait for its output to be read.
    pub(crate) is_stalled: bool,
    /// Requests are left that wait for the next turn.
    pub(crate) has_more: bool,
    /// What was reported of its unfinished frame is not counted yet.
    pub(crate) is_reported: bool,
    /// It was reported to be full.
    pub(crate) is_full: bool,
    /// A whole frame has come.
    pub(crate) has_asked: bool,
    /// It was reported to have ended.
    pub(crate) is_ended: bool,
    /// Bytes of an unfinished frame that were reported.
    pub(crate) reported_bytes: usize,
}

impl Socket {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Self {
            descriptor,
            is_readable: true,
            is_read_closed: false,
            is_writable: true,
            is_listed: false,
            is_held: false,
            is_stalled: false,
            has_more: false,
            is_reported: false,
            is_full: false,
            has_asked: false,
            is_ended: false,
            reported_bytes: 0,
        }
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Gives the descriptor up.
    pub(crate) fn into_descriptor(self) -> OwnedFd {
        self.descriptor
    }

    /// Whether nothing is known of it that another reactor would have to know.
    pub(crate) fn may_leave(&self) -> bool {
        let is_paused = self.is_held || self.is_stalled || self.is_reported || self.is_full;
        self.has_asked && self.is_writable && !is_paused && !self.has_more && !self.is_ended
    }

    /// Whether a turn may do something for it.
    pub(crate) fn may_go_on(&self) -> bool {
        let has_work = self.is_readable || self.has_more;
        let is_paused = self.is_held || self.is_stalled || self.is_reported;
        has_work && !is_paused && !self.is_ended
    }

    /// Reads what has come, as far as `buffer` goes.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Read {
        loop {
            match rustix::io::read(&self.descriptor, &mut *buffer) {
                Ok(0) => return Read::Ended,
                Ok(len) => {
                    // A short read took everything: what comes later is announced anew.
                    self.is_readable = len == buffer.len() || self.is_read_closed;
                    return Read::Bytes(len);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.is_readable = false;
                    return Read::Nothing;
                }
                Err(_broken) => return Read::Ended,
            }
        }
    }

    /// Writes as much as it takes.
    pub(crate) fn send(&mut self, slices: &[IoSlice<'_>]) -> Sent {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing = SendAncillaryBuffer::default();
        loop {
            return match sendmsg(&self.descriptor, slices, &mut nothing, flags) {
                Ok(len) => Sent::Bytes(len),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS) => {
                    self.is_writable = false;
                    Sent::Full
                }
                Err(_broken) => {
                    self.is_writable = false;
                    Sent::Broken
                }
            };
        }
    }
}
