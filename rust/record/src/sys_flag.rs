//! The bits of a record's system flag (`MessageSysFlag`, `CompressionType`).
//!
//! Only their meaning; who may set which bit is the business of whoever builds a message.

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// The TAGS property holds several tags. Has no influence on the tags code.
pub const MULTI_TAGS: i32 = 0x2;
/// The two bits of the transaction's state: a value, not two flags.
pub const TRANSACTION_MASK: i32 = 0xC;
/// Transaction state: prepared.
pub const PREPARED: i32 = 0x4;
/// Transaction state: committed.
pub const COMMIT: i32 = 0x8;
/// Transaction state: rolled back.
pub const ROLLBACK: i32 = 0xC;
/// The born host is stored in its IPv6 form.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is stored in its IPv6 form.
pub const STORE_HOST_V6: i32 = 0x20;
/// The body is a batch that a reader has to unwrap.
pub const NEED_UNWRAP: i32 = 0x40;
/// The record is an inner batch: one record, many messages.
pub const INNER_BATCH: i32 = 0x80;
/// The three bits of the compression's type.
pub const COMPRESSION_TYPE_MASK: i32 = 0x700;
/// Compression type: LZ4.
pub const COMPRESSION_LZ4: i32 = 0x100;
/// Compression type: ZSTD.
pub const COMPRESSION_ZSTD: i32 = 0x200;
/// Compression type: ZLIB.
pub const COMPRESSION_ZLIB: i32 = 0x300;

/// The state of a record in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transaction {
    /// No transaction.
    None,
    /// Prepared: in no queue until committed.
    Prepared,
    /// The committed message.
    Commit,
    /// Rolled back.
    Rollback,
}

impl Transaction {
    /// Whether a record of this state takes a queue offset and enters its queue.
    #[inline]
    #[must_use]
    pub const fn has_queue_offset(self) -> bool {
        matches!(self, Self::None | Self::Commit)
    }
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// LZ4 frame.
    Lz4,
    /// Zstandard.
    Zstd,
    /// zlib; also what the clients before 5.x mean when they leave the type out.
    Zlib,
    /// Compressed by a type no known release has: its number, 4 to 7.
    Unknown(u8),
}

/// The transaction state in a system flag.
#[inline]
#[must_use]
pub const fn transaction(sys_flag: i32) -> Transaction {
    match sys_flag & TRANSACTION_MASK {
        PREPARED => Transaction::Prepared,
        COMMIT => Transaction::Commit,
        ROLLBACK => Transaction::Rollback,
        _ => Transaction::None,
    }
}

/// How the body is compressed; `None` when it is not. The type bits alone mean nothing: 5.x keeps
/// them when it inflates a body.
#[inline]
#[must_use]
pub const fn compression(sys_flag: i32) -> Option<Compression> {
    if sys_flag & COMPRESSED == 0 {
        return None;
    }
    Some(match sys_flag & COMPRESSION_TYPE_MASK {
        COMPRESSION_LZ4 => Compression::Lz4,
        COMPRESSION_ZSTD => Compression::Zstd,
        0 | COMPRESSION_ZLIB => Compression::Zlib,
        other => Compression::Unknown((other >> 8) as u8),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transaction_state_is_a_two_bit_value() {
        assert_eq!(transaction(0), Transaction::None);
        assert_eq!(transaction(PREPARED | COMPRESSED), Transaction::Prepared);
        assert_eq!(transaction(COMMIT | BORN_HOST_V6), Transaction::Commit);
        assert_eq!(transaction(-1), Transaction::Rollback);
        assert!(transaction(COMMIT).has_queue_offset());
        assert!(!transaction(ROLLBACK).has_queue_offset());
    }

    #[test]
    fn a_missing_compression_type_means_zlib() {
        assert_eq!(compression(COMPRESSED), Some(Compression::Zlib));
        assert_eq!(compression(0x301), Some(Compression::Zlib));
        assert_eq!(compression(0x201), Some(Compression::Zstd));
        assert_eq!(compression(0x101), Some(Compression::Lz4));
        assert_eq!(compression(0x501), Some(Compression::Unknown(5)));
        assert_eq!(compression(0x300), None);
    }
}
