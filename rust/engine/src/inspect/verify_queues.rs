//! The queue side of a verification: units that no record matched are followed to their offset.

use mqcore_record::scan_wanted;

use super::findings::Findings;
use super::records::RecordReader;
use super::verify::{Checked, Verifying};
use crate::disk::Disk;
use crate::error::Result;

impl<D: Disk> Verifying<'_, D> {
    /// Looks at every unit of every queue.
    pub(super) fn queues(&mut self) -> Result<()> {
        let inspection = self.inspection;
        let was_killed = inspection.has_abort()?;
        let mut queues = std::mem::take(&mut self.queues);
        let mut names: Vec<(Vec<u8>, i32)> = queues
            .iter()
            .flat_map(|(topic, ids)| ids.keys().map(move |id| (topic.clone(), *id)))
            .collect();
        names.sort();
        for (topic, queue_id) in names {
            let Some(queue) = queues
                .get_mut(&topic)
                .and_then(|ids| ids.get_mut(&queue_id))
            else {
                continue;
            };
            self.findings.queues += 1;
            let name = format!("{} {queue_id}", String::from_utf8_lossy(&topic));
            report_counts(&mut self.findings, &name, queue, was_killed);
            self.units(&name, queue, was_killed)?;
        }
        Ok(())
    }

    fn units(&mut self, name: &str, queue: &mut Checked, was_killed: bool) -> Result<()> {
        let inspection = self.inspection;
        let (start, end) = (self.findings.log_start, self.findings.log_end);
        let (first, last) = (queue.reader.queue.first, queue.reader.queue.end);
        let mut counted = 0;
        let mut holes = 0u64;
        for index in first..last {
            match queue.reader.unit(&inspection.disk, index)? {
                None => holes += 1,
                Some(unit) => {
                    let physical_offset = unit.physical_offset.cast_unsigned();
                    counted +=
                        u64::from(!unit.is_blank() && (start..end).contains(&physical_offset));
                }
            }
        }
        self.findings.units += last - first;
        if holes > 0 {
            let why = format!("{holes} units between {first} and {last} are not there");
            self.findings.report("queue", name, why);
        }
        if counted == queue.matched && !has_beyond(queue, inspection, end)? {
            return Ok(());
        }
        let mut records = RecordReader::new(&inspection.chain);
        for index in first..last {
            let Some(unit) = queue.reader.unit(&inspection.disk, index)? else {
                continue;
            };
            let physical_offset = unit.physical_offset.cast_unsigned();
            if unit.is_blank() || physical_offset < start {
                continue;
            }
            let record = records.at(physical_offset)?;
            let why = match record {
                Some(record) => {
                    let is_owner = record.topic == queue.reader.queue.topic.as_bytes()
                        && record.queue_id == queue.reader.queue.queue_id
                        && record.queue_offset.cast_unsigned() == index;
                    let is_guest = scan_wanted(record.properties).multi_dispatch.is_some();
                    let has_size = i64::from(unit.size_bytes) == record.total_len_bytes as i64;
                    if has_size && (is_owner || is_guest) {
                        continue;
                    }
                    format!(
                        "offset {index} names {physical_offset}, where {} {} {} of {} bytes stands",
                        record.topic_str(),
                        record.queue_id,
                        record.queue_offset,
                        record.total_len_bytes
                    )
                }
                // A running broker goes on, and a killed one's queues may be ahead of its log.
                None if physical_offset >= end && was_killed => {
                    self.findings.note(format!(
                        "queue {name}: from offset {index} on it names places behind the end of \
                         the log: a start cuts them"
                    ));
                    break;
                }
                None => format!("offset {index} names {physical_offset}, where no record stands"),
            };
            self.findings.report("queue", name, why);
        }
        Ok(())
    }
}

/// Whether the last unit lies behind the end of the log: offsets only rise.
fn has_beyond<D: Disk>(
    queue: &mut Checked,
    inspection: &super::Inspection<D>,
    end: u64,
) -> Result<bool> {
    let Some(last) = queue.reader.queue.end.checked_sub(1) else {
        return Ok(false);
    };
    let unit = queue.reader.unit(&inspection.disk, last)?;
    Ok(unit.is_some_and(|unit| !unit.is_blank() && unit.physical_offset.cast_unsigned() >= end))
}

fn report_counts(findings: &mut Findings, name: &str, queue: &Checked, was_killed: bool) {
    if queue.superseded > 0 {
        findings.note(format!(
            "queue {name}: {} records share their queue offset with a later one, which the queue \
             names: the queue was deleted and began again",
            queue.superseded
        ));
    }
    if queue.unextended > 0 {
        findings.note(format!(
            "queue {name}: {} of its units name places of its extension where nothing stands: \
             such messages are given whatever their tags",
            queue.unextended
        ));
    }
    if queue.lost > 0 {
        let why = format!("{} records of the log are not in it", queue.lost);
        findings.report("queue", name, why);
    }
    if queue.missing == 0 {
        return;
    }
    let missing = queue.missing;
    if was_killed {
        findings.note(format!(
            "queue {name}: {missing} records are not in it yet: a start adds them"
        ));
    } else {
        findings.report(
            "queue",
            name,
            format!("{missing} records of the log are not in it"),
        );
    }
}
