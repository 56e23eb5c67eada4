//! Retention: which files may go, as a rule of ages, hours and used disk, and letting them go
//! (`DefaultMessageStore.CleanCommitLogService`). Consumption never keeps a file.

use crate::config::StoreConfig;
use crate::disk::{Disk, Space};
use crate::error::Result;
use crate::segment::LogFiles;

/// Why files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The hour of the day (`deleteWhen`).
    Hour,
    /// The disk is fuller than a setting allows.
    Space,
    /// An administrator asked.
    Manual,
}

/// What the disk's fill demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetainPlan {
    /// Expired files may go at any hour.
    pub deletes_expired: bool,
    /// Files go before they expire.
    pub deletes_at_once: bool,
    /// Appends are refused.
    pub refuses_appends: bool,
}

/// What the fill of the disk demands, by the official watermarks (store format 9.2).
#[must_use]
pub fn plan_space(space: Space, config: &StoreConfig) -> RetainPlan {
    let used = space.used_percent();
    let is_forced = used > config.disk_forcibly_percent;
    RetainPlan {
        deletes_expired: is_forced || used > config.disk_used_max_percent_clamped(),
        deletes_at_once: is_forced && config.clean_forcibly_enabled,
        refuses_appends: used > config.disk_warning_percent,
    }
}

/// What a round of retention did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// Files removed.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Where the log starts now.
    pub start: u64,
    /// Bytes removed beyond an offset that the caller named as still unread.
    pub unread_bytes: u64,
}

/// Removes the oldest files that are older than `expired_before_ms` (all of them when that is
/// `None`), at most `files_max`, never the newest one, never one that holds what is not flushed
/// or not dispatched; of expired ones none that somebody copies. `unread_from` is the lowest offset somebody still wants to read; it does
/// not keep a file, but what goes beyond it is counted. `before_first` is called when a file is
/// about to go, to keep what only that file still has.
///
/// # Errors
/// [`crate::error::Error::Io`], and that of `before_first`; files before the failing one are
/// gone.
///
/// # Durability
/// Each name is gone for good before the next one goes: a crash leaves a log without a gap.
pub fn remove_oldest<D: Disk>(
    files: &LogFiles<D>,
    expired_before_ms: Option<i64>,
    files_max: usize,
    unread_from: Option<u64>,
    before_first: impl FnOnce() -> Result<()>,
) -> Result<Retained> {
    let mut before_first = Some(before_first);
    let mut done = Retained::default();
    let keep_from = files
        .positions
        .flushed
        .position()
        .min(files.positions.dispatched.position());
    while done.files < files_max {
        let Some(first) = files.chain.segments().first().cloned() else {
            break;
        };
        if first.end() > keep_from || files.chain.len() < 2 {
            break;
        }
        // Where the disk is full, or somebody asks, the copy begins anew.
        if expired_before_ms.is_some() && files.holds.keep(first.end()) {
            break;
        }
        let modified = files
            .disk
            .stat(first.path())?
            .map_or(i64::MIN, |stat| stat.modified_ms);
        if expired_before_ms.is_some_and(|before| modified > before) {
            break;
        }
        if let Some(before_first) = before_first.take() {
            before_first()?;
        }
        let Some(first) = files.chain.pop_front() else {
            break;
        };
        if let Some(unread) = unread_from.filter(|unread| *unread < first.end()) {
            done.unread_bytes += first.end() - unread.max(first.base());
        }
        done.bytes += first.end() - first.base();
        done.files += 1;
        files.reclaimer.remove(&files.disk, first)?;
        files.disk.sync_dir(files.chain.dir())?;
    }
    done.start = files.chain.start();
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(percent: u64) -> RetainPlan {
        let space = Space {
            total_bytes: 100,
            free_bytes: 100 - percent,
            usable_bytes: 100 - percent,
        };
        plan_space(space, &StoreConfig::default())
    }

    #[test]
    fn the_official_watermarks() {
        assert_eq!(at(75), RetainPlan::default());
        assert!(at(76).deletes_expired && !at(76).deletes_at_once);
        assert!(!at(85).deletes_at_once && at(86).deletes_at_once);
        assert!(!at(90).refuses_appends && at(91).refuses_appends);
    }
}
