//! The batch queues of 5.x (`batchconsumequeue/TOPIC/QUEUE/`, `BatchConsumeQueue`): one unit stands
//! for all messages of a record. Derived data, as the plain queues are. Knows no record, no log and
//! no thread of its own: dispatch appends and writes, the queue sync syncs, readers read, all at
//! the same time.
//!
//! | module | what |
//! |---|---|
//! | `unit` | the 46 bytes of a unit |
//! | `queue` | one queue: what is kept of it in memory, and where a unit belongs |
//! | `read` | bounds, units from an offset on, the offset of a time |
//! | `table` | which topics have such queues, and their queues |
//! | `append`, `write`, `sync` | a unit's way to the device |
//! | `recover` | what the files hold after the last end of the store |
//! | `retain` | whole files, and whole topics, are given back |

mod append;
mod queue;
mod read;
mod recover;
mod retain;
mod sync;
mod table;
mod unit;
mod write;

#[cfg(test)]
mod tests;

pub use append::Placed;
pub use queue::BatchQueue;
pub use recover::Trust;
pub use table::BatchTable;
pub use unit::BatchUnit;
