//! Reading: by queue offset, by place, by key, by time (`DefaultMessageStore.getMessage`,
//! `queryMessage`, `getOffsetInQueueByTime`).

use mqcore_record::CrcCheck;

use super::ask::{no_queue, outside};
use super::meet::Met;
use super::{Ask, GetStatus, Got, Judge, Queried, Rotten, Store, Verdict};
use crate::clock::Clock;
use crate::commit_log::RecordBytes;
use crate::config::QUEUE_UNIT_BYTES;
use crate::consume_queue::{Boundary, Bounds, ExtensionReader, Unit};
use crate::disk::Disk;
use crate::error::{Error, Result};

/// Bytes that one read gives at the most, whatever was asked for (5.3's cap).
const READ_BYTES_MAX: u64 = 128 << 20;
/// Records that are read together where a judge may end the read at any of them.
const JUDGED_TOGETHER: usize = 32;
/// How often a query by key goes further back when it found nothing (`queryMessage`).
const QUERY_ROUNDS: usize = 3;

/// Gives every record.
struct GiveAll;

impl Judge for GiveAll {
    const LOOKS: bool = false;

    fn judge(&mut self, _record: &[u8]) -> Verdict {
        Verdict::Give
    }
}

impl<D: Disk, C: Clock> Store<D, C> {
    /// First and next queue offset of a queue; `None` when there is no such queue.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn bounds(&self, topic: &[u8], queue_id: i32) -> Result<Option<Bounds>> {
        if self.batches.has_topic(topic) {
            let queue = self.batches.find(topic, queue_id);
            return queue.map(|queue| self.batch_bounds(&queue)).transpose();
        }
        self.queues.bounds(topic, queue_id)
    }

    /// Reads records of a queue from an offset on, under the official limits.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk.
    pub fn get(&self, topic: &[u8], queue_id: i32, ask: Ask<'_>) -> Result<Got<D>> {
        self.select(topic, queue_id, ask, &mut GiveAll)
    }

    /// As [`Store::get`], of the records that a judge gives.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk.
    pub fn select<J: Judge>(
        &self,
        topic: &[u8],
        queue_id: i32,
        ask: Ask<'_>,
        judge: &mut J,
    ) -> Result<Got<D>> {
        if self.batches.has_topic(topic) {
            return match self.batches.find(topic, queue_id) {
                Some(queue) => self.select_batches(&queue, ask, judge),
                None => Ok(no_queue()),
            };
        }
        let scan_units = (self.config.filter_scan_max_bytes / QUEUE_UNIT_BYTES) as usize;
        let units_max = scan_units.max(ask.count_max);
        let mut units = Vec::with_capacity(ask.count_max.min(units_max));
        let wanted = if ask.tags_codes.is_empty() && !J::LOOKS {
            ask.count_max
        } else {
            units_max
        };
        let read = self
            .queues
            .read(topic, queue_id, ask.from, wanted, &mut units)?;
        let Some(bounds) = read.bounds else {
            return Ok(no_queue());
        };
        if let Some(outside) = outside(ask.from, bounds, units.is_empty()) {
            return Ok(outside);
        }
        let each = units.iter().enumerate();
        let each = each.map(|(at, unit)| (*unit, ask.from + at as u64 + 1));
        let extensions = self.queues.extensions(topic, queue_id);
        let mut bad = None;
        let asked = (ask, bounds, Some(topic));
        let got = self.collect(asked, each, Some(extensions), judge, &mut bad)?;
        let Some((queue_offset, unit)) = bad else {
            return Ok(got);
        };
        // A unit that names no record: it is wrong, or the record is damaged. Never met again after
        // one of both was dealt with.
        if !self
            .queues
            .mender()
            .mend_unit(topic, queue_id, queue_offset)?
        {
            self.note_rotten(Rotten {
                physical_offset: unit.physical_offset.cast_unsigned(),
                topic: String::from_utf8_lossy(topic).into_owned(),
                queue_id,
                queue_offset: queue_offset.cast_signed(),
                why: "no record starts there".to_owned(),
            });
        }
        if got.records.is_empty() {
            let ask = Ask {
                from: got.next_offset,
                ..ask
            };
            return self.select(topic, queue_id, ask, judge);
        }
        Ok(got)
    }

    /// Reads the records of units, each with the queue offset behind its messages. With the topic of a
    /// plain queue records that are read from the disk must name their places in it.
    pub(super) fn collect<J: Judge>(
        &self,
        (ask, bounds, topic): (Ask<'_>, Bounds, Option<&[u8]>),
        mut units: impl ExactSizeIterator<Item = (Unit, u64)> + Clone,
        mut extensions: Option<ExtensionReader<'_, D>>,
        judge: &mut J,
        bad: &mut Option<(u64, Unit)>,
    ) -> Result<Got<D>> {
        let mut got = Got::empty(GetStatus::NoMatchedMessage, ask.from, bounds);
        got.records.reserve(units.len().min(ask.count_max));
        let mut given = 0usize;
        let mut reader = self.log.reader();
        let end = self.files.readable();
        let near = self.near_bytes();
        while let Some((unit, behind)) = units.next() {
            let place = unit.physical_offset.cast_unsigned();
            let size = u64::from(unit.size_bytes.cast_unsigned());
            let is_far = end.saturating_sub(place) > near;
            let before = got.next_offset;
            let span = usize::try_from(behind - before).unwrap_or(usize::MAX);
            let with = given.saturating_add(span);
            let (bytes_max, count_max) = self.limits_of(ask, is_far);
            let is_full = got.bytes + size > bytes_max || with > count_max;
            if given >= ask.count_max || (is_full && !got.records.is_empty()) {
                break;
            }
            if unit.is_blank() {
                // Stands in for a message that was never seen: the log has nothing for it.
                got.next_offset = behind;
                continue;
            }
            got.suggests_replica = is_far;
            got.next_offset = behind;
            if is_ruled_out(&unit, ask.tags_codes, &mut extensions, judge)? {
                continue;
            }
            let bytes_left = bytes_max.saturating_sub(got.bytes + size);
            let count_left = match (ask.tags_codes.is_empty(), J::LOOKS) {
                (false, _) => 0,
                (true, true) => JUDGED_TOGETHER,
                (true, false) => count_max.min(ask.count_max).saturating_sub(given),
            };
            let next = follow(units.clone(), count_left, bytes_left);
            let named = topic.map(|topic| (topic, before));
            match self.meet(&mut reader, (place, size), next, named)? {
                Met::Record(record) => match judge.judge(record.as_bytes()) {
                    Verdict::Give => {
                        got.bytes += size;
                        given = with;
                        got.records.push(record);
                    }
                    Verdict::Pass => {}
                    Verdict::Stop => {
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

    /// Bytes and messages of one answer at the most, by the official limits: fewer where the disk has
    /// to be read.
    fn limits_of(&self, ask: Ask<'_>, is_far: bool) -> (u64, usize) {
        let (bytes_max, count_max) = if ask.is_bulk {
            (READ_BYTES_MAX, ask.count_max)
        } else if is_far {
            (
                self.config.read_bytes_disk_max,
                self.config.read_count_disk_max,
            )
        } else {
            (
                self.config.read_bytes_memory_max,
                self.config.read_count_memory_max,
            )
        };
        (bytes_max.min(ask.bytes_max).min(READ_BYTES_MAX), count_max)
    }

    /// Bytes behind the end of the log that count as "in memory".
    pub(super) fn near_bytes(&self) -> u64 {
        self.memory_bytes / 100 * self.config.memory_ratio_percent
    }

    /// The record that starts at a place.
    ///
    /// # Errors
    /// [`Error::NoRecord`], [`Error::Io`].
    ///
    /// # Blocking
    /// Below the hot window: for the disk.
    pub fn record_at(&self, physical_offset: u64) -> Result<RecordBytes<D>> {
        self.log.record_at(physical_offset)
    }

    /// A record whose place and length are known, without waiting for a disk: `None` when it would
    /// have to.
    ///
    /// # Errors
    /// [`Error::NoRecord`], [`Error::Io`].
    pub fn record_now(&self, physical_offset: u64, len: usize) -> Result<Option<RecordBytes<D>>> {
        self.log.record_now(physical_offset, len)
    }

    /// The queue offset that goes with a time, by the rules of 5.3.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads records of the queue.
    pub fn offset_by_time(
        &self,
        topic: &[u8],
        queue_id: i32,
        timestamp_ms: i64,
        boundary: Boundary,
    ) -> Result<Option<u64>> {
        if self.batches.has_topic(topic) {
            let queue = self.batches.find(topic, queue_id);
            let found =
                queue.map(|queue| self.batch_offset_by_time(&queue, timestamp_ms, boundary));
            return found.transpose();
        }
        let store_time = |unit: &Unit| self.store_time(unit);
        self.queues
            .search_by_time(topic, queue_id, timestamp_ms, boundary, &store_time)
    }

    /// Puts the codes that the extension of a queue has into units that name places there. Units
    /// of which it has none stay as they are.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the disk.
    pub fn fill_codes(&self, topic: &[u8], queue_id: i32, units: &mut [Unit]) -> Result<()> {
        let mut extensions = self.queues.extensions(topic, queue_id);
        for unit in units.iter_mut().filter(|unit| unit.is_extended()) {
            if let Some(extended) = extensions.get(unit.tags_code)? {
                unit.tags_code = extended.tags_code;
            }
        }
        Ok(())
    }

    /// Store time of the record that a unit names, ms.
    fn store_time(&self, unit: &Unit) -> Option<i64> {
        let len = usize::try_from(unit.size_bytes).ok()?;
        let record = self
            .log
            .record(unit.physical_offset.cast_unsigned(), len)
            .ok()?;
        Some(record.view(CrcCheck::Skip).ok()?.store_timestamp_ms)
    }

    /// Records by key and time range, at most `max` of the newest.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the index and the records.
    pub fn query(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Result<Queried<D>> {
        let mut out = Queried {
            records: Vec::new(),
            index_last_update_ms: 0,
            index_last_update_offset: 0,
        };
        let Some(index) = &self.index else {
            return Ok(out);
        };
        let mut end_ms = end_ms;
        for _ in 0..QUERY_ROUNDS {
            let answer = index.query(topic, key, max, begin_ms, end_ms)?;
            out.index_last_update_ms = answer.last_update_timestamp_ms;
            out.index_last_update_offset = answer.last_update_physical_offset;
            let mut places = answer.physical_offsets;
            places.sort_unstable();
            places.dedup();
            for place in places {
                match self.log.record_at(place) {
                    Ok(record) => {
                        if out.records.is_empty() {
                            end_ms = record.view(CrcCheck::Skip)?.store_timestamp_ms;
                        }
                        out.records.push(record);
                    }
                    // Gone by retention, or not readable yet.
                    Err(Error::NoRecord { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            if !out.records.is_empty() || end_ms < begin_ms {
                break;
            }
        }
        Ok(out)
    }
}

/// Whether a unit, with its extension where it has one, tells that its record is not wanted.
fn is_ruled_out<D: Disk, J: Judge>(
    unit: &Unit,
    tags_codes: &[i64],
    extensions: &mut Option<ExtensionReader<'_, D>>,
    judge: &J,
) -> Result<bool> {
    if !unit.is_extended() {
        return Ok(!tags_codes.is_empty() && !tags_codes.contains(&unit.tags_code));
    }
    let Some(extensions) = extensions else {
        return Ok(false);
    };
    if tags_codes.is_empty() && !judge.reads_extensions() {
        return Ok(false);
    }
    // What the extension has lost excludes nothing: readers compare the tags themselves.
    Ok(extensions.get(unit.tags_code)?.is_some_and(|extended| {
        let has_tags = tags_codes.is_empty() || tags_codes.contains(&extended.tags_code);
        !has_tags || judge.rules_out(&extended)
    }))
}

/// Places and lengths of the records that the next units name, as many as an answer has room for.
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
