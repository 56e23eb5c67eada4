//! Controllers that agree with one another by Raft (openraft), behind [`Consensus`](crate::Consensus). Its
//! log, vote and snapshots are records of a [`Journal`](crate::journal::Journal); its messages are bytes
//! that somebody else carries.
//!
//! | module | what |
//! |---|---|
//! | `group` | one controller of several: the thread that runs openraft |
//! | `messages` | what goes to peers and comes from them |
//! | `state` | the state machine, and its snapshots |
//! | `log` | entries and vote, durable |
//! | `types` | the types that openraft is used with, as bytes |

mod group;
mod log;
mod messages;
mod state;
mod types;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use group::{Group, Timing};
pub use messages::Outgoing;
