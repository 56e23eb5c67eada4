//! A command: the content of a frame, owned or borrowed from the frame, and writing either way.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::error::{Part, WireError};
use crate::fields::Fields;
use crate::frame::{
    FRAME_BYTES_MAX, Frame, HEAD_BYTES, HEADER_BYTES_MAX, LEN_BYTES, Serialization,
};
use crate::header::{Head, ONEWAY, RESPONSE};
use crate::language::Language;
use crate::{binary, json};

/// The version that we send where no other is set: `V4_9_8`.
pub const VERSION_DEFAULT: i32 = 409;

/// A command, borrowed from its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRef<'a> {
    /// Request or response code.
    pub code: i32,
    /// The language the peer is written in.
    pub language: Language,
    /// The peer's version, as an ordinal.
    pub version: i32,
    /// Names the request among those of its connection; copied into the response.
    pub opaque: i32,
    /// [`RESPONSE`] and [`ONEWAY`].
    pub flag: i32,
    /// Text about an error.
    pub remark: Option<Cow<'a, str>>,
    /// The fields of the header.
    pub fields: Fields<'a>,
    /// The body.
    pub body: &'a [u8],
    /// How the header was written.
    pub serialization: Serialization,
}

impl<'a> CommandRef<'a> {
    /// Reads the header of a frame.
    ///
    /// # Errors
    /// The header is not what its serialization promises.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, WireError> {
        let header = match frame.serialization {
            Serialization::Json => json::decode(frame.header)?,
            Serialization::Binary => binary::decode(frame.header)?,
        };
        Ok(Self {
            code: header.code,
            language: header.language,
            version: header.version,
            opaque: header.opaque,
            flag: header.flag,
            remark: header.remark,
            fields: header.fields,
            body: frame.body,
            serialization: frame.serialization,
        })
    }

    /// Whether it answers a request.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        self.flag & RESPONSE != 0
    }

    /// Whether it may not be answered.
    #[must_use]
    pub const fn is_oneway(&self) -> bool {
        self.flag & ONEWAY != 0
    }

    /// The head of a response to it, in the serialization of the request.
    #[must_use]
    pub const fn response_head(&self, code: i32, version: i32) -> Head<'static> {
        Head {
            code,
            language: Language::JAVA,
            version,
            opaque: self.opaque,
            flag: RESPONSE,
            remark: None,
            serialization: self.serialization,
        }
    }

    /// A copy that outlives the frame.
    #[must_use]
    pub fn to_owned(&self) -> Command {
        let fields = self.fields.iter();
        Command {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self
                .remark
                .as_ref()
                .map(|remark| remark.clone().into_owned()),
            ext: fields
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: self.body.to_vec(),
            serialization: self.serialization,
        }
    }
}

/// A command of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// Request or response code.
    pub code: i32,
    /// The language the sender is written in.
    pub language: Language,
    /// The sender's version, as an ordinal.
    pub version: i32,
    /// Names the request among those of its connection.
    pub opaque: i32,
    /// [`RESPONSE`] and [`ONEWAY`].
    pub flag: i32,
    /// Text about an error.
    pub remark: Option<String>,
    /// The fields of the header.
    pub ext: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// How the header is written.
    pub serialization: Serialization,
}

impl Command {
    /// What the header holds besides the fields.
    #[must_use]
    pub fn head(&self) -> Head<'_> {
        Head {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref(),
            serialization: self.serialization,
        }
    }

    /// The frame.
    ///
    /// # Errors
    /// A part is too long for its place.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let ext = self.ext.iter();
        encode(
            &self.head(),
            ext.map(|(name, value)| (name.as_str(), value.as_str())),
            &self.body,
        )
    }
}

/// The frame of a command.
///
/// # Errors
/// A part is too long for its place.
pub fn encode<'f>(
    head: &Head<'_>,
    fields: impl IntoIterator<Item = (&'f str, &'f str)>,
    body: &[u8],
) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::with_capacity(256 + body.len());
    let mut writer = FrameWriter::begin(&mut out, head)?;
    for (name, value) in fields {
        writer.text(name, value)?;
    }
    writer.finish(body)?;
    Ok(out)
}

/// Writes one frame at the end of a buffer: the head, then field by field, then the body.
///
/// Dropped before it is finished, or after an error, it takes back what it wrote.
#[derive(Debug)]
pub struct FrameWriter<'o, 'h> {
    out: &'o mut Vec<u8>,
    head: Head<'h>,
    /// Where the frame begins.
    frame_start: usize,
    /// Where the fields of a binary header begin.
    fields_start: usize,
    has_fields: bool,
    is_finished: bool,
}

impl<'o, 'h> FrameWriter<'o, 'h> {
    /// Begins a frame.
    ///
    /// # Errors
    /// A part is too long for its place.
    pub fn begin(out: &'o mut Vec<u8>, head: &Head<'h>) -> Result<Self, WireError> {
        let frame_start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        let mut writer = Self {
            out,
            head: *head,
            frame_start,
            fields_start: 0,
            has_fields: false,
            is_finished: false,
        };
        match head.serialization {
            Serialization::Json => json::begin(writer.out, head.code),
            Serialization::Binary => {
                writer.fields_start = binary::begin(writer.out, head)?;
            }
        }
        Ok(writer)
    }

    /// Writes a field that is a text.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    #[inline]
    pub fn text(&mut self, name: &str, value: &str) -> Result<(), WireError> {
        match self.head.serialization {
            Serialization::Json => {
                json::field(self.out, !self.has_fields, name, value);
                self.has_fields = true;
                Ok(())
            }
            Serialization::Binary => binary::field(self.out, name, value),
        }
    }

    /// Writes a field that is a number.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    #[inline]
    pub fn number(&mut self, name: &str, value: i64) -> Result<(), WireError> {
        let mut digits = json::Digits::default();
        self.text(name, digits.of(value))
    }

    /// Ends the frame with its body.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn finish(mut self, body: &[u8]) -> Result<(), WireError> {
        self.seal(body.len())?;
        self.out.extend_from_slice(body);
        Ok(())
    }

    /// Ends the header of a frame whose body of `body_len` bytes is sent behind it by itself.
    ///
    /// # Errors
    /// [`WireError::TooLong`].
    pub fn finish_before_body(mut self, body_len: usize) -> Result<(), WireError> {
        self.seal(body_len)
    }

    fn seal(&mut self, body_len: usize) -> Result<(), WireError> {
        match self.head.serialization {
            Serialization::Json => json::end(self.out, self.has_fields, &self.head),
            Serialization::Binary => binary::end(self.out, self.fields_start)?,
        }
        let header_len = self.out.len() - self.frame_start - HEAD_BYTES;
        if header_len > HEADER_BYTES_MAX {
            return Err(WireError::TooLong {
                part: Part::Header,
                len: header_len,
                max: HEADER_BYTES_MAX,
            });
        }
        let body_max = FRAME_BYTES_MAX.saturating_sub(HEAD_BYTES + header_len);
        if body_len > body_max {
            return Err(WireError::TooLong {
                part: Part::Body,
                len: body_len,
                max: body_max,
            });
        }
        let after_len = (HEAD_BYTES - LEN_BYTES + header_len + body_len) as u32;
        let mark = u32::from(self.head.serialization.number()) << 24 | header_len as u32;
        let head = self.frame_start..self.frame_start + HEAD_BYTES;
        if let Some(field) = self.out.get_mut(head) {
            let (len_field, mark_field) = field.split_at_mut(LEN_BYTES);
            len_field.copy_from_slice(&after_len.to_be_bytes());
            mark_field.copy_from_slice(&mark.to_be_bytes());
        }
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for FrameWriter<'_, '_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.out.truncate(self.frame_start);
        }
    }
}
