//! What a controller keeps of brokers and masters (`ReplicasInfoManager` of RocketMQ 5.3), as a state
//! machine: events carry everything that they are decided by, so that every controller that applies the
//! same events holds the same state. Knows no log, no peer, no clock and no liveness of its own.
//!
//! | module | what |
//! |---|---|
//! | `decide` | the checks of an event in the official order, and what it changes |
//! | `elect` | who becomes master |
//! | `state` | brokers, masters and sets by broker name |
//! | `event_bytes`, `state_bytes` | events and state as bytes |
//! | `event` | what is asked for, and what is answered |
//! | `bytes` | numbers and texts as bytes, within bounds |

mod bytes;
mod decide;
mod elect;
mod event;
mod event_bytes;
mod state;
mod state_bytes;

#[cfg(test)]
mod tests;

pub use bytes::ByteFault;
pub use event::{
    AlterSet, Answer, ApplyId, AskedBy, Candidate, Claim, Clean, Code, Elect, Epochs, Event, Fence,
    Register, View,
};
pub use state::{BrokerSet, ControllerState, Replica};
