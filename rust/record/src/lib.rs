//! The message format of RocketMQ's commit log: pure functions of bytes.
//!
//! What a record, a property text, a batch body, a tag code and an offset id are, and nothing else:
//! no file, no clock, no lock, no thread. Everything that reads is total: any bytes give a value or
//! a typed [`RecordError`], never a panic, and never an allocation larger than its input.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | the byte table of a record, constants, [`Version`] |
//! | [`encode`] | [`Message`] to bytes in two steps: before the append lock and under it |
//! | [`decode`] | bytes to [`RecordView`], checked by the rules of recovery |
//! | [`bodiless`] | a record without its body |
//! | [`outline`] | where the parts of a record lie, without reading its body |
//! | [`properties`] | the text of names and values inside a record |
//! | [`batch`] | the body of a batch request |
//! | [`inner_batch`] | records that hold a batch to the records of its messages |
//! | [`inner_offsets`] | which queue offsets a record takes |
//! | [`crc_property`] | the checksum that 5.x may put into the properties |
//! | [`hash`], [`crc`], [`id`], [`host`], [`sys_flag`] | the small rules those are made of |

pub mod batch;
pub mod bodiless;
pub mod crc;
pub mod crc_property;
pub mod decode;
pub mod encode;
pub mod error;
pub mod hash;
pub mod host;
pub mod id;
pub mod inner_batch;
pub mod inner_offsets;
pub mod layout;
pub mod outline;
pub mod properties;
pub mod sys_flag;

mod take;

pub use bodiless::write_bodiless;
pub use crc::body_crc;
pub use decode::{
    CrcCheck, Found, RecordView, check, head, peek_store_timestamp_ms, peek_total_len,
};
pub use encode::{Limits, Message, Prepared, write_blank};
pub use error::{Field, RecordError};
pub use hash::{index_key_hash, index_tags_hash, java_hash, java_hash_bytes, tags_code};
pub use host::Host;
pub use id::{offset_id, parse_offset_id};
pub use layout::Version;
pub use outline::Outline;
pub use properties::{Wanted, scan_wanted};
pub use sys_flag::{Compression, Transaction};
