//! The index side of a verification: each file in itself, each entry against its record, and
//! whether keys are missing.

use mqcore_record::{RecordView, Transaction, index_key_hash, index_tags_hash, scan_wanted};

use super::key_counts::KeyCounts;
use super::records::RecordReader;
use super::verify::Verifying;
use crate::disk::Disk;
use crate::error::Result;
use crate::key_index::{IndexScan, index_files, verify_file};

/// What an entry may be of.
enum Meant {
    Key,
    /// An index of 5.5 has one for each message with tags, others have none.
    Tags,
}

/// What of a record has this hash.
fn meant_by(record: &RecordView<'_>, key_hash: u32) -> Option<Meant> {
    if record.transaction() == Transaction::Rollback {
        return None;
    }
    let wanted = scan_wanted(record.properties);
    let keys = wanted.keys.unwrap_or_default().split(|byte| *byte == b' ');
    let has_hash = |key: &[u8]| index_key_hash(record.topic, key) == key_hash;
    if keys.chain(wanted.uniq_key).any(has_hash) {
        return Some(Meant::Key);
    }
    let tags = wanted.tags.filter(|tags| !tags.is_empty())?;
    (index_tags_hash(record.topic, tags) == key_hash).then_some(Meant::Tags)
}

impl<D: Disk> Verifying<'_, D> {
    /// Looks at every entry of every index file.
    pub(super) fn index(&mut self) -> Result<()> {
        let inspection = self.inspection;
        let disk = &inspection.disk;
        let (mut in_log, mut of_tags) = (0u64, 0u64);
        for path in index_files(disk, &inspection.root.join("index"))? {
            let name = path.display().to_string();
            if disk.stat(&path)?.is_some_and(|stat| stat.len_bytes == 0) {
                continue;
            }
            self.findings.index_files += 1;
            for problem in verify_file(disk, &path, inspection.layout)? {
                self.findings.report(
                    "index",
                    &name,
                    format!("entry {}: {}", problem.number, problem.why),
                );
            }
            let scan = IndexScan::open(disk, &path, inspection.layout)?;
            let mut records = RecordReader::new(&inspection.chain);
            for entry in scan {
                let entry = entry?;
                self.findings.index_entries += 1;
                let physical_offset = entry.physical_offset.cast_unsigned();
                if physical_offset < self.findings.log_start {
                    continue;
                }
                let number = entry.number;
                let meant = match records.at(physical_offset)? {
                    None => Err(format!(
                        "entry {number}: no record stands at {physical_offset}"
                    )),
                    Some(record) => meant_by(&record, entry.key_hash).ok_or_else(|| {
                        format!("entry {number}: no key of {physical_offset} has its hash")
                    }),
                };
                match meant {
                    Ok(Meant::Tags) => of_tags += 1,
                    Ok(Meant::Key) => in_log += 1,
                    Err(why) => {
                        in_log += 1;
                        self.findings.report("index", &name, why);
                    }
                }
            }
        }
        self.report_missing_keys(in_log);
        if of_tags > 0 {
            self.findings.note(format!(
                "index: {of_tags} entries are of tags, as 5.5 has them"
            ));
        }
        Ok(())
    }

    /// Compares the number of entries with the number of keys of the records they range over.
    fn report_missing_keys(&mut self, entries: u64) {
        let KeyCounts {
            range,
            in_range,
            behind,
        } = self.keys;
        let Some((first, last)) = range else { return };
        if entries < in_range {
            let why =
                format!("{entries} entries for {in_range} keys of records from {first} to {last}");
            self.findings.report("index", "all files", why);
        }
        if entries > in_range {
            let more = entries - in_range;
            self.findings.note(format!(
                "index: {more} keys are in it twice, from a recovery"
            ));
        }
        if behind > 0 {
            self.findings.note(format!(
                "index: {behind} keys behind {last} are not in it yet"
            ));
        }
    }
}
