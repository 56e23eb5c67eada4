//! END_TRANSACTION: the official checks in the official order, the committed message, the note
//! that the half message is ended, and the answer.

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_record::properties::{CHECK_IMMUNITY_TIME_IN_SECONDS, PGROUP, lookup};
use mqcore_record::sys_flag::COMMIT;
use mqcore_record::{CrcCheck, Message, RecordView};

use super::batch::Batch;
use super::check::Checked;
use super::ends::{Decision, Half, NoteRules};
use super::half;
use crate::asker::Asker;
use crate::codes;
use crate::desk::Said;
use crate::lane::{Lane, Outcome};
use crate::names::{HALF_TOPIC, OP_HALF_TOPIC};
use crate::parked::Kind;
use crate::properties;
use crate::readers::Job;
use crate::requests::{BadField, End, Request};
use crate::send::{RECORD_REST_BYTES, Refused, stored_at};

/// First release that notes many ends in one message: V5_1_0.
const BATCHES_NOTES_FROM: i32 = 433;
/// First release that refuses an end that comes later than the message asked for: V5_1_1.
const REFUSES_LATE_FROM: i32 = 435;
/// The properties of a note, as the official broker writes them.
const NOTE_PROPERTIES: &[u8] = b"WAIT\x01true\x02TAGS\x01d\x02";
/// Milliseconds of a second.
pub(super) const MS_PER_S: i64 = 1_000;

const NOT_FOUND: &str = "Find prepared transaction message failed";

/// An end, owned: its half message may have to be read from the disk first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    asker: Asker,
    /// Where the half message is said to be.
    pub physical_offset: u64,
    half_offset: i64,
    decision: Decision,
    group: Box<str>,
    is_answer: bool,
    stored: usize,
}

impl Ending {
    /// What is to be committed of a half message that stands for many; `None` for any other.
    fn batch<'a>(&self, view: &RecordView<'a>) -> std::result::Result<Option<Batch<'a>>, String> {
        if self.decision == Decision::Rollback {
            return Ok(None);
        }
        let mut batch = Batch::of(view)?;
        if let Some(batch) = &mut batch {
            batch.skip(self.stored);
        }
        Ok(batch)
    }
}

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn end_transaction(
        &mut self,
        request: &Request<'_>,
    ) -> std::result::Result<Outcome, BadField> {
        let end = End::read(request)?;
        let asker = request.asker;
        let Some(decision) = end.decision() else {
            // Not decided yet: the official broker does not answer, and asks later.
            return Ok(Outcome::Done);
        };
        let Ok(physical_offset) = u64::try_from(end.commit_log_offset) else {
            self.refuse(&asker, codes::SYSTEM_ERROR, NOT_FOUND);
            return Ok(Outcome::Done);
        };
        let ending = Ending {
            asker,
            physical_offset,
            half_offset: end.half_offset,
            decision,
            group: end.group.into(),
            is_answer: end.is_answer,
            stored: end.stored,
        };
        match self.record_if_hot(physical_offset) {
            Ok(Some(record)) => Ok(self.end_half(&ending, &record)),
            Ok(None) => {
                if !self.readers.submit(Job::End(ending)) {
                    self.refuse(&asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
                }
                Ok(Outcome::Done)
            }
            Err(_no_record) => {
                self.refuse(&asker, codes::SYSTEM_ERROR, NOT_FOUND);
                Ok(Outcome::Done)
            }
        }
    }

    pub(crate) fn end_read(&mut self, ending: &Ending, record: Result<RecordBytes<D>>) {
        let outcome = match record {
            Ok(record) => self.end_half(ending, &record),
            Err(_error) => {
                self.refuse(&ending.asker, codes::SYSTEM_ERROR, NOT_FOUND);
                Outcome::Done
            }
        };
        if outcome != Outcome::Done {
            // The request is gone by now; the broker asks its producer later.
            self.refuse(&ending.asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
    }

    fn end_half(&mut self, ending: &Ending, record: &RecordBytes<D>) -> Outcome {
        let asker = &ending.asker;
        let view = record.view(CrcCheck::Verify).ok();
        let view = view.filter(|view| view.topic == HALF_TOPIC.as_bytes());
        let checked = view.ok_or((codes::SYSTEM_ERROR, NOT_FOUND.to_owned()));
        let checked = checked.and_then(|view| self.check_end(ending, &view).map(|()| view));
        let view = match checked {
            Ok(view) => view,
            Err((code, remark)) => {
                self.refuse(asker, code, &remark);
                return Outcome::Done;
            }
        };
        let known = half::known(&view);
        if let Some(before) = self.ends.decided(known) {
            self.answer_repeated(ending, before);
            return Outcome::Done;
        }
        let batch = match ending.batch(&view) {
            Ok(batch) => batch,
            Err(remark) => {
                self.refuse(asker, codes::MESSAGE_ILLEGAL, &remark);
                return Outcome::Done;
            }
        };
        let bytes = match &batch {
            Some(batch) => batch.len_bytes() + RECORD_REST_BYTES,
            None => view.total_len_bytes + RECORD_REST_BYTES,
        } as u64;
        if self.has_deferred() || !self.store.is_ready_for(bytes) {
            return Outcome::Defer;
        }
        if self.is_overloaded(asker).is_some() || !self.ends.has_room(view.queue_id) {
            self.refuse(asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
            return Outcome::Done;
        }
        let ended = match ending.decision {
            Decision::Commit => match &batch {
                Some(batch) => self.store_batch_committed(ending, &view, batch),
                None => self.store_committed(ending, &view),
            },
            Decision::Rollback => {
                self.answer_ended(asker, None);
                Ok(())
            }
        };
        match ended {
            Ok(()) => self.note_end(ending, &view, known),
            Err((code, remark)) => self.refuse(asker, code, &remark),
        }
        Outcome::Done
    }

    /// `rejectCommitOrRollback`, `checkPrepareMessage`.
    fn check_end(
        &self,
        ending: &Ending,
        view: &RecordView<'_>,
    ) -> std::result::Result<(), Refused> {
        let error = |remark: &str| Err((codes::SYSTEM_ERROR, remark.to_owned()));
        let broker = &self.policy.broker;
        let seconds = lookup(view.properties, CHECK_IMMUNITY_TIME_IN_SECONDS);
        if let Some(seconds) = seconds
            && !ending.is_answer
            && broker.version >= REFUSES_LATE_FROM
        {
            let seconds: i64 = half::number(seconds).unwrap_or(0);
            let limit_ms = seconds.saturating_mul(MS_PER_S);
            let limit_ms = limit_ms.max(broker.transactions.timeout_ms);
            let age_ms = self.store.wall_ms().saturating_sub(view.born_timestamp_ms);
            if age_ms > limit_ms {
                let remark = format!(
                    "the transaction is {age_ms} ms old, and its message lets only {limit_ms} ms \
                     pass ({CHECK_IMMUNITY_TIME_IN_SECONDS}): wait for the check"
                );
                return Err((codes::ILLEGAL_OPERATION, remark));
            }
        }
        if lookup(view.properties, PGROUP) != Some(ending.group.as_bytes()) {
            return error("The producer group wrong");
        }
        if view.queue_offset != ending.half_offset {
            return error("The transaction state table offset wrong");
        }
        if view.physical_offset.cast_unsigned() != ending.physical_offset {
            return error("The commit log offset wrong");
        }
        Ok(())
    }

    /// A second end of the same kind is what the first was; another one comes too late.
    fn answer_repeated(&mut self, ending: &Ending, before: Decision) {
        let was = match before {
            Decision::Commit => "committed",
            Decision::Rollback => "rolled back",
        };
        if before == ending.decision {
            let remark = format!("the transaction was {was} before");
            self.answer_ended(&ending.asker, Some(&remark));
        } else {
            let remark = format!("the transaction was {was} before: that cannot be taken back");
            self.refuse(&ending.asker, codes::SYSTEM_ERROR, &remark);
        }
    }

    fn answer_ended(&mut self, asker: &Asker, remark: Option<&str>) {
        let code = codes::SUCCESS;
        let said = Said { code, remark };
        self.desk.reply(asker, said, |_fields| Ok(()));
    }

    fn store_committed(
        &mut self,
        ending: &Ending,
        view: &RecordView<'_>,
    ) -> std::result::Result<(), Refused> {
        let Some(target) = half::meant_for(view) else {
            return Err((codes::SYSTEM_ERROR, NOT_FOUND.to_owned()));
        };
        let mut seen = properties::see(view.properties);
        // From now on it goes the way of any other.
        seen.is_half = false;
        let way = self.way_of(&seen, COMMIT, target.0, false)?;
        let mut text = Vec::new();
        let message = half::committed(view, target, way, &mut text);
        let appended = self.store.append(&message);
        let place = appended.map_err(|error| self.refused(&error))?;
        self.desk.stats.sends += 1;
        self.desk.stats.send_bytes += place.len_bytes;
        // Who is told of nothing needs no sync for it.
        let waits = !ending.asker.is_oneway;
        let stored = stored_at(ending.asker, Kind::End, target.1, &place);
        self.settle(stored, place.end(), waits);
        Ok(())
    }

    /// All messages of a batch in one run of their queue: all of them or none.
    fn store_batch_committed(
        &mut self,
        ending: &Ending,
        view: &RecordView<'_>,
        batch: &Batch<'_>,
    ) -> std::result::Result<(), Refused> {
        let Some(target) = half::meant_for(view) else {
            return Err((codes::SYSTEM_ERROR, NOT_FOUND.to_owned()));
        };
        let messages = batch.committed(view, target);
        let places = self.store.append_batch(&messages);
        let places = places.map_err(|error| self.refused(&error))?;
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            // All of them were stored before.
            self.answer_ended(&ending.asker, None);
            return Ok(());
        };
        self.desk.stats.sends += places.len() as u64;
        self.desk.stats.send_bytes += last.end() - first.physical_offset;
        let stored = stored_at(ending.asker, Kind::End, target.1, first);
        self.settle(stored, last.end(), !ending.asker.is_oneway);
        Ok(())
    }

    fn note_end(&mut self, ending: &Ending, view: &RecordView<'_>, known: Half) {
        let (rules, now_ms) = (self.note_rules(), self.now_ms);
        self.ends.decide(known, ending.decision, rules, now_ms);
        if let Some((topic, _queue)) = half::meant_for(view) {
            self.ends.counts.change(topic, |count| {
                count.waiting -= 1;
                match ending.decision {
                    Decision::Commit => count.committed += 1,
                    Decision::Rollback => count.rolled_back += 1,
                }
            });
        }
        self.write_due_notes();
    }

    fn note_rules(&self) -> NoteRules {
        let broker = &self.policy.broker;
        NoteRules {
            is_batched: broker.version >= BATCHES_NOTES_FROM,
            bytes_max: broker.transactions.note_bytes_max,
            interval_ms: broker.transactions.note_interval_ms,
        }
    }

    /// Writes the notes that are due.
    pub(crate) fn write_due_notes(&mut self) {
        while let Some(queue_id) = self.ends.due(self.now_ms) {
            if !self.write_note(queue_id) {
                let now_ms = self.now_ms;
                self.ends.failed(queue_id, now_ms);
                return;
            }
        }
    }

    /// Writes all notes; true when none is left.
    pub fn write_notes(&mut self) -> bool {
        while let Some(queue_id) = self.ends.any() {
            if !self.write_note(queue_id) {
                return false;
            }
        }
        true
    }

    fn write_note(&mut self, queue_id: i32) -> bool {
        let rules = self.note_rules();
        let mut body = std::mem::take(&mut self.scratch);
        let count = self.ends.next_note(queue_id, rules, &mut body);
        let store_host = self.policy.broker.store_host;
        let is_ready = self
            .store
            .is_ready_for((body.len() + RECORD_REST_BYTES) as u64);
        let is_written = is_ready
            && self
                .store
                .append(&Message {
                    topic: OP_HALF_TOPIC,
                    queue_id,
                    flag: 0,
                    sys_flag: 0,
                    born_timestamp_ms: self.store.wall_ms(),
                    born_host: store_host,
                    store_host,
                    reconsume_times: 0,
                    prepared_transaction_offset: 0,
                    body: &body,
                    properties: NOTE_PROPERTIES,
                    version: None,
                })
                .is_ok();
        self.scratch = body;
        if is_written {
            let now_ms = self.now_ms;
            self.ends.noted(queue_id, count, rules, now_ms);
        }
        is_written
    }

    /// Takes what a round of the check did; tells of each copy whether it was ended meanwhile.
    pub fn note_checked(&mut self, done: &Checked) -> Vec<bool> {
        let (rules, now_ms) = (self.note_rules(), self.now_ms);
        for topic in &done.given_up {
            self.ends.counts.change(topic, |count| {
                count.waiting -= 1;
                count.given_up += 1;
            });
        }
        let ends = &mut self.ends;
        let copies = done.copies.iter();
        let ended = copies.map(|copied| ends.copied(copied.from, copied.to, rules, now_ms));
        let ended = ended.collect();
        self.write_due_notes();
        ended
    }
}
