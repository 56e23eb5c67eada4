//! What controllers agree on, and how it is kept: entries are made durable in a log, applied in its order
//! to a state machine, and answered. Knows no entry's meaning, no socket, no clock and no Python.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`raft`] | controllers agree by Raft; one alone is a group of one |
//! | [`journal`] | a file of byte records, durable one by one |
//! | [`node`] | what a controller asks of whoever agrees for it |

pub mod journal;
pub mod node;
pub mod raft;

pub use node::{Consensus, ConsensusError, Machine, Standing};
