//! The batch queues of 5.x (`batchconsumequeue/TOPIC/QUEUE/`, `BatchConsumeQueue`): one unit stands
//! for all messages of a record. Read only: what an official broker wrote is found by queue; such
//! topics take no messages here. Knows no record.
//!
//! | module | what |
//! |---|---|
//! | `unit` | the 46 bytes of a unit |
//! | `queue` | one queue: bounds, units from an offset on, the offset of a time |
//! | `table` | all queues of a directory |

mod queue;
mod table;
mod unit;

pub use queue::BatchQueue;
pub use table::BatchTable;
pub use unit::{BATCH_UNIT_BYTES, BatchUnit};
