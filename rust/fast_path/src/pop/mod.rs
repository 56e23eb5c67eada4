//! Pops: messages taken without owning a queue, given back when nobody acknowledged them in time
//! (`PopMessageProcessor`, `AckMessageProcessor`, `ChangeInvisibleTimeProcessor`,
//! `PopReviveService`).
//!
//! | module | what |
//! |---|---|
//! | [`points`] | records of check points: pure |
//! | [`headers`] | the headers of the requests, typed |
//! | [`buffer`] | what is popped and not settled: pure |
//! | [`flight`] | how many messages are popped and not acknowledged: pure |
//! | [`orders`] | ordered pops: pure |
//! | [`polls`], `polling` | held pops, and those that were woken: pure |
//! | `merge`, `log` | what is popped, stored as check points, and the offsets that rest on it |
//! | `shards` | the same, by groups, each shard behind its lock |
//! | `other_loops` | pops that wait on other loops: pure |
//! | `check`, `lines` | who may pop; the queues of a pop |
//! | `take`, `queue`, `answer` | the processor of pops: its steps, one queue, the answer |
//! | `ack` | the processor of acknowledgements, and of changes of the invisible time |
//! | `look` | the processor of notifications; what is asked without popping |
//! | [`revive`], `revived`, `retry` | check points read back: what nobody acknowledged comes again |

pub mod buffer;
pub mod flight;
pub mod headers;
pub mod orders;
pub mod points;
pub mod polls;
pub mod revive;

mod ack;
mod answer;
mod check;
mod family;
mod lines;
mod log;
mod look;
mod merge;
mod other_loops;
mod polling;
mod queue;
mod retry;
mod revived;
mod shards;
mod take;

pub(crate) use family::Pops;
pub(crate) use shards::PopShards;
