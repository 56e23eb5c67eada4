//! A store directory looked at as it lies there: read only, without a lock, also beside a running
//! broker and over what the official broker wrote. Shares no code with the store that writes, but
//! for the formats: what verifies must not trust what it verifies.

mod batch_queues;
mod expected;
mod extensions;
mod files;
mod findings;
mod key_counts;
mod open;
mod queue_report;
mod queues;
mod records;
mod verify;
mod verify_index;
mod verify_queues;

pub use files::{FileReport, resident_parts};
pub use findings::{Findings, Problem};
pub use open::Inspection;
pub use queue_report::QueueReport;
pub use queues::QueueFiles;
