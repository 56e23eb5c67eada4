//! The bytes of the commit log to records: total, without panic and without allocation.
//!
//! The rules are those of `CommitLog.checkMessageAndReturnSize` (5.3), made stricter where Java
//! would go on with a negative length or read past the record it is in. Whether a record is at the
//! physical offset that it holds is for its reader to check: the official check does not either.
#![deny(clippy::indexing_slicing)]

use std::borrow::Cow;

use crate::crc::body_crc;
use crate::error::{Field, RecordError};
use crate::host::Host;
use crate::id;
use crate::layout::{
    BLANK_LEN_BYTES, BODY_LEN_AT, HOST_V6_EXTRA_BYTES, MAGIC_BLANK, RECORD_LEN_MIN,
    STORE_TIMESTAMP_AT, STORE_TIMESTAMP_AT_BORN_V6, SYS_FLAG_AT, Version,
};
use crate::properties;
use crate::sys_flag::{self, BORN_HOST_V6, STORE_HOST_V6, Transaction};
use crate::take::Take;

/// Whether the body's CRC is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcCheck {
    /// Compare it (an empty body has none to compare).
    Verify,
    /// Do not touch the body.
    Skip,
}

/// A record as it lies in the bytes it was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Bytes of the whole record.
    pub total_len_bytes: usize,
    /// Version.
    pub version: Version,
    /// CRC of the body, as stored.
    pub body_crc: u32,
    /// Queue of the topic.
    pub queue_id: i32,
    /// Flag of the user.
    pub flag: i32,
    /// Place in the queue, in messages.
    pub queue_offset: i64,
    /// Place in the log, in bytes, as stored.
    pub physical_offset: i64,
    /// System flag: see [`crate::sys_flag`].
    pub sys_flag: i32,
    /// Time on the producer's clock.
    pub born_timestamp_ms: i64,
    /// Where the producer was.
    pub born_host: Host,
    /// Time on the broker's clock.
    pub store_timestamp_ms: i64,
    /// The broker's address and listening port.
    pub store_host: Host,
    /// How often it was consumed before.
    pub reconsume_times: i32,
    /// Physical offset of the half message, for what ended a transaction.
    pub prepared_transaction_offset: i64,
    /// The body as stored.
    pub body: &'a [u8],
    /// The topic; not necessarily UTF-8.
    pub topic: &'a [u8],
    /// The properties as text: see [`crate::properties`].
    pub properties: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// The topic as text; what is no UTF-8 is replaced.
    #[must_use]
    pub fn topic_str(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.topic)
    }

    /// The state in a transaction.
    #[inline]
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        sys_flag::transaction(self.sys_flag)
    }

    /// The TAGS property.
    #[inline]
    #[must_use]
    pub fn tags(&self) -> Option<&'a [u8]> {
        properties::lookup(self.properties, properties::TAGS)
    }

    /// The id that names this record's place: store host and physical offset.
    #[must_use]
    pub fn offset_id(&self) -> String {
        id::offset_id(&self.store_host, self.physical_offset)
    }
}

/// What is at a physical offset of the log.
// The record is the rule and the blank the exception: a box would cost every record an allocation.
#[allow(
    clippy::large_enum_variant,
    reason = "boxing the common case would allocate per record"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// A record.
    Record(RecordView<'a>),
    /// The end of a file: nothing more in it.
    Blank {
        /// Bytes from the marker to the end of the file.
        len_bytes: usize,
    },
}

/// Reads and checks the record at the start of `bytes`; `bytes` may go on behind it.
///
/// # Errors
///
/// [`RecordError::BadMagic`] where neither a record nor a blank starts;
/// [`RecordError::Truncated`] when `bytes` end before it does; [`RecordError::NegativeLength`];
/// [`RecordError::BlankTooShort`]; [`RecordError::CrcMismatch`] when asked to verify;
/// [`RecordError::LengthMismatch`] when the fields do not add up to the claimed length.
#[inline]
pub fn check(bytes: &[u8], crc: CrcCheck) -> Result<Found<'_>, RecordError> {
    let Some((total_len, magic)) = start(bytes) else {
        return Err(RecordError::Truncated {
            need: BLANK_LEN_BYTES,
            have: bytes.len(),
        });
    };
    let Some(version) = Version::of_magic(magic) else {
        return blank(bytes, total_len, magic);
    };
    let total_len_bytes = claimed(bytes, total_len)?;
    let record = bytes.get(..total_len_bytes).unwrap_or_default();
    // The fields run past the claimed end: how far is not known, only how far at least.
    let fields = read(record, version, crc)?;
    fields
        .map(Found::Record)
        .ok_or(RecordError::LengthMismatch {
            stored: total_len_bytes,
            computed: least_len(record),
        })
}

/// Reads the record at the start of `bytes` without touching its body: [`check`] without the CRC.
///
/// # Errors
///
/// As [`check`], but for the CRC.
#[inline]
pub fn head(bytes: &[u8]) -> Result<Found<'_>, RecordError> {
    check(bytes, CrcCheck::Skip)
}

/// The length a record at the start of `bytes` claims; `None` when no record starts there. The
/// record is not looked at further, and `bytes` may end before it does.
#[inline]
#[must_use]
pub fn peek_total_len(bytes: &[u8]) -> Option<usize> {
    let (total_len, magic) = start(bytes)?;
    let total_len = usize::try_from(total_len).ok()?;
    Version::of_magic(magic)?;
    (total_len >= RECORD_LEN_MIN).then_some(total_len)
}

/// The store time of a record at the start of `bytes`; `None` when no record starts there. What
/// recovery after a crash asks the first record of each file
/// (`CommitLog.isMappedFileMatchedRecover`).
#[inline]
#[must_use]
pub fn peek_store_timestamp_ms(bytes: &[u8]) -> Option<i64> {
    peek_total_len(bytes)?;
    let sys_flag = Take(bytes.get(SYS_FLAG_AT..)?).i32()?;
    let at = if sys_flag & BORN_HOST_V6 == 0 {
        STORE_TIMESTAMP_AT
    } else {
        STORE_TIMESTAMP_AT_BORN_V6
    };
    Take(bytes.get(at..)?).i64()
}

/// Total length and magic.
#[inline(always)]
fn start(bytes: &[u8]) -> Option<(i32, i32)> {
    let mut take = Take(bytes);
    Some((take.i32()?, take.i32()?))
}

#[cold]
fn blank(bytes: &[u8], len: i32, magic: i32) -> Result<Found<'_>, RecordError> {
    if magic != MAGIC_BLANK {
        return Err(RecordError::BadMagic { magic });
    }
    let len_bytes = claimed(bytes, len)?;
    if len_bytes < BLANK_LEN_BYTES {
        return Err(RecordError::BlankTooShort { len: len_bytes });
    }
    Ok(Found::Blank { len_bytes })
}

/// A claimed total length that is not negative and that `bytes` can hold.
#[inline(always)]
fn claimed(bytes: &[u8], len: i32) -> Result<usize, RecordError> {
    let len = length(Field::Total, len)?;
    if len > bytes.len() {
        return Err(RecordError::Truncated {
            need: len,
            have: bytes.len(),
        });
    }
    Ok(len)
}

#[inline(always)]
fn length(field: Field, len: impl Into<i64>) -> Result<usize, RecordError> {
    let len = len.into();
    usize::try_from(len).map_err(|_| RecordError::NegativeLength { field, len })
}

/// The fields of a record that ends where `record` ends; `Ok(None)` when they run past it.
#[inline(always)]
fn read(
    record: &[u8],
    version: Version,
    crc: CrcCheck,
) -> Result<Option<RecordView<'_>>, RecordError> {
    let mut take = Take(record);
    let Some((mut view, body_len)) = read_head(&mut take, version) else {
        return Ok(None);
    };
    view.total_len_bytes = record.len();
    let Some(body) = take.bytes(length(Field::Body, body_len)?) else {
        return Ok(None);
    };
    view.body = body;
    if crc == CrcCheck::Verify && !body.is_empty() {
        let computed = body_crc(body);
        if computed != view.body_crc {
            return Err(RecordError::CrcMismatch {
                stored: view.body_crc,
                computed,
            });
        }
    }
    let topic_len = match version {
        Version::V1 => take.i8().map(i16::from),
        Version::V2 => take.i16(),
    };
    let Some(topic_len) = topic_len else {
        return Ok(None);
    };
    let Some(topic) = take.bytes(length(Field::Topic, topic_len)?) else {
        return Ok(None);
    };
    view.topic = topic;
    let Some(properties_len) = take.i16() else {
        return Ok(None);
    };
    let Some(properties) = take.bytes(length(Field::Properties, properties_len)?) else {
        return Ok(None);
    };
    view.properties = properties;
    if !take.0.is_empty() {
        return Err(RecordError::LengthMismatch {
            stored: record.len(),
            computed: record.len() - take.0.len(),
        });
    }
    Ok(Some(view))
}

/// Everything before the body, and the body's length.
#[inline(always)]
fn read_head<'a>(take: &mut Take<'a>, version: Version) -> Option<(RecordView<'a>, i32)> {
    take.array::<8>()?; // total length and magic: read already
    let body_crc = take.i32()? as u32;
    let queue_id = take.i32()?;
    let flag = take.i32()?;
    let queue_offset = take.i64()?;
    let physical_offset = take.i64()?;
    let sys_flag = take.i32()?;
    let born_timestamp_ms = take.i64()?;
    let born_host = read_host(take, sys_flag & BORN_HOST_V6 != 0)?;
    let store_timestamp_ms = take.i64()?;
    let store_host = read_host(take, sys_flag & STORE_HOST_V6 != 0)?;
    let reconsume_times = take.i32()?;
    let prepared_transaction_offset = take.i64()?;
    let body_len = take.i32()?;
    let view = RecordView {
        total_len_bytes: 0,
        version,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp_ms,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body: &[],
        topic: &[],
        properties: &[],
    };
    Some((view, body_len))
}

#[inline(always)]
fn read_host(take: &mut Take<'_>, is_v6: bool) -> Option<Host> {
    Some(if is_v6 {
        Host::V6 {
            address: take.array()?,
            port: take.i32()?,
        }
    } else {
        Host::V4 {
            address: take.array()?,
            port: take.i32()?,
        }
    })
}

/// What a record whose fields run past its end needs at least.
#[cold]
fn least_len(record: &[u8]) -> usize {
    let at = |at: usize| record.get(at..).and_then(|bytes| Take(bytes).i32());
    let sys_flag = at(SYS_FLAG_AT).unwrap_or(0);
    let v6_hosts = [BORN_HOST_V6, STORE_HOST_V6]
        .into_iter()
        .filter(|bit| sys_flag & bit != 0);
    let moved = v6_hosts.count() * HOST_V6_EXTRA_BYTES;
    let body_len = at(BODY_LEN_AT + moved).and_then(|len| usize::try_from(len).ok());
    (RECORD_LEN_MIN + moved)
        .saturating_add(body_len.unwrap_or(0))
        .max(record.len() + 1)
}
