//! The batch queues of 5.x (`batchconsumequeue/TOPIC/QUEUE/`, `BatchConsumeQueue`): one unit covers
//! all messages of a record. Derived data, as the plain queues are. Knows no record, no log and
//! no thread of its own: dispatch appends and writes, the queue sync syncs, readers read, all at
//! the same time. How units get into files is in `queue_store`.
//!
//! | module | what |
//! |---|---|
//! | `unit`, `queue` | the 46 bytes of a unit; where a unit belongs |
//! | `topics` | which topics have such queues, and their queues |
//! | `table` | makes the parts and hands them out |
//! | `read` | bounds, units from an offset on, the offset of a time |
//! | `append` | a unit comes into its queue |
//! | `recover` | what the files hold after the last end of the store |
//! | `retain` | whole files, and whole topics, are given back |

mod append;
mod queue;
mod read;
mod recover;
mod retain;
mod table;
mod topics;
mod unit;

#[cfg(test)]
mod tests;

pub use append::Placed;
pub use read::BatchQueue;
pub use recover::Trust;
pub use table::BatchTable;
pub use unit::BatchUnit;
