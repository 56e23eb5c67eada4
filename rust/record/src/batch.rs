//! The body of a batch request: several messages of one topic and queue, one behind the other.
//!
//! Each is `i32 total, i32 magic, i32 crc, i32 flag, i32 body length, body, i16 properties length,
//! properties`. Total, magic and CRC are ignored, as the official broker ignores them
//! (`MessageExtEncoder.encode(MessageExtBatch)`, `MessageDecoder.encodeMessage`); the store takes
//! the CRC anew. What becomes of the messages is known elsewhere.
#![deny(clippy::indexing_slicing)]

use crate::error::{Field, RecordError};
use crate::layout::{PROPERTIES_LEN_BYTES, PROPERTIES_LEN_MAX};
use crate::properties::PROPERTY_SEPARATOR;
use crate::take::Take;

/// Bytes before the body of an item.
const ITEM_HEAD_LEN_BYTES: usize = 5 * 4;

/// One message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Flag of the user.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// Its own properties, as text.
    pub properties: &'a [u8],
}

/// The messages of a batch body, in order; see [`items`].
#[derive(Debug, Clone)]
pub struct Items<'a> {
    take: Take<'a>,
    len_bytes: usize,
}

/// The messages of a batch body. Any bytes are accepted: the first item that does not fit is given
/// as [`RecordError::BadBatch`] and ends the walk.
#[inline]
#[must_use]
pub fn items(body: &[u8]) -> Items<'_> {
    Items {
        take: Take(body),
        len_bytes: body.len(),
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.take.0.is_empty() {
            return None;
        }
        let position = self.len_bytes - self.take.0.len();
        let item = read(&mut self.take, position);
        if item.is_err() {
            self.take.0 = &[];
        }
        Some(item)
    }
}

#[inline]
fn read<'a>(take: &mut Take<'a>, position: usize) -> Result<Item<'a>, RecordError> {
    let bad = |field, len: i64, have| RecordError::BadBatch {
        position,
        field,
        len,
        have,
    };
    let have = take.0.len();
    let head = ITEM_HEAD_LEN_BYTES as i64;
    take.array::<12>().ok_or(bad(Field::Head, head, have))?; // total, magic, CRC
    let flag = take.i32().ok_or(bad(Field::Head, head, have))?;
    let body_len = take.i32().ok_or(bad(Field::Head, head, have))?;
    let body = sized(take, body_len).ok_or(bad(Field::Body, body_len.into(), take.0.len()))?;
    let have = take.0.len();
    let len = take
        .i16()
        .ok_or(bad(Field::Properties, PROPERTIES_LEN_BYTES as i64, have))?;
    let properties =
        sized(take, len.into()).ok_or(bad(Field::Properties, len.into(), take.0.len()))?;
    Ok(Item {
        flag,
        body,
        properties,
    })
}

#[inline]
fn sized<'a>(take: &mut Take<'a>, len: i32) -> Option<&'a [u8]> {
    take.bytes(usize::try_from(len).ok()?)
}

/// Appends one message to a batch body, as the official client writes it (magic and CRC 0).
///
/// # Errors
///
/// [`RecordError::PropertiesTooLong`]; [`RecordError::BodyTooLarge`] when the item's length is no
/// i32. Then `out` is as before.
pub fn encode(item: &Item<'_>, out: &mut Vec<u8>) -> Result<(), RecordError> {
    let properties_len =
        i16::try_from(item.properties.len()).map_err(|_| RecordError::PropertiesTooLong {
            len: item.properties.len(),
        })?;
    let rest = ITEM_HEAD_LEN_BYTES + PROPERTIES_LEN_BYTES + item.properties.len();
    let max = i32::MAX as usize - rest;
    if item.body.len() > max {
        return Err(RecordError::BodyTooLarge {
            len: item.body.len(),
            max,
        });
    }
    // No truncation: both are at most `i32::MAX`.
    let (total_len, body_len) = ((item.body.len() + rest) as i32, item.body.len() as i32);
    out.reserve(item.body.len() + rest);
    for number in [total_len, 0, 0, item.flag, body_len] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(item.body);
    out.extend_from_slice(&properties_len.to_be_bytes());
    out.extend_from_slice(item.properties);
    Ok(())
}

/// Puts the properties of a message of a batch and those of the batch itself into `out` (cleared
/// before): its own, a separator when both are there and its own do not end in one, the batch's.
/// So of a name in both the batch's value wins.
///
/// # Errors
///
/// [`RecordError::PropertiesTooLong`] when together they are longer than 32767 bytes; then `out` is
/// empty.
pub fn join_properties(own: &[u8], batch: &[u8], out: &mut Vec<u8>) -> Result<(), RecordError> {
    out.clear();
    let needs_separator =
        !batch.is_empty() && own.last().is_some_and(|last| *last != PROPERTY_SEPARATOR);
    let len = own.len() + usize::from(needs_separator) + batch.len();
    if len > PROPERTIES_LEN_MAX {
        return Err(RecordError::PropertiesTooLong { len });
    }
    out.reserve(len);
    out.extend_from_slice(own);
    if needs_separator {
        out.push(PROPERTY_SEPARATOR);
    }
    out.extend_from_slice(batch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(list: &[Item<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        for item in list {
            encode(item, &mut out).unwrap();
        }
        out
    }

    #[test]
    fn an_item_is_written_as_the_client_writes_it() {
        let item = Item {
            flag: 7,
            body: b"hi",
            properties: b"a\x01b\x02",
        };
        assert_eq!(
            encoded(&[item]),
            b"\0\0\0\x1c\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\0\x02hi\0\x04a\x01b\x02"
        );
    }

    #[test]
    fn every_cut_of_a_batch_names_the_item_it_cut() {
        let items_sent = [
            Item {
                flag: 1,
                body: b"first",
                properties: b"a\x01b\x02",
            },
            Item {
                flag: -1,
                body: b"",
                properties: b"",
            },
            Item {
                flag: 3,
                body: b"third",
                properties: b"c\x01d",
            },
        ];
        let body = encoded(&items_sent);
        let starts = [0, 31, 53, body.len()];
        for len in 0..=body.len() {
            let (cut, _) = body.split_at(len);
            let read: Vec<_> = items(cut).collect();
            let whole = starts
                .iter()
                .filter(|start| **start > 0 && **start <= len)
                .count();
            assert!(
                read.iter()
                    .zip(&items_sent)
                    .take(whole)
                    .all(|(r, s)| r.as_ref() == Ok(s))
            );
            match read.get(whole) {
                None => assert!(starts.contains(&len)),
                Some(Err(RecordError::BadBatch { position, .. })) => {
                    assert_eq!(Some(position), starts.get(whole));
                    assert_eq!(read.len(), whole + 1);
                }
                Some(other) => panic!("{other:?} from {len} bytes"),
            }
        }
    }

    #[test]
    fn negative_lengths_are_errors() {
        let mut body = encoded(&[Item {
            flag: 0,
            body: b"x",
            properties: b"",
        }]);
        let error = |body: &[u8]| items(body).next().unwrap().unwrap_err();
        body.splice(21.., [0xFF, 0xFE]);
        let (position, field) = (0, Field::Properties);
        assert_eq!(
            error(&body),
            RecordError::BadBatch {
                position,
                field,
                len: -2,
                have: 0
            }
        );
        body.splice(16..20, [0xFF; 4]);
        let field = Field::Body;
        assert_eq!(
            error(&body),
            RecordError::BadBatch {
                position,
                field,
                len: -1,
                have: 3
            }
        );
    }

    #[test]
    fn the_batchs_properties_follow_a_messages_own() {
        let joined = |own: &[u8], batch: &[u8]| {
            let mut out = b"old".to_vec();
            join_properties(own, batch, &mut out).map(|()| out)
        };
        assert_eq!(
            joined(b"a\x011", b"b\x012\x02").unwrap(),
            b"a\x011\x02b\x012\x02"
        );
        assert_eq!(
            joined(b"a\x011\x02", b"b\x012").unwrap(),
            b"a\x011\x02b\x012"
        );
        assert_eq!(joined(b"a\x011", b"").unwrap(), b"a\x011");
        assert_eq!(joined(b"", b"b\x012").unwrap(), b"b\x012");
        assert_eq!(
            joined(&[b'x'; 32_765], b"y").map(|text| text.len()),
            Ok(32_767)
        );
        let too_long = Err(RecordError::PropertiesTooLong { len: 32_768 });
        assert_eq!(joined(&[b'x'; 32_766], b"y"), too_long);
    }

    #[test]
    fn properties_too_long_for_their_length_are_refused() {
        let mut out = b"before".to_vec();
        let item = Item {
            flag: 0,
            body: b"",
            properties: &[b'x'; 32_768],
        };
        let too_long = RecordError::PropertiesTooLong { len: 32_768 };
        assert_eq!(encode(&item, &mut out), Err(too_long));
        assert_eq!(out, b"before");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            list in proptest::collection::vec(
                (any::<i32>(), "[ -~]{0,40}", "[ -~]{0,40}"), 0..6,
            ),
        ) {
            let sent: Vec<_> = list
                .iter()
                .map(|(flag, body, text)| Item {
                    flag: *flag, body: body.as_bytes(), properties: text.as_bytes(),
                })
                .collect();
            let body = encoded(&sent);
            let read: Result<Vec<_>, _> = items(&body).collect();
            prop_assert_eq!(read.unwrap(), sent);
        }
    }
}
