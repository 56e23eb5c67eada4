//! Memory and files ahead of the append, and what is let go behind it: one step of the preparation
//! thread, and the rest of what cold readers have left.

use std::sync::Arc;

use crate::config::StoreConfig;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::segment::{LogFiles, Refresh, Segment};

/// Makes files ready ahead of the append and lets maps go behind it.
pub struct Preparation<D: Disk> {
    files: Arc<LogFiles<D>>,
    /// Bytes of files that may be locked in memory; `None` where none is to be.
    locked_bytes_max: Option<u64>,
    hot_window_bytes: u64,
}

impl<D: Disk> Preparation<D> {
    pub(super) fn new(files: &Arc<LogFiles<D>>, config: &StoreConfig) -> Self {
        Self {
            files: Arc::clone(files),
            locked_bytes_max: config.lock_memory.then_some(config.locked_bytes_max),
            hot_window_bytes: config.hot_window_bytes,
        }
    }

    /// Wants the first file and the first pages, before the first append comes.
    ///
    /// # Errors
    /// The file at the end of the log cannot be mapped.
    pub(super) fn begin(&self) -> Result<()> {
        let files = &self.files;
        files.preparer.set_has_thread(true);
        let appended = files.positions.appended.position();
        if let Some(segment) = files.chain.find(appended) {
            return segment.map(appended - segment.base()).map(|_region| ());
        }
        let len = files.chain.segment_len_bytes();
        files.preparer.want(appended - appended % len);
        Ok(())
    }

    /// Prepares the next file or populates one step of the window; true when there is more to do.
    ///
    /// # Errors
    /// The file cannot be made: no space, for one. Appends are refused when they need it.
    pub fn step(&self) -> Result<bool> {
        let files = &self.files;
        let mut more = files.preparer.step()?;
        let appended = files.positions.appended.position();
        self.unlock_full(appended);
        if let Some(segment) = files.chain.find(appended).or_else(|| files.chain.last()) {
            self.lock_memory(&segment);
            more |= files.window.step(&segment, appended, &files.notices);
        }
        if let Some(next) = files.preparer.peek() {
            next.map(0)?;
            more |= files.window.step(&next, appended, &files.notices);
        }
        more |= files.reclaimer.step()?;
        self.cool_down(appended);
        Ok(more)
    }

    /// Populates the pages next to the append once more when it is time: what the kernel has taken back
    /// since they were populated is read here, and not by the append under its lock.
    ///
    /// # Blocking
    /// For the disk, where pages were taken back.
    pub fn refresh(&self, refresh: &mut Refresh, now_ms: u64) {
        let files = &*self.files;
        let appended = files.positions.appended.position();
        let Some(segment) = files.chain.find(appended) else {
            return;
        };
        // A pool's bytes go through the file, and locked pages stay.
        if files.pool.is_some() || segment.is_locked() {
            return;
        }
        let next = files.preparer.peek();
        let next = next.filter(|next| next.base() == segment.end());
        let is_whole = segment.base() + segment.populated() == segment.end();
        let populated = match &next {
            Some(next) if is_whole => next.base() + next.populated(),
            _ => segment.base() + segment.populated(),
        };
        let Some(range) = refresh.due(now_ms, appended, populated) else {
            return;
        };
        for part in [Some(segment), next].into_iter().flatten() {
            let (from, to) = (range.start.max(part.base()), range.end.min(part.end()));
            if from < to {
                let positions = from - part.base()..to - part.base();
                files.window.refresh(&part, positions, &files.notices);
            }
        }
    }

    /// Unlocks files that are full: only what is written now is worth locked memory.
    fn unlock_full(&self, appended: u64) {
        for segment in self.files.chain.segments() {
            if segment.end() > appended {
                break;
            }
            if segment.is_locked() {
                segment.unlock_memory();
            }
        }
    }

    fn lock_memory(&self, segment: &Segment<D>) {
        let Some(locked_bytes_max) = self.locked_bytes_max.filter(|_| !segment.is_locked()) else {
            return;
        };
        let locked = self
            .files
            .chain
            .segments()
            .iter()
            .filter(|s| s.is_locked())
            .count() as u64;
        let len = self.files.chain.segment_len_bytes();
        if (locked + 1) * len > locked_bytes_max {
            return;
        }
        if let Err(error) = segment.lock() {
            self.files.notices.warn(format!(
                "{error}: log files stay unlocked; raise the limit of locked memory (ulimit -l, \
                 LimitMEMLOCK) to {} bytes",
                locked_bytes_max
            ));
        }
    }

    /// Lets the maps of files go that are below the hot window: reads go through the file there.
    fn cool_down(&self, appended: u64) {
        let hot = appended.saturating_sub(self.hot_window_bytes);
        let flushed = self.files.in_page_cache();
        for segment in self.files.chain.segments() {
            if segment.end() > hot.min(flushed) {
                break;
            }
            segment.unmap();
        }
    }

    /// Gives back what cold readers that come no more have left.
    pub(super) fn rest(&self) {
        for segment in self.files.chain.segments() {
            segment.file().rest();
        }
    }
}
