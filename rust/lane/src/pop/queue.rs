//! One queue of a pop: where its group goes on, the read, and the check point of what was found
//! (`PopMessageProcessor.popMsgFromQueue`, `appendCheckPoint`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Bounds;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{Ask, GetStatus, Got, Store};
use mqcore_record::{Found, Message, head};

use super::buffer::{New, PlaceId};
use super::handle::Told;
use super::names::Source;
use super::orders;
use super::points::CheckPoint;
use super::take::{Part, Run, Step};
use crate::filtering::Sieve;
use crate::lane::Lane;
use crate::moved::{moved, record_at};
use crate::policy::Filter;
use crate::properties::{self, POP_CK};
use crate::readers::Job;
use crate::turn::{POPS_WORK, Slice};

/// A pop is kept in memory when its messages come back this much later than it has to be stored
/// (`PopBufferMergeService.addCk`), ms.
const WORTH_KEEPING_MS: i64 = 1_500;

/// A queue of a pop that has to be read from the disk.
#[derive(Debug)]
pub struct ColdPop<D: Disk> {
    pub(crate) run: Box<Run<D>>,
    pub(crate) place: PlaceId,
    pub(crate) read: ReadPop,
}

/// What is to be read.
#[derive(Debug)]
pub(crate) struct ReadPop {
    topic: Arc<str>,
    step: Step,
    from: u64,
    count: usize,
    filter: Filter,
    is_corrected: bool,
}

impl ReadPop {
    /// Reads it; waits for the disk where it is cold.
    pub(crate) fn read<D: Disk, C: Clock>(&self, store: &Store<D, C>) -> Result<Got<D>> {
        self.read_by(store, &mut Sieve::in_thread(&self.filter))
    }

    fn read_by<D: Disk, C: Clock>(
        &self,
        store: &Store<D, C>,
        sieve: &mut Sieve<'_>,
    ) -> Result<Got<D>> {
        let ask = Ask {
            from: self.from,
            count_max: self.count,
            bytes_max: u64::MAX,
            tags_codes: self.filter.codes(),
            is_bulk: false,
        };
        let (topic, queue_id) = (self.topic.as_bytes(), self.step.queue_id);
        if self.filter.looks_at_records() {
            return store.select(topic, queue_id, ask, sieve);
        }
        store.get(topic, queue_id, ask)
    }
}

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Pops from one queue; gives what has to be read from the disk first.
    pub(super) fn pop_queue(&mut self, run: &mut Run<D>, step: Step) -> Option<(PlaceId, ReadPop)> {
        let is_full = run.parts.len() >= run.pop.count_max;
        if is_full && step.is_last {
            return None;
        }
        let topic = run.topic_of(step);
        let group = Arc::clone(&run.pop.group);
        let bounds = self.store.bounds(topic.as_bytes(), step.queue_id).ok()?;
        let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
        let buffer = &mut self.pops.buffer;
        let place = buffer.place(&topic, &group, step.queue_id, self.now_ms);
        let is_locked = buffer.is_locked(place);
        if !is_locked {
            self.begin_at_reset(&group, &topic, step.queue_id);
        }
        let from = match self.position_of(&topic, &group, step.queue_id) {
            Some(from) => from,
            None => self.first_of(run, step, &topic, bounds),
        };
        let left = bounds.max.cast_signed() - from.cast_signed();
        if is_locked {
            if !run.pop.is_ordered {
                run.rest += left;
            }
            return None;
        }
        let queue = (&*topic, &*group, step.queue_id);
        if self.is_flooded(queue) {
            run.rest += left;
            return None;
        }
        if run.pop.is_ordered {
            if self.is_blocked(run, step, &topic) {
                return None;
            }
            self.pops.in_flight.clear(queue);
        }
        if is_full {
            run.rest += left;
            return None;
        }
        if left == 0 {
            return None;
        }
        let read = ReadPop {
            topic,
            step,
            from,
            count: run.pop.count_max - run.parts.len(),
            filter: run.pop.filter.clone(),
            is_corrected: false,
        };
        self.read_pop(run, place, read)
    }

    /// Whether a group has more of a queue than it may before it acknowledges some
    /// (`isPopShouldStop`).
    fn is_flooded(&mut self, queue: (&str, &str, i32)) -> bool {
        let max = self.policy.broker.pops.in_flight_max;
        max.is_some_and(|max| self.pops.in_flight.of(queue) > max)
    }

    /// Where a group begins that never was in a queue (`getInitOffset`); noted at once.
    fn first_of(&mut self, run: &Run<D>, step: Step, topic: &str, bounds: Bounds) -> u64 {
        let from_min = !run.pop.from_max || step.source != Source::Normal;
        let queue_id = step.queue_id;
        let is_young = || {
            self.policy.broker.pops.begins_in_memory
                && bounds.min == 0
                && bounds.max > 0
                && !self
                    .store
                    .is_far(topic.as_bytes(), queue_id, 0)
                    .unwrap_or(true)
        };
        let first = if from_min {
            bounds.min
        } else if is_young() {
            0
        } else {
            bounds.max.saturating_sub(1)
        };
        let group = &run.pop.group;
        self.offsets
            .commit(group, topic, queue_id, first.cast_signed());
        first
    }

    fn is_blocked(&mut self, run: &mut Run<D>, step: Step, topic: &str) -> bool {
        let place = (topic, &*run.pop.group, step.queue_id);
        let attempt = run.pop.attempt.as_deref();
        let (invisible_ms, now_ms) = (run.pop.invisible_ms, run.time_ms);
        let orders = &mut self.pops.orders;
        let Some(until_ms) = orders.blocked_until(place, attempt, invisible_ms, now_ms) else {
            return false;
        };
        let nearest = run.blocked_until_ms.map_or(until_ms, |at| at.min(until_ms));
        run.blocked_until_ms = Some(nearest);
        true
    }

    fn read_pop(
        &mut self,
        run: &mut Run<D>,
        place: PlaceId,
        read: ReadPop,
    ) -> Option<(PlaceId, ReadPop)> {
        let units = if read.filter.gives_all() {
            read.count
        } else {
            let scanned = self.store.config().filter_scan_max_bytes;
            let units = scanned / mqcore_engine::config::QUEUE_UNIT_BYTES;
            read.count.max(usize::try_from(units).unwrap_or(0))
        };
        let topic = read.topic.as_bytes();
        let is_hot = self
            .store
            .is_hot(topic, read.step.queue_id, read.from, units);
        if !is_hot.unwrap_or(false) {
            return Some((place, read));
        }
        if !read.filter.looks_at_records() {
            let got = read.read(&self.store);
            return self.take_got(run, place, read, got);
        }
        let work = self.filter_work.share(self.now_ms);
        if work == 0 {
            return Some((place, read));
        }
        let mut sieve = Sieve::in_loop(&read.filter, work);
        let got = read.read_by(&self.store, &mut sieve);
        self.filter_work.spend(sieve.spent());
        let has_some = got.as_ref().is_ok_and(|got| !got.is_empty());
        if sieve.is_cut() && !has_some {
            // It takes longer than the loop may: a thread begins anew.
            return Some((place, read));
        }
        self.take_got(run, place, read, got)
    }

    /// Has a queue read by the threads for that; nobody else pops from it meanwhile.
    pub(super) fn read_cold_pop(&mut self, run: Box<Run<D>>, cold: (PlaceId, ReadPop)) {
        let (place, read) = cold;
        self.desk.stats.cold_pulls += 1;
        let cold = ColdPop { run, place, read };
        match self.readers.give_back(Job::Pop(cold)) {
            None => self.pops.buffer.lock(place, true),
            // Too much waits: the other queues may have something.
            Some(Job::Pop(cold)) => self.go_on_popping(cold.run),
            Some(_other) => {}
        }
    }

    /// Goes on with a pop whose queue was read.
    pub(crate) fn pop_was_read(&mut self, cold: ColdPop<D>, got: Result<Got<D>>) {
        let ColdPop {
            mut run,
            place,
            read,
        } = cold;
        self.pops.buffer.lock(place, false);
        let line = (&*run.pop.topic, &*run.pop.group, run.pop.queue_id);
        if self.desk.connection(run.pop.asker.connection).is_none() {
            // Nobody is there to be given anything: another one may have it.
            let next = self.pops.polls.next_of(line);
            self.pops.later.extend(next);
            return;
        }
        match self.take_got(&mut run, place, read, got) {
            None => self.go_on_popping(run),
            Some(cold) => self.read_cold_pop(run, cold),
        }
        self.run_woken_pops(&mut Slice::new(POPS_WORK));
    }

    /// Takes what a queue gave: its check point, its place in the answer.
    fn take_got(
        &mut self,
        run: &mut Run<D>,
        place: PlaceId,
        read: ReadPop,
        got: Result<Got<D>>,
    ) -> Option<(PlaceId, ReadPop)> {
        let Ok(got) = got else {
            // What cannot be read now is there for the next pop.
            return None;
        };
        let is_elsewhere = matches!(
            got.status,
            GetStatus::OffsetTooSmall | GetStatus::OffsetOverflowBadly | GetStatus::OffsetFoundNull
        );
        if is_elsewhere && !read.is_corrected {
            return self.correct(run, place, read, got.next_offset);
        }
        let left = got.max_offset.cast_signed() - got.next_offset.cast_signed();
        if got.records.is_empty() {
            if got.next_offset > read.from {
                run.has_untested |= left > 0;
                self.pass_by(run, place, &read, got.next_offset);
            }
        } else if !self.keep_pop(run, place, read, got) {
            return None;
        }
        run.rest += left;
        None
    }

    /// Goes on where the queue says, when the offset of the group is none of it.
    fn correct(
        &mut self,
        run: &mut Run<D>,
        place: PlaceId,
        read: ReadPop,
        next_offset: u64,
    ) -> Option<(PlaceId, ReadPop)> {
        self.settle_all(place);
        let (group, queue_id) = (&run.pop.group, read.step.queue_id);
        let offset = next_offset.cast_signed();
        self.offsets.commit(group, &read.topic, queue_id, offset);
        let read = ReadPop {
            from: next_offset,
            is_corrected: true,
            ..read
        };
        self.read_pop(run, place, read)
    }

    /// Nothing up to an offset was wanted.
    fn pass_by(&mut self, run: &Run<D>, place: PlaceId, read: &ReadPop, next_offset: u64) {
        if run.pop.is_ordered {
            let (group, queue_id) = (&run.pop.group, read.step.queue_id);
            let offset = next_offset.cast_signed();
            self.offsets.commit(group, &read.topic, queue_id, offset);
        } else {
            self.pops.buffer.push_settled(place, next_offset);
            self.commit_settled(place);
        }
    }

    /// Keeps what was found; false when its check point cannot be stored: then nothing is given.
    ///
    /// A record of a batch queue is popped as a whole, by the offset of its first message, as
    /// officially. A group that stands in the middle of one gets all of it: the pop begins there then,
    /// so that the record can be acknowledged.
    fn keep_pop(
        &mut self,
        run: &mut Run<D>,
        place: PlaceId,
        mut read: ReadPop,
        got: Got<D>,
    ) -> bool {
        let offsets: Vec<u64> = got.records.iter().map(queue_offset).collect();
        read.from = offsets.first().map_or(read.from, |at| read.from.min(*at));
        let step = read.step;
        if run.pop.is_ordered {
            let new = orders::New {
                attempt: run.pop.attempt.as_deref(),
                pop_time_ms: run.time_ms,
                invisible_ms: run.pop.invisible_ms,
                offsets: &offsets,
            };
            let group = &run.pop.group;
            let queue = (&*read.topic, &**group, step.queue_id);
            let (orders, infos) = (&mut self.pops.orders, &mut run.infos);
            orders.update(queue, new, run.time_ms, infos);
            let from = read.from.cast_signed();
            self.offsets.commit(group, &read.topic, step.queue_id, from);
        } else if !self.keep_point(run, place, &read, got.next_offset, &offsets) {
            run.rest += offsets.len() as i64;
            return false;
        }
        let queue = (&*read.topic, &*run.pop.group, step.queue_id);
        self.pops.in_flight.add(queue, offsets.len());
        run.infos
            .add(step.source, step.queue_id, read.from, &offsets);
        let stats = &mut self.desk.stats;
        stats.found += 1;
        stats.pulled += offsets.len() as u64;
        stats.pulled_bytes += got.bytes;
        let (group, messages) = (&run.pop.group, offsets.len() as u64);
        self.gets.add(group, &read.topic, messages);
        let names_retry = self.policy.broker.pops.names_retry_topic;
        for (record, offset) in got.records.into_iter().zip(offsets) {
            let own = (step.source != Source::Normal && !names_retry)
                .then(|| self.as_asked(run, step, read.from, offset, &record));
            run.parts.push(match own.flatten() {
                Some(own) => Part::Own(own),
                None => Part::Record(record),
            });
        }
        true
    }

    /// Keeps a pop in memory, or stores its check point.
    fn keep_point(
        &mut self,
        run: &Run<D>,
        place: PlaceId,
        read: &ReadPop,
        next_offset: u64,
        offsets: &[u64],
    ) -> bool {
        let rules = &self.policy.broker.pops;
        let invisible_ms = run.pop.invisible_ms;
        let kept_ms = invisible_ms.saturating_sub(rules.stored_before_ms);
        let buffer = &mut self.pops.buffer;
        let is_kept = rules.has_buffer
            && kept_ms >= WORTH_KEEPING_MS
            && buffer.open() < rules.kept_max
            && buffer.waiting(place) < rules.kept_per_queue_max;
        if is_kept {
            let stay_ms = rules.stay_ms.min(kept_ms.unsigned_abs());
            buffer.push(
                place,
                New {
                    start_offset: read.from,
                    next_offset,
                    pop_time_ms: run.time_ms,
                    invisible_ms,
                    revive_queue: run.revive_queue,
                    offsets,
                    due_ms: self.now_ms.saturating_add(stay_ms),
                },
            );
            return true;
        }
        let distance = |offset: &u64| offset.wrapping_sub(read.from) as i32;
        let point = CheckPoint {
            topic: read.topic.to_string(),
            group: run.pop.group.to_string(),
            queue_id: read.step.queue_id,
            start_offset: read.from.cast_signed(),
            pop_time_ms: run.time_ms,
            invisible_ms,
            distances: offsets.iter().map(distance).collect(),
            count: offsets.len(),
            bits: 0,
            broker: self.policy.broker.name.clone(),
            put_off: None,
        };
        if self.put_point(&point, run.revive_queue).is_err() {
            return false;
        }
        self.pops.buffer.push_settled(place, next_offset);
        self.commit_settled(place);
        true
    }

    /// A retry as a message of the topic that was asked for, with its handle.
    fn as_asked(
        &self,
        run: &Run<D>,
        step: Step,
        start_offset: u64,
        offset: u64,
        record: &RecordBytes<D>,
    ) -> Option<Vec<u8>> {
        let Ok(Found::Record(view)) = head(record.as_bytes()) else {
            return None;
        };
        let handle = Told {
            start_offset,
            pop_time_ms: run.time_ms,
            invisible_ms: run.pop.invisible_ms,
            revive_queue: run.revive_queue,
            source: step.source,
            broker: &self.policy.broker.name,
            queue_id: step.queue_id,
            offset,
        };
        let handle = handle.text();
        let mut text = Vec::new();
        let adds = [(POP_CK, handle.as_bytes())];
        properties::rewrite(view.properties, &[], &adds, &mut text);
        let message = Message {
            prepared_transaction_offset: view.prepared_transaction_offset,
            ..moved(&view, &run.pop.topic, view.queue_id, &text)
        };
        record_at(
            &message,
            (view.queue_offset, view.physical_offset),
            view.store_timestamp_ms,
        )
    }
}

fn queue_offset<D: Disk>(record: &RecordBytes<D>) -> u64 {
    match head(record.as_bytes()) {
        Ok(Found::Record(view)) => view.queue_offset.cast_unsigned(),
        // The store gives records only.
        _ => 0,
    }
}
