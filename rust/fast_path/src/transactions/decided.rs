//! Which offsets of a half queue are ended by the op messages in the queue of operations: one bit
//! per offset from the first that is open on. Pure state; knows no store.
//!
//! An op message counts as done when every offset that it names lies before the first open one, and so does
//! everything that was in the half queue when it was read: there may be copies of what it names, which it
//! does not name. The group's offset in the queue of operations passes only op messages that are done, so
//! that a restart finds all that it needs again.

use std::collections::{BTreeSet, VecDeque};

/// Offsets kept track of at the most, from the first open one on: 8 MiB of bits. Op messages about
/// offsets beyond are read later.
pub const SPAN_MAX: u64 = 64 << 20;
/// Op messages that are not done at the most: 24 MiB.
pub const OP_MESSAGES_MAX: usize = 1 << 20;
/// Offsets kept that were named, for their copies; of more than these the lowest are forgotten, whose copies
/// are then asked about although they are ended.
const NAMED_MAX: usize = 65_536;

const BITS: u64 = u64::BITS as u64;

/// An op message that was read.
#[derive(Debug, Clone, Copy)]
struct OpMessage {
    offset: u64,
    /// The last offset that is looked at with it; `None` for an op message about nothing.
    last: Option<u64>,
}

/// The ended places of one half queue.
#[derive(Debug)]
pub struct Decided {
    /// The first place that is open.
    front: u64,
    /// Bits from the word of `front` on.
    words: VecDeque<u64>,
    op_messages: VecDeque<OpMessage>,
    /// The next op message to be read.
    next_op_message: u64,
    /// Offsets that were named as ended: their copies are ended, too.
    named: BTreeSet<u64>,
}

impl Decided {
    /// Nothing known, from these offsets of both queues on.
    #[must_use]
    pub fn at(front: u64, next_op_message: u64) -> Self {
        Self {
            front,
            words: VecDeque::new(),
            op_messages: VecDeque::new(),
            next_op_message,
            named: BTreeSet::new(),
        }
    }

    /// The first open place.
    #[must_use]
    pub const fn front(&self) -> u64 {
        self.front
    }

    /// The next op message to be read.
    #[must_use]
    pub const fn next_op_message(&self) -> u64 {
        self.next_op_message
    }

    /// The offset up to which all op messages are done.
    #[must_use]
    pub fn done_op_messages(&self) -> u64 {
        self.op_messages
            .front()
            .map_or(self.next_op_message, |op_message| op_message.offset)
    }

    /// Whether another op message can be taken.
    #[must_use]
    pub fn has_space(&self) -> bool {
        self.op_messages.len() < OP_MESSAGES_MAX
    }

    /// Takes the op message at [`Decided::next_op_message`], while the half queue ends at `half_end`; false
    /// when it names an offset too far ahead: then it is not taken.
    pub fn take(
        &mut self,
        queue_offsets: impl Iterator<Item = u64> + Clone,
        half_end: u64,
    ) -> bool {
        let (all, front) = (queue_offsets, self.front);
        let open = all.clone().filter(|queue_offset| *queue_offset >= front);
        let last = open.clone().max();
        if last.is_some_and(|last| last - self.front >= SPAN_MAX) {
            return false;
        }
        for queue_offset in open {
            let at = self.word_of(queue_offset);
            if at >= self.words.len() {
                self.words.resize(at + 1, 0);
            }
            if let Some(word) = self.words.get_mut(at) {
                *word |= 1 << (queue_offset % BITS);
            }
        }
        let is_about_nothing = all.clone().next().is_none();
        self.named.extend(all);
        while self.named.len() > NAMED_MAX {
            self.named.pop_first();
        }
        let last_copy = half_end.checked_sub(1).filter(|_| !is_about_nothing);
        let last = last.max(last_copy);
        let offset = self.next_op_message;
        self.op_messages.push_back(OpMessage { offset, last });
        self.next_op_message += 1;
        true
    }

    /// Passes over op messages that are gone.
    pub fn skip_op_messages_to(&mut self, offset: u64) {
        self.next_op_message = self.next_op_message.max(offset);
    }

    /// Whether a place is ended.
    #[must_use]
    pub fn holds(&self, queue_offset: u64) -> bool {
        if queue_offset < self.front {
            return true;
        }
        let word = self
            .words
            .get(self.word_of(queue_offset))
            .copied()
            .unwrap_or(0);
        word & (1 << (queue_offset % BITS)) != 0
    }

    /// Whether an offset was named as ended: then its copies are ended.
    #[must_use]
    pub fn is_named(&self, queue_offset: u64) -> bool {
        self.named.contains(&queue_offset)
    }

    /// Everything before an offset is done; op messages that are, too, are forgotten.
    pub fn pass_to(&mut self, front: u64) {
        let gone = usize::try_from(front / BITS - self.front / BITS).unwrap_or(usize::MAX);
        self.words.drain(..gone.min(self.words.len()));
        self.front = front;
        let is_done = |op_message: &OpMessage| op_message.last.is_none_or(|last| last < front);
        while self.op_messages.front().is_some_and(is_done) {
            self.op_messages.pop_front();
        }
    }

    fn word_of(&self, queue_offset: u64) -> usize {
        usize::try_from(queue_offset / BITS - self.front / BITS).unwrap_or(usize::MAX)
    }
}

/// The offsets that the body of an op message names: numbers, each but the last of 4.9 with a comma
/// behind. What is no number is left out.
pub fn queue_offsets(body: &[u8]) -> impl Iterator<Item = u64> + Clone {
    let parts = body.split(|byte| *byte == b',');
    parts.filter_map(|part| std::str::from_utf8(part).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_both_releases_are_read() {
        let read = |body: &[u8]| queue_offsets(body).collect::<Vec<_>>();
        assert_eq!(read(b"7"), [7]);
        assert_eq!(read(b"7,8,100,"), [7, 8, 100]);
        assert_eq!(read(b"x,-1,9,"), [9]);
        assert_eq!(read(b""), [0; 0]);
    }

    #[test]
    fn a_note_is_done_once_all_it_names_is_passed() {
        let mut decided = Decided::at(10, 3);
        assert!(decided.take([12, 200].into_iter(), 0));
        assert!(decided.take([4].into_iter(), 0), "about what was passed");
        assert!(decided.take([10].into_iter(), 0));
        assert!(decided.holds(10) && decided.holds(12) && decided.holds(200));
        assert!(!decided.holds(11) && !decided.holds(13) && !decided.holds(201));
        assert!(decided.holds(9));
        assert_eq!(
            (decided.done_op_messages(), decided.next_op_message()),
            (3, 6)
        );
        decided.pass_to(200);
        assert_eq!(decided.done_op_messages(), 3, "200 is still open");
        assert!(decided.holds(200));
        decided.pass_to(201);
        assert_eq!(decided.done_op_messages(), 6);
        assert!(!decided.holds(201));
    }

    #[test]
    fn a_note_is_kept_for_the_copies_that_it_does_not_name() {
        let mut decided = Decided::at(6, 0);
        assert!(decided.take([6, 12].into_iter(), 13));
        assert!(decided.is_named(6) && !decided.is_named(10));
        decided.pass_to(10);
        assert!(decided.is_named(6), "10 may be a copy of it");
        let mut decided = Decided::at(7, 3);
        assert!(decided.take([6].into_iter(), 13));
        decided.pass_to(10);
        assert_eq!(decided.done_op_messages(), 3, "a restart reads it again");
        decided.pass_to(13);
        assert_eq!(decided.done_op_messages(), 4);
    }

    #[test]
    fn an_offset_too_far_ahead_waits() {
        let mut decided = Decided::at(5, 0);
        assert!(!decided.take([5 + SPAN_MAX].into_iter(), 0));
        assert_eq!(decided.next_op_message(), 0);
        assert!(decided.take([4 + SPAN_MAX].into_iter(), 0));
    }

    #[test]
    fn it_agrees_with_a_set() {
        let mut decided = Decided::at(0, 0);
        let mut set = std::collections::BTreeSet::new();
        let mut dice: u64 = 7;
        let mut front = 0;
        for _step in 0..2_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let queue_offset = front + (dice >> 33) % 300;
            assert!(decided.take([queue_offset, queue_offset + 1].into_iter(), 0));
            set.extend([queue_offset, queue_offset + 1]);
            while set.contains(&front) {
                front += 1;
            }
            if dice.is_multiple_of(5) {
                front += 1;
            }
            decided.pass_to(front);
            for queue_offset in front..front + 310 {
                assert_eq!(
                    decided.holds(queue_offset),
                    set.contains(&queue_offset),
                    "{queue_offset}"
                );
            }
        }
    }
}
