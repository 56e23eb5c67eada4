//! Records as columns: pure functions of bytes for whoever reads a log or an answer as a table.
//!
//! [`RecordColumns`] takes pieces of a log, or answers of a broker, and gives batches of Arrow arrays.
//! Only what was asked for is filled, and what does not pass the [`Filter`] is dropped before its
//! body is touched. Knows no file, no time and no Python.
//!
//! | module | what |
//! |---|---|
//! | [`mod@column`] | the columns there are, and what each holds |
//! | [`buffers`] | columns while they grow, and as Arrow arrays |
//! | [`filter`] | which records are wanted |
//! | `rows` | a record into the columns asked for |
//! | [`walk`] | pieces of a log to records; finds the way again behind damage and in the middle |
//! | [`scan`] | all of it together, batch by batch |
//! | [`units`] | the units of a consume queue as columns |

pub mod buffers;
pub mod column;
pub mod filter;
pub mod scan;
pub mod units;
pub mod walk;

mod rows;

pub use buffers::Batch;
pub use column::Column;
pub use filter::Filter;
pub use scan::{BadRecords, Limits, RecordColumns, ScanError, Tally};
pub use units::queue_units;
pub use walk::{Damage, Span, Step, Walk};
