//! The state of every queue in one file, written at a clean stop, so that a start with very many
//! queues reads one file instead of their directories. It counts only together with the stamp that
//! its owner gave it: another broker that worked on the store in between changes what the stamp is
//! made of. Before the first change it gets another name: its numbers are then lower bounds (`witness`).
//!
//! Big endian:
//!
//! | field | type |
//! |---|---|
//! | magic `MQCQMAN1` | 8 bytes |
//! | queue file length | u64 |
//! | stamp | u32 length, bytes |
//! | number of queues | u64 |
//! | per queue: topic | u16 length, bytes (length 0: that of the queue before) |
//! | queue id | i32 |
//! | min, end | u64, u64 |
//! | first file, end of the last | u64, u64 |
//! | end of the last record | i64 |
//! | CRC-32 of all before | u32 |

use std::collections::BTreeMap;
use std::path::Path;

use super::queue::{Known, MIN_UNKNOWN, QUEUES_MAX, Queue, State};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, read_whole};
use crate::error::Result;
use crate::segment::Chain;
use crate::units::{TOPIC_MAX_BYTES, is_topic};

/// Name of the manifest in the root of the store; official brokers ignore it.
pub const MANIFEST_NAME: &str = "queues.manifest";
/// While it is written.
pub(super) const NEW_NAME: &str = "queues.manifest.new";
const MAGIC: &[u8; 8] = b"MQCQMAN1";
/// A stamp is some numbers, not a file.
pub(super) const STAMP_MAX_BYTES: usize = 4096;
/// A checkpoint is a page; a longer one is none.
const CHECKPOINT_LEN_MAX: u64 = 64 << 10;
/// Bytes of [`stop_mark`]; what follows them in a stamp are marks of files and directories.
const STAMP_STOP_BYTES: usize = 24;
const QUEUE_FIXED_BYTES: usize = 2 + 4 + 8 * 5;
const CRC_BYTES: usize = 4;
/// Longest manifest that the bounds allow.
pub(super) const MANIFEST_MAX_BYTES: u64 =
    (64 + STAMP_MAX_BYTES + QUEUES_MAX * (QUEUE_FIXED_BYTES + TOPIC_MAX_BYTES)) as u64;

/// The bytes of a manifest, queue by queue.
pub(super) struct ManifestWriter<'a> {
    out: Vec<u8>,
    topic_before: &'a str,
}

impl<'a> ManifestWriter<'a> {
    /// Begins a manifest of so many queues.
    pub(super) fn new(stamp: &[u8], count: usize, file_len_bytes: u64) -> Self {
        let mut out = Vec::with_capacity(64 + stamp.len() + count * 64);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&file_len_bytes.to_be_bytes());
        out.extend_from_slice(&(stamp.len() as u32).to_be_bytes());
        out.extend_from_slice(stamp);
        out.extend_from_slice(&(count as u64).to_be_bytes());
        let topic_before = "";
        Self { out, topic_before }
    }

    /// Adds a queue as far as its files hold it: units that wait in memory are left out.
    pub(super) fn add(&mut self, queue: &'a Queue, state: &State) {
        let topic = if queue.topic() == self.topic_before {
            ""
        } else {
            queue.topic()
        };
        self.topic_before = queue.topic();
        let out = &mut self.out;
        out.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        out.extend_from_slice(topic.as_bytes());
        out.extend_from_slice(&queue.queue_id().to_be_bytes());
        let (end, first_base, files_end) = (state.written, state.first_base, state.files_end);
        for number in [state.min.min(end), end, first_base, files_end] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&state.last_physical_end.to_be_bytes());
    }

    /// The whole manifest.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        let crc = crc32fast::hash(&self.out);
        self.out.extend_from_slice(&crc.to_be_bytes());
        self.out
    }
}

/// The queues of a manifest, by topic and queue id.
pub type ManifestQueues = BTreeMap<(Vec<u8>, i32), ManifestQueue>;

/// One queue of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestQueue {
    /// Queue offset behind its last unit.
    pub end: u64,
    /// First byte of its oldest file.
    pub first_base: u64,
    /// One after the last byte of its newest file.
    pub files_end: u64,
}

/// The queues that the manifest of a store names, by topic and queue id, for whoever looks at the
/// store as it lies there; `None` when it has none, or one of another stop than the last.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub fn manifest_queues<D: Disk>(
    disk: &D,
    root: &Path,
    chain: &Chain<D>,
    file_len_bytes: u64,
) -> Result<Option<ManifestQueues>> {
    let path = root.join(MANIFEST_NAME);
    let stamp = stop_mark(disk, root, chain)?;
    let Some(bytes) = read_whole(disk, &path, MANIFEST_MAX_BYTES)? else {
        return Ok(None);
    };
    let Some((_stamp, queues)) = decode_manifest(&bytes, Some(&stamp), file_len_bytes) else {
        return Ok(None);
    };
    let queues = queues.into_iter().map(|(topic, queue_id, state)| {
        let queue = ManifestQueue {
            end: state.end,
            first_base: state.first_base,
            files_end: state.files_end,
        };
        ((topic.as_bytes().to_vec(), queue_id), queue)
    });
    Ok(Some(queues.collect()))
}

/// The first bytes of a stamp: what names a stop by what files hold, so that it is the same in a copy
/// of the directory. An official broker that stored anything has changed its checkpoint.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub fn stop_mark<D: Disk>(disk: &D, root: &Path, chain: &Chain<D>) -> Result<Vec<u8>> {
    let checkpoint = read_whole(disk, &root.join("checkpoint"), CHECKPOINT_LEN_MAX)?;
    let sum = crc32fast::hash(checkpoint.as_deref().unwrap_or_default());
    let numbers = [chain.start(), chain.end(), u64::from(sum)];
    Ok(numbers.into_iter().flat_map(u64::to_be_bytes).collect())
}

/// Takes numbers and texts off the front of bytes; `None` when they end too early.
struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

pub(super) type Listed<'a> = (&'a str, i32, State);

/// The stamp and the queues of a manifest, when it is whole, of this file length, and of a stop that
/// this stamp names, but for its marks; of any stop without a stamp.
pub(super) fn decode_manifest<'a>(
    bytes: &'a [u8],
    stamp: Option<&[u8]>,
    file_len_bytes: u64,
) -> Option<(&'a [u8], Vec<Listed<'a>>)> {
    let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(CRC_BYTES)?)?;
    if crc != crc32fast::hash(body).to_be_bytes() {
        return None;
    }
    let mut take = Take(body);
    let is_ours = take.bytes(MAGIC.len())? == MAGIC && take.number()? == file_len_bytes;
    let stamp_len = take.array().map(u32::from_be_bytes)? as usize;
    let found = take.bytes(stamp_len)?;
    let stop_of = |of: &[u8]| of.get(..STAMP_STOP_BYTES).map(<[u8]>::to_vec);
    let is_named = stamp.is_none_or(|stamp| {
        found == stamp || stop_of(found).is_some_and(|of| Some(of) == stop_of(stamp))
    });
    if !is_ours || !is_named {
        return None;
    }
    let count = take.number()?;
    if count > QUEUES_MAX as u64 || count * QUEUE_FIXED_BYTES as u64 > take.0.len() as u64 {
        return None;
    }
    let mut queues = Vec::with_capacity(count as usize);
    let mut topic = "";
    for _ in 0..count {
        let len = usize::from(take.array().map(u16::from_be_bytes)?);
        if len > 0 {
            topic = std::str::from_utf8(take.bytes(len)?).ok()?;
        }
        let queue_id = take.array().map(i32::from_be_bytes)?;
        let state = decode_state(&mut take, file_len_bytes)?;
        if !is_topic(topic.as_bytes()) {
            return None;
        }
        queues.push((topic, queue_id, state));
    }
    take.0.is_empty().then_some((found, queues))
}

fn decode_state(take: &mut Take<'_>, file_len_bytes: u64) -> Option<State> {
    let (min, end) = (take.number()?, take.number()?);
    let (first_base, files_end) = (take.number()?, take.number()?);
    let last_physical_end = take.array().map(i64::from_be_bytes)?;
    let end_position = end.checked_mul(QUEUE_UNIT_BYTES)?;
    let is_aligned = first_base % file_len_bytes == 0 && files_end % file_len_bytes == 0;
    let is_ordered = first_base <= end_position && end_position <= files_end && min <= end;
    if !is_aligned || !is_ordered || min * QUEUE_UNIT_BYTES < first_base {
        return None;
    }
    let mut state = State::of_files(first_base, files_end);
    state.set_end(end);
    state.min = min;
    state.min_physical = MIN_UNKNOWN;
    state.last_physical_end = last_physical_end;
    state.known = Known::Manifest;
    Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue_store::QueueMap;

    const FILE: u64 = 10 * QUEUE_UNIT_BYTES;

    #[test]
    fn queues_of_one_topic_share_its_name_and_are_read_back() {
        let map = QueueMap::default();
        let mut states = Vec::new();
        for (topic, queue_id, end) in [("A", 0, 3), ("A", 1, 25), ("B", 0, 0)] {
            let mut state = State::of_files(0, 3 * FILE);
            state.set_end(end);
            state.last_physical_end = 7;
            states.push((map.insert(topic, queue_id, State::empty()), state));
        }
        let mut writer = ManifestWriter::new(b"stamp", states.len(), FILE);
        for (queue, state) in &states {
            writer.add(queue, state);
        }
        let bytes = writer.into_bytes();
        assert_eq!(
            bytes.len(),
            8 + 8 + 4 + 5 + 8 + 3 * QUEUE_FIXED_BYTES + 2 + 4
        );
        let (stamp, queues) = decode_manifest(&bytes, Some(b"stamp"), FILE).unwrap();
        assert_eq!(stamp, b"stamp");
        let read: Vec<_> = queues.iter().map(|(t, id, s)| (*t, *id, s.end)).collect();
        assert_eq!(read, [("A", 0, 3), ("A", 1, 25), ("B", 0, 0)]);
        assert!(queues.iter().all(|(_, _, s)| s.last_physical_end == 7));
        assert!(decode_manifest(&bytes, None, 2 * FILE).is_none(), "length");
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(decode_manifest(&broken, None, FILE).is_none(), "at {at}");
        }
    }
}
