//! Opening for a look: sizes come from the files themselves, unless they are given; and what is looked
//! at as a whole: log, checkpoint, names, heads of index files.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use mqcore_record::CrcCheck;

use super::files::{FileReport, files_below};
use crate::commit_log::LogBatches;
use crate::config::StoreConfig;
use crate::consume_queue::EXTENSION_DIR;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};
use crate::key_index::{IndexHeader, IndexScan, Layout, found_layout, index_files};
use crate::segment::Chain;
use crate::units::parse_offset_file_name;

/// Fields of the checkpoint file.
const CHECKPOINT_FIELDS: usize = 5;
/// What recovery leaves between the checkpoint and what it trusts (`StoreCheckpoint.getMinTimestamp`).
const CHECKPOINT_MARGIN_MS: i64 = 3_000;

/// A store directory that is being looked at.
pub struct Inspection<D: Disk> {
    pub(super) disk: D,
    pub(super) root: PathBuf,
    pub(super) chain: Chain<D>,
    pub(super) config: StoreConfig,
    pub(super) layout: Option<Layout>,
    /// Bytes of the log that a walk has seen, for whoever shows progress.
    pub(super) walked: AtomicU64,
}

impl<D: Disk> Inspection<D> {
    /// Opens the store in `root`. `given` are settings by their official keys; sizes that are not
    /// among them are those of the first file of their kind.
    ///
    /// # Errors
    /// [`Error::ForeignFile`] where there is no store, [`Error::Config`], [`Error::WrongFileSize`],
    /// [`Error::Io`]. Nothing on disk is changed, ever.
    pub fn open(disk: D, root: &Path, given: &[(String, String)]) -> Result<Self> {
        let pairs = given
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()));
        let (mut config, _unknown) = StoreConfig::from_pairs(pairs)?;
        config.root = Some(root.to_owned());
        let is_given = |keys: &[&str]| given.iter().any(|(key, _)| keys.contains(&key.as_str()));
        let log_dir = config.commit_log_path()?;
        if !disk.stat(&log_dir)?.is_some_and(|stat| stat.is_dir) {
            let why = "no commit log here: this is no store directory".to_owned();
            return Err(Error::ForeignFile { path: log_dir, why });
        }
        if !is_given(&["mappedFileSizeCommitLog", "mapedFileSizeCommitLog"])
            && let Some(len_bytes) = first_len(&disk, &log_dir)?
        {
            config.segment_len_bytes = len_bytes;
        }
        if !is_given(&["mappedFileSizeConsumeQueue", "mapedFileSizeConsumeQueue"])
            && let Some(len_bytes) = first_queue_len(&disk, &root.join("consumequeue"))?
        {
            config.queue_file_len_bytes = len_bytes;
        }
        let keys = [
            "mappedFileSizeConsumeQueueExt",
            "mapedFileSizeConsumeQueueExt",
        ];
        if !is_given(&keys)
            && let Some(len_bytes) = first_queue_len(&disk, &root.join(EXTENSION_DIR))?
        {
            config.extension_file_len_bytes = len_bytes;
        }
        if !is_given(&["mapperFileSizeBatchConsumeQueue"])
            && let Some(len_bytes) = first_queue_len(&disk, &root.join("batchconsumequeue"))?
        {
            config.batch_file_len_bytes = len_bytes;
        }
        let layout = layout_of(
            &disk,
            root,
            &config,
            is_given(&["maxHashSlotNum", "maxIndexNum"]),
        )?;
        if let Some(layout) = layout {
            config.index_slots = u64::from(layout.slots());
            config.index_entries = u64::from(layout.entries());
        }
        let (chain, _unfinished) =
            Chain::open(&disk, &log_dir, config.segment_len_bytes, Open::Read)?;
        let root = root.to_owned();
        Ok(Self {
            disk,
            root,
            chain,
            config,
            layout,
            walked: AtomicU64::new(0),
        })
    }

    /// The log.
    #[must_use]
    pub fn chain(&self) -> &Chain<D> {
        &self.chain
    }

    /// Settings as given or found.
    #[must_use]
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// A walk through the log, from a record's first byte or the oldest file to an offset or the end.
    #[must_use]
    pub fn walk(
        &self,
        from: Option<u64>,
        to: Option<u64>,
        crc: CrcCheck,
        len: usize,
    ) -> LogBatches {
        let from = from.unwrap_or(0).max(self.chain.start());
        let limit = to.unwrap_or(u64::MAX).min(self.chain.end());
        LogBatches::new(from, limit, crc, len, false)
    }

    /// The fields of the checkpoint, as far as the file has them.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoint(&self) -> Result<Option<Vec<i64>>> {
        let path = self.root.join("checkpoint");
        if self.disk.stat(&path)?.is_none() {
            return Ok(None);
        }
        let mut bytes = [0; CHECKPOINT_FIELDS * 8];
        let got = self.disk.open(&path, Open::Read)?.read_at(&mut bytes, 0)?;
        let (fields, _rest) = bytes.as_chunks::<8>();
        Ok(Some(
            fields
                .iter()
                .take(got / 8)
                .map(|field| i64::from_be_bytes(*field))
                .collect(),
        ))
    }

    /// Records stored before this time are in their queues on the disk, whatever the last end was; in
    /// a store that was stopped cleanly all are, ms.
    pub(super) fn synced_ms(&self) -> Result<i64> {
        if !self.has_abort()? {
            return Ok(i64::MAX);
        }
        let fields = self.checkpoint()?.unwrap_or_default();
        let field = |at: usize| fields.get(at).copied().unwrap_or(0);
        Ok(field(0).min(field(1)).saturating_sub(CHECKPOINT_MARGIN_MS))
    }

    /// The index files with their headers, oldest first.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`], [`Error::Io`].
    pub fn index_headers(&self) -> Result<Vec<(PathBuf, IndexHeader)>> {
        let mut out = Vec::new();
        for path in index_files(&self.disk, &self.root.join("index"))? {
            // A file that is being made has no length yet.
            if self
                .disk
                .stat(&path)?
                .is_some_and(|stat| stat.len_bytes > 0)
            {
                let header = IndexScan::open(&self.disk, &path, self.layout)?.header();
                out.push((path, header));
            }
        }
        Ok(out)
    }

    /// Every file below the root, by path.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Asks the kernel for the pages of every file.
    pub fn files(&self) -> Result<Vec<FileReport>> {
        let mut out = Vec::new();
        files_below(&self.disk, (&self.root, Path::new("")), &mut out)?;
        Ok(out)
    }

    /// Whether a broker runs on the store, or ended without closing it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn has_abort(&self) -> Result<bool> {
        Ok(self.disk.stat(&self.root.join("abort"))?.is_some())
    }
}

/// Length of the first log file; one that is being made has none yet.
fn first_len<D: Disk>(disk: &D, dir: &Path) -> Result<Option<u64>> {
    let files = disk.list(dir)?;
    let is_file = |name: &str| parse_offset_file_name(name).is_some();
    let mut lens = files
        .iter()
        .filter(|entry| !entry.is_dir && is_file(&entry.name));
    Ok(lens
        .find(|entry| entry.len_bytes > 0)
        .map(|entry| entry.len_bytes))
}

fn first_queue_len<D: Disk>(disk: &D, dir: &Path) -> Result<Option<u64>> {
    for topic in disk.list(dir)?.iter().filter(|entry| entry.is_dir) {
        let topic_dir = dir.join(&topic.name);
        for queue in disk.list(&topic_dir)?.iter().filter(|entry| entry.is_dir) {
            if let Some(len_bytes) = first_len(disk, &topic_dir.join(&queue.name))? {
                return Ok(Some(len_bytes));
            }
        }
    }
    Ok(None)
}

fn layout_of<D: Disk>(
    disk: &D,
    root: &Path,
    config: &StoreConfig,
    is_given: bool,
) -> Result<Option<Layout>> {
    if is_given {
        return Layout::new(config).map(Some);
    }
    found_layout(disk, &root.join("index"), Layout::new(config).ok())
}
