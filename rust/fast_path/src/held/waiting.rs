//! Requests that wait: by number, by connection, by the end of their time. What they wait at is a
//! number to this. Every operation takes one request in or out, in O(log n).
//!
//! A connection that closes is marked at once, and what it leaves is taken out one by one.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use crate::request_context::ConnectionId;

#[derive(Debug)]
struct Entry<T> {
    value: T,
    connection: ConnectionId,
    slot: usize,
    deadline_ms: u64,
}

#[derive(Debug, Default)]
struct OfConnection {
    ids: BTreeSet<u64>,
    /// How many wait at each place.
    at: HashMap<usize, usize>,
    is_closed: bool,
}

/// A request that was taken out.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    pub(crate) value: T,
    pub(crate) slot: usize,
    /// Whether its connection is open still.
    pub(crate) is_open: bool,
}

/// The waiting requests.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// In boxes: a table that grows moves all that it holds in one go.
    by_id: HashMap<u64, Box<Entry<T>>>,
    by_connection: HashMap<ConnectionId, OfConnection>,
    closing: VecDeque<ConnectionId>,
    /// Connections whose requests are let go, each with the number from which on they were held later.
    released: VecDeque<(ConnectionId, u64)>,
    deadlines: BTreeSet<(u64, u64)>,
    next_id: u64,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            by_id: HashMap::new(),
            by_connection: HashMap::new(),
            closing: VecDeque::new(),
            released: VecDeque::new(),
            deadlines: BTreeSet::new(),
            next_id: 0,
        }
    }
}

impl<T> Waiting<T> {
    /// Takes a request in that waits at a place until `deadline_ms`; its number, above all before.
    pub(crate) fn insert(
        &mut self,
        value: T,
        connection: ConnectionId,
        slot: usize,
        deadline_ms: u64,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let of_connection = self.by_connection.entry(connection).or_default();
        of_connection.ids.insert(id);
        *of_connection.at.entry(slot).or_default() += 1;
        self.deadlines.insert((deadline_ms, id));
        let entry = Box::new(Entry {
            value,
            connection,
            slot,
            deadline_ms,
        });
        self.by_id.insert(id, entry);
        id
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        self.by_id.get(&id).map(|entry| &entry.value)
    }

    /// Takes a request out.
    pub(crate) fn take(&mut self, id: u64) -> Option<Taken<T>> {
        let entry = self.by_id.remove(&id)?;
        self.deadlines.remove(&(entry.deadline_ms, id));
        let mut is_open = false;
        if let Some(of_connection) = self.by_connection.get_mut(&entry.connection) {
            is_open = !of_connection.is_closed;
            of_connection.ids.remove(&id);
            if let Some(count) = of_connection.at.get_mut(&entry.slot) {
                *count -= 1;
                if *count == 0 {
                    of_connection.at.remove(&entry.slot);
                }
            }
        }
        Some(Taken {
            value: entry.value,
            slot: entry.slot,
            is_open,
        })
    }

    /// One whose time is over.
    pub(crate) fn first_due(&self, now_ms: u64) -> Option<u64> {
        let (at, id) = self.deadlines.first()?;
        (*at <= now_ms).then_some(*id)
    }

    /// When the first one's time is over.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _id)| *at)
    }

    /// Marks a connection as closed.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        if let Some(of_connection) = self.by_connection.get_mut(&connection) {
            of_connection.is_closed = true;
            self.closing.push_back(connection);
        }
    }

    /// One that a closed connection has left.
    pub(crate) fn first_left(&mut self) -> Option<u64> {
        while let Some(connection) = self.closing.front() {
            let of_connection = self.by_connection.get(connection);
            if let Some(id) = of_connection.and_then(|of| of.ids.first()) {
                return Some(*id);
            }
            self.by_connection.remove(connection);
            self.closing.pop_front();
        }
        None
    }

    /// Lets go what a connection waits for now.
    pub(crate) fn release(&mut self, connection: ConnectionId) {
        let has_any = self
            .by_connection
            .get(&connection)
            .is_some_and(|of| !of.ids.is_empty());
        if has_any {
            self.released.push_back((connection, self.next_id));
        }
    }

    /// One that is let go.
    pub(crate) fn first_released(&mut self) -> Option<u64> {
        while let Some((connection, end_id)) = self.released.front() {
            let of_connection = self.by_connection.get(connection);
            let first = of_connection.and_then(|of| of.ids.range(..end_id).next());
            if let Some(id) = first {
                return Some(*id);
            }
            self.released.pop_front();
        }
        None
    }

    /// Whether something is let go.
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Whether a closed connection has left something.
    pub(crate) fn has_left(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The number that the next request gets.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many wait of a connection.
    pub(crate) fn len_of(&self, connection: ConnectionId) -> usize {
        let of_connection = self.by_connection.get(&connection);
        of_connection.map_or(0, |of| of.ids.len())
    }

    /// How many wait of a connection at a place.
    pub(crate) fn len_at(&self, connection: ConnectionId, slot: usize) -> usize {
        let of_connection = self.by_connection.get(&connection);
        let at = of_connection.and_then(|of| of.at.get(&slot));
        at.copied().unwrap_or_default()
    }
}
