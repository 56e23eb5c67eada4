//! What is asked around pops without popping: whether something is there, how many wait, what would
//! come (`NotificationProcessor`, `PollingInfoProcessor`, `PeekMessageProcessor`).

use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Ask;

use super::check::{Place, Stop};
use super::headers::LookHeader;
use super::polls::{Bounds, QueueKey, Waits};
use crate::asker::{Asker, ConnectionId};
use crate::codes;
use crate::desk::Said;
use crate::lane::{How, Lane, Outcome};
use crate::requests::{BadField, Request};

/// A question that is over by this much less is not held any more (`PopRequest.isTimeout`), ms.
const NEARLY_OVER_MS: i64 = 50;
/// Longest hold that a client may ask for, ms.
const HOLD_MS_MAX: i64 = 3_600_000;
/// Messages of one peek at the most, as of a pop.
const PEEKED_MAX: usize = 32;

/// A question whether there is something to pop, owned, so that it can be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    asker: Asker,
    group: Arc<str>,
    topic: Arc<str>,
    queue_id: i32,
    poll_ms: i64,
    born_ms: i64,
    is_ordered: bool,
    attempt: Option<Box<str>>,
}

impl Waits for Notice {
    fn connection(&self) -> ConnectionId {
        self.asker.connection
    }

    fn line(&self) -> (&str, &str, i32) {
        (&self.topic, &self.group, self.queue_id)
    }

    fn may_want(&self, _tags_codes: &[i64]) -> bool {
        true
    }
}

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn notify(&mut self, request: &Request<'_>, how: How) -> Result<Outcome, BadField> {
        let header = LookHeader::read(request)?;
        if let Some(outcome) = self.stop_look(request, &header, how) {
            return Ok(outcome);
        }
        let born_ms = if header.born_ms == 0 {
            self.store.wall_ms()
        } else {
            header.born_ms
        };
        self.answer_notice(Notice {
            asker: request.asker,
            group: header.group.into(),
            topic: header.topic.into(),
            queue_id: header.queue_id.max(-1),
            poll_ms: header.poll_ms.min(HOLD_MS_MAX),
            born_ms,
            is_ordered: header.is_ordered,
            attempt: header.attempt.map(Into::into),
        });
        Ok(Outcome::Done)
    }

    /// Says that there is something to pop, or holds the question until there is.
    pub(crate) fn answer_notice(&mut self, notice: Notice) {
        if self.desk.connection(notice.asker.connection).is_none() {
            return;
        }
        let Notice {
            topic,
            group,
            queue_id,
            is_ordered,
            ..
        } = &notice;
        let queues = self.queues_of_line(topic, group, *queue_id, *is_ordered);
        let has_more = self.has_more_to_say(&notice, &queues);
        let mut is_full = false;
        if !has_more {
            let left_ms = notice.born_ms.saturating_add(notice.poll_ms) - self.store.wall_ms();
            let left_ms = left_ms.min(notice.poll_ms);
            let rules = &self.policy.broker.pops;
            let bounds = Bounds {
                per_line: rules.held_per_line,
                all: rules.held_max,
                per_connection: self.policy.broker.held.per_connection,
            };
            let may_wait = notice.poll_ms > 0 && left_ms >= NEARLY_OVER_MS;
            is_full = may_wait && !self.pops.notices.has_room(&notice, bounds);
            if may_wait && !is_full && !notice.asker.is_oneway {
                self.watch_all(&queues);
                // What came between the look and the watch is told by nobody.
                if !self.has_more_to_say(&notice, &queues) {
                    let hold_ms = (left_ms - NEARLY_OVER_MS + 1).unsigned_abs();
                    let deadline_ms = self.now_ms.saturating_add(hold_ms);
                    let now_ms = self.now_ms;
                    self.pops.notices.hold(notice, queues, now_ms, deadline_ms);
                    return;
                }
                self.unwatch_unwaited(&queues);
                return self.say_notice(&notice.asker, true, false);
            }
        }
        self.say_notice(&notice.asker, has_more, is_full);
    }

    fn say_notice(&mut self, asker: &Asker, has_more: bool, is_full: bool) {
        let said = Said {
            code: codes::SUCCESS,
            remark: None,
        };
        let spelled = |truth: bool| if truth { "true" } else { "false" };
        self.desk.reply(asker, said, |fields| {
            fields.text("hasMsg", spelled(has_more))?;
            fields.text("pollingFull", spelled(is_full))
        });
    }

    fn has_more_to_say(&mut self, notice: &Notice, queues: &[QueueKey]) -> bool {
        if !notice.is_ordered {
            return self.has_more_for(&notice.group, queues);
        }
        let now_ms = self.pop_ms();
        let attempt = notice.attempt.as_deref();
        queues.iter().any(|queue| {
            let place = (&*queue.0, &*notice.group, queue.1);
            let orders = &mut self.pops.orders;
            let is_free = orders.blocked_until(place, attempt, 0, now_ms).is_none();
            is_free && self.has_more_for(&notice.group, std::slice::from_ref(queue))
        })
    }

    pub(crate) fn polling_info(
        &mut self,
        request: &Request<'_>,
        how: How,
    ) -> Result<Outcome, BadField> {
        let header = LookHeader::read(request)?;
        if let Some(outcome) = self.stop_look(request, &header, how) {
            return Ok(outcome);
        }
        let line = (header.topic, header.group, header.queue_id);
        let held = self.pops.polls.len_of(line) as i64;
        let said = Said {
            code: codes::SUCCESS,
            remark: None,
        };
        self.desk.reply(&request.asker, said, |fields| {
            fields.number("pollingNum", held)
        });
        Ok(Outcome::Done)
    }

    pub(crate) fn peek(&mut self, request: &Request<'_>, how: How) -> Result<Outcome, BadField> {
        let header = LookHeader::read(request)?;
        if let Some(outcome) = self.stop_look(request, &header, how) {
            return Ok(outcome);
        }
        let wanted = usize::try_from(header.count_max)
            .unwrap_or(0)
            .min(PEEKED_MAX);
        let (topic, group) = (header.topic, header.group);
        let queues = self.queues_of_line(topic, group, header.queue_id.max(-1), false);
        let (mut records, mut rest) = (Vec::new(), 0);
        for (topic, queue_id) in &queues {
            let Ok(Some(bounds)) = self.store.bounds(topic.as_bytes(), *queue_id) else {
                continue;
            };
            let known = self.position_of(topic, group, *queue_id);
            let from = known.unwrap_or(bounds.min).clamp(bounds.min, bounds.max);
            rest += (bounds.max - from).cast_signed();
            let count_max = wanted.saturating_sub(records.len());
            let is_hot = || {
                self.store
                    .is_hot(topic.as_bytes(), *queue_id, from, count_max)
            };
            // A look is not worth a wait for the disk.
            if count_max == 0 || from == bounds.max || !is_hot().unwrap_or(false) {
                continue;
            }
            let ask = Ask {
                from,
                count_max,
                bytes_max: u64::MAX,
                tags_codes: &[],
                is_bulk: false,
            };
            if let Ok(got) = self.store.get(topic.as_bytes(), *queue_id, ask) {
                records.extend(got.records);
            }
        }
        let said = if records.is_empty() {
            (codes::PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
        } else {
            (codes::SUCCESS, "FOUND")
        };
        let (code, remark) = (said.0, Some(said.1));
        self.desk.reply_records(
            &request.asker,
            Said { code, remark },
            |fields| {
                fields.number("popTime", 0)?;
                fields.number("invisibleTime", 0)?;
                fields.number("reviveQid", 0)?;
                fields.number("restNum", rest)
            },
            records,
        );
        Ok(Outcome::Done)
    }

    /// The outcome of a question that may not be asked.
    fn stop_look(
        &mut self,
        request: &Request<'_>,
        header: &LookHeader<'_>,
        how: How,
    ) -> Option<Outcome> {
        let place = Place {
            group: header.group,
            topic: header.topic,
            queue_id: header.queue_id,
        };
        match self.check_reader(&request.asker, place, how) {
            Ok(()) => None,
            Err(Stop::Hand(need)) => Some(Outcome::Hand(need)),
            Err(Stop::Refuse((code, remark))) => {
                self.refuse(&request.asker, code, &remark);
                Some(Outcome::Done)
            }
        }
    }
}
