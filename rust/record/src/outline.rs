//! Where the parts of a record lie, from its head alone: for a reader who wants the names and
//! not the bodies, and reads no byte of them. Pure functions of bytes.
#![deny(clippy::indexing_slicing)]

use crate::decode::{peek_store_timestamp_ms, peek_total_len};
use crate::layout::{
    BODY_LEN_AT, HEAD_LEN_MIN, HOST_V6_EXTRA_BYTES, MAGIC_AT, SYS_FLAG_AT, Version,
};
use crate::sys_flag::{BORN_HOST_V6, STORE_HOST_V6};
use crate::take::Take;

/// The outline of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outline {
    /// Bytes of the whole record.
    pub total_len_bytes: usize,
    /// System flag.
    pub sys_flag: i32,
    /// Time on the broker's clock.
    pub store_timestamp_ms: i64,
    /// First byte of the body, behind its length.
    pub body_at: usize,
    /// First byte behind the body: topic and properties stand from here to the record's end.
    pub tail_at: usize,
    version: Version,
}

impl Outline {
    /// The outline of the record at the start of `bytes`, which may end before it does; `None` when
    /// no record starts there, or its head is not whole.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let total_len_bytes = peek_total_len(bytes)?;
        let store_timestamp_ms = peek_store_timestamp_ms(bytes)?;
        let version = Version::of_magic(Take(bytes.get(MAGIC_AT..)?).i32()?)?;
        let sys_flag = Take(bytes.get(SYS_FLAG_AT..)?).i32()?;
        let wide = [BORN_HOST_V6, STORE_HOST_V6];
        let wide = wide.iter().filter(|flag| sys_flag & **flag != 0).count();
        let hosts = wide * HOST_V6_EXTRA_BYTES;
        let body_len = Take(bytes.get(BODY_LEN_AT + hosts..)?).i32()?;
        let body_len = usize::try_from(body_len).ok()?;
        let body_at = HEAD_LEN_MIN + hosts;
        let tail_at = body_at + body_len;
        (tail_at < total_len_bytes).then_some(Self {
            total_len_bytes,
            sys_flag,
            store_timestamp_ms,
            body_at,
            tail_at,
            version,
        })
    }

    /// Topic and properties in the bytes from [`Outline::tail_at`] to the record's end; `None` when
    /// they do not fit there.
    #[must_use]
    pub fn names<'a>(&self, tail: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let mut take = Take(tail.get(..self.total_len_bytes - self.tail_at)?);
        let topic_len = match self.version {
            Version::V1 => i16::from(take.i8()?),
            Version::V2 => take.i16()?,
        };
        let topic = take.bytes(usize::try_from(topic_len).ok()?)?;
        let properties_len = take.i16()?;
        let properties = take.bytes(usize::try_from(properties_len).ok()?)?;
        Some((topic, properties))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decode::{Found, head};
    use crate::{Host, Limits, Message, Prepared};

    pub(crate) fn record(body: &[u8], topic: &str, properties: &[u8], is_wide: bool) -> Vec<u8> {
        let host = if is_wide {
            Host::V6 {
                address: [7; 16],
                port: 9,
            }
        } else {
            Host::V4 {
                address: [7; 4],
                port: 9,
            }
        };
        let message = Message {
            flag: 2,
            born_timestamp_ms: 3,
            properties,
            ..Message::of(topic, 1, body, host)
        };
        let limits = Limits {
            body_len_max: body.len(),
        };
        let mut prepared = Prepared::new(&message, &limits).unwrap();
        prepared.stamp(5, 6, 1_700_000_000_000);
        let mut record = vec![0; prepared.total_len()];
        prepared.write_to(&mut record);
        record
    }

    proptest! {
        #[test]
        fn an_outline_agrees_with_the_record(
            body in prop::collection::vec(any::<u8>(), 0..300),
            topic in "[a-z]{1,200}",
            properties in prop::collection::vec(3_u8.., 0..300),
            is_wide: bool,
        ) {
            let bytes = record(&body, &topic, &properties, is_wide);
            let Ok(Found::Record(view)) = head(&bytes) else {
                panic!("no record");
            };
            let outline = Outline::of(bytes.get(..112.min(bytes.len())).unwrap()).unwrap();
            prop_assert_eq!(outline.total_len_bytes, view.total_len_bytes);
            prop_assert_eq!(outline.sys_flag, view.sys_flag);
            prop_assert_eq!(outline.store_timestamp_ms, view.store_timestamp_ms);
            let names = outline.names(bytes.get(outline.tail_at..).unwrap());
            prop_assert_eq!(names, Some((view.topic, view.properties)));
        }

        #[test]
        fn any_bytes_have_an_outline_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            if let Some(magic) = bytes.get_mut(MAGIC_AT..MAGIC_AT + 4) {
                magic.copy_from_slice(&Version::V1.magic().to_be_bytes());
            }
            if let Some(outline) = Outline::of(&bytes)
                && let Some(tail) = bytes.get(outline.tail_at..)
            {
                let _names = outline.names(tail);
            }
        }
    }
}
