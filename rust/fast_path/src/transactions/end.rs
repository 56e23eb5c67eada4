//! END_TRANSACTION: the official checks in the official order, the committed message, the op
//! message that the half message is ended, and the answer.

use std::sync::Arc;

use mqcore_access::{Actions, Resource};
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_record::properties::{CHECK_IMMUNITY_TIME_IN_SECONDS, PGROUP, lookup};
use mqcore_record::sys_flag::COMMIT;
use mqcore_record::{CrcCheck, Message, RecordView};

use super::batch::Batch;
use super::check::Checked;
use super::ends::{Ends, Space};
use super::half;
use super::op_queues::{OpMessageRules, OpQueues};
use crate::batches::RECORD_REST_BYTES;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::half_counts::Counts;
use crate::names::{HALF_TOPIC, OP_HALF_TOPIC};
use crate::parked::{Kind, Stored};
use crate::policy::Broker;
use crate::properties;
use crate::readers::{Ending, Job};
use crate::refusals::{self, Refused};
use crate::requests::{Decision, End, Request};
use crate::stop::{Processed, Stop};

/// First release that names many ends in one op message: V5_1_0.
const BATCHES_NOTES_FROM: i32 = 433;
/// First release that refuses an end that comes later than the message asked for: V5_1_1.
const REFUSES_LATE_FROM: i32 = 435;
/// The properties of an op message, as the official broker writes them.
const NOTE_PROPERTIES: &[u8] = b"WAIT\x01true\x02TAGS\x01d\x02";

/// The processor of ends of transactions. Owns what is ended without an op message on disk yet, and
/// what was ended lately.
pub(crate) struct EndTransactionProcessor {
    /// Of all loops over a store. The lock of a half message's shard is held for one end, so that none
    /// ends twice.
    ends: Arc<Ends>,
    /// Half messages by topic.
    counts: Arc<Counts>,
    /// Buffer for the body of an op message.
    scratch: Vec<u8>,
}

impl EndTransactionProcessor {
    pub(crate) fn new(ends: Arc<Ends>, counts: Arc<Counts>) -> Self {
        Self {
            ends,
            counts,
            scratch: Vec::new(),
        }
    }

    /// Executes an end.
    pub(crate) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        request: &Request<'_>,
    ) -> Processed {
        let ended = self.end(cx, delivery, request);
        cx.refuse(&request.request_context, ended)
    }

    fn end<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        request: &Request<'_>,
    ) -> Processed {
        let end = End::read(request)?;
        let request_context = request.request_context;
        let Some(decision) = end.decision() else {
            // Not decided yet: the official broker does not answer, and asks later.
            return Ok(());
        };
        let physical_offset = u64::try_from(end.commit_log_offset);
        let physical_offset = physical_offset.map_err(|_bad| refusals::no_half_message())?;
        let ending = Ending {
            request_context,
            physical_offset,
            half_offset: end.half_offset,
            decision,
            group: end.group.into(),
            is_answer: end.is_answer,
            stored: end.stored,
            further: cx.further(request),
        };
        match cx.record_if_hot(physical_offset) {
            Ok(Some(record)) => self.end_half(cx, delivery, &ending, &record),
            Ok(None) => {
                cx.read_elsewhere(&request_context, Job::End(ending));
                Ok(())
            }
            Err(_no_record) => Err(refusals::no_half_message().into()),
        }
    }

    /// Goes on with an end whose half message was read from the disk. The request is gone by now:
    /// where it would have to wait it is refused, and the broker asks its producer later.
    pub(crate) fn was_read<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        ending: &Ending,
        record: Result<RecordBytes<D>>,
    ) {
        let ended = match record {
            Ok(record) => self.end_half(cx, delivery, ending, &record),
            Err(_error) => Err(refusals::no_half_message().into()),
        };
        if let Err(stop) = ended {
            cx.connections
                .refuse(&ending.request_context, &stop.into_refused());
        }
    }

    fn end_half<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        ending: &Ending,
        record: &RecordBytes<D>,
    ) -> Processed {
        let view = record.view(CrcCheck::Verify).ok();
        let view = view.filter(|view| view.topic == HALF_TOPIC.as_bytes());
        let view = view.ok_or_else(refusals::no_half_message)?;
        check_end(cx, ending, &view)?;
        check_topic(cx, ending, &view)?;
        let known = half::known(&view);
        let ends = Arc::clone(&self.ends);
        let mut remembered = ends.of_half(known);
        if let Some(before) = remembered.decided(known) {
            return answer_repeated(cx, ending, before);
        }
        let batch = batch_of(ending, &view).map_err(refusals::bad_half_batch)?;
        let bytes = match &batch {
            Some(batch) => batch.len_bytes() + RECORD_REST_BYTES,
            None => view.total_len_bytes + RECORD_REST_BYTES,
        };
        if cx.waits_for_log(bytes as u64) {
            return Err(Stop::Defer);
        }
        delivery.check_load(cx, &ending.request_context)?;
        let space = ends.space(known.queue_id);
        let space = space.ok_or_else(refusals::overload)?;
        match (ending.decision, &batch) {
            (Decision::Commit, Some(batch)) => {
                store_batch_committed(cx, delivery, ending, (&view, batch))?;
            }
            (Decision::Commit, None) => store_committed(cx, delivery, ending, &view)?,
            (Decision::Rollback, _) => cx.connections.succeed(&ending.request_context, None),
        }
        let copy = remembered.decide(known, ending.decision);
        // Under the shard's lock, so that who has had it knows that the end is noted, or waits for it.
        self.note_end(cx, space, (known.queue_id, known.offset), copy);
        drop(remembered);
        self.count_end(ending.decision, &view);
        Ok(())
    }

    /// Notes that a half message is ended, and the newest copy of it: at once where each end has an op
    /// message of its own, otherwise together with others.
    fn note_end<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        space: Space<'_>,
        (queue_id, offset): (i32, u64),
        copy: Option<u64>,
    ) {
        let rules = note_rules(&cx.policy.broker);
        let scratch = &mut self.scratch;
        let mut offsets = [Some(offset), copy].into_iter().flatten().peekable();
        if !rules.is_batched {
            while let Some(offset) = offsets.peek() {
                scratch.clear();
                scratch.extend(offset.to_string().bytes());
                if !append_note(cx, queue_id, scratch) {
                    break;
                }
                offsets.next();
            }
            if offsets.peek().is_none() {
                return;
            }
        }
        space.fill(|queues| {
            for offset in offsets {
                queues.wait(queue_id, offset, rules, cx.now_ms);
            }
            if rules.is_batched {
                write_due(cx, queues, scratch);
            } else {
                queues.failed(queue_id, cx.now_ms);
            }
        });
    }

    fn count_end(&self, decision: Decision, view: &RecordView<'_>) {
        if let Some((topic, _queue)) = half::meant_for(view) {
            self.counts.change(topic, |count| {
                count.waiting -= 1;
                match decision {
                    Decision::Commit => count.committed += 1,
                    Decision::Rollback => count.rolled_back += 1,
                }
            });
        }
    }

    /// Writes the op messages that are due.
    pub(crate) fn write_due_notes<D: Disk, C: Clock>(&mut self, cx: &mut Context<'_, D, C>) {
        let scratch = &mut self.scratch;
        let is_due = self.ends.next_due_ms().is_some_and(|ms| ms <= cx.now_ms);
        if is_due {
            self.ends
                .with_op_queues(|queues| write_due(cx, queues, scratch));
        }
    }

    /// Writes all op messages, of ends that other loops execute meanwhile too; true when none is left.
    pub(crate) fn write_op_messages<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
    ) -> bool {
        self.ends.wait_executed();
        let scratch = &mut self.scratch;
        self.ends.with_op_queues(|queues| {
            while let Some(queue_id) = queues.any() {
                if !write_note(cx, queues, queue_id, scratch) {
                    return false;
                }
            }
            true
        })
    }

    /// Takes what a round of the check did; returns of each copy whether it was ended meanwhile.
    pub(crate) fn note_checked<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        done: &Checked,
    ) -> Vec<bool> {
        let (rules, now_ms) = (note_rules(&cx.policy.broker), cx.now_ms);
        for topic in &done.given_up {
            self.counts.change(topic, |count| {
                count.waiting -= 1;
                count.given_up += 1;
            });
        }
        let copies = done.copies.iter();
        let ended = copies.map(|copied| {
            let is_ended = self
                .ends
                .of_half(copied.from)
                .copied(copied.from, copied.to);
            if is_ended {
                let queue_id = copied.from.queue_id;
                self.ends
                    .with_op_queues(|queues| queues.wait(queue_id, copied.to, rules, now_ms));
            }
            is_ended
        });
        let ended = ended.collect();
        self.write_due_notes(cx);
        ended
    }

    /// When an op message is due, ms.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.ends.next_due_ms()
    }

    /// Ends that have no op message yet.
    pub(crate) fn waiting(&self) -> usize {
        self.ends.with_op_queues(|queues| queues.waiting())
    }
}

/// Writes the op messages that are due.
fn write_due<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    queues: &mut OpQueues,
    scratch: &mut Vec<u8>,
) {
    while let Some(queue_id) = queues.due(cx.now_ms) {
        if !write_note(cx, queues, queue_id, scratch) {
            queues.failed(queue_id, cx.now_ms);
            return;
        }
    }
}

/// Writes the next op message of a queue; false when it could not be written.
fn write_note<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    queues: &mut OpQueues,
    queue_id: i32,
    scratch: &mut Vec<u8>,
) -> bool {
    let rules = note_rules(&cx.policy.broker);
    let count = queues.next_op_message(queue_id, rules, scratch);
    let is_written = append_note(cx, queue_id, scratch);
    if is_written {
        queues.written(queue_id, count, rules, cx.now_ms);
    }
    is_written
}

/// Appends an op message; false when it could not be stored.
fn append_note<D: Disk, C: Clock>(cx: &Context<'_, D, C>, queue_id: i32, body: &[u8]) -> bool {
    let store_host = cx.policy.broker.store_host;
    let writer = cx.store.writer();
    let is_ready = writer.is_ready_for((body.len() + RECORD_REST_BYTES) as u64);
    is_ready
        && writer
            .append(&Message {
                born_timestamp_ms: cx.store.wall_ms(),
                properties: NOTE_PROPERTIES,
                ..Message::of(OP_HALF_TOPIC, queue_id, body, store_host)
            })
            .is_ok()
}

/// What is to be committed of a half message of a batch; `None` for any other.
fn batch_of<'a>(
    ending: &Ending,
    view: &RecordView<'a>,
) -> std::result::Result<Option<Batch<'a>>, String> {
    if ending.decision == Decision::Rollback {
        return Ok(None);
    }
    let mut batch = Batch::of(view)?;
    if let Some(batch) = &mut batch {
        batch.skip(ending.stored);
    }
    Ok(batch)
}

fn note_rules(broker: &Broker) -> OpMessageRules {
    OpMessageRules {
        is_batched: broker.version >= BATCHES_NOTES_FROM,
        bytes_max: broker.transactions.note_bytes_max,
        interval_ms: broker.transactions.note_interval_ms,
    }
}

/// Whether the user may send to the topic of the half message, whatever the request names.
fn check_topic<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    ending: &Ending,
    view: &RecordView<'_>,
) -> std::result::Result<(), Refused> {
    let Some(further) = &ending.further else {
        return Ok(());
    };
    let (topic, _queue) = half::meant_for(view).ok_or_else(refusals::no_half_message)?;
    let pair = Resource::topic(topic, Actions::PUB);
    cx.permit(&ending.request_context, further, [pair])
}

/// `rejectCommitOrRollback`, `checkPrepareMessage`.
fn check_end<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    ending: &Ending,
    view: &RecordView<'_>,
) -> std::result::Result<(), Refused> {
    let broker = &cx.policy.broker;
    let seconds = lookup(view.properties, CHECK_IMMUNITY_TIME_IN_SECONDS);
    if let Some(seconds) = seconds
        && !ending.is_answer
        && broker.version >= REFUSES_LATE_FROM
    {
        let seconds: i64 = half::number(seconds).unwrap_or(0);
        let limit_ms = seconds.saturating_mul(half::MS_PER_S);
        let limit_ms = limit_ms.max(broker.transactions.timeout_ms);
        let age_ms = cx.store.wall_ms().saturating_sub(view.born_timestamp_ms);
        if age_ms > limit_ms {
            return Err(refusals::ended_too_late(age_ms, limit_ms));
        }
    }
    if lookup(view.properties, PGROUP) != Some(ending.group.as_bytes()) {
        return Err(refusals::other_producer_group());
    }
    if view.queue_offset != ending.half_offset {
        return Err(refusals::other_half_offset());
    }
    if view.physical_offset.cast_unsigned() != ending.physical_offset {
        return Err(refusals::other_log_offset());
    }
    Ok(())
}

/// A second end of the same kind is what the first was; another one comes too late.
fn answer_repeated<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    ending: &Ending,
    before: Decision,
) -> Processed {
    let was = match before {
        Decision::Commit => "committed",
        Decision::Rollback => "rolled back",
    };
    if before != ending.decision {
        return Err(refusals::ended_otherwise(was).into());
    }
    let remark = format!("the transaction was {was} before");
    cx.connections
        .succeed(&ending.request_context, Some(&remark));
    Ok(())
}

fn store_committed<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    ending: &Ending,
    view: &RecordView<'_>,
) -> Processed {
    let target = half::meant_for(view).ok_or_else(refusals::no_half_message)?;
    let mut seen = properties::see(view.properties);
    // From now on it takes the route of any other.
    seen.is_half = false;
    let route = delivery.route_of(cx, &seen, COMMIT, target.0, false)?;
    let mut text = Vec::new();
    let message = half::committed(view, target, route, &mut text);
    let appended = cx.store.writer().append(&message);
    let appended = appended.map_err(|error| cx.not_stored(&error))?;
    cx.connections.stats.sends += 1;
    cx.connections.stats.send_bytes += appended.len_bytes;
    let age_ms = cx.store.wall_ms().saturating_sub(view.born_timestamp_ms);
    let age_s = (age_ms / half::MS_PER_S).max(0).unsigned_abs();
    cx.connections.traffic.finished(target.0, age_s);
    // Who gets no answer needs no sync for it.
    let waits = !ending.request_context.is_oneway;
    let stored = Stored::at(ending.request_context, Kind::End, target.1, &appended);
    delivery.settle(cx, stored, appended.end(), waits);
    Ok(())
}

/// All messages of a batch in one run of their queue: all of them or none.
fn store_batch_committed<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    ending: &Ending,
    (view, batch): (&RecordView<'_>, &Batch<'_>),
) -> Processed {
    let target = half::meant_for(view).ok_or_else(refusals::no_half_message)?;
    let messages = batch.committed(view, target);
    let appended = cx.store.writer().append_batch(&messages);
    let appended = appended.map_err(|error| cx.not_stored(&error))?;
    let (Some(first), Some(last)) = (appended.first(), appended.last()) else {
        // All of them were stored before.
        cx.connections.succeed(&ending.request_context, None);
        return Ok(());
    };
    cx.connections.stats.sends += appended.len() as u64;
    cx.connections.stats.send_bytes += last.end() - first.physical_offset;
    let stored = Stored::at(ending.request_context, Kind::End, target.1, first);
    delivery.settle(cx, stored, last.end(), !ending.request_context.is_oneway);
    Ok(())
}
