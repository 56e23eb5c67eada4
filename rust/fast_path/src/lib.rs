//! What a hot request does: frames in, answers out, the store between them. Generic over disk and
//! clock; reads no time and no socket: bytes, times and how much was sent are passed in.
//!
//! Executes what the policy allows, escalates everything else decoded, and executes it once it was
//! decided. One thread at a time; its only threads are those that read cold records.
//!
//! The modules, from the top layer down; each uses only those of lower layers.
//!
//! | module | what |
//! |---|---|
//! | [`numbers`] | what was done and what waits, for reports |
//! | [`lags`] | how far groups are behind |
//! | [`locked`] | the fast path of a loop behind its lock, with the time |
//! | `drain` | one turn for what waits |
//! | [`feed`] | bytes of a connection into frames |
//! | [`fast_path`] | the dispatcher: connections, `execute` |
//! | `processors` | the request processors by code |
//! | [`shared_state`] | what the fast paths of several loops over one store share, and the lock order |
//! | `send` | the processor of sends; batches that are kept as one record, sends that come again, messages sent back |
//! | `recall` | messages with a time of their own taken back |
//! | [`transactions`] | ends of transactions, and the check of half messages |
//! | `pull` | the processor of pulls, and which broker a pull is to go on at |
//! | [`pop`] | pops: taking messages for a while, acknowledging them, what comes back |
//! | `offset_processor` | the processor of requests about offsets |
//! | `delivery` | how messages are stored: on which route, at which time, with which response |
//! | [`delay`] | delivery of delayed messages |
//! | [`timers`] | entering and delivery of messages with a time of their own |
//! | `context` | what a request processor is given for one call |
//! | [`readers`] | the threads that read cold records |
//! | [`pop_run`] | a pop and its run through its queues; its names and handles |
//! | `throttling` | whether a request goes on, by the quotas of who asks |
//! | `filtering` | which filter a pull or a pop goes by, and records put through it |
//! | [`repeats`] | the window of sends that may come again, and the first of two compared |
//! | `deferred` | requests that wait for the next log file |
//! | [`gate`] | access control before a request is executed |
//! | [`connections`] | connections and the answers to them, in order |
//! | [`stop`] | why a request is not finished |
//! | `names` | names of topics with a meaning |
//! | `throttled` | requests that quotas hold back |
//! | [`holds`] | held pulls |
//! | `refusals` | official codes and remarks |
//! | [`policy`] | what was decided, as tables |
//! | `batches` | bounds of batches, and which ones are kept as one record |
//! | [`requests`] | the headers of the hot requests, typed |
//! | `held` | held requests and the queues that they wait for, by connection and time |
//! | [`parked`] | sends that wait for their watermark |
//! | [`bits`] | which groups a message passes, as bits beside its queue unit |
//! | [`gets`] | how many messages groups got |
//! | [`consumer_offsets`] | the live consumer offsets, with those that were set and no consumer has gone on from yet |
//! | [`half_counts`] | half messages by topic |
//! | `properties` | properties of a message before it is stored |
//! | `moved` | a message stored again at another offset |
//! | [`output`] | what waits to be written to a connection |
//! | [`sql`] | expressions over properties, compiled |
//! | [`shape`] | how much of its messages the answer to a pull brings |
//! | [`exposition`] | rows of figures as Prometheus's text |
//! | [`traffic`] | what was stored by topic and kind of message, and given back |
//! | [`times`] | how long requests take, by stage, and the slowest of them |
//! | [`quotas`] | how much users, topics and groups may send and read a second |
//! | [`request_context`] | who asked |
//! | [`identity`] | who is on a connection |
//! | [`codes`] | the numbers of requests and of answers |
//! | [`turn`] | how much of what waits is worked off per turn |
//! | [`mark`] | the hash of what names a message |
//! | `shards` | which shard of shared state something belongs to |
//! | [`bounds`] | what connections may occupy |
//! | [`stats`] | what was done, in numbers |

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
pub mod exposition;
pub mod fast_path;
pub mod feed;
mod filtering;
pub mod gate;
pub mod gets;
pub mod half_counts;
mod held;
pub mod holds;
pub mod identity;
pub mod lags;
pub mod locked;
pub mod mark;
mod moved;
mod names;
pub mod numbers;
mod offset_processor;
pub mod output;
pub mod parked;
pub mod policy;
pub mod pop;
pub mod pop_run;
mod processors;
mod properties;
mod pull;
pub mod quotas;
pub mod readers;
mod recall;
mod refusals;
pub mod repeats;
pub mod request_context;
pub mod requests;
mod send;
pub mod shape;
mod shards;
pub mod shared_state;
pub mod sql;
pub mod stats;
pub mod stop;
#[cfg(test)]
mod tests;
mod throttled;
mod throttling;
pub mod timers;
pub mod times;
pub mod traffic;
pub mod transactions;
pub mod turn;

pub use fast_path::{Escalated, FastPath};
pub use request_context::{ConnectionId, RequestContext};
pub use stop::Escalation;
