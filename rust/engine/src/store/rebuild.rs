//! Making queues and index again from the log, into place: built aside, then put where the old ones
//! were. The log is only read. For a store that is not open.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mqcore_record::CrcCheck;

use super::bits::LiveBits;
use super::delay_levels::LiveLevels;
use super::event_loops::EventLoops;
use super::followers::{IndexFollower, QueueFollower, batch_unit, is_queued};
use super::index_tags::indexes_tags;
use super::names::{ABORT_NAME, INDEX_DIR};
use crate::batch_queue::BatchTable;
use crate::checkpoint::{AbortContent, AbortMarker, Checkpoint, Field};
use crate::clock::Clock;
use crate::commit_log::{LogEnd, Scan, Stop, records_behind, scan};
use crate::config::StoreConfig;
use crate::consume_queue::{EXTENSION_DIR, MANIFEST_NAME, QueueTable, WITNESS_NAME};
use crate::disk::{Disk, Open};
use crate::dispatch::{Dispatch, Request};
use crate::error::{Error, Result};
use crate::key_index::{IndexState, KeyIndex, LastExit, Opening};
use crate::notice::Notices;
use crate::segment::Chain;

/// Directory below the root where things are built.
const ASIDE_DIR: &str = "rebuilding";
/// The directories that are built.
const QUEUE_DIR: &str = "consumequeue";
const BATCH_DIR: &str = "batchconsumequeue";
/// Records between two ends of a round: what queues hold in memory is written then.
const ROUND_RECORDS: u64 = 1024;
/// What the progress fields are set to while things are moved: a start looks at the whole log then.
const MOVED_FIELDS: [Field; 3] = [
    Field::PhysicTimestamp,
    Field::LogicsTimestamp,
    Field::IndexTimestamp,
];

/// What was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebuilt {
    /// Physical offset behind the last record.
    pub log_end: u64,
    /// Records walked.
    pub records: u64,
    /// Queues made, plain ones and batch queues.
    pub queues: usize,
    /// Entries of the index; 0 when it is switched off.
    pub index_entries: u64,
}

/// Builds queues and index of a store again and puts them in the place of the old ones.
///
/// # Durability
/// On return the new ones survive power loss. A crash within leaves the old ones, the new ones, or
/// neither with a mark that makes the next start build them from the whole log.
///
/// # Errors
/// [`Error::Locked`] while a broker runs; [`Error::Damaged`] when whole records stand behind a bad
/// one; [`Error::NotWritable`] without space for the index; [`Error::Io`]. Nothing was replaced then.
///
/// # Blocking
/// Reads the whole log, writes as much as queues and index are.
pub fn rebuild<D: Disk, C: Clock>(disk: &D, clock: &C, config: StoreConfig) -> Result<Rebuilt> {
    let config = config.check()?;
    let root = config.root()?;
    let _lock = disk.lock(&root.join("lock"))?;
    let dir = config.commit_log_path()?;
    let (chain, _unfinished) = Chain::open(disk, &dir, config.segment_len_bytes, Open::Read)?;
    let aside = root.join(ASIDE_DIR);
    remove_tree(disk, &aside)?;
    disk.create_dir_all(&aside)?;
    let notices = Arc::new(Notices::default());
    let rebuilt = build(disk, clock, &config, &chain, &aside, &notices)?;
    put_in_place(disk, &root, &aside, &notices, config.index_enabled)?;
    remove_tree(disk, &aside)?;
    Ok(rebuilt)
}

/// Makes the batch queues of a store again whose directory somebody removed. Plain queues go on where
/// they ended, so that dispatch alone would not come by the older records. Called while the store is
/// opened.
///
/// # Durability
/// On return they survive power loss; a crash within leaves none, and the next start begins anew.
pub(super) fn make_missing_batches<D: Disk>(
    disk: &D,
    config: &StoreConfig,
    chain: &Chain<D>,
    limit: u64,
    notices: &Arc<Notices>,
) -> Result<()> {
    let (root, from) = (config.root()?, chain.start());
    notices.warn(format!(
        "the batch queues are missing: they are made again from the log, {from} to {limit}"
    ));
    let aside = root.join(ASIDE_DIR);
    remove_tree(disk, &aside)?;
    disk.create_dir_all(&aside)?;
    let table = batch_table(disk, config, &aside, notices)?;
    let walk = Scan {
        from,
        limit,
        crc: CrcCheck::Skip,
        is_recovery: true,
        torn_from: 0,
        has_property_crc: false,
        forgets: true,
    };
    scan(chain, walk, |record, physical_offset| {
        if !is_queued(record) || !table.has_topic(record.topic) {
            return Ok(true);
        }
        let unit = batch_unit(&Request::new(record, physical_offset));
        table.append(record.topic, record.queue_id, &unit)?;
        if table.is_write_due() {
            table.write_pending()?;
        }
        Ok(true)
    })?;
    table.write_pending()?;
    table.sync()?;
    disk.rename(&aside.join(BATCH_DIR), &root.join(BATCH_DIR))?;
    disk.sync_dir(&aside)?;
    disk.sync_dir(&root)?;
    remove_tree(disk, &aside)
}

fn build<D: Disk, C: Clock>(
    disk: &D,
    clock: &C,
    config: &StoreConfig,
    chain: &Chain<D>,
    aside: &Path,
    notices: &Arc<Notices>,
) -> Result<Rebuilt> {
    let table = QueueTable::open(disk.clone(), aside, config, Arc::clone(notices), None)?;
    let queues = QueueFollower {
        queues: Arc::new(table),
        levels: LiveLevels::parse(&config.delay_levels)?,
        batches: Arc::new(batch_table(disk, config, aside, notices)?),
        clock: clock.clone(),
        write_at_ms: AtomicU64::new(0),
        bits: LiveBits::default(),
        loops: Arc::new(EventLoops::new()?),
    };
    let index_dir = aside.join(INDEX_DIR);
    let index = if config.index_enabled {
        let opening = Opening {
            dir: &index_dir,
            config,
            last_exit: LastExit::Clean,
        };
        let index = Arc::new(KeyIndex::open(disk, clock, notices, opening)?);
        let before = config.root()?.join(INDEX_DIR);
        Some(IndexFollower {
            index,
            indexes_tags: indexes_tags(disk, &before, config, chain, notices),
        })
    } else {
        None
    };
    let (from, limit) = (chain.start(), chain.end());
    let walk = Scan {
        from,
        limit,
        crc: CrcCheck::Verify,
        is_recovery: true,
        torn_from: 0,
        has_property_crc: config.verify_property_crc,
        forgets: true,
    };
    let mut records = 0;
    let end = scan(chain, walk, |record, physical_offset| {
        let request = Request::new(record, physical_offset);
        queues.dispatch(&request)?;
        if let Some(index) = &index {
            index.dispatch(&request)?;
        }
        records += 1;
        if records % ROUND_RECORDS == 0 {
            queues.end_round(false)?;
        }
        Ok(true)
    })?;
    refuse_damage(config, chain, &end)?;
    queues.queues.write_pending()?;
    queues.queues.sync(0)?;
    queues.batches.write_pending()?;
    queues.batches.sync()?;
    let mut rebuilt = Rebuilt {
        log_end: end.end,
        records,
        queues: queues.queues.len() + queues.batches.queue_count(),
        index_entries: 0,
    };
    if let Some(IndexFollower { index, .. }) = &index {
        if index.writer().state() != IndexState::Running {
            let reason = "the disk has no room for the index: free space".to_owned();
            return Err(Error::NotWritable { reason });
        }
        index.syncing().sync_all()?;
        rebuilt.index_entries = index.stats().entries;
    }
    Ok(rebuilt)
}

/// No batch queue yet, of the topics that have such queues.
fn batch_table<D: Disk>(
    disk: &D,
    config: &StoreConfig,
    aside: &Path,
    notices: &Arc<Notices>,
) -> Result<BatchTable<D>> {
    let there = BatchTable::open(disk.clone(), &config.root()?, config, Arc::clone(notices))?;
    let table = BatchTable::open(disk.clone(), aside, config, Arc::clone(notices))?;
    for topic in there.topics() {
        table.declare(&topic)?;
    }
    Ok(table)
}

/// A bad record that whole ones follow is damage: what is behind it would be lost from queues.
fn refuse_damage<D: Disk>(config: &StoreConfig, chain: &Chain<D>, end: &LogEnd) -> Result<()> {
    if matches!(end.stop, Stop::End | Stop::Visitor) {
        return Ok(());
    }
    let bad = end.stop.why().unwrap_or_else(|| "zeros".to_owned());
    let not_before = end.last_store_ms.unwrap_or(1);
    let behind = records_behind(chain, end.end, not_before, config.verify_property_crc)?;
    if behind.whole_records == 0 {
        return Ok(());
    }
    let Some(segment) = chain.find(end.end) else {
        return Ok(());
    };
    Err(Error::Damaged {
        store: config.root()?,
        path: segment.path().to_owned(),
        position: end.end - segment.base(),
        physical_offset: end.end,
        why: bad,
        whole_records: behind.whole_records,
    })
}

/// Moves the new directories to where the old ones were. Meanwhile the store is marked as one that
/// was killed and of which nothing is known to be flushed.
fn put_in_place<D: Disk>(
    disk: &D,
    root: &Path,
    aside: &Path,
    notices: &Notices,
    has_index: bool,
) -> Result<()> {
    let abort = AbortMarker::new(disk, &root.join(ABORT_NAME));
    let was_clean = !abort.is_present()?;
    let checkpoint = Checkpoint::open(disk, &root.join("checkpoint"), notices)?;
    let before = MOVED_FIELDS.map(|field| checkpoint.value(field));
    if was_clean {
        abort.create(AbortContent::Empty)?;
    }
    for field in MOVED_FIELDS {
        checkpoint.set(field, 0);
    }
    checkpoint.flush()?;
    for name in [MANIFEST_NAME, WITNESS_NAME] {
        let path = root.join(name);
        if disk.stat(&path)?.is_some() {
            disk.unlink(&path)?;
        }
    }
    // Without its extension a queue is whole, with that of another one it is not.
    let extension = root.join(EXTENSION_DIR);
    if disk.stat(&extension)?.is_some() {
        disk.rename(&extension, &aside.join(format!("old-{EXTENSION_DIR}")))?;
        disk.sync_dir(root)?;
    }
    let dirs = if has_index {
        &[QUEUE_DIR, BATCH_DIR, INDEX_DIR, EXTENSION_DIR][..]
    } else {
        &[QUEUE_DIR, BATCH_DIR, EXTENSION_DIR][..]
    };
    for name in dirs {
        if disk.stat(&root.join(name))?.is_some() {
            disk.rename(&root.join(name), &aside.join(format!("old-{name}")))?;
        }
        if disk.stat(&aside.join(name))?.is_some() {
            disk.rename(&aside.join(name), &root.join(name))?;
            disk.sync_dir(root)?;
        }
    }
    disk.sync_dir(aside)?;
    disk.sync_dir(root)?;
    for (field, value) in MOVED_FIELDS.into_iter().zip(before) {
        checkpoint.set(field, value);
    }
    checkpoint.flush()?;
    if was_clean { abort.remove() } else { Ok(()) }
}

fn remove_tree<D: Disk>(disk: &D, dir: &Path) -> Result<()> {
    if disk.stat(dir)?.is_none() {
        return Ok(());
    }
    for entry in disk.list(dir)? {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            remove_tree(disk, &path)?;
        } else {
            disk.unlink(&path)?;
        }
    }
    disk.remove_dir(dir)
}
