//! Reactors: threads that move the bytes of established plain connections. A reactor reads what came,
//! lets its fast path execute it and writes the answers; what the fast path does not execute goes up as
//! reports. Knows no Python and decides nothing: whoever accepts connections adds them, holds and removes
//! them.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`reactor`] | a reactor for those who give it connections |
//! | `running` | its thread: what is ready, one turn for all of it |
//! | `busy_poll` | whether to look for events a little longer before it sleeps |
//! | [`changes`] | what is asked of a reactor, what it reports, how both are handed over |
//! | `socket` | one connection's socket, and what of it waits |

mod busy_poll;
pub mod changes;
pub mod reactor;
mod running;
mod socket;

pub use changes::{Report, Reported, Reports};
pub use reactor::Reactor;
