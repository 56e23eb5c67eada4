//! Where every field of a commit log record lies.
//!
//! For the encoder, the decoder and whoever patches a record in place; holds no algorithm and knows
//! no file. Source: `MessageExtEncoder`, `CommitLog`, `MessageDecoder` (RocketMQ 4.9 and 5.3); the
//! bytes of real records are in `tests/golden/vectors`.
//!
//! All numbers are big endian and signed. Positions hold for an IPv4 born host; an IPv6 born host
//! moves everything behind it by 12 bytes, an IPv6 store host everything behind that by another 12.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 4 | total length of the record, this field included |
//! | 4 | 4 | magic: version of the record |
//! | 8 | 4 | CRC of the body as stored |
//! | 12 | 4 | queue id |
//! | 16 | 4 | flag of the user |
//! | 20 | 8 | queue offset (messages) |
//! | 28 | 8 | physical offset (bytes in the log) of this record |
//! | 36 | 4 | system flag |
//! | 40 | 8 | born timestamp, ms |
//! | 48 | 8 or 20 | born host: address, port as i32 |
//! | 56 | 8 | store timestamp, ms |
//! | 64 | 8 or 20 | store host |
//! | 72 | 4 | reconsume times |
//! | 76 | 8 | prepared transaction offset |
//! | 84 | 4 | body length |
//! | 88 | n | body |
//! | 88+n | 1 (V1) or 2 (V2) | topic length |
//! | .. | t | topic |
//! | .. | 2 | properties length |
//! | .. | p | properties |

/// Magic of a version 1 record (`MESSAGE_MAGIC_CODE`): the topic's length is one byte.
pub const MAGIC_V1: i32 = 0xDAA3_20A7_u32 as i32;
/// Magic of a version 2 record (`MESSAGE_MAGIC_CODE_V2`, 5.x): the topic's length is two bytes.
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32 as i32;
/// Magic of the marker that ends a file (`BLANK_MAGIC_CODE`).
pub const MAGIC_BLANK: i32 = 0xCBD4_3194_u32 as i32;

/// Bytes of the marker that ends a file: the length of the blank, then its magic.
pub const BLANK_LEN_BYTES: usize = 8;

/// Bytes of an IPv4 host: address and port.
pub const HOST_V4_LEN_BYTES: usize = 4 + 4;
/// Bytes of an IPv6 host: address and port.
pub const HOST_V6_LEN_BYTES: usize = 16 + 4;
/// How much longer an IPv6 host is than an IPv4 one.
pub const HOST_V6_EXTRA_BYTES: usize = HOST_V6_LEN_BYTES - HOST_V4_LEN_BYTES;

/// Position of the total length.
pub const TOTAL_LEN_AT: usize = 0;
/// Position of the magic.
pub const MAGIC_AT: usize = TOTAL_LEN_AT + 4;
/// Position of the body's CRC.
pub const BODY_CRC_AT: usize = MAGIC_AT + 4;
/// Position of the queue id.
pub const QUEUE_ID_AT: usize = BODY_CRC_AT + 4;
/// Position of the user's flag.
pub const FLAG_AT: usize = QUEUE_ID_AT + 4;
/// Position of the queue offset.
pub const QUEUE_OFFSET_AT: usize = FLAG_AT + 4;
/// Position of the physical offset.
pub const PHYSICAL_OFFSET_AT: usize = QUEUE_OFFSET_AT + 8;
/// Position of the system flag.
pub const SYS_FLAG_AT: usize = PHYSICAL_OFFSET_AT + 8;
/// Position of the born timestamp.
pub const BORN_TIMESTAMP_AT: usize = SYS_FLAG_AT + 4;
/// Position of the born host.
pub const BORN_HOST_AT: usize = BORN_TIMESTAMP_AT + 8;
/// Position of the store timestamp after an IPv4 born host.
pub const STORE_TIMESTAMP_AT: usize = BORN_HOST_AT + HOST_V4_LEN_BYTES;
/// Position of the store timestamp after an IPv6 born host.
pub const STORE_TIMESTAMP_AT_BORN_V6: usize = BORN_HOST_AT + HOST_V6_LEN_BYTES;
/// Position of the store host after an IPv4 born host.
pub const STORE_HOST_AT: usize = STORE_TIMESTAMP_AT + 8;
/// Position of the reconsume times with IPv4 hosts.
pub const RECONSUME_TIMES_AT: usize = STORE_HOST_AT + HOST_V4_LEN_BYTES;
/// Position of the prepared transaction offset with IPv4 hosts.
pub const PREPARED_TRANSACTION_OFFSET_AT: usize = RECONSUME_TIMES_AT + 4;
/// Position of the body's length with IPv4 hosts.
pub const BODY_LEN_AT: usize = PREPARED_TRANSACTION_OFFSET_AT + 8;
/// Position of the body with IPv4 hosts: the length of the shortest head.
pub const HEAD_LEN_MIN: usize = BODY_LEN_AT + 4;
/// Length of the longest head (everything before the body): both hosts IPv6.
pub const HEAD_LEN_MAX: usize = HEAD_LEN_MIN + 2 * HOST_V6_EXTRA_BYTES;

/// Bytes of the properties' length.
pub const PROPERTIES_LEN_BYTES: usize = 2;
/// The shortest record: version 1, IPv4 hosts, no body, no topic, no properties.
pub const RECORD_LEN_MIN: usize = HEAD_LEN_MIN + 1 + PROPERTIES_LEN_BYTES;

/// Longest topic of a version 1 record: its length is read back as a signed byte.
pub const TOPIC_LEN_MAX_V1: usize = i8::MAX as usize;
/// Longest topic of a version 2 record: its length is read back as a signed 16-bit number.
pub const TOPIC_LEN_MAX_V2: usize = i16::MAX as usize;
/// Longest properties text: its length is read back as a signed 16-bit number.
pub const PROPERTIES_LEN_MAX: usize = i16::MAX as usize;
/// What a record may have beside the longest body (`MessageExtEncoder`: 64 KiB for the rest).
pub const RECORD_LEN_BEYOND_BODY: usize = 65_536;

const _: () = assert!(QUEUE_OFFSET_AT == 20);
const _: () = assert!(PHYSICAL_OFFSET_AT == 28);
const _: () = assert!(SYS_FLAG_AT == 36);
const _: () = assert!(BORN_HOST_AT == 48);
const _: () = assert!(STORE_TIMESTAMP_AT == 56);
const _: () = assert!(STORE_TIMESTAMP_AT_BORN_V6 == 68);
const _: () = assert!(BODY_LEN_AT == 84);
const _: () = assert!(HEAD_LEN_MIN == 88);
const _: () = assert!(HEAD_LEN_MAX == 112);
const _: () = assert!(RECORD_LEN_MIN == 91);
const _: () = assert!(MAGIC_V1 == -626_843_481);
const _: () = assert!(MAGIC_V2 == -626_843_477);
const _: () = assert!(MAGIC_BLANK == -875_286_124);

/// The version of a record (`MessageVersion`): they differ in the width of the topic's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// One byte of topic length. Read by every release.
    V1,
    /// Two bytes of topic length. Read from 5.x on; an older broker ends its recovery there.
    V2,
}

impl Version {
    /// The magic of a record of this version.
    #[inline]
    #[must_use]
    pub const fn magic(self) -> i32 {
        match self {
            Self::V1 => MAGIC_V1,
            Self::V2 => MAGIC_V2,
        }
    }

    /// The version that a magic represents; `None` for the blank marker and everything unknown.
    #[inline]
    #[must_use]
    pub const fn of_magic(magic: i32) -> Option<Self> {
        match magic {
            MAGIC_V1 => Some(Self::V1),
            MAGIC_V2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Bytes of the topic's length.
    #[inline]
    #[must_use]
    pub const fn topic_len_bytes(self) -> usize {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The longest topic this version can hold.
    #[inline]
    #[must_use]
    pub const fn topic_len_max(self) -> usize {
        match self {
            Self::V1 => TOPIC_LEN_MAX_V1,
            Self::V2 => TOPIC_LEN_MAX_V2,
        }
    }
}
