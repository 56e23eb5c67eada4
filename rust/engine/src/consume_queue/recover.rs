//! What the queues hold after the last end of the store: a function of their files. Called by the
//! engine while it opens, before anyone appends.

use std::sync::Arc;

use super::queue::{Known, NO_RECORD, Queue, State};
use super::shared::Shared;
use super::truncate::UnitCutter;
use super::unit::{UNIT_LEN, Unit};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::{Disk, DiskFile};
use crate::error::Result;
use crate::units::parse_offset_file_name;

/// Bytes read first while units are walked; then four times more, up to the most.
const WALK_FIRST_BYTES: usize = 204 * UNIT_LEN;
/// Bytes read at once at the most.
const WALK_BYTES: usize = 3_276 * UNIT_LEN;

/// How far the files are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The store was stopped cleanly: the units of a file are a prefix of it.
    All,
    /// Only units of records below this physical offset were surely synced; behind them there may
    /// be holes, and units that a hole separates from the rest. 0 trusts nothing.
    Below(i64),
}

/// What recovery found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// The largest end of a record in any queue; -1 when there is none.
    pub max_physical_end: i64,
    /// Queues.
    pub queues: usize,
    /// Queues of which something behind the last good unit was taken away.
    pub cut: usize,
}

/// Looks at all queues after the end of a store.
pub struct QueueRecovery<D: Disk> {
    pub(super) shared: Shared<D>,
    pub(super) cutter: Arc<UnitCutter<D>>,
}

impl<D: Disk> QueueRecovery<D> {
    /// Looks at every queue and, unless all is trusted, takes away what follows its first absent
    /// unit, so that no stale unit can come back.
    ///
    /// # Durability
    /// What was taken away is gone for good after the next [`QueueTable::sync`](super::QueueTable::sync) of 0
    /// pages.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads and cuts files.
    pub fn recover(&self, trust: Trust) -> Result<Recovered> {
        let mut found = Recovered {
            max_physical_end: NO_RECORD,
            queues: 0,
            cut: 0,
        };
        for queue in self.shared.map.all() {
            if let Trust::Below(safe) = trust {
                found.cut += usize::from(self.scan(&queue, safe)?);
            }
            let end = self.shared.loader.lock_bounds(&queue)?.last_physical_end;
            found.max_physical_end = found.max_physical_end.max(end);
            found.queues += 1;
        }
        Ok(found)
    }

    /// Walks the units behind the safe ones of one queue and cuts behind the last good one; true
    /// when something was cut.
    fn scan(&self, queue: &Arc<Queue>, safe: i64) -> Result<bool> {
        let _gate = self.shared.pending.hold_writes();
        let mut state = queue.lock();
        let is_cleared = self.remove_strays(queue, &state)?;
        if state.is_gone || !state.has_files() {
            state.known = Known::All;
            return Ok(is_cleared);
        }
        let mut end = self.scan_end(queue, &state, safe)?;
        // A unit of an earlier record is no sign of a hole: it is out of the order of the log. Nor is
        // one that names the first byte, where a cut of the queue was broken off.
        let first = state.first_base / QUEUE_UNIT_BYTES;
        let mut from = self.shared.loader.log_min().max(1);
        if let Some(last) = end.checked_sub(1).filter(|&last| last >= first) {
            let unit = self.shared.segments.unit_of(queue, &state, last)?;
            if !unit.is_blank() {
                from = from.max(unit.physical_end());
            }
        }
        let is_safe = |unit: &Unit| {
            unit.is_present() && !unit.is_blank() && (from..safe).contains(&unit.physical_offset)
        };
        let behind = self
            .shared
            .segments
            .end_behind(queue, &state, end, is_safe)?;
        if behind > end {
            // Units that were surely synced stand behind a hole: it is damage and not the end.
            end = self.walk_end(queue, &state, behind)?;
        }
        let (first_base, files_end) = (state.first_base, state.files_end);
        *state = State::of_files(first_base, files_end);
        state.set_end(end);
        let is_cut = self.cutter.cut_behind(queue, &mut state)? | is_cleared;
        self.shared.loader.find_last_record(queue, &mut state)?;
        state.min = state.first_base / QUEUE_UNIT_BYTES;
        self.shared.loader.find_min(queue, &mut state)?;
        state.known = Known::All;
        Ok(is_cut)
    }

    /// Removes queue files behind the end of the queue: a crash took the length of the one before
    /// them. Newest first, each for good, as the cutting of a queue does it.
    fn remove_strays(&self, queue: &Queue, state: &State) -> Result<bool> {
        let dir = self.shared.segments.queue_dir(queue);
        let entries = self.shared.segments.disk().list(&dir)?;
        let bases = entries.iter().rev().filter(|entry| !entry.is_dir);
        let mut is_cleared = false;
        for base in bases.filter_map(|entry| parse_offset_file_name(&entry.name)) {
            if base >= state.files_end && base.is_multiple_of(self.shared.segments.file_len_bytes())
            {
                self.shared.witness.retire()?;
                self.shared.segments.remove_file_for_good(queue, base)?;
                is_cleared = true;
            }
        }
        Ok(is_cleared)
    }

    /// One after the last unit that is present and whose record follows that of the one before it.
    fn scan_end(&self, queue: &Queue, state: &State, safe: i64) -> Result<u64> {
        // A blank proves nothing, so it counts as not safe: the walk then starts earlier.
        let is_safe =
            |unit: &Unit| unit.is_present() && !unit.is_blank() && unit.physical_offset < safe;
        let files = (state.first_base, state.files_end);
        let base = self.shared.segments.last_safe_file(queue, files, is_safe)?;
        let start = self
            .shared
            .segments
            .first_not_in_file(queue, base, is_safe)?;
        self.walk_end(queue, state, start)
    }

    /// As [`QueueRecovery::scan_end`], when all below `start` is known to be good.
    fn walk_end(&self, queue: &Queue, state: &State, start: u64) -> Result<u64> {
        let first = state.first_base / QUEUE_UNIT_BYTES;
        let mut walk = Walk {
            index: start,
            record_end: 0,
        };
        if start > first {
            let before = self.shared.segments.file_unit(queue, start - 1)?;
            if before.is_present() && !before.is_blank() {
                walk.record_end = before.physical_end();
            }
        }
        let to = state.files_end / QUEUE_UNIT_BYTES;
        let mut buffer = Vec::new();
        while walk.index < to {
            let position = walk.index * QUEUE_UNIT_BYTES;
            let in_file = position % self.shared.segments.file_len_bytes();
            let base = position - in_file;
            // Most queues end within a page: far reads would fill the page cache with holes.
            let most = (buffer.len() * 4).clamp(WALK_FIRST_BYTES, WALK_BYTES);
            buffer.resize(most, 0);
            let len = (self.shared.segments.file_len_bytes() - in_file).min(most as u64) as usize;
            let file = self.shared.segments.file(queue, base)?;
            let got = file.read_at(&mut buffer[..len], in_file)?;
            if !walk.over(&buffer[..got]) || got < len {
                break;
            }
        }
        Ok(walk.index)
    }

    /// After an unclean end: looks at every extension that there is, so that nothing follows what
    /// the queues name, whoever opens the store next. To be called after the queues were cut.
    ///
    /// # Durability
    /// Good after the next [`QueueTable::sync`](super::QueueTable::sync) of 0 pages.
    ///
    /// # Errors
    /// Those of the first look at a queue.
    ///
    /// # Blocking
    /// Reads and cuts files.
    pub fn settle_extensions(&self) -> Result<()> {
        let disk = self.shared.segments.disk();
        for topic in disk.list(self.shared.extensions.dir())? {
            let dir = self.shared.extensions.dir().join(&topic.name);
            for entry in disk.list(&dir)?.iter().filter(|entry| entry.is_dir) {
                let Ok(queue_id) = entry.name.parse() else {
                    continue;
                };
                let Some(queue) = self.shared.map.find(topic.name.as_bytes(), queue_id) else {
                    continue;
                };
                let _gate = self.shared.pending.hold_writes();
                let state = self.shared.loader.lock_known(&queue)?;
                if !state.is_gone {
                    self.shared.extensions.look(&queue, &state);
                }
            }
        }
        Ok(())
    }
}

/// The walk over units: they go on while present and in log order.
struct Walk {
    index: u64,
    record_end: i64,
}

impl Walk {
    /// False when the walk is at its end.
    fn over(&mut self, bytes: &[u8]) -> bool {
        for unit in Unit::decode_all(bytes) {
            if !unit.is_present() {
                return false;
            }
            if !unit.is_blank() {
                if unit.physical_offset < self.record_end {
                    return false;
                }
                self.record_end = unit.physical_end();
            }
            self.index += 1;
        }
        true
    }
}
