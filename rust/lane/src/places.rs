//! Questions about places: where a group goes on, where a queue begins and ends, which offset goes
//! with a time (`ConsumerManageProcessor`, `AdminBrokerProcessor`).

use mqcore_engine::clock::Clock;
use mqcore_engine::consume_queue::Boundary;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;

use crate::asker::Asker;
use crate::codes;
use crate::desk::Said;
use crate::lane::{Lane, Outcome};
use crate::readers::Job;
use crate::requests::{BadField, GroupOffset, QueuePlace, Request};

/// The official remark for a group that was never here.
const NOT_FOUND: &str = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
/// The official remark for an offset that is not taken because of a reset.
const OFFSET_WAS_RESET: &str = "Offset has been previously reset";

type Ran = std::result::Result<Outcome, BadField>;

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn query_offset(&mut self, request: &Request<'_>) -> Ran {
        let ask = GroupOffset::read(request)?;
        let (topic, queue_id) = (ask.topic.as_bytes(), ask.queue_id);
        let known = self.offsets.find(ask.group, ask.topic, queue_id);
        let offset = match known.filter(|offset| *offset >= 0) {
            Some(offset) => Ok(Some(offset)),
            None if !ask.zero_if_unknown => Ok(None),
            // A new group on a young queue begins at its start, whatever the client would do.
            None => self.store.bounds(topic, queue_id).and_then(|bounds| {
                let is_young = bounds.is_none_or(|bounds| bounds.min == 0)
                    && !self.store.is_far(topic, queue_id, 0)?;
                Ok(is_young.then_some(0))
            }),
        };
        match offset {
            Ok(Some(offset)) => self.reply_offset(&request.asker, offset),
            Ok(None) => self.refuse(&request.asker, codes::QUERY_NOT_FOUND, NOT_FOUND),
            Err(error) => {
                self.refuse(&request.asker, codes::SYSTEM_ERROR, &error.to_string());
            }
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn update_offset(&mut self, request: &Request<'_>) -> Ran {
        let ask = GroupOffset::read(request)?;
        let Some(offset) = ask.commit_offset else {
            let remark = "the custom field <commitOffset> is null";
            self.refuse(&request.asker, codes::SYSTEM_ERROR, remark);
            return Ok(Outcome::Done);
        };
        if ask.group.trim().is_empty() || ask.topic.trim().is_empty() {
            let remark = "an offset needs the names of a group and of a topic: one is empty";
            self.refuse(&request.asker, codes::SYSTEM_ERROR, remark);
            return Ok(Outcome::Done);
        }
        if self.resets.has(ask.group, ask.topic, ask.queue_id) {
            // The client has not heard of it yet: its offset is older.
            let said = Said {
                code: codes::SUCCESS,
                remark: Some(OFFSET_WAS_RESET),
            };
            self.desk.reply(&request.asker, said, |_fields| Ok(()));
            return Ok(Outcome::Done);
        }
        // Pops of the group would go on behind the offset that is left.
        self.release_pops(ask.group, ask.topic, ask.queue_id);
        let is_taken = self
            .offsets
            .commit(ask.group, ask.topic, ask.queue_id, offset);
        if is_taken {
            let said = Said {
                code: codes::SUCCESS,
                remark: None,
            };
            self.desk.reply(&request.asker, said, |_fields| Ok(()));
        } else {
            let remark = "this queue is none, or too many offsets are kept";
            self.refuse(&request.asker, codes::SYSTEM_ERROR, remark);
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn max_offset(&mut self, request: &Request<'_>) -> Ran {
        let ask = QueuePlace::read(request)?;
        let bounds = self.store.bounds(ask.topic.as_bytes(), ask.queue_id);
        let offset = bounds.map(|bounds| bounds.map_or(0, |bounds| bounds.max.cast_signed()));
        self.reply_found(&request.asker, offset);
        Ok(Outcome::Done)
    }

    pub(crate) fn min_offset(&mut self, request: &Request<'_>) -> Ran {
        let ask = QueuePlace::read(request)?;
        let bounds = self.store.bounds(ask.topic.as_bytes(), ask.queue_id);
        // A queue without a message begins at 0: the official broker makes it when it is asked for.
        let offset = bounds.map(|bounds| bounds.map_or(0, |bounds| bounds.min.cast_signed()));
        self.reply_found(&request.asker, offset);
        Ok(Outcome::Done)
    }

    pub(crate) fn search_offset(&mut self, request: &Request<'_>) -> Ran {
        let ask = QueuePlace::read(request)?;
        let Some(timestamp_ms) = ask.timestamp_ms else {
            let remark = "the custom field <timestamp> is null";
            self.refuse(&request.asker, codes::SYSTEM_ERROR, remark);
            return Ok(Outcome::Done);
        };
        // Only a queue that is there is worth a job, and its name has a bound.
        match self.store.bounds(ask.topic.as_bytes(), ask.queue_id) {
            Ok(Some(_bounds)) => {}
            other => {
                self.reply_found(&request.asker, other.map(|_no_queue| 0));
                return Ok(Outcome::Done);
            }
        }
        // A search reads records all over the queue: never where the loop waits.
        let job = Job::Search {
            asker: request.asker,
            topic: ask.topic.into(),
            queue_id: ask.queue_id,
            timestamp_ms,
            boundary: if ask.is_upper {
                Boundary::Upper
            } else {
                Boundary::Lower
            },
        };
        if !self.readers.submit(job) {
            self.refuse(&request.asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
        Ok(Outcome::Done)
    }

    pub(crate) fn answer_search(&mut self, asker: &Asker, found: Result<Option<u64>>) {
        let offset = found.map(|offset| offset.unwrap_or(0).cast_signed());
        self.reply_found(asker, offset);
    }

    fn reply_found(&mut self, asker: &Asker, offset: Result<i64>) {
        match offset {
            Ok(offset) => self.reply_offset(asker, offset),
            Err(error) => self.refuse(asker, codes::SYSTEM_ERROR, &error.to_string()),
        }
    }

    fn reply_offset(&mut self, asker: &Asker, offset: i64) {
        let said = Said {
            code: codes::SUCCESS,
            remark: None,
        };
        self.desk
            .reply(asker, said, |fields| fields.number("offset", offset));
    }
}
