//! What is asked of a reactor from other threads, and what it reports. Knows no socket's bytes.

use std::os::fd::OwnedFd;

use mqcore_engine::lock::Mutex;
use mqcore_fast_path::{ConnectionId, Escalated};

/// What is asked of a reactor.
pub(crate) enum Change {
    /// Serve this connection, which is open in the reactor's fast path.
    Add(ConnectionId, OwnedFd),
    /// Read no more of it.
    Hold(ConnectionId),
    /// Read it again.
    Release(ConnectionId),
    /// What was reported of its unfinished frame is counted: go on, unless it is held meanwhile.
    Counted(ConnectionId),
    /// Write what can be written at once, and forget it.
    Remove(ConnectionId),
    /// Give up so many connections that are idle.
    Spare(usize),
    /// End.
    Stop,
}

/// Changes in the order in which they were asked for.
#[derive(Default)]
pub(crate) struct Changes(Mutex<Vec<Change>>);

impl Changes {
    pub(crate) fn push(&self, change: Change) {
        self.0.lock().push(change);
    }

    pub(crate) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// What a reactor reports.
#[derive(Debug)]
pub enum Report {
    /// A request that the fast path does not execute.
    Escalated(Escalated),
    /// A connection holds so much of an unfinished frame, or has sent its first whole frame. With
    /// bytes it is not read before [`counted`](crate::Reactor::counted) is called: what all may
    /// hold is bounded elsewhere.
    Unfinished {
        /// The connection.
        connection: ConnectionId,
        /// Bytes; 0 where they are too few to count.
        bytes: usize,
        /// Another number for another frame.
        frame: u64,
        /// Whether a whole frame of the connection has come.
        has_asked: bool,
    },
    /// A connection does not read what it is sent.
    Full(ConnectionId),
    /// It has read all of it.
    Drained(ConnectionId),
    /// An idle connection is given up: it is open in the fast path still, and nobody serves it until
    /// it is added here again or taken elsewhere.
    Spared(ConnectionId, OwnedFd),
    /// A connection has ended, or has to be ended: remove it. Reported once.
    Ended {
        /// The connection.
        connection: ConnectionId,
        /// What is wrong with what it sent or does not read; none when the peer ended it.
        fault: Option<String>,
    },
}

/// Where reports go.
pub trait Reports: Send + Sync + 'static {
    /// Takes the reports of one turn, and leaves the list empty.
    ///
    /// # Blocking
    /// Must not: it is called by the reactor's thread.
    fn take(&self, reports: &mut Vec<Report>);
}
