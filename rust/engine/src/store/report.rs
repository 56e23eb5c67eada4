//! What an open is asked to do about damage, and what it reports of what it found and did. Knows no file.

use std::path::PathBuf;

use crate::commit_log::CutReport;
use crate::notice::Notices;

/// What to do about bytes that were whole once and are not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenHow {
    /// Refuse: the log is damaged.
    #[default]
    RefuseDamage,
    /// Cut the log there, with all that is behind it.
    CutDamage,
    /// Keep what is whole behind it: other records take the place of the bad bytes. Where nothing
    /// is behind it the log is cut.
    KeepBehind,
    /// Cut the log where a record begins, so that it is a copy of its master's; else refuse damage. A log
    /// that ends before it is left as it is.
    CutAt(u64),
}

/// What opening found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Whether the last end was clean.
    pub was_clean: bool,
    /// Whether nothing can be missing at the end of the log that was promised once: the last end was clean,
    /// every append was synced before it was, or the pages of the last session are still there.
    pub is_tail_certain: bool,
    /// Whether nothing at all can be missing, not even what nobody has synced: the last end was clean, or the
    /// pages of the last session are still there. Else slaves may hold more of the log. Of a member that holds
    /// for every start until [`super::Store::settle_end`].
    pub is_log_whole: bool,
    /// Where the farthest record ends that a queue names; 0 where the queues are not trusted.
    pub queues_end: u64,
    /// Where the walk of the log began.
    pub scanned_from: u64,
    /// Bytes walked.
    pub scanned_bytes: u64,
    /// Records walked.
    pub records: u64,
    /// Whether another broker had cut the log and left units of what it had cut: they were taken away.
    pub was_cut: bool,
    /// Since where queues were fed with what they had not got.
    pub fed_from: u64,
    /// Since where queues were fed again.
    pub dispatched_from: u64,
    /// What was cut.
    pub cut: CutReport,
    /// What took the place of bad bytes.
    pub replaced: Replaced,
    /// What was wrong at the end of the log, if anything.
    pub end_why: Option<String>,
    /// Whether the manifest of the queues was good, so that none had to be looked at.
    pub used_manifest: bool,
    /// Where the index is built on from, when that is below the end.
    pub index_from: Option<u64>,
}

/// Bad bytes of which others of the same length took the place, so that what follows them stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Bytes.
    pub bytes: u64,
    /// Where they stood: physical offsets.
    pub at: Vec<u64>,
    /// Whole records behind the first of them, which stay.
    pub whole_records: u64,
    /// Files that hold the bad bytes now.
    pub kept_in: Vec<PathBuf>,
    /// Where each is written down.
    pub recorded_in: Vec<PathBuf>,
}

impl OpenReport {
    /// Files that hold what was taken out of the log.
    #[must_use]
    pub fn kept_in(&self) -> Vec<PathBuf> {
        let replaced = self.replaced.kept_in.iter();
        replaced.chain(&self.cut.kept_in).cloned().collect()
    }

    /// Where what was taken out of the log is written down.
    #[must_use]
    pub fn recorded_in(&self) -> Vec<PathBuf> {
        let replaced = self.replaced.recorded_in.iter();
        replaced.chain(&self.cut.recorded_in).cloned().collect()
    }
}

/// Reports what was taken out of the log, so that it is in the broker's own log.
pub(super) fn report_cut(notices: &Notices, cut: &CutReport) {
    let (Some(why), Some(record)) = (&cut.why, cut.recorded_in.first()) else {
        return;
    };
    let kept: Vec<String> = cut
        .kept_in
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    notices.error(format!(
        "the log was cut at {}: {why}. {} bytes with {} whole records were taken out of it, {} bytes \
         were missing; the copy is in {}, noted in {}",
        cut.end,
        cut.kept_aside_bytes,
        cut.whole_records,
        cut.missing_bytes,
        if kept.is_empty() {
            "no file".to_owned()
        } else {
            kept.join(", ")
        },
        record.display()
    ));
}
