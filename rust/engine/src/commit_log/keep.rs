//! Keeping what is whole behind bad bytes: other records take their place. The bad bytes are kept
//! aside and written down first. Knows no queue file: what queues hold of the lost messages is given to
//! it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use mqcore_record::{CrcCheck, inner_offsets};

use super::behind::Behind;
use super::cut::keep;
use super::cut_record::{CutFacts, CutKind, CutNames, CutRecord};
use super::filler::{Gap, Lost, fill};
use super::scan::{RECORD_LEN_MAX, Scan, scan};
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};
use crate::segment::{Chain, Segment};

/// What keeping did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeepReport {
    /// Bytes that were replaced.
    pub bytes: u64,
    /// Where they stood.
    pub at: Vec<u64>,
    /// Files that hold them now.
    pub kept_in: Vec<PathBuf>,
    /// Where each is written down.
    pub recorded_in: Vec<PathBuf>,
}

/// What a queue holds of a record that may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRecord {
    /// Its topic.
    pub topic: String,
    /// Its queue.
    pub queue_id: i32,
    /// Its queue offset.
    pub queue_offset: i64,
    /// Where it is in the log.
    pub physical_offset: u64,
    /// Bytes of its record.
    pub len_bytes: usize,
}

/// What queues hold of the records before and in the bad stretches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Records in the stretches.
    pub records: Vec<NamedRecord>,
    /// The next offset of each queue at the first stretch.
    pub ends: Next,
}

/// A part of a bad stretch inside of one file, and what is to be written there.
struct Part {
    from: u64,
    to: u64,
    bytes: Vec<u8>,
}

/// The next offset of queues.
pub type Next = HashMap<(String, i32), i64>;

/// Puts records in place of the bad bytes before whole records. `walked_from` is where the log was
/// walked from to the first of them; `named` is what queues hold of it.
///
/// # Durability
/// The copies are durable before the first byte is changed, and the new records on return. A crash
/// within leaves each stretch bad, or replaced.
///
/// # Errors
/// [`Error::Io`]; [`Error::ForeignFile`] where no record fits a stretch: nothing was changed then.
///
/// # Blocking
/// Reads the log from `walked_from` on.
pub fn keep_behind<D: Disk>(
    disk: &D,
    chain: &Chain<D>,
    (walked_from, behind): (u64, &Behind),
    named: &Named,
    (aside, facts): (&Path, &CutFacts),
    has_property_crc: bool,
) -> Result<KeepReport> {
    let mut course = Course {
        chain,
        aside,
        disk,
        has_property_crc,
        next: named.ends.clone(),
        last_ms: 1,
        walked_from,
    };
    let mut parts = Vec::new();
    let mut from = walked_from;
    for (number, stretch) in behind.stretches.iter().enumerate() {
        course.walk(from, stretch.from, None)?;
        let placed = course.placed(stretch.from, stretch.to, &named.records)?;
        let run_end = behind
            .stretches
            .get(number + 1)
            .map_or(behind.end, |next| next.from);
        let first_ms = course.last_ms;
        let mut unplaced = course.unplaced(&placed, stretch.to, run_end)?;
        let last_ms = course.first_ms(stretch.to)?.max(first_ms);
        let times = (first_ms, last_ms);
        parts.extend(course.parts(stretch.from, stretch.to, &placed, &mut unplaced, times)?);
        from = run_end;
    }
    let mut report = KeepReport::default();
    for part in &parts {
        course.replace(part, facts, &mut report)?;
    }
    Ok(report)
}

struct Course<'a, D: Disk> {
    disk: &'a D,
    chain: &'a Chain<D>,
    aside: &'a Path,
    has_property_crc: bool,
    /// The next offset of each queue seen so far.
    next: Next,
    last_ms: i64,
    walked_from: u64,
}

impl<D: Disk> Course<'_, D> {
    /// Walks whole records; where `missing` is given, notes the first offset of each queue there.
    fn walk(&mut self, from: u64, limit: u64, mut first: Option<&mut Next>) -> Result<()> {
        let walk = Scan {
            from,
            limit,
            crc: CrcCheck::Skip,
            is_recovery: true,
            torn_from: u64::MAX,
            has_property_crc: false,
            forgets: true,
        };
        let (next, last_ms) = (&mut self.next, &mut self.last_ms);
        scan(self.chain, walk, |record, _| {
            *last_ms = record.store_timestamp_ms.max(*last_ms);
            if !record.transaction().has_queue_offset() {
                return Ok(true);
            }
            let queue = (record.topic_str().into_owned(), record.queue_id);
            if let Some(first) = first.as_deref_mut() {
                first.entry(queue.clone()).or_insert(record.queue_offset);
            }
            let span = inner_offsets::span(record.sys_flag, record.properties);
            next.insert(queue, record.queue_offset + span.cast_signed());
            Ok(true)
        })?;
        Ok(())
    }

    /// Store time of the record at `physical_offset`.
    fn first_ms(&self, physical_offset: u64) -> Result<i64> {
        let mut first_ms = 1;
        let walk = Scan {
            from: physical_offset,
            limit: self.chain.end(),
            crc: CrcCheck::Skip,
            is_recovery: true,
            torn_from: u64::MAX,
            has_property_crc: false,
            forgets: false,
        };
        scan(self.chain, walk, |record, _| {
            first_ms = record.store_timestamp_ms;
            Ok(false)
        })?;
        Ok(first_ms)
    }

    /// Lost messages whose offsets are known: by units of queues, and by heads that can be read. In the
    /// order of their offsets.
    fn placed(&self, from: u64, to: u64, named: &[NamedRecord]) -> Result<Vec<Lost>> {
        let mut found: BTreeMap<u64, Lost> = BTreeMap::new();
        let mut at = from;
        while at < to {
            let Some(lost) = self.head_at(at, to)? else {
                break;
            };
            let len = lost.stood.map_or(0, |(_, len)| len);
            found.insert(at, lost);
            at += len as u64;
        }
        for each in named {
            let end = each.physical_offset + each.len_bytes as u64;
            if each.physical_offset < from || end > to {
                continue;
            }
            let head = self.head_at(each.physical_offset, to)?;
            let is_same = |lost: &Lost| {
                (&*lost.topic, lost.queue_id, lost.queue_offset)
                    == (&*each.topic, each.queue_id, each.queue_offset)
                    && lost.stood.is_some_and(|(_, len)| len == each.len_bytes)
            };
            let lost = head.filter(is_same).unwrap_or_else(|| Lost {
                topic: each.topic.clone(),
                queue_id: each.queue_id,
                queue_offset: each.queue_offset,
                stood: Some((each.physical_offset, each.len_bytes)),
                record: None,
            });
            found.insert(each.physical_offset, lost);
        }
        // Two that overlap: the one in front was there first.
        let mut end = from;
        let mut placed = Vec::new();
        for (at, lost) in found {
            let len = lost.stood.map_or(0, |(_, len)| len as u64);
            if at >= end {
                end = at + len;
                placed.push(lost);
            }
        }
        Ok(placed)
    }

    fn head_at(&self, at: u64, to: u64) -> Result<Option<Lost>> {
        let Some(segment) = self.chain.find(at) else {
            return Ok(None);
        };
        let len = (segment.end().min(to) - at).min(RECORD_LEN_MAX as u64);
        // What an interrupted replacement has changed already is read from its copy.
        let names = CutNames::find(self.disk, self.aside, CutKind::Keep, at)?;
        let copy = match &names.begun {
            Some(record) => record.kept_in.first(),
            None => None,
        };
        if let Some(path) = copy {
            let file = self.disk.open(path, Open::Read)?;
            let mut bytes = vec![0; len as usize];
            let got = file.read_at(&mut bytes, 0)?;
            bytes.truncate(got);
            return Ok(Lost::read(&bytes, at));
        }
        let bytes = segment.read(at - segment.base(), len as usize)?;
        Ok(Lost::read(bytes.as_bytes(), at))
    }

    /// Messages that queues must have had in a stretch because their offsets go on behind it, in the
    /// run that ends at `run_end`. The walk is behind that run then.
    fn unplaced(&mut self, placed: &[Lost], to: u64, run_end: u64) -> Result<Vec<Lost>> {
        let before = self.next.clone();
        let mut first = Next::new();
        self.walk(to, run_end, Some(&mut first))?;
        let mut known: HashMap<(String, i32), BTreeSet<i64>> = HashMap::new();
        for lost in placed.iter().filter(|lost| lost.is_queued()) {
            let queue = (lost.topic.clone(), lost.queue_id);
            known
                .entry(queue.clone())
                .or_default()
                .insert(lost.queue_offset);
            let behind = first.entry(queue.clone()).or_insert(lost.queue_offset + 1);
            self.next.entry(queue).or_insert(*behind);
        }
        let most = to.saturating_sub(self.chain.start());
        let mut unplaced = Vec::new();
        for (queue, seen) in first {
            let expected = match before.get(&queue) {
                Some(expected) => expected,
                // A queue that nobody has seen in the whole log began there.
                None if self.walked_from == 0 => &0,
                None => continue,
            };
            let has = known.get(&queue);
            // Each takes a byte at the least: a longer gap was there before.
            let gap = u64::try_from(seen - expected).unwrap_or(0);
            if gap > most {
                continue;
            }
            for queue_offset in *expected..seen {
                if !has.is_some_and(|has| has.contains(&queue_offset)) {
                    unplaced.push(Lost {
                        topic: queue.0.clone(),
                        queue_id: queue.1,
                        queue_offset,
                        stood: None,
                        record: None,
                    });
                }
            }
        }
        unplaced.sort_by(|a, b| {
            (&a.topic, a.queue_id, a.queue_offset).cmp(&(&b.topic, b.queue_id, b.queue_offset))
        });
        Ok(unplaced)
    }

    /// What is to stand in a stretch, file by file.
    fn parts(
        &self,
        from: u64,
        to: u64,
        placed: &[Lost],
        unplaced: &mut Vec<Lost>,
        store_ms: (i64, i64),
    ) -> Result<Vec<Part>> {
        let mut parts = Vec::new();
        let mut at = from;
        while at < to {
            let Some(segment) = self.chain.find(at) else {
                break;
            };
            let end = segment.end().min(to);
            let gap = Gap {
                from: at,
                to: end,
                ends_file: end == segment.end(),
                store_ms,
                has_property_crc: self.has_property_crc,
            };
            let inside: Vec<Lost> = placed
                .iter()
                .filter(|lost| {
                    lost.stood
                        .is_some_and(|(physical_offset, _)| (at..end).contains(&physical_offset))
                })
                .cloned()
                .collect();
            let Some(bytes) = fill(&gap, &inside, unplaced) else {
                let why = format!(
                    "no record fits the {} bad bytes at {at}: restore the file, or cut the log there",
                    end - at
                );
                return Err(Error::ForeignFile {
                    path: segment.path().to_owned(),
                    why,
                });
            };
            parts.push(Part {
                from: at,
                to: end,
                bytes,
            });
            at = end;
        }
        Ok(parts)
    }

    /// Keeps the bytes of a part aside, and writes the new ones.
    fn replace(&self, part: &Part, facts: &CutFacts, report: &mut KeepReport) -> Result<()> {
        let Some(segment) = self.chain.find(part.from) else {
            return Ok(());
        };
        let segment: &Segment<D> = &segment;
        let range = part.from - segment.base()..part.to - segment.base();
        let names = CutNames::find(self.disk, self.aside, CutKind::Keep, part.from)?;
        let path = names.copy_path(part.from);
        let record = names.begun.clone().unwrap_or_else(|| CutRecord {
            kind: CutKind::Keep,
            physical_offset: part.from,
            bytes: part.to - part.from,
            missing_bytes: 0,
            facts: facts.clone(),
            kept_in: vec![path.clone()],
            removed: Vec::new(),
        });
        if names.begun.is_none() {
            keep(self.disk, segment, range.clone(), &path)?;
            record.write(self.disk, &names, false)?;
        }
        segment.file().write_at(&part.bytes, range.start)?;
        segment.file().sync_data()?;
        record.write(self.disk, &names, true)?;
        report.bytes += record.bytes;
        report.at.push(part.from);
        report.kept_in.extend(record.kept_in);
        report.recorded_in.push(names.record_path());
        Ok(())
    }
}
