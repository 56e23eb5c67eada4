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
//! | [`auto_master`] | the link of a master to one slave, in controller mode |
//! | [`auto_slave`] | the link of a slave to its master, in controller mode |
//! | [`refill`] | the frames of a copy of whole files, and which file is next |
//! | [`walk`] | whether the bytes of a master are records, each at its own place |
//! | `course` | what goes to a slave and when, in either dialect |
//! | `intake` | where the bytes of a master go, in either dialect |
//! | [`auto_switch`] | the frames of controller mode |
//! | [`log_end`] | whether a log has all that another one had |
//! | [`quorum`] | which sends a master may acknowledge |
//! | [`members`] | the sync-state set, and which sends a master may acknowledge by it |
//! | [`epochs`] | who has written what of a log |
//! | [`flow`] | how many bytes may go in this second |
//! | [`stream`] | reports and headers as bytes |
//! | [`fault`] | why a link ends |

pub mod auto_master;
pub mod auto_slave;
pub mod auto_switch;
pub mod controller;
mod course;
pub mod epochs;
pub mod fault;
pub mod flow;
mod intake;
pub mod log_end;
pub mod master;
pub mod members;
pub mod quorum;
pub mod refill;
pub mod slave;
pub mod stream;
pub mod walk;

pub use auto_master::{AutoSwitchMasterLink, Source};
pub use auto_slave::{AutoSwitchSlaveLink, Followed};
pub use auto_switch::{Introduction, Transfer};
pub use epochs::{Consistent, EpochEntry, EpochTable};
pub use fault::LinkFault;
pub use flow::FlowLimit;
pub use log_end::LogEnd;
pub use master::{LogSpan, MasterLink, Standing, Step};
pub use members::{Alteration, Connected, Members, MembersDecision, MembersRule, Waits};
pub use quorum::{QuorumDecision, QuorumRule, Standby};
pub use refill::RefillPlan;
pub use slave::{Received, SlaveLink};
pub use stream::{Header, Timing};
pub use walk::RecordWalk;
