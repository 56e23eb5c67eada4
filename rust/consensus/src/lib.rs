//! What controllers agree on, and how it is kept: entries are made durable in a log, applied in its order
//! to a state machine, and answered. Knows no entry's meaning, no socket, no clock and no Python.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`single`] | one controller: what is durable in its log is agreed on |
//! | [`journal`] | a file of byte records, durable one by one |
//! | [`node`] | what a controller asks of whoever agrees for it |

pub mod journal;
pub mod node;
pub mod single;

pub use node::{Consensus, ConsensusError, Machine, Standing};
pub use single::Single;
