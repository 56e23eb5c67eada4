//! The index side of a verification: each file in itself, each entry against its record, and
//! whether keys are missing.

use std::path::PathBuf;

use mqcore_record::{RecordView, Transaction, Wanted, index_key_hash, scan_wanted};

use super::Inspection;
use super::records::RecordReader;
use super::verify::Verifying;
use crate::disk::Disk;
use crate::error::Result;
use crate::key_index::{IndexHeader, IndexScan, index_files, verify_file};

impl<D: Disk> Verifying<'_, D> {
    /// Looks at every entry of every index file.
    pub(super) fn index(&mut self) -> Result<()> {
        let inspection = self.inspection;
        let disk = &inspection.disk;
        let mut in_log = 0u64;
        for path in index_files(disk, &inspection.root.join("index"))? {
            let name = path.display().to_string();
            if disk.stat(&path)?.is_some_and(|stat| stat.len_bytes == 0) {
                continue;
            }
            self.verdict.index_files += 1;
            for problem in verify_file(disk, &path, inspection.layout)? {
                self.verdict.tell(
                    "index",
                    &name,
                    format!("entry {}: {}", problem.number, problem.why),
                );
            }
            let scan = IndexScan::open(disk, &path, inspection.layout)?;
            let mut records = RecordReader::new(&inspection.chain);
            for entry in scan {
                let entry = entry?;
                self.verdict.index_entries += 1;
                let place = entry.physical_offset.cast_unsigned();
                if place < self.verdict.log_start {
                    continue;
                }
                in_log += 1;
                let why = match records.at(place)? {
                    None => Some(format!(
                        "entry {}: no record stands at {place}",
                        entry.number
                    )),
                    Some(record) => {
                        let wanted = scan_wanted(record.properties);
                        let keys = wanted.keys.unwrap_or_default().split(|byte| *byte == b' ');
                        let mut all = keys.chain(wanted.uniq_key);
                        let is_there = record.transaction() != Transaction::Rollback
                            && all.any(|key| index_key_hash(record.topic, key) == entry.key_hash);
                        let number = entry.number;
                        (!is_there)
                            .then(|| format!("entry {number}: no key of {place} has its hash"))
                    }
                };
                if let Some(why) = why {
                    self.verdict.tell("index", &name, why);
                }
            }
        }
        self.tell_missing_keys(in_log);
        Ok(())
    }

    /// Compares the number of entries with the number of keys of the records they range over.
    fn tell_missing_keys(&mut self, entries: u64) {
        let KeyCounts {
            range,
            in_range,
            behind,
        } = self.keys;
        let Some((first, last)) = range else { return };
        if entries < in_range {
            let why =
                format!("{entries} entries for {in_range} keys of records from {first} to {last}");
            self.verdict.tell("index", "all files", why);
        }
        if entries > in_range {
            let more = entries - in_range;
            self.verdict.note(format!(
                "index: {more} keys are in it twice, from a recovery"
            ));
        }
        if behind > 0 {
            self.verdict.note(format!(
                "index: {behind} keys behind {last} are not in it yet"
            ));
        }
    }
}

/// Keys of the records that the index ranges over, and of those behind it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyCounts {
    range: Option<(u64, u64)>,
    in_range: u64,
    behind: u64,
}

impl KeyCounts {
    /// Counts for the files of a store: what they range over, their headers say.
    pub(super) fn of<D: Disk>(inspection: &Inspection<D>) -> Result<Self> {
        let mut range: Option<(u64, u64)> = None;
        for (_, header) in inspection.index_headers()? {
            if header.next_number <= 1 {
                continue;
            }
            let begin = header.begin_physical_offset.cast_unsigned();
            let end = header.end_physical_offset.cast_unsigned();
            let (first, last) = range.unwrap_or((begin, end));
            range = Some((first.min(begin), last.max(end)));
        }
        Ok(Self {
            range,
            in_range: 0,
            behind: 0,
        })
    }

    /// Counts the keys of a record.
    pub(super) fn add(&mut self, record: &RecordView<'_>, wanted: &Wanted<'_>, place: u64) {
        let Some((first, last)) = self.range else {
            return;
        };
        if record.transaction() == Transaction::Rollback {
            return;
        }
        let keys = wanted.keys.unwrap_or_default().split(|byte| *byte == b' ');
        let count = keys.filter(|key| !key.is_empty()).count() as u64
            + u64::from(wanted.uniq_key.is_some());
        if place > last {
            self.behind += count;
        } else if place >= first {
            self.in_range += count;
        }
    }
}

impl<D: Disk> Inspection<D> {
    /// The index files with their headers, oldest first.
    ///
    /// # Errors
    /// [`crate::error::Error::WrongFileSize`], [`crate::error::Error::Io`].
    pub fn index_headers(&self) -> Result<Vec<(PathBuf, IndexHeader)>> {
        let mut out = Vec::new();
        for path in index_files(&self.disk, &self.root.join("index"))? {
            // A file that is being made has no length yet.
            if self
                .disk
                .stat(&path)?
                .is_some_and(|stat| stat.len_bytes > 0)
            {
                let header = IndexScan::open(&self.disk, &path, self.layout)?.header();
                out.push((path, header));
            }
        }
        Ok(out)
    }
}
