//! Records that may have lost queue id or queue offset to a power failure, and the proof that they
//! have: a function of file contents. Changes nothing, and knows no queue file.
//!
//! The CRC covers the body, the physical offset is checked against where the record is; queue id and queue
//! offset have no such witness in the record itself. Where the end of a sector cuts the head behind
//! them, the words before it may be zeros while the rest is whole. Such a record is doubtful; the
//! other records of its topic show whether it is torn.

use std::collections::HashMap;
use std::ops::Range;

use mqcore_record::layout::{
    BODY_CRC_AT, FLAG_AT, PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, SYS_FLAG_AT,
};
use mqcore_record::{CrcCheck, RecordView, inner_offsets};

use super::scan::{Scan, scan};
use super::torn_head::SECTOR_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::segment::Chain;
use crate::units::round_up;

/// What a writer's copy makes visible at once: the unit in which a page in memory is torn.
const WORD_BYTES: usize = 8;

/// Collects doubtful records during a walk, and settles them after it.
pub struct DoubtfulRecords {
    synced_before_ms: i64,
    records: Vec<DoubtfulRecord>,
}

struct DoubtfulRecord {
    physical_offset: u64,
    topic: Box<[u8]>,
    queue: QueuePosition,
    /// Queue offsets that it takes.
    span: i64,
    lost: Range<usize>,
}

/// A queue id with an offset in that queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuePosition {
    queue_id: i32,
    queue_offset: i64,
}

impl DoubtfulRecords {
    /// Of a log whose records older than `synced_before_ms` are known to be on the device: those are
    /// not doubtful.
    #[must_use]
    pub fn since(synced_before_ms: i64) -> Self {
        Self {
            synced_before_ms,
            records: Vec::new(),
        }
    }

    /// Looks at one record of the walk. Costs nothing but for one record in 25.
    pub fn look_at(&mut self, record: &RecordView<'_>, physical_offset: u64) {
        let border = (round_up(physical_offset, SECTOR_BYTES) - physical_offset) as usize;
        // A border farther in front would have taken a part of the magic with it.
        if !(BODY_CRC_AT + WORD_BYTES..SYS_FLAG_AT).contains(&border)
            || record.store_timestamp_ms < self.synced_before_ms
            || !record.transaction().has_queue_offset()
        {
            return;
        }
        if let Some(lost) = zero_words(&head_of(record), border) {
            self.records.push(DoubtfulRecord {
                physical_offset,
                topic: record.topic.into(),
                queue: QueuePosition {
                    queue_id: record.queue_id,
                    queue_offset: record.queue_offset,
                },
                span: span_of(record),
                lost,
            });
        }
    }

    /// Where the first torn record is, `None` where there is none. A doubtful record is torn when
    /// its queue goes on elsewhere, zeros in place of the words before the border explain what is
    /// there, and no later record goes on from it (as in a topic that was deleted and made again).
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads what `walk` walked once more, when any record is doubtful.
    pub fn first_torn<D: Disk>(self, chain: &Chain<D>, walk: Scan) -> Result<Option<u64>> {
        if self.records.is_empty() {
            return Ok(None);
        }
        let mut next_by_topic: HashMap<&[u8], HashMap<i32, i64>> = HashMap::new();
        for doubtful in &self.records {
            next_by_topic.entry(&doubtful.topic).or_default();
        }
        let mut doubtful_records = self.records.iter().peekable();
        let mut torn: Vec<&DoubtfulRecord> = Vec::new();
        let again = Scan {
            crc: CrcCheck::Skip,
            has_property_crc: false,
            ..walk
        };
        scan(chain, again, |record, physical_offset| {
            let doubtful =
                doubtful_records.next_if(|doubtful| doubtful.physical_offset == physical_offset);
            let Some(next) = next_by_topic.get_mut(record.topic) else {
                return Ok(true);
            };
            if let Some(doubtful) = doubtful
                && doubtful.is_torn(next)
            {
                torn.push(doubtful);
                return Ok(true);
            }
            torn.retain(|doubtful| !doubtful.goes_on_with(record));
            if record.transaction().has_queue_offset() {
                let behind = record.queue_offset.saturating_add(span_of(record));
                next.insert(record.queue_id, behind);
            }
            Ok(true)
        })?;
        Ok(torn.first().map(|doubtful| doubtful.physical_offset))
    }
}

impl DoubtfulRecord {
    fn is_torn(&self, next: &HashMap<i32, i64>) -> bool {
        let Some(expected) = next.get(&self.queue.queue_id) else {
            // Its queue's first record in the walk: nothing shows where the queue was.
            return false;
        };
        *expected != self.queue.queue_offset
            && next.iter().any(|(queue_id, queue_offset)| {
                let sent = QueuePosition {
                    queue_id: *queue_id,
                    queue_offset: *queue_offset,
                };
                sent.without(&self.lost) == self.queue
            })
    }

    fn goes_on_with(&self, record: &RecordView<'_>) -> bool {
        *self.topic == *record.topic
            && self.queue.queue_id == record.queue_id
            && self.queue.queue_offset.checked_add(self.span) == Some(record.queue_offset)
    }
}

impl QueuePosition {
    /// What is read where zeros stand in `lost` (bytes of a record).
    fn without(self, lost: &Range<usize>) -> Self {
        let kept = |at: usize, value: i64, len_bytes: usize| {
            let mut bytes = value.to_be_bytes();
            let unused = size_of::<i64>() - len_bytes;
            for (within, byte) in bytes.iter_mut().skip(unused).enumerate() {
                if lost.contains(&(at + within)) {
                    *byte = 0;
                }
            }
            i64::from_be_bytes(bytes)
        };
        let queue_id = kept(QUEUE_ID_AT, i64::from(self.queue_id), size_of::<i32>());
        Self {
            queue_id: i32::try_from(queue_id).unwrap_or(self.queue_id),
            queue_offset: kept(QUEUE_OFFSET_AT, self.queue_offset, size_of::<i64>()),
        }
    }
}

/// How many queue offsets a record takes.
fn span_of(record: &RecordView<'_>) -> i64 {
    inner_offsets::span(record.sys_flag, record.properties).cast_signed()
}

/// The first bytes of a record up to its system flag, from what was read of it; length and magic as
/// bytes that are not zero.
fn head_of(record: &RecordView<'_>) -> [u8; SYS_FLAG_AT] {
    let mut head = [u8::MAX; SYS_FLAG_AT];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(field) = head.get_mut(at..at + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    };
    put(BODY_CRC_AT, &record.body_crc.to_be_bytes());
    put(QUEUE_ID_AT, &record.queue_id.to_be_bytes());
    put(FLAG_AT, &record.flag.to_be_bytes());
    put(QUEUE_OFFSET_AT, &record.queue_offset.to_be_bytes());
    put(PHYSICAL_OFFSET_AT, &record.physical_offset.to_be_bytes());
    head
}

/// The bytes of the whole words of zeros that end at `border`, `None` where there is none.
fn zero_words(head: &[u8], border: usize) -> Option<Range<usize>> {
    let words = head
        .get(..border)?
        .rchunks_exact(WORD_BYTES)
        .take_while(|word| word.iter().all(|byte| *byte == 0))
        .count();
    (words > 0).then(|| border - words * WORD_BYTES..border)
}

#[cfg(test)]
mod tests {
    use mqcore_record::encode::{Limits, Message, Prepared};
    use mqcore_record::{Found, Host, check};

    use super::*;

    fn position(queue_id: i32, queue_offset: i64) -> QueuePosition {
        QueuePosition {
            queue_id,
            queue_offset,
        }
    }

    fn doubtful(queue_id: i32, queue_offset: i64, lost: Range<usize>) -> DoubtfulRecord {
        DoubtfulRecord {
            physical_offset: 0,
            topic: Box::from(*b"t"),
            queue: position(queue_id, queue_offset),
            span: 1,
            lost,
        }
    }

    #[test]
    fn what_is_lost_reads_as_zero() {
        assert_eq!(position(3, 7).without(&(20..28)), position(3, 0));
        assert_eq!(position(3, 7).without(&(12..28)), position(0, 0));
        assert_eq!(position(3, 0x102).without(&(27..35)), position(3, 0x100));
        assert_eq!(position(0x105, 9).without(&(15..23)), position(0x100, 9));
        assert_eq!(position(-1, 9).without(&(16..24)), position(-1, 9));
    }

    #[test]
    fn words_of_zeros_are_counted_back_from_the_border() {
        let mut head = [1; 36];
        assert_eq!(zero_words(&head, 28), None);
        head[20..28].fill(0);
        assert_eq!(zero_words(&head, 28), Some(20..28));
        head[12..20].fill(0);
        assert_eq!(zero_words(&head, 28), Some(12..28));
        assert_eq!(zero_words(&head, 27), Some(19..27));
        assert_eq!(zero_words(&head, 29), None);
    }

    /// Half messages and check points of the broker itself are no less lost by it than a user's.
    #[test]
    fn topics_of_the_broker_are_looked_at_too() {
        let host = Host::V4 {
            address: [127, 0, 0, 1],
            port: 10_911,
        };
        for topic in ["t", "RMQ_SYS_TRANS_OP_HALF_TOPIC"] {
            let message = Message::of(topic, 0, b"body", host);
            let mut prepared = Prepared::new(&message, &Limits { body_len_max: 100 }).unwrap();
            let border = PHYSICAL_OFFSET_AT + 5;
            let at = SECTOR_BYTES - border as u64;
            prepared.stamp(9, at.cast_signed(), 1_795_249_600_000);
            let mut bytes = vec![0; prepared.total_len()];
            prepared.write_to(&mut bytes);
            for (torn, expected) in [(false, 0), (true, 1)] {
                if torn {
                    bytes[border - WORD_BYTES..border].fill(0);
                }
                let Ok(Found::Record(record)) = check(&bytes, CrcCheck::Verify) else {
                    panic!("{topic}: the body is whole");
                };
                let mut doubtful = DoubtfulRecords::since(0);
                doubtful.look_at(&record, at);
                assert_eq!(doubtful.records.len(), expected, "{topic}");
            }
        }
    }

    #[test]
    fn an_offset_that_zeros_explain_is_torn() {
        let next = HashMap::from([(0, 5), (1, 300)]);
        assert!(doubtful(0, 0, 20..28).is_torn(&next));
        assert!(
            doubtful(1, 256, 27..35).is_torn(&next),
            "the last byte is lost"
        );
        assert!(
            doubtful(0, 300, 12..20).is_torn(&next),
            "the queue id is lost"
        );
    }

    #[test]
    fn an_offset_that_they_do_not_explain_is_not() {
        let next = HashMap::from([(0, 5), (1, 300)]);
        assert!(!doubtful(0, 5, 20..28).is_torn(&next), "it goes on");
        assert!(!doubtful(2, 0, 20..28).is_torn(&next), "a new queue");
        assert!(!doubtful(1, 0, 27..35).is_torn(&next), "more is missing");
        assert!(
            !doubtful(0, 9, 20..28).is_torn(&next),
            "the lost word is not zero"
        );
    }
}
