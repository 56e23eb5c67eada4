//! Records that hold a batch (topics of the type BatchCQ of 5.x) to the records of its messages.
//!
//! The broker keeps such a batch as one record that takes a queue offset for each of its messages;
//! who pulls takes it apart (`PullAPIWrapper.processPullResult`, `MessageDecoder.decodeMessage`).
//! A message becomes a record of its own: flag, body and properties are its own, the queue offset
//! is the batch's plus its index in it, everything else is the batch's. Knows no compression and no
//! store.
#![deny(clippy::indexing_slicing)]

use crate::batch;
use crate::crc::body_crc;
use crate::decode::{CrcCheck, Found, RecordView, check, peek_total_len};
use crate::error::RecordError;
use crate::layout::{
    BODY_CRC_AT, FLAG_AT, HEAD_LEN_MIN, HOST_V6_EXTRA_BYTES, PROPERTIES_LEN_BYTES, QUEUE_OFFSET_AT,
    SYS_FLAG_AT, TOTAL_LEN_AT, Version,
};
use crate::sys_flag::{
    BORN_HOST_V6, COMPRESSED, COMPRESSION_TYPE_MASK, INNER_BATCH, NEED_UNWRAP, STORE_HOST_V6,
};

/// Both flags: a batch that readers take apart.
const WRAPPED: i32 = INNER_BATCH | NEED_UNWRAP;
/// Flags of the batch, and not of its messages.
const OF_THE_BATCH: i32 = WRAPPED | COMPRESSED | COMPRESSION_TYPE_MASK;

/// Records side by side, with the batches among them taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwrapped {
    /// The records.
    pub bytes: Vec<u8>,
    /// How many batches could not be taken apart; they are there as they were, as the official
    /// client leaves them.
    pub left: usize,
}

/// Takes the batches among records apart that stand side by side in `records`; `None` where there
/// are none, which is nearly always. Bytes that are no record end the walk, and are kept.
///
/// `body_of` gives the body of a batch as its sender made it: inflated, or `None` where that fails.
/// A batch is left, too, where all would need more than `len_max` bytes: each message repeats the
/// topic and the rest of the head.
pub fn unwrapped(
    records: &[u8],
    len_max: usize,
    mut body_of: impl FnMut(&RecordView<'_>) -> Option<Vec<u8>>,
) -> Option<Unwrapped> {
    if !each(records).any(is_wrapped) {
        return None;
    }
    let mut out = Unwrapped {
        bytes: Vec::with_capacity(records.len()),
        left: 0,
    };
    let mut walked = 0;
    for record in each(records) {
        walked += record.len();
        if is_wrapped(record) {
            if unwrap(record, len_max, &mut body_of, &mut out.bytes).is_some() {
                continue;
            }
            out.left += 1;
        }
        out.bytes.extend_from_slice(record);
    }
    // What is no record is for the reader of the whole to report.
    out.bytes
        .extend_from_slice(records.get(walked..).unwrap_or_default());
    Some(out)
}

/// The records at the start of `records`, by their claimed lengths.
fn each(mut records: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (record, rest) = records.split_at_checked(peek_total_len(records)?)?;
        records = rest;
        Some(record)
    })
}

fn is_wrapped(record: &[u8]) -> bool {
    record
        .get(SYS_FLAG_AT..)
        .and_then(<[u8]>::first_chunk)
        .is_some_and(|bytes| i32::from_be_bytes(*bytes) & WRAPPED == WRAPPED)
}

/// Appends the messages of one batch; `None` where that fails, with `out` as it was before.
fn unwrap(
    record: &[u8],
    len_max: usize,
    body_of: &mut impl FnMut(&RecordView<'_>) -> Option<Vec<u8>>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let Ok(Found::Record(view)) = check(record, CrcCheck::Verify) else {
        return None;
    };
    let inflated;
    let body = if view.sys_flag & COMPRESSED == 0 {
        view.body
    } else {
        inflated = body_of(&view)?;
        inflated.as_slice()
    };
    let before = out.len();
    let appended = append(record, &view, body, len_max, out);
    if appended.is_none() {
        out.truncate(before);
    }
    appended
}

fn append(
    record: &[u8],
    view: &RecordView<'_>,
    body: &[u8],
    len_max: usize,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (head, topic) = parts(record, view)?;
    let items: Vec<batch::Item<'_>> = batch::items(body)
        .collect::<Result<_, RecordError>>()
        .ok()?;
    if items.is_empty() {
        return None;
    }
    let sys_flag = view.sys_flag & !OF_THE_BATCH;
    for (item, index) in items.iter().zip(0i64..) {
        let len = head.len()
            + item.body.len()
            + topic.len()
            + PROPERTIES_LEN_BYTES
            + item.properties.len();
        let start = out.len();
        if start.checked_add(len)? > len_max {
            return None;
        }
        out.extend_from_slice(head);
        out.extend_from_slice(item.body);
        out.extend_from_slice(topic);
        out.extend_from_slice(&u16::try_from(item.properties.len()).ok()?.to_be_bytes());
        out.extend_from_slice(item.properties);
        let written = out.get_mut(start..)?;
        let body_len_at = head.len() - 4;
        put(
            written,
            TOTAL_LEN_AT,
            i32::try_from(len).ok()?.to_be_bytes(),
        )?;
        put(written, BODY_CRC_AT, body_crc(item.body).to_be_bytes())?;
        put(written, FLAG_AT, item.flag.to_be_bytes())?;
        let queue_offset = view.queue_offset.checked_add(index)?;
        put(written, QUEUE_OFFSET_AT, queue_offset.to_be_bytes())?;
        put(written, SYS_FLAG_AT, sys_flag.to_be_bytes())?;
        put(
            written,
            body_len_at,
            i32::try_from(item.body.len()).ok()?.to_be_bytes(),
        )?;
    }
    Some(())
}

/// The head of a record, and its topic with the topic's length.
fn parts<'a>(record: &'a [u8], view: &RecordView<'_>) -> Option<(&'a [u8], &'a [u8])> {
    let v6_hosts = [BORN_HOST_V6, STORE_HOST_V6]
        .iter()
        .filter(|bit| view.sys_flag & **bit != 0)
        .count();
    let head_len = HEAD_LEN_MIN + v6_hosts * HOST_V6_EXTRA_BYTES;
    let width = match view.version {
        Version::V1 => 1,
        Version::V2 => 2,
    };
    let topic_at = head_len + view.body.len();
    let topic = record.get(topic_at..topic_at + width + view.topic.len())?;
    Some((record.get(..head_len)?, topic))
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) -> Option<()> {
    bytes.get_mut(at..at + N)?.copy_from_slice(&value);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::{Limits, Message, Prepared};
    use crate::host::Host;

    const LEN_MAX: usize = 1 << 20;

    fn record(topic: &str, sys_flag: i32, body: &[u8], host: &str) -> Vec<u8> {
        let host: Host = host.parse::<std::net::SocketAddr>().unwrap().into();
        let message = Message {
            topic,
            queue_id: 3,
            flag: 9,
            sys_flag,
            born_timestamp_ms: 11,
            born_host: host,
            store_host: host,
            reconsume_times: 2,
            prepared_transaction_offset: 0,
            body,
            properties: b"of\x01the batch\x02",
            version: None,
        };
        let limits = Limits {
            body_len_max: LEN_MAX,
        };
        let mut prepared = Prepared::new(&message, &limits).unwrap();
        prepared.stamp(100, 7777, 12);
        let mut out = vec![0; prepared.total_len()];
        prepared.write_to(&mut out);
        out
    }

    fn body(items: &[(i32, &[u8], &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for &(flag, body, properties) in items {
            let item = batch::Item {
                flag,
                body,
                properties,
            };
            batch::encode(&item, &mut out).unwrap();
        }
        out
    }

    fn no_body(_: &RecordView<'_>) -> Option<Vec<u8>> {
        None
    }

    fn views(bytes: &[u8]) -> Vec<RecordView<'_>> {
        let of = |record| match check(record, CrcCheck::Verify) {
            Ok(Found::Record(view)) => view,
            other => panic!("{other:?}"),
        };
        each(bytes).map(of).collect()
    }

    #[test]
    fn messages_of_a_batch_stand_at_their_own_offsets() {
        let long = "t".repeat(200);
        for (topic, host) in [("T", "1.2.3.4:5"), (long.as_str(), "[::1]:5")] {
            let items = body(&[(1, b"one", b"a\x01b\x02"), (2, b"", b"")]);
            let mut all = record(topic, 0, b"before", host);
            all.extend(record(topic, WRAPPED, &items, host));
            all.extend(record(topic, INNER_BATCH, b"kept", host));
            let out = unwrapped(&all, LEN_MAX, no_body).unwrap();
            let found = views(&out.bytes);
            assert_eq!(out.left, 0);
            let seen: Vec<_> = found
                .iter()
                .map(|view| (view.queue_offset, view.flag, view.body, view.properties))
                .collect();
            let own: &[u8] = b"of\x01the batch\x02";
            let expected: Vec<(i64, i32, &[u8], &[u8])> = vec![
                (100, 9, b"before", own),
                (100, 1, b"one", b"a\x01b\x02"),
                (101, 2, b"", b""),
                (100, 9, b"kept", own),
            ];
            assert_eq!(seen, expected);
            let flags = sys_flags(host);
            let all = views(&all);
            let (Some(one), Some(whole)) = (found.get(1), all.get(1)) else {
                panic!("{found:?} of {all:?}");
            };
            assert_eq!(one.sys_flag, flags);
            assert_eq!(
                RecordView {
                    total_len_bytes: whole.total_len_bytes,
                    body_crc: whole.body_crc,
                    flag: whole.flag,
                    sys_flag: whole.sys_flag,
                    body: whole.body,
                    properties: whole.properties,
                    ..*one
                },
                *whole
            );
        }
    }

    fn sys_flags(host: &str) -> i32 {
        if host.starts_with('[') {
            BORN_HOST_V6 | STORE_HOST_V6
        } else {
            0
        }
    }

    #[test]
    fn a_batch_that_was_compressed_is_inflated_first() {
        let small = record("T", WRAPPED | COMPRESSED | 0x300, b"small", "1.2.3.4:5");
        let items = body(&[(0, b"x", b"")]);
        let inflate = |view: &RecordView<'_>| (view.body == b"small").then(|| items.clone());
        let out = unwrapped(&small, LEN_MAX, inflate).unwrap();
        let found = views(&out.bytes);
        let seen: Vec<_> = found
            .iter()
            .map(|view| (view.body, view.sys_flag))
            .collect();
        assert_eq!(seen, [(&b"x"[..], 0)]);
        let left = unwrapped(&small, LEN_MAX, no_body).unwrap();
        assert_eq!((left.left, left.bytes), (1, small));
    }

    #[test]
    fn what_cannot_be_taken_apart_stays_as_it_is() {
        let items = body(&[(0, b"one", b""), (0, b"two", b"")]);
        let whole = record("T", WRAPPED, &items, "1.2.3.4:5");
        let (short, _) = items.split_at(items.len() - 1);
        let cut = record("T", WRAPPED, short, "1.2.3.4:5");
        let empty = record("T", WRAPPED, b"", "1.2.3.4:5");
        for (bytes, len_max) in [(&cut, LEN_MAX), (&empty, LEN_MAX), (&whole, 150)] {
            let out = unwrapped(bytes, len_max, no_body).unwrap();
            assert_eq!((out.left, &out.bytes), (1, bytes));
        }
    }

    #[test]
    fn without_a_batch_nothing_is_copied() {
        let plain = record("T", NEED_UNWRAP, b"x", "1.2.3.4:5");
        assert_eq!(unwrapped(&plain, LEN_MAX, no_body), None);
        assert_eq!(unwrapped(b"", LEN_MAX, no_body), None);
        assert_eq!(unwrapped(b"nonsense", LEN_MAX, no_body), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(flips in proptest::collection::vec((0..400usize, any::<u8>()), 0..4)) {
            let items = body(&[(0, b"one", b"a\x01b\x02"), (0, b"two", b"")]);
            let mut bytes = record("T", WRAPPED, &items, "1.2.3.4:5");
            let mut all = bytes.clone();
            all.append(&mut bytes);
            for (at, value) in flips {
                if let Some(byte) = all.get_mut(at) {
                    *byte = value;
                }
            }
            if let Some(out) = unwrapped(&all, LEN_MAX, no_body) {
                prop_assert!(out.bytes.len() <= LEN_MAX + all.len());
            }
        }
    }
}
