//! The key index: which records carry a key. RocketMQ's `IndexFile`, file by file, found by the
//! hash of `topic#key`. Knows no log and no queue: topics, keys, offsets and times come from the
//! caller. One thread puts (log order); any thread queries. All of it is derived data: what is in
//! uncertain is dropped, and the caller dispatches again from [`IndexWriter::resume_offset`].
//!
//! The byte tables are in `layout`.

mod file;
mod files;
mod found;
mod index;
mod layout;
mod load;
mod name;
mod query;
mod scan;
mod sync;
mod write;

pub use found::found_layout;
pub use index::{IndexStats, KeyIndex};
pub use layout::{IndexEntry, IndexHeader, Layout};
pub use load::{LastExit, Opening};
pub use query::QueryAnswer;
pub use scan::{IndexProblem, IndexScan, index_files, verify_file};
pub use sync::IndexSync;
pub use write::{IndexState, IndexWriter, Keyed, Put};

#[cfg(test)]
mod tests;
