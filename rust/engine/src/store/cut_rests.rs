//! What another broker left when it cut its log: an official one moves the ends of log and queues in memory
//! only (`CommitLog.truncateDirtyFiles`, `ConsumeQueue.truncateDirtyLogicFiles`), and does not touch its index,
//! so that old bytes stay behind the new ends. After its clean stop the units of queues that stayed name records
//! behind the end of the log, or below it, where the log has been written anew, places inside of other records.
//! Distinguishes them from units whose records the log has lost. Changes nothing.
//!
//! | a unit at the end of a queue names | what it means |
//! |---|---|
//! | its own record, below the end | the queue ends there |
//! | a place below the end that whole records cover, without its record | left of a cut: proof |
//! | its own record behind the end, whole and older than the last record | left of a cut: proof |
//! | its own record behind the end, whole and not older | the log is damaged before it |
//! | the end itself, where no whole record is | the log is damaged there |
//! | nothing whole behind the end | may be either: the log file with it went with the cut, or is damaged |
//!
//! A cut is believed where something proves it, nothing speaks of damage, and the checkpoint, which the stop
//! has written, knows of no record that is newer than the last one of the log.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use mqcore_record::{CrcCheck, Found, check, scan_wanted};

use super::look::Looked;
use super::mend::agrees;
use crate::checkpoint::Field;
use crate::commit_log::{LogEnd, Scan, scan};
use crate::consume_queue::{Queue, QueueTable, Rest, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::Chain;
use crate::units::round_down;

/// Queues that a notice names; the others are only counted.
const NAMED_MAX: usize = 8;

/// What a cut of another broker left in queues.
#[derive(Debug)]
pub(super) struct CutRests {
    /// By queue.
    pub(super) rests: Vec<Rest>,
    /// Where the log begins that the queues may have to be fed with again.
    pub(super) feed_from: u64,
}

impl CutRests {
    /// What was found, in words.
    pub(super) fn text(&self, end: u64) -> String {
        let units: u64 = self.rests.iter().map(|rest| rest.to - rest.from).sum();
        if let ([rest], 1) = (self.rests.as_slice(), units) {
            // May as well be damage of the unit itself: then its record is in the log.
            return format!(
                "the last unit of a queue names no record of its queue ({}), as after a cut of the log by \
                 another broker; it ends at {end} now: the unit is taken away, and the queue and the index are \
                 made again from the log",
                text_of(rest)
            );
        }
        let mut named: Vec<String> = self.rests.iter().take(NAMED_MAX).map(text_of).collect();
        if self.rests.len() > NAMED_MAX {
            named.push(format!("{} more", self.rests.len() - NAMED_MAX));
        }
        format!(
            "another broker cut the log, which ends at {end} now, and left in {} queues {units} units of \
             messages that it had cut ({}): they are taken away, and the queues and the index are made again \
             from the log",
            self.rests.len(),
            named.join(", ")
        )
    }
}

fn text_of(rest: &Rest) -> String {
    let (topic, queue_id) = (rest.queue.topic(), rest.queue.queue_id());
    format!("{topic} {queue_id} offsets {} to {}", rest.from, rest.to)
}

/// What a cut of another broker left in the queues of a store that it has stopped; `None` where there is no such
/// thing, or where it may as well be damage.
///
/// # Errors
/// [`crate::error::Error::Io`].
///
/// # Blocking
/// Reads the last unit of each queue and its record; where one is not right, log files below `walked_from`.
pub(super) fn find_rests<D: Disk>(
    found: &Looked<D>,
    queues: &QueueTable<D>,
    end: &LogEnd,
    walked_from: u64,
) -> Result<Option<CutRests>> {
    let Some(last_store_ms) = end.last_store_ms else {
        return Ok(None);
    };
    let mut units = UnitCheck {
        chain: &found.chain,
        end: end.end,
        last_store_ms,
        walked_from,
        walked_before: HashMap::new(),
        proofs: 0,
        is_damaged: false,
    };
    let rests = queues
        .recovery()
        .rests(|queue, queue_offset, unit| units.is_rest(queue, queue_offset, unit))?;
    let is_cut = units.proofs > 0 && !units.is_damaged;
    if !is_cut || newest_noted_ms(found) > last_store_ms {
        return Ok(None);
    }
    let log_from = rests.iter().map(|rest| rest.log_from).min().unwrap_or(0);
    Ok(Some(CutRests {
        feed_from: log_from.max(found.chain.start()),
        rests,
    }))
}

/// The store time of the newest record that the checkpoint knows of.
fn newest_noted_ms<D: Disk>(found: &Looked<D>) -> i64 {
    let noted = [Field::PhysicTimestamp, Field::LogicsTimestamp];
    let noted = noted.map(|field| found.checkpoint.value(field));
    noted.into_iter().fold(0, i64::max)
}

/// Looks at units from the ends of queues back.
struct UnitCheck<'a, D: Disk> {
    chain: &'a Chain<D>,
    end: u64,
    last_store_ms: i64,
    walked_from: u64,
    /// Up to where whole records cover the log files below `walked_from`, by where each begins.
    walked_before: HashMap<u64, u64>,
    proofs: u64,
    is_damaged: bool,
}

impl<D: Disk> UnitCheck<'_, D> {
    /// Whether a unit is what a cut left, as the table above has it.
    fn is_rest(&mut self, queue: &Queue, queue_offset: u64, unit: &Unit) -> Result<bool> {
        let physical_offset = unit.physical_offset.cast_unsigned();
        if physical_offset < self.end {
            let is_rest = !agrees(self.chain, queue, queue_offset, unit)?
                && self.is_covered(physical_offset)?;
            self.proofs += u64::from(is_rest);
            return Ok(is_rest);
        }
        let store_ms = self.store_ms(queue, queue_offset, unit)?;
        let is_newer = store_ms.is_some_and(|store_ms| store_ms >= self.last_store_ms);
        if physical_offset == self.end || is_newer {
            self.is_damaged = true;
            return Ok(false);
        }
        self.proofs += u64::from(store_ms.is_some());
        Ok(true)
    }

    /// Whether whole records cover a place below the end.
    fn is_covered(&mut self, physical_offset: u64) -> Result<bool> {
        if physical_offset >= self.walked_from {
            return Ok(true);
        }
        let base = round_down(physical_offset, self.chain.segment_len_bytes());
        let covered = match self.walked_before.entry(base) {
            Entry::Occupied(covered) => *covered.get(),
            Entry::Vacant(vacant) => {
                let walk = Scan {
                    from: base.max(self.chain.start()),
                    limit: (base + self.chain.segment_len_bytes()).min(self.end),
                    crc: CrcCheck::Skip,
                    is_recovery: true,
                    torn_from: u64::MAX,
                    has_property_crc: false,
                    forgets: true,
                };
                *vacant.insert(scan(self.chain, walk, |_, _| Ok(true))?.end)
            }
        };
        Ok(physical_offset < covered)
    }

    /// The store time of the record that a unit names, where it is whole and that of its queue offset.
    fn store_ms(&self, queue: &Queue, queue_offset: u64, unit: &Unit) -> Result<Option<i64>> {
        let physical_offset = unit.physical_offset.cast_unsigned();
        let end = unit.physical_end().cast_unsigned();
        let size = (end - physical_offset) as usize;
        let Some(chunk) = self.chain.chunk(physical_offset, end, size)? else {
            return Ok(None);
        };
        let Ok(Found::Record(record)) = check(chunk.bytes.as_bytes(), CrcCheck::Verify) else {
            return Ok(None);
        };
        let is_owner = record.topic == queue.topic().as_bytes()
            && record.queue_id == queue.queue_id()
            && record.queue_offset.cast_unsigned() == queue_offset;
        let is_guest = || scan_wanted(record.properties).multi_dispatch.is_some();
        let is_there = record.physical_offset.cast_unsigned() == physical_offset;
        Ok((is_there && (is_owner || is_guest())).then_some(record.store_timestamp_ms))
    }
}
