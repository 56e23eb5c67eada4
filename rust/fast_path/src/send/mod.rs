//! Sends: the official checks in the official order, what the broker writes into a message, the
//! append, and the answer or its parking (`SendMessageProcessor`, `AbstractSendMessageProcessor`,
//! `CommitLog.asyncPutMessage`).

pub(crate) mod back;
mod inner_batch;
mod repeated;

use std::borrow::Cow;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::batch::{Item, items, join_properties};
use mqcore_record::inner_offsets::INNER_COUNT_MAX;
use mqcore_record::properties::{INNER_NUM, UNIQ_KEY, lookup};
use mqcore_record::sys_flag::{INNER_BATCH, MULTI_TAGS, NEED_UNWRAP, TRANSACTION_MASK};
use mqcore_record::{Message, inner_offsets};

use self::inner_batch::{check_batch_topic, check_inner_batch, without_pop_handles};
pub(crate) use self::repeated::RepeatedSends;
use crate::batches::{BATCH_COUNT_MAX, RECORD_REST_BYTES, is_inner_batch};
use crate::codes;
use crate::context::Context;
use crate::delivery::answers::refuse_send;
use crate::delivery::route::{DeliveryRoute, level_of, recall_handle};
use crate::delivery::stamp::Stamp;
use crate::delivery::{Delivery, Draft, Target};
use crate::half_counts::Counts;
use crate::names::{DEAD_LETTER_PREFIX, RETRY_PREFIX, check_name, spelled};
use crate::parked::{Kind, Stored};
use crate::policy::{Policy, Topic};
use crate::properties::{self, POP_CK, Seen};
use crate::refusals::{self, Refused};
use crate::request_context::RequestContext;
use crate::requests::{Request, Send};
use crate::stop::{Escalation, How, Processed, Stop};
use crate::traffic::Slot;

/// From this version on a client's own limit of retries counts (3.4.9).
pub(crate) const VERSION_WITH_MAX_RECONSUME: i32 = 121;

const MS_PER_S: u64 = 1_000;

/// What becomes of a message for a retry topic.
enum Retry {
    Goes,
    DeadLetter,
    UnknownGroup,
}

/// A send that has passed the first checks.
#[derive(Clone, Copy)]
pub(crate) struct Accepted<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) send: &'a Send<'a>,
    pub(crate) topic: Topic,
    /// The queue that was asked for, or chosen.
    pub(crate) queue_id: i32,
    how: How,
}

impl<'a> Accepted<'a> {
    /// Where it was asked to go.
    fn target(&self) -> Target<'a> {
        Target {
            topic: self.send.topic,
            queue_id: self.queue_id,
        }
    }

    /// The flag of messages with several tags.
    pub(crate) fn multi_tags(&self) -> i32 {
        if self.topic.has_multi_tags {
            MULTI_TAGS
        } else {
            0
        }
    }
}

/// The processor of sends.
pub(crate) struct SendProcessor {
    pub(crate) repeats: RepeatedSends,
    /// Half messages by topic.
    counts: Arc<Counts>,
    /// Buffer for the properties of a message.
    pub(crate) scratch: Vec<u8>,
}

impl SendProcessor {
    pub(crate) fn new(repeats: RepeatedSends, counts: Arc<Counts>) -> Self {
        Self {
            repeats,
            counts,
            scratch: Vec::new(),
        }
    }

    /// Executes a send.
    pub(crate) fn process<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let refused = match self.send(cx, delivery, request, how) {
            Err(Stop::Refuse(refused)) => refused,
            // Every response to a send has the fields of one.
            Err(Stop::BadHeader(bad)) => refusals::bad_header(&bad),
            other => return other,
        };
        refuse_send(
            cx.connections,
            &cx.policy.broker,
            &request.request_context,
            &refused,
        );
        Ok(())
    }

    fn send<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        request: &Request<'_>,
        how: How,
    ) -> Processed {
        let has_short_names = request.code != codes::SEND_MESSAGE;
        let send = Send::read(request, has_short_names)?;
        let topic = check_send(cx, &request.request_context, &send, how)?;
        let properties_bytes = send.properties.len() + delivery.stamp.len_bytes();
        let bytes = request.body.len() + properties_bytes + RECORD_REST_BYTES;
        if cx.waits_for_log(bytes as u64) {
            return Err(Stop::Defer);
        }
        delivery.check_load(cx, &request.request_context)?;
        let queue_id = if send.queue_id < 0 {
            delivery.next_queue(topic.write_queues)
        } else {
            send.queue_id
        };
        let accepted = Accepted {
            request,
            send: &send,
            topic,
            queue_id,
            how,
        };
        if send.is_batch {
            self.store_batch(cx, delivery, accepted)
        } else {
            self.store_single(cx, delivery, accepted)
        }
    }

    fn store_single<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        accepted: Accepted<'_>,
    ) -> Processed {
        let Accepted { request, send, .. } = accepted;
        let text = send.properties.as_bytes();
        let mut seen = properties::see(text);
        let by_priority = seen.queue_by_priority(accepted.topic.write_queues);
        let accepted = Accepted {
            queue_id: by_priority.unwrap_or(accepted.queue_id),
            ..accepted
        };
        let delay = level_of(&seen)?;
        check_inner_batch(cx, send, &seen)?;
        // Clients before 4.6.1 send messages back with the mark of the transaction they came by.
        seen.is_half &= !(send.reconsume_times > 0 && delay > 0);
        let dead_letter = dead_letter_of(cx, accepted)?;
        let (policy, broker) = (cx.policy, &cx.policy.broker);
        if seen.is_half && broker.rejects_transactions {
            return Err(refusals::transactions_forbidden(&broker.address).into());
        }
        Delivery::check_replicas(cx, seen.waits)?;
        let mut remembered = self.repeats.of_send(send, &seen);
        if remembered.answer_repeat(cx, delivery, (request, send), &seen)? {
            return Ok(());
        }
        let (topic, queue_id, multi_tags) = match dead_letter.as_deref() {
            None => (send.topic, accepted.queue_id, accepted.multi_tags()),
            Some(name) => {
                let known = policy.topics.get(name);
                let has_multi_tags = known.is_some_and(|topic| topic.has_multi_tags);
                (name, 0, if has_multi_tags { MULTI_TAGS } else { 0 })
            }
        };
        let sys_flag = send.sys_flag | multi_tags;
        let route = delivery.route_of(cx, &seen, sys_flag, topic, dead_letter.is_some())?;
        let recall = recall_handle(broker, route, &seen, topic);
        let wanted = Target { topic, queue_id };
        let mut properties = std::mem::take(&mut self.scratch);
        let (target, sys_flag) =
            delivery.redirect(broker, wanted, text, (route, sys_flag), &mut properties);
        let draft = Draft {
            flag: send.flag,
            sys_flag,
            born_timestamp_ms: send.born_timestamp_ms,
            born_host: cx.born_host(request),
            store_host: broker.store_host,
            reconsume_times: send.reconsume_times,
            body: request.body,
            properties: &properties,
        };
        let appended = cx.store.writer().append(&draft.message(&target));
        self.scratch = properties;
        let appended = appended.map_err(|error| cx.not_stored(&error))?;
        remembered.note_stored(cx.store, &appended);
        let messages = inner_offsets::span(sys_flag, text);
        cx.connections.stats.sends += messages;
        cx.connections.stats.send_bytes += appended.len_bytes;
        let dead = dead_letter.is_some().then_some(send.topic);
        let queue = (topic, send.queue_id);
        let counted = (messages, appended.len_bytes);
        let slot = count_stored(cx, (queue, counted), &seen, (route, dead));
        if seen.is_half {
            self.counts.change(send.topic, |count| count.waiting += 1);
        }
        let mut stored = Stored::at(
            request.request_context,
            Kind::Send,
            accepted.queue_id,
            &appended,
        );
        stored.counted = Some(slot);
        stored.recall = recall;
        delivery.settle(cx, stored, appended.end(), seen.waits);
        Ok(())
    }

    fn store_batch<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        accepted: Accepted<'_>,
    ) -> Processed {
        let Accepted { request, send, .. } = accepted;
        check_batch_topic(send.topic)?;
        let seen = properties::see(send.properties.as_bytes());
        let is_delayed = seen.delay.and_then(properties::level).unwrap_or(0) > 0;
        let max = cx.store.config().max_message_bytes;
        if send.sys_flag & TRANSACTION_MASK != 0 || is_delayed || request.body.len() as u64 > max {
            return Err(cx.illegal().into());
        }
        check_inner_batch(cx, send, &seen)?;
        if is_inner_batch(cx.store, send, &seen) {
            return self.store_inner_batch(cx, delivery, accepted);
        }
        Delivery::check_replicas(cx, seen.waits)?;
        let mut remembered = self.repeats.of_batch(request, send);
        if remembered.answer_repeat(cx, delivery, (request, send), &seen)? {
            return Ok(());
        }
        let parts = parts_of_batch(cx, &delivery.stamp, accepted)?;
        let born_host = cx.born_host(request);
        let store_host = cx.policy.broker.store_host;
        let target = accepted.target();
        let drafts: Vec<Message<'_>> = parts
            .iter()
            .map(|(item, properties)| {
                let draft = Draft {
                    flag: item.flag,
                    sys_flag: send.sys_flag | accepted.multi_tags(),
                    born_timestamp_ms: send.born_timestamp_ms,
                    born_host,
                    store_host,
                    reconsume_times: send.reconsume_times,
                    body: item.body,
                    properties,
                };
                draft.message(&target)
            })
            .collect();
        let appended = cx.store.writer().append_batch(&drafts);
        let appended = appended.map_err(|error| cx.not_stored(&error))?;
        let (Some(first), Some(last)) = (appended.first(), appended.last()) else {
            return Err(refusals::batch_empty().into());
        };
        remembered.note_batch(cx.store, request, send.topic, &appended);
        cx.connections.stats.sends += appended.len() as u64;
        let bytes = last.end() - first.physical_offset;
        cx.connections.stats.send_bytes += bytes;
        let (traffic, messages) = (&mut cx.connections.traffic, appended.len() as u64);
        let slot = traffic.stored(
            (send.topic, target.queue_id),
            seen.kind(),
            (messages, bytes),
        );
        let mut stored = Stored::at(request.request_context, Kind::Send, target.queue_id, first);
        stored.counted = Some(slot);
        stored.bytes = bytes;
        stored.others = appended.iter().skip(1).map(|p| p.physical_offset).collect();
        delivery.settle(cx, stored, last.end(), seen.waits);
        Ok(())
    }

    /// Stores a batch as one record.
    pub(crate) fn store_inner_batch<D: Disk, C: Clock>(
        &mut self,
        cx: &mut Context<'_, D, C>,
        delivery: &mut Delivery<D>,
        accepted: Accepted<'_>,
    ) -> Processed {
        let Accepted { request, send, .. } = accepted;
        let text = send.properties.as_bytes();
        let seen = properties::see(text);
        let (mut messages, mut has_handles) = (0, false);
        for item in items(request.body) {
            let item = item.map_err(refusals::bad_batch)?;
            has_handles |= lookup(item.properties, POP_CK).is_some();
            messages += 1;
        }
        if !(1..=INNER_COUNT_MAX).contains(&messages) || seen.timed.is_asked() {
            return Err(cx.illegal().into());
        }
        Delivery::check_replicas(cx, seen.waits)?;
        let mut remembered = self.repeats.of_send(send, &seen);
        if remembered.answer_repeat(cx, delivery, (request, send), &seen)? {
            return Ok(());
        }
        let body = if has_handles {
            Cow::Owned(without_pop_handles(request.body)?)
        } else {
            Cow::Borrowed(request.body)
        };
        let number = messages.to_string();
        let mut properties = std::mem::take(&mut self.scratch);
        let adds = [(INNER_NUM, number.as_bytes())];
        delivery.stamp.rewrite(text, &[], &adds, &mut properties);
        let draft = Draft {
            flag: send.flag,
            sys_flag: send.sys_flag | accepted.multi_tags() | INNER_BATCH | NEED_UNWRAP,
            born_timestamp_ms: send.born_timestamp_ms,
            born_host: cx.born_host(request),
            store_host: cx.policy.broker.store_host,
            reconsume_times: send.reconsume_times,
            body: &body,
            properties: &properties,
        };
        let target = accepted.target();
        let appended = cx.store.writer().append(&draft.message(&target));
        self.scratch = properties;
        let appended = appended.map_err(|error| cx.not_stored(&error))?;
        remembered.note_stored(cx.store, &appended);
        cx.connections.stats.sends += messages;
        cx.connections.stats.send_bytes += appended.len_bytes;
        let traffic = &mut cx.connections.traffic;
        let counted = (messages, appended.len_bytes);
        let slot = traffic.stored((send.topic, target.queue_id), seen.kind(), counted);
        let mut stored = Stored::at(
            request.request_context,
            Kind::Send,
            target.queue_id,
            &appended,
        );
        stored.counted = Some(slot);
        let key = lookup(text, UNIQ_KEY).and_then(|key| std::str::from_utf8(key).ok());
        stored.batch_key = key.map(Box::from);
        delivery.settle(cx, stored, appended.end(), seen.waits);
        Ok(())
    }
}

/// Counts a stored message by its topic; where its answer is counted. `dead` is the retry topic of one that
/// became a dead letter.
fn count_stored<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    (queue, counted): ((&str, i32), (u64, u64)),
    seen: &Seen<'_>,
    (route, dead): (DeliveryRoute, Option<&str>),
) -> Slot {
    let traffic = &mut cx.connections.traffic;
    let slot = traffic.stored(queue, seen.kind(), counted);
    if let DeliveryRoute::Timer(slot_ms) = route {
        let wait_ms = slot_ms.saturating_sub(cx.store.wall_ms()).max(0);
        traffic.delayed(queue.0, wait_ms.unsigned_abs() / MS_PER_S);
    }
    if let Some(retry) = dead {
        let group = retry.strip_prefix(RETRY_PREFIX).unwrap_or_default();
        traffic.given_back(group, retry, true);
    }
    slot
}

/// The checks before the message itself is looked at (`preSend`, `msgCheck`).
fn check_send<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    request_context: &RequestContext,
    send: &Send<'_>,
    how: How,
) -> Processed<Topic> {
    let broker = &cx.policy.broker;
    let known = cx.policy.topics.get(send.topic).copied();
    let from_ms = broker.accepts_sends_from_ms;
    if let Some(refusal) = &broker.refuse_sends {
        return Err(refusals::decided(refusal).into());
    }
    if from_ms > 0 && cx.store.wall_ms() < from_ms {
        return Err(refusals::not_yet(from_ms).into());
    }
    if !broker.perm.is_writable() && known.is_some_and(|topic| topic.is_ordered) {
        return Err(refusals::broker_not_writable(&broker.address).into());
    }
    check_name(send.topic)?;
    let Some(topic) = known else {
        return Err(Stop::topic(send.topic, how, refusals::no_topic_to_send));
    };
    if topic.needs_check && how == How::ByPolicy {
        return Err(Stop::Escalate(Escalation::Check));
    }
    if send.queue_id >= topic.write_queues.max(topic.read_queues) {
        let shown = spelled(send.topic, topic);
        return Err(
            refusals::no_queue_to_send(send.queue_id, &shown, cx.peer(request_context)).into(),
        );
    }
    Ok(topic)
}

/// The dead letter topic, for a message of a retry topic that was tried often enough.
fn dead_letter_of<D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    accepted: Accepted<'_>,
) -> Processed<Option<String>> {
    let Some(group) = accepted.send.topic.strip_prefix(RETRY_PREFIX) else {
        return Ok(None);
    };
    match retry_of(cx.store, cx.policy, accepted, group) {
        Retry::Goes => Ok(None),
        Retry::UnknownGroup => Err(Stop::group(group, accepted.how, refusals::no_group_to_send)),
        Retry::DeadLetter => {
            let name = format!("{DEAD_LETTER_PREFIX}{group}");
            if cx.policy.topics.contains_key(name.as_str()) {
                return Ok(Some(name));
            }
            Err(Stop::topic(&name, accepted.how, refusals::no_retry_topic))
        }
    }
}

/// What becomes of a message for a retry topic (`handleRetryAndDLQ`).
fn retry_of<D: Disk, C: Clock>(
    store: &Store<D, C>,
    policy: &Policy,
    accepted: Accepted<'_>,
    group: &str,
) -> Retry {
    let Some(known) = policy.groups.get(group) else {
        return Retry::UnknownGroup;
    };
    let own = accepted.send.max_reconsume_times;
    let version = accepted.request.request_context.version;
    let max = own.filter(|_| version >= VERSION_WITH_MAX_RECONSUME);
    // Who sends here by itself has counted this try already. But who consumes in order sends what
    // it has given up: a retry would come out of its order.
    let locked = policy.locked_until_ms.get(group);
    let is_ordered = locked.is_some_and(|until_ms| store.wall_ms() <= *until_ms);
    if is_ordered || accepted.send.reconsume_times > max.unwrap_or(known.max_retries) {
        Retry::DeadLetter
    } else {
        Retry::Goes
    }
}

/// The messages of a batch, each with what is stored as its properties: its own and the batch's.
///
/// Clients of 5.x give the batch a key too. A message that has one keeps it: up to 5.3.3 an official broker lets
/// the batch's win, so that all come to consumers as one and the same; later ones leave the batch's away.
fn parts_of_batch<'a, D: Disk, C: Clock>(
    cx: &Context<'_, D, C>,
    stamp: &Stamp,
    accepted: Accepted<'a>,
) -> Result<Vec<(Item<'a>, Vec<u8>)>, Refused> {
    let text = accepted.send.properties.as_bytes();
    let (mut whole, mut nameless) = (Vec::new(), Vec::new());
    stamp.rewrite(text, &[], &[], &mut whole);
    stamp.rewrite(text, &[properties::UNIQ_KEY], &[], &mut nameless);
    let has_key = nameless.len() < whole.len();
    let (mut parts, mut buffer) = (Vec::new(), Vec::new());
    for item in items(accepted.request.body) {
        let item = item.map_err(refusals::bad_batch)?;
        let own = properties::without_pop_handle(item.properties, &mut buffer);
        let is_named = has_key && lookup(item.properties, properties::UNIQ_KEY).is_some();
        let more = if is_named { &nameless } else { &whole };
        let mut properties = Vec::new();
        join_properties(own, more, &mut properties).map_err(|_too_long| cx.illegal())?;
        parts.push((item, properties));
        if parts.len() > BATCH_COUNT_MAX {
            return Err(refusals::batch_too_long(BATCH_COUNT_MAX));
        }
    }
    Ok(parts)
}
