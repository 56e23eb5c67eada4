//! Everything that can be wrong with bytes or with a message, as one enum.
//!
//! Not `non_exhaustive`: whoever maps errors must notice a new one. Knows no file; the position
//! that belongs to an error is known by whoever asked.

use std::fmt;

use thiserror::Error;

/// A field that carries a length or a text, for errors to name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// The length of the whole record, blank or batch item.
    Total,
    /// The body.
    Body,
    /// The topic.
    Topic,
    /// The properties.
    Properties,
    /// The fixed fields before the body.
    Head,
}

impl fmt::Display for Field {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Total => "total",
            Self::Body => "body",
            Self::Topic => "topic",
            Self::Properties => "properties",
            Self::Head => "head",
        })
    }
}

/// Why a property was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PropertyFault {
    /// The name is empty: a reader would drop the pair.
    EmptyName,
    /// The name holds a separator (0x01 or 0x02).
    SeparatorInName,
    /// The value holds a separator (0x01 or 0x02).
    SeparatorInValue,
}

impl fmt::Display for PropertyFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::EmptyName => "its name is empty",
            Self::SeparatorInName => "its name holds a separator (0x01 or 0x02)",
            Self::SeparatorInValue => "its value holds a separator (0x01 or 0x02)",
        })
    }
}

/// What is wrong with a record, a message, a batch body or an id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("record cut short: {need} bytes needed, {have} there")]
    Truncated {
        /// Bytes needed, as far as is known.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Neither a record nor a blank starts here (zeros, as after the end of a log, among them).
    #[error("no record here: magic {magic:#010x}")]
    BadMagic {
        /// The value where the magic should be.
        magic: i32,
    },
    /// The body is not the one that was stored.
    #[error("body CRC is {computed:#010x}, the record says {stored:#010x}")]
    CrcMismatch {
        /// The CRC in the record.
        stored: u32,
        /// The CRC of the body there.
        computed: u32,
    },
    /// The fields do not add up to the length the record claims.
    #[error("record claims {stored} bytes, its fields need {computed}")]
    LengthMismatch {
        /// The length in the record.
        stored: usize,
        /// The sum of its fields; a lower bound when they run past the claimed end.
        computed: usize,
    },
    /// A length is negative.
    #[error("length of the {field} is negative: {len}")]
    NegativeLength {
        /// Whose length.
        field: Field,
        /// The length.
        len: i64,
    },
    /// A blank marker claims fewer bytes than it has itself.
    #[error("blank claims {len} bytes, its marker alone has 8")]
    BlankTooShort {
        /// The claimed length.
        len: usize,
    },
    /// The body is longer than the configured maximum.
    #[error("body of {len} bytes is longer than the maximum of {max}")]
    BodyTooLarge {
        /// Its length.
        len: usize,
        /// The maximum.
        max: usize,
    },
    /// The properties are longer than their 16-bit length can hold.
    #[error("properties of {len} bytes are longer than the maximum of 32767")]
    PropertiesTooLong {
        /// Their length.
        len: usize,
    },
    /// The topic is longer than the length field of the record's version can hold.
    #[error("topic of {len} bytes is longer than the maximum of {max} of this record version")]
    TopicTooLong {
        /// Its length.
        len: usize,
        /// The maximum.
        max: usize,
    },
    /// The message has no topic.
    #[error("topic is empty")]
    TopicEmpty,
    /// The topic has a character that no topic may have: it is the name of a directory.
    #[error("topic has the byte {byte:#04x} at {at}: allowed are % - _ | 0-9 A-Z a-z")]
    TopicIllegal {
        /// Where.
        at: usize,
        /// The byte.
        byte: u8,
    },
    /// A property that could not be read back.
    #[error("property {name:?} refused: {fault}")]
    IllegalProperty {
        /// Its name.
        name: String,
        /// Why.
        fault: PropertyFault,
    },
    /// The whole record is longer than the configured maximum.
    #[error("record of {len} bytes is longer than the maximum of {max}")]
    RecordTooLarge {
        /// Its length.
        len: usize,
        /// The maximum.
        max: usize,
    },
    /// A batch body does not consist of whole items.
    #[error("batch item at byte {position}: {field} of {len} bytes does not fit ({have} left)")]
    BadBatch {
        /// Where the bad item starts in the batch body, in bytes.
        position: usize,
        /// The field that does not fit.
        field: Field,
        /// The length it needs; negative as read.
        len: i64,
        /// Bytes left for it.
        have: usize,
    },
    /// The record should carry a CRC property and does not.
    #[error("record has no readable __CRC32# property")]
    CrcPropertyMissing,
    /// The text is no offset id.
    #[error("not an offset id (32 or 56 hex digits): {text:?}")]
    BadOffsetId {
        /// The text, cut to its first 64 characters.
        text: String,
    },
}

impl RecordError {
    /// The length the faulty record claims, where a walk may go on behind it: Java returns it as
    /// the size of the failed check only when the fields do not add up
    /// (`CommitLog.checkMessageAndReturnSize`). Never 0.
    #[must_use]
    pub fn claimed_len(&self) -> Option<usize> {
        match self {
            Self::LengthMismatch { stored, .. } if *stored > 0 => Some(*stored),
            _ => None,
        }
    }
}
