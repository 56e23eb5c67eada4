//! What a store is made with when it is opened, and the files of its log. Knows nothing of what lies on
//! the disk.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use super::bits::LiveBits;
use super::delay_levels::LiveLevels;
use super::event_loops::EventLoops;
use crate::clock::Clock;
use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::Disk;
use crate::error::Result;
use crate::lock::Mutex;
use crate::notice::Notices;
use crate::poison::Poison;
use crate::segment::{
    Chain, Holds, LogFiles, LogPositions, Pool, Preparer, Reclaimer, Signals, Window,
};

/// Assumed memory of the machine where the system does not report it.
const MEMORY_BYTES_ASSUMED: u64 = 8 << 30;

/// What every part of a store is made with.
pub(super) struct Making<'a, D: Disk, C: Clock> {
    pub(super) disk: &'a D,
    pub(super) clock: C,
    pub(super) config: &'a StoreConfig,
    pub(super) levels: LiveLevels,
    pub(super) bits: LiveBits,
    pub(super) loops: Arc<EventLoops>,
    pub(super) notices: Arc<Notices>,
    pub(super) root: PathBuf,
}

/// The files of the log, as all threads share them.
pub(super) fn log_files<D: Disk>(
    disk: &D,
    config: &StoreConfig,
    chain: Chain<D>,
    notices: &Arc<Notices>,
) -> Result<LogFiles<D>> {
    let pool = if config.transient_pool_enabled {
        Some(Pool::new(
            config.transient_pool_buffers,
            config.segment_len_bytes,
            notices,
        )?)
    } else {
        None
    };
    let dir = config.commit_log_path()?;
    Ok(LogFiles {
        disk: disk.clone(),
        positions: LogPositions::default(),
        poison: Poison::default(),
        notices: Arc::clone(notices),
        preparer: Preparer::new(
            disk.clone(),
            &dir,
            config.segment_len_bytes,
            Arc::clone(notices),
        ),
        window: Window::new(config),
        pool,
        reclaimer: Reclaimer::default(),
        holds: Holds::default(),
        signals: Signals::default(),
        last_store_ms: AtomicI64::new(0),
        records_end: AtomicU64::new(u64::MAX),
        records_flushed: AtomicU64::new(0),
        reads_flushed_only: config.consume_flushed_only
            || (config.flush_disk_type == FlushDiskType::Sync && !config.read_uncommitted),
        confirmed: AtomicU64::new(u64::MAX),
        is_closing: AtomicBool::new(false),
        committing: Mutex::new(()),
        chain,
    })
}

/// Memory of the machine; the system is asked once per process.
pub(super) fn memory_bytes() -> u64 {
    static MEMORY_BYTES: OnceLock<u64> = OnceLock::new();
    *MEMORY_BYTES.get_or_init(|| reported_memory_bytes().unwrap_or(MEMORY_BYTES_ASSUMED))
}

/// From the system's own report.
fn reported_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}
