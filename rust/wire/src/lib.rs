//! Bytes on the socket: the frames, headers and compressed bodies of RocketMQ's remoting protocol.
//!
//! Sans-IO: pure functions of bytes, and one buffer for frames that arrive in pieces. Everything
//! that reads is total: any bytes give a value or a typed [`WireError`], never a panic, in memory
//! bounded by what was received. Knows no socket, no clock, no store and no request's meaning.
//!
//! | module | what |
//! |---|---|
//! | [`frame`] | where a frame begins and ends, within the cap |
//! | [`command`] | [`Command`] owned, [`CommandRef`] borrowed from its frame, and writing both |
//! | [`header`] | [`Head`]: what a header holds besides its fields |
//! | [`fields`] | the header's own fields (`extFields`), as a list |
//! | [`reader`] | frames out of bytes that arrive in any pieces |
//! | [`calls`] | requests that wait for their answer, and their frames before they are sent |
//! | [`compression`] | bodies made small as the Java client does it |
//! | [`language`] | the numbers and names of languages |

pub mod calls;
pub mod command;
pub mod compression;
pub mod error;
pub mod fields;
pub mod frame;
pub mod header;
pub mod language;
pub mod reader;

mod binary;
mod json;
mod json_usual;
mod special;

pub use calls::Calls;
pub use command::{Command, CommandRef};
pub use error::{Part, WireError};
pub use fields::Fields;
pub use frame::{FRAME_BYTES_MAX, Frame, Serialization, Split, split};
pub use header::Head;
pub use language::Language;
pub use reader::FrameReader;
