//! The window of a store that was opened: from the end of its log, by heads, topics and properties.
//! Bodies are passed over.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::Store;
use mqcore_record::layout::HEAD_LEN_MAX;
use mqcore_record::{Outline, peek_store_timestamp_ms};

use super::Repeats;
use super::identity::{Identity, Marks};

/// Bytes read at once: some hundred small records, and little beside the body of a large one.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the log that are looked through at the most, whole files: what a disk of 200 MB/s reads
/// in 20 s, for a start that must not take longer. What is older is not known again.
pub const REBUILT_BYTES_MAX: u64 = 4 << 30;

/// What a rebuild has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Where in the log it began.
    pub from: u64,
    /// Where it ended.
    pub end: u64,
    /// Records of the window's time.
    pub records: u64,
    /// Those among them that count.
    pub marks: u64,
}

/// Looks through the end of the log.
pub(super) fn rebuild<D: Disk, C: Clock>(
    repeats: &mut Repeats,
    store: &Store<D, C>,
    now_ms: i64,
) -> Result<Rebuilt> {
    let files = store.files();
    let end = files.readable();
    let since_ms = now_ms.saturating_sub(repeats.length_ms);
    let from = first_file(store, since_ms, end)?;
    let mut done = Rebuilt {
        from,
        end,
        ..Rebuilt::default()
    };
    let mut bytes = Chunks {
        store,
        end,
        start: 0,
        bytes: Vec::new(),
    };
    let mut at = from;
    while at < end {
        let Some(outline) = bytes.at(at, HEAD_LEN_MAX)?.and_then(Outline::of) else {
            // The end of a file: records go on in the next one.
            let segment = files.chain.find(at);
            let Some(next) = segment.map(|segment| segment.end()) else {
                break;
            };
            at = next;
            continue;
        };
        if outline.store_timestamp_ms >= since_ms {
            let tail = outline.total_len_bytes - outline.tail_at;
            let tail = bytes.at(at + outline.tail_at as u64, tail)?;
            let names = tail.and_then(|tail| outline.names(tail));
            let identity = names.and_then(|(topic, properties)| {
                Identity::of_stored(topic, outline.sys_flag, properties)
            });
            if let Some(identity) = identity {
                let mark = Marks::of_process().of(&identity);
                repeats.insert(mark, at, outline.store_timestamp_ms);
                done.marks += 1;
            }
            done.records += 1;
        }
        at += outline.total_len_bytes as u64;
    }
    Ok(done)
}

/// Where the newest file begins whose first record is older than the window; no farther back than
/// the bound allows.
fn first_file<D: Disk, C: Clock>(store: &Store<D, C>, since_ms: i64, end: u64) -> Result<u64> {
    let segments = store.files().chain.segments();
    let mut from = end;
    for segment in segments.iter().rev().filter(|s| s.base() < end) {
        if from < end && end - segment.base() > REBUILT_BYTES_MAX {
            break;
        }
        from = segment.base();
        let len = (end - from).min(HEAD_LEN_MAX as u64) as usize;
        let head = segment.bytes(0, len)?;
        if peek_store_timestamp_ms(&head).is_some_and(|store_ms| store_ms < since_ms) {
            break;
        }
    }
    Ok(from)
}

/// Bytes of the log by their place, read in chunks.
struct Chunks<'a, D: Disk, C: Clock> {
    store: &'a Store<D, C>,
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<D: Disk, C: Clock> Chunks<'_, D, C> {
    /// Bytes from a place on: as many as were asked for, fewer at the end of a file; `None` where
    /// there is none.
    fn at(&mut self, physical_offset: u64, len: usize) -> Result<Option<&[u8]>> {
        let is_here = physical_offset >= self.start
            && physical_offset.saturating_add(len as u64) <= self.start + self.bytes.len() as u64;
        if !is_here {
            let chain = &self.store.files().chain;
            let want = len.max(CHUNK_BYTES);
            let spare = std::mem::take(&mut self.bytes);
            let Some(chunk) = chain.chunk_into(physical_offset, self.end, want, spare)? else {
                return Ok(None);
            };
            self.start = chunk.start;
            self.bytes = if chunk.bytes.is_copy() {
                chunk.bytes.into_spare()
            } else {
                chunk.bytes.as_bytes().to_vec()
            };
        }
        let from = (physical_offset - self.start) as usize;
        let to = self.bytes.len().min(from + len);
        Ok(self.bytes.get(from..to))
    }
}
