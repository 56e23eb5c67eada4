//! The consume queues: per topic and queue id the list of 20-byte units that say where each message
//! lies in the log (`ConsumeQueue`). Derived data: the log can always build it again.
//!
//! Knows no record, no log and no thread of its own: dispatch appends and writes, the queue sync
//! syncs, readers read, all at the same time. Batch queues (`batchconsumequeue/`) are not its own.

mod append;
mod extension;
mod files;
mod holes;
mod ledger;
mod load;
mod manifest;
mod queue;
mod read;
mod recover;
mod remove;
mod retain;
mod search;
mod suspects;
mod sync;
mod table;
mod truncate;
mod unit;
mod walk;
mod witness;
mod write;

#[cfg(test)]
mod tests;

pub use append::{Coming, Placed};
pub use extension::{DIR_NAME as EXTENSION_DIR, Extended, ExtensionReader, place_of};
pub use holes::{Hole, LogSide, Mended};
pub use manifest::{MANIFEST_NAME, ManifestQueue, ManifestQueues, manifest_queues, stop_mark};
pub use queue::Queue;
pub use read::{QueueRead, ReadBy};
pub use recover::{Recovered, Trust};
pub use retain::Deleted;
pub use search::Boundary;
pub use suspects::Suspect;
pub use sync::Synced;
pub use table::{QueueInfo, QueueTable};
pub use unit::{Bounds, Unit};
pub use witness::WITNESS_NAME;
