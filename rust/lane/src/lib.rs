//! What a hot request does: frames in, answers out, the store between them. Generic over disk and
//! clock; reads no time and no socket: bytes, times and how much was sent are passed in.
//!
//! Executes what the policy allows, hands everything else over decoded, and executes it once it was
//! decided. One thread at a time; its only threads are those that read cold records.
//!
//! | module | what |
//! |---|---|
//! | [`lane`], `drain` | the lane: connections, `execute`; one turn for what waits |
//! | [`turn`] | how much of it is worked off per turn |
//! | [`feed`] | bytes of a connection into frames |
//! | [`policy`] | what was decided, as tables |
//! | [`gets`] | how many messages groups got |
//! | [`offsets`] | the live consumer offsets |
//! | [`resets`] | offsets that were set and no consumer has gone on from yet |
//! | [`sql`] | expressions over properties, compiled |
//! | [`bits`] | which groups a message passes, as bits beside its queue unit |
//! | `filtering` | which filter a pull goes by, and records put through it |
//! | [`holds`] | held pulls |
//! | `waiting`, `slots`, `turns` | requests that wait: by connection and time, in places, in turns |
//! | `deferred` | requests that wait for the next log file |
//! | [`parked`] | sends that wait for their watermark |
//! | [`desk`] | connections and the answers to them, in order |
//! | [`requests`] | the headers of the hot requests, typed |
//! | [`shape`] | how much of its messages the answer to a pull brings |
//! | `send`, `answers`, `back`, `pull`, `places` | the operations |
//! | `inner_batch` | batches that are kept as one record |
//! | [`delay`] | delivery of delayed messages |
//! | [`timers`] | entering and delivery of messages with a time of their own |
//! | `moved` | a message stored again in another place |
//! | `slow` | which broker a pull is told to go on at |
//! | `way`, `timing`, `recall` | where a message waits; which time it asks for; taking it back |
//! | [`pop`] | pops: taking messages for a while, acknowledging them, what comes back |
//! | [`transactions`] | ends of transactions, and the check of half messages |
//! | [`readers`] | the threads that read cold records |

pub mod asker;
pub mod bits;
pub mod bounds;
pub mod codes;
mod deferred;
pub mod delay;
pub mod desk;
mod drain;
pub mod feed;
pub mod gets;
pub mod holds;
mod inner_batch;
pub mod lane;
pub mod offsets;
pub mod output;
pub mod parked;
pub mod policy;
pub mod pop;
pub mod readers;
pub mod repeats;
pub mod requests;
pub mod resets;
pub mod shape;
mod slots;
pub mod sql;
pub mod stats;
pub mod timers;
pub mod transactions;
pub mod turn;
mod turns;
mod waiting;

mod answers;
pub mod back;
mod filtering;
mod moved;
mod names;
mod places;
mod properties;
mod pull;
mod recall;
mod send;
mod slow;
mod stamp;
mod timing;
mod way;

pub use asker::{Asker, ConnectionId};
pub use lane::{Handed, Lane, Need};
