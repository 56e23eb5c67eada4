//! What a store reports of itself, as frozen classes: names and units are those of the engine.

use std::collections::BTreeMap;

use mqcore_engine::consume_queue::QueueInfo;
use mqcore_engine::notice::{Level, Notice as EngineNotice};
use mqcore_engine::store::{
    Cleaned, DamagedRecord as EngineDamagedRecord, OpenReport as EngineReport, SegmentStat,
    Stats as EngineStats,
};
use pyo3::prelude::*;

use crate::frozen::frozen;

frozen! {
    /// One log file.
    Segment {
        /// First byte of it in the log.
        physical_offset: u64,
        /// Its length.
        len_bytes: u64,
        /// Whether it is mapped.
        is_mapped: bool,
        /// Whether it is locked in memory.
        is_locked: bool,
        /// Bytes of its map in memory.
        resident_bytes: u64,
        /// Bytes made present ahead of the append.
        populated_bytes: u64,
    }

    /// The store in numbers, at one moment. Positions are physical offsets (bytes of the log).
    Stats {
        /// First byte that is kept.
        log_start: u64,
        /// End of what was appended.
        appended: u64,
        /// End of what survives the process.
        committed: u64,
        /// End of what survives power loss.
        flushed: u64,
        /// End of what is readable through queues.
        dispatched: u64,
        /// Appended, not committed.
        commit_lag_bytes: u64,
        /// Committed, not flushed.
        flush_lag_bytes: u64,
        /// Appended, not dispatched.
        dispatch_lag_bytes: u64,
        /// The same per follower of the log: queues, index.
        follower_lag_bytes: BTreeMap<&'static str, u64>,
        /// Syncs of the log since the store was opened.
        syncs: u64,
        /// Records dispatched since then.
        records_dispatched: u64,
        /// Bytes of log files mapped.
        mapped_bytes: u64,
        /// Bytes of them locked in memory.
        locked_bytes: u64,
        /// Bytes of them in memory.
        resident_bytes: u64,
        /// Log files ready ahead of need.
        segments_ready: usize,
        /// Bytes that the warm-up has populated.
        warmed_bytes: u64,
        /// Free buffers of the transient pool.
        pool_buffers_free: usize,
        /// All of them, 0 without a pool.
        pool_buffers: usize,
        /// Parked acknowledgements.
        parked: usize,
        /// Queue units that are in memory only.
        queue_pending_bytes: u64,
        /// Queues known.
        queues: usize,
        /// Queues of which something was made again since the store was opened.
        queues_mended: u64,
        /// Their units that were made again from the log.
        units_mended: u64,
        /// Their queue offsets for which the log has no record.
        units_lost: u64,
        /// Damaged records found by the scrub or by reads.
        records_damaged: u64,
        /// Rounds of the scrub that were finished.
        scrub_rounds: u64,
        /// How long the append lock is held at this moment.
        lock_held_ms: u64,
        /// Why appends are refused; empty when they are not.
        refused: Vec<String>,
        /// Why nothing is acknowledged any more, or None.
        poisoned: Option<String>,
        /// Log files.
        segments: Vec<Py<Segment>>,
        /// Page faults of this process without a read.
        minor_faults: u64,
        /// Page faults of this process that read a disk.
        major_faults: u64,
    }

    /// What opening found and did. Positions are physical offsets (bytes of the log).
    OpenReport {
        /// Whether the last end was clean.
        was_clean: bool,
        /// Where the walk of the log began.
        scanned_from: u64,
        /// Bytes walked.
        scanned_bytes: u64,
        /// Records walked.
        records: u64,
        /// Where the log ends now.
        end: u64,
        /// Bytes behind the end that were not zero.
        kept_aside_bytes: u64,
        /// Files that hold them now.
        kept_in: Vec<String>,
        /// Log files behind the end that were removed.
        removed: Vec<String>,
        /// Whole records among the bytes that were cut off.
        whole_records: u64,
        /// Bytes that were durable once and that no file had any more.
        missing_bytes: u64,
        /// What was wrong where the log was cut, or None where nothing was taken out of it.
        cut_why: Option<String>,
        /// Files that record what was taken out of the log, until they are acknowledged.
        recorded_in: Vec<String>,
        /// Bad bytes of which others took the place, so that what follows them stays.
        replaced_bytes: u64,
        /// Where they stood.
        replaced_at: Vec<u64>,
        /// Whole records behind the first of them.
        whole_records_kept: u64,
        /// What was wrong at the end of the log, or None.
        end_why: Option<String>,
        /// Whether no queue had to be looked at.
        used_manifest: bool,
        /// Whether nothing can be missing at the end that was there once.
        is_tail_certain: bool,
        /// Where the queues are built on from.
        dispatched_from: u64,
        /// Where the index is built on from, or None.
        index_from: Option<u64>,
    }

    /// One queue.
    QueueBounds {
        /// Its topic.
        topic: String,
        /// Its number in the topic.
        queue_id: i32,
        /// First queue offset that is kept.
        min_offset: u64,
        /// Queue offset behind the last message.
        max_offset: u64,
    }

    /// A record of the log that is damaged.
    DamagedRecord {
        /// Where it begins, bytes of the log.
        physical_offset: u64,
        /// Its topic; empty where it cannot be read.
        topic: String,
        /// Its queue; -1 where it cannot be read.
        queue_id: i32,
        /// Its place there; -1 where it cannot be read.
        queue_offset: i64,
        /// What is wrong.
        why: String,
    }

    /// What was removed of the oldest part of a store.
    RemovedFiles {
        /// Log files.
        log_files: usize,
        /// Their bytes.
        log_bytes: u64,
        /// Bytes of the log that somebody still wanted to read.
        unread_bytes: u64,
    }

    /// Something that the store reports to its user.
    Notice {
        /// The level, as Python's `logging` numbers it.
        level: i32,
        /// What happened.
        text: String,
    }
}

impl Segment {
    fn of(stat: &SegmentStat) -> Self {
        Self {
            physical_offset: stat.base,
            len_bytes: stat.len_bytes,
            is_mapped: stat.is_mapped,
            is_locked: stat.is_locked,
            resident_bytes: stat.resident_bytes,
            populated_bytes: stat.populated_bytes,
        }
    }
}

impl Stats {
    pub(crate) fn of(
        py: Python<'_>,
        stats: EngineStats,
        minor_faults: u64,
        major_faults: u64,
    ) -> PyResult<Self> {
        let (pool_buffers_free, pool_buffers) = stats.pool_buffers.unwrap_or((0, 0));
        let segments = stats.segments.iter();
        let segments = segments.map(|stat| Py::new(py, Segment::of(stat)));
        let followers = stats.followers.iter();
        Ok(Self {
            log_start: stats.log_start,
            appended: stats.appended,
            committed: stats.committed,
            flushed: stats.flushed,
            dispatched: stats.dispatched,
            commit_lag_bytes: stats.appended.saturating_sub(stats.committed),
            flush_lag_bytes: stats.committed.saturating_sub(stats.flushed),
            dispatch_lag_bytes: stats.appended.saturating_sub(stats.dispatched),
            follower_lag_bytes: followers.map(|each| (each.name, each.lag_bytes)).collect(),
            syncs: stats.syncs,
            records_dispatched: stats.records_dispatched,
            mapped_bytes: stats.mapped_bytes,
            locked_bytes: stats.locked_bytes,
            resident_bytes: stats.resident_bytes,
            segments_ready: stats.segments_ready,
            warmed_bytes: stats.warmed_bytes,
            pool_buffers_free,
            pool_buffers,
            parked: stats.parked,
            queue_pending_bytes: stats.queue_pending_bytes,
            queues: stats.queues,
            queues_mended: stats.queues_mended,
            units_mended: stats.units_mended,
            units_lost: stats.units_lost,
            records_damaged: stats.records_damaged,
            scrub_rounds: stats.scrub_rounds,
            lock_held_ms: stats.lock_held_ms,
            refused: stats.refused,
            poisoned: stats.poisoned,
            segments: segments.collect::<PyResult<_>>()?,
            minor_faults,
            major_faults,
        })
    }
}

fn shown(paths: &[std::path::PathBuf]) -> Vec<String> {
    let paths = paths.iter();
    paths.map(|path| path.display().to_string()).collect()
}

impl OpenReport {
    pub(crate) fn of(report: &EngineReport) -> Self {
        Self {
            was_clean: report.was_clean,
            scanned_from: report.scanned_from,
            scanned_bytes: report.scanned_bytes,
            records: report.records,
            end: report.cut.end,
            kept_aside_bytes: report.cut.kept_aside_bytes,
            kept_in: shown(&report.kept_in()),
            removed: shown(&report.cut.removed),
            whole_records: report.cut.whole_records,
            missing_bytes: report.cut.missing_bytes,
            cut_why: report.cut.why.clone(),
            recorded_in: shown(&report.recorded_in()),
            replaced_bytes: report.replaced.bytes,
            replaced_at: report.replaced.at.clone(),
            whole_records_kept: report.replaced.whole_records,
            end_why: report.end_why.clone(),
            used_manifest: report.used_manifest,
            is_tail_certain: report.is_tail_certain,
            dispatched_from: report.dispatched_from,
            index_from: report.index_from,
        }
    }
}

impl From<QueueInfo> for QueueBounds {
    fn from(info: QueueInfo) -> Self {
        Self {
            topic: info.topic.to_string(),
            queue_id: info.queue_id,
            min_offset: info.bounds.min,
            max_offset: info.bounds.max,
        }
    }
}

impl From<EngineDamagedRecord> for DamagedRecord {
    fn from(found: EngineDamagedRecord) -> Self {
        Self {
            physical_offset: found.physical_offset,
            topic: found.topic,
            queue_id: found.queue_id,
            queue_offset: found.queue_offset,
            why: found.why,
        }
    }
}

impl From<Cleaned> for RemovedFiles {
    fn from(cleaned: Cleaned) -> Self {
        Self {
            log_files: cleaned.log_files,
            log_bytes: cleaned.log_bytes,
            unread_bytes: cleaned.unread_bytes,
        }
    }
}

impl From<EngineNotice> for Notice {
    fn from(notice: EngineNotice) -> Self {
        let level = match notice.level {
            Level::Info => 20,
            Level::Warning => 30,
            Level::Error => 40,
        };
        Self {
            level,
            text: notice.text,
        }
    }
}
