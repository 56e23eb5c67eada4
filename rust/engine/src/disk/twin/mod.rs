//! The twin of the disk: files in memory that remember every change, crash at any of them and fail
//! on demand. Knows no format of the store. Any thread may use it; it is deterministic as long as
//! its callers are.
//!
//! What power loss leaves (stricter than any one file system, so that all of them are covered):
//! - a page (4096 bytes) is its last synced image plus any prefix of the later writes on it, the
//!   last of them possibly torn; pages do not depend on one another;
//! - a sync of a range is one of the pages that it touches, and of the length as far as reading them
//!   back needs it; every other page stays open;
//! - the length of a file is its last synced one plus any prefix of the later changes;
//! - creating, renaming and removing a name is lost or kept, each by itself, until its directory
//!   was synced (a rename is atomic; between two directories it needs both synced);
//! - what a failed sync was to write may be lost although a later sync succeeds: its pages count as
//!   clean until they are written again.
//!
//! What the killed process leaves is simpler: everything that happened ([`History::killed`]).
//!
//! ```
//! use mqcore_engine::disk::twin::{Bound, TwinDisk};
//! use mqcore_engine::disk::{Disk, DiskFile, Open};
//! use std::path::Path;
//!
//! let twin = TwinDisk::new();
//! let file = twin.open(Path::new("/log"), Open::CreateNew)?;
//! file.write_at(b"hello", 0)?;
//! file.sync_data()?;
//! let history = twin.history();
//! for stop in 0..history.stop_points() {
//!     for image in history.images(stop, &Bound::default()) {
//!         let disk = image.disk();
//!         // Recover from `disk`; a failure is reproduced by `history.image(&image.id())`.
//!         assert!(disk.stat(Path::new("/"))?.is_some(), "{}", image.id());
//!     }
//! }
//! # Ok::<(), mqcore_engine::error::Error>(())
//! ```

mod content;
mod crash;
mod event;
mod faults;
mod file;
mod history;
mod map;
mod names;
mod probe;
mod replay;
mod tree;
mod variants;
mod world;

#[cfg(test)]
mod tests;

pub use event::CallKind;
pub use faults::{Fault, Times};
pub use file::TwinFile;
pub use history::{Bound, CrashImage, History, ImageId, Images};
pub use map::{TwinCells, TwinRegion};
pub use names::TwinLock;
pub use variants::Tear;
pub use world::TwinDisk;
