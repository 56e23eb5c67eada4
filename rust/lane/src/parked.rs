//! Sends that wait for their watermark: what their answers will say, in the order of the tickets.
//! Knows no watermark: the store says which tickets are answered.

use std::collections::VecDeque;

use mqcore_engine::flush::Ticket;

use crate::asker::{Asker, ConnectionId};

/// Sends parked per connection: more than any client has on its way at once.
pub const PARKED_PER_CONNECTION_MAX: usize = 16_384;
/// Sends parked at all. Beyond it a send is refused before it is stored, as the official broker
/// refuses beyond the capacity of its send queue.
pub const PARKED_MAX: usize = 131_072;

/// What the answer to a stored send says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Who asked.
    pub asker: Asker,
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
    waiting: VecDeque<(Ticket, Stored)>,
}

impl Parked {
    /// Parks the answer that goes with a ticket; tickets rise.
    pub fn park(&mut self, ticket: Ticket, stored: Stored) {
        self.waiting.push_back((ticket, stored));
    }

    /// Takes the answer that goes with a ticket; `None` when nobody waits for it.
    pub fn take(&mut self, ticket: Ticket) -> Option<Stored> {
        // Most answers come in the order of the log, which is that of the tickets.
        if self.waiting.front().is_some_and(|front| front.0 == ticket) {
            return self.waiting.pop_front().map(|front| front.1);
        }
        let at = self
            .waiting
            .binary_search_by_key(&ticket, |entry| entry.0)
            .ok()?;
        self.waiting.remove(at).map(|entry| entry.1)
    }

    /// Forgets the sends of a connection: they are stored, nobody is told.
    pub fn close(&mut self, connection: ConnectionId) {
        self.waiting
            .retain(|(_ticket, stored)| stored.asker.connection != connection);
    }

    /// Sends parked now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is parked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(connection: u64, opaque: i32) -> Stored {
        Stored {
            asker: Asker {
                connection: ConnectionId(connection),
                opaque,
                ..Asker::default()
            },
            kind: Kind::Send,
            queue_id: 0,
            queue_offset: 0,
            physical_offset: 0,
            others: Vec::new(),
            recall: None,
            batch_key: None,
        }
    }

    #[test]
    fn answers_come_in_any_order_and_a_closed_connection_gets_none() {
        let mut parked = Parked::default();
        for at in 0..6 {
            parked.park(Ticket(at * 2), stored(at % 2, at as i32));
        }
        assert_eq!(parked.take(Ticket(0)), Some(stored(0, 0)));
        assert_eq!(parked.take(Ticket(6)), Some(stored(1, 3)));
        assert_eq!(parked.take(Ticket(6)), None);
        assert_eq!(parked.take(Ticket(3)), None, "a ticket of somebody else");
        parked.close(ConnectionId(0));
        assert_eq!(parked.take(Ticket(4)), None);
        assert_eq!(parked.len(), 2);
    }
}
