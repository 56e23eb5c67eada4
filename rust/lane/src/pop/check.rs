//! Who may pop what: the official checks in the official order (`PopMessageProcessor`,
//! `NotificationProcessor`, `PollingInfoProcessor`, `PeekMessageProcessor`), and the filter.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use super::headers::PopHeader;
use crate::asker::Asker;
use crate::codes;
use crate::desk::Said;
use crate::lane::{How, Lane, Need};
use crate::policy::{Filter, Wanted};
use crate::send::Refused;
use crate::sql::SQL92;

/// Messages of one pop at the most: the bits of a check point.
const COUNT_MAX: i32 = 32;
/// A pop that is this much older than it may be held is not looked at (`isTimeoutTooMuch`), ms.
const TOO_LATE_MS: i64 = 500;

/// Why a request is not executed: an answer, or a question to Python.
pub(super) enum Stop {
    Refuse(Refused),
    Hand(Need),
}

pub(super) fn refuse<T>(code: i32, remark: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Refuse((code, remark.into())))
}

/// What a request is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) group: &'a str,
    pub(super) topic: &'a str,
    pub(super) queue_id: i32,
}

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Whether a pop may be run, and what it is to give.
    pub(super) fn check_pop(
        &mut self,
        asker: &Asker,
        header: &PopHeader<'_>,
        how: How,
    ) -> Result<Filter, Stop> {
        let broker = &self.policy.broker;
        let address = &broker.address;
        let wall_ms = self.store.wall_ms();
        let born_ms = if header.born_ms == 0 {
            wall_ms
        } else {
            header.born_ms
        };
        let late_ms = wall_ms.saturating_sub(born_ms.saturating_add(header.poll_ms));
        if late_ms > TOO_LATE_MS {
            let remark = format!("the broker[{address}] pop message is timeout too much");
            return refuse(codes::POLLING_TIMEOUT, remark);
        }
        if !broker.perm.is_readable() {
            let remark = format!("the broker[{address}] pop message is forbidden");
            return refuse(codes::NO_PERMISSION, remark);
        }
        if header.count_max > COUNT_MAX {
            let remark = format!("the broker[{address}] pop message's num is greater than 32");
            return refuse(codes::INVALID_PARAMETER, remark);
        }
        if !broker.timing.is_enabled {
            let remark = format!(
                "the broker[{address}] pop message is forbidden because timerWheelEnable is false"
            );
            return refuse(codes::SYSTEM_ERROR, remark);
        }
        // The official broker gives the messages and can never store their check point.
        if header.invisible_ms > broker.timing.max_delay_ms && !header.is_ordered {
            let remark = format!(
                "the broker[{address}] pop message's invisible time is greater than {} ms",
                broker.timing.max_delay_ms
            );
            return refuse(codes::INVALID_PARAMETER, remark);
        }
        let place = Place {
            group: header.group,
            topic: header.topic,
            queue_id: header.queue_id,
        };
        self.check_reader(asker, place, how)?;
        self.filter_of_pop(header).map_err(Stop::Refuse)
    }

    /// Whether a group may read a topic at all.
    pub(super) fn check_reader(
        &self,
        asker: &Asker,
        place: Place<'_>,
        how: How,
    ) -> Result<(), Stop> {
        let broker = &self.policy.broker;
        if let Some(refusal) = &broker.refuse_pulls {
            return refuse(refusal.code, refusal.remark.clone());
        }
        if !broker.perm.is_readable() {
            let address = &broker.address;
            let remark = format!("the broker[{address}] peeking message is forbidden");
            return refuse(codes::NO_PERMISSION, remark);
        }
        let Place {
            group,
            topic,
            queue_id,
        } = place;
        let Some(known) = self.policy.topics.get(topic) else {
            if how == How::ByPolicy {
                return Err(Stop::Hand(Need::Topic(topic.to_owned())));
            }
            return Err(Stop::Refuse(no_topic(topic)));
        };
        if !known.perm.is_readable() {
            let remark = format!("the topic[{topic}] peeking message is forbidden");
            return refuse(codes::NO_PERMISSION, remark);
        }
        if queue_id >= known.read_queues {
            let remark = self.illegal_queue(asker, topic, queue_id, known.read_queues);
            return refuse(codes::INVALID_PARAMETER, remark);
        }
        let Some(known_group) = self.policy.groups.get(group) else {
            if how == How::ByPolicy {
                return Err(Stop::Hand(Need::Group(group.to_owned())));
            }
            let see = codes::SEE_FAQ;
            let remark = format!("subscription group [{group}] does not exist, {see}");
            return refuse(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark);
        };
        if !known_group.is_consume_enabled {
            let remark = format!("subscription group no permission, {group}");
            return refuse(codes::NO_PERMISSION, remark);
        }
        if (known.needs_check || known_group.needs_check) && how == How::ByPolicy {
            return Err(Stop::Hand(Need::Check));
        }
        Ok(())
    }

    pub(super) fn illegal_queue(
        &self,
        asker: &Asker,
        topic: &str,
        queue_id: i32,
        queues: i32,
    ) -> String {
        let peer = self.desk.connection(asker.connection);
        let peer = peer.map_or("", |connection| &connection.peer);
        format!(
            "queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{queues}] \
             consumer:[/{peer}]"
        )
    }

    /// What a pop wants: it always says so itself.
    fn filter_of_pop(&mut self, header: &PopHeader<'_>) -> Result<Filter, Refused> {
        let unreadable = || {
            let remark = "parse the consumer's subscription failed";
            (codes::SUBSCRIPTION_PARSE_FAILED, remark.to_owned())
        };
        let Some(text) = header.expression.filter(|text| !text.is_empty()) else {
            return Ok(Filter::All);
        };
        match Wanted::parse(Some(text), header.expression_kind) {
            None => Err(unreadable()),
            Some(Wanted::Tags(filter)) => Ok(filter),
            Some(Wanted::Expression(kind)) if *kind == *SQL92 => {
                let compiled = self.compiled.get(text);
                compiled.map(|sql| Filter::Sql(sql, None)).map_err(|error| {
                    let (code, remark) = unreadable();
                    (code, format!("{remark}: {error}"))
                })
            }
            Some(Wanted::Expression(_kind)) => Err(unreadable()),
        }
    }

    /// Refuses a request around pops; the official answers have the header of a pop all the same.
    pub(super) fn refuse_pop(&mut self, asker: &Asker, code: i32, remark: &str) {
        let remark = Some(remark);
        self.desk.reply(asker, Said { code, remark }, |fields| {
            fields.number("popTime", 0)?;
            fields.number("invisibleTime", 0)?;
            fields.number("reviveQid", 0)?;
            fields.number("restNum", 0)
        });
    }
}

pub(super) fn no_topic(topic: &str) -> Refused {
    let see = codes::SEE_FAQ;
    let remark = format!("topic[{topic}] not exist, apply first please! {see}");
    (codes::TOPIC_NOT_EXIST, remark)
}
