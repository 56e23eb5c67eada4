//! The scrub: a slow walk over the log from the oldest record on, round after round, that checks each
//! record by its CRC and each record's unit in its queue. And the list of damaged records that it and
//! cold reads have found. Changes nothing of the log.

use std::collections::{BTreeMap, HashMap};

use mqcore_record::{CrcCheck, Found, RecordView, head};

use super::Store;
use super::followers::is_queued;
use crate::clock::Clock;
use crate::commit_log::{Scan, Stop, scan, whole_record_after};
use crate::consume_queue::{ReadBy, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::Mutex;

/// Bytes that one step looks at, and some more up to the end of a record.
pub(super) const STEP_BYTES: u64 = 1 << 20;
/// Damaged records that are kept with their place, and counted: beyond that the disk is to be
/// replaced, and a list says no more.
const ROTTEN_MAX: usize = 1_000;
/// Units of a queue that are read together.
const UNITS_TOGETHER: usize = 256;
/// Queues whose units are kept within one step.
const QUEUES_TOGETHER: usize = 1_024;
const HOUR_MS: u64 = 3_600_000;

/// A record that is not what was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotten {
    /// First byte of it in the log.
    pub physical_offset: u64,
    /// Its topic, as far as it can be read; else empty.
    pub topic: String,
    /// Its queue; -1 where it cannot be read.
    pub queue_id: i32,
    /// Its place there; -1 where it cannot be read.
    pub queue_offset: i64,
    /// What is wrong.
    pub why: String,
}

/// Where the scrub is, and what was found.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    walk: Mutex<Walk>,
    found: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Walk {
    at: u64,
    /// When the next round may begin, ms of the process.
    next_round_ms: u64,
    rounds: u64,
}

#[derive(Debug, Default)]
struct Kept {
    by_place: BTreeMap<u64, Rotten>,
    count: u64,
}

/// Units of one queue, read ahead.
struct Ahead {
    from: u64,
    units: Vec<Unit>,
}

type AheadOf = HashMap<(Vec<u8>, i32), Ahead>;

impl<D: Disk, C: Clock> Store<D, C> {
    /// Damaged records that were found since the store was opened, by place, and
    /// their number.
    #[must_use]
    pub fn rotten(&self) -> (Vec<Rotten>, u64) {
        let found = self.scrub.found.lock();
        (found.by_place.values().cloned().collect(), found.count)
    }

    /// Rounds of the scrub that were finished since the store was opened.
    #[must_use]
    pub fn scrub_rounds(&self) -> u64 {
        self.scrub.walk.lock().rounds
    }

    /// Notes a damaged record and tells the owner, once per place. False when it was known.
    pub(super) fn note_rotten(&self, rotten: Rotten) -> bool {
        let mut found = self.scrub.found.lock();
        if found.by_place.contains_key(&rotten.physical_offset)
            || found.by_place.len() >= ROTTEN_MAX
        {
            // Beyond the bound nobody can say what is new.
            return false;
        }
        let Rotten {
            physical_offset,
            topic,
            queue_id,
            queue_offset,
            why,
        } = &rotten;
        self.files.notices.error(format!(
            "the record at physical offset {physical_offset} (topic {topic:?}, queue {queue_id}, \
             queue offset {queue_offset}) is damaged: {why}"
        ));
        found.count += 1;
        let place = *physical_offset;
        found.by_place.insert(place, rotten);
        true
    }

    /// Whether a damaged record is known at a place.
    pub(super) fn is_rotten(&self, physical_offset: u64) -> bool {
        let found = self.scrub.found.lock();
        found.by_place.contains_key(&physical_offset) || found.by_place.len() >= ROTTEN_MAX
    }

    /// Notes the record at a place by what can still be read of it.
    pub(super) fn note_rotten_at(&self, place: u64, bytes: &[u8], why: String) {
        let (topic, queue_id, queue_offset) = match head(bytes) {
            Ok(Found::Record(record)) => (
                String::from_utf8_lossy(record.topic).into_owned(),
                record.queue_id,
                record.queue_offset,
            ),
            _ => (String::new(), -1, -1),
        };
        self.note_rotten(Rotten {
            physical_offset: place,
            topic,
            queue_id,
            queue_offset,
            why,
        });
    }

    /// Looks at the next part of the log; false when the round is done, or the next one is not due.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads a mebibyte; where a queue's units are damaged, the log between the good ones.
    pub fn scrub_step(&self) -> Result<bool> {
        let now_ms = self.clock.elapsed_ms();
        let mut walk = self.scrub.walk.lock();
        if now_ms < walk.next_round_ms {
            return Ok(false);
        }
        let chain = &self.files.chain;
        let positions = &self.files.positions;
        let limit = positions
            .dispatched
            .position()
            .min(positions.flushed.position());
        let from = walk.at.max(chain.start());
        walk.at = if from < limit {
            self.scrub_part(from, limit)?
        } else {
            from
        };
        if walk.at < limit {
            return Ok(true);
        }
        (walk.at, walk.rounds) = (0, walk.rounds + 1);
        walk.next_round_ms = now_ms + self.config.scrub_interval_hours * HOUR_MS;
        Ok(false)
    }

    /// Gives where the next part begins.
    fn scrub_part(&self, from: u64, limit: u64) -> Result<u64> {
        let chain = &self.files.chain;
        // With the CRC of the whole record the one of the body need not be looked at (5.3's rule).
        let crc = if self.config.verify_property_crc {
            CrcCheck::Skip
        } else {
            CrcCheck::Verify
        };
        let part = Scan {
            from,
            limit,
            crc,
            is_recovery: true,
            torn_from: u64::MAX,
            has_property_crc: self.config.verify_property_crc,
            forgets: true,
        };
        let mut ahead = AheadOf::new();
        let end = scan(chain, part, |record, place| {
            self.compare_unit(record, place, &mut ahead)?;
            Ok(place + record.total_len_bytes as u64 - from < STEP_BYTES)
        })?;
        if chain
            .find(from)
            .is_some_and(|segment| segment.region().is_none())
        {
            chain.forget(from, end.end);
        }
        let why = match end.stop {
            Stop::End => return Ok(limit),
            Stop::Visitor => return Ok(end.end),
            ref stop => stop.why().unwrap_or_else(|| "zeros".to_owned()),
        };
        self.pass_rotten(end.end, why)
    }

    /// Notes a damaged record; gives where the next whole one stands.
    fn pass_rotten(&self, place: u64, why: String) -> Result<u64> {
        let chain = &self.files.chain;
        let Some(segment) = chain.find(place) else {
            return Ok(place);
        };
        let len_max = self.config.max_message_bytes as usize + (1 << 17);
        let chunk = chain.chunk(place, segment.end(), len_max)?;
        let bytes = chunk
            .as_ref()
            .map_or(&[][..], |chunk| chunk.bytes.as_bytes());
        self.note_rotten_at(place, bytes, why);
        // Its length may be good though its body is not.
        if let Ok(Found::Record(record)) = head(bytes)
            && record.physical_offset.cast_unsigned() == place
        {
            return Ok(place + record.total_len_bytes as u64);
        }
        let next = whole_record_after(chain, place, 1, i64::MAX)?;
        Ok(next.unwrap_or_else(|| segment.end()))
    }

    /// Compares the unit of a record with its place; what cannot be right is made again.
    fn compare_unit(&self, record: &RecordView<'_>, place: u64, ahead: &mut AheadOf) -> Result<()> {
        if !is_queued(record) || self.batches.has_topic(record.topic) {
            return Ok(());
        }
        let offset = record.queue_offset.cast_unsigned();
        if ahead.len() > QUEUES_TOGETHER {
            ahead.clear();
        }
        let queue = ahead
            .entry((record.topic.to_vec(), record.queue_id))
            .or_insert(Ahead {
                from: u64::MAX,
                units: Vec::new(),
            });
        let at = |queue: &Ahead| {
            let at = usize::try_from(offset.checked_sub(queue.from)?).ok()?;
            queue.units.get(at).copied()
        };
        let mut unit = at(queue);
        if unit.is_none() {
            queue.units.clear();
            queue.from = offset;
            let (topic, queue_id) = (record.topic, record.queue_id);
            let wanted = (UNITS_TOGETHER, &mut queue.units);
            let read = self
                .queues
                .read_by(topic, queue_id, offset, wanted, ReadBy::AsItIs)?;
            let is_inside = read
                .bounds
                .is_some_and(|bounds| (bounds.min..bounds.max).contains(&offset));
            if !is_inside {
                return Ok(());
            }
            unit = at(queue);
        }
        // A later record may have the place, where the topic was deleted and made anew.
        let is_right = unit.is_some_and(|unit| unit.physical_offset >= place.cast_signed());
        if !is_right {
            self.queues
                .mender()
                .mend_unit(record.topic, record.queue_id, offset)?;
            queue.units.clear();
        }
        Ok(())
    }
}
