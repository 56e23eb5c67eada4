//! The replication of RocketMQ: what master and slave send each other (`DefaultHAService`), what each does
//! next, and what a controller decides about them. State machines over bytes and a time that is passed in:
//! `feed` takes what came, and what is to be done comes out. Knows no file, no socket, no clock and no
//! Python.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`master`] | the link of a master to one slave |
//! | [`slave`] | the link of a slave to its master |
//! | [`controller`] | what a controller keeps of brokers and masters, and decides |
//! | [`walk`] | whether the bytes of a master are records, each at its own place |
//! | [`quorum`] | which sends a master may acknowledge |
//! | [`flow`] | how many bytes may go in this second |
//! | [`stream`] | reports and headers as bytes |
//! | [`fault`] | why a link ends |

pub mod controller;
pub mod fault;
pub mod flow;
pub mod master;
pub mod quorum;
pub mod slave;
pub mod stream;
pub mod walk;

pub use fault::LinkFault;
pub use flow::FlowLimit;
pub use master::{LogSpan, MasterLink, Standing, Step};
pub use quorum::{QuorumDecision, QuorumRule, Standby};
pub use slave::{Received, SlaveLink};
pub use stream::{Header, Timing};
pub use walk::RecordWalk;
