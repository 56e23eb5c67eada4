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

use self::identity::{Identity, Marks};
use self::rebuild::Rebuilt;
use self::window::Window;
use crate::mark::Mark;
use crate::request_context::ConnectionId;
use crate::stop::How;

pub(crate) use self::claims::{claims, look_patiently, read_again};
pub use self::first::Looked;
pub(crate) use self::first::{Claim, First, Patience, look};

/// What is remembered of the sends of the last minutes.
#[derive(Debug)]
pub struct Repeats {
    pub(crate) window: Window,
    marks: Marks,
    /// Sends answered with the place of an earlier one.
    pub answered: u64,
    /// Sends with the mark of an earlier one that were something else.
    pub distinguished: u64,
    /// Bytes of requests whose first is being read from the disk.
    pub(crate) looking_bytes: usize,
}

impl Repeats {
    /// Remembers so long, in so many bytes of memory at the most, beginning with what is at the
    /// end of a store's log.
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
        let mut repeats = Self {
            window: Window::new(length_ms, memory_bytes),
            marks: Marks::default(),
            answered: 0,
            distinguished: 0,
            looking_bytes: 0,
        };
        let rebuilt = rebuild::rebuild(&mut repeats, store, store.wall_ms())?;
        Ok((repeats, rebuilt))
    }

    /// Names and numbers, for reports.
    #[must_use]
    pub fn numbers(&self, now_ms: i64) -> [(&'static str, u64); 5] {
        let reach_ms = self.window.reach_ms(now_ms);
        [
            ("repeats", self.answered),
            ("repeats_told_apart", self.distinguished),
            ("repeat_keys", self.window.len() as u64),
            ("repeat_keys_displaced", self.window.displaced()),
            ("repeat_window_ms", u64::try_from(reach_ms).unwrap_or(0)),
        ]
    }

    pub(crate) fn mark(&self, identity: &Identity<'_>) -> Mark {
        self.marks.of(identity)
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
