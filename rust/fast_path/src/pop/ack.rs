//! Acknowledgements, one or many, and changes of the invisible time: the official checks in the
//! official order (`AckMessageProcessor`, `ChangeInvisibleTimeProcessor`).

use mqcore_access::{Actions, Resource};
use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;

use super::headers::{AckHeader, BatchAck, batch_acks};
use super::log::WRITES_MAX_BYTES;
use super::merge::{PopBufferMerge, pop_ms};
use super::orders::Ordered;
use super::points::{Acknowledgement, CheckPoint};
use super::polling::PopLongPolling;
use super::shards::PopShards;
use crate::codes;
use crate::connections::ResponseHead;
use crate::context::Context;
use crate::policy::Policy;
use crate::pop_run::handle::Handle;
use crate::pop_run::names::{ORDER_QUEUE, normal_topic};
use crate::refusals::{self, Refused};
use crate::request_context::RequestContext;
use crate::requests::Request;
use crate::stop::{Processed, Stop};

/// How far a pop may be ahead of the clock for a change of its time to count from the pop, ms:
/// changes of one message within a millisecond come so far and no further, a clock that was put back
/// comes further.
const CHANGE_AHEAD_MAX_MS: i64 = 1_000;

/// Messages of a pop, as the buffer and the log name it.
struct Acknowledged<'a> {
    topic: &'a str,
    group: &'a str,
    queue_id: i32,
    revive_queue: i32,
    start_offset: i64,
    pop_time_ms: i64,
    invisible_ms: i64,
    broker: &'a str,
    is_batch: bool,
}

/// The processor of acknowledgements and of changes of the invisible time, for the length of one
/// call: what it works on belongs to the pops.
pub(super) struct AckProcessor<'p> {
    pub(super) merge: &'p mut PopBufferMerge,
    pub(super) polling: &'p mut PopLongPolling,
}

impl AckProcessor<'_> {
    /// Executes a request by its code.
    pub(super) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
    ) -> Processed {
        let request_context = &request.request_context;
        let done = match request.code {
            codes::ACK_MESSAGE => self.acknowledge(cx, request),
            _ => {
                let done = self.change_invisible(cx, request);
                return cx.refuse_by(done, |cx, refused| {
                    refuse_change(cx, request_context, refused);
                });
            }
        };
        cx.refuse(request_context, done)
    }

    fn acknowledge<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
    ) -> Processed {
        let header = AckHeader::read(request, false)?;
        let request_context = request.request_context;
        check_message(cx, &request_context, &header, false)?;
        let handle = handle_of(&header)?;
        let queue = (header.topic, header.group, header.queue_id);
        if handle.is_ordered() {
            self.acknowledge_ordered(
                cx,
                &request_context,
                queue,
                (header.offset, handle.pop_time_ms),
            )?;
        } else {
            let acked = acknowledged(&header, &handle);
            if !self.acknowledge_kept(cx.policy, &acked, header.offset) {
                if cx.waits_for_log(WRITES_MAX_BYTES) {
                    return Err(Stop::Defer);
                }
                self.store_ack(cx, &acked, vec![header.offset]);
            }
            self.land(cx.policy, queue, handle.pop_time_ms, 1);
        }
        cx.connections.traffic.acked(header.group, header.topic, 1);
        cx.connections.succeed(&request_context, None);
        Ok(())
    }

    /// Executes a batch of acknowledgements, each under the lock of its group's shard.
    pub(super) fn acknowledge_many<D: Disk, C: Clock>(
        cx: &mut Context<'_, D, C>,
        (shards, polling): (&PopShards, &mut PopLongPolling),
        request: &Request<'_>,
    ) -> Processed {
        let request_context = request.request_context;
        let (broker, acks) = batch_acks(request.body).map_err(refusals::bad_handle)?;
        if acks.is_empty() {
            let head = ResponseHead {
                code: codes::NO_MESSAGE,
                remark: None,
            };
            cx.connections
                .reply(&request_context, head, |_fields| Ok(()));
            return Ok(());
        }
        if let Some(further) = cx.further(request) {
            let pairs = acks.iter().flat_map(|ack| {
                let topic = normal_topic(&ack.topic, &ack.group);
                let topic = Resource::topic(topic, Actions::SUB);
                [topic, (Resource::group(&ack.group), Actions::SUB)]
            });
            cx.permit(&request_context, &further, pairs)?;
        }
        if cx.waits_for_log(WRITES_MAX_BYTES) {
            return Err(Stop::Defer);
        }
        let mut result = Ok(());
        for ack in &acks {
            let done = shards.of_group(&ack.group).with(|merge| {
                AckProcessor { merge, polling }.acknowledge_batch(
                    cx,
                    &request_context,
                    ack,
                    &broker,
                )
            });
            result = result.and(done);
        }
        result?;
        cx.connections.succeed(&request_context, None);
        Ok(())
    }

    fn acknowledge_batch<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request_context: &RequestContext,
        ack: &BatchAck,
        broker: &str,
    ) -> Result<(), Refused> {
        let bounds = cx.store.topics().bounds(ack.topic.as_bytes(), ack.queue_id);
        let Ok(Some(bounds)) = bounds else {
            return Ok(());
        };
        let range = bounds.min.cast_signed()..=bounds.max.cast_signed();
        let offsets = ack.offsets.iter().copied();
        let offsets = offsets.filter(|offset| range.contains(offset));
        let queue = (ack.topic.as_str(), ack.group.as_str(), ack.queue_id);
        if ack.revive_queue == ORDER_QUEUE {
            let mut result = Ok(());
            for offset in offsets {
                let which = (offset, ack.pop_time_ms);
                let done = self.acknowledge_ordered(cx, request_context, queue, which);
                if done.is_ok() {
                    cx.connections.traffic.acked(&ack.group, &ack.topic, 1);
                }
                result = result.and(done);
            }
            return result;
        }
        let acked = Acknowledged {
            topic: &ack.topic,
            group: &ack.group,
            queue_id: ack.queue_id,
            revive_queue: ack.revive_queue,
            start_offset: ack.start_offset,
            pop_time_ms: ack.pop_time_ms,
            invisible_ms: ack.invisible_ms,
            broker,
            is_batch: true,
        };
        let mut elsewhere: Vec<i64> = offsets.collect();
        let count = elsewhere.len();
        elsewhere.retain(|offset| !self.acknowledge_kept(cx.policy, &acked, *offset));
        if !elsewhere.is_empty() {
            self.store_ack(cx, &acked, elsewhere);
        }
        self.land(cx.policy, queue, ack.pop_time_ms, count);
        let traffic = &mut cx.connections.traffic;
        traffic.acked(&ack.group, &ack.topic, count as u64);
        Ok(())
    }

    /// Records that messages of a pop are settled; lets one go on that waits for the queue, where
    /// it has space again.
    pub(super) fn land(
        &mut self,
        policy: &Policy,
        queue: (&str, &str, i32),
        pop_time_ms: i64,
        messages: usize,
    ) {
        if self.merge.land(policy, queue, pop_time_ms, messages) {
            let (topic, group, queue_id) = queue;
            for queue_id in [-1, queue_id] {
                let line = (normal_topic(topic, group), group, queue_id);
                self.polling.wake_later(self.merge, line);
            }
        }
    }

    /// Whether a pop is in memory and took the acknowledgement.
    fn acknowledge_kept(&mut self, policy: &Policy, acked: &Acknowledged<'_>, offset: i64) -> bool {
        // A check point of another broker's name is none of ours.
        if acked.broker != policy.broker.name {
            return false;
        }
        let queue = (acked.topic, acked.group, acked.queue_id);
        let pop = (acked.start_offset, acked.pop_time_ms);
        self.merge.acknowledge(queue, pop, offset)
    }

    fn store_ack<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        acked: &Acknowledged<'_>,
        offsets: Vec<i64>,
    ) {
        let ack = Acknowledgement {
            topic: acked.topic.to_owned(),
            group: acked.group.to_owned(),
            queue_id: acked.queue_id,
            start_offset: acked.start_offset,
            pop_time_ms: acked.pop_time_ms,
            broker: acked.broker.to_owned(),
            offsets,
            is_batch: acked.is_batch,
        };
        let due_ms = acked.pop_time_ms.saturating_add(acked.invisible_ms);
        self.merge.put_ack(cx, &ack, acked.revive_queue, due_ms);
    }

    fn acknowledge_ordered<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        request_context: &RequestContext,
        queue: (&str, &str, i32),
        (offset, pop_time_ms): (i64, i64),
    ) -> Result<(), Refused> {
        let (topic, group, queue_id) = queue;
        let offsets = &self.merge.offsets;
        let known = offsets.find(group, topic, queue_id).unwrap_or(-1);
        if offset < known {
            return Ok(());
        }
        match self.merge.orders.acknowledge(queue, offset, pop_time_ms) {
            Ordered::Next(next_offset) => {
                let next_offset = behind_batch(cx.store, topic, queue_id, next_offset);
                let offsets = &self.merge.offsets;
                offsets.commit_unless_reset(group, topic, queue_id, next_offset);
                self.wake_ordered(pop_ms(cx.store, cx.policy), queue);
            }
            Ordered::Old => {}
            Ordered::Illegal => {
                return Err(refusals::not_popped(
                    queue,
                    known,
                    offset,
                    cx.peer(request_context),
                ));
            }
        }
        self.land(cx.policy, queue, pop_time_ms, 1);
        Ok(())
    }

    /// Lets one go on that waits for a queue which is not blocked any more.
    fn wake_ordered(&mut self, now_ms: i64, queue: (&str, &str, i32)) {
        let blocked = self.merge.orders.blocked_until(queue, None, 0, now_ms);
        if blocked.is_some() {
            return;
        }
        let (topic, group, queue_id) = queue;
        for queue_id in [-1, queue_id] {
            self.polling.wake(self.merge, (topic, group, queue_id));
        }
    }

    fn change_invisible<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request: &Request<'_>,
    ) -> Processed {
        let header = AckHeader::read(request, true)?;
        let request_context = request.request_context;
        check_message(cx, &request_context, &header, true)?;
        let handle = handle_of(&header)?;
        if handle.is_ordered() {
            self.change_ordered(cx, &request_context, &header, &handle);
            return Ok(());
        }
        if cx.waits_for_log(WRITES_MAX_BYTES) {
            return Err(Stop::Defer);
        }
        let time_ms = time_of_change(pop_ms(cx.store, cx.policy), handle.pop_time_ms);
        self.move_point(cx, &header, &handle, time_ms)?;
        cx.connections.traffic.changed(header.group, header.topic);
        let (invisible_ms, queue) = (header.invisible_ms, handle.revive_queue);
        reply_changed(cx, &request_context, (time_ms, invisible_ms, queue));
        Ok(())
    }

    /// A check point for the message alone, then its acknowledgement in the old one: in this order
    /// it comes twice at the worst.
    fn move_point<D: Disk, C: Clock>(
        &mut self,
        cx: &Context<'_, D, C>,
        header: &AckHeader<'_>,
        handle: &Handle<'_>,
        time_ms: i64,
    ) -> Result<(), Refused> {
        let queues = cx.policy.broker.pops.revive_queues;
        if !(0..queues).contains(&handle.revive_queue) {
            return Err(refusals::no_revive_queue(handle.revive_queue, queues));
        }
        let point = CheckPoint {
            topic: header.topic.to_owned(),
            group: header.group.to_owned(),
            queue_id: header.queue_id,
            start_offset: header.offset,
            pop_time_ms: time_ms,
            invisible_ms: header.invisible_ms,
            distances: vec![0],
            count: 1,
            bits: 0,
            broker: handle.broker.to_owned(),
            put_off: None,
        };
        let put = self.merge.put_point(cx, &point, handle.revive_queue);
        // Whatever the reason, the code is that of an error here.
        put.map_err(|refused| refusals::failed(&refused.remark))?;
        let acked = acknowledged(header, handle);
        if !self.acknowledge_kept(cx.policy, &acked, header.offset) {
            self.store_ack(cx, &acked, vec![header.offset]);
        }
        Ok(())
    }

    fn change_ordered<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        request_context: &RequestContext,
        header: &AckHeader<'_>,
        handle: &Handle<'_>,
    ) {
        let (topic, group, queue_id) = (header.topic, header.group, header.queue_id);
        let offsets = &self.merge.offsets;
        let known = offsets.find(group, topic, queue_id).unwrap_or(-1);
        if header.offset < known {
            return reply_changed(cx, request_context, (0, 0, 0));
        }
        let visible_ms = pop_ms(cx.store, cx.policy).saturating_add(header.invisible_ms);
        let pop_time_ms = handle.pop_time_ms;
        let queue = (topic, group, queue_id);
        let orders = &mut self.merge.orders;
        orders.change(queue, header.offset, pop_time_ms, visible_ms);
        let invisible_ms = visible_ms.saturating_sub(pop_time_ms);
        reply_changed(
            cx,
            request_context,
            (pop_time_ms, invisible_ms, handle.revive_queue),
        );
    }
}

/// The offset behind a batch that is one record, for one in the middle of it: the official broker
/// goes on there, and gives the same batch for ever.
fn behind_batch<D: Disk, C: Clock>(
    store: &Store<D, C>,
    topic: &str,
    queue_id: i32,
    offset: i64,
) -> i64 {
    if !store.topics().has_batch_queues(topic.as_bytes()) {
        return offset;
    }
    let from = offset.cast_unsigned();
    // Where the disk would have to be waited for, the batch comes once more.
    match store
        .topics()
        .batch_end_now(topic.as_bytes(), queue_id, from)
    {
        Ok(Some(behind)) => behind.cast_signed(),
        Ok(None) | Err(_) => offset,
    }
}

/// Whether there may be such a message.
fn check_message<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    request_context: &RequestContext,
    header: &AckHeader<'_>,
    is_change: bool,
) -> Result<(), Refused> {
    let AckHeader {
        topic,
        queue_id,
        offset,
        ..
    } = *header;
    let known = cx.policy.topics.get(topic).copied();
    let known = known.ok_or_else(|| refusals::no_topic(topic))?;
    if !(0..known.read_queues).contains(&queue_id) {
        let (code, peer) = (codes::MESSAGE_ILLEGAL, cx.peer(request_context));
        return Err(refusals::no_queue_to_read(
            code,
            (topic, known),
            queue_id,
            peer,
        ));
    }
    let bounds = cx.store.topics().bounds(topic.as_bytes(), queue_id);
    let bounds = bounds.map_err(|error| refusals::failed(&error))?;
    let (min, max) = bounds.map_or((0, 0), |bounds| (bounds.min, bounds.max));
    let (min, max) = (min.cast_signed(), max.cast_signed());
    // An acknowledgement may name the end of the queue, a change may not.
    let end = if is_change {
        max.saturating_sub(1)
    } else {
        max
    };
    if (min..=end).contains(&offset) {
        return Ok(());
    }
    Err(refusals::no_message((topic, queue_id), offset, (min, max)))
}

/// Answers a change: the time of the pop, how long it is invisible, the queue of its check point.
fn reply_changed<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    (time_ms, invisible_ms, queue_id): (i64, i64, i32),
) {
    let head = ResponseHead {
        code: codes::SUCCESS,
        remark: None,
    };
    cx.connections.reply(request_context, head, |fields| {
        fields.number("popTime", time_ms)?;
        fields.number("invisibleTime", invisible_ms)?;
        fields.number("reviveQid", queue_id.into())
    });
}

fn refuse_change<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    request_context: &RequestContext,
    refused: &Refused,
) {
    cx.connections
        .reply(request_context, ResponseHead::of(refused), |fields| {
            fields.number("popTime", 0)?;
            fields.number("invisibleTime", 0)?;
            fields.number("reviveQid", 0)
        });
}

/// When a message counts as popped whose time is changed now. Later than the pop that it comes from:
/// check points are found by their time, and one of the same millisecond would get the
/// acknowledgements of the other. (The official broker gives both the same time.)
fn time_of_change(now_ms: i64, pop_time_ms: i64) -> i64 {
    let ahead_ms = pop_time_ms.saturating_sub(now_ms);
    if (0..=CHANGE_AHEAD_MAX_MS).contains(&ahead_ms) {
        return pop_time_ms.saturating_add(1);
    }
    now_ms
}

fn handle_of<'a>(header: &AckHeader<'a>) -> Result<Handle<'a>, Refused> {
    Handle::parse(header.handle).map_err(refusals::bad_handle)
}

fn acknowledged<'a>(header: &AckHeader<'a>, handle: &Handle<'a>) -> Acknowledged<'a> {
    Acknowledged {
        topic: header.topic,
        group: header.group,
        queue_id: header.queue_id,
        revive_queue: handle.revive_queue,
        start_offset: handle.start_offset,
        pop_time_ms: handle.pop_time_ms,
        invisible_ms: handle.invisible_ms,
        broker: handle.broker,
        is_batch: false,
    }
}
