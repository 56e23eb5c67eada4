//! Appending to the store, and learning what became of it: by waiting, or by a ticket that is
//! answered later.

use std::time::Duration;

use mqcore_record::sys_flag::INNER_BATCH;
use mqcore_record::{Limits, Message, Prepared, RecordError, crc_property, inner_offsets};

use super::Store;
use crate::clock::Clock;
use crate::commit_log::Appended;
use crate::config::FlushDiskType;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::flush::{Needs, Reached, Ticket};
use crate::segment::Pool;
use crate::status::PutStatus;

/// Longest topic of a client, bytes.
const TOPIC_LEN_MAX: usize = 127;
/// Longest topic of all, bytes: only retry topics may be longer than a client's.
const RETRY_TOPIC_LEN_MAX: usize = 255;

impl<D: Disk, C: Clock> Store<D, C> {
    /// Appends one message.
    ///
    /// # Durability
    /// Asynchronous flush without a pool: it is in the page cache and survives the process. Otherwise:
    /// nothing yet; wait for [`Store::settle`] or a ticket, or call [`Store::put`].
    ///
    /// # Blocking
    /// For the append lock; for the next log file when none is ready.
    ///
    /// # Errors
    /// See [`PutStatus::of`]: each error has its official status.
    pub fn append(&self, message: &Message<'_>) -> Result<Appended> {
        self.check_writable()?;
        if message.sys_flag & INNER_BATCH != 0 {
            return self.append_inner_batch(message);
        }
        if self.config.append_property_crc {
            let properties = with_crc_place(message);
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
        if !self.batches.has_topic(topic.as_bytes()) {
            let what = format!("messages in one record of {topic}, whose queues are plain ones");
            return Err(Error::Limit { what, limit: 1 });
        }
        let mut properties = message.properties.to_vec();
        inner_offsets::reserve(&mut properties);
        if self.config.append_property_crc {
            crc_property::reserve(&mut properties);
        }
        self.append_one(&Message {
            properties: &properties,
            ..*message
        })
    }

    #[inline]
    fn append_one(&self, message: &Message<'_>) -> Result<Appended> {
        let mut record = Prepared::new(message, &self.limits())?;
        self.log.append(&mut record, |topic, queue_id| {
            self.first_offset(topic, queue_id)
        })
    }

    /// Appends messages of one queue with contiguous queue offsets, all in one file or none.
    ///
    /// # Errors
    /// As [`Store::append`]; nothing is appended then.
    ///
    /// # Blocking
    /// As [`Store::append`].
    pub fn append_batch(&self, messages: &[Message<'_>]) -> Result<Vec<Appended>> {
        self.check_writable()?;
        let limits = self.limits();
        let with_crc: Vec<Vec<u8>> = if self.config.append_property_crc {
            messages.iter().map(with_crc_place).collect()
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
                &limits,
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

    /// Appends and waits for what the settings promise.
    ///
    /// # Durability
    /// `PUT_OK` under synchronous flush: survives power loss. Otherwise: survives the process.
    ///
    /// # Errors
    /// As [`Store::append`], and the failed sync.
    ///
    /// # Blocking
    /// At most `syncFlushTimeout` for the sync.
    pub fn put(&self, message: &Message<'_>) -> Result<(Appended, PutStatus)> {
        let appended = self.append(message)?;
        Ok((appended, self.settle(appended.end())?))
    }

    /// Waits until everything below `end` is as durable as the settings promise.
    ///
    /// # Durability
    /// As [`Store::put`].
    ///
    /// # Errors
    /// The failed sync or write: what is not acknowledged yet never will be.
    ///
    /// # Blocking
    /// At most `syncFlushTimeout`.
    pub fn settle(&self, end: u64) -> Result<PutStatus> {
        if self.files.pool.is_some() {
            self.files.commit_to(end)?;
        }
        if self.config.flush_disk_type == FlushDiskType::Async {
            return Ok(PutStatus::PutOk);
        }
        let timeout = Duration::from_millis(self.config.sync_flush_timeout_ms);
        match self.syncer.sync_to(end, timeout) {
            Ok(()) => Ok(PutStatus::PutOk),
            Err(Error::Timeout { .. }) => Ok(PutStatus::FlushDiskTimeout),
            Err(error) => Err(error),
        }
    }

    /// Parks an acknowledgement of everything below `end`: [`Store::drain`] answers it, after the
    /// wake descriptor has become readable.
    ///
    /// # Errors
    /// [`Error::Limit`] when too many are parked.
    pub fn park(&self, end: u64, needs_replica: bool) -> Result<Ticket> {
        let is_sync = self.config.flush_disk_type == FlushDiskType::Sync;
        let needs = Needs {
            committed: self.files.pool.is_some(),
            flushed: is_sync,
            replicated: needs_replica,
        };
        let deadline_ms = self.clock.elapsed_ms() + self.config.sync_flush_timeout_ms;
        let ticket = self.acks.lock().park(end, needs, deadline_ms)?;
        if needs.flushed {
            self.files.bells.flush.ring();
        } else if needs.committed {
            self.files.bells.commit.ring();
        } else {
            self.wake.raise();
        }
        Ok(ticket)
    }

    /// Parked acknowledgements now.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.acks.lock().len()
    }

    /// Answers what can be answered, in the order of the log; the time until the next call that is
    /// due anyway, ms.
    pub fn drain(&self, out: &mut Vec<(Ticket, PutStatus)>) -> Option<u64> {
        self.drain_some(usize::MAX, out)
    }

    /// As [`Store::drain`], `answers_max` of them at the most: with more left the time is 0.
    pub fn drain_some(
        &self,
        answers_max: usize,
        out: &mut Vec<(Ticket, PutStatus)>,
    ) -> Option<u64> {
        self.wake.clear();
        let reached = self.reached();
        let mut acks = self.acks.lock();
        acks.drain_some(reached, answers_max, out);
        acks.next_deadline_ms()
            .map(|at| at.saturating_sub(reached.now_ms))
    }

    fn reached(&self) -> Reached {
        let positions = &self.files.positions;
        Reached {
            has_failed: self.files.poison.reason().is_some(),
            committed: self.files.in_page_cache(),
            flushed: positions.flushed.position(),
            replicated: positions.replicated.position(),
            now_ms: self.clock.elapsed_ms(),
        }
    }

    /// Wakes the owner when someone is parked.
    pub(super) fn announce(&self) {
        if !self.acks.lock().is_empty() {
            self.wake.raise();
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            body_len_max: usize::try_from(self.config.max_message_bytes).unwrap_or(usize::MAX),
        }
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
        Ok(self.bounds(topic, queue_id)?.map_or(0, |bounds| bounds.max))
    }

    /// Free and all buffers of the transient pool.
    #[must_use]
    pub fn pool_buffers(&self) -> Option<(usize, usize)> {
        self.files.pool.as_ref().map(Pool::free_of)
    }
}

/// The properties of a message with a place for the CRC of its record (`enabledAppendPropCRC`).
fn with_crc_place(message: &Message<'_>) -> Vec<u8> {
    let mut properties = message.properties.to_vec();
    crc_property::reserve(&mut properties);
    properties
}

/// A topic as the official store takes it (`HookUtils.checkBeforePutMessage`,
/// `TopicValidator.isTopicOrGroupIllegal`): it becomes the name of a directory.
pub(super) fn check_topic(topic: &[u8]) -> Result<()> {
    let is_retry = topic.starts_with(b"%RETRY%");
    let max = if is_retry {
        RETRY_TOPIC_LEN_MAX
    } else {
        TOPIC_LEN_MAX
    };
    if topic.len() > max {
        return Err(RecordError::TopicTooLong {
            len: topic.len(),
            max,
        }
        .into());
    }
    // Retry topics of pops join group and topic by it (`KeyBuilder.buildPopRetryTopicV2`).
    let joins = |byte: &u8| is_retry && *byte == b'+';
    let is_legal =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(byte) || joins(byte);
    match topic.iter().enumerate().find(|(_, byte)| !is_legal(byte)) {
        None => Ok(()),
        Some((at, byte)) => Err(RecordError::TopicIllegal { at, byte: *byte }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_names_and_no_paths() {
        assert!(check_topic(b"%RETRY%CG_a-1|x").is_ok());
        assert!(check_topic(&[b'a'; 127]).is_ok());
        assert!(check_topic(&[b'a'; 128]).is_err());
        assert!(check_topic(&[&b"%RETRY%"[..], &[b'a'; 200]].concat()).is_ok());
        assert!(check_topic(&[&b"%RETRY%"[..], &[b'a'; 249]].concat()).is_err());
        assert!(check_topic(b"%RETRY%g+t").is_ok());
        for bad in ["../x", "a b", "g+t", "a/b", "\u{e9}", "a\u{0}"] {
            let refused = check_topic(bad.as_bytes());
            assert!(matches!(
                refused,
                Err(Error::Message(RecordError::TopicIllegal { .. }))
            ));
        }
    }
}
