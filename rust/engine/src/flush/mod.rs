//! Making the log durable: one sync answers everyone below it. Knows files and watermarks, no
//! record.

mod acks;
mod cadence;
mod commit_batch;
mod sync;

pub use acks::{ACKS_PARKED_MAX, AckQueue, Deadlines, Needs, Reached, Ticket};
pub use cadence::Cadence;
pub use commit_batch::CommitBatch;
pub use sync::Syncer;
