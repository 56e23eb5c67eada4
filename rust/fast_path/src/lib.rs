//! What a hot request does: frames in, answers out, the store between them. Generic over disk and
//! clock; reads no time and no socket: bytes, times and how much was sent are passed in.
//!
//! Executes what the policy allows, escalates everything else decoded, and executes it once it was
//! decided. One thread at a time; its only threads are those that read cold records.
//!
//! | module | what |
//! |---|---|
//! | [`fast_path`], `drain` | the dispatcher: connections, `execute`; one turn for what waits |
//! | `processors` | the request processors by code |
//! | `shared_state` | what the fast paths of several loops over one store share, and the lock order |
//! | `context` | what a request processor is given for one call |
//! | [`stop`], `refusals` | why a request is not finished; official codes and remarks |
//! | [`turn`] | how much of it is worked off per turn |
//! | [`feed`] | bytes of a connection into frames |
//! | [`policy`] | what was decided, as tables |
//! | [`gets`] | how many messages groups got |
//! | [`consumer_offsets`] | the live consumer offsets, with those that were set and no consumer has gone on from yet ([`offsets`], [`resets`]) |
//! | [`sql`] | expressions over properties, compiled |
//! | [`bits`] | which groups a message passes, as bits beside its queue unit |
//! | `filtering` | which filter a pull or a pop goes by, and records put through it |
//! | `held` | held requests and the queues that they wait for |
//! | [`holds`] | held pulls |
//! | `waiting`, `slots`, `turns` | requests that wait: by connection and time, in places, in turns |
//! | `deferred` | requests that wait for the next log file |
//! | [`parked`] | sends that wait for their watermark |
//! | [`connections`] | connections and the answers to them, in order |
//! | [`requests`] | the headers of the hot requests, typed |
//! | [`shape`] | how much of its messages the answer to a pull brings |
//! | `send`, `batches`, `inner_batch` | the processor of sends; batches, and those that are kept as one record |
//! | `back`, `returned`, `recall` | messages sent back; messages with a time of their own taken back |
//! | `pull`, `pull_check`, `offset_processor` | the processors of pulls and of requests about offsets |
//! | `delivery`, `route`, `timing` | how messages are stored: on which route, at which time |
//! | `answers` | the responses to requests that store a message |
//! | [`delay`] | delivery of delayed messages |
//! | [`timers`] | entering and delivery of messages with a time of their own |
//! | `moved` | a message stored again at another offset |
//! | `slow` | which broker a pull is to go on at |
//! | [`pop`] | pops: taking messages for a while, acknowledging them, what comes back |
//! | [`transactions`] | ends of transactions, and the check of half messages |
//! | [`readers`] | the threads that read cold records |

mod batches;
pub mod bits;
pub mod bounds;
pub mod codes;
pub mod connections;
pub mod consumer_offsets;
mod context;
mod deferred;
pub mod delay;
mod delivery;
mod drain;
pub mod fast_path;
pub mod feed;
pub mod gets;
mod held;
pub mod holds;
mod inner_batch;
mod offset_processor;
pub mod offsets;
pub mod output;
pub mod parked;
pub mod policy;
pub mod pop;
mod processors;
pub mod readers;
mod refusals;
pub mod repeats;
pub mod request_context;
pub mod requests;
pub mod resets;
pub mod shape;
mod slots;
pub mod sql;
pub mod stats;
pub mod stop;
#[cfg(test)]
mod tests;
pub mod timers;
pub mod transactions;
pub mod turn;
mod turns;
mod waiting;

mod answers;
pub mod back;
mod delivery_route;
mod filtering;
mod moved;
mod names;
mod properties;
mod pull;
mod pull_check;
mod recall;
mod returned;
mod send;
mod shared_state;
mod slow;
mod stamp;
mod timing;

pub use fast_path::{Escalated, FastPath};
pub use request_context::{ConnectionId, RequestContext};
pub use stop::Escalation;
