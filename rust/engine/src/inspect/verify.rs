//! Verifying a store: one walk of the log with every CRC, each record looked for in its queue; then
//! what queues and index have beside that.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use mqcore_record::{CrcCheck, RecordView, Transaction, scan_wanted, tags_code};

use super::Inspection;
use super::batch_queues::Batches;
use super::expected::Expected;
use super::extensions::ExtensionReader;
use super::findings::Findings;
use super::key_counts::KeyCounts;
use super::queues::UnitReader;
use crate::commit_log::{Stop, whole_record_after};
use crate::consume_queue::{EXTENSION_DIR, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::units::MIB;

/// The topic of delayed messages: its units hold the time of delivery in place of the tags.
const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX";
/// Bytes per step of the walk.
const STEP_BYTES: usize = MIB as usize;

/// One queue and what the log has of it.
pub(super) struct Checked {
    pub(super) reader: UnitReader,
    extension: ExtensionReader,
    /// Units that name a position of the extension where nothing whole is.
    pub(super) unextended: u64,
    /// Units that name a record that agrees.
    pub(super) matched: u64,
    /// Records whose unit names a later record of the same queue offset.
    pub(super) superseded: u64,
    /// Records behind the end of the queue.
    pub(super) missing: u64,
    /// Records before its first file, and of `missing` those that were surely in it once.
    pub(super) lost: u64,
}

/// Records of a queue that has no files.
#[derive(Debug, Clone, Copy, Default)]
struct Queueless {
    records: u64,
    /// Those that surely were in it once.
    lost: u64,
}

/// Everything known while a store is verified.
pub(super) struct Verifying<'a, D: Disk> {
    pub(super) inspection: &'a Inspection<D>,
    pub(super) findings: Findings,
    pub(super) queues: HashMap<Vec<u8>, HashMap<i32, Checked>>,
    /// Records of topics and queues that have no files.
    queueless: HashMap<(Vec<u8>, i32), Queueless>,
    batches: Batches<'a, D>,
    pub(super) expected: Expected,
    /// Units of records stored before were synced (ms).
    synced_ms: i64,
    /// Keys that the index should have.
    pub(super) keys: KeyCounts,
}

impl<D: Disk> Inspection<D> {
    /// Bytes of the log that [`Inspection::verify`] has seen, and all of them.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        let all = self.chain.end() - self.chain.start();
        (self.walked.load(Ordering::Relaxed).min(all), all)
    }

    /// Walks log, queues and index and reports everything that disagrees.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: a file cannot be read. What files hold is never an error.
    ///
    /// # Blocking
    /// Reads all of the store.
    pub fn verify(&self) -> Result<Findings> {
        let mut verifying = Verifying {
            inspection: self,
            findings: Findings {
                log_start: self.chain.start(),
                ..Findings::default()
            },
            queues: HashMap::new(),
            queueless: HashMap::new(),
            batches: Batches::of(self)?,
            expected: Expected::of(self)?,
            synced_ms: self.synced_ms()?,
            keys: KeyCounts::of(&self.index_headers()?),
        };
        for queue in self.queue_files()? {
            let (topic, queue_id) = (queue.topic.clone().into_bytes(), queue.queue_id);
            let dir = self.root.join(EXTENSION_DIR).join(&queue.topic);
            let dir = dir.join(queue_id.to_string());
            let reader = UnitReader::new(queue, self.config.queue_file_len_bytes);
            let checked = Checked {
                reader,
                extension: ExtensionReader::new(dir, self.config.extension_file_len_bytes),
                unextended: 0,
                matched: 0,
                superseded: 0,
                missing: 0,
                lost: 0,
            };
            verifying
                .queues
                .entry(topic)
                .or_default()
                .insert(queue_id, checked);
        }
        verifying.log()?;
        verifying.compare_with_manifest();
        verifying.note_queueless();
        verifying.queues()?;
        let was_killed = self.has_abort()?;
        verifying
            .batches
            .finish(&mut verifying.findings, was_killed)?;
        verifying.index()?;
        Ok(verifying.findings)
    }
}

impl<D: Disk> Verifying<'_, D> {
    fn log(&mut self) -> Result<()> {
        let inspection = self.inspection;
        let chain = &inspection.chain;
        let mut batches = inspection.walk(None, None, CrcCheck::Verify, STEP_BYTES);
        let mut last_store_ms = 1;
        while let Some(batch) = batches.step(chain)? {
            for placed in &batch.placed {
                if placed.is_blank {
                    self.findings.blanks += 1;
                    continue;
                }
                let Some(record) = batch.view(*placed) else {
                    continue;
                };
                last_store_ms = record.store_timestamp_ms;
                self.record(&record, batch.physical_offset(*placed))?;
            }
            let seen = batches.position() - chain.start();
            inspection.walked.store(seen, Ordering::Relaxed);
        }
        let end = batches.position();
        self.findings.log_end = end;
        inspection
            .walked
            .store(chain.end() - chain.start(), Ordering::Relaxed);
        if let Some(stop) = batches.stop().filter(|stop| !matches!(stop, Stop::End))
            && let Some(physical_offset) = whole_record_after(chain, end, last_store_ms, i64::MAX)?
        {
            let bad = stop.why().unwrap_or_else(|| "zeros".to_owned());
            let why = format!("{bad}; a whole record follows at {physical_offset}: this is damage");
            self.findings.report("log", end, why);
        }
        Ok(())
    }

    fn record(&mut self, record: &RecordView<'_>, physical_offset: u64) -> Result<()> {
        self.findings.records += 1;
        if record.physical_offset.cast_unsigned() != physical_offset {
            let why = format!(
                "the record there says it stands at {}",
                record.physical_offset
            );
            self.findings.report("log", physical_offset, why);
        }
        let wanted = scan_wanted(record.properties);
        self.keys.add(record, &wanted, physical_offset);
        if !matches!(
            record.transaction(),
            Transaction::None | Transaction::Commit
        ) {
            return Ok(());
        }
        let (batches, findings) = (&mut self.batches, &mut self.findings);
        if batches.check(findings, (record, physical_offset), &wanted)? {
            return Ok(());
        }
        let code = match wanted.delay {
            // The time of delivery depends on a setting that the store does not hold.
            Some(_) if record.topic == SCHEDULE_TOPIC => None,
            _ => Some(wanted.tags.map_or(0, tags_code)),
        };
        let own = (record.topic, record.queue_id, record.queue_offset);
        self.in_queue(own, physical_offset, record, code)?;
        if let (Some(names), Some(offsets)) = (wanted.multi_dispatch, wanted.multi_queue_offset) {
            let names = names.split(|byte| *byte == b',');
            let offsets = offsets.split(|byte| *byte == b',');
            for (name, offset) in names.zip(offsets) {
                let offset = std::str::from_utf8(offset)
                    .ok()
                    .and_then(|text| text.parse().ok());
                let Some(offset) = offset else { continue };
                self.in_queue((name, 0, offset), physical_offset, record, code)?;
            }
        }
        Ok(())
    }

    fn in_queue(
        &mut self,
        (topic, queue_id, queue_offset): (&[u8], i32, i64),
        physical_offset: u64,
        record: &RecordView<'_>,
        mut code: Option<i64>,
    ) -> Result<()> {
        let was_synced = record.store_timestamp_ms < self.synced_ms;
        let found = self
            .queues
            .get_mut(topic)
            .and_then(|queues| queues.get_mut(&queue_id));
        let Some(queue) = found.filter(|queue| !queue.reader.queue.files.is_empty()) else {
            let queue = (topic.to_vec(), queue_id);
            let count = self.queueless.entry(queue).or_default();
            count.records += 1;
            count.lost += u64::from(was_synced);
            return Ok(());
        };
        let offset = queue_offset.cast_unsigned();
        if offset < queue.reader.queue.first {
            queue.lost += u64::from(was_synced);
            return Ok(());
        }
        let Some(mut unit) = queue.reader.unit(&self.inspection.disk, offset)? else {
            queue.missing += u64::from(!was_synced);
            queue.lost += u64::from(was_synced);
            return Ok(());
        };
        let is_of_record = unit.physical_offset == physical_offset.cast_signed();
        if unit.is_extended() && is_of_record {
            let disk = &self.inspection.disk;
            match queue.extension.find(disk, unit.tags_code)? {
                // Of another message: the unit stays as it is, and is reported.
                Some(found) if found.store_timestamp_ms != record.store_timestamp_ms => {
                    code = Some(code.unwrap_or_default());
                }
                Some(found) => unit.tags_code = found.tags_code,
                None => {
                    queue.unextended += 1;
                    code = None;
                }
            }
        }
        let expected = Unit {
            physical_offset: physical_offset.cast_signed(),
            size_bytes: i32::try_from(record.total_len_bytes).unwrap_or(i32::MAX),
            tags_code: code.unwrap_or(unit.tags_code),
        };
        if unit == expected {
            queue.matched += 1;
        } else if unit.physical_offset > expected.physical_offset && !unit.is_blank() {
            queue.superseded += 1;
        } else {
            let name = format!("{} {queue_id}", String::from_utf8_lossy(topic));
            let why = format!("offset {offset} holds {unit:?}, the log has {expected:?}");
            self.findings.report("queue", name, why);
        }
        Ok(())
    }

    /// A queue without files is lawful where its topic was deleted.
    fn note_queueless(&mut self) {
        let mut queues: Vec<_> = std::mem::take(&mut self.queueless).into_iter().collect();
        queues.sort_by(|a, b| a.0.cmp(&b.0));
        let mut notes = Vec::new();
        for ((topic, queue_id), Queueless { records, lost }) in queues {
            let name = format!("{} {queue_id}", String::from_utf8_lossy(&topic));
            if lost > 0 && self.expected.has(&topic, queue_id) {
                let why = format!("its files are gone, and {records} records of it are in the log");
                self.findings.report("queue", name, why);
            } else {
                notes.push(format!(
                    "{records} records of {name} have no queue: its files are gone"
                ));
            }
        }
        notes.sort();
        self.findings.notes.extend(notes);
    }

    /// A queue must hold what our last clean stop has left of it.
    fn compare_with_manifest(&mut self) {
        for ((topic, queue_id), left) in self.expected.manifest.iter().flatten() {
            let name = format!("{} {queue_id}", String::from_utf8_lossy(topic));
            let found = self.queues.get(topic).and_then(|ids| ids.get(queue_id));
            // What the log has of it and the queue has not is counted by record.
            let lost = found.map_or(0, |checked| checked.lost + checked.missing);
            let found = found.map(|checked| &checked.reader.queue);
            let files = left.first_base..left.files_end;
            if files.is_empty() {
                continue;
            }
            let Some(found) = found.filter(|queue| !queue.files.is_empty()) else {
                // Where the log has records of it that is reported already.
                if !self.queueless.contains_key(&(topic.clone(), *queue_id)) {
                    let why = format!("its files are gone: it ended at {}", left.end);
                    self.findings.report("queue", name, why);
                }
                continue;
            };
            let len = self.inspection.config.queue_file_len_bytes;
            let kept = found.files.iter().filter(|(base, _)| files.contains(base));
            let missing = (files.end - files.start) / len - kept.count() as u64;
            if missing > 0 {
                let why = format!("{missing} of its files are gone");
                self.findings.report("queue", &name, why);
            }
            if found.end < left.end && lost == 0 {
                let why = format!(
                    "its units end at {}, the last stop left it at {}",
                    found.end, left.end
                );
                self.findings.report("queue", name, why);
            }
        }
    }
}
