//! The manifest of the last clean stop and what is kept of it beyond the next change, the witness:
//! queues only grow, so each of them ends where it ended then or later. After a stop that was not
//! clean this shows which queues have lost their end, or all of their files. It counts for nothing
//! once a topic is deleted, the log has lost what it names, or another broker has worked on the store.
//! Reads no record.
//!
//! Locks: the bytes of the last witness, before all of `queue_store`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::load::QueueLoader;
use super::manifest::{
    MANIFEST_MAX_BYTES, MANIFEST_NAME, ManifestWriter, NEW_NAME, STAMP_MAX_BYTES, decode_manifest,
};
use super::unit::Unit;
use crate::disk::{Disk, DiskFile, Open, read_whole};
use crate::error::{Error, Result};
use crate::lock::Mutex;
use crate::notice::Notices;
use crate::queue_store::{Pending, QueueMap, Segments};

/// Name of the manifest of the last clean stop after the first change; official brokers ignore it.
pub const WITNESS_NAME: &str = "queues.manifest.before";

/// With more queues the witness is not written at checkpoints: that of the last clean stop stays. So
/// many are some 6 MB each minute, and a tenth of a second under the locks of single queues.
const WITNESS_QUEUES_MAX: usize = 100_000;

/// How often a witness is begun again because a topic was deleted meanwhile; then the next second
/// tries.
const WITNESS_TRIES: u32 = 3;

/// Which queues there were, on disk.
pub struct Witness<D: Disk> {
    disk: D,
    root: PathBuf,
    file_len_bytes: u64,
    map: Arc<QueueMap<Unit>>,
    pending: Arc<Pending<Unit>>,
    loader: Arc<QueueLoader<D>>,
    notices: Arc<Notices>,
    /// The manifest is on disk and must go before the first change.
    has_manifest: AtomicBool,
    /// Neither a manifest nor a witness is there.
    is_void: AtomicBool,
    /// How often queues may have become shorter.
    voids: AtomicU64,
    /// The witness that was written last: `voids` then, and the sum of its bytes.
    written: Mutex<Option<(u64, u32)>>,
}

impl<D: Disk> Witness<D> {
    pub(super) fn new(
        root: &Path,
        segments: &Segments<D, Unit>,
        (map, pending): (Arc<QueueMap<Unit>>, Arc<Pending<Unit>>),
        loader: Arc<QueueLoader<D>>,
        notices: Arc<Notices>,
    ) -> Self {
        Self {
            disk: segments.disk().clone(),
            root: root.to_owned(),
            file_len_bytes: segments.file_len_bytes(),
            map,
            pending,
            loader,
            notices,
            has_manifest: AtomicBool::new(false),
            is_void: AtomicBool::new(false),
            voids: AtomicU64::new(0),
            written: Mutex::new(None),
        }
    }

    /// Fills the map from the manifest. Whether it is of the very stop that the stamp names, and
    /// whether it counts at all: with a stamp that differs in its marks alone, directories were
    /// changed or copied since, and the queues must be at least as long as there.
    pub(super) fn load(&self, stamp: Option<&[u8]>) -> Result<(bool, bool)> {
        let path = self.path(MANIFEST_NAME);
        if self.disk.stat(&path)?.is_none() {
            return Ok((false, false));
        }
        self.has_manifest.store(true, Ordering::Release);
        let Some(stamp) = stamp else {
            return Ok((false, false));
        };
        let Some(bytes) = self.read(MANIFEST_NAME)? else {
            return Ok((false, false));
        };
        let Some((found, queues)) = decode_manifest(&bytes, Some(stamp), self.file_len_bytes)
        else {
            let at = path.display();
            self.notices.info(format!(
                "{at} is not of the last stop: the directories are read"
            ));
            return Ok((false, false));
        };
        for (topic, queue_id, state) in queues {
            self.map.insert(topic, queue_id, state);
        }
        Ok((found == stamp, true))
    }

    /// Writes the manifest under `stamp`: to be called at a clean stop, when nobody appends any more
    /// and everything was written and synced.
    ///
    /// # Durability
    /// The manifest is durable on return.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Limit`] for a stamp above 4096 bytes;
    /// [`Error::NotWritable`] when units were appended meanwhile.
    ///
    /// # Blocking
    /// Writes and syncs one file; looks at queues not used yet.
    pub(super) fn save(&self, stamp: &[u8]) -> Result<()> {
        if stamp.len() > STAMP_MAX_BYTES {
            return Err(Error::Limit {
                what: format!("a stamp of {} bytes", stamp.len()),
                limit: STAMP_MAX_BYTES as u64,
            });
        }
        let bytes = self.encode(stamp)?;
        let _gate = self.pending.hold_writes();
        if self
            .map
            .all()
            .iter()
            .any(|queue| queue.lock().has_pending())
        {
            let reason = "units were appended while the manifest was written".to_owned();
            return Err(Error::NotWritable { reason });
        }
        let new_path = self.write_new(&bytes)?;
        self.disk.rename(&new_path, &self.path(MANIFEST_NAME))?;
        self.disk.sync_dir(&self.root)?;
        self.has_manifest.store(true, Ordering::Release);
        self.is_void.store(false, Ordering::Release);
        Ok(())
    }

    /// The bytes of a manifest or witness in a file of its own, synced, under a name that counts for
    /// nothing yet.
    fn write_new(&self, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.root.join(NEW_NAME);
        self.disk.create_dir_all(&self.root)?;
        let file = self.disk.open(&path, Open::Create)?;
        file.set_len(0)?;
        file.write_at(bytes, 0)?;
        file.sync_data()?;
        Ok(path)
    }

    /// Before the first change: the numbers of the manifest are lower bounds from now on.
    ///
    /// # Durability
    /// The manifest is gone for good on return, and the witness is there.
    pub(super) fn retire(&self) -> Result<()> {
        if !self.has_manifest.load(Ordering::Acquire) {
            return Ok(());
        }
        let path = self.path(MANIFEST_NAME);
        if self.disk.stat(&path)?.is_some() {
            self.disk.rename(&path, &self.path(WITNESS_NAME))?;
        }
        self.disk.sync_dir(&self.root)?;
        self.has_manifest.store(false, Ordering::Release);
        Ok(())
    }

    /// Writes down how far each queue is in its files, where that has changed. To be called before a
    /// checkpoint is written: a queue that is not named then has its first record behind what the
    /// checkpoint covers, where a start after a kill finds it in the log.
    ///
    /// # Durability
    /// The witness is durable on return, or void because topics were deleted meanwhile.
    ///
    /// # Errors
    /// [`Error::Io`]: the witness before it stays.
    ///
    /// # Blocking
    /// Until the device has answered; looks at queues not used yet. Appends and writes go on.
    pub fn refresh(&self) -> Result<()> {
        let is_unchanged = self.has_manifest.load(Ordering::Acquire);
        if is_unchanged || self.map.len() > WITNESS_QUEUES_MAX {
            return Ok(());
        }
        let mut written = self.written.lock();
        for _ in 0..WITNESS_TRIES {
            if self.write(&mut written)? {
                break;
            }
        }
        Ok(())
    }

    /// False when queues may have become shorter meanwhile.
    fn write(&self, written: &mut Option<(u64, u32)>) -> Result<bool> {
        let voids = {
            // Queues are deleted, and cut, with this gate held.
            let _gate = self.pending.hold_writes();
            self.voids.load(Ordering::Acquire)
        };
        let bytes = self.encode(&[])?;
        let sum = crc32fast::hash(&bytes);
        if *written == Some((voids, sum)) {
            return Ok(true);
        }
        let path = self.write_new(&bytes)?;
        {
            let _gate = self.pending.hold_writes();
            if self.voids.load(Ordering::Acquire) != voids {
                self.disk.unlink(&path)?;
                return Ok(false);
            }
            self.disk.rename(&path, &self.path(WITNESS_NAME))?;
            self.is_void.store(false, Ordering::Release);
        }
        self.disk.sync_dir(&self.root)?;
        *written = Some((voids, sum));
        Ok(true)
    }

    /// Whether neither a manifest nor a witness is there.
    #[must_use]
    pub fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Acquire)
    }

    /// Removes manifest and witness: queues may become shorter from now on.
    ///
    /// # Durability
    /// Both are gone for good on return.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn void(&self) -> Result<()> {
        self.voids.fetch_add(1, Ordering::AcqRel);
        if self.is_void.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut has_any = false;
        for name in [WITNESS_NAME, MANIFEST_NAME] {
            let path = self.path(name);
            if self.disk.stat(&path)?.is_some() {
                self.disk.unlink(&path)?;
                has_any = true;
            }
        }
        if has_any {
            self.disk.sync_dir(&self.root)?;
        }
        self.has_manifest.store(false, Ordering::Release);
        self.is_void.store(true, Ordering::Release);
        Ok(())
    }

    /// Every queue as far as its files hold it: units that wait in memory are left out.
    fn encode(&self, stamp: &[u8]) -> Result<Vec<u8>> {
        let mut queues = self.map.all();
        queues.sort_by(|a, b| (a.topic(), a.queue_id()).cmp(&(b.topic(), b.queue_id())));
        let mut writer = ManifestWriter::new(stamp, queues.len(), self.file_len_bytes);
        for queue in &queues {
            let state = self.loader.lock_bounds(queue)?;
            writer.add(queue, &state);
        }
        Ok(writer.into_bytes())
    }

    /// The bytes of the manifest or of the witness, if it is there.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        read_whole(&self.disk, &self.path(name), MANIFEST_MAX_BYTES)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}
