//! Where the log ends: walked from where the last stop, or the checkpoint, shows that all was well
//! (`CommitLog.recoverNormally`, `recoverAbnormally`). Changes nothing.

use mqcore_record::layout::HEAD_LEN_MAX;
use mqcore_record::{CrcCheck, peek_store_timestamp_ms};

use super::cut_rests::{CutRests, find_rests};
use super::damage::{Known, Plan, plan_for};
use super::look::Looked;
use super::report::{OpenHow, OpenReport};
use super::session::Mark;
use crate::checkpoint::Field;
use crate::commit_log::{CutFacts, DoubtfulRecords, LogEnd, Scan, Stop, scan};
use crate::config::StoreConfig;
use crate::consume_queue::{QueueTable, ReadBy, Trust};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::segment::{Chain, Segment};
use crate::units::round_down;

/// Log files that the official broker looks at after a clean end.
const CLEAN_FILES_SCANNED: usize = 3;

/// What was found of the end of the log.
pub(super) struct Ending {
    /// Where it ends.
    pub(super) end: LogEnd,
    /// What is to be done there.
    pub(super) plan: Plan,
    /// What another broker left in queues when it cut the log.
    pub(super) rests: Option<CutRests>,
}

/// Where the log ends, what is to be done there, and since where queues must be fed again. Changes
/// nothing.
pub(super) fn find_end<D: Disk>(
    found: &Looked<D>,
    queues: &QueueTable<D>,
    config: &StoreConfig,
    (mark, now_ms): (Option<Mark>, i64),
    how: OpenHow,
    report: &mut OpenReport,
) -> Result<Ending> {
    let crc = crc_of(config);
    let mut queues_end = 0;
    let from = if found.was_clean {
        // Nothing is behind after a clean end: queues go on where the farthest of them ends.
        let farthest = queues.recovery().recover(Trust::All)?.max_physical_end;
        queues_end = u64::try_from(farthest).unwrap_or(0);
        report.dispatched_from = queues_end;
        clean_start(&found.chain, report)
    } else {
        let from = unclean_start(found, config)?.min(unmarked_start(&found.chain, mark));
        if mark.is_some_and(|mark| mark.is_same_boot) {
            // Units were written behind their records, and no page was lost since.
            let farthest = queues.recovery().recover(Trust::All)?.max_physical_end;
            queues_end = u64::try_from(farthest).unwrap_or(0);
        }
        report.dispatched_from = from;
        from
    };
    if let OpenHow::CutAt(at) = how
        && at < found.chain.start()
    {
        return Err(behind_start(at, found.chain.start()));
    }
    let from = match how {
        // Each file begins with a record; the last one that stays shows until when all is older.
        OpenHow::CutAt(at) => {
            let last = at.saturating_sub(1).max(found.chain.start());
            from.min(round_down(last, found.chain.segment_len_bytes()))
        }
        OpenHow::RefuseDamage | OpenHow::CutDamage | OpenHow::KeepBehind => from,
    };
    report.scanned_from = from;
    report.fed_from = from;
    report.queues_end = queues_end;
    let walk = Scan {
        from,
        limit: found.chain.end(),
        crc,
        is_recovery: true,
        torn_from: torn_from(mark),
        has_property_crc: config.verify_property_crc,
        forgets: true,
    };
    let end = end_of(found, walk, mark)?;
    report.scanned_bytes = end.end - from;
    report.records = end.records;
    if report.used_manifest {
        // Our own clean end implies that queues had everything, those deleted since among it.
        report.dispatched_from = end.end;
    }
    report.end_why = end.stop.why();
    let rests = left_of_others(found, queues, config, mark, (&end, &*report))?;
    let is_lost_behind = queues_end > end.end && !report.used_manifest;
    if rests.is_some() || (is_lost_behind && !are_named_behind(queues, end.end)?) {
        queues_end = 0;
    }
    let known = Known {
        mark,
        queues_end,
        used_manifest: report.used_manifest,
        was_cut: rests.is_some(),
        now_ms,
    };
    if let OpenHow::CutAt(at) = how
        && at <= end.end
    {
        // Whatever is wrong behind it goes with it: an earlier cut may have got half way.
        let (end, plan) = cut_before(found, walk, (&end, at), now_ms)?;
        return Ok(Ending { end, plan, rests });
    }
    let plan = plan_for(found, &known, &end, config, how)?;
    Ok(Ending { end, plan, rests })
}

/// How bodies are checked. With the CRC of the whole record the one of the body need not be looked at (5.3's
/// rule).
fn crc_of(config: &StoreConfig) -> CrcCheck {
    if config.check_crc_on_recover && !config.verify_property_crc {
        CrcCheck::Verify
    } else {
        CrcCheck::Skip
    }
}

/// What another broker left in queues when it cut the log; looked for where it was here last.
fn left_of_others<D: Disk>(
    found: &Looked<D>,
    queues: &QueueTable<D>,
    config: &StoreConfig,
    mark: Option<Mark>,
    (end, report): (&LogEnd, &OpenReport),
) -> Result<Option<CutRests>> {
    let is_of_others = found.was_clean && mark.is_none() && !report.used_manifest;
    if !is_of_others || config.is_read_only {
        return Ok(None);
    }
    find_rests(found, queues, end, report.scanned_from)
}

/// Why a log that begins at `start` cannot be cut at a place before it.
fn behind_start(at: u64, start: u64) -> Error {
    Error::NoRecord {
        physical_offset: at,
        why: format!("the log begins at {start}, so that it cannot be cut there"),
    }
}

/// The end of a log that is to be cut where a record begins, of one that ends at `end`.
///
/// # Errors
/// [`Error::NoRecord`] where none begins there.
fn cut_before<D: Disk>(
    found: &Looked<D>,
    walk: Scan,
    (end, at): (&LogEnd, u64),
    now_ms: i64,
) -> Result<(LogEnd, Plan)> {
    let refused = |why: String| Error::NoRecord {
        physical_offset: at,
        why,
    };
    let before = scan(&found.chain, Scan { limit: at, ..walk }, |_, _| Ok(true))?;
    if before.end != at {
        let why = format!("the one before it begins at {}", before.end);
        return Err(refused(why));
    }
    let facts = CutFacts {
        why: "it was no copy of the master's log behind that".to_owned(),
        whole_records: end.records - before.records,
        durable_end: 0,
        at_ms: now_ms,
    };
    let before = LogEnd {
        stop: Stop::End,
        ..before
    };
    Ok((before, Plan::Cut(facts)))
}

/// Whether units of queues name records behind the end of the log: two at the least, because one alone
/// may be what is bad.
fn are_named_behind<D: Disk>(queues: &QueueTable<D>, end: u64) -> Result<bool> {
    let mut named = 0;
    for info in queues.queues()? {
        let from = info.bounds.max.saturating_sub(2).max(info.bounds.min);
        let mut units = Vec::new();
        let topic = info.topic.as_bytes();
        queues.read_by(topic, info.queue_id, from, (2, &mut units), ReadBy::AsItIs)?;
        let behind = units.iter().filter(|unit| {
            !unit.is_blank()
                && u64::try_from(unit.physical_offset)
                    .is_ok_and(|physical_offset| physical_offset >= end)
        });
        named += behind.count();
        if named >= 2 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// From where on a power loss may have torn records: none where the machine has not started anew.
fn torn_from(mark: Option<Mark>) -> u64 {
    match mark {
        Some(mark) if mark.is_same_boot => u64::MAX,
        Some(mark) => mark.durable,
        None => 0,
    }
}

/// Walks to the end of the log; after an unclean end also to before a record whose queue offset
/// is torn.
fn end_of<D: Disk>(found: &Looked<D>, walk: Scan, mark: Option<Mark>) -> Result<LogEnd> {
    if found.was_clean {
        return scan(&found.chain, walk, |_, _| Ok(true));
    }
    if mark.is_some_and(|mark| mark.is_same_boot) {
        let end = scan(&found.chain, walk, |_, _| Ok(true))?;
        return without_broken_off(found, walk, end);
    }
    // A record of the very millisecond of the checkpoint may have come after the sync.
    let mut doubtful_records =
        DoubtfulRecords::since(found.checkpoint.value(Field::PhysicTimestamp));
    let end = scan(&found.chain, walk, |record, physical_offset| {
        if physical_offset >= walk.torn_from {
            doubtful_records.look_at(record, physical_offset);
        }
        Ok(true)
    })?;
    let walked = Scan {
        limit: end.end,
        ..walk
    };
    let Some(torn) = doubtful_records.first_torn(&found.chain, walked)? else {
        return Ok(end);
    };
    let before = Scan {
        limit: torn,
        ..walk
    };
    let end = scan(&found.chain, before, |_, _| Ok(true))?;
    Ok(LogEnd {
        stop: Stop::TornHead,
        ..end
    })
}

/// A kill may break off the last record while it is copied, and that one alone: the next is copied
/// only when it is whole.
fn without_broken_off<D: Disk>(found: &Looked<D>, walk: Scan, end: LogEnd) -> Result<LogEnd> {
    let Some(from) = end.last_record else {
        return Ok(end);
    };
    let last = Scan {
        from,
        limit: end.end,
        torn_from: from,
        ..walk
    };
    let alone = scan(&found.chain, last, |_, _| Ok(true))?;
    Ok(match alone.stop {
        Stop::TornText | Stop::TornHead => LogEnd {
            end: from,
            records: end.records - 1,
            stop: alone.stop,
            ..end
        },
        _ => end,
    })
}

/// After a clean end: where the farthest queue ends, by our own manifest; else at the
/// start of the third-last file, as the official broker does.
fn clean_start<D: Disk>(chain: &Chain<D>, report: &OpenReport) -> u64 {
    if report.used_manifest && (chain.start()..=chain.end()).contains(&report.dispatched_from) {
        return report.dispatched_from;
    }
    let segments = chain.segments();
    let first = segments.len().saturating_sub(CLEAN_FILES_SCANNED);
    segments.get(first).map_or(0, |segment| segment.base())
}

/// Where the file begins with the first byte that no sync has made durable, as the mark shows. Times do not: those of
/// a slave's records are its master's, whose clock may have gone back behind what a checkpoint covers.
fn unmarked_start<D: Disk>(chain: &Chain<D>, mark: Option<Mark>) -> u64 {
    let durable = mark.map_or(u64::MAX, |mark| mark.durable);
    round_down(durable, chain.segment_len_bytes()).max(chain.start())
}

/// When the first record of a file was stored, ms; `None` where it has none.
pub(super) fn first_store_ms<D: Disk>(segment: &Segment<D>) -> Result<Option<i64>> {
    let head = segment.read(0, HEAD_LEN_MAX)?;
    Ok(peek_store_timestamp_ms(head.as_bytes()).filter(|store_ms| *store_ms != 0))
}

/// After an unclean end: the newest file whose first record is older than the checkpoint, else the
/// oldest file.
fn unclean_start<D: Disk>(found: &Looked<D>, config: &StoreConfig) -> Result<u64> {
    let not_after = if config.index_enabled && config.index_safe {
        found.checkpoint.min_timestamp_index_ms()
    } else {
        found.checkpoint.min_timestamp_ms()
    };
    for segment in found.chain.segments().iter().rev() {
        if first_store_ms(segment)?.is_some_and(|store_ms| store_ms <= not_after) {
            return Ok(segment.base());
        }
    }
    Ok(found.chain.start())
}
