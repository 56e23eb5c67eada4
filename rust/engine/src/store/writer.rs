//! The writer of the store: checks whether appends are taken, prepares records and hands them to the log.
//! Knows nothing of syncs, and of queues only where each goes on.

use std::sync::Arc;

use mqcore_record::layout::BLANK_LEN_BYTES;
use mqcore_record::sys_flag::INNER_BATCH;
use mqcore_record::{Limits, Message, Prepared, crc_property, inner_offsets};

use super::refusals::Refusals;
use super::topics::{Topics, check_topic};
use crate::clock::Clock;
use crate::commit_log::{Appended, CommitLog};
use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::LogFiles;

/// Appends messages.
pub struct Writer<D: Disk, C: Clock> {
    files: Arc<LogFiles<D>>,
    log: Arc<CommitLog<D, C>>,
    topics: Arc<Topics<D, C>>,
    refusals: Arc<Refusals>,
    limits: Limits,
    /// `enabledAppendPropCRC`: records carry a CRC of all their bytes as a property.
    fills_crc: bool,
}

impl<D: Disk, C: Clock> Writer<D, C> {
    pub(super) fn new(
        log: &Arc<CommitLog<D, C>>,
        topics: &Arc<Topics<D, C>>,
        refusals: &Arc<Refusals>,
        config: &StoreConfig,
    ) -> Self {
        Self {
            files: Arc::clone(log.files()),
            log: Arc::clone(log),
            topics: Arc::clone(topics),
            refusals: Arc::clone(refusals),
            limits: Limits {
                body_len_max: usize::try_from(config.max_message_bytes).unwrap_or(usize::MAX),
            },
            fills_crc: config.append_property_crc,
        }
    }

    /// Appends one message.
    ///
    /// # Durability
    /// Asynchronous flush without a pool: it is in the page cache and survives the process. Otherwise:
    /// nothing yet; wait for [`Durability::settle`](super::Durability::settle) or a ticket, or call
    /// [`Store::put`](super::Store::put).
    ///
    /// # Blocking
    /// For the append lock; for the next log file when none is ready.
    ///
    /// # Errors
    /// See [`PutStatus::of`](crate::status::PutStatus::of): each error has its official status.
    pub fn append(&self, message: &Message<'_>) -> Result<Appended> {
        self.check_writable()?;
        if message.sys_flag & INNER_BATCH != 0 {
            return self.append_inner_batch(message);
        }
        if self.fills_crc {
            let properties = with_crc_property(message);
            return self.append_one(&Message {
                properties: &properties,
                ..*message
            });
        }
        self.append_one(message)
    }

    /// Appends a record that holds a batch: it takes as many queue offsets as it has messages.
    fn append_inner_batch(&self, message: &Message<'_>) -> Result<Appended> {
        let topic = message.topic;
        if !self.topics.has_batch_queues(topic.as_bytes()) {
            let what = format!("messages in one record of {topic}, whose queues are plain ones");
            return Err(Error::Limit { what, limit: 1 });
        }
        let mut properties = message.properties.to_vec();
        inner_offsets::reserve(&mut properties);
        if self.fills_crc {
            crc_property::reserve(&mut properties);
        }
        self.append_one(&Message {
            properties: &properties,
            ..*message
        })
    }

    #[inline]
    fn append_one(&self, message: &Message<'_>) -> Result<Appended> {
        let mut record = Prepared::new(message, &self.limits)?;
        self.log.append(&mut record, |topic, queue_id| {
            self.first_offset(topic, queue_id)
        })
    }

    /// Appends messages of one queue with contiguous queue offsets, all in one file or none.
    ///
    /// # Errors
    /// As [`Writer::append`]; nothing is appended then.
    ///
    /// # Blocking
    /// As [`Writer::append`].
    pub fn append_batch(&self, messages: &[Message<'_>]) -> Result<Vec<Appended>> {
        self.check_writable()?;
        let with_crc: Vec<Vec<u8>> = if self.fills_crc {
            messages.iter().map(with_crc_property).collect()
        } else {
            Vec::new()
        };
        let mut records = Vec::with_capacity(messages.len());
        for (at, message) in messages.iter().enumerate() {
            let properties = with_crc.get(at).map_or(message.properties, Vec::as_slice);
            records.push(Prepared::new(
                &Message {
                    properties,
                    ..*message
                },
                &self.limits,
            )?);
        }
        if let Some(first) = records.first()
            && records
                .iter()
                .any(|r| r.topic() != first.topic() || r.queue_id() != first.queue_id())
        {
            let what = "a batch of more than one queue".to_owned();
            return Err(Error::Limit { what, limit: 1 });
        }
        let mut done = Vec::with_capacity(records.len());
        let first_offset = |topic: &[u8], queue_id: i32| self.first_offset(topic, queue_id);
        self.log
            .append_run(&mut records, true, first_offset, |appended| {
                done.push(appended)
            })?;
        Ok(done)
    }

    /// Whether an append of `len_bytes` finds a file ready: it will not wait, unless others append
    /// at the same time.
    #[must_use]
    pub fn has_space_for(&self, len_bytes: u64) -> bool {
        let appended = self.files.positions.appended.position();
        let needed = appended + len_bytes + BLANK_LEN_BYTES as u64;
        let is_in_last = self.files.chain.end() >= needed;
        is_in_last || self.files.preparer.peek().is_some()
    }

    /// Whether an append of `len_bytes` may be made by a caller that must not wait: a file is ready,
    /// or there is no thread that could make one, so that the append makes it itself.
    #[must_use]
    pub fn is_ready_for(&self, len_bytes: u64) -> bool {
        !self.files.preparer.has_thread() || self.has_space_for(len_bytes)
    }

    fn check_writable(&self) -> Result<()> {
        if self.files.is_closing() {
            return Err(Error::Closed);
        }
        self.refusals.check()
    }

    /// Where a queue goes on that had no append since the store was opened: everything older was
    /// dispatched before the first append, so its queue knows. Names are checked here, once per
    /// queue, and not with every message.
    fn first_offset(&self, topic: &[u8], queue_id: i32) -> Result<u64> {
        check_topic(topic)?;
        if queue_id < 0 {
            let what = format!("queue id {queue_id}");
            return Err(Error::Limit {
                what,
                limit: i32::MAX.unsigned_abs().into(),
            });
        }
        Ok(self
            .topics
            .bounds(topic, queue_id)?
            .map_or(0, |bounds| bounds.max))
    }
}

/// The properties of a message with space for the CRC of its record (`enabledAppendPropCRC`).
fn with_crc_property(message: &Message<'_>) -> Vec<u8> {
    let mut properties = message.properties.to_vec();
    crc_property::reserve(&mut properties);
    properties
}
