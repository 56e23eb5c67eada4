//! What a controller asks of whoever agrees for it, and what that asks of the controller's state.

use mqcore_engine::error::Error;

/// A state that entries change. The same entries in the same order lead to the same state.
pub trait Machine: Send + 'static {
    /// What comes of an entry.
    type Answer: Send + 'static;

    /// Applies an entry that is agreed on.
    ///
    /// # Errors
    /// The entry cannot be understood: why. Nothing is applied after it.
    fn apply(&mut self, entry: &[u8]) -> Result<Self::Answer, String>;

    /// The state as bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Takes a state from bytes in the place of the present one.
    ///
    /// # Errors
    /// The bytes are no state: why.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), String>;
}

/// Why nothing was agreed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsensusError {
    /// The log cannot be read, or could not be written: nothing is agreed on until the next start.
    #[error(transparent)]
    Log(#[from] Error),
    /// Another controller leads, or none.
    #[error("this controller is not the leader")]
    NotLeader {
        /// The number of the leader, where it is known.
        leader: Option<u64>,
    },
    /// Too few controllers agreed in time: it is not known whether the entry will be applied.
    #[error("too few controllers agreed within {waited_ms} ms")]
    Late {
        /// How long it waited.
        waited_ms: u64,
    },
    /// The entry is longer than a log takes.
    #[error("the entry has {len_bytes} bytes, and {max_bytes} are allowed")]
    TooLong {
        /// Its length.
        len_bytes: usize,
        /// The bound.
        max_bytes: usize,
    },
}

/// The state of a controller among its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether what it is asked can be agreed on.
    pub is_leader: bool,
    /// The number of the leader, where it is known.
    pub leader: Option<u64>,
    /// Entries that were applied since the log began.
    pub applied: u64,
    /// Why nothing is agreed on any more, where something failed.
    pub failure: Option<String>,
}

/// Agrees on entries, and applies them to a state.
pub trait Consensus<M: Machine>: Send + Sync {
    /// Has an entry agreed on and applied.
    ///
    /// # Durability
    /// On return the entry survives power loss wherever it has to.
    ///
    /// # Blocking
    /// Until it is durable and applied.
    ///
    /// # Errors
    /// [`ConsensusError`]. After [`ConsensusError::Log`] it is not known whether the entry is applied by
    /// the next start.
    fn propose(&self, entry: &[u8]) -> Result<M::Answer, ConsensusError>;

    /// Looks at the state. Everything in it is agreed on.
    fn look<T>(&self, look: impl FnOnce(&M) -> T) -> T;

    /// The state of this controller among its peers.
    fn standing(&self) -> Standing;
}
