//! The log itself: appending records, reading them back, walking them, finding its end after a
//! crash, and giving old files back. Knows segments and records; no queue file, no index.

mod ahead;
mod append;
mod batches;
mod behind;
mod cut;
mod cut_record;
mod filler;
mod keep;
mod log;
mod offsets;
mod raw;
mod read;
mod retain;
mod roll;
mod scan;
mod together;
mod torn_head;
mod torn_offset;

pub use ahead::ReadAhead;
pub use append::Appended;
pub use batches::{LogBatch, LogBatches, Placed};
pub use behind::{Behind, Stretch, records_behind};
pub use cut::{CutReport, cut_at, is_cut_begun, move_aside, sync_from};
pub use cut_record::{CutFacts, CutKind};
pub use filler::DAMAGED_TOPIC;
pub use keep::{KeepReport, Named, NamedRecord, Next, keep_behind};
pub use log::CommitLog;
pub use raw::WholeRecords;
pub use read::{LogReader, LogRecords, RecordBytes};
pub use retain::{Reason, RetainPlan, Retained, plan_space, remove_oldest};
pub use scan::{LogEnd, Scan, Stop, scan, whole_record_after};
pub use torn_offset::DoubtfulRecords;
