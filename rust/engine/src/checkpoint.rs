//! The `checkpoint` file (how far log, queues and index were flushed, as store times) and the
//! `abort` marker (present while a broker runs). Knows no log, queue or index: numbers and names.
//! Any thread may call it; the owner decides when to flush.
//!
//! | position | field | i64 |
//! |---|---|---|
//! | 0 | `physicMsgTimestamp` | store time up to which the log is flushed, ms |
//! | 8 | `logicsMsgTimestamp` | the same for the queues |
//! | 16 | `indexMsgTimestamp` | end time of the newest flushed full index file |
//! | 24 | `masterFlushedOffset` | 5.x only: informational |
//! | 32 | `confirmPhyOffset` | 5.x only: the confirm offset of a replica under a controller |
//! | 40 | `logicsPhysicalOffset` | 5.5 only: physical offset up to which the queues are flushed |
//!
//! Source: `StoreCheckpoint`. The file is 4096 bytes; what lies behind the fields is left as it is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use crate::lock::Mutex;

use crate::disk::{Disk, DiskFile, Open};
use crate::error::Result;
use crate::notice::Notices;
use crate::units::PAGE_BYTES;

/// Length of the file (`StoreCheckpoint` maps one page).
pub const CHECKPOINT_LEN_BYTES: u64 = PAGE_BYTES;
/// Fields of the file.
const FIELDS: usize = 6;
/// Bytes of the fields. They lie in the first 512-byte sector, so that a device that writes whole
/// sectors cannot tear one write of them; one that tears at 8 bytes still keeps each field whole.
const FIELDS_LEN_BYTES: usize = FIELDS * 8;
const _: () = assert!(FIELDS_LEN_BYTES <= 512);
/// Recovery starts this long before the flushed times (`StoreCheckpoint.getMinTimestamp`).
const MARGIN_MS: i64 = 3_000;

/// A field of the checkpoint; its number is its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Store time up to which the log is flushed.
    PhysicTimestamp = 0,
    /// Store time up to which the queues are flushed.
    LogicsTimestamp = 1,
    /// End time of the newest flushed full index file.
    IndexTimestamp = 2,
    /// Offset that the master had flushed; informational.
    MasterFlushedOffset = 3,
    /// The confirm offset, of a replica under a controller.
    ConfirmOffset = 4,
    /// Physical offset up to which the queues are flushed; at 0 a recovery of 5.5 goes by the times.
    LogicsPhysicalOffset = 5,
}

/// The checkpoint in memory and its file. The file is made by the first [`Checkpoint::flush`].
pub struct Checkpoint<D: Disk> {
    disk: D,
    path: PathBuf,
    values: [AtomicI64; FIELDS],
    flushed: Mutex<Flushed<D>>,
}

struct Flushed<D: Disk> {
    file: Option<D::File>,
    values: Option<[i64; FIELDS]>,
}

impl<D: Disk> Checkpoint<D> {
    /// Reads the checkpoint; changes nothing on the disk. An absent, short or empty file gives
    /// zeros: recovery then starts at the beginning, which is slow and right.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn open(disk: &D, path: &Path, notices: &Notices) -> Result<Self> {
        let values = load(disk, path, notices)?;
        Ok(Self::of(disk, path, values))
    }

    /// The checkpoint of a store that is made now: there is none on the disk.
    pub fn of_new_store(disk: &D, path: &Path) -> Self {
        Self::of(disk, path, [0; FIELDS])
    }

    fn of(disk: &D, path: &Path, values: [i64; FIELDS]) -> Self {
        Self {
            disk: disk.clone(),
            path: path.to_owned(),
            values: values.map(AtomicI64::new),
            flushed: Mutex::new(Flushed {
                file: None,
                values: None,
            }),
        }
    }

    /// The field's value in memory.
    #[must_use]
    pub fn value(&self, field: Field) -> i64 {
        self.values[field as usize].load(Ordering::Acquire)
    }

    /// Raises the field to `value`; a lower value changes nothing.
    pub fn raise(&self, field: Field, value: i64) {
        self.values[field as usize].fetch_max(value, Ordering::AcqRel);
    }

    /// Sets the field, also backwards: for recovery, before anything is dispatched.
    pub fn set(&self, field: Field, value: i64) {
        self.values[field as usize].store(value, Ordering::Release);
    }

    /// Lowers the field to `value`; a higher value changes nothing. As [`Checkpoint::set`].
    pub fn lower(&self, field: Field, value: i64) {
        self.values[field as usize].fetch_min(value, Ordering::AcqRel);
    }

    /// Sets the three times to `store_ms` where they are later: for a log that is cut behind a record of that time.
    pub fn lower_times(&self, store_ms: i64) {
        for field in [
            Field::PhysicTimestamp,
            Field::LogicsTimestamp,
            Field::IndexTimestamp,
        ] {
            self.lower(field, store_ms);
        }
    }

    /// The store time from which an abnormal recovery has to look at the log, ms.
    #[must_use]
    pub fn min_timestamp_ms(&self) -> i64 {
        let flushed = self
            .value(Field::PhysicTimestamp)
            .min(self.value(Field::LogicsTimestamp));
        flushed.saturating_sub(MARGIN_MS).max(0)
    }

    /// The same when the index counts too (`messageIndexSafe`), ms.
    #[must_use]
    pub fn min_timestamp_index_ms(&self) -> i64 {
        self.min_timestamp_ms()
            .min(self.value(Field::IndexTimestamp))
    }

    /// Writes the fields when one has changed since the last flush.
    ///
    /// # Durability
    /// On return the fields survive power loss. A crash within leaves each field old or new.
    ///
    /// # Blocking
    /// Until the device has answered.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the file may then hold old or new fields. A later flush writes
    /// them again.
    pub fn flush(&self) -> Result<()> {
        let mut flushed = self.flushed.lock();
        let mut values = [0; FIELDS];
        for (value, cell) in values.iter_mut().zip(&self.values) {
            *value = cell.load(Ordering::Acquire);
        }
        if flushed.values == Some(values) {
            return Ok(());
        }
        flushed.values = None;
        let file = match flushed.file.take() {
            Some(file) => file,
            None => self.make_file()?,
        };
        file.write_at(&encode(values), 0)?;
        file.sync_data()?;
        flushed.file = Some(file);
        flushed.values = Some(values);
        Ok(())
    }

    /// Opens the file at its full length, with its name durable.
    fn make_file(&self) -> Result<D::File> {
        let file = self.disk.open(&self.path, Open::Create)?;
        let len_bytes = file.len_bytes()?;
        if len_bytes < CHECKPOINT_LEN_BYTES {
            // Real zeros instead of a hole: a hole could meet a full disk at every later write.
            let zeros = vec![0; (CHECKPOINT_LEN_BYTES - len_bytes) as usize];
            file.write_at(&zeros, len_bytes)?;
        }
        if let Some(dir) = self.path.parent() {
            self.disk.sync_dir(dir)?;
        }
        Ok(file)
    }
}

fn load<D: Disk>(disk: &D, path: &Path, notices: &Notices) -> Result<[i64; FIELDS]> {
    let Some(stat) = disk.stat(path)? else {
        let text = "no checkpoint: recovery will look at the whole log";
        notices.info(format!("{}: {text}", path.display()));
        return Ok([0; FIELDS]);
    };
    if stat.len_bytes != CHECKPOINT_LEN_BYTES {
        notices.warn(format!(
            "{} is {} bytes long instead of {CHECKPOINT_LEN_BYTES}: fields that are missing count \
             as 0",
            path.display(),
            stat.len_bytes
        ));
    }
    let mut bytes = [0; FIELDS_LEN_BYTES];
    let file = disk.open(path, Open::Read)?;
    let got = file.read_at(&mut bytes, 0)?;
    // A field that is cut off is as good as none.
    bytes[got - got % 8..].fill(0);
    let values = decode(&bytes);
    if values[..3].iter().all(|value| *value == 0) && stat.len_bytes == CHECKPOINT_LEN_BYTES {
        let text = "the checkpoint is empty: recovery will look at the whole log";
        notices.info(format!("{}: {text}", path.display()));
    }
    Ok(values)
}

fn encode(values: [i64; FIELDS]) -> [u8; FIELDS_LEN_BYTES] {
    let mut bytes = [0; FIELDS_LEN_BYTES];
    for (field, value) in bytes.chunks_exact_mut(8).zip(values) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

fn decode(bytes: &[u8; FIELDS_LEN_BYTES]) -> [i64; FIELDS] {
    let mut values = [0; FIELDS];
    for (value, field) in values.iter_mut().zip(bytes.chunks_exact(8)) {
        *value = field
            .iter()
            .fold(0, |number, byte| (number << 8) | i64::from(*byte));
    }
    values
}

/// What the `abort` marker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortContent {
    /// Nothing, as 4.9 writes it.
    Empty,
    /// The process id as decimal text, as 5.x writes it.
    ProcessId(u32),
}

/// The `abort` file: made when the store starts, removed when it stops cleanly, so that its
/// presence at a start means that the last end was abnormal.
#[derive(Debug, Clone)]
pub struct AbortMarker<D: Disk> {
    disk: D,
    path: PathBuf,
}

impl<D: Disk> AbortMarker<D> {
    /// The marker at `path`; touches nothing.
    #[must_use]
    pub fn new(disk: &D, path: &Path) -> Self {
        Self {
            disk: disk.clone(),
            path: path.to_owned(),
        }
    }

    /// Whether the last end was abnormal (or a broker runs).
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn is_present(&self) -> Result<bool> {
        Ok(self.disk.stat(&self.path)?.is_some())
    }

    /// Makes the marker, or overwrites the one that is there.
    ///
    /// # Durability
    /// On return the marker survives power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn create(&self, content: AbortContent) -> Result<()> {
        let file = self.disk.open(&self.path, Open::Create)?;
        let text = match content {
            AbortContent::Empty => String::new(),
            AbortContent::ProcessId(id) => id.to_string(),
        };
        if file.len_bytes()? > text.len() as u64 {
            file.set_len(text.len() as u64)?;
        }
        if !text.is_empty() {
            file.write_at(text.as_bytes(), 0)?;
        }
        file.sync_data()?;
        self.sync_name()
    }

    /// Removes the marker; nothing to do when there is none.
    ///
    /// # Durability
    /// On return the removal survives power loss.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn remove(&self) -> Result<()> {
        if self.is_present()? {
            self.disk.unlink(&self.path)?;
        }
        self.sync_name()
    }

    fn sync_name(&self) -> Result<()> {
        match self.path.parent() {
            Some(dir) => self.disk.sync_dir(dir),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("mq-checkpoint-{}-{name}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn fields_are_kept_and_what_lies_behind_them_is_left_alone() {
        let dir = dir("fields");
        let path = dir.join("checkpoint");
        let mut old = vec![0xabu8; 4096];
        old[..24].fill(0);
        std::fs::write(&path, &old).unwrap();
        let notices = Notices::default();
        let checkpoint = Checkpoint::open(&RealDisk, &path, &notices).unwrap();
        assert_eq!(notices.drain().len(), 1, "an empty one is told");
        checkpoint.raise(Field::PhysicTimestamp, 10_000);
        checkpoint.raise(Field::PhysicTimestamp, 9_000);
        checkpoint.raise(Field::LogicsTimestamp, 8_000);
        assert_eq!(checkpoint.min_timestamp_ms(), 5_000);
        assert_eq!(checkpoint.min_timestamp_index_ms(), 0);
        checkpoint.raise(Field::IndexTimestamp, 4_000);
        assert_eq!(checkpoint.min_timestamp_index_ms(), 4_000);
        checkpoint.set(Field::LogicsTimestamp, 2_000);
        assert_eq!(checkpoint.min_timestamp_ms(), 0, "never below zero");
        checkpoint.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(bytes[..8], 10_000i64.to_be_bytes());
        assert_eq!(bytes[24..], old[24..]);
        checkpoint.set(Field::LogicsPhysicalOffset, 5_000);
        checkpoint.flush().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes[40..48], 5_000i64.to_be_bytes());
        assert_eq!(bytes[48..], old[48..], "behind the last field");
        let again = Checkpoint::open(&RealDisk, &path, &notices).unwrap();
        assert_eq!(again.value(Field::IndexTimestamp), 4_000);
        assert!(notices.drain().is_empty());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_absent_or_short_file_counts_as_zeros_and_opening_changes_nothing() {
        let dir = dir("short");
        let path = dir.join("checkpoint");
        let notices = Notices::default();
        let checkpoint = Checkpoint::open(&RealDisk, &path, &notices).unwrap();
        assert!(!path.exists());
        assert_eq!(notices.drain().len(), 1);
        checkpoint.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), vec![0; 4096]);
        std::fs::write(&path, [0, 0, 0, 0, 0, 0, 0, 9, 1, 1]).unwrap();
        let short = Checkpoint::open(&RealDisk, &path, &notices).unwrap();
        assert_eq!(short.value(Field::PhysicTimestamp), 9);
        assert_eq!(short.value(Field::LogicsTimestamp), 0);
        assert_eq!(notices.drain().len(), 1);
        short.flush().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_abort_marker_comes_and_goes() {
        let dir = dir("abort");
        let marker = AbortMarker::new(&RealDisk, &dir.join("abort"));
        assert!(!marker.is_present().unwrap());
        marker.create(AbortContent::ProcessId(12_345)).unwrap();
        assert_eq!(std::fs::read(dir.join("abort")).unwrap(), b"12345");
        marker.create(AbortContent::ProcessId(7)).unwrap();
        assert_eq!(std::fs::read(dir.join("abort")).unwrap(), b"7");
        marker.create(AbortContent::Empty).unwrap();
        assert_eq!(std::fs::read(dir.join("abort")).unwrap(), b"");
        assert!(marker.is_present().unwrap());
        marker.remove().unwrap();
        marker.remove().unwrap();
        assert!(!marker.is_present().unwrap());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
