//! What the tests of the index share: a directory that goes away, an index over a manual clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::ManualClock;
use crate::config::StoreConfig;
use crate::disk::{Disk, RealDisk};
use crate::error::Result;
use crate::key_index::{KeyIndex, Keyed, LastExit, Opening, index_files};
use crate::notice::Notices;

/// A multiple of a second, so that the times of entries are exact.
pub(super) const START_MS: i64 = 1_795_249_596_000;
static DIRS: AtomicU64 = AtomicU64::new(0);

/// A directory that is removed at the end of the test.
pub(super) struct Dir(pub(super) PathBuf);

impl Dir {
    pub(super) fn new() -> Self {
        let number = DIRS.fetch_add(1, Ordering::Relaxed);
        let name = format!("mq-index-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _absent = std::fs::remove_dir_all(&dir);
        Self(dir)
    }

    pub(super) fn bytes(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let files = index_files(&RealDisk, &self.0).unwrap();
        let read = |path: PathBuf| {
            let bytes = std::fs::read(&path).unwrap();
            (path, bytes)
        };
        files.into_iter().map(read).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _absent = std::fs::remove_dir_all(&self.0);
    }
}

fn config(slots: u64, entries: u64) -> StoreConfig {
    StoreConfig {
        index_slots: slots,
        index_entries: entries,
        ..StoreConfig::default()
    }
}

pub(super) struct Setup<D: Disk> {
    pub(super) disk: D,
    pub(super) clock: ManualClock,
    pub(super) notices: Arc<Notices>,
    pub(super) config: StoreConfig,
}

impl<D: Disk> Setup<D> {
    pub(super) fn new(disk: D, slots: u64, entries: u64) -> Self {
        Self {
            disk,
            clock: ManualClock::at(START_MS),
            notices: Arc::new(Notices::default()),
            config: config(slots, entries),
        }
    }

    pub(super) fn open(&self, dir: &Path, last_exit: LastExit) -> Result<KeyIndex<D, ManualClock>> {
        let opening = Opening {
            dir,
            config: &self.config,
            last_exit,
        };
        KeyIndex::open(&self.disk, &self.clock, &self.notices, opening)
    }
}

pub(super) fn abnormal(checkpoint_index_timestamp_ms: i64) -> LastExit {
    LastExit::Abnormal {
        checkpoint_index_timestamp_ms,
    }
}

pub(super) fn keyed(keys: &str, physical_offset: u64, store_timestamp_ms: i64) -> Keyed<'_> {
    Keyed {
        topic: b"t",
        unique_key: None,
        keys: Some(keys.as_bytes()),
        tags: None,
        physical_offset,
        store_timestamp_ms,
        is_rollback: false,
    }
}

pub(super) fn find<D: Disk>(index: &KeyIndex<D, ManualClock>, key: &str) -> Vec<u64> {
    let answer = index.query(b"t", key.as_bytes(), 64, 0, i64::MAX).unwrap();
    answer.physical_offsets
}
