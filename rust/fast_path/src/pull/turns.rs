//! Work that connections take turns at: each has a row of its own, and the first of each row comes
//! before the second of any. Bounded per connection. Knows no work.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::request_context::ConnectionId;

/// Pieces of work that one connection may have waiting: a consumer has one per queue that it reads at
/// once.
const PER_CONNECTION_MAX: usize = 4_096;
/// Pieces of work that may wait at all.
const ALL_MAX: usize = 65_536;

/// What waits for its turn.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    rows: HashMap<ConnectionId, VecDeque<T>>,
    order: VecDeque<ConnectionId>,
    len: usize,
    /// Taken out and not ended.
    under_way: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
            under_way: 0,
        }
    }
}

impl<T> Turns<T> {
    /// Puts work into the row of a connection; false at a bound.
    pub(crate) fn push(&mut self, connection: ConnectionId, work: T) -> bool {
        let row = self.rows.entry(connection).or_default();
        if row.len() >= PER_CONNECTION_MAX || self.len >= ALL_MAX {
            return false;
        }
        if row.is_empty() {
            self.order.push_back(connection);
        }
        row.push_back(work);
        self.len += 1;
        true
    }

    /// Takes the next piece, unless so many are under way.
    pub(crate) fn next(&mut self, under_way_max: usize) -> Option<T> {
        if self.under_way >= under_way_max {
            return None;
        }
        // A closed connection is in the order and has no row.
        while let Some(connection) = self.order.pop_front() {
            let Some(row) = self.rows.get_mut(&connection) else {
                continue;
            };
            let Some(work) = row.pop_front() else {
                continue;
            };
            if row.is_empty() {
                self.rows.remove(&connection);
            } else {
                self.order.push_back(connection);
            }
            self.len -= 1;
            self.under_way += 1;
            return Some(work);
        }
        None
    }

    /// Records that a piece is done.
    pub(crate) fn end_one(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Forgets the work of a connection that is not under way.
    pub(crate) fn close(&mut self, connection: ConnectionId) {
        if let Some(row) = self.rows.remove(&connection) {
            self.len -= row.len();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_take_turns_and_one_that_closes_is_passed_over() {
        let mut turns = Turns::default();
        for (connection, work) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'x'), (3, 'y')] {
            assert!(turns.push(ConnectionId(connection), work));
        }
        assert_eq!((turns.next(9), turns.next(9)), (Some('a'), Some('x')));
        turns.close(ConnectionId(3));
        assert_eq!(turns.next(9), Some('b'));
        assert_eq!(turns.next(3), None, "three are under way");
        turns.end_one();
        assert_eq!((turns.len(), turns.next(3)), (1, Some('c')));
        assert_eq!((turns.len(), turns.next(9)), (0, None));
    }

    #[test]
    fn rows_are_bounded() {
        let mut turns = Turns::default();
        for at in 0..PER_CONNECTION_MAX {
            assert!(turns.push(ConnectionId(1), at));
        }
        assert!(!turns.push(ConnectionId(1), 0));
        assert!(turns.push(ConnectionId(2), 0), "others go on");
    }
}
