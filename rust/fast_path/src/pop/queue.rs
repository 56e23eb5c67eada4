//! One queue of a pop: where its group goes on, the read, and the check point of what was found
//! (`PopMessageProcessor.popMsgFromQueue`, `appendCheckPoint`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Bounds;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{GetStatus, Got};
use mqcore_record::{Found, Message, head};

use super::buffer::{GroupQueueId, New};
use super::merge::PopBufferMerge;
use super::orders;
use super::points::CheckPoint;
use crate::context::Context;
use crate::filtering::Sieve;
use crate::gets::Gets;
use crate::moved::{moved, record_at};
use crate::policy::Broker;
use crate::pop_run::ReadPop;
use crate::pop_run::handle::HandleFields;
use crate::pop_run::names::Source;
use crate::pop_run::{Part, Run, Step};
use crate::properties::{self, POP_CK};

/// A pop is kept in memory when its messages come back this much later than it has to be stored
/// (`PopBufferMergeService.addCk`), ms.
const WORTH_KEEPING_MS: i64 = 1_500;

/// What a pop does with one queue, for the length of one call.
pub(super) struct QueuePop<'p> {
    pub(super) merge: &'p mut PopBufferMerge,
    /// How many messages groups got.
    pub(super) gets: &'p mut Gets,
}

impl QueuePop<'_> {
    /// Pops from one queue; gives what has to be read from the disk first.
    pub(super) fn pop_queue<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        run: &mut Run<D>,
        step: Step,
    ) -> Option<(GroupQueueId, ReadPop)> {
        let is_full = run.parts.len() >= run.pop.count_max;
        if is_full && step.is_last {
            return None;
        }
        let topic = run.topic_of(step);
        let group = Arc::clone(&run.pop.group);
        let bounds = cx
            .store
            .topics()
            .bounds(topic.as_bytes(), step.queue_id)
            .ok()?;
        let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
        let buffer = &mut self.merge.buffer;
        let buffer_slot = buffer.find_or_insert(&topic, &group, step.queue_id, cx.now_ms);
        let is_locked = buffer.is_locked(buffer_slot);
        if !is_locked {
            self.merge.begin_at_reset(cx, &group, &topic, step.queue_id);
        }
        let from = match self.merge.position_of(&topic, &group, step.queue_id) {
            Some(from) => from,
            None => first_of(cx, self.merge, run, (step, &topic, bounds)),
        };
        let left = bounds.max.cast_signed() - from.cast_signed();
        if is_locked {
            if !run.pop.is_ordered {
                run.rest += left;
            }
            return None;
        }
        let queue = (&*topic, &*group, step.queue_id);
        if is_flooded(&cx.policy.broker, self.merge, queue) {
            run.rest += left;
            return None;
        }
        if run.pop.is_ordered {
            if is_blocked(self.merge, run, step, &topic) {
                return None;
            }
            self.merge.in_flight.clear(queue);
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
        self.read_pop(cx, run, (buffer_slot, read))
    }

    fn read_pop<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        run: &mut Run<D>,
        (buffer_slot, read): (GroupQueueId, ReadPop),
    ) -> Option<(GroupQueueId, ReadPop)> {
        let units = if read.filter.gives_all() {
            read.count
        } else {
            let scanned = cx.store.config().filter_scan_max_bytes;
            let units = scanned / mqcore_engine::config::QUEUE_UNIT_BYTES;
            read.count.max(usize::try_from(units).unwrap_or(0))
        };
        let topic = read.topic.as_bytes();
        let is_hot = cx
            .store
            .reader()
            .is_hot(topic, read.step.queue_id, read.from, units);
        if !is_hot.unwrap_or(false) {
            return Some((buffer_slot, read));
        }
        if !read.filter.looks_at_records() {
            let got = read.read(cx.store);
            return self.take_got(cx, run, (buffer_slot, read), got);
        }
        let work = cx.filters.work.share(cx.now_ms);
        if work == 0 {
            return Some((buffer_slot, read));
        }
        let mut sieve = Sieve::in_loop(&read.filter, work);
        let got = read.read_by(cx.store, &mut sieve);
        cx.filters.work.spend(sieve.spent());
        let has_some = got.as_ref().is_ok_and(|got| !got.is_empty());
        if sieve.is_cut() && !has_some {
            // It takes longer than the loop may: a thread begins anew.
            return Some((buffer_slot, read));
        }
        self.take_got(cx, run, (buffer_slot, read), got)
    }

    /// Takes what a queue gave: its check point, its place in the answer.
    pub(super) fn take_got<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        run: &mut Run<D>,
        (buffer_slot, read): (GroupQueueId, ReadPop),
        got: Result<Got<D>>,
    ) -> Option<(GroupQueueId, ReadPop)> {
        let Ok(got) = got else {
            // What cannot be read now is there for the next pop.
            return None;
        };
        let is_elsewhere = matches!(
            got.status,
            GetStatus::OffsetTooSmall | GetStatus::OffsetOverflowBadly | GetStatus::OffsetFoundNull
        );
        if is_elsewhere && !read.is_corrected {
            return self.correct(cx, run, (buffer_slot, read, got.next_offset));
        }
        let left = got.max_offset.cast_signed() - got.next_offset.cast_signed();
        if got.records.is_empty() {
            if got.next_offset > read.from {
                run.has_untested |= left > 0;
                pass_by(self.merge, run, (buffer_slot, &read), got.next_offset);
            }
        } else if !self.keep_pop(cx, run, (buffer_slot, read), got) {
            return None;
        }
        run.rest += left;
        None
    }

    /// Goes on where the queue begins or ends, when the offset of the group is none of it.
    fn correct<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        run: &mut Run<D>,
        (buffer_slot, read, next_offset): (GroupQueueId, ReadPop, u64),
    ) -> Option<(GroupQueueId, ReadPop)> {
        self.merge.settle_all(cx, buffer_slot);
        let (group, queue_id) = (&run.pop.group, read.step.queue_id);
        let offset = next_offset.cast_signed();
        self.merge
            .offsets
            .commit(group, &read.topic, queue_id, offset);
        let read = ReadPop {
            from: next_offset,
            is_corrected: true,
            ..read
        };
        self.read_pop(cx, run, (buffer_slot, read))
    }

    /// Keeps what was found; false when its check point cannot be stored: then nothing is given.
    ///
    /// A record of a batch queue is popped as a whole, by the offset of its first message, as
    /// officially. A group whose offset is in the middle of one gets all of it: the pop begins
    /// there then, so that the record can be acknowledged.
    fn keep_pop<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        run: &mut Run<D>,
        (buffer_slot, mut read): (GroupQueueId, ReadPop),
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
            let (orders, infos) = (&mut self.merge.orders, &mut run.infos);
            orders.update(queue, new, run.time_ms, infos);
            let from = read.from.cast_signed();
            self.merge
                .offsets
                .commit(group, &read.topic, step.queue_id, from);
        } else if !keep_point(
            cx,
            self.merge,
            run,
            (buffer_slot, &read, got.next_offset),
            &offsets,
        ) {
            run.rest += offsets.len() as i64;
            return false;
        } else {
            let traffic = &mut cx.connections.traffic;
            traffic.point_kept(&run.pop.group, &run.pop.topic);
        }
        let queue = (&*read.topic, &*run.pop.group, step.queue_id);
        self.merge.in_flight.add(queue, offsets.len());
        run.infos
            .add(step.source, step.queue_id, read.from, &offsets);
        let stats = &mut cx.connections.stats;
        stats.found += 1;
        stats.pulled += offsets.len() as u64;
        stats.pulled_bytes += got.bytes;
        let (group, messages) = (&run.pop.group, offsets.len() as u64);
        self.gets.add(group, &read.topic, messages, got.bytes);
        cx.note_read(
            &run.pop.request_context,
            (group, &run.pop.topic),
            (messages, got.bytes),
        );
        let names_retry = cx.policy.broker.pops.names_retry_topic;
        for (record, offset) in got.records.into_iter().zip(offsets) {
            let own = (step.source != Source::Normal && !names_retry)
                .then(|| as_asked(&cx.policy.broker, run, (step, read.from, offset), &record));
            run.parts.push(match own.flatten() {
                Some(own) => Part::Own(own),
                None => Part::Record(record),
            });
        }
        true
    }
}

/// Whether a group has more of a queue than it may before it acknowledges some
/// (`isPopShouldStop`).
fn is_flooded(broker: &Broker, merge: &mut PopBufferMerge, queue: (&str, &str, i32)) -> bool {
    let max = broker.pops.in_flight_max;
    max.is_some_and(|max| merge.in_flight.of(queue) > max)
}

/// Where a group begins that never was in a queue (`getInitOffset`); committed at once.
fn first_of<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    merge: &PopBufferMerge,
    run: &Run<D>,
    (step, topic, bounds): (Step, &str, Bounds),
) -> u64 {
    let from_min = !run.pop.from_max || step.source != Source::Normal;
    let queue_id = step.queue_id;
    let is_young = || {
        cx.policy.broker.pops.begins_in_memory
            && bounds.min == 0
            && bounds.max > 0
            && !cx
                .store
                .reader()
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
    merge
        .offsets
        .commit(group, topic, queue_id, first.cast_signed());
    first
}

fn is_blocked<D: Disk>(
    merge: &mut PopBufferMerge,
    run: &mut Run<D>,
    step: Step,
    topic: &str,
) -> bool {
    let buffer_slot = (topic, &*run.pop.group, step.queue_id);
    let attempt = run.pop.attempt.as_deref();
    let (invisible_ms, now_ms) = (run.pop.invisible_ms, run.time_ms);
    let orders = &mut merge.orders;
    let Some(until_ms) = orders.blocked_until(buffer_slot, attempt, invisible_ms, now_ms) else {
        return false;
    };
    let nearest = run.blocked_until_ms.map_or(until_ms, |at| at.min(until_ms));
    run.blocked_until_ms = Some(nearest);
    true
}

/// Nothing up to an offset was wanted.
fn pass_by<D: Disk>(
    merge: &mut PopBufferMerge,
    run: &Run<D>,
    (buffer_slot, read): (GroupQueueId, &ReadPop),
    next_offset: u64,
) {
    if run.pop.is_ordered {
        let (group, queue_id) = (&run.pop.group, read.step.queue_id);
        let offset = next_offset.cast_signed();
        merge.offsets.commit(group, &read.topic, queue_id, offset);
    } else {
        merge.pass_to(buffer_slot, next_offset);
    }
}

/// Keeps a pop in memory, or stores its check point.
fn keep_point<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    merge: &mut PopBufferMerge,
    run: &Run<D>,
    (buffer_slot, read, next_offset): (GroupQueueId, &ReadPop, u64),
    offsets: &[u64],
) -> bool {
    let rules = &cx.policy.broker.pops;
    let invisible_ms = run.pop.invisible_ms;
    let kept_ms = invisible_ms.saturating_sub(rules.stored_before_ms);
    let buffer = &mut merge.buffer;
    let is_kept = rules.has_buffer
        && kept_ms >= WORTH_KEEPING_MS
        && buffer.open() < rules.kept_max
        && buffer.waiting(buffer_slot) < rules.kept_per_queue_max;
    if is_kept {
        let stay_ms = rules.stay_ms.min(kept_ms.unsigned_abs());
        buffer.push(
            buffer_slot,
            New {
                start_offset: read.from,
                next_offset,
                pop_time_ms: run.time_ms,
                invisible_ms,
                revive_queue: run.revive_queue,
                offsets,
                due_ms: cx.now_ms.saturating_add(stay_ms),
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
        broker: cx.policy.broker.name.clone(),
        put_off: None,
    };
    let put = merge.put_point(cx, &point, run.revive_queue);
    if put.is_ok() {
        merge.pass_to(buffer_slot, next_offset);
    }
    put.is_ok()
}

/// A retry as a message of the topic that was asked for, with its handle.
fn as_asked<D: Disk>(
    broker: &Broker,
    run: &Run<D>,
    (step, start_offset, offset): (Step, u64, u64),
    record: &RecordBytes<D>,
) -> Option<Vec<u8>> {
    let Ok(Found::Record(view)) = head(record.as_bytes()) else {
        return None;
    };
    let handle = HandleFields {
        start_offset,
        pop_time_ms: run.time_ms,
        invisible_ms: run.pop.invisible_ms,
        revive_queue: run.revive_queue,
        source: step.source,
        broker: &broker.name,
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

fn queue_offset<D: Disk>(record: &RecordBytes<D>) -> u64 {
    match head(record.as_bytes()) {
        Ok(Found::Record(view)) => view.queue_offset.cast_unsigned(),
        // The store gives records only.
        _ => 0,
    }
}
