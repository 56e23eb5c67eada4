//! Messages that their consumer sends back: to the retry topic of the group, delayed, or to its dead
//! letters (`SendMessageProcessor.asyncConsumerSendMsgBack`).

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_record::properties::lookup;
use mqcore_record::sys_flag::INNER_BATCH;
use mqcore_record::{CrcCheck, Message, RecordView};

use crate::asker::Asker;
use crate::codes;
use crate::desk::Said;
use crate::lane::{How, Lane, Need, Outcome};
use crate::moved::moved;
use crate::names::{DEAD_LETTER_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC};
use crate::parked::Kind;
use crate::policy::Group;
use crate::properties::{self, DELAY, ORIGIN_MESSAGE_ID, REAL_QID, REAL_TOPIC, RETRY_TOPIC, WAIT};
use crate::readers::Job;
use crate::requests::{Back, BadField, Request};
use crate::send::{
    RECORD_REST_BYTES, Refused, Target, VERSION_WITH_MAX_RECONSUME, no_group, stored_at,
};

/// The level of a message that was never sent back before, where the broker decides.
const FIRST_LEVEL: i32 = 3;

/// A message on its way back, owned: its record may have to be read from the disk first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Who asks.
    pub asker: Asker,
    /// Where the message is.
    pub physical_offset: u64,
    group: Box<str>,
    delay_level: i32,
    max_reconsume_times: i32,
}

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn send_back(
        &mut self,
        request: &Request<'_>,
        how: How,
    ) -> std::result::Result<Outcome, BadField> {
        let back = Back::read(request)?;
        let asker = request.asker;
        let group = match self.check_back(&back, how) {
            Ok(Some(group)) => group,
            Ok(None) => {
                // A group without retry queues: the message is dropped, as officially.
                self.succeed(&asker);
                return Ok(Outcome::Done);
            }
            Err(Stop::Hand(need)) => return Ok(Outcome::Hand(need)),
            Err(Stop::Refuse((code, remark))) => {
                self.refuse(&asker, code, &remark);
                return Ok(Outcome::Done);
            }
        };
        let own = back.max_reconsume_times;
        let own = own.filter(|_| asker.version >= VERSION_WITH_MAX_RECONSUME);
        let Ok(physical_offset) = u64::try_from(back.physical_offset) else {
            self.refuse_lookup(&asker, back.physical_offset);
            return Ok(Outcome::Done);
        };
        let returned = Returned {
            asker,
            physical_offset,
            group: back.group.into(),
            delay_level: back.delay_level,
            max_reconsume_times: own.unwrap_or(group.max_retries),
        };
        match self.record_if_hot(physical_offset) {
            Ok(Some(record)) => Ok(self.put_back(&returned, &record, how)),
            Ok(None) => {
                if !self.readers.submit(Job::Back(returned, how)) {
                    self.refuse(&asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
                }
                Ok(Outcome::Done)
            }
            Err(_no_record) => {
                self.refuse_lookup(&asker, back.physical_offset);
                Ok(Outcome::Done)
            }
        }
    }

    /// The group, unless it keeps no retries.
    fn check_back(&self, back: &Back<'_>, how: How) -> std::result::Result<Option<Group>, Stop> {
        let broker = &self.policy.broker;
        let Some(group) = self.policy.groups.get(back.group).copied() else {
            if how == How::ByPolicy {
                return Err(Stop::Hand(Need::Group(back.group.to_owned())));
            }
            return Err(Stop::Refuse(no_group(back.group)));
        };
        if !broker.perm.is_writable() {
            let address = &broker.address;
            let remark = format!("the broker[{address}] sending message is forbidden");
            return Err(Stop::Refuse((codes::NO_PERMISSION, remark)));
        }
        if group.retry_queues <= 0 {
            return Ok(None);
        }
        let retry = format!("{RETRY_PREFIX}{}", back.group);
        match self.policy.topics.get(retry.as_str()) {
            Some(topic) if !topic.perm.is_writable() => {
                let remark = format!("the topic[{retry}] sending message is forbidden");
                Err(Stop::Refuse((codes::NO_PERMISSION, remark)))
            }
            Some(_topic) => Ok(Some(group)),
            None if how == How::ByPolicy => Err(Stop::Hand(Need::Topic(retry))),
            None => Err(Stop::Refuse(no_topic(&retry))),
        }
    }

    pub(crate) fn record_if_hot(&self, physical_offset: u64) -> Result<Option<RecordBytes<D>>> {
        let Some(head) = self.store.record_now(physical_offset, 4)? else {
            return Ok(None);
        };
        let len = head.as_bytes().first_chunk::<4>();
        let len = len.map_or(0, |len| i32::from_be_bytes(*len));
        // Whatever it is, the slow way finds out what is wrong with it.
        let Ok(len @ 1..) = usize::try_from(len) else {
            return Ok(None);
        };
        self.store.record_now(physical_offset, len)
    }

    pub(crate) fn put_back_read(
        &mut self,
        returned: &Returned,
        how: How,
        record: Result<RecordBytes<D>>,
    ) {
        match record {
            Ok(record) => {
                // The request is gone by now; refused, its client sends the message by itself.
                match self.put_back(returned, &record, how) {
                    Outcome::Done => {}
                    Outcome::Defer | Outcome::Doubt(..) => {
                        self.refuse(&returned.asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
                    }
                    Outcome::Hand(_need) => {
                        let remark = "the topic for it is not there yet";
                        self.refuse(&returned.asker, codes::SYSTEM_ERROR, remark);
                    }
                }
            }
            Err(_error) => {
                self.refuse_lookup(&returned.asker, returned.physical_offset.cast_signed());
            }
        }
    }

    fn put_back(&mut self, returned: &Returned, record: &RecordBytes<D>, how: How) -> Outcome {
        let asker = &returned.asker;
        let Ok(view) = record.view(CrcCheck::Verify) else {
            self.refuse_lookup(asker, returned.physical_offset.cast_signed());
            return Outcome::Done;
        };
        if view.physical_offset.cast_unsigned() != returned.physical_offset {
            self.refuse_lookup(asker, returned.physical_offset.cast_signed());
            return Outcome::Done;
        }
        let is_dead =
            view.reconsume_times >= returned.max_reconsume_times || returned.delay_level < 0;
        let name = if is_dead {
            format!("{DEAD_LETTER_PREFIX}{}", returned.group)
        } else {
            format!("{RETRY_PREFIX}{}", returned.group)
        };
        if !self.policy.topics.contains_key(name.as_str()) {
            if how == How::ByPolicy {
                return Outcome::Hand(Need::Topic(name));
            }
            let (code, remark) = no_topic(&name);
            self.refuse(asker, code, &remark);
            return Outcome::Done;
        }
        let bytes = (view.total_len_bytes + RECORD_REST_BYTES) as u64;
        if self.has_deferred() || !self.store.is_ready_for(bytes) {
            return Outcome::Defer;
        }
        if let Some(remark) = self.is_overloaded(asker) {
            self.refuse(asker, codes::SYSTEM_BUSY, remark);
            return Outcome::Done;
        }
        if let Err((code, remark)) = self.store_returned(returned, &view, &name, is_dead) {
            self.refuse(asker, code, &remark);
        }
        Outcome::Done
    }

    fn store_returned(
        &mut self,
        returned: &Returned,
        view: &RecordView<'_>,
        name: &str,
        is_dead: bool,
    ) -> std::result::Result<(), Refused> {
        if view.sys_flag & INNER_BATCH != 0 {
            // One message of a batch was meant: its consumer sends that one as a message of its own.
            return Err(self.illegal());
        }
        let group = self.policy.groups.get(&*returned.group);
        let queues = group.map_or(1, |group| group.retry_queues.max(1).unsigned_abs());
        self.turn = self.turn.wrapping_add(1);
        let queue_id = if is_dead {
            0
        } else {
            (self.turn % queues).cast_signed()
        };
        let level = if returned.delay_level == 0 {
            FIRST_LEVEL.saturating_add(view.reconsume_times)
        } else {
            returned.delay_level
        };
        let level = self.clipped_level(level);
        let (level_text, queue_text) = (level.to_string(), queue_id.to_string());
        let own_id = view.offset_id();
        let kept = |name: &str| lookup(view.properties, name);
        let origin = kept(ORIGIN_MESSAGE_ID).filter(|id| !id.trim_ascii().is_empty());
        let mut adds = vec![
            (RETRY_TOPIC, kept(RETRY_TOPIC).unwrap_or(view.topic)),
            (ORIGIN_MESSAGE_ID, origin.unwrap_or(own_id.as_bytes())),
        ];
        let target = if is_dead {
            Target {
                topic: name,
                queue_id,
            }
        } else {
            adds.push((DELAY, level_text.as_bytes()));
            adds.push((REAL_TOPIC, name.as_bytes()));
            adds.push((REAL_QID, queue_text.as_bytes()));
            Target {
                topic: SCHEDULE_TOPIC,
                queue_id: level - 1,
            }
        };
        let drops = [WAIT, DELAY, REAL_TOPIC, REAL_QID];
        let mut text = Vec::new();
        properties::rewrite(view.properties, &drops, &adds, &mut text);
        let appended = self.store.append(&Message {
            reconsume_times: view.reconsume_times.saturating_add(1),
            ..moved(view, target.topic, target.queue_id, &text)
        });
        let place = appended.map_err(|error: Error| self.refused(&error))?;
        let stored = stored_at(returned.asker, Kind::Back, queue_id, &place);
        self.settle(stored, place.end(), true);
        Ok(())
    }

    fn succeed(&mut self, asker: &Asker) {
        let said = Said {
            code: codes::SUCCESS,
            remark: None,
        };
        self.desk.reply(asker, said, |_fields| Ok(()));
    }

    fn refuse_lookup(&mut self, asker: &Asker, physical_offset: i64) {
        let remark = format!("look message by offset failed, {physical_offset}");
        self.refuse(asker, codes::SYSTEM_ERROR, &remark);
    }
}

/// Why a message is not sent back: an answer, or a question to Python.
enum Stop {
    Refuse(Refused),
    Hand(Need),
}

fn no_topic(name: &str) -> Refused {
    (codes::SYSTEM_ERROR, format!("topic[{name}] not exist"))
}
