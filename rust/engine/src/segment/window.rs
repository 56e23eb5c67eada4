//! The window of populated pages that runs ahead of the append (`DefaultMappedFile.warmMappedFile`).
//! Called by the preparation thread. Knows no record, and makes no file.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::config::{FlushDiskType, StoreConfig};
use crate::disk::{Disk, DiskFile, Region, SharedRegion};
use crate::error::{Error, Result};
use crate::mmap::Use;
use crate::notice::Notices;
use crate::segment::Segment;
use crate::segment::claims::Claims;
use crate::units::{KIB, MIB, PAGE_BYTES, round_down, round_up};

/// No position of a log.
const NOWHERE: u64 = u64::MAX;

/// Bytes populated per call: 4 MiB take one to five milliseconds, so the window keeps up with an
/// append and the thread looks around often.
const POPULATE_STEP_BYTES: u64 = 4 * MIB;
/// Bytes populated per call while the append is not about to overtake: 70 us, so that nobody who
/// shares the core waits longer for it.
const GENTLE_STEP_BYTES: u64 = 64 * KIB;
/// Missing bytes of the window from which on it is populated in large steps.
const GENTLE_GAP_BYTES: u64 = 16 * MIB;
/// Bytes of zeros per write, and of the folio that the page cache makes for them: a third of the
/// processor time of populating page by page, as 128 and 256 KiB; 16 KiB takes half. A sync of a
/// few records writes at most this much around them.
const ZERO_STEP_BYTES: u64 = 64 * KIB;
/// Zeros written per step: half a millisecond. What the thread looks at between two steps grows with
/// the number of log files.
const ZERO_ROUND_BYTES: u64 = MIB;
/// Bytes touched per call of a refresh: 20 us where all are present, and what waits for the table of
/// maps meanwhile waits no longer.
const REFRESH_STEP_BYTES: u64 = MIB;
/// Zeros are written at least so far ahead of the append: it comes there after some milliseconds
/// at the earliest, and hardly ever waits for a write that lost its core in between.
const ZERO_DISTANCE_BYTES: u64 = 4 * MIB;

/// And in a small window this part of it.
const ZERO_DISTANCE_PART: u64 = 8;

static ZEROS: [u8; ZERO_STEP_BYTES as usize] = [0; ZERO_STEP_BYTES as usize];

/// What a file lacks of the window: positions in it.
struct Missing {
    from: u64,
    wanted: u64,
    /// Whether the append needs it before anything else is warmed.
    is_urgent: bool,
    /// From here on zeros may be written: the append is far enough.
    zeros_from: u64,
}

/// Keeps the pages ahead of the append present and writable, and warms whole files if asked to.
pub struct Window {
    window_bytes: u64,
    /// Where the log ended when it was opened; `NOWHERE` before.
    opened_at: AtomicU64,
    is_warming: bool,
    warm_step_bytes: u64,
    writes_back: bool,
    /// Whether zeros are written ahead of the append, so that its pages come in larger folios.
    writes_zeros: AtomicBool,
    claims: Claims,
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
            // Each synchronous flush would write a whole folio around its records; and a pool's
            // bytes come through the file, where nobody has claimed them.
            writes_zeros: AtomicBool::new(
                config.flush_disk_type == FlushDiskType::Async && !config.transient_pool_enabled,
            ),
            claims: Claims::default(),
            is_refused: AtomicBool::new(false),
            warmed: AtomicU64::new(0),
        }
    }

    /// Until something is appended behind `position`, half of the window is enough: a store that
    /// nobody writes to takes half of the memory, and the first append makes the rest follow.
    pub fn rest_at(&self, position: u64) {
        self.opened_at.store(position, Ordering::Relaxed);
        if self.writes_zeros() {
            self.claims.begin(position);
        }
    }

    /// Claims the bytes below `needed`, which lie in `segment`, for the append; how far it may write
    /// without asking again. Nothing else is written there from now on.
    ///
    /// # Blocking
    /// While a step of this window writes zeros below `needed`.
    pub fn claim<D: Disk>(&self, segment: &Segment<D>, needed: u64) -> u64 {
        let populated = segment.base() + segment.populated();
        self.claims.for_append(needed, populated)
    }

    fn writes_zeros(&self) -> bool {
        self.writes_zeros.load(Ordering::Relaxed)
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
        let Some(missing) = self.missing(segment, region.len_bytes(), appended) else {
            return false;
        };
        if segment.populated() == 0 {
            // Read-ahead would populate folios of up to 2 MiB, and each sync of a few records would
            // write a whole one: six times the bytes, twice the time. And it populates a whole
            // read-ahead at once, 8 MiB on some machines: what else runs on that core waits
            // meanwhile, for 30 ms where the memory is fetched from a host.
            region.advise(Use::Random, 0, region.len_bytes());
        }
        match self.take(segment, &region, &missing, notices) {
            Ok(end) => {
                self.warmed.fetch_add(end - missing.from, Ordering::Relaxed);
                end < missing.wanted
            }
            Err(error) => {
                self.refuse(&error, notices);
                false
            }
        }
    }

    /// Populates pages of `segment` once more: those of the positions `range` in it that the kernel has
    /// taken back are read, the others are only touched.
    ///
    /// # Blocking
    /// For the disk, where pages are read.
    pub fn refresh<D: Disk>(&self, segment: &Segment<D>, range: Range<u64>, notices: &Notices) {
        let Some(region) = segment.region() else {
            return;
        };
        let mut at = range.start;
        while at < range.end && !self.is_refused.load(Ordering::Relaxed) {
            let len = REFRESH_STEP_BYTES.min(range.end - at);
            // One by one the pages would take the disk's time each; and asked for long before, some
            // would be gone again.
            segment.file().advise(Some(Use::WillNeed), at, len);
            if let Err(error) = region.populate(at, len) {
                self.refuse(&error, notices);
            }
            at += len;
        }
    }

    fn refuse(&self, error: &Error, notices: &Notices) {
        self.is_refused.store(true, Ordering::Relaxed);
        notices.warn(format!(
            "{error}: pages are taken one by one as the append meets them"
        ));
    }

    /// What a file of `len_bytes` lacks of the window.
    fn missing<D: Disk>(
        &self,
        segment: &Segment<D>,
        len_bytes: u64,
        appended: u64,
    ) -> Option<Missing> {
        let is_resting = self.opened_at.load(Ordering::Relaxed) == appended;
        let window = self.window_bytes / (1 + u64::from(is_resting));
        let at = appended.clamp(segment.base(), segment.end()) - segment.base();
        // What lies between the append and the start of this file is window too.
        let ahead = segment.base().saturating_sub(appended);
        let wanted = if self.is_warming {
            len_bytes
        } else {
            round_up(at + window.saturating_sub(ahead), PAGE_BYTES).min(len_bytes)
        };
        let distance = ZERO_DISTANCE_BYTES.min(self.window_bytes / ZERO_DISTANCE_PART);
        let zeros_from = (at + distance).saturating_sub(ahead);
        let is_overtaken = segment.populated() < at && !is_resting;
        let from = if is_overtaken && self.writes_zeros() {
            // Whoever appends takes the pages in between as it meets them: no slower than another
            // thread would, and this one gets ahead again.
            round_up(zeros_from, ZERO_STEP_BYTES)
        } else {
            segment.populated().max(round_down(at, PAGE_BYTES))
        };
        (from < wanted).then(|| Missing {
            from,
            wanted,
            is_urgent: from < at + window,
            zeros_from,
        })
    }

    /// Takes one step of the missing pages; where it ended.
    fn take<D: Disk>(
        &self,
        segment: &Segment<D>,
        region: &SharedRegion<D>,
        missing: &Missing,
        notices: &Notices,
    ) -> Result<u64> {
        let from = missing.from;
        // Pages of a locked map are present.
        let writes_zeros = self.writes_zeros() && !segment.is_locked();
        if writes_zeros && from >= missing.zeros_from {
            let zeroed = self.write_zeros(segment, region, missing, notices)?;
            if zeroed > from {
                return Ok(zeroed);
            }
        }
        let is_far_behind = !self.writes_back
            && !writes_zeros
            && missing.is_urgent
            && missing.wanted - from > GENTLE_GAP_BYTES;
        let step = if is_far_behind {
            POPULATE_STEP_BYTES
        } else if missing.is_urgent {
            GENTLE_STEP_BYTES
        } else {
            self.warm_step_bytes
        };
        let len = step.min(missing.wanted - from);
        if is_far_behind {
            // Five times the rate, when the append is about to overtake.
            region.advise(Use::Normal, from, len);
        }
        self.fill(segment, region, from, len)?;
        segment.set_populated(from + len);
        Ok(from + len)
    }

    /// Writes zeros through the file, and makes their pages present in the map; where they end. Ends
    /// early where the append has claimed what follows.
    fn write_zeros<D: Disk>(
        &self,
        segment: &Segment<D>,
        region: &SharedRegion<D>,
        missing: &Missing,
        notices: &Notices,
    ) -> Result<u64> {
        let round = match missing.is_urgent {
            true => ZERO_ROUND_BYTES,
            false => self.warm_step_bytes,
        };
        let round_end = (missing.from + round).min(missing.wanted);
        let mut at = missing.from;
        while at < round_end {
            // Folios lie at multiples of their length.
            let end = round_up(at + 1, ZERO_STEP_BYTES).min(round_end);
            let range = segment.base() + at..segment.base() + end;
            let Some(claim) = self.claims.for_zeros(range) else {
                break;
            };
            let zeros = ZEROS.get(..(end - at) as usize).unwrap_or(&ZEROS);
            if let Err(error) = segment.file().write_at(zeros, at) {
                // Should the disk be broken, a sync will report it.
                self.writes_zeros.store(false, Ordering::Relaxed);
                notices.warn(format!("{error}: pages are populated one by one"));
                break;
            }
            region.populate(at, end - at)?;
            // Before the claim ends: whoever waits for it shall find that it may go on to here.
            segment.set_populated(end);
            drop(claim);
            at = end;
        }
        Ok(at)
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
