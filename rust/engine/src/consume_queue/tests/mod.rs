//! Tests of the queues on a disk. What they need of the disk comes from [`Home`] alone, so that
//! they can move to another disk.

mod basics;
mod extensions;
mod lifecycle;
mod model;
mod parts;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::config::StoreConfig;
use crate::disk::RealDisk;
use crate::notice::Notices;

/// Units per file in tests: small, so that every test crosses files.
pub(super) const PER_FILE: u64 = 10;

/// A store directory of its own, removed at the end.
pub(super) struct Home {
    pub(super) root: PathBuf,
    pub(super) notices: Arc<Notices>,
}

impl Home {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("mqcore-queues-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&root).unwrap();
        Self {
            root,
            notices: Arc::default(),
        }
    }

    pub(super) fn open(&self) -> QueueTable<RealDisk> {
        self.open_with(None, 1024).unwrap()
    }

    pub(super) fn open_with(
        &self,
        stamp: Option<&[u8]>,
        open_max: usize,
    ) -> crate::error::Result<QueueTable<RealDisk>> {
        let config = StoreConfig {
            root: Some(self.root.clone()),
            queue_file_len_bytes: PER_FILE * 20,
            queue_files_open_max: open_max,
            ..StoreConfig::default()
        };
        let notices = Arc::clone(&self.notices);
        QueueTable::open(RealDisk, &self.root, &config, notices, stamp)
    }

    pub(super) fn queue_dir(&self, topic: &str, queue_id: i32) -> PathBuf {
        let dir = self.root.join("consumequeue").join(topic);
        dir.join(queue_id.to_string())
    }

    pub(super) fn names(&self, topic: &str, queue_id: i32) -> Vec<u64> {
        let Ok(entries) = std::fs::read_dir(self.queue_dir(topic, queue_id)) else {
            return Vec::new();
        };
        let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<u64> = names.map(|name| name.parse().unwrap()).collect();
        names.sort_unstable();
        names
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _left_behind = std::fs::remove_dir_all(&self.root);
    }
}

/// The unit of the n-th record of a log of 100-byte records.
pub(super) fn unit(record: u64) -> Unit {
    Unit {
        physical_offset: (record * 100).cast_signed(),
        size_bytes: 100,
        tags_code: record.cast_signed() - 7,
    }
}

/// Appends records `from..to` at the queue offsets of the same numbers.
pub(super) fn append(table: &QueueTable<RealDisk>, topic: &str, from: u64, to: u64) {
    for n in from..to {
        let placed = table.append(topic.as_bytes(), 0, n, unit(n), n.cast_signed());
        assert_eq!(placed.unwrap(), Placed::Appended, "unit {n}");
    }
}

/// Everything from `from` on.
pub(super) fn read(table: &QueueTable<RealDisk>, topic: &str, from: u64) -> Vec<Unit> {
    let mut units = Vec::new();
    let read = table.read(topic.as_bytes(), 0, from, 1_000_000, &mut units);
    assert_eq!(read.unwrap().next, from + units.len() as u64);
    units
}

pub(super) fn bounds(table: &QueueTable<RealDisk>, topic: &str) -> Option<(u64, u64)> {
    let bounds = table.bounds(topic.as_bytes(), 0).unwrap();
    bounds.map(|bounds| (bounds.min, bounds.max))
}

pub(super) fn flush(table: &QueueTable<RealDisk>) {
    table.write_pending().unwrap();
    table.sync(0).unwrap();
}

pub(super) fn units(from: u64, to: u64) -> Vec<Unit> {
    (from..to).map(unit).collect()
}

/// The bytes of a queue file.
pub(super) fn file_bytes(home: &Path, base: u64) -> Vec<u8> {
    std::fs::read(home.join(format!("{base:020}"))).unwrap()
}
