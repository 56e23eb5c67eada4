//! Sends: the official checks in the official order, what the broker writes into a message, the
//! append, and the answer or its parking (`SendMessageProcessor`, `AbstractSendMessageProcessor`,
//! `CommitLog.asyncPutMessage`).

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::Appended;
use mqcore_engine::disk::Disk;
use mqcore_record::batch::{Item, items, join_properties};
use mqcore_record::properties::lookup;
use mqcore_record::sys_flag::{MULTI_TAGS, TRANSACTION_MASK};
use mqcore_record::{Host, Message, inner_place};

use crate::asker::Asker;
use crate::codes;
use crate::inner_batch::is_inner_batch;
use crate::lane::{How, Lane, Need, Outcome};
use crate::names::{DEAD_LETTER_PREFIX, RETRY_PREFIX, check_name, spelled};
use crate::parked::{Kind, Stored};
use crate::policy::Topic;
use crate::properties;
use crate::requests::{BadField, Request, Send};
use crate::way::level_of;

/// Bytes of a record beside body and properties, at the most.
pub(crate) const RECORD_REST_BYTES: usize = 512;
/// Messages of one batch: far above what a client puts into 4 MiB, far below what costs memory.
pub(crate) const BATCH_COUNT_MAX: usize = 65_536;
/// From this version on a client's own limit of retries counts (3.4.9).
pub(crate) const VERSION_WITH_MAX_RECONSUME: i32 = 121;
/// A refusal: code and remark.
pub(crate) type Refused = (i32, String);

/// What the checks came to.
enum Checked {
    Topic(Topic),
    Stop(Outcome),
}

/// What becomes of a message for a retry topic.
enum Retry {
    Goes,
    DeadLetter,
    UnknownGroup,
}

/// Where a message goes.
pub(crate) struct Target<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
}

/// What a message carries, whatever becomes of its topic.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) flag: i32,
    pub(crate) sys_flag: i32,
    pub(crate) born_timestamp_ms: i64,
    pub(crate) born_host: Host,
    pub(crate) store_host: Host,
    pub(crate) reconsume_times: i32,
    pub(crate) body: &'a [u8],
    pub(crate) properties: &'a [u8],
}

impl<'a> Draft<'a> {
    pub(crate) fn message(&self, target: &Target<'a>) -> Message<'a> {
        Message {
            topic: target.topic,
            queue_id: target.queue_id,
            flag: self.flag,
            sys_flag: self.sys_flag,
            born_timestamp_ms: self.born_timestamp_ms,
            born_host: self.born_host,
            store_host: self.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: 0,
            body: self.body,
            properties: self.properties,
            version: None,
        }
    }
}

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn send(
        &mut self,
        request: &Request<'_>,
        has_short_names: bool,
        how: How,
    ) -> Result<Outcome, BadField> {
        let send = match Send::read(request, has_short_names) {
            Ok(send) => send,
            Err(bad) => {
                self.refuse_send(&request.asker, codes::SYSTEM_ERROR, &bad.to_string());
                return Ok(Outcome::Done);
            }
        };
        let topic = match self.check_send(&request.asker, &send, how) {
            Checked::Topic(topic) => topic,
            Checked::Stop(outcome) => return Ok(outcome),
        };
        let properties_bytes = send.properties.len() + self.stamp.len_bytes();
        let bytes = request.body.len() + properties_bytes + RECORD_REST_BYTES;
        if self.has_deferred() || !self.store.is_ready_for(bytes as u64) {
            return Ok(Outcome::Defer);
        }
        if let Some(remark) = self.is_overloaded(&request.asker) {
            self.refuse_send(&request.asker, codes::SYSTEM_BUSY, remark);
            return Ok(Outcome::Done);
        }
        let queue_id = if send.queue_id < 0 {
            self.turn = self.turn.wrapping_add(1);
            (self.turn % topic.write_queues.max(1).unsigned_abs()).cast_signed()
        } else {
            send.queue_id
        };
        let stored = if send.is_batch {
            self.store_batch(request, &send, topic, queue_id)
        } else {
            self.store_single(request, &send, topic, queue_id, how)
        };
        match stored {
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(outcome),
            Err((code, remark)) => self.refuse_send(&request.asker, code, &remark),
        }
        Ok(Outcome::Done)
    }

    /// The checks before the message itself is looked at (`preSend`, `msgCheck`).
    fn check_send(&mut self, asker: &Asker, send: &Send<'_>, how: How) -> Checked {
        let broker = &self.policy.broker;
        let known = self.policy.topics.get(send.topic).copied();
        let from_ms = broker.accepts_sends_from_ms;
        let refused = if let Some(refusal) = &broker.refuse_sends {
            Some((refusal.code, refusal.remark.clone()))
        } else if from_ms > 0 && self.store.wall_ms() < from_ms {
            let remark = format!("broker unable to service, until {from_ms} (Unix ms)");
            Some((codes::SYSTEM_ERROR, remark))
        } else if !broker.perm.is_writable() && known.is_some_and(|topic| topic.is_ordered) {
            let address = &broker.address;
            let remark = format!("the broker[{address}] sending message is forbidden");
            Some((codes::NO_PERMISSION, remark))
        } else {
            check_name(send.topic)
        };
        let refused = match (refused, known) {
            (Some(refused), _) => refused,
            (None, None) if how == How::ByPolicy => {
                let need = Need::Topic(send.topic.to_owned());
                return Checked::Stop(Outcome::Hand(need));
            }
            (None, None) => {
                let (name, see) = (send.topic, codes::SEE_FAQ);
                let remark = format!("topic[{name}] not exist, apply first please!{see}");
                (codes::TOPIC_NOT_EXIST, remark)
            }
            (None, Some(topic)) if topic.needs_check && how == How::ByPolicy => {
                return Checked::Stop(Outcome::Hand(Need::Check));
            }
            (None, Some(topic)) => {
                if send.queue_id < topic.write_queues.max(topic.read_queues) {
                    return Checked::Topic(topic);
                }
                let peer = self.desk.connection(asker.connection);
                let peer = peer.map_or("", |connection| &connection.peer);
                let shown = spelled(send.topic, topic);
                let remark = format!(
                    "request queueId[{}] is illegal, {shown} Producer: {peer}",
                    send.queue_id
                );
                (codes::SYSTEM_ERROR, remark)
            }
        };
        self.refuse_send(asker, refused.0, &refused.1);
        Checked::Stop(Outcome::Done)
    }

    /// Whether a send would wait behind too many.
    pub(crate) fn is_overloaded(&self, asker: &Asker) -> Option<&'static str> {
        let connection = self.desk.connection(asker.connection);
        let parked = connection.map_or(0, |connection| connection.parked);
        let limits = &self.policy.broker.parked;
        let is_full = self.parked.len() >= limits.all || parked >= limits.per_connection;
        is_full.then_some(codes::OVERLOAD)
    }

    fn store_single(
        &mut self,
        request: &Request<'_>,
        send: &Send<'_>,
        topic: Topic,
        queue_id: i32,
        how: How,
    ) -> Result<Option<Outcome>, Refused> {
        let mut seen = properties::see(send.properties.as_bytes());
        let delay = level_of(&seen)?;
        self.check_inner_batch(send, &seen)?;
        // Clients before 4.6.1 send messages back with the mark of the transaction they came by.
        seen.is_half &= !(send.reconsume_times > 0 && delay > 0);
        let dead_letter = match self.dead_letter_of(request, send, how)? {
            Ok(dead_letter) => dead_letter,
            Err(need) => return Ok(Some(Outcome::Hand(need))),
        };
        if seen.is_half && self.policy.broker.rejects_transactions {
            let address = &self.policy.broker.address;
            let remark = format!("the broker[{address}] sending transaction message is forbidden");
            return Err((codes::NO_PERMISSION, remark));
        }
        let mark = self.mark_of(send, &seen);
        if let Some(outcome) = self.answer_repeat(mark, request, send, &seen) {
            return Ok(Some(outcome));
        }
        let dead_topic = dead_letter.as_deref().map(|name| (name, 0));
        let (name, queue) = dead_topic.unwrap_or((send.topic, queue_id));
        let has_multi_tags = match &dead_letter {
            Some(name) => self.policy.topics.get(name.as_str()),
            None => Some(&topic),
        };
        let multi_tags = if has_multi_tags.is_some_and(|topic| topic.has_multi_tags) {
            MULTI_TAGS
        } else {
            0
        };
        let mut properties = std::mem::take(&mut self.scratch);
        let wanted = Target {
            topic: name,
            queue_id: queue,
        };
        let sys_flag = send.sys_flag | multi_tags;
        let way = self.way_of(&seen, sys_flag, name, dead_letter.is_some())?;
        let recall = self.recall_handle(way, &seen, name);
        let text = send.properties.as_bytes();
        let (target, sys_flag) = self.redirect(wanted, text, way, sys_flag, &mut properties);
        let draft = Draft {
            flag: send.flag,
            sys_flag,
            born_timestamp_ms: send.born_timestamp_ms,
            born_host: self.born_host(&request.asker),
            store_host: self.policy.broker.store_host,
            reconsume_times: send.reconsume_times,
            body: request.body,
            properties: &properties,
        };
        let appended = self.store.append(&draft.message(&target));
        self.scratch = properties;
        let place = appended.map_err(|error| self.refused(&error))?;
        self.note_stored(mark, &place);
        self.desk.stats.sends += inner_place::span(sys_flag, send.properties.as_bytes());
        self.desk.stats.send_bytes += place.len_bytes;
        if seen.is_half {
            self.ends
                .counts
                .change(send.topic, |count| count.waiting += 1);
        }
        let mut stored = stored_at(request.asker, Kind::Send, queue_id, &place);
        stored.recall = recall;
        self.settle(stored, place.end(), seen.waits);
        Ok(None)
    }

    /// The dead letter topic, for a message of a retry topic that was tried often enough; or what
    /// Python has to make first.
    fn dead_letter_of(
        &self,
        request: &Request<'_>,
        send: &Send<'_>,
        how: How,
    ) -> Result<Result<Option<String>, Need>, Refused> {
        let Some(group) = send.topic.strip_prefix(RETRY_PREFIX) else {
            return Ok(Ok(None));
        };
        match self.retry_of(request, send, group) {
            Retry::Goes => Ok(Ok(None)),
            Retry::UnknownGroup if how == How::ByPolicy => Ok(Err(Need::Group(group.to_owned()))),
            Retry::UnknownGroup => Err(no_group(group)),
            Retry::DeadLetter => {
                let name = format!("{DEAD_LETTER_PREFIX}{group}");
                if self.policy.topics.contains_key(name.as_str()) {
                    Ok(Ok(Some(name)))
                } else if how == How::ByPolicy {
                    Ok(Err(Need::Topic(name)))
                } else {
                    Err((codes::SYSTEM_ERROR, format!("topic[{name}] not exist")))
                }
            }
        }
    }

    /// What becomes of a message for a retry topic (`handleRetryAndDLQ`).
    fn retry_of(&self, request: &Request<'_>, send: &Send<'_>, group: &str) -> Retry {
        let Some(known) = self.policy.groups.get(group) else {
            return Retry::UnknownGroup;
        };
        let own = send.max_reconsume_times;
        let max = own.filter(|_| request.asker.version >= VERSION_WITH_MAX_RECONSUME);
        // Who sends here by itself has counted this try already. But who consumes in order sends what
        // it has given up: a retry would come out of its order.
        let locked = self.policy.locked_until_ms.get(group);
        let is_ordered = locked.is_some_and(|until_ms| self.store.wall_ms() <= *until_ms);
        if is_ordered || send.reconsume_times > max.unwrap_or(known.max_retries) {
            Retry::DeadLetter
        } else {
            Retry::Goes
        }
    }

    /// The level of a delay, at most the highest there is.
    pub(crate) fn clipped_level(&self, level: i32) -> i32 {
        let max = i32::try_from(self.store.delay_levels()).unwrap_or(i32::MAX);
        level.min(max)
    }

    pub(crate) fn born_host(&self, asker: &Asker) -> Host {
        let connection = self.desk.connection(asker.connection);
        connection.map_or(self.policy.broker.store_host, |c| c.born_host)
    }

    /// The messages of a batch, each with what is stored as its properties: its own and the batch's.
    ///
    /// Clients of 5.x give the batch a key too. A message that has one keeps it: up to 5.3.3 an
    /// official broker lets the batch's win, so that all of them come to consumers as one and the
    /// same; later ones leave the batch's properties away.
    fn parts_of_batch<'a>(
        &self,
        request: &Request<'a>,
        send: &Send<'_>,
    ) -> Result<Vec<(Item<'a>, Vec<u8>)>, Refused> {
        let text = send.properties.as_bytes();
        let (mut whole, mut nameless) = (Vec::new(), Vec::new());
        self.stamp.rewrite(text, &[], &[], &mut whole);
        self.stamp
            .rewrite(text, &[properties::UNIQ_KEY], &[], &mut nameless);
        let has_key = nameless.len() < whole.len();
        let (mut parts, mut room) = (Vec::new(), Vec::new());
        for item in items(request.body) {
            let item = item.map_err(|bad| (codes::MESSAGE_ILLEGAL, bad.to_string()))?;
            let own = properties::without_pop_handle(item.properties, &mut room);
            let is_named = has_key && lookup(item.properties, properties::UNIQ_KEY).is_some();
            let more = if is_named { &nameless } else { &whole };
            let mut properties = Vec::new();
            join_properties(own, more, &mut properties).map_err(|_too_long| self.illegal())?;
            parts.push((item, properties));
            if parts.len() > BATCH_COUNT_MAX {
                let remark = format!("a batch of more than {BATCH_COUNT_MAX} messages");
                return Err((codes::MESSAGE_ILLEGAL, remark));
            }
        }
        Ok(parts)
    }

    fn store_batch(
        &mut self,
        request: &Request<'_>,
        send: &Send<'_>,
        topic: Topic,
        queue_id: i32,
    ) -> Result<Option<Outcome>, Refused> {
        let seen = properties::see(send.properties.as_bytes());
        let is_delayed = seen.delay.and_then(properties::level).unwrap_or(0) > 0;
        let max = self.store.config().max_message_bytes;
        if send.sys_flag & TRANSACTION_MASK != 0 || is_delayed || request.body.len() as u64 > max {
            return Err(self.illegal());
        }
        self.check_inner_batch(send, &seen)?;
        if is_inner_batch(&self.store, send, &seen) {
            return self.store_inner_batch(request, send, topic, queue_id);
        }
        let mark = self.mark_of_batch(request, send);
        if let Some(outcome) = self.answer_repeat(mark, request, send, &seen) {
            return Ok(Some(outcome));
        }
        let parts = self.parts_of_batch(request, send)?;
        let born_host = self.born_host(&request.asker);
        let store_host = self.policy.broker.store_host;
        let multi_tags = if topic.has_multi_tags { MULTI_TAGS } else { 0 };
        let target = Target {
            topic: send.topic,
            queue_id,
        };
        let drafts: Vec<Message<'_>> = parts
            .iter()
            .map(|(item, properties)| {
                let draft = Draft {
                    flag: item.flag,
                    sys_flag: send.sys_flag | multi_tags,
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
        let places = self.store.append_batch(&drafts);
        let places = places.map_err(|error| self.refused(&error))?;
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            return Err((
                codes::MESSAGE_ILLEGAL,
                "a batch without messages".to_owned(),
            ));
        };
        self.note_batch(request, send.topic, &places);
        self.desk.stats.sends += places.len() as u64;
        self.desk.stats.send_bytes += last.end() - first.physical_offset;
        let mut stored = stored_at(request.asker, Kind::Send, queue_id, first);
        stored.others = places.iter().skip(1).map(|p| p.physical_offset).collect();
        self.settle(stored, last.end(), seen.waits);
        Ok(None)
    }
}

/// What the answer to a message at this place will say.
pub(crate) fn stored_at(asker: Asker, kind: Kind, queue_id: i32, place: &Appended) -> Stored {
    Stored {
        asker,
        kind,
        queue_id,
        queue_offset: place.queue_offset,
        physical_offset: place.physical_offset,
        others: Vec::new(),
        recall: None,
        batch_key: None,
    }
}

pub(crate) fn no_group(group: &str) -> Refused {
    let see = codes::SEE_FAQ;
    let remark = format!("subscription group not exist, {group} {see}");
    (codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
}
