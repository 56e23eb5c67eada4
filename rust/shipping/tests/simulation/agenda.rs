//! What is planned, by time; what is planned for the same time comes in the order in which it was planned.
//! Knows no event.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events to come.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Planned<E>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<E> {
    at_ms: u64,
    number: u64,
    event: E,
}

impl<E> Planned<E> {
    /// Time and number as one: the heap compares little else than this.
    fn key(&self) -> u128 {
        u128::from(self.at_ms) << 64 | u128::from(self.number)
    }
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            planned: 0,
        }
    }

    pub(crate) fn plan(&mut self, at_ms: u64, event: E) {
        self.planned += 1;
        self.heap.push(Planned {
            at_ms,
            number: self.planned,
            event,
        });
    }

    /// The next event, and when it is due.
    pub(crate) fn next(&mut self) -> Option<(u64, E)> {
        let next = self.heap.pop()?;
        Some((next.at_ms, next.event))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Planned<E> {
    /// The earliest is the greatest: it leaves the heap first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}
