//! Acknowledgements, one or many, and changes of the invisible time: the official checks in the
//! official order (`AckMessageProcessor`, `ChangeInvisibleTimeProcessor`).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use super::buffer::Acked;
use super::check::no_topic;
use super::handle::Handle;
use super::headers::{AckHeader, BatchAck, batch_acks};
use super::names::ORDER_QUEUE;
use super::orders::Ordered;
use super::points::{Acknowledgement, CheckPoint};
use crate::asker::Asker;
use crate::codes;
use crate::desk::Said;
use crate::lane::{Lane, Outcome};
use crate::requests::{BadField, Request};
use crate::send::Refused;
use crate::turn::{POPS_WORK, Slice};

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

impl<D: Disk, C: Clock> Lane<D, C> {
    pub(crate) fn acknowledge(&mut self, request: &Request<'_>) -> Result<Outcome, BadField> {
        let header = AckHeader::read(request, false)?;
        let asker = request.asker;
        let checked = self.check_message(&asker, &header, false);
        let handle = checked.and_then(|()| handle_of(&header));
        let handle = match handle {
            Ok(handle) => handle,
            Err((code, remark)) => {
                self.refuse(&asker, code, &remark);
                return Ok(Outcome::Done);
            }
        };
        if handle.is_ordered() {
            let place = (header.topic, header.group, header.queue_id);
            let said = self.acknowledge_ordered(&asker, place, header.offset, &handle);
            match said {
                Ok(()) => self.say_done(&asker),
                Err((code, remark)) => self.refuse(&asker, code, &remark),
            }
            self.run_woken_pops(&mut Slice::new(POPS_WORK));
            return Ok(Outcome::Done);
        }
        let acked = acknowledged(&header, &handle);
        if !self.acknowledge_kept(&acked, header.offset) {
            if self.waits_for_log() {
                return Ok(Outcome::Defer);
            }
            self.store_ack(&acked, vec![header.offset]);
        }
        let queue = (header.topic, header.group, header.queue_id);
        self.land(queue, handle.pop_time_ms, 1);
        self.say_done(&asker);
        Ok(Outcome::Done)
    }

    pub(crate) fn acknowledge_many(&mut self, request: &Request<'_>) -> Result<Outcome, BadField> {
        let asker = request.asker;
        let (broker, acks) = match batch_acks(request.body) {
            Ok(found) => found,
            Err(why) => {
                self.refuse(&asker, codes::SYSTEM_ERROR, &why);
                return Ok(Outcome::Done);
            }
        };
        if acks.is_empty() {
            let said = Said {
                code: codes::NO_MESSAGE,
                remark: None,
            };
            self.desk.reply(&asker, said, |_fields| Ok(()));
            return Ok(Outcome::Done);
        }
        if self.waits_for_log() {
            return Ok(Outcome::Defer);
        }
        let mut said = Ok(());
        for ack in &acks {
            said = said.and(self.acknowledge_batch(&asker, ack, &broker));
        }
        match said {
            Ok(()) => self.say_done(&asker),
            Err((code, remark)) => self.refuse(&asker, code, &remark),
        }
        self.run_woken_pops(&mut Slice::new(POPS_WORK));
        Ok(Outcome::Done)
    }

    fn acknowledge_batch(
        &mut self,
        asker: &Asker,
        ack: &BatchAck,
        broker: &str,
    ) -> Result<(), Refused> {
        let bounds = self.store.bounds(ack.topic.as_bytes(), ack.queue_id);
        let Ok(Some(bounds)) = bounds else {
            return Ok(());
        };
        let range = bounds.min.cast_signed()..=bounds.max.cast_signed();
        let offsets = ack.offsets.iter().copied();
        let offsets = offsets.filter(|offset| range.contains(offset));
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
        if ack.revive_queue == ORDER_QUEUE {
            let handle = Handle {
                start_offset: ack.start_offset,
                pop_time_ms: ack.pop_time_ms,
                invisible_ms: ack.invisible_ms,
                revive_queue: ack.revive_queue,
                broker,
            };
            let place = (ack.topic.as_str(), ack.group.as_str(), ack.queue_id);
            let mut said = Ok(());
            for offset in offsets {
                said = said.and(self.acknowledge_ordered(asker, place, offset, &handle));
            }
            return said;
        }
        let mut elsewhere: Vec<i64> = offsets.collect();
        let count = elsewhere.len();
        elsewhere.retain(|offset| !self.acknowledge_kept(&acked, *offset));
        if !elsewhere.is_empty() {
            self.store_ack(&acked, elsewhere);
        }
        let queue = (ack.topic.as_str(), ack.group.as_str(), ack.queue_id);
        self.land(queue, ack.pop_time_ms, count);
        Ok(())
    }

    /// Whether a pop is in memory and took the acknowledgement.
    fn acknowledge_kept(&mut self, acked: &Acknowledged<'_>, offset: i64) -> bool {
        // A check point of another broker's name is none of ours.
        if acked.broker != self.policy.broker.name {
            return false;
        }
        let buffer = &mut self.pops.buffer;
        let Some(place) = buffer.find(acked.topic, acked.group, acked.queue_id) else {
            return false;
        };
        let (start, time_ms) = (acked.start_offset, acked.pop_time_ms);
        match buffer.acknowledge(place, start, time_ms, offset) {
            Acked::Kept => self.commit_settled(place),
            Acked::NoMessage => {}
            Acked::Elsewhere => return false,
        }
        true
    }

    fn store_ack(&mut self, acked: &Acknowledged<'_>, offsets: Vec<i64>) {
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
        self.put_ack(&ack, acked.revive_queue, due_ms);
    }

    fn acknowledge_ordered(
        &mut self,
        asker: &Asker,
        place: (&str, &str, i32),
        offset: i64,
        handle: &Handle<'_>,
    ) -> Result<(), Refused> {
        let (topic, group, queue_id) = place;
        let known = self.offsets.find(group, topic, queue_id).unwrap_or(-1);
        if offset < known {
            return Ok(());
        }
        let orders = &mut self.pops.orders;
        match orders.acknowledge(place, offset, handle.pop_time_ms) {
            Ordered::Next(next_offset) => {
                let next_offset = self.behind_batch(topic, queue_id, next_offset);
                if !self.resets.has(group, topic, queue_id) {
                    self.offsets.commit(group, topic, queue_id, next_offset);
                }
                self.wake_ordered(place);
                self.land(place, handle.pop_time_ms, 1);
                Ok(())
            }
            Ordered::Old => {
                self.land(place, handle.pop_time_ms, 1);
                Ok(())
            }
            Ordered::Illegal => {
                let peer = self.desk.connection(asker.connection);
                let peer = peer.map_or("", |connection| &connection.peer);
                let remark = format!(
                    "offset is illegal, key:{topic}@{group}@{queue_id}, old:{known}, \
                     commit:{offset}, next:-1, /{peer}"
                );
                Err((codes::MESSAGE_ILLEGAL, remark))
            }
        }
    }

    /// The offset behind a batch that is one record, for one in the middle of it: the official broker
    /// goes on there, and gives the same batch for ever.
    fn behind_batch(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        if !self.store.has_batch_queues(topic.as_bytes()) {
            return offset;
        }
        let from = offset.cast_unsigned();
        // Where the disk would have to be waited for, the batch comes once more.
        match self.store.batch_end_now(topic.as_bytes(), queue_id, from) {
            Ok(Some(behind)) => behind.cast_signed(),
            Ok(None) | Err(_) => offset,
        }
    }

    /// Lets one go on that waits for a queue which is not blocked any more.
    fn wake_ordered(&mut self, place: (&str, &str, i32)) {
        let now_ms = self.pop_ms();
        if self
            .pops
            .orders
            .blocked_until(place, None, 0, now_ms)
            .is_some()
        {
            return;
        }
        let (topic, group, queue_id) = place;
        for queue_id in [-1, queue_id] {
            let next = self.pops.polls.next_of((topic, group, queue_id));
            self.pops.woken.extend(next);
        }
    }

    pub(crate) fn change_invisible(&mut self, request: &Request<'_>) -> Result<Outcome, BadField> {
        let header = AckHeader::read(request, true)?;
        let asker = request.asker;
        let checked = self.check_message(&asker, &header, true);
        let handle = match checked.and_then(|()| handle_of(&header)) {
            Ok(handle) => handle,
            Err((code, remark)) => {
                self.refuse_change(&asker, code, &remark);
                return Ok(Outcome::Done);
            }
        };
        if handle.is_ordered() {
            self.change_ordered(&asker, &header, &handle);
            return Ok(Outcome::Done);
        }
        if self.waits_for_log() {
            return Ok(Outcome::Defer);
        }
        let time_ms = time_of_change(self.pop_ms(), handle.pop_time_ms);
        match self.move_point(&header, &handle, time_ms) {
            Ok(()) => {
                let (invisible_ms, queue) = (header.invisible_ms, handle.revive_queue);
                self.say_changed(&asker, time_ms, invisible_ms, queue);
            }
            Err((code, remark)) => self.refuse_change(&asker, code, &remark),
        }
        Ok(Outcome::Done)
    }

    /// A check point for the message alone, then its acknowledgement in the old one: in this order
    /// it comes twice at the worst.
    fn move_point(
        &mut self,
        header: &AckHeader<'_>,
        handle: &Handle<'_>,
        time_ms: i64,
    ) -> Result<(), Refused> {
        let queues = self.policy.broker.pops.revive_queues;
        if !(0..queues).contains(&handle.revive_queue) {
            let remark = format!("the handle names queue {} of {queues}", handle.revive_queue);
            return Err((codes::SYSTEM_ERROR, remark));
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
        let put = self.put_point(&point, handle.revive_queue);
        put.map_err(|(_code, remark)| (codes::SYSTEM_ERROR, remark))?;
        let acked = acknowledged(header, handle);
        if !self.acknowledge_kept(&acked, header.offset) {
            self.store_ack(&acked, vec![header.offset]);
        }
        Ok(())
    }

    fn change_ordered(&mut self, asker: &Asker, header: &AckHeader<'_>, handle: &Handle<'_>) {
        let (topic, group, queue_id) = (header.topic, header.group, header.queue_id);
        let known = self.offsets.find(group, topic, queue_id).unwrap_or(-1);
        if header.offset < known {
            return self.say_changed(asker, 0, 0, 0);
        }
        let visible_ms = self.pop_ms().saturating_add(header.invisible_ms);
        let pop_time_ms = handle.pop_time_ms;
        let place = (topic, group, queue_id);
        let orders = &mut self.pops.orders;
        orders.change(place, header.offset, pop_time_ms, visible_ms);
        let invisible_ms = visible_ms.saturating_sub(pop_time_ms);
        self.say_changed(asker, pop_time_ms, invisible_ms, handle.revive_queue);
    }

    /// Whether there may be such a message.
    fn check_message(
        &self,
        asker: &Asker,
        header: &AckHeader<'_>,
        is_change: bool,
    ) -> Result<(), Refused> {
        let AckHeader {
            topic,
            queue_id,
            offset,
            ..
        } = *header;
        let Some(known) = self.policy.topics.get(topic) else {
            return Err(no_topic(topic));
        };
        if !(0..known.read_queues).contains(&queue_id) {
            let remark = self.illegal_queue(asker, topic, queue_id, known.read_queues);
            return Err((codes::MESSAGE_ILLEGAL, remark));
        }
        let bounds = self.store.bounds(topic.as_bytes(), queue_id);
        let bounds = bounds.map_err(|error| (codes::SYSTEM_ERROR, error.to_string()))?;
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
        let remark = format!(
            "offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{min}~{max}"
        );
        Err((codes::NO_MESSAGE, remark))
    }

    fn say_done(&mut self, asker: &Asker) {
        let said = Said {
            code: codes::SUCCESS,
            remark: None,
        };
        self.desk.reply(asker, said, |_fields| Ok(()));
    }

    fn say_changed(&mut self, asker: &Asker, time_ms: i64, invisible_ms: i64, queue_id: i32) {
        let said = Said {
            code: codes::SUCCESS,
            remark: None,
        };
        self.desk.reply(asker, said, |fields| {
            fields.number("popTime", time_ms)?;
            fields.number("invisibleTime", invisible_ms)?;
            fields.number("reviveQid", queue_id.into())
        });
    }

    fn refuse_change(&mut self, asker: &Asker, code: i32, remark: &str) {
        let remark = Some(remark);
        self.desk.reply(asker, Said { code, remark }, |fields| {
            fields.number("popTime", 0)?;
            fields.number("invisibleTime", 0)?;
            fields.number("reviveQid", 0)
        });
    }
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
    Handle::parse(header.handle).map_err(|why| (codes::SYSTEM_ERROR, why))
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
