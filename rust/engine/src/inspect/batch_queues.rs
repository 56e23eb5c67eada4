//! The files of batch queues (5.x) as they lie there: their units one after another, compared with
//! the records of a walk through the log. Trusts nothing but the names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mqcore_record::{RecordView, Wanted, inner_offsets, tags_code};

use super::Inspection;
use super::findings::Findings;
use super::queue_report::QueueReport;
use crate::batch_queue::BatchUnit;
use crate::config::BATCH_UNIT_BYTES;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::units::{parse_offset_file_name, parse_queue_id};

/// Bytes of a unit, as a length in memory.
const UNIT_LEN: usize = BATCH_UNIT_BYTES as usize;
/// Units read at once: with many queues each holds this many, so it is small.
const UNITS_PER_READ: u64 = 256;

/// The units of one queue, in their order.
pub(super) struct BatchWalk {
    /// Ordinal of the first unit of each file, and its path.
    files: Vec<(u64, PathBuf)>,
    file_units: u64,
    at: u64,
    buffer: Vec<u8>,
    buffer_first: u64,
}

/// One queue and what the log has of it.
pub(super) struct CheckedBatches {
    walk: BatchWalk,
    /// Units passed so far.
    units: u64,
    missing: u64,
}

impl BatchWalk {
    /// The unit that comes next in the walk; `None` at the end.
    fn peek<D: Disk>(&mut self, disk: &D) -> Result<Option<BatchUnit>> {
        if let Some(unit) = self.buffered() {
            return Ok(unit);
        }
        let base = self.at - self.at % self.file_units;
        let Some((_, path)) = self.files.iter().find(|(first, _)| *first == base) else {
            return Ok(None);
        };
        let count = UNITS_PER_READ.min(self.file_units - (self.at - base));
        self.buffer.resize(count as usize * UNIT_LEN, 0);
        let position = (self.at - base) * BATCH_UNIT_BYTES;
        let got = disk
            .open(path, Open::Read)?
            .read_at(&mut self.buffer, position)?;
        self.buffer.truncate(got);
        self.buffer_first = self.at;
        Ok(self.buffered().flatten())
    }

    fn buffered(&self) -> Option<Option<BatchUnit>> {
        let start = usize::try_from(self.at.checked_sub(self.buffer_first)?).ok()? * UNIT_LEN;
        let bytes = self.buffer.get(start..)?.first_chunk()?;
        Some(BatchUnit::decode(bytes))
    }
}

impl CheckedBatches {
    /// Passes the units in front of a physical offset; those that the log should have are reported.
    fn pass<D: Disk>(
        &mut self,
        disk: &D,
        physical_offset: u64,
        mut stray: impl FnMut(&BatchUnit),
    ) -> Result<Option<BatchUnit>> {
        while let Some(unit) = self.walk.peek(disk)? {
            if unit.physical_offset >= physical_offset {
                return Ok(Some(unit));
            }
            stray(&unit);
            self.walk.at += 1;
            self.units += 1;
        }
        Ok(None)
    }
}

/// The batch queues of a store while it is verified.
pub(super) struct Batches<'a, D: Disk> {
    disk: &'a D,
    /// By topic and queue id.
    queues: BTreeMap<Vec<u8>, BTreeMap<i32, CheckedBatches>>,
}

impl<'a, D: Disk> Batches<'a, D> {
    /// Every batch queue, before its first unit.
    pub(super) fn of(inspection: &'a Inspection<D>) -> Result<Self> {
        let mut batches = BTreeMap::<_, BTreeMap<_, _>>::new();
        for ((topic, queue_id), walk) in batch_walks(inspection)? {
            let queue = CheckedBatches {
                walk,
                units: 0,
                missing: 0,
            };
            let queues = batches.entry(topic.into_bytes()).or_default();
            queues.insert(queue_id, queue);
        }
        Ok(Self {
            disk: &inspection.disk,
            queues: batches,
        })
    }

    /// Compares a record with the next unit of its batch queue; false where it has none.
    pub(super) fn check(
        &mut self,
        findings: &mut Findings,
        (record, physical_offset): (&RecordView<'_>, u64),
        wanted: &Wanted<'_>,
    ) -> Result<bool> {
        let queues = self.queues.get_mut(record.topic);
        let Some(queue) = queues.and_then(|queues| queues.get_mut(&record.queue_id)) else {
            return Ok(false);
        };
        let name = name_of(record.topic, record.queue_id);
        let log_start = findings.log_start;
        let found = queue.pass(self.disk, physical_offset, |unit| {
            if unit.physical_offset >= log_start {
                findings.report("queue", &name, stray(unit));
            }
        })?;
        let (base, count) =
            inner_offsets::base_and_count(wanted, record.queue_offset.cast_unsigned());
        let expected = BatchUnit {
            physical_offset,
            size_bytes: u32::try_from(record.total_len_bytes).unwrap_or(u32::MAX),
            tags_code: wanted.tags.map_or(0, tags_code),
            store_timestamp_ms: record.store_timestamp_ms,
            base,
            count,
        };
        match found {
            Some(unit) if unit.physical_offset == physical_offset => {
                if unit != expected {
                    let why = format!("it has {unit:?}, the log has {expected:?}");
                    findings.report("queue", &name, why);
                }
                queue.walk.at += 1;
                queue.units += 1;
            }
            _ => queue.missing += 1,
        }
        Ok(true)
    }

    /// What no record matched, and what no unit did.
    pub(super) fn finish(&mut self, findings: &mut Findings, was_killed: bool) -> Result<()> {
        for (topic, queues) in std::mem::take(&mut self.queues) {
            for (queue_id, mut queue) in queues {
                let name = name_of(&topic, queue_id);
                let (start, end) = (findings.log_start, findings.log_end);
                let mut beyond = None;
                queue.pass(self.disk, u64::MAX, |unit| {
                    if unit.physical_offset >= end && was_killed {
                        beyond.get_or_insert(unit.base);
                    } else if unit.physical_offset >= start {
                        findings.report("queue", &name, stray(unit));
                    }
                })?;
                findings.queues += 1;
                findings.units += queue.units;
                if let Some(base) = beyond {
                    findings.note(format!(
                        "queue {name}: from offset {base} on it names places behind the end of the \
                         log: a start cuts them"
                    ));
                }
                let missing = queue.missing;
                if missing > 0 && was_killed {
                    findings.note(format!(
                        "queue {name}: {missing} records are not in it yet: a start adds them"
                    ));
                } else if missing > 0 {
                    let why = format!("{missing} records of the log are not in it");
                    findings.report("queue", &name, why);
                }
            }
        }
        Ok(())
    }
}

/// Every batch queue, before its first unit.
fn batch_walks<D: Disk>(inspection: &Inspection<D>) -> Result<BTreeMap<(String, i32), BatchWalk>> {
    let dir = inspection.root.join("batchconsumequeue");
    let file_units = (inspection.config.batch_file_len_bytes / BATCH_UNIT_BYTES).max(1);
    let mut walks = BTreeMap::new();
    for topic in inspection
        .disk
        .list(&dir)?
        .iter()
        .filter(|entry| entry.is_dir)
    {
        let topic_dir = dir.join(&topic.name);
        for queue in inspection.disk.list(&topic_dir)? {
            let Some(queue_id) = parse_queue_id(&queue.name).filter(|_| queue.is_dir) else {
                continue;
            };
            let queue_dir = topic_dir.join(&queue.name);
            let entries = inspection.disk.list(&queue_dir)?;
            let files = entries.iter().filter(|e| !e.is_dir && e.len_bytes > 0);
            let files: Vec<(u64, PathBuf)> = files
                .filter_map(|entry| {
                    let base = parse_offset_file_name(&entry.name)?;
                    Some((base / BATCH_UNIT_BYTES, queue_dir.join(&entry.name)))
                })
                .collect();
            let walk = BatchWalk {
                at: files.first().map_or(0, |file| file.0),
                files,
                file_units,
                buffer: Vec::new(),
                buffer_first: 0,
            };
            walks.insert((topic.name.clone(), queue_id), walk);
        }
    }
    Ok(walks)
}

/// Every batch queue with its bounds.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub(super) fn batch_reports<D: Disk>(inspection: &Inspection<D>) -> Result<Vec<QueueReport>> {
    let log_start = inspection.chain.start();
    let mut reports = Vec::new();
    for ((topic, queue_id), walk) in batch_walks(inspection)? {
        let files = walk.files.len();
        let mut queue = CheckedBatches {
            walk,
            units: 0,
            missing: 0,
        };
        let mut end = 0;
        let first = queue.pass(&inspection.disk, log_start, |unit| end = unit.end())?;
        let min_offset = first.map_or(end, |unit| unit.base);
        queue.pass(&inspection.disk, u64::MAX, |unit| end = unit.end())?;
        reports.push(QueueReport {
            topic,
            queue_id,
            min_offset,
            min_physical_offset: first.map(|unit| unit.physical_offset),
            max_offset: end,
            files,
        });
    }
    Ok(reports)
}

fn name_of(topic: &[u8], queue_id: i32) -> String {
    format!("{} {queue_id}", String::from_utf8_lossy(topic))
}

fn stray(unit: &BatchUnit) -> String {
    format!(
        "offset {} names {}, where no record of the queue stands",
        unit.base, unit.physical_offset
    )
}
