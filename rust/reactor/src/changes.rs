//! What is asked of a reactor from other threads, and what it reports; how both are handed over. Knows no
//! socket's bytes. `tests/model.rs` runs the hand-over under a model checker.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use mqcore_engine::lock::Mutex;
use mqcore_engine::store::LoopEvents;
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
    /// What was asked before is done: let this go.
    Confirm(Sender<()>),
    /// End.
    Stop,
}

/// A list behind a lock: the engine's lock, or that of a model checker.
pub trait Listed {
    /// What is listed.
    type Item;

    /// Lets `act` see and change the list under the lock.
    ///
    /// # Blocking
    /// Until whoever holds the lock lets it go.
    fn with<R>(&self, act: impl FnOnce(&mut Vec<Self::Item>) -> R) -> R;
}

impl<T> Listed for Mutex<Vec<T>> {
    type Item = T;

    fn with<R>(&self, act: impl FnOnce(&mut Vec<T>) -> R) -> R {
        act(&mut self.lock())
    }
}

/// What wakes a loop.
pub trait Wakes {
    /// Wakes it, now or at the next time that it waits.
    fn raise(&self);
}

impl Wakes for LoopEvents {
    fn raise(&self) {
        self.wake_descriptor().raise();
    }
}

/// What threads hand over to a loop: changes to a reactor, reports to Python's loop.
///
/// Nothing is left lying: whoever hands over lists first and wakes then, and the loop clears its wake
/// descriptor first and takes then. What one thread hands over is taken in its order.
pub struct HandOver<L, W> {
    waiting: L,
    wakes: Arc<W>,
}

impl<L: Listed + Default, W: Wakes> HandOver<L, W> {
    /// To the loop that `wakes` wakes.
    pub fn new(wakes: Arc<W>) -> Self {
        Self {
            waiting: L::default(),
            wakes,
        }
    }

    /// Hands one over.
    pub fn push(&self, one: L::Item) {
        self.waiting.with(|waiting| waiting.push(one));
        self.wakes.raise();
    }

    /// Hands all over, and leaves the list empty.
    pub fn append(&self, all: &mut Vec<L::Item>) {
        self.waiting.with(|waiting| waiting.append(all));
        self.wakes.raise();
    }

    /// Takes what was handed over; to be called after the wake descriptor was cleared.
    pub fn take(&self) -> Vec<L::Item> {
        self.waiting.with(std::mem::take)
    }
}

/// Changes for a reactor, in the order in which they were asked for.
pub(crate) type Changes = HandOver<Mutex<Vec<Change>>, LoopEvents>;

/// Reports for the loop that takes them, in the order in which a reactor made them.
pub type Reported = HandOver<Mutex<Vec<Report>>, LoopEvents>;

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

impl Reports for Reported {
    fn take(&self, reports: &mut Vec<Report>) {
        self.append(reports);
    }
}
