//! Making the log durable: one sync answers everyone below it. Knows files and watermarks, no
//! record.

mod acks;
mod cadence;
mod sync;
mod wave;

pub use acks::{ACKS_PARKED_MAX, AckQueue, Needs, Reached, Ticket};
pub use cadence::Cadence;
pub use sync::Syncer;
pub use wave::Wave;
