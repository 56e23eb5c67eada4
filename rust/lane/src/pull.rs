//! Pulls: the official checks in the official order, the read, the answer or its holding
//! (`PullMessageProcessor`, `PullRequestHoldService`).

use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::Bounds;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{GetStatus, Got};
use mqcore_wire::command::FrameWriter;

use crate::codes;
use crate::desk::{PINNED_BYTES_MAX, Said};
use crate::holds::{Hold, Pull};
use crate::lane::{How, Lane, Need, Outcome};
use crate::policy::Filter;
use crate::readers::{Job, read};
use crate::requests::{BadField, PullHeader, Request};
use crate::send::Refused;
use crate::shape::bodiless;
use crate::slow::suggested_broker;

/// Bytes that may wait for all connections together before pulls are refused: twice what may be
/// pinned, since what is beyond that is copied.
const QUEUED_BYTES_MAX: usize = 2 * PINNED_BYTES_MAX;
/// Records of one bulk answer: more than a reader makes of one batch buys nothing.
const BULK_COUNT_MAX: usize = 8_192;
/// Bytes of one bulk answer: half of what stops a connection whose client does not read.
const BULK_BYTES_MAX: u64 = 4 << 20;
/// Longest hold that a client may ask for, ms: beyond its own time-outs it means nothing.
const HOLD_MS_MAX: u64 = 3_600_000;

/// Why a pull is not read: an answer, or a question to Python.
enum Stop {
    Refuse(Refused),
    Hand(Need),
}

fn refuse<T>(code: i32, remark: impl Into<String>) -> std::result::Result<T, Stop> {
    Err(Stop::Refuse((code, remark.into())))
}

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn pull(
        &mut self,
        request: &Request<'_>,
        how: How,
    ) -> std::result::Result<Outcome, BadField> {
        let header = PullHeader::read(request)?;
        let filter = match self.check_pull(request, &header, how) {
            Ok(filter) => filter,
            Err(Stop::Hand(need)) => return Ok(Outcome::Hand(need)),
            Err(Stop::Refuse((code, remark))) => {
                self.refuse(&request.asker, code, &remark);
                return Ok(Outcome::Done);
            }
        };
        if header.commits() {
            let PullHeader {
                group,
                topic,
                queue_id,
                commit_offset,
                ..
            } = header;
            // What it commits is older than a reset that it has not heard of.
            if !self.resets.has(group, topic, queue_id) {
                self.offsets.commit(group, topic, queue_id, commit_offset);
            }
        }
        let hold_ms = header.suspends().then(|| {
            if self.policy.broker.is_long_polling {
                u64::try_from(header.suspend_ms)
                    .unwrap_or(0)
                    .min(HOLD_MS_MAX)
            } else {
                self.policy.broker.short_polling_ms
            }
        });
        let config = self.store.config();
        let (most, most_bytes) = if header.shape.is_bulk() {
            (BULK_COUNT_MAX, BULK_BYTES_MAX)
        } else {
            let most = config.read_count_memory_max.max(config.read_count_disk_max);
            (most, u64::MAX)
        };
        let wanted = usize::try_from(header.count_max).unwrap_or(0);
        let pull = Pull {
            asker: request.asker,
            group: header.group.into(),
            topic: header.topic.into(),
            queue_id: header.queue_id,
            queue_offset: header.queue_offset,
            // The first record is given whatever was asked for.
            count_max: wanted.clamp(1, most.max(1)),
            bytes_max: header
                .bytes_max
                .and_then(|max| u64::try_from(max).ok())
                .filter(|max| *max > 0)
                .map_or(most_bytes, |max| max.min(most_bytes)),
            shape: header.shape,
            filter,
            version: (!header.subscribes()).then_some(header.version),
        };
        self.read_pull(pull, hold_ms);
        Ok(Outcome::Done)
    }

    /// Runs a held pull again; whatever comes of it is the answer.
    pub(crate) fn pull_again(&mut self, mut pull: Pull) {
        if self.desk.connection(pull.asker.connection).is_none() {
            return;
        }
        // What was allowed and wanted when it came may be another by now.
        let checked = self.check_place(&pull.group, &pull.topic, pull.queue_id, &pull.asker);
        let filter = checked.and_then(|()| match pull.version {
            None => Ok(None),
            Some(version) => {
                let filter = self.filter_of_group(&pull.group, &pull.topic, version);
                filter.map(Some).map_err(Stop::Refuse)
            }
        });
        let (code, remark) = match filter {
            Ok(filter) => {
                if let Some(filter) = filter {
                    pull.filter = filter;
                }
                return self.read_pull(pull, None);
            }
            Err(Stop::Refuse(refused)) => refused,
            Err(Stop::Hand(Need::Group(name))) => no_group(&name),
            Err(Stop::Hand(_topic)) => no_topic(&pull.topic),
        };
        self.refuse(&pull.asker, code, &remark);
    }

    fn check_pull(
        &mut self,
        request: &Request<'_>,
        header: &PullHeader<'_>,
        how: How,
    ) -> std::result::Result<Filter, Stop> {
        let PullHeader { group, topic, .. } = *header;
        match self.check_place(group, topic, header.queue_id, &request.asker) {
            Err(Stop::Hand(Need::Group(name))) if how == How::Decided => {
                let refused = no_group(&name);
                return Err(Stop::Refuse(refused));
            }
            Err(Stop::Hand(_topic)) if how == How::Decided => {
                return Err(Stop::Refuse(no_topic(topic)));
            }
            other => other?,
        }
        let (topics, groups) = (&self.policy.topics, &self.policy.groups);
        let needs_check = topics.get(topic).is_some_and(|t| t.needs_check)
            || groups.get(group).is_some_and(|g| g.needs_check);
        if needs_check && how == How::ByPolicy {
            return Err(Stop::Hand(Need::Check));
        }
        self.filter_of(header).map_err(Stop::Refuse)
    }

    /// Whether a group may read a queue at all.
    fn check_place(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        asker: &crate::asker::Asker,
    ) -> std::result::Result<(), Stop> {
        let broker = &self.policy.broker;
        if let Some(refusal) = &broker.refuse_pulls {
            return refuse(refusal.code, refusal.remark.clone());
        }
        if !broker.perm.is_readable() {
            let address = &broker.address;
            let remark = format!("the broker[{address}] pulling message is forbidden");
            return refuse(codes::NO_PERMISSION, remark);
        }
        let Some(known_group) = self.policy.groups.get(group) else {
            return Err(Stop::Hand(Need::Group(group.to_owned())));
        };
        if !known_group.is_consume_enabled {
            let remark = format!("subscription group no permission, {group}");
            return refuse(codes::NO_PERMISSION, remark);
        }
        let Some(known) = self.policy.topics.get(topic) else {
            return Err(Stop::Hand(Need::Topic(topic.to_owned())));
        };
        if !known.perm.is_readable() {
            let remark = format!("the topic[{topic}] pulling message is forbidden");
            return refuse(codes::NO_PERMISSION, remark);
        }
        if !(0..known.read_queues).contains(&queue_id) {
            let peer = self.desk.connection(asker.connection);
            let peer = peer.map_or("", |connection| &connection.peer);
            let remark = format!(
                "queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{}] \
                 consumer:[/{peer}]",
                known.read_queues
            );
            return refuse(codes::SYSTEM_ERROR, remark);
        }
        Ok(())
    }

    fn read_pull(&mut self, pull: Pull, hold_ms: Option<u64>) {
        if self.desk.queued_bytes() > QUEUED_BYTES_MAX {
            return self.refuse(&pull.asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
        let reset = self.resets.take(&pull.group, &pull.topic, pull.queue_id);
        if let Some(offset) = reset {
            let got = self.got_reset(&pull.topic, pull.queue_id, offset);
            return self.answer_pull(pull, None, got);
        }
        let topic = pull.topic.as_bytes();
        let Ok(from) = u64::try_from(pull.queue_offset) else {
            let got = self.got_below_zero(&pull);
            return self.answer_pull(pull, hold_ms, got);
        };
        // With a test the store may look at many more units than it gives records.
        let units = if pull.filter.gives_all() {
            pull.count_max
        } else {
            let scanned = self.store.config().filter_scan_max_bytes;
            let units = scanned / mqcore_engine::config::QUEUE_UNIT_BYTES;
            pull.count_max.max(usize::try_from(units).unwrap_or(0))
        };
        let is_hot = self.store.is_hot(topic, pull.queue_id, from, units);
        let is_hot = is_hot.unwrap_or(false);
        if !is_hot {
            self.desk.stats.cold_pulls += 1;
        }
        if pull.filter.looks_at_records() {
            return self.read_filtered_pull(pull, hold_ms, is_hot);
        }
        if is_hot {
            let got = read(&self.store, &pull);
            return self.answer_pull(pull, hold_ms, got);
        }
        let asker = pull.asker;
        if !self.readers.submit(Job::Pull(pull, hold_ms)) {
            self.refuse(&asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
    }

    /// What the official store answers to an offset below zero.
    fn got_below_zero(&self, pull: &Pull) -> Result<Got<D>> {
        let bounds = self.store.bounds(pull.topic.as_bytes(), pull.queue_id)?;
        let (status, next_offset) = match bounds {
            None => (GetStatus::NoMatchedLogicQueue, 0),
            Some(bounds) if bounds.max == 0 => (GetStatus::NoMessageInQueue, 0),
            Some(bounds) => (GetStatus::OffsetTooSmall, bounds.min),
        };
        let bounds = bounds.unwrap_or(Bounds { min: 0, max: 0 });
        Ok(Got::empty(status, next_offset, bounds))
    }

    pub(crate) fn answer_pull(&mut self, pull: Pull, hold_ms: Option<u64>, got: Result<Got<D>>) {
        let got = match got {
            Ok(got) => got,
            Err(error) => {
                let remark = format!("store getMessage failed: {error}");
                return self.refuse(&pull.asker, codes::SYSTEM_ERROR, &remark);
            }
        };
        if got.status == GetStatus::Found {
            self.desk.stats.found += 1;
        } else {
            self.desk.stats.missed += 1;
        }
        let code = match got.status {
            GetStatus::Found => codes::SUCCESS,
            GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => {
                codes::PULL_RETRY_IMMEDIATELY
            }
            GetStatus::OffsetFoundNull | GetStatus::OffsetOverflowOne => codes::PULL_NOT_FOUND,
            GetStatus::NoMatchedLogicQueue | GetStatus::NoMessageInQueue => {
                if pull.queue_offset == 0 {
                    codes::PULL_NOT_FOUND
                } else {
                    codes::PULL_OFFSET_MOVED
                }
            }
            GetStatus::OffsetOverflowBadly | GetStatus::OffsetTooSmall | GetStatus::OffsetReset => {
                codes::PULL_OFFSET_MOVED
            }
        };
        match hold_ms {
            Some(hold_ms) if code == codes::PULL_NOT_FOUND => {
                self.hold(pull, hold_ms, got.status);
            }
            _ => self.give(&pull, code, got),
        }
    }

    fn give(&mut self, pull: &Pull, code: i32, got: Got<D>) {
        let group = self.policy.groups.get(&*pull.group);
        let is_readable = self.policy.broker.is_replica_readable;
        let suggested = suggested_broker(is_readable, got.suggests_replica, group);
        let stats = &mut self.desk.stats;
        stats.pulls += 1;
        stats.pulled += got.len() as u64;
        stats.pulled_bytes += got.bytes;
        self.gets.add(&pull.group, &pull.topic, got.len() as u64);
        let said = Said {
            code,
            remark: Some(got.status.name()),
        };
        let (next, min, max) = (got.next_offset, got.min_offset, got.max_offset);
        let write = |fields: &mut FrameWriter<'_, '_>| {
            fields.number("suggestWhichBrokerId", suggested)?;
            fields.number("nextBeginOffset", next.cast_signed())?;
            fields.number("minOffset", min.cast_signed())?;
            fields.number("maxOffset", max.cast_signed())
        };
        if pull.shape.is_bodiless() {
            match bodiless(&pull.topic, pull.queue_id, &got) {
                Ok(body) => self.desk.reply_body(&pull.asker, said, write, &body),
                Err(error) => self.refuse(&pull.asker, codes::SYSTEM_ERROR, &error.to_string()),
            }
        } else {
            let records = got.records;
            self.desk.reply_records(&pull.asker, said, write, records);
        }
    }

    fn hold(&mut self, pull: Pull, hold_ms: u64, status: GetStatus) {
        // Its connection may have closed while a thread read for it.
        let is_open = self.desk.connection(pull.asker.connection).is_some();
        if pull.asker.is_oneway || !is_open {
            return;
        }
        let (topic, queue_id) = (pull.topic.clone(), pull.queue_id);
        let arrivals = self.store.arrivals();
        arrivals.watch(topic.as_bytes(), queue_id);
        // What came between the read and the watch is told by nobody. A queue whose file is gone
        // at this offset is longer anyway: it waits for the check.
        if status != GetStatus::OffsetFoundNull
            && let Ok(Some(bounds)) = self.store.bounds(topic.as_bytes(), queue_id)
            && bounds.max > u64::try_from(pull.queue_offset).unwrap_or(0)
        {
            self.unwatch_unheld(&topic, queue_id);
            return self.pull_again(pull);
        }
        let (asker, now_ms) = (pull.asker, self.now_ms);
        let deadline_ms = now_ms.saturating_add(hold_ms);
        if let Hold::Full(max, whose) = self.holds.hold(pull, now_ms, deadline_ms) {
            self.unwatch_unheld(&topic, queue_id);
            let remark = format!("{}: {max} pulls {whose} wait already", codes::OVERLOAD);
            self.refuse(&asker, codes::SYSTEM_BUSY, &remark);
        }
    }

    /// Ends the watching of a queue that nobody waits at.
    pub(crate) fn unwatch_unheld(&self, topic: &str, queue_id: i32) {
        let is_waited_at = self.holds.is_waited_at(topic, queue_id)
            || self.pops.polls.is_waited_at(topic, queue_id)
            || self.pops.notices.is_waited_at(topic, queue_id);
        if !is_waited_at {
            self.store.arrivals().unwatch(topic.as_bytes(), queue_id);
        }
    }
}

fn no_group(group: &str) -> Refused {
    let see = codes::SEE_FAQ;
    let remark = format!("subscription group [{group}] does not exist, {see}");
    (codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
}

fn no_topic(topic: &str) -> Refused {
    let see = codes::SEE_FAQ;
    let remark = format!("topic[{topic}] not exist, apply first please! {see}");
    (codes::TOPIC_NOT_EXIST, remark)
}
