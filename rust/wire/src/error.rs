//! Everything that can be wrong with bytes of a peer, or with a command that is to be written, as one
//! enum. Not `non_exhaustive`: whoever maps errors must notice a new one.

use std::fmt;

use thiserror::Error;

/// A part of a header that carries a length or a text, for errors to name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The fixed numbers of a binary header.
    Fixed,
    /// The remark.
    Remark,
    /// The block of fields as a whole.
    Fields,
    /// The name of a field.
    FieldName,
    /// The value of a field.
    FieldValue,
    /// The header as a whole.
    Header,
    /// The body.
    Body,
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Fixed => "fixed numbers",
            Self::Remark => "remark",
            Self::Fields => "fields",
            Self::FieldName => "field name",
            Self::FieldValue => "field value",
            Self::Header => "header",
            Self::Body => "body",
        })
    }
}

/// What is wrong with a frame, a header, a field or a compressed body.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// The frame claims to be longer than frames may be.
    #[error("a frame of {len} bytes, {max} is the maximum")]
    FrameTooLarge {
        /// Length of the frame with its length word.
        len: u64,
        /// The maximum.
        max: usize,
    },
    /// The frame claims a negative length, or one too short for a header's length.
    #[error("a frame cannot have {len} bytes after its length")]
    FrameLength {
        /// The length word as read.
        len: i32,
    },
    /// The header claims to be longer than its frame.
    #[error("a header of {len} bytes in a frame that has {have} left")]
    HeaderLength {
        /// The header's length as read.
        len: usize,
        /// Bytes of the frame after the header's length.
        have: usize,
    },
    /// No known way of writing headers has this number.
    #[error("unknown serialization type {kind}")]
    UnknownSerialization {
        /// The type byte.
        kind: u8,
    },
    /// The JSON of a header is broken, or a member has an impossible type.
    #[error("bad JSON header: {why} at line {line}, column {column}")]
    BadJson {
        /// What is wrong.
        why: String,
        /// Line of the header, from 1.
        line: usize,
        /// Byte of the line, from 1.
        column: usize,
    },
    /// A part of a binary header does not fit into it.
    #[error("the {part} of a binary header needs {need} bytes, {have} are there")]
    BadBinary {
        /// The part.
        part: Part,
        /// Bytes it claims to need; negative as read.
        need: i64,
        /// Bytes left for it.
        have: usize,
    },
    /// A text is not UTF-8.
    #[error("the {part} is not UTF-8")]
    NotUtf8 {
        /// The part.
        part: Part,
    },
    /// A header has more fields than any request has.
    #[error("a header with more than {max} fields")]
    TooManyFields {
        /// The maximum.
        max: usize,
    },
    /// A part of a command is too long to be written.
    #[error("the {part} of a command has {len} bytes, {max} is the maximum")]
    TooLong {
        /// The part.
        part: Part,
        /// Its length.
        len: usize,
        /// The maximum.
        max: usize,
    },
    /// The code does not fit into a binary header.
    #[error("the code {code} cannot be written into a binary header")]
    CodeTooLarge {
        /// The code.
        code: i32,
    },
    /// The compression has no known type.
    #[error("no known compression has the type {kind}")]
    UnknownCompression {
        /// The type.
        kind: u8,
    },
    /// A body cannot be compressed or inflated.
    #[error("the body is no whole {kind} stream: {why}")]
    BadCompression {
        /// The compression.
        kind: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A body inflates beyond its bound.
    #[error("the body inflates to more than {max} bytes ({kind})")]
    InflatedTooLarge {
        /// The compression.
        kind: &'static str,
        /// The bound.
        max: usize,
    },
}
