//! Records that take the place of bad bytes, so that the whole records behind them stay readable for
//! every broker: pure functions of bytes. Knows no file and no queue.
//!
//! Of a message whose queue offset is known a record of the same length stays there, with the
//! same topic, queue and queue offset, an empty body and the property `MQCORE_DAMAGED=1`: a queue
//! without that offset would give the numbers of all later messages to others (the official brokers
//! put the next unit there). Its keys and tags stay where they could be read. What is too long is made
//! up for by separators behind its properties, which every reader passes over, and beyond 32 KiB by
//! zeros in the body. All other bytes become rolled back messages of the topic `MQCORE_DAMAGED`, which
//! no release puts into a queue or an index, and a blank marker at the end of a file.

use mqcore_record::layout::{
    BLANK_LEN_BYTES, HEAD_LEN_MIN, PROPERTIES_LEN_BYTES, PROPERTIES_LEN_MAX, Version,
};
use mqcore_record::properties::PROPERTY_SEPARATOR;
use mqcore_record::{
    Found, Host, Limits, Message, Prepared, RecordView, crc_property, head, sys_flag, write_blank,
};

use crate::units::{MIB, is_topic};

/// Topic of what nobody is to read.
pub const DAMAGED_TOPIC: &str = "MQCORE_DAMAGED";
/// Property of a message whose content is lost.
const DAMAGED_PROPERTY: &[u8] = b"MQCORE_DAMAGED\x011\x02";
/// Longest record of the topic above: shorter than any broker's longest message.
const FILLER_LEN_MAX: usize = MIB as usize;
/// Where nobody knows who sent and who stored a message.
const NOBODY: Host = Host::V4 {
    address: [127, 0, 0, 1],
    port: 10911,
};

/// A message whose content is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lost {
    /// Its topic.
    pub(super) topic: String,
    /// Its queue.
    pub(super) queue_id: i32,
    /// Its queue offset.
    pub(super) queue_offset: i64,
    /// Where its record stood and how long it was, where that is known.
    pub(super) stood: Option<(u64, usize)>,
    /// Its bytes, where its head can be read.
    pub(super) record: Option<Vec<u8>>,
}

/// Bytes of one file that are to be filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// Physical offset of the first.
    pub(super) from: u64,
    /// Physical offset behind the last.
    pub(super) to: u64,
    /// The file ends there.
    pub(super) ends_file: bool,
    /// Store times of what is put there, ms: they do not step back. The first is that of what has
    /// none of its own.
    pub(super) store_ms: (i64, i64),
    /// Each record carries the CRC of all its bytes as a property.
    pub(super) has_property_crc: bool,
}

impl Lost {
    /// The message at the start of `bytes`, which are at `physical_offset`, as far as its head can be read.
    pub(super) fn read(bytes: &[u8], physical_offset: u64) -> Option<Self> {
        let Ok(Found::Record(view)) = head(bytes) else {
            return None;
        };
        let is_there =
            view.physical_offset.cast_unsigned() == physical_offset && is_topic(view.topic);
        if !is_there || view.queue_id < 0 || view.queue_offset < 0 {
            return None;
        }
        Some(Self {
            topic: String::from_utf8(view.topic.to_vec()).ok()?,
            queue_id: view.queue_id,
            queue_offset: view.queue_offset,
            stood: Some((physical_offset, view.total_len_bytes)),
            record: bytes.get(..view.total_len_bytes).map(<[u8]>::to_vec),
        })
    }

    /// Whether it had a queue offset.
    pub(super) fn is_queued(&self) -> bool {
        self.view()
            .is_none_or(|view| view.transaction().has_queue_offset())
    }

    fn view(&self) -> Option<RecordView<'_>> {
        match head(self.record.as_deref()?) {
            Ok(Found::Record(view)) => Some(view),
            _ => None,
        }
    }

    /// A record in its place: of `len` bytes, or as short as it can be. `None` where it does not fit.
    fn encode(&self, gap: &Gap, at: u64, len: Option<usize>) -> Option<Vec<u8>> {
        let view = self.view();
        let kept = view.map_or(&[][..], |view| view.properties);
        let kept = match kept.strip_suffix(crc_tail(kept)) {
            Some(kept) if kept.last().is_none_or(|last| *last == PROPERTY_SEPARATOR) => kept,
            _ => &[],
        };
        let crc_len = crc_len(gap);
        let version = view.map_or(version_of(&self.topic), |view| view.version);
        let message = Message {
            topic: &self.topic,
            queue_id: self.queue_id,
            flag: view.map_or(0, |view| view.flag),
            sys_flag: view.map_or(0, |view| {
                view.sys_flag
                    & !(sys_flag::COMPRESSED
                        | sys_flag::COMPRESSION_TYPE_MASK
                        | sys_flag::NEED_UNWRAP)
            }),
            born_timestamp_ms: view.map_or(gap.store_ms.0, |view| view.born_timestamp_ms),
            born_host: view.map_or(NOBODY, |view| view.born_host),
            store_host: view.map_or(NOBODY, |view| view.store_host),
            reconsume_times: view.map_or(0, |view| view.reconsume_times),
            prepared_transaction_offset: view.map_or(0, |view| view.prepared_transaction_offset),
            body: &[],
            properties: &[],
            version: Some(version),
        };
        let bare = prepared_len(&message)? + crc_len;
        let mut properties = Vec::new();
        let space = len.map_or(usize::MAX, |len| len.saturating_sub(bare));
        if DAMAGED_PROPERTY.len() <= space {
            properties.extend_from_slice(DAMAGED_PROPERTY);
        }
        if kept.len() <= space - properties.len().min(space) {
            properties.extend_from_slice(kept);
        }
        let mut rest = match len {
            Some(len) => len.checked_sub(bare + properties.len())?,
            None => 0,
        };
        let most = PROPERTIES_LEN_MAX.saturating_sub(properties.len() + crc_len);
        let padding = rest.min(most);
        properties.resize(properties.len() + padding, PROPERTY_SEPARATOR);
        rest -= padding;
        let body = vec![0; rest];
        let message = Message {
            body: &body,
            ..message
        };
        let (first_ms, last_ms) = gap.store_ms;
        let store_ms = view
            .map(|view| view.store_timestamp_ms)
            .filter(|store_ms| (first_ms..=last_ms).contains(store_ms))
            .unwrap_or(first_ms);
        let queue_offset = if self.is_queued() {
            self.queue_offset
        } else {
            0
        };
        encoded(&message, properties, gap, (queue_offset, at, store_ms))
    }
}

/// Fills the gap: messages that are lost where they stood, those of unknown offset between them. Takes
/// what it has placed out of `unplaced`; `None` where bytes are left that no record fits.
pub(super) fn fill(gap: &Gap, placed: &[Lost], unplaced: &mut Vec<Lost>) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity((gap.to - gap.from) as usize);
    for lost in placed {
        let Some((at, len)) = lost.stood else {
            continue;
        };
        let here = gap.from + out.len() as u64;
        if at < here || at + len as u64 > gap.to {
            continue;
        }
        fill_hole(gap, here, at, &mut out, unplaced)?;
        out.extend(lost.encode(gap, at, Some(len))?);
    }
    let here = gap.from + out.len() as u64;
    fill_hole(gap, here, gap.to, &mut out, unplaced)?;
    (out.len() as u64 == gap.to - gap.from).then_some(out)
}

/// Fills `[from, to)` of the gap.
fn fill_hole(
    gap: &Gap,
    from: u64,
    to: u64,
    out: &mut Vec<u8>,
    unplaced: &mut Vec<Lost>,
) -> Option<()> {
    let ends_file = gap.ends_file && to == gap.to;
    let reserved = if ends_file { BLANK_LEN_BYTES } else { 0 };
    let mut left = (to - from) as usize;
    let mut at = from;
    while let Some(lost) = unplaced.first() {
        let record = lost.encode(gap, at, None)?;
        let rest = left.checked_sub(record.len() + reserved);
        let fits = rest.is_some_and(|rest| ends_file || rest == 0 || rest >= filler_len_min(gap));
        let record = if fits {
            record
        } else if rest.is_some() {
            // The last one takes what is too short for a record of its own.
            lost.encode(gap, at, Some(left))?
        } else if let Some(record) = lost.encode(gap, at, Some(left)) {
            record
        } else {
            break;
        };
        unplaced.remove(0);
        left = left.checked_sub(record.len())?;
        at += record.len() as u64;
        out.extend(record);
    }
    if ends_file {
        let mut blank = vec![0; left];
        if left < BLANK_LEN_BYTES {
            return None;
        }
        write_blank(&mut blank, i32::try_from(left).ok()?);
        out.extend(blank);
        return Some(());
    }
    while left > 0 {
        let len = match left {
            left if left > 2 * FILLER_LEN_MAX => FILLER_LEN_MAX,
            left if left > FILLER_LEN_MAX => left / 2,
            left => left,
        };
        let record = filler(gap, at, len)?;
        left -= record.len();
        at += record.len() as u64;
        out.extend(record);
    }
    Some(())
}

/// A rolled back message of `len` bytes.
fn filler(gap: &Gap, at: u64, len: usize) -> Option<Vec<u8>> {
    let body = vec![0; len.checked_sub(filler_len_min(gap))?];
    let message = Message {
        sys_flag: sys_flag::ROLLBACK,
        born_timestamp_ms: gap.store_ms.0,
        version: Some(Version::V1),
        ..Message::of(DAMAGED_TOPIC, 0, &body, NOBODY)
    };
    encoded(&message, Vec::new(), gap, (0, at, gap.store_ms.0))
}

fn filler_len_min(gap: &Gap) -> usize {
    let topic = Version::V1.topic_len_bytes() + DAMAGED_TOPIC.len();
    HEAD_LEN_MIN + topic + PROPERTIES_LEN_BYTES + crc_len(gap)
}

fn version_of(topic: &str) -> Version {
    if topic.len() > Version::V1.topic_len_max() {
        Version::V2
    } else {
        Version::V1
    }
}

fn crc_len(gap: &Gap) -> usize {
    if gap.has_property_crc {
        crc_property::CRC_PROPERTY_LEN_BYTES
    } else {
        0
    }
}

/// The property with the CRC of the whole record at the end of properties, if there is one.
fn crc_tail(properties: &[u8]) -> &[u8] {
    let tail = properties.last_chunk::<{ crc_property::CRC_PROPERTY_LEN_BYTES }>();
    tail.filter(|tail| tail.starts_with(mqcore_record::properties::CRC32.as_bytes()))
        .map_or(&[], |tail| tail)
}

fn limits() -> Limits {
    Limits {
        body_len_max: i32::MAX as usize,
    }
}

fn prepared_len(message: &Message<'_>) -> Option<usize> {
    Some(Prepared::new(message, &limits()).ok()?.total_len())
}

fn encoded(
    message: &Message<'_>,
    mut properties: Vec<u8>,
    gap: &Gap,
    (queue_offset, at, store_ms): (i64, u64, i64),
) -> Option<Vec<u8>> {
    if gap.has_property_crc {
        crc_property::reserve(&mut properties);
    }
    let message = Message {
        properties: &properties,
        ..*message
    };
    let mut prepared = Prepared::new(&message, &limits()).ok()?;
    prepared.stamp(queue_offset, at.cast_signed(), store_ms);
    let mut record = vec![0; prepared.total_len()];
    prepared.write_to(&mut record);
    if gap.has_property_crc {
        crc_property::fill(&mut record).ok()?;
    }
    Some(record)
}
