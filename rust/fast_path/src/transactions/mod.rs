//! Transactions: how a half message ends, and what becomes of those that nobody ends
//! (`EndTransactionProcessor`, `TransactionalMessageServiceImpl`).
//!
//! A half message waits in a queue of its own. Its end is an op message in the queue of operations;
//! what has none after a while is asked back, and stored anew at the end of the half queue, so
//! that the queue is read from front to back once.
//!
//! | module | what |
//! |---|---|
//! | `end` | END_TRANSACTION: checks, the committed message, the op message |
//! | `ends` | what is ended, of all loops: its shards, its locks and their order |
//! | [`remembered`] | what was ended lately, and its copies |
//! | `op_queues` | what is ended without an op message on disk yet |
//! | [`decided`] | which offsets of the half queue are ended by op messages |
//! | [`check`] | one round over the half queue |
//! | [`resume`] | what was given up waits for its end again |
//! | [`batch`] | a half message of a batch: its commit |
//! | `half` | what a half message becomes: itself again, committed, given up, a question |

pub mod batch;
pub mod check;
pub mod decided;
mod end;
mod ends;
mod half;
mod op_queues;
pub mod remembered;
pub mod resume;

pub(crate) use end::EndTransactionProcessor;
pub(crate) use ends::Ends;
