//! Rows of columns become the bodies of send requests: pure functions of bytes.
//!
//! Columns come as Arrow arrays. What goes to one queue of one topic is laid side by side as a
//! batch; what no batch can carry (delayed messages, and what fills a request alone) goes singly.
//! Who sends them, and what a topic's queues are, is known elsewhere.
//!
//! | module | what |
//! |---|---|
//! | [`columns`] | the columns of rows, out of Arrow's arrays |
//! | [`text`] | the properties of a row, as a record carries them |
//! | [`packer`] | open requests, and when each is full |
//! | [`error`] | what can be wrong with a row |

pub mod columns;
pub mod error;
pub mod packer;
pub mod text;

pub use columns::Rows;
pub use error::{ColumnFault, RowError, RowFault};
pub use packer::{Ids, Packed, Packer, Settings, Topic};
