//! The damaged records that the scrub and cold reads have found: a list by physical offset, each with one
//! notice. Reads nothing.
//!
//! Locks: the list is held for a look at it and over a notice, whose lock comes behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mqcore_record::{Found, head};

use crate::lock::Mutex;
use crate::notice::Notices;

/// Damaged records that are kept with their offset, and counted: beyond that the disk is to be
/// replaced, and a list shows no more.
const ROTTEN_MAX: usize = 1_000;

/// A record that is not what was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRecord {
    /// First byte of it in the log.
    pub physical_offset: u64,
    /// Its topic, as far as it can be read; else empty.
    pub topic: String,
    /// Its queue; -1 where it cannot be read.
    pub queue_id: i32,
    /// Its place there; -1 where it cannot be read.
    pub queue_offset: i64,
    /// What is wrong.
    pub why: String,
}

/// The damaged records that were found since the store was opened.
#[derive(Debug)]
pub struct DamagedRecords {
    notices: Arc<Notices>,
    found: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_offset: BTreeMap<u64, DamagedRecord>,
    count: u64,
}

impl DamagedRecords {
    pub(super) fn new(notices: &Arc<Notices>) -> Self {
        Self {
            notices: Arc::clone(notices),
            found: Mutex::default(),
        }
    }

    /// Damaged records that were found since the store was opened, by offset, and
    /// their number.
    #[must_use]
    pub fn records(&self) -> (Vec<DamagedRecord>, u64) {
        let found = self.found.lock();
        (found.by_offset.values().cloned().collect(), found.count)
    }

    /// Notes a damaged record and notifies the owner, once per physical offset. False when it was known.
    pub(super) fn note(&self, damaged: DamagedRecord) -> bool {
        let mut found = self.found.lock();
        if found.by_offset.contains_key(&damaged.physical_offset)
            || found.by_offset.len() >= ROTTEN_MAX
        {
            // Beyond the bound nobody knows what is new.
            return false;
        }
        let DamagedRecord {
            physical_offset,
            topic,
            queue_id,
            queue_offset,
            why,
        } = &damaged;
        self.notices.error(format!(
            "the record at physical offset {physical_offset} (topic {topic:?}, queue {queue_id}, \
             queue offset {queue_offset}) is damaged: {why}"
        ));
        found.count += 1;
        let physical_offset = *physical_offset;
        found.by_offset.insert(physical_offset, damaged);
        true
    }

    /// Forgets a record that was put right.
    pub(super) fn forget(&self, physical_offset: u64) {
        self.found.lock().by_offset.remove(&physical_offset);
    }

    /// Whether a damaged record is known at an offset.
    pub(super) fn has(&self, physical_offset: u64) -> bool {
        let found = self.found.lock();
        found.by_offset.contains_key(&physical_offset) || found.by_offset.len() >= ROTTEN_MAX
    }

    /// Notes the record at an offset by what can still be read of it.
    pub(super) fn note_at(&self, physical_offset: u64, bytes: &[u8], why: String) {
        let (topic, queue_id, queue_offset) = match head(bytes) {
            Ok(Found::Record(record)) => (
                String::from_utf8_lossy(record.topic).into_owned(),
                record.queue_id,
                record.queue_offset,
            ),
            _ => (String::new(), -1, -1),
        };
        self.note(DamagedRecord {
            physical_offset,
            topic,
            queue_id,
            queue_offset,
            why,
        });
    }
}
