//! Sends that wait for their watermark: what their answers will hold, in the order of the tickets.
//! Knows no watermark: the store gives the tickets that are answered.

use std::collections::VecDeque;

use mqcore_engine::commit_log::Appended;
use mqcore_engine::flush::Ticket;

use crate::request_context::RequestContext;
use crate::times::Moments;
use crate::traffic::Slot;

/// Answers taken out of their order that are kept as empty places, beyond as many as wait.
const EMPTY_MAX: usize = 1_024;

/// How many sends may be parked. Beyond it a send is refused before it is stored, as the official
/// broker refuses beyond the capacity of its send queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkLimits {
    /// At all.
    pub all: usize,
    /// Per connection: more than any client has in flight at once.
    pub per_connection: usize,
}

impl Default for ParkLimits {
    fn default() -> Self {
        Self {
            all: 131_072,
            per_connection: 16_384,
        }
    }
}

/// What the answer to a stored send holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Who asked.
    pub request_context: RequestContext,
    /// What was asked.
    pub kind: Kind,
    /// The queue that was asked for, or chosen.
    pub queue_id: i32,
    /// Place of the first message in the queue it went to.
    pub queue_offset: u64,
    /// Physical offset of the first message.
    pub physical_offset: u64,
    /// Physical offsets of the others of a batch.
    pub others: Vec<u64>,
    /// What recalls it, of a message with a time of its own; the key of a message that was recalled.
    pub recall: Option<Box<str>>,
    /// The key of a batch that is kept as one record.
    pub batch_key: Option<Box<str>>,
    /// Whether it should wait for replicas, and too few are near enough.
    pub lacks_replicas: bool,
    /// The times of its stages.
    pub marks: Moments,
    /// What its answer waits for.
    pub awaits: Awaits,
    /// Bytes of what was stored.
    pub bytes: u64,
    /// Where the answer of a send is counted.
    pub(crate) counted: Option<Slot>,
}

/// What an answer waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Awaits {
    /// The end of what was stored.
    pub end: u64,
    /// Its sync.
    pub needs_sync: bool,
    /// Its replicas.
    pub needs_replica: bool,
}

impl Stored {
    /// What the answer to a message at these offsets will hold.
    pub(crate) fn at(
        request_context: RequestContext,
        kind: Kind,
        queue_id: i32,
        appended: &Appended,
    ) -> Self {
        Self {
            request_context,
            kind,
            queue_id,
            queue_offset: appended.queue_offset,
            physical_offset: appended.physical_offset,
            others: Vec::new(),
            recall: None,
            batch_key: None,
            lacks_replicas: false,
            marks: Moments::default(),
            awaits: Awaits::default(),
            bytes: appended.len_bytes,
            counted: None,
        }
    }
}

/// Which request an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A send: the answer names the place.
    Send,
    /// A message sent back by its consumer: the answer is a code.
    Back,
    /// A recall: the answer names the key of what is recalled.
    Recall,
    /// A transaction that was committed: the answer is a code.
    End,
}

/// The parked sends.
#[derive(Debug, Default)]
pub struct Parked {
    /// In the order of the tickets; an answer that was taken out of it leaves its place empty.
    entries: VecDeque<(Ticket, Option<Stored>)>,
    waiting: usize,
}

impl Parked {
    /// Parks the answer that goes with a ticket; tickets rise.
    pub fn park(&mut self, ticket: Ticket, stored: Stored) {
        self.entries.push_back((ticket, Some(stored)));
        self.waiting += 1;
    }

    /// Takes the answer that goes with a ticket; `None` when nobody waits for it. What belongs to a
    /// connection that is closed is taken like any other: it has no reader.
    pub fn take(&mut self, ticket: Ticket) -> Option<Stored> {
        // Most answers come in the order of the log, which is that of the tickets.
        let taken = if self.entries.front().is_some_and(|front| front.0 == ticket) {
            self.entries.pop_front().and_then(|front| front.1)
        } else {
            let at = self.entries.binary_search_by_key(&ticket, |entry| entry.0);
            self.entries
                .get_mut(at.ok()?)
                .and_then(|entry| entry.1.take())
        };
        self.waiting -= usize::from(taken.is_some());
        while self.entries.front().is_some_and(|front| front.1.is_none()) {
            self.entries.pop_front();
        }
        if self.entries.len() > 2 * self.waiting + EMPTY_MAX {
            self.entries.retain(|entry| entry.1.is_some());
        }
        taken
    }

    /// The last so many were stored by a step that ended then, us.
    pub(crate) fn mark_appended(&mut self, count: usize, us: u64) {
        for (_ticket, stored) in self.entries.iter_mut().rev().take(count) {
            if let Some(stored) = stored {
                stored.marks.appended_us = us;
            }
        }
    }

    /// Sends parked now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none is parked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_context::ConnectionId;

    fn stored(connection: u64, opaque: i32) -> Stored {
        Stored {
            request_context: RequestContext {
                connection: ConnectionId(connection),
                opaque,
                ..RequestContext::default()
            },
            kind: Kind::Send,
            queue_id: 0,
            queue_offset: 0,
            physical_offset: 0,
            others: Vec::new(),
            recall: None,
            batch_key: None,
            lacks_replicas: false,
            marks: Moments::default(),
            awaits: Awaits::default(),
            bytes: 0,
            counted: None,
        }
    }

    #[test]
    fn answers_come_in_any_order() {
        let mut parked = Parked::default();
        for at in 0..6 {
            parked.park(Ticket(at * 2), stored(at % 2, at as i32));
        }
        assert_eq!(parked.take(Ticket(0)), Some(stored(0, 0)));
        assert_eq!(parked.take(Ticket(6)), Some(stored(1, 3)));
        assert_eq!(parked.take(Ticket(6)), None);
        assert_eq!(parked.take(Ticket(3)), None, "a ticket of somebody else");
        assert_eq!(parked.len(), 4);
    }

    #[test]
    fn entries_that_were_taken_out_of_their_order_do_not_pile_up() {
        let mut parked = Parked::default();
        parked.park(Ticket(0), stored(0, 0));
        for at in 1..100_000 {
            parked.park(Ticket(at), stored(0, 1));
            assert!(parked.take(Ticket(at)).is_some());
            assert!(parked.entries.len() <= 2 + EMPTY_MAX + 1);
        }
        assert_eq!(parked.take(Ticket(0)), Some(stored(0, 0)));
        assert!(parked.is_empty() && parked.entries.is_empty());
    }
}
