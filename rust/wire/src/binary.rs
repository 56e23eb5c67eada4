//! Headers as fixed numbers and lengths (`RocketMQSerializable`).
//!
//! ```text
//! 2 code   1 language   2 version   4 opaque   4 flag
//! 4 length + remark            0: none
//! 4 length + fields            0: none; each: 2 length + name, 4 length + value
//! ```

use std::borrow::Cow;

use crate::error::{Part, WireError};
use crate::fields::Fields;
use crate::header::{Head, Header};
use crate::language::Language;

/// Takes numbers and texts off the front of a header.
struct Taker<'a> {
    rest: &'a [u8],
}

impl<'a> Taker<'a> {
    fn array<const N: usize>(&mut self, part: Part) -> Result<[u8; N], WireError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.short(part, N as i64));
        };
        self.rest = rest;
        Ok(*taken)
    }

    fn short(&self, part: Part, need: i64) -> WireError {
        WireError::BadBinary {
            part,
            need,
            have: self.rest.len(),
        }
    }

    fn number_i16(&mut self, part: Part) -> Result<i16, WireError> {
        self.array(part).map(i16::from_be_bytes)
    }

    fn number_i32(&mut self, part: Part) -> Result<i32, WireError> {
        self.array(part).map(i32::from_be_bytes)
    }

    fn bytes(&mut self, part: Part, len: i64) -> Result<&'a [u8], WireError> {
        let split = usize::try_from(len)
            .ok()
            .and_then(|len| self.rest.split_at_checked(len));
        let Some((taken, rest)) = split else {
            return Err(self.short(part, len));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn text(&mut self, part: Part, len: i64) -> Result<&'a str, WireError> {
        let bytes = self.bytes(part, len)?;
        std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8 { part })
    }
}

/// Reads a header. What follows the fields is left alone, as the original does.
pub(crate) fn decode(header: &[u8]) -> Result<Header<'_>, WireError> {
    let mut from = Taker { rest: header };
    let code = i32::from(from.number_i16(Part::Fixed)?);
    let [language] = from.array(Part::Fixed)?;
    let version = i32::from(from.number_i16(Part::Fixed)?);
    let opaque = from.number_i32(Part::Fixed)?;
    let flag = from.number_i32(Part::Fixed)?;
    let remark_len = from.number_i32(Part::Remark)?;
    let remark = from.text(Part::Remark, i64::from(remark_len))?;
    let fields_len = from.number_i32(Part::Fields)?;
    let mut block = Taker {
        rest: from.bytes(Part::Fields, i64::from(fields_len))?,
    };
    let mut fields = Fields::new();
    while !block.rest.is_empty() {
        let name_len = block.number_i16(Part::FieldName)?;
        let name = block.text(Part::FieldName, i64::from(name_len))?;
        let value_len = block.number_i32(Part::FieldValue)?;
        let value = block.text(Part::FieldValue, i64::from(value_len))?;
        fields.push(Cow::Borrowed(name), Cow::Borrowed(value))?;
    }
    Ok(Header {
        code,
        language: Language(language),
        version,
        opaque,
        flag,
        remark: (!remark.is_empty()).then_some(Cow::Borrowed(remark)),
        fields,
    })
}

fn length(part: Part, len: usize, max: usize) -> Result<usize, WireError> {
    if len > max {
        return Err(WireError::TooLong { part, len, max });
    }
    Ok(len)
}

/// Begins a header; the fields follow, each by [`field`], then [`end`].
pub(crate) fn begin(out: &mut Vec<u8>, head: &Head<'_>) -> Result<usize, WireError> {
    let code = i16::try_from(head.code).map_err(|_| WireError::CodeTooLarge { code: head.code })?;
    out.extend_from_slice(&code.to_be_bytes());
    out.push(head.language.0);
    // The original writes the low 16 bits too.
    out.extend_from_slice(&(head.version as i16).to_be_bytes());
    out.extend_from_slice(&head.opaque.to_be_bytes());
    out.extend_from_slice(&head.flag.to_be_bytes());
    let remark = head.remark.unwrap_or_default();
    let len = length(Part::Remark, remark.len(), i32::MAX as usize)?;
    out.extend_from_slice(&(len as u32).to_be_bytes());
    out.extend_from_slice(remark.as_bytes());
    out.extend_from_slice(&[0; 4]);
    Ok(out.len())
}

/// Writes a field.
#[inline]
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &str) -> Result<(), WireError> {
    let len = length(Part::FieldName, name.len(), i16::MAX as usize)?;
    out.extend_from_slice(&(len as u16).to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    let len = length(Part::FieldValue, value.len(), i32::MAX as usize)?;
    out.extend_from_slice(&(len as u32).to_be_bytes());
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

/// Ends a header whose fields begin at `start`.
pub(crate) fn end(out: &mut [u8], start: usize) -> Result<(), WireError> {
    let len = length(Part::Fields, out.len() - start, i32::MAX as usize)? as u32;
    if let Some(field) = out.get_mut(start - 4..start) {
        field.copy_from_slice(&len.to_be_bytes());
    }
    Ok(())
}
