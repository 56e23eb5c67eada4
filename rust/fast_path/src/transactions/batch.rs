//! A half message of a batch: its body is that of a batch request, and its commit stores
//! each message of it, all in one run of its queue. Pure functions of its record.
//!
//! An addition of ours to the protocol. An official broker would commit the body as it is, so that
//! a client sends such half messages only to brokers whose answer to a heartbeat has the flag
//! that they know them.

use mqcore_record::batch::{Item, items, join_properties};
use mqcore_record::properties::{
    CHECK_IMMUNITY_TIME_IN_SECONDS, PGROUP, REAL_QID, REAL_TOPIC, TRAN_MSG,
    TRAN_PREPARED_QUEUE_OFFSET, TRANSACTION_CHECK_TIMES, TRANSACTION_ID, UNIQ_KEY, WAIT, lookup,
};
use mqcore_record::sys_flag::{COMMIT, COMPRESSED, COMPRESSION_TYPE_MASK, MULTI_TAGS};
use mqcore_record::{Message, RecordView};

use super::half::number;
use crate::batches::{BATCH_COUNT_MAX, RECORD_REST_BYTES};
use crate::moved::moved;
use crate::properties;

/// The property of a half message whose body is that of a batch. Its value is how the messages'
/// bodies are compressed, as bits of the system flag.
pub const HALF_BATCH: &str = "MQCORE_HALF_BATCH";
/// Properties of a half message itself; all others are its messages', too.
const OF_THE_HALF: [&str; 11] = [
    HALF_BATCH,
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    PGROUP,
    REAL_QID,
    REAL_TOPIC,
    TRAN_MSG,
    TRAN_PREPARED_QUEUE_OFFSET,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
    UNIQ_KEY,
    WAIT,
];

/// The messages of a half message of a batch.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    sys_flag: i32,
    parts: Vec<(Item<'a>, Vec<u8>)>,
}

impl<'a> Batch<'a> {
    /// Reads them; `None` for a half message that is one message.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn of(view: &RecordView<'a>) -> Result<Option<Self>, String> {
        let Some(flags) = lookup(view.properties, HALF_BATCH) else {
            return Ok(None);
        };
        let flags: i32 = number(flags).ok_or(format!("the property {HALF_BATCH} is no number"))?;
        let mut shared = Vec::new();
        properties::rewrite(view.properties, &OF_THE_HALF, &[], &mut shared);
        let (mut parts, mut buffer) = (Vec::new(), Vec::new());
        for item in items(view.body) {
            let item = item.map_err(|bad| bad.to_string())?;
            let own = properties::without_pop_handle(item.properties, &mut buffer);
            let mut text = Vec::new();
            join_properties(own, &shared, &mut text).map_err(|bad| bad.to_string())?;
            parts.push((item, text));
            if parts.len() > BATCH_COUNT_MAX {
                return Err(format!("a batch of more than {BATCH_COUNT_MAX} messages"));
            }
        }
        if parts.is_empty() {
            return Err("a batch without messages".to_owned());
        }
        let compression = flags & (COMPRESSED | COMPRESSION_TYPE_MASK);
        Ok(Some(Self {
            sys_flag: compression | view.sys_flag & MULTI_TAGS | COMMIT,
            parts,
        }))
    }

    /// Leaves out the first messages: they were stored before.
    pub(super) fn skip(&mut self, count: usize) {
        self.parts.drain(..count.min(self.parts.len()));
    }

    /// Bytes of their records at the most.
    pub(super) fn len_bytes(&self) -> usize {
        let parts = self.parts.iter();
        parts
            .map(|(item, text)| item.body.len() + text.len() + RECORD_REST_BYTES)
            .sum()
    }

    /// The committed messages.
    pub(super) fn committed<'b>(
        &'b self,
        view: &RecordView<'b>,
        (topic, queue_id): (&'b str, i32),
    ) -> Vec<Message<'b>> {
        let parts = self.parts.iter();
        parts
            .map(|(item, text)| Message {
                flag: item.flag,
                sys_flag: self.sys_flag,
                body: item.body,
                prepared_transaction_offset: view.physical_offset,
                ..moved(view, topic, queue_id, text)
            })
            .collect()
    }
}
