//! Looking before anything is changed: names, sizes, marks. Writes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mqcore_record::{Found, head, inner_offsets, scan_wanted};

use super::names::{ABORT_NAME, INDEX_DIR};
use crate::batch_queue::{BatchQueue, BatchUnit};
use crate::checkpoint::{AbortMarker, Checkpoint, Field};
use crate::config::StoreConfig;
use crate::consume_queue::stop_mark;
use crate::disk::{Disk, FileSystem, Open};
use crate::error::{Error, Result};
use crate::key_index::{LastExit, Opening};
use crate::notice::Notices;
use crate::segment::Chain;

/// What was found before anything is changed.
pub(super) struct Looked<D: Disk> {
    pub(super) chain: Chain<D>,
    pub(super) unfinished: Vec<PathBuf>,
    pub(super) checkpoint: Checkpoint<D>,
    pub(super) was_clean: bool,
}

/// Reads names and sizes only, before the lock file is touched.
pub(super) fn look_first<D: Disk>(disk: &D, config: &StoreConfig) -> Result<()> {
    let root = config.root()?;
    if disk.stat(&root)?.is_some_and(|stat| !stat.is_dir) {
        let why = "the store's directory is a file".to_owned();
        return Err(Error::ForeignFile { path: root, why });
    }
    let dir = config.commit_log_path()?;
    Chain::open(disk, &dir, config.segment_len_bytes, Open::Read).map(|_| ())
}

pub(super) fn warn_of_directory<D: Disk>(disk: &D, root: &Path, notices: &Notices) -> Result<()> {
    let root_text = root.display();
    match disk.file_system(root)? {
        FileSystem::Local => {}
        FileSystem::Memory => notices.warn(format!(
            "{root_text} lies in memory: nothing survives a restart of the machine; use a disk"
        )),
        FileSystem::Network => notices.warn(format!(
            "{root_text} lies on a network or user-space file system: locks and syncs may not hold \
             there; use a local disk"
        )),
    }
    if disk
        .stat(&root.join("transaction"))?
        .is_some_and(|stat| stat.is_dir)
    {
        notices.warn(format!(
            "{root_text}/transaction is left over from RocketMQ 3.x: it is not read and not touched"
        ));
    }
    Ok(())
}

pub(super) fn find<D: Disk>(
    disk: &D,
    config: &StoreConfig,
    notices: &Arc<Notices>,
) -> Result<Looked<D>> {
    let root = config.root()?;
    let dir = config.commit_log_path()?;
    let (chain, unfinished) = Chain::open(disk, &dir, config.segment_len_bytes, Open::Write)?;
    let checkpoint_path = root.join("checkpoint");
    let checkpoint = if chain.is_empty() && disk.stat(&checkpoint_path)?.is_none() {
        notices.info(format!("{}: a new store", root.display()));
        Checkpoint::of_new_store(disk, &checkpoint_path)
    } else {
        Checkpoint::open(disk, &checkpoint_path, notices)?
    };
    let was_clean = !AbortMarker::new(disk, &root.join(ABORT_NAME)).is_present()?;
    Ok(Looked {
        chain,
        unfinished,
        checkpoint,
        was_clean,
    })
}

/// How the index is to be opened.
pub(super) fn index_opening<'a, D: Disk>(
    dir: &'a Path,
    config: &'a StoreConfig,
    found: &Looked<D>,
) -> Opening<'a> {
    let last_exit = if found.was_clean {
        LastExit::Clean
    } else {
        let checkpoint_index_timestamp_ms = found.checkpoint.value(Field::IndexTimestamp);
        LastExit::Abnormal {
            checkpoint_index_timestamp_ms,
        }
    };
    Opening {
        dir,
        config,
        last_exit,
    }
}

/// Bytes that change whenever somebody else may have written to the store since our clean stop.
pub(super) fn stamp_of<D: Disk>(disk: &D, root: &Path, chain: &Chain<D>) -> Result<Vec<u8>> {
    let mut out = stop_mark(disk, root, chain)?;
    // The official broker writes its lock file at each start; its checkpoint at each stop.
    // Who removes queues or index to have them made again changes their directory.
    for name in [
        "checkpoint",
        "lock",
        "consumequeue",
        "batchconsumequeue",
        INDEX_DIR,
    ] {
        let mark = disk
            .stat(&root.join(name))?
            .map_or(0, |stat| stat.change_mark);
        out.extend(mark.to_be_bytes());
    }
    Ok(out)
}

/// Whether the record of a unit of a batch queue is where the unit names it; taken for granted of
/// records that the log has given up.
pub(super) fn has_record<D: Disk>(
    chain: &Chain<D>,
    queue: &BatchQueue<D>,
    unit: &BatchUnit,
) -> Result<bool> {
    let (physical_offset, end) = (unit.physical_offset, unit.physical_end());
    if physical_offset < chain.start() {
        return Ok(true);
    }
    let Some(chunk) = chain.chunk(physical_offset, end, unit.size_bytes as usize)? else {
        return Ok(false);
    };
    let Ok(Found::Record(record)) = head(chunk.bytes.as_bytes()) else {
        return Ok(false);
    };
    let wanted = scan_wanted(record.properties);
    let (base, count) = inner_offsets::base_and_count(&wanted, record.queue_offset.cast_unsigned());
    Ok(record.topic == queue.topic().as_bytes()
        && record.queue_id == queue.queue_id()
        && record.total_len_bytes as u64 == end - physical_offset
        && (base, count) == (unit.base, unit.count))
}
