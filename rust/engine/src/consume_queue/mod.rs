//! The consume queues: per topic and queue id the list of 20-byte units that give where each
//! message lies in the log (`ConsumeQueue`). Derived data: the log can always build it again.
//!
//! Knows no record, no log and no thread of its own: dispatch appends and writes, the queue sync
//! syncs, readers read, all at the same time. How units get into files is in `queue_store`; batch
//! queues (`batchconsumequeue/`) are not its own.
//!
//! | module | what |
//! |---|---|
//! | `unit`, `queue` | the 20 bytes of a unit; where a unit belongs |
//! | `open`, `table` | the parts below are made, and handed the calls of the store |
//! | `shared` | what several parts use |
//! | `load`, `probe` | the first look at a queue; single units |
//! | `append`, `read`, `search` | units in and out; queue offsets by store time |
//! | `truncate`, `recover`, `retain`, `remove` | units, files and queues are taken away |
//! | `manifest`, `witness` | how long the queues were at the last stop or checkpoint |
//! | `suspects`, `lost`, `holes` | what queues have lost, and how it is made again |
//! | `extension` | tags codes, store times and bits beside a queue |

mod append;
mod extension;
mod holes;
mod load;
mod lost;
mod manifest;
mod open;
mod probe;
mod queue;
mod read;
mod recover;
mod remove;
mod rests;
mod retain;
mod search;
mod shared;
mod suspects;
mod table;
mod truncate;
mod unit;
mod witness;

#[cfg(test)]
mod tests;

pub use append::{Coming, Placed};
pub use extension::{DIR_NAME as EXTENSION_DIR, Extended, ExtensionReader, ext_offset_of};
pub use holes::{Hole, HoleMender, LogSide, Mended};
pub use lost::LostUnits;
pub use manifest::{MANIFEST_NAME, ManifestQueue, ManifestQueues, manifest_queues, stop_mark};
pub use queue::Queue;
pub use read::QueueRead;
pub use recover::{QueueRecovery, Recovered, Trust};
pub use rests::Rest;
pub use retain::Deleted;
pub use search::Boundary;
pub use suspects::Suspect;
pub use table::{QueueInfo, QueueTable};
pub use unit::{Bounds, Unit};
pub use witness::{WITNESS_NAME, Witness};

pub use crate::queue_store::{ReadBy, Synced};
