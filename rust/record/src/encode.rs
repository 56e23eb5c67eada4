//! A message to the bytes of a record, in two steps.
//!
//! Before the append lock: [`Prepared::new`] checks every length, takes the CRC and lays out the
//! head. Under it: [`Prepared::stamp`] puts in what only the lock's holder knows, and
//! [`Prepared::write_to`] copies everything once, to its place. Knows no file, no lock, no clock.
//! Source: `MessageExtEncoder`, `CommitLog.DefaultAppendMessageCallback`.

use crate::crc::body_crc;
use crate::error::RecordError;
use crate::host::Host;
use crate::layout::{
    BLANK_LEN_BYTES, BODY_CRC_AT, HEAD_LEN_MAX, HEAD_LEN_MIN, HOST_V6_EXTRA_BYTES, MAGIC_BLANK,
    PHYSICAL_OFFSET_AT, PROPERTIES_LEN_BYTES, PROPERTIES_LEN_MAX, QUEUE_OFFSET_AT,
    RECORD_LEN_BEYOND_BODY, STORE_TIMESTAMP_AT, STORE_TIMESTAMP_AT_BORN_V6, TOPIC_LEN_MAX_V1,
    Version,
};
use crate::sys_flag::{self, BORN_HOST_V6, STORE_HOST_V6, Transaction};

/// A message that is to become a record.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// Topic: 1 to 127 bytes in version 1, to 32767 in version 2.
    pub topic: &'a str,
    /// Queue of the topic.
    pub queue_id: i32,
    /// Flag of the user, opaque.
    pub flag: i32,
    /// System flag; its two bits for IPv6 hosts are set by the encoder.
    pub sys_flag: i32,
    /// Time on the producer's clock.
    pub born_timestamp_ms: i64,
    /// Where the producer is.
    pub born_host: Host,
    /// The broker's address and listening port.
    pub store_host: Host,
    /// How often it was consumed before.
    pub reconsume_times: i32,
    /// Physical offset of the half message, for what ends a transaction.
    pub prepared_transaction_offset: i64,
    /// The body as it is to be stored.
    pub body: &'a [u8],
    /// The properties as text: see [`crate::properties::encode`].
    pub properties: &'a [u8],
    /// The version to write; `None`: version 1 unless the topic is longer than 127 bytes.
    pub version: Option<Version>,
}

impl<'a> Message<'a> {
    /// A message with nothing but a body, born and stored by `host` at time 0: for those who fill in the
    /// rest, or need no more.
    #[must_use]
    pub const fn of(topic: &'a str, queue_id: i32, body: &'a [u8], host: Host) -> Self {
        Self {
            topic,
            queue_id,
            flag: 0,
            sys_flag: 0,
            born_timestamp_ms: 0,
            born_host: host,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            properties: b"",
            version: None,
        }
    }
}

/// The configured limits of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest body (`maxMessageSize`); a record may have 65536 bytes more.
    pub body_len_max: usize,
}

/// A record ready to be written but for its offsets and its store time.
///
/// What comes late (CRC, offsets, store time) is kept beside the head and put into its place behind
/// the copy of the head: narrow writes into the array just before a wide copy out of it would each
/// stall the copy until they have reached the cache.
#[derive(Debug, Clone)]
pub struct Prepared<'a> {
    head: [u8; HEAD_LEN_MAX],
    head_len: usize,
    body_crc: u32,
    queue_offset: i64,
    physical_offset: i64,
    store_timestamp_ms: i64,
    store_timestamp_at: usize,
    total_len: usize,
    queue_id: i32,
    sys_flag: i32,
    version: Version,
    topic: &'a [u8],
    body: &'a [u8],
    properties: &'a [u8],
}

impl<'a> Prepared<'a> {
    /// Checks the message, takes the CRC of its body and lays out its head; offsets and store time
    /// are 0 until [`stamp`](Self::stamp).
    ///
    /// # Errors
    ///
    /// In this order, as the official broker refuses: [`RecordError::PropertiesTooLong`],
    /// [`RecordError::TopicEmpty`], [`RecordError::TopicTooLong`], [`RecordError::BodyTooLarge`],
    /// [`RecordError::RecordTooLarge`].
    // Inlined always: handed back through a call the value is moved once more, which was measured
    // to cost as much as the copy of a body of 1 KiB.
    #[inline(always)]
    pub fn new(message: &Message<'a>, limits: &Limits) -> Result<Self, RecordError> {
        let version = version_of(message);
        let total_len = checked_len(message, version, limits)?;
        let sys_flag = sys_flag_of(message);
        let mut put = Put {
            bytes: [0; HEAD_LEN_MAX],
            at: 0,
        };
        // No truncation: `checked_len` bounds it by `i32::MAX`.
        put.i32(total_len as i32);
        put.i32(version.magic());
        put.i32(0);
        put.i32(message.queue_id);
        put.i32(message.flag);
        put.i64(0);
        put.i64(0);
        put.i32(sys_flag);
        put.i64(message.born_timestamp_ms);
        put.host(&message.born_host);
        let store_timestamp_at = if message.born_host.is_v6() {
            STORE_TIMESTAMP_AT_BORN_V6
        } else {
            STORE_TIMESTAMP_AT
        };
        put.i64(0);
        put.host(&message.store_host);
        put.i32(message.reconsume_times);
        put.i64(message.prepared_transaction_offset);
        put.i32(message.body.len() as i32);
        Ok(Self {
            head: put.bytes,
            head_len: put.at,
            body_crc: body_crc(message.body),
            queue_offset: 0,
            physical_offset: 0,
            store_timestamp_ms: 0,
            store_timestamp_at,
            total_len,
            queue_id: message.queue_id,
            sys_flag,
            version,
            topic: message.topic.as_bytes(),
            body: message.body,
            properties: message.properties,
        })
    }

    /// Bytes of the whole record.
    #[inline]
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.total_len
    }

    /// Puts in what is known under the append lock. May be called again when the record moves to
    /// the next file. Prepared and rolled back messages are stamped with queue offset 0.
    #[inline]
    pub fn stamp(&mut self, queue_offset: i64, physical_offset: i64, store_timestamp_ms: i64) {
        self.queue_offset = queue_offset;
        self.physical_offset = physical_offset;
        self.store_timestamp_ms = store_timestamp_ms;
    }

    /// Writes the record; every byte of `out` is written once.
    ///
    /// # Panics
    ///
    /// When `out` is not exactly [`total_len`](Self::total_len) bytes long.
    #[inline]
    pub fn write_to(&self, out: &mut [u8]) {
        assert_eq!(
            out.len(),
            self.total_len,
            "the place of a record is as long as the record"
        );
        let (head, rest) = out.split_at_mut(self.head_len);
        if let Ok(head) = <&mut [u8; HEAD_LEN_MIN]>::try_from(&mut *head) {
            // Nearly every record has this head: with a known length no copy is a call.
            self.write_head(head);
        } else {
            self.write_head(head);
        }
        let rest = put_slice(rest, self.body);
        // No truncation: `checked_len` bounds both lengths.
        let rest = match self.version {
            Version::V1 => put_slice(rest, &[self.topic.len() as u8]),
            Version::V2 => put_slice(rest, &(self.topic.len() as u16).to_be_bytes()),
        };
        let rest = put_slice(rest, self.topic);
        let rest = put_slice(rest, &(self.properties.len() as u16).to_be_bytes());
        put_slice(rest, self.properties);
    }

    /// The topic's bytes.
    #[inline]
    #[must_use]
    pub fn topic(&self) -> &'a [u8] {
        self.topic
    }

    /// The queue.
    #[inline]
    #[must_use]
    pub fn queue_id(&self) -> i32 {
        self.queue_id
    }

    /// The system flag as it will be stored, with the bits of IPv6 hosts.
    #[inline]
    #[must_use]
    pub fn sys_flag(&self) -> i32 {
        self.sys_flag
    }

    /// The state in a transaction: decides whether a queue offset is taken.
    #[inline]
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        sys_flag::transaction(self.sys_flag)
    }

    /// The properties text.
    #[inline]
    #[must_use]
    pub fn properties(&self) -> &'a [u8] {
        self.properties
    }

    #[inline(always)]
    fn write_head(&self, head: &mut [u8]) {
        head.copy_from_slice(&self.head[..head.len()]);
        put_slice(&mut head[BODY_CRC_AT..], &self.body_crc.to_be_bytes());
        put_slice(
            &mut head[QUEUE_OFFSET_AT..],
            &self.queue_offset.to_be_bytes(),
        );
        put_slice(
            &mut head[PHYSICAL_OFFSET_AT..],
            &self.physical_offset.to_be_bytes(),
        );
        put_slice(
            &mut head[self.store_timestamp_at..],
            &self.store_timestamp_ms.to_be_bytes(),
        );
    }
}

/// Writes the marker that ends a file into the first 8 bytes of `out`; what follows it is not
/// touched (the format leaves it undefined). `blank_len_bytes` counts from the marker to the end of
/// the file.
///
/// # Panics
///
/// When `out` has less than 8 bytes: the roll-over rule leaves that many in every file.
#[inline]
pub fn write_blank(out: &mut [u8], blank_len_bytes: i32) {
    let rest = put_slice(&mut out[..BLANK_LEN_BYTES], &blank_len_bytes.to_be_bytes());
    put_slice(rest, &MAGIC_BLANK.to_be_bytes());
}

#[inline]
fn version_of(message: &Message<'_>) -> Version {
    match message.version {
        Some(version) => version,
        None if message.topic.len() > TOPIC_LEN_MAX_V1 => Version::V2,
        None => Version::V1,
    }
}

#[inline]
fn sys_flag_of(message: &Message<'_>) -> i32 {
    let born = if message.born_host.is_v6() {
        BORN_HOST_V6
    } else {
        0
    };
    let store = if message.store_host.is_v6() {
        STORE_HOST_V6
    } else {
        0
    };
    message.sys_flag & !(BORN_HOST_V6 | STORE_HOST_V6) | born | store
}

/// Length of the record, when everything in it is within its limit.
#[inline]
fn checked_len(
    message: &Message<'_>,
    version: Version,
    limits: &Limits,
) -> Result<usize, RecordError> {
    let (topic_len, body_len) = (message.topic.len(), message.body.len());
    let properties_len = message.properties.len();
    if properties_len > PROPERTIES_LEN_MAX {
        return Err(RecordError::PropertiesTooLong {
            len: properties_len,
        });
    }
    if topic_len == 0 {
        return Err(RecordError::TopicEmpty);
    }
    if topic_len > version.topic_len_max() {
        return Err(RecordError::TopicTooLong {
            len: topic_len,
            max: version.topic_len_max(),
        });
    }
    if body_len > limits.body_len_max {
        return Err(RecordError::BodyTooLarge {
            len: body_len,
            max: limits.body_len_max,
        });
    }
    let v6_hosts = usize::from(message.born_host.is_v6()) + usize::from(message.store_host.is_v6());
    // No overflow: a slice is at most `isize::MAX` bytes long, the rest some 64 KiB.
    let total_len = HEAD_LEN_MIN
        + v6_hosts * HOST_V6_EXTRA_BYTES
        + body_len
        + version.topic_len_bytes()
        + topic_len
        + PROPERTIES_LEN_BYTES
        + properties_len;
    let max = limits
        .body_len_max
        .saturating_add(RECORD_LEN_BEYOND_BODY)
        .min(i32::MAX as usize);
    if total_len > max {
        return Err(RecordError::RecordTooLarge {
            len: total_len,
            max,
        });
    }
    Ok(total_len)
}

/// The head while it is laid out.
struct Put {
    bytes: [u8; HEAD_LEN_MAX],
    at: usize,
}

impl Put {
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    #[inline(always)]
    fn i32(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline(always)]
    fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline(always)]
    fn host(&mut self, host: &Host) {
        match host {
            Host::V4 { address, .. } => self.bytes(address),
            Host::V6 { address, .. } => self.bytes(address),
        }
        self.i32(host.port());
    }
}

/// Copies `from` to the front of `to` and gives what follows.
#[inline(always)]
fn put_slice<'a>(to: &'a mut [u8], from: &[u8]) -> &'a mut [u8] {
    let (front, rest) = to.split_at_mut(from.len());
    front.copy_from_slice(from);
    rest
}
