//! What a bad end of the log means: nothing, a torn end that is cut, or damage that only the owner may
//! go on from. Reads the log, changes nothing.
//!
//! | known of the last session | damage | cut and reported |
//! |---|---|---|
//! | same start of the machine: no page was lost | whole records behind the bad one, wherever; an end below what was durable | the last record, which a kill broke off |
//! | the machine started anew | an end below what was durable | everything above |
//! | nothing, after a clean stop | an end below what the queues name | what another broker left when it cut its log ([`super::cut_rests`]) |
//! | nothing, after an unclean stop | whole records older than the checkpoint behind | everything else |

use super::look::Looked;
use super::report::OpenHow;
use super::session::Mark;
use crate::checkpoint::Field;
use crate::commit_log::{Behind, CutFacts, LogEnd, Stop, records_behind, whole_record_after};
use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::units::{offset_file_name, round_down};

/// What opening does about the end of the log.
#[derive(Debug, Clone)]
pub(super) enum Plan {
    /// The log ends where the walk ended; what is behind is taken out of it.
    Cut(CutFacts),
    /// Whole records stay; others of the same length take the place of the bad bytes before them.
    Keep(Behind, CutFacts),
}

/// What is known of the end of the log beside the log itself.
pub(super) struct Known {
    /// The mark of the last session, where it counts.
    pub(super) mark: Option<Mark>,
    /// Where the farthest record ends that a queue names, where that counts; else 0.
    pub(super) queues_end: u64,
    /// The log was walked to its end by the manifest of the queues.
    pub(super) used_manifest: bool,
    /// Another broker has cut the log there.
    pub(super) was_cut: bool,
    /// Unix milliseconds.
    pub(super) now_ms: i64,
}

impl Known {
    /// Below this nothing can be missing or torn without damage.
    fn durable(&self, was_clean: bool) -> u64 {
        match self.mark {
            Some(mark) if mark.is_same_boot => mark.durable.max(self.queues_end),
            Some(mark) => mark.durable,
            // Queues name nothing behind the end when a broker has stopped; after a power loss they may.
            None if was_clean => self.queues_end,
            None => 0,
        }
    }
}

/// Decides about `end`.
///
/// # Errors
/// [`Error::Damaged`] where `how` refuses damage.
///
/// # Blocking
/// Reads what is behind the end.
pub(super) fn plan_for<D: Disk>(
    found: &Looked<D>,
    known: &Known,
    end: &LogEnd,
    config: &StoreConfig,
    how: OpenHow,
) -> Result<Plan> {
    let durable = known.durable(found.was_clean);
    let missing_bytes = match durable.checked_sub(end.end) {
        Some(missing_bytes) => missing_bytes,
        None if is_gone(found, end, durable) => {
            // Of the file with the last of them nothing is left; how many were before it nobody knows.
            let len = found.chain.segment_len_bytes();
            durable - round_down(durable - 1, len)
        }
        None => 0,
    };
    let is_bad = !matches!(end.stop, Stop::End | Stop::Visitor);
    // A clean end of ours was whole: there is nothing to look for behind it.
    let behind = if is_bad && (!known.used_manifest || missing_bytes > 0) {
        let not_before_ms = match known.mark {
            Some(_) => i64::MIN,
            // Another broker may have cut the log: what it left behind the cut is older.
            None => end.last_store_ms.unwrap_or(1),
        };
        let has_crc = config.verify_property_crc;
        records_behind(&found.chain, end.end, not_before_ms, has_crc)?
    } else {
        Behind {
            end: end.end,
            ..Behind::default()
        }
    };
    let is_damage = missing_bytes > 0
        || match known.mark {
            Some(mark) => mark.is_same_boot && behind.whole_records > 0,
            None => behind.whole_records > 0 && is_older_than_checkpoint(found, end)?,
        };
    let facts = CutFacts {
        why: why(end, (is_bad, known.was_cut), durable, missing_bytes),
        whole_records: behind.whole_records,
        durable_end: end.end + missing_bytes,
        at_ms: known.now_ms,
    };
    match how {
        OpenHow::RefuseDamage | OpenHow::CutAt(_) if is_damage => {
            Err(damaged(found, config, end, facts)?)
        }
        OpenHow::KeepBehind if is_damage && behind.whole_records > 0 => {
            Ok(Plan::Keep(behind, facts))
        }
        OpenHow::RefuseDamage | OpenHow::CutDamage | OpenHow::KeepBehind | OpenHow::CutAt(_) => {
            Ok(Plan::Cut(facts))
        }
    }
}

/// Whether all files are gone that held what was durable: nothing is in those that are there.
/// Retention keeps the newest file, and what it removes has something behind it.
fn is_gone<D: Disk>(found: &Looked<D>, end: &LogEnd, durable: u64) -> bool {
    let start = found.chain.start();
    durable > 0 && durable < start && end.records == 0 && end.end == start
}

/// What does not hold at the end, in words.
fn why(end: &LogEnd, (is_bad, was_cut): (bool, bool), durable: u64, missing_bytes: u64) -> String {
    let bad = match end.stop.why() {
        Some(why) => why,
        None if is_bad => "zeros".to_owned(),
        None => "the log ends".to_owned(),
    };
    if was_cut {
        return format!("another broker had cut it there and left what was behind: {bad}");
    }
    if missing_bytes == 0 {
        return bad;
    }
    format!("{bad}; the log was durable up to {durable}, {missing_bytes} bytes more")
}

fn damaged<D: Disk>(
    found: &Looked<D>,
    config: &StoreConfig,
    end: &LogEnd,
    facts: CutFacts,
) -> Result<Error> {
    let len = found.chain.segment_len_bytes();
    let base = round_down(end.end, len);
    Ok(Error::Damaged {
        store: config.root()?,
        path: config.commit_log_path()?.join(offset_file_name(base)),
        position: end.end - base,
        physical_offset: end.end,
        why: facts.why,
        whole_records: facts.whole_records,
    })
}

/// Warns of a log that begins later than when it was marked last: retention removes its oldest files and
/// marks that, so somebody else has removed them.
pub(super) fn warn_of_start(mark: Option<Mark>, start: u64, notices: &Notices) {
    let Some(before) = mark.map(|mark| mark.log_start).filter(|&at| at < start) else {
        return;
    };
    notices.warn(format!(
        "the log began at {before} and begins at {start} now: {} bytes of its oldest files were removed \
         while no broker ran",
        start - before
    ));
}

/// Whether a whole record behind the end is older than the checkpoint, which covers it.
fn is_older_than_checkpoint<D: Disk>(found: &Looked<D>, end: &LogEnd) -> Result<bool> {
    // Strictly older: a record of the very millisecond may have come after the sync.
    let not_after = found.checkpoint.value(Field::PhysicTimestamp) - 1;
    let not_before = end.last_store_ms.unwrap_or(1);
    if not_after < not_before {
        return Ok(false);
    }
    let physical_offset = whole_record_after(&found.chain, end.end, not_before, not_after)?;
    Ok(physical_offset.is_some())
}
