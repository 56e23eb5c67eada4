//! The window of populated pages that runs ahead of the append (`DefaultMappedFile.warmMappedFile`).
//! Called by the preparation thread. Knows no record, and makes no file.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::{Disk, DiskFile, Region, SharedRegion};
use crate::error::Result;
use crate::mmap::Use;
use crate::notice::Notices;
use crate::segment::Segment;
use crate::units::{MIB, PAGE_BYTES};

/// No position of a log.
const NOWHERE: u64 = u64::MAX;

/// Bytes populated per call: 4 MiB take one to five milliseconds, so the window keeps up with an
/// append and the thread looks around often.
const POPULATE_STEP_BYTES: u64 = 4 * MIB;
/// Bytes populated per call while the append is not about to overtake: 70 us, so that nobody who
/// shares the core waits longer for it.
const GENTLE_STEP_BYTES: u64 = 64 * 1024;
/// Missing bytes of the window from which on it is populated in large steps.
const GENTLE_GAP_BYTES: u64 = 16 * MIB;

/// Keeps the pages ahead of the append present and writable, and warms whole files if asked to.
pub struct Window {
    window_bytes: u64,
    /// Where the log ended when it was opened; `NOWHERE` before.
    opened_at: AtomicU64,
    is_warming: bool,
    warm_step_bytes: u64,
    writes_back: bool,
    is_refused: AtomicBool,
    warmed: AtomicU64,
}

impl Window {
    /// A window as the settings want it.
    #[must_use]
    pub fn new(config: &StoreConfig) -> Self {
        Self {
            window_bytes: config.populate_window_bytes,
            opened_at: AtomicU64::new(NOWHERE),
            is_warming: config.warm_up_enabled,
            warm_step_bytes: (config.warm_up_step_pages * PAGE_BYTES).max(PAGE_BYTES),
            writes_back: config.flush_disk_type == FlushDiskType::Sync,
            is_refused: AtomicBool::new(false),
            warmed: AtomicU64::new(0),
        }
    }

    /// Until something is appended behind `position`, half of the window is enough: a store that
    /// nobody writes to takes half of the memory, and the first append makes the rest follow.
    pub fn rest_at(&self, position: u64) {
        self.opened_at.store(position, Ordering::Relaxed);
    }

    /// Bytes of the window.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Bytes populated by the warm-up so far: its progress.
    #[must_use]
    pub fn warmed_bytes(&self) -> u64 {
        self.warmed.load(Ordering::Relaxed)
    }

    /// Populates one step of what is missing between the append at `appended` and the end of the
    /// window, in `segment`; true when there is more to do there.
    ///
    /// # Blocking
    /// For the pages of one step.
    pub fn step<D: Disk>(&self, segment: &Segment<D>, appended: u64, notices: &Notices) -> bool {
        let Some(region) = segment.region() else {
            return false;
        };
        if self.is_refused.load(Ordering::Relaxed) {
            return false;
        }
        let is_resting = self.opened_at.load(Ordering::Relaxed) == appended;
        let window = self.window_bytes / (1 + u64::from(is_resting));
        let at = appended.clamp(segment.base(), segment.end()) - segment.base();
        let wanted = if self.is_warming {
            region.len_bytes()
        } else {
            // What lies between the append and the start of this file is window too.
            let ahead = segment.base().saturating_sub(appended);
            (at + window.saturating_sub(ahead)).min(region.len_bytes())
        };
        let from = segment.populated().max(at - at % PAGE_BYTES);
        if from >= wanted {
            return false;
        }
        let urgent = from < at + window;
        let is_far_behind = !self.writes_back && urgent && wanted - from > GENTLE_GAP_BYTES;
        let step = if is_far_behind {
            POPULATE_STEP_BYTES
        } else if urgent {
            GENTLE_STEP_BYTES
        } else {
            self.warm_step_bytes
        };
        let len = step.min(wanted - from);
        if segment.populated() == 0 {
            // Read-ahead would populate folios of up to 2 MiB, and each sync of a few records would
            // write a whole one: six times the bytes, twice the time. And it populates a whole
            // read-ahead at once, 8 MiB on some machines: what else runs on that core waits
            // meanwhile, for 30 ms where the memory is fetched from a host.
            region.advise(Use::Random, 0, region.len_bytes());
        }
        if is_far_behind {
            // Five times the rate, when the append is about to overtake.
            region.advise(Use::Normal, from, len);
        }
        if let Err(error) = self.fill(segment, &region, from, len) {
            self.is_refused.store(true, Ordering::Relaxed);
            notices.warn(format!(
                "{error}: pages are taken one by one as the append meets them"
            ));
            return false;
        }
        segment.set_populated(from + len);
        self.warmed.fetch_add(len, Ordering::Relaxed);
        from + len < wanted
    }

    /// Makes pages present and writable. Under synchronous flush they are written back in between:
    /// the extents of an allocated file count as unwritten until they were, and a sync that has to
    /// change that writes more than its records. Populating once more spares the append a fault per
    /// page; released before, the pages are not made read-only one by one.
    fn fill<D: Disk>(
        &self,
        segment: &Segment<D>,
        region: &SharedRegion<D>,
        from: u64,
        len: u64,
    ) -> Result<()> {
        region.populate(from, len)?;
        if self.writes_back {
            region.release(from, len);
            segment.file().start_write_back(from, len);
            region.populate(from, len)?;
        }
        Ok(())
    }
}
