//! Making the answer of a read out of units: under the official limits, past what the reader does not
//! want, up to where a record cannot be given.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::answers::{GetStatus, Got};
use super::ask::{Ask, FilterDecision, MessageFilter};
use super::lookup::{Lookup, Met};
use crate::config::StoreConfig;
use crate::consume_queue::{Bounds, ExtensionReader, Unit};
use crate::disk::Disk;
use crate::error::Result;

/// Bytes that one read gives at the most, whatever was asked for (5.3's cap).
const READ_BYTES_MAX: u64 = 128 << 20;
/// Records that are read together where a filter may end the read at any of them.
const FILTERED_TOGETHER: usize = 32;

/// How much one answer gives.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadLimits {
    /// Bytes behind the end of the log that count as "in memory".
    pub(super) near_bytes: u64,
    read_bytes_memory_max: u64,
    read_count_memory_max: usize,
    read_bytes_disk_max: u64,
    read_count_disk_max: usize,
}

impl ReadLimits {
    pub(super) fn new(config: &StoreConfig, memory_bytes: u64) -> Self {
        Self {
            near_bytes: memory_bytes / 100 * config.memory_ratio_percent,
            read_bytes_memory_max: config.read_bytes_memory_max,
            read_count_memory_max: config.read_count_memory_max,
            read_bytes_disk_max: config.read_bytes_disk_max,
            read_count_disk_max: config.read_count_disk_max,
        }
    }

    /// Messages of one answer at the most, wherever they are.
    pub(super) fn count_max(&self) -> usize {
        self.read_count_memory_max.max(self.read_count_disk_max)
    }

    /// Bytes and messages of one answer at the most, by the official limits: fewer where the disk has
    /// to be read.
    fn of(&self, ask: Ask<'_>, is_far: bool) -> (u64, usize) {
        let (bytes_max, count_max) = if ask.is_bulk {
            (READ_BYTES_MAX, ask.count_max)
        } else if is_far {
            (self.read_bytes_disk_max, self.read_count_disk_max)
        } else {
            (self.read_bytes_memory_max, self.read_count_memory_max)
        };
        (bytes_max.min(ask.bytes_max).min(READ_BYTES_MAX), count_max)
    }
}

/// The limits as they are now: they may change while others read.
pub(super) struct LiveLimits {
    memory_bytes: u64,
    near_bytes: AtomicU64,
    read_bytes_memory_max: AtomicU64,
    read_count_memory_max: AtomicUsize,
    read_bytes_disk_max: AtomicU64,
    read_count_disk_max: AtomicUsize,
}

impl LiveLimits {
    /// Those of a machine with so much memory.
    pub(super) fn new(config: &StoreConfig, memory_bytes: u64) -> Self {
        let limits = ReadLimits::new(config, memory_bytes);
        Self {
            memory_bytes,
            near_bytes: AtomicU64::new(limits.near_bytes),
            read_bytes_memory_max: AtomicU64::new(limits.read_bytes_memory_max),
            read_count_memory_max: AtomicUsize::new(limits.read_count_memory_max),
            read_bytes_disk_max: AtomicU64::new(limits.read_bytes_disk_max),
            read_count_disk_max: AtomicUsize::new(limits.read_count_disk_max),
        }
    }

    /// From now on by these settings; a read that is under way may see some of both.
    pub(super) fn change(&self, config: &StoreConfig) {
        let limits = ReadLimits::new(config, self.memory_bytes);
        let order = Ordering::Relaxed;
        self.near_bytes.store(limits.near_bytes, order);
        self.read_bytes_memory_max
            .store(limits.read_bytes_memory_max, order);
        self.read_count_memory_max
            .store(limits.read_count_memory_max, order);
        self.read_bytes_disk_max
            .store(limits.read_bytes_disk_max, order);
        self.read_count_disk_max
            .store(limits.read_count_disk_max, order);
    }

    /// What they are now.
    pub(super) fn now(&self) -> ReadLimits {
        let order = Ordering::Relaxed;
        ReadLimits {
            near_bytes: self.near_bytes.load(order),
            read_bytes_memory_max: self.read_bytes_memory_max.load(order),
            read_count_memory_max: self.read_count_memory_max.load(order),
            read_bytes_disk_max: self.read_bytes_disk_max.load(order),
            read_count_disk_max: self.read_count_disk_max.load(order),
        }
    }
}

/// One read while its answer is made.
pub(super) struct Collecting<'a, D: Disk> {
    pub(super) lookup: Lookup<'a, D>,
    pub(super) limits: ReadLimits,
    /// Where the readable log ends.
    pub(super) end: u64,
}

impl<D: Disk> Collecting<'_, D> {
    /// Reads the records of units, each with the queue offset behind its messages. With the topic of a
    /// plain queue records that are read from the disk must name their queue offsets in it.
    pub(super) fn collect<J: MessageFilter>(
        mut self,
        (ask, bounds, topic): (Ask<'_>, Bounds, Option<&[u8]>),
        mut units: impl ExactSizeIterator<Item = (Unit, u64)> + Clone,
        mut extensions: Option<ExtensionReader<'_, D>>,
        filter: &mut J,
        bad: &mut Option<(u64, Unit)>,
    ) -> Result<Got<D>> {
        let mut got = Got::empty(GetStatus::NoMatchedMessage, ask.from, bounds);
        got.records.reserve(units.len().min(ask.count_max));
        let mut given = 0usize;
        while let Some((unit, behind)) = units.next() {
            let physical_offset = unit.physical_offset.cast_unsigned();
            let size = u64::from(unit.size_bytes.cast_unsigned());
            let is_far = self.end.saturating_sub(physical_offset) > self.limits.near_bytes;
            let before = got.next_offset;
            let span = usize::try_from(behind - before).unwrap_or(usize::MAX);
            let with = given.saturating_add(span);
            let (bytes_max, count_max) = self.limits.of(ask, is_far);
            let is_full = got.bytes + size > bytes_max || with > count_max;
            if given >= ask.count_max || (is_full && !got.records.is_empty()) {
                break;
            }
            if unit.is_blank() {
                // Replaces a message that was never seen: the log has nothing for it.
                got.next_offset = behind;
                continue;
            }
            got.suggests_replica = is_far;
            got.next_offset = behind;
            if is_ruled_out(&unit, ask.tags_codes, &mut extensions, filter)? {
                continue;
            }
            let bytes_left = bytes_max.saturating_sub(got.bytes + size);
            let count_left = match (ask.tags_codes.is_empty(), J::LOOKS) {
                (false, _) => 0,
                (true, true) => FILTERED_TOGETHER,
                (true, false) => count_max.min(ask.count_max).saturating_sub(given),
            };
            let next = follow(units.clone(), count_left, bytes_left);
            let named = topic.map(|topic| (topic, before));
            match self.lookup.meet((physical_offset, size), next, named)? {
                Met::Record(record) => match filter.decide(record.as_bytes()) {
                    FilterDecision::Give => {
                        got.bytes += size;
                        given = with;
                        got.records.push(record);
                    }
                    FilterDecision::Pass => {}
                    FilterDecision::Stop => {
                        got.next_offset = before;
                        break;
                    }
                },
                Met::Passed => {}
                Met::Removed => {
                    if got.records.is_empty() {
                        got.status = GetStatus::MessageWasRemoving;
                    }
                }
                Met::NotYet => {
                    got.next_offset = before;
                    break;
                }
                Met::Wrong => {
                    *bad = Some((before, unit));
                    got.next_offset = before;
                    break;
                }
            }
        }
        if !got.records.is_empty() {
            got.status = GetStatus::Found;
        }
        Ok(got)
    }
}

/// Whether a unit, with its extension where it has one, shows that its record is not wanted.
fn is_ruled_out<D: Disk, J: MessageFilter>(
    unit: &Unit,
    tags_codes: &[i64],
    extensions: &mut Option<ExtensionReader<'_, D>>,
    filter: &J,
) -> Result<bool> {
    if !unit.is_extended() {
        return Ok(!tags_codes.is_empty() && !tags_codes.contains(&unit.tags_code));
    }
    let Some(extensions) = extensions else {
        return Ok(false);
    };
    if tags_codes.is_empty() && !filter.reads_extensions() {
        return Ok(false);
    }
    // What the extension has lost excludes nothing: readers compare the tags themselves.
    Ok(extensions.get(unit.tags_code)?.is_some_and(|extended| {
        let has_tags = tags_codes.is_empty() || tags_codes.contains(&extended.tags_code);
        !has_tags || filter.rules_out(&extended)
    }))
}

/// Offsets and lengths of the records that the next units name, as many as an answer has space for.
fn follow(
    units: impl Iterator<Item = (Unit, u64)>,
    count_max: usize,
    bytes_max: u64,
) -> impl Iterator<Item = (u64, usize)> {
    units
        .filter(|(unit, _)| !unit.is_blank())
        .take(count_max)
        .scan(bytes_max, |left, (unit, _)| {
            let size = u64::from(unit.size_bytes.cast_unsigned());
            *left = left.checked_sub(size)?;
            Some((unit.physical_offset.cast_unsigned(), size as usize))
        })
}
