//! Sends to topics whose queues are batch queues (`queue.type=BatchCQ` of 5.x): a batch is kept as
//! the one record that it came as, which takes a queue offset for each of its messages
//! (`SendMessageProcessor.sendBatchMessage`, `HookUtils.checkInnerBatch`). Whoever pulls it takes it
//! apart.

use std::borrow::Cow;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::RecordError;
use mqcore_record::batch::{Item, encode, items};
use mqcore_record::inner_place::{INNER_COUNT_MAX, count};
use mqcore_record::properties::{INNER_NUM, UNIQ_KEY, lookup};
use mqcore_record::sys_flag::{INNER_BATCH, MULTI_TAGS, NEED_UNWRAP, TRANSACTION_MASK};

use crate::codes;
use crate::lane::{Lane, Outcome};
use crate::parked::Kind;
use crate::policy::Topic;
use crate::properties::{self, POP_CK, Seen};
use crate::requests::{Request, Send};
use crate::send::{Draft, Refused, Target, stored_at};

/// Whether a batch is kept as one record: in a topic of batch queues, when it has a key of its own,
/// which clients of 5.x give it. Otherwise its messages become records.
pub(crate) fn is_inner_batch<D: Disk, C: Clock>(
    store: &Store<D, C>,
    send: &Send<'_>,
    seen: &Seen<'_>,
) -> bool {
    send.is_batch && seen.uniq_key.is_some() && store.has_batch_queues(send.topic.as_bytes())
}

/// The messages of a batch, without the handles that earlier pops gave them.
fn without_pop_handles(body: &[u8]) -> Result<Vec<u8>, Refused> {
    let illegal = |bad: RecordError| (codes::MESSAGE_ILLEGAL, bad.to_string());
    let (mut kept, mut room) = (Vec::with_capacity(body.len()), Vec::new());
    for item in items(body) {
        let item = item.map_err(illegal)?;
        let properties = properties::without_pop_handle(item.properties, &mut room);
        encode(&Item { properties, ..item }, &mut kept).map_err(illegal)?;
    }
    Ok(kept)
}

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Refuses what claims to hold messages and cannot: without the flag, in a topic of plain
    /// queues, or where it would wait in one for its time or its transaction.
    pub(crate) fn check_inner_batch(
        &self,
        send: &Send<'_>,
        seen: &Seen<'_>,
    ) -> Result<(), Refused> {
        let is_inner = send.sys_flag & INNER_BATCH != 0;
        if !is_inner && seen.inner_num.is_none() {
            return Ok(());
        }
        let waits = seen.is_half
            || seen.timed.is_asked()
            || seen.delay.and_then(properties::level).unwrap_or(0) > 0
            || send.sys_flag & TRANSACTION_MASK != 0;
        let is_counted = seen.inner_num.is_none_or(|text| count(text).is_some());
        let has_batch_queues = self.store.has_batch_queues(send.topic.as_bytes());
        if !is_inner || waits || !is_counted || !has_batch_queues {
            return Err(self.illegal());
        }
        Ok(())
    }

    /// Stores a batch as one record.
    pub(crate) fn store_inner_batch(
        &mut self,
        request: &Request<'_>,
        send: &Send<'_>,
        topic: Topic,
        queue_id: i32,
    ) -> Result<Option<Outcome>, Refused> {
        let text = send.properties.as_bytes();
        let seen = properties::see(text);
        let (mut messages, mut has_handles) = (0, false);
        for item in items(request.body) {
            let item = item.map_err(|bad| (codes::MESSAGE_ILLEGAL, bad.to_string()))?;
            has_handles |= lookup(item.properties, POP_CK).is_some();
            messages += 1;
        }
        if !(1..=INNER_COUNT_MAX).contains(&messages) || seen.timed.is_asked() {
            return Err(self.illegal());
        }
        let mark = self.mark_of(send, &seen);
        if let Some(outcome) = self.answer_repeat(mark, request, send, &seen) {
            return Ok(Some(outcome));
        }
        let body = if has_handles {
            Cow::Owned(without_pop_handles(request.body)?)
        } else {
            Cow::Borrowed(request.body)
        };
        let number = messages.to_string();
        let mut properties = std::mem::take(&mut self.scratch);
        let adds = [(INNER_NUM, number.as_bytes())];
        self.stamp.rewrite(text, &[], &adds, &mut properties);
        let multi_tags = if topic.has_multi_tags { MULTI_TAGS } else { 0 };
        let draft = Draft {
            flag: send.flag,
            sys_flag: send.sys_flag | multi_tags | INNER_BATCH | NEED_UNWRAP,
            born_timestamp_ms: send.born_timestamp_ms,
            born_host: self.born_host(&request.asker),
            store_host: self.policy.broker.store_host,
            reconsume_times: send.reconsume_times,
            body: &body,
            properties: &properties,
        };
        let target = Target {
            topic: send.topic,
            queue_id,
        };
        let appended = self.store.append(&draft.message(&target));
        self.scratch = properties;
        let place = appended.map_err(|error| self.refused(&error))?;
        self.note_stored(mark, &place);
        self.desk.stats.sends += messages;
        self.desk.stats.send_bytes += place.len_bytes;
        let mut stored = stored_at(request.asker, Kind::Send, queue_id, &place);
        let key = lookup(text, UNIQ_KEY).and_then(|key| std::str::from_utf8(key).ok());
        stored.batch_key = key.map(Box::from);
        self.settle(stored, place.end(), seen.waits);
        Ok(None)
    }
}
