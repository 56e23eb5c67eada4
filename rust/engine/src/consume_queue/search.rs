//! Queue offsets by store time, after the rules of both releases. Knows no record: the store time
//! of a unit is asked of the caller.

use std::sync::Arc;

use super::holes::HoleMender;
use super::load::QueueLoader;
use super::queue::Queue;
use super::unit::{Bounds, Unit};
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_store::{QueueMap, Segments, first_not};

/// Which end of a run of equal store times is meant (`BoundaryType` of 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// The first unit at or after the time.
    #[default]
    Lower,
    /// The last unit at or before the time.
    Upper,
}

/// A record whose store time cannot be read ends a search at the start of the queue, as it does in
/// RocketMQ.
enum Time {
    At(i64),
    Unreadable,
}

/// A search in one queue.
struct Search<'a, D: Disk> {
    searcher: &'a TimeSearch<D>,
    queue: &'a Arc<Queue>,
    bounds: Bounds,
    store_time: &'a dyn Fn(&Unit) -> Option<i64>,
}

/// The units of one file that count: `[floor, ceiling]`.
struct Span {
    file_first: u64,
    floor: u64,
    ceiling: u64,
}

/// Searches queues by store time.
pub(super) struct TimeSearch<D: Disk> {
    pub(super) map: Arc<QueueMap<Unit>>,
    pub(super) segments: Arc<Segments<D, Unit>>,
    pub(super) loader: Arc<QueueLoader<D>>,
    pub(super) mender: Arc<HoleMender<D>>,
}

impl<D: Disk> TimeSearch<D> {
    /// As [`QueueTable::search_by_time`](super::QueueTable::search_by_time).
    pub(super) fn by_boundary(
        &self,
        (topic, queue_id): (&[u8], i32),
        timestamp_ms: i64,
        boundary: Boundary,
        store_time: &dyn Fn(&Unit) -> Option<i64>,
    ) -> Result<Option<u64>> {
        self.search(topic, queue_id, store_time, |search| {
            search.boundary(timestamp_ms, boundary)
        })
    }

    /// As [`QueueTable::search_nearest_by_time`](super::QueueTable::search_nearest_by_time).
    pub(super) fn by_distance(
        &self,
        (topic, queue_id): (&[u8], i32),
        timestamp_ms: i64,
        store_time: &dyn Fn(&Unit) -> Option<i64>,
    ) -> Result<Option<u64>> {
        self.search(topic, queue_id, store_time, |search| {
            search.nearest(timestamp_ms)
        })
    }

    fn search(
        &self,
        topic: &[u8],
        queue_id: i32,
        store_time: &dyn Fn(&Unit) -> Option<i64>,
        run: impl FnOnce(&Search<'_, D>) -> Result<Option<u64>>,
    ) -> Result<Option<u64>> {
        let Some(queue) = self.map.find(topic, queue_id) else {
            return Ok(None);
        };
        let queue: &Arc<Queue> = &queue;
        let (bounds, is_checked) = {
            let state = self.loader.lock_known(queue)?;
            if state.is_gone {
                return Ok(None);
            }
            (state.bounds(), state.has_checked_ends)
        };
        if !is_checked {
            self.mender.check_ends(queue)?;
        }
        if bounds.min == bounds.max {
            return Ok(Some(bounds.min));
        }
        let search = Search {
            searcher: self,
            queue,
            bounds,
            store_time,
        };
        let found = run(&search)?.unwrap_or(0);
        Ok(Some(found.clamp(bounds.min, bounds.max)))
    }
}

impl<D: Disk> Search<'_, D> {
    /// The store time of a unit; of the next record for a blank.
    fn time(&self, index: u64) -> Result<Time> {
        for index in index..self.bounds.max {
            let mut unit = self.searcher.segments.unit_at(self.queue, index)?;
            if !unit.is_present() && self.searcher.mender.mend_at(self.queue, index)? {
                unit = self.searcher.segments.unit_at(self.queue, index)?;
            }
            if !unit.is_blank() {
                return Ok((self.store_time)(&unit).map_or(Time::Unreadable, Time::At));
            }
        }
        Ok(Time::At(i64::MAX))
    }

    /// The file whose last (lower) or first (upper) store time fits.
    fn span(&self, timestamp_ms: i64, boundary: Boundary) -> Result<Span> {
        let per_file = self.searcher.segments.units_per_file();
        let of_file = |file: u64| Span {
            file_first: file * per_file,
            floor: self.bounds.min.max(file * per_file),
            ceiling: self.bounds.max.min((file + 1) * per_file) - 1,
        };
        let first = self.bounds.min / per_file;
        let last = (self.bounds.max - 1) / per_file;
        let file = match boundary {
            Boundary::Lower => first_not(first, last, |file| {
                let time = self.time(of_file(file).ceiling)?;
                Ok(matches!(time, Time::At(time) if time < timestamp_ms))
            })?,
            Boundary::Upper => {
                let after = first_not(first, last + 1, |file| {
                    let time = self.time(of_file(file).floor)?;
                    Ok(matches!(time, Time::At(time) if time <= timestamp_ms))
                })?;
                after.saturating_sub(1).max(first)
            }
        };
        Ok(of_file(file))
    }

    fn boundary(&self, timestamp_ms: i64, boundary: Boundary) -> Result<Option<u64>> {
        let span = self.span(timestamp_ms, boundary)?;
        let is_lower = boundary == Boundary::Lower;
        if let Time::At(time) = self.time(span.ceiling)?
            && time < timestamp_ms
        {
            return Ok(Some(span.ceiling + u64::from(is_lower)));
        }
        if let Time::At(time) = self.time(span.floor)?
            && time > timestamp_ms
        {
            return Ok(is_lower.then_some(span.file_first));
        }
        // Lower: behind the last unit before the time. Upper: behind the last one not after it.
        let (mut low, mut high) = (span.floor, span.ceiling + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let Time::At(time) = self.time(middle)? else {
                return Ok(None);
            };
            if time < timestamp_ms || (!is_lower && time == timestamp_ms) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some(if is_lower { low } else { low.saturating_sub(1) }))
    }

    fn nearest(&self, timestamp_ms: i64) -> Result<Option<u64>> {
        let span = self.span(timestamp_ms, Boundary::Lower)?;
        // Positions from the file's start, as there: the halving decides which of equal ones it is.
        let mut low = (span.floor - span.file_first).cast_signed();
        let mut high = (span.ceiling - span.file_first).cast_signed();
        let (mut left, mut right) = (None, None);
        while high >= low {
            let middle = i64::midpoint(low, high);
            let index = span.file_first + middle.cast_unsigned();
            let Time::At(time) = self.time(index)? else {
                return Ok(None);
            };
            if time == timestamp_ms {
                return Ok(Some(index));
            }
            if time > timestamp_ms {
                high = middle - 1;
                right = Some((index, time));
            } else {
                low = middle + 1;
                left = Some((index, time));
            }
        }
        Ok(match (left, right) {
            (None, right) => right.map(|(index, _)| index),
            (Some((index, _)), None) => Some(index),
            (Some((before, earlier)), Some((after, later))) => {
                let is_after_nearer = timestamp_ms.abs_diff(earlier) > timestamp_ms.abs_diff(later);
                Some(if is_after_nearer { after } else { before })
            }
        })
    }
}
