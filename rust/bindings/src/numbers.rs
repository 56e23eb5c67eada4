//! Reports of the engine as dictionaries: names and units are those of the engine's fields.

use mqcore_engine::clock::SystemClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::consume_queue::QueueInfo;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Result;
use mqcore_engine::notice::{Level, Notice};
use mqcore_engine::store::{OpenHow, OpenReport, Rotten, SegmentStat, Stats, Store};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Every key that a store knows, with its default.
#[pyfunction]
pub(crate) fn settings() -> Vec<(&'static str, String)> {
    StoreConfig::default().pairs()
}

/// Place, topic, queue id, queue offset and fault of a damaged record.
pub(crate) type DamagedRow = (u64, String, i32, i64, String);

/// One row for each damaged record.
pub(crate) fn damaged_rows(engine: &Store<RealDisk, SystemClock>) -> Result<Vec<DamagedRow>> {
    let (found, _count) = engine.damaged().rotten();
    let row = |it: Rotten| {
        let Rotten {
            physical_offset,
            topic,
            queue_id,
            queue_offset,
            why,
        } = it;
        (physical_offset, topic, queue_id, queue_offset, why)
    };
    Ok(found.into_iter().map(row).collect())
}

/// Topic, queue id, first and next queue offset of each queue.
pub(crate) fn queue_rows(infos: Vec<QueueInfo>) -> Vec<(String, i32, u64, u64)> {
    infos
        .into_iter()
        .map(|info| {
            (
                info.topic.to_string(),
                info.queue_id,
                info.bounds.min,
                info.bounds.max,
            )
        })
        .collect()
}

fn segment<'py>(py: Python<'py>, stat: &SegmentStat) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("physical_offset", stat.base)?;
    out.set_item("len_bytes", stat.len_bytes)?;
    out.set_item("is_mapped", stat.is_mapped)?;
    out.set_item("is_locked", stat.is_locked)?;
    out.set_item("resident_bytes", stat.resident_bytes)?;
    out.set_item("populated_bytes", stat.populated_bytes)?;
    Ok(out)
}

/// The store in numbers.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    for (name, value) in [
        ("log_start", stats.log_start),
        ("appended", stats.appended),
        ("committed", stats.committed),
        ("flushed", stats.flushed),
        ("dispatched", stats.dispatched),
        ("syncs", stats.syncs),
        ("records_dispatched", stats.records_dispatched),
        ("mapped_bytes", stats.mapped_bytes),
        ("locked_bytes", stats.locked_bytes),
        ("resident_bytes", stats.resident_bytes),
        ("segments_ready", stats.segments_ready as u64),
        ("warmed_bytes", stats.warmed_bytes),
        ("parked", stats.parked as u64),
        ("queue_pending_bytes", stats.queue_pending_bytes),
        ("queues", stats.queues as u64),
        ("queues_mended", stats.queues_mended),
        ("units_mended", stats.units_mended),
        ("units_lost", stats.units_lost),
        ("records_damaged", stats.records_damaged),
        ("scrub_rounds", stats.scrub_rounds),
        ("lock_held_ms", stats.lock_held_ms),
        (
            "flush_lag_bytes",
            stats.committed.saturating_sub(stats.flushed),
        ),
        (
            "commit_lag_bytes",
            stats.appended.saturating_sub(stats.committed),
        ),
        (
            "dispatch_lag_bytes",
            stats.appended.saturating_sub(stats.dispatched),
        ),
    ] {
        out.set_item(name, value)?;
    }
    let (free, all) = stats.pool_buffers.unwrap_or((0, 0));
    out.set_item("pool_buffers_free", free)?;
    out.set_item("pool_buffers", all)?;
    out.set_item("refused", &stats.refused)?;
    out.set_item("poisoned", stats.poisoned.as_deref())?;
    let lags = PyDict::new(py);
    for follower in &stats.followers {
        lags.set_item(follower.name, follower.lag_bytes)?;
    }
    out.set_item("follower_lag_bytes", lags)?;
    let segments = PyList::empty(py);
    for stat in &stats.segments {
        segments.append(segment(py, stat)?)?;
    }
    out.set_item("segments", segments)?;
    Ok(out)
}

/// What to do about damage, by its name in Python.
pub(crate) fn open_how(on_damage: &str) -> PyResult<OpenHow> {
    match on_damage {
        "refuse" => Ok(OpenHow::RefuseDamage),
        "cut" => Ok(OpenHow::CutDamage),
        "keep" => Ok(OpenHow::KeepBehind),
        other => Err(PyValueError::new_err(format!(
            "on_damage is {other:?}: it is \"refuse\", \"cut\" or \"keep\""
        ))),
    }
}

/// What opening found and did.
pub(crate) fn open_report<'py>(
    py: Python<'py>,
    report: &OpenReport,
) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("was_clean", report.was_clean)?;
    out.set_item("scanned_from", report.scanned_from)?;
    out.set_item("scanned_bytes", report.scanned_bytes)?;
    out.set_item("records", report.records)?;
    out.set_item("end", report.cut.end)?;
    out.set_item("kept_aside_bytes", report.cut.kept_aside_bytes)?;
    let paths = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths
            .iter()
            .map(|path| path.display().to_string())
            .collect()
    };
    out.set_item("kept_in", paths(&report.kept_in()))?;
    out.set_item("removed", paths(&report.cut.removed))?;
    out.set_item("whole_records", report.cut.whole_records)?;
    out.set_item("missing_bytes", report.cut.missing_bytes)?;
    out.set_item("cut_why", report.cut.why.as_deref())?;
    out.set_item("recorded_in", paths(&report.recorded_in()))?;
    out.set_item("replaced_bytes", report.replaced.bytes)?;
    out.set_item("replaced_at", report.replaced.at.clone())?;
    out.set_item("whole_records_kept", report.replaced.whole_records)?;
    out.set_item("end_why", report.end_why.as_deref())?;
    out.set_item("used_manifest", report.used_manifest)?;
    out.set_item("dispatched_from", report.dispatched_from)?;
    out.set_item("index_from", report.index_from)?;
    Ok(out)
}

/// Notices as pairs of level (of Python's logging) and text.
pub(crate) fn notices(notices: Vec<Notice>) -> Vec<(i32, String)> {
    let level = |level: Level| match level {
        Level::Info => 20,
        Level::Warning => 30,
        Level::Error => 40,
    };
    notices
        .into_iter()
        .map(|notice| (level(notice.level), notice.text))
        .collect()
}
