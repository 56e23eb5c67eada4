//! What was ended lately, and which half messages were stored anew: so that a half message ends together
//! with its copies, and none ends twice. Pure state; knows no op message.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::requests::Decision;

/// A half message, or a copy of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half {
    /// Its queue of the half topic.
    pub queue_id: i32,
    /// Its offset in the queue: what op messages name.
    pub offset: u64,
    /// The offset of the first copy.
    pub first: u64,
    /// Time on its producer's clock, ms: distinguishes it from others at this offset when the topic
    /// is deleted and its queue begins anew.
    pub born_ms: i64,
}

/// What all copies of a half message have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    queue_id: i32,
    first: u64,
    born_ms: i64,
}

impl Half {
    const fn key(self) -> Key {
        Key {
            queue_id: self.queue_id,
            first: self.first,
            born_ms: self.born_ms,
        }
    }
}

/// Ends and copies of a number of half messages; the oldest are forgotten beyond it.
#[derive(Debug)]
pub(super) struct Remembered {
    max: usize,
    decided: HashMap<Key, Decision>,
    decided_order: VecDeque<Key>,
    /// Offset of the newest copy.
    newest_of: HashMap<Key, u64>,
    copied_order: VecDeque<Key>,
}

impl Remembered {
    /// Remembers so many ends, and copies of so many half messages.
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            decided: HashMap::new(),
            decided_order: VecDeque::new(),
            newest_of: HashMap::new(),
            copied_order: VecDeque::new(),
        }
    }

    /// How a half message, or the one that it is a copy of, was ended; `None` when that is unknown.
    pub(super) fn decided(&self, half: Half) -> Option<Decision> {
        self.decided.get(&half.key()).copied()
    }

    /// Records an end; returns the offset of the newest copy where that is another one: it is ended too.
    pub(super) fn decide(&mut self, half: Half, decision: Decision) -> Option<u64> {
        let key = half.key();
        if self.decided.insert(key, decision).is_none() {
            self.decided_order.push_back(key);
        }
        if self.decided_order.len() > self.max
            && let Some(oldest) = self.decided_order.pop_front()
        {
            self.decided.remove(&oldest);
        }
        let newest = self.newest_of.get(&key).copied();
        newest.filter(|newest| *newest != half.offset)
    }

    /// Records that a half message was stored anew at another offset. True when it had been ended
    /// meanwhile: then the copy is ended too.
    pub(super) fn copied(&mut self, half: Half, to: u64) -> bool {
        let key = half.key();
        if self.newest_of.insert(key, to).is_none() {
            self.copied_order.push_back(key);
        }
        if self.copied_order.len() > self.max
            && let Some(oldest) = self.copied_order.pop_front()
        {
            self.newest_of.remove(&oldest);
        }
        self.decided.contains_key(&key)
    }

    /// Ends, and half messages with copies.
    pub(super) fn len(&self) -> (usize, usize) {
        (self.decided.len(), self.newest_of.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 100;

    fn at(offset: u64) -> Half {
        copy_of(offset, offset)
    }

    fn copy_of(first: u64, offset: u64) -> Half {
        Half {
            queue_id: 0,
            offset,
            first,
            born_ms: 7,
        }
    }

    #[test]
    fn a_half_message_ends_with_its_copies() {
        let mut remembered = Remembered::new(MAX);
        assert!(!remembered.copied(at(1), 20));
        assert!(!remembered.copied(copy_of(1, 20), 30));
        assert_eq!(remembered.decide(at(1), Decision::Commit), Some(30));
        for offset in [1, 20, 30] {
            let decided = remembered.decided(copy_of(1, offset));
            assert_eq!(decided, Some(Decision::Commit));
        }
        let reborn = Half {
            born_ms: 8,
            ..at(1)
        };
        let decided = remembered.decided(reborn);
        assert_eq!(decided, None, "another one at the same offset");
        assert!(remembered.copied(copy_of(1, 30), 40), "ended meanwhile");
        assert_eq!(remembered.decide(at(50), Decision::Rollback), None);
        assert_eq!(remembered.decided(at(50)), Some(Decision::Rollback));
    }

    #[test]
    fn the_newest_copy_is_not_named_twice() {
        let mut remembered = Remembered::new(MAX);
        assert!(!remembered.copied(at(1), 20));
        assert_eq!(remembered.decide(copy_of(1, 20), Decision::Commit), None);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut remembered = Remembered::new(MAX);
        for offset in 0..MAX as u64 + 10 {
            assert_eq!(remembered.decide(at(offset), Decision::Commit), None);
            assert!(!remembered.copied(at(offset + 1_000), offset + 2_000));
        }
        assert_eq!(remembered.decided(at(9)), None);
        assert_eq!(remembered.decided(at(10)), Some(Decision::Commit));
        assert_eq!(remembered.decide(at(1_009), Decision::Commit), None);
        let newest = remembered.decide(at(1_010), Decision::Commit);
        assert_eq!(newest, Some(2_010));
        assert_eq!(remembered.len(), (MAX, MAX));
    }
}
