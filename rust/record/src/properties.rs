//! The properties of a message as text: `name 0x01 value 0x02`, repeated.
//!
//! Reading follows `MessageDecoder.string2messageProperties`, writing `messageProperties2String`
//! of 5.x (a separator also after the last pair). Works on bytes: the separators are ASCII, and no
//! decoder of UTF-8 ever swallows ASCII, so that splitting before decoding gives the same pairs.
//! What a property means is known elsewhere.
#![deny(clippy::indexing_slicing)]

use crate::error::{PropertyFault, RecordError};

/// Separates a name from its value.
pub const NAME_VALUE_SEPARATOR: u8 = 0x01;
/// Ends a value.
pub const PROPERTY_SEPARATOR: u8 = 0x02;

/// Keys for the index, separated by spaces.
pub const KEYS: &str = "KEYS";
/// What separates two keys.
pub const KEY_SEPARATOR: u8 = b' ';
/// The tag (or tags) of a message.
pub const TAGS: &str = "TAGS";
/// The id the producer gave; always indexed.
pub const UNIQ_KEY: &str = "UNIQ_KEY";
/// Delay level.
pub const DELAY: &str = "DELAY";
/// Whether the producer waits for the message to be stored safely.
pub const WAIT: &str = "WAIT";
/// The topic a message really belongs to while it lies in a system topic.
pub const REAL_TOPIC: &str = "REAL_TOPIC";
/// The queue a message really belongs to while it lies in a system topic.
pub const REAL_QID: &str = "REAL_QID";
/// `true` for a half message of a transaction.
pub const TRAN_MSG: &str = "TRAN_MSG";
/// Producer group.
pub const PGROUP: &str = "PGROUP";
/// Id of the transaction (5.x).
pub const TRANSACTION_ID: &str = "__transactionId__";
/// How often a half message was checked.
pub const TRANSACTION_CHECK_TIMES: &str = "TRANSACTION_CHECK_TIMES";
/// Seconds in which a half message is not checked.
pub const CHECK_IMMUNITY_TIME_IN_SECONDS: &str = "CHECK_IMMUNITY_TIME_IN_SECONDS";
/// First queue offset of a half message that was put back.
pub const TRAN_PREPARED_QUEUE_OFFSET: &str = "TRAN_PREPARED_QUEUE_OFFSET";
/// Number of messages in an inner batch.
pub const INNER_NUM: &str = "INNER_NUM";
/// First queue offset of an inner batch.
pub const INNER_BASE: &str = "INNER_BASE";
/// Names of further queues, separated by commas.
pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
/// Offsets in those queues, in the same order.
pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
/// Deliver after so many seconds.
pub const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
/// Deliver after so many milliseconds.
pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
/// Deliver at this time.
pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
/// The rounded time of delivery of a message in the timer topic.
pub const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
/// Which message of the timer to cancel.
pub const TIMER_DEL_UNIQKEY: &str = "TIMER_DEL_UNIQKEY";
/// How often the timer put a message back because it is due too late for the wheel.
pub const TIMER_ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
/// When the timer took the message in.
pub const TIMER_ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
/// When the timer let the message go.
pub const TIMER_DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
/// First topic of a message that is being retried.
pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
/// Offset id of the first copy of a message that is being retried.
pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
/// Topic a dead letter comes from (5.x).
pub const DLQ_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
/// Offset id of the message a dead letter comes from (5.x).
pub const DLQ_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";
/// Source and position of a duplicated record, `a_b` (5.x, `duplicationEnable`).
pub const DUP_INFO: &str = "DUP_INFO";
/// Cluster of the producer's broker.
pub const CLUSTER: &str = "CLUSTER";
/// CRC of the record (5.x): see [`crate::crc_property`].
pub const CRC32: &str = "__CRC32#";

/// Bytes looked at in one step of the search for separators.
const WORD_BYTES: usize = 8;
/// The bits of each byte that are 0 in both separators.
const NOT_SMALL: u64 = 0xFCFC_FCFC_FCFC_FCFC;
const LOW_BITS: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// All bytes below 4 in a text, in order: the separators, and rarely 0 or 3.
///
/// Separators are a dozen bytes apart, so that a search started anew for each (`memchr`) pays its
/// start more than its work; this one keeps the marks of eight bytes and goes on from there.
#[derive(Debug, Clone)]
struct SmallBytes<'a> {
    text: &'a [u8],
    /// The words not yet looked at.
    rest: &'a [u8],
    /// Bit 7 of each byte of the current word that is below 4 and not yet given out.
    marks: u64,
    /// Position of the current word.
    word_at: usize,
    /// Position of the next word.
    next_at: usize,
}

impl<'a> SmallBytes<'a> {
    #[inline]
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            rest: text,
            marks: 0,
            word_at: 0,
            next_at: 0,
        }
    }
}

impl Iterator for SmallBytes<'_> {
    type Item = (usize, u8);

    #[inline]
    fn next(&mut self) -> Option<(usize, u8)> {
        while self.marks == 0 {
            let word = match self.rest.split_first_chunk::<WORD_BYTES>() {
                Some((word, rest)) => {
                    self.rest = rest;
                    *word
                }
                None if self.rest.is_empty() => return None,
                None => {
                    // 0xFF is no separator: the missing bytes never show.
                    let mut word = [0xFF; WORD_BYTES];
                    for (to, from) in word.iter_mut().zip(self.rest) {
                        *to = *from;
                    }
                    self.rest = &[];
                    word
                }
            };
            self.word_at = self.next_at;
            self.next_at += WORD_BYTES;
            let high = u64::from_le_bytes(word) & NOT_SMALL;
            // A byte keeps bit 7 clear through the sum only when it is 0: no carry crosses bytes.
            self.marks = !(((high & LOW_BITS) + LOW_BITS) | high | LOW_BITS);
        }
        let at = self.word_at + self.marks.trailing_zeros() as usize / 8;
        self.marks &= self.marks - 1;
        self.text.get(at).map(|byte| (at, *byte))
    }
}

/// Names and values of a text, in order; see [`pairs`].
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    text: &'a [u8],
    small: SmallBytes<'a>,
    start: usize,
}

/// The pairs of a properties text, in order, duplicates included.
///
/// Any bytes are accepted. As in Java a pair counts only with a non-empty name and a non-empty
/// value, the last one needs no separator behind it, and a value may hold further 0x01.
#[inline]
#[must_use]
pub fn pairs(text: &[u8]) -> Pairs<'_> {
    Pairs {
        text,
        small: SmallBytes::new(text),
        start: 0,
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.start < self.text.len() {
            let start = self.start;
            let mut value_at = 0;
            let mut end = self.text.len();
            for (at, byte) in self.small.by_ref() {
                match byte {
                    NAME_VALUE_SEPARATOR if value_at == 0 => value_at = at + 1,
                    PROPERTY_SEPARATOR => {
                        end = at;
                        break;
                    }
                    _ => {}
                }
            }
            self.start = end + 1;
            if value_at > start + 1 && value_at < end {
                let name = self.text.get(start..value_at - 1)?;
                let value = self.text.get(value_at..end)?;
                return Some((name, value));
            }
        }
        None
    }
}

/// The value of a property; of several the last, as Java's map keeps it.
#[inline]
#[must_use]
pub fn lookup<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let name = name.as_bytes();
    pairs(text)
        .filter(|pair| pair.0 == name)
        .last()
        .map(|pair| pair.1)
}

/// The properties that the store itself looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// [`TAGS`]
    pub tags: Option<&'a [u8]>,
    /// [`KEYS`]
    pub keys: Option<&'a [u8]>,
    /// [`UNIQ_KEY`]
    pub uniq_key: Option<&'a [u8]>,
    /// [`DELAY`]
    pub delay: Option<&'a [u8]>,
    /// [`WAIT`]
    pub wait: Option<&'a [u8]>,
    /// [`INNER_NUM`]
    pub inner_num: Option<&'a [u8]>,
    /// [`INNER_BASE`]
    pub inner_base: Option<&'a [u8]>,
    /// [`INNER_MULTI_DISPATCH`]
    pub multi_dispatch: Option<&'a [u8]>,
    /// [`INNER_MULTI_QUEUE_OFFSET`]
    pub multi_queue_offset: Option<&'a [u8]>,
}

/// The properties the store looks at, in one pass; each the last of its name.
#[inline]
#[must_use]
pub fn scan_wanted(text: &[u8]) -> Wanted<'_> {
    let mut wanted = Wanted::default();
    for (name, value) in pairs(text) {
        match name {
            b"TAGS" => wanted.tags = Some(value),
            b"KEYS" => wanted.keys = Some(value),
            b"UNIQ_KEY" => wanted.uniq_key = Some(value),
            b"DELAY" => wanted.delay = Some(value),
            b"WAIT" => wanted.wait = Some(value),
            b"INNER_NUM" => wanted.inner_num = Some(value),
            b"INNER_BASE" => wanted.inner_base = Some(value),
            b"INNER_MULTI_DISPATCH" => wanted.multi_dispatch = Some(value),
            b"INNER_MULTI_QUEUE_OFFSET" => wanted.multi_queue_offset = Some(value),
            _ => {}
        }
    }
    wanted
}

/// Appends pairs to `out` as text, with a separator also after the last one. An empty value is
/// written, as Java writes it, and dropped by every reader.
///
/// # Errors
///
/// [`RecordError::IllegalProperty`] for an empty name and for a separator in a name or value; then
/// `out` is as before. The length of the whole is checked where the message is encoded.
pub fn encode<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    let len_before = out.len();
    for (name, value) in pairs {
        if let Some(fault) = fault_of(name, value) {
            out.truncate(len_before);
            return Err(RecordError::IllegalProperty {
                name: name.to_owned(),
                fault,
            });
        }
        out.extend_from_slice(name.as_bytes());
        out.push(NAME_VALUE_SEPARATOR);
        out.extend_from_slice(value.as_bytes());
        out.push(PROPERTY_SEPARATOR);
    }
    Ok(())
}

fn fault_of(name: &str, value: &str) -> Option<PropertyFault> {
    let has_separator = |text: &str| {
        // No early exit: it is never taken, and without it the compiler looks at many at once.
        text.bytes().fold(false, |found, b| {
            found | (b == NAME_VALUE_SEPARATOR) | (b == PROPERTY_SEPARATOR)
        })
    };
    if name.is_empty() {
        Some(PropertyFault::EmptyName)
    } else if has_separator(name) {
        Some(PropertyFault::SeparatorInName)
    } else if has_separator(value) {
        Some(PropertyFault::SeparatorInValue)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Java's reader, copied line by line.
    fn model(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let find = |byte: u8, from: usize| {
            text.iter()
                .skip(from)
                .position(|b| *b == byte)
                .map(|at| at + from)
        };
        let mut pairs = Vec::new();
        let mut index = 0;
        while index < text.len() {
            let end = find(PROPERTY_SEPARATOR, index).unwrap_or(text.len());
            if end - index >= 3
                && let Some(sep) = find(NAME_VALUE_SEPARATOR, index)
                && sep > index
                && sep < end - 1
            {
                let name = text.get(index..sep).unwrap().to_vec();
                pairs.push((name, text.get(sep + 1..end).unwrap().to_vec()));
            }
            index = end + 1;
        }
        pairs
    }

    fn read(text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        pairs(text)
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect()
    }

    #[test]
    fn pairs_are_read_as_java_reads_them() {
        let one = |name: &str, value: &str| vec![(name.into(), value.into())];
        assert_eq!(read(b""), vec![]);
        assert_eq!(read(b"a\x01b\x02"), one("a", "b"));
        assert_eq!(read(b"a\x01b"), one("a", "b"));
        assert_eq!(read(b"a\x01b\x01c\x02"), one("a", "b\u{1}c"));
        assert_eq!(read(b"a\x01\x02\x01b\x02x\x02\x02k\x01v"), one("k", "v"));
        assert_eq!(read(b"\x01a\x01b\x02"), vec![]);
        assert_eq!(read("城市\u{1}上海\u{2}".as_bytes()), one("城市", "上海"));
        assert_eq!(read(b"a\0\x03\x01b\0\x02"), one("a\0\u{3}", "b\0"));
    }

    #[test]
    fn the_last_of_a_name_wins() {
        let text = b"UNIQ_KEY\x011\x02WAIT\x01true\x02UNIQ_KEY\x012\x02UNIQ_KEY\x01\x02";
        assert_eq!(lookup(text, UNIQ_KEY), Some(&b"2"[..]));
        assert_eq!(lookup(text, TAGS), None);
        let wanted = scan_wanted(text);
        assert_eq!(wanted.uniq_key, Some(&b"2"[..]));
        assert_eq!(wanted.wait, Some(&b"true"[..]));
        assert_eq!(wanted.tags, None);
    }

    #[test]
    fn separators_and_empty_names_are_refused() {
        let refused = |name: &str, value: &str| {
            let mut out = b"before".to_vec();
            let error = encode([("ok", "1"), (name, value)], &mut out).unwrap_err();
            assert_eq!(out, b"before");
            error
        };
        for (name, value, fault) in [
            ("", "v", PropertyFault::EmptyName),
            ("a\u{1}", "v", PropertyFault::SeparatorInName),
            ("a\u{2}b", "v", PropertyFault::SeparatorInName),
            ("a", "\u{1}", PropertyFault::SeparatorInValue),
            ("a", "v\u{2}", PropertyFault::SeparatorInValue),
        ] {
            let name_refused = name.to_owned();
            assert_eq!(
                refused(name, value),
                RecordError::IllegalProperty {
                    name: name_refused,
                    fault
                }
            );
        }
    }

    #[test]
    fn the_text_ends_with_a_separator() {
        let mut out = Vec::new();
        encode([("a", "1"), ("b", "")], &mut out).unwrap();
        assert_eq!(out, b"a\x011\x02b\x01\x02");
        assert_eq!(read(&out), vec![(b"a".to_vec(), b"1".to_vec())]);
    }

    fn mostly_separators() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            Just(1_u8),
            Just(2),
            0..5_u8,
            any::<u8>(),
            Just(b'a'),
            Just(b'b')
        ];
        proptest::collection::vec(byte, 0..60)
    }

    fn texts() -> impl Strategy<Value = Vec<(String, String)>> {
        let text = "[^\u{1}\u{2}]{1,20}";
        proptest::collection::vec((text, text), 0..8)
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_java_reads_them(text in mostly_separators()) {
            prop_assert_eq!(read(&text), model(&text));
        }

        #[test]
        fn what_is_written_is_read(list in texts()) {
            let mut out = Vec::new();
            encode(list.iter().map(|(n, v)| (n.as_str(), v.as_str())), &mut out).unwrap();
            let back: Vec<_> = read(&out);
            let want: Vec<(Vec<u8>, Vec<u8>)> =
                list.into_iter().map(|(n, v)| (n.into_bytes(), v.into_bytes())).collect();
            prop_assert_eq!(back, want);
        }
    }
}
