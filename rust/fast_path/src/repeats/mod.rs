//! Sends that come again: a producer whose answer was lost sends the same message once more, with
//! the same unique key. Within a window of time it is stored once, and both are answered with the
//! place of the first.
//!
//! The window is a hint, the log decides: what a mark points to is read and compared (topic, key,
//! body; whether its queue still has it) before anything is answered. So a collision costs a look,
//! and never a message; and nothing needs a file of its own, since the window is
//! filled from the log's end when a store is opened.
//!
//! | module | what |
//! |---|---|
//! | [`window`] | marks and places of the last minutes, in bounded memory |
//! | [`identity`] | what names a message, and which records count |
//! | `first` | the message that was there before, compared |
//! | [`rebuild`](mod@rebuild) | the window of a store that was opened |
//! | `claims` | what is compared of a send |

mod claims;
mod first;
pub mod identity;
pub mod rebuild;
pub mod window;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::Store;
use mqcore_wire::Command;

use self::rebuild::Rebuilt;
use self::window::Window;
use crate::mark::Mark;
use crate::request_context::ConnectionId;
use crate::shards::{SHARDS, shard_of_number};
use crate::stop::How;

pub(crate) use self::claims::{claims, look_patiently, read_again};
pub use self::first::Looked;
pub(crate) use self::first::{Claim, First, Patience, look};

/// What is remembered of the sends of the last minutes, in shards by mark.
#[derive(Debug)]
pub struct Repeats {
    pub(crate) shards: [RepeatsShard; SHARDS],
    length_ms: i64,
}

/// The marks of a shard. What is counted is counted where the mark of the send belongs.
#[derive(Debug)]
pub(crate) struct RepeatsShard {
    pub(crate) window: Window,
    /// Sends answered with the place of an earlier one.
    pub(crate) answered: u64,
    /// Sends with the mark of an earlier one that were something else.
    pub(crate) distinguished: u64,
}

impl Repeats {
    /// Remembers so long, in so many bytes of memory at the most, beginning with what is at the
    /// end of a store's log. Each shard has an equal part of the memory, so that all together keep the
    /// bound: marks are hashes, and fill all shards alike.
    ///
    /// # Errors
    /// [`mqcore_engine::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the log of that time, [`rebuild::REBUILT_BYTES_MAX`] bytes of it at the most.
    pub fn open<D: Disk, C: Clock>(
        store: &Store<D, C>,
        length_ms: i64,
        memory_bytes: usize,
    ) -> Result<(Self, Rebuilt)> {
        let mut repeats = Self::new(length_ms, memory_bytes);
        let rebuilt = rebuild::rebuild(&mut repeats, store, store.wall_ms())?;
        Ok((repeats, rebuilt))
    }

    fn new(length_ms: i64, memory_bytes: usize) -> Self {
        let shard = |_number| RepeatsShard {
            window: Window::new(length_ms, memory_bytes / SHARDS),
            answered: 0,
            distinguished: 0,
        };
        Self {
            shards: std::array::from_fn(shard),
            length_ms: length_ms.max(1),
        }
    }

    fn insert(&mut self, mark: Mark, physical_offset: u64, at_ms: i64) {
        if let Some(shard) = self.shards.get_mut(shard_of(mark)) {
            shard.window.insert(mark, physical_offset, at_ms);
        }
    }
}

/// The shard of a mark. Its slot in the window is chosen by the other half of the mark.
pub(crate) fn shard_of(mark: Mark) -> usize {
    shard_of_number(mark.high)
}

/// What was done with repeats, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatNumbers {
    answered: u64,
    distinguished: u64,
    keys: u64,
    displaced: u64,
    reach_ms: i64,
}

impl RepeatNumbers {
    /// Those of a shard.
    pub(crate) fn of(shard: &RepeatsShard, now_ms: i64) -> Self {
        Self {
            answered: shard.answered,
            distinguished: shard.distinguished,
            keys: shard.window.len() as u64,
            displaced: shard.window.displaced(),
            reach_ms: shard.window.reach_ms(now_ms),
        }
    }

    /// Those of two shards together: what both reach back to is known of each message.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            distinguished: self.distinguished + other.distinguished,
            keys: self.keys + other.keys,
            displaced: self.displaced + other.displaced,
            reach_ms: self.reach_ms.min(other.reach_ms),
        }
    }

    /// Names and numbers.
    pub(crate) fn pairs(self) -> [(&'static str, u64); 5] {
        [
            ("repeats", self.answered),
            ("repeats_told_apart", self.distinguished),
            ("repeat_keys", self.keys),
            ("repeat_keys_displaced", self.displaced),
            (
                "repeat_window_ms",
                u64::try_from(self.reach_ms).unwrap_or(0),
            ),
        ]
    }
}

/// A send whose first has to be read from the disk.
#[derive(Debug)]
pub struct DuplicateCandidate {
    pub(crate) connection: ConnectionId,
    pub(crate) command: Command,
    pub(crate) how: How,
    pub(crate) mark: Mark,
    pub(crate) physical_offset: u64,
}

impl DuplicateCandidate {
    pub(crate) fn new(
        connection: ConnectionId,
        command: Command,
        how: How,
        (mark, physical_offset): (Mark, u64),
    ) -> Self {
        Self {
            connection,
            command,
            how,
            mark,
            physical_offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::identity::{Identity, Marks};
    use super::*;

    const MEMORY_BYTES: usize = 1 << 20;
    const LENGTH_MS: i64 = 60_000;

    fn mark(number: usize) -> Mark {
        Marks::of_process().of(&Identity {
            topic: b"t",
            key: number.to_string().as_bytes(),
            is_half: false,
        })
    }

    fn capacity(repeats: &Repeats) -> usize {
        let shards = repeats.shards.iter();
        shards.map(|shard| shard.window.capacity()).sum()
    }

    fn numbers(repeats: &Repeats, now_ms: i64) -> RepeatNumbers {
        let shards = repeats.shards.iter();
        let each = shards.map(|shard| RepeatNumbers::of(shard, now_ms));
        each.reduce(RepeatNumbers::and).unwrap()
    }

    #[test]
    fn marks_of_one_topic_are_spread_over_all_shards() {
        let mut repeats = Repeats::new(LENGTH_MS, MEMORY_BYTES);
        for number in 0..SHARDS * 64 {
            repeats.insert(mark(number), number as u64, 0);
        }
        for shard in &repeats.shards {
            let len = shard.window.len();
            assert!((20..160).contains(&len), "{len} of some 64");
        }
        assert_eq!(numbers(&repeats, 0).keys, SHARDS as u64 * 64);
    }

    #[test]
    fn the_memory_of_all_shards_together_is_what_was_asked_for() {
        let whole = Window::new(LENGTH_MS, MEMORY_BYTES).capacity();
        let mut repeats = Repeats::new(LENGTH_MS, MEMORY_BYTES);
        let capacity = capacity(&repeats);
        assert!(capacity <= whole && capacity > whole - SHARDS);
        for number in 0..capacity * 2 {
            repeats.insert(mark(number), number as u64, 0);
        }
        let numbers = numbers(&repeats, 0);
        assert_eq!(numbers.keys, capacity as u64, "every shard is full");
        assert_eq!(numbers.displaced, capacity as u64);
    }

    #[test]
    fn the_window_reaches_back_as_far_as_that_of_the_fullest_shard() {
        let mut repeats = Repeats::new(LENGTH_MS, MEMORY_BYTES);
        assert_eq!(numbers(&repeats, 0).reach_ms, LENGTH_MS);
        let full = repeats.shards[3].window.capacity();
        let of_shard = (0..).map(mark).filter(|mark| shard_of(*mark) == 3);
        for (number, mark) in of_shard.take(full + 1).enumerate() {
            repeats.insert(mark, number as u64, number as i64);
        }
        let now_ms = full as i64 + 1;
        assert!(numbers(&repeats, now_ms).reach_ms <= now_ms);
        assert_eq!(repeats.shards[2].window.reach_ms(now_ms), LENGTH_MS);
    }
}
