//! Queues of which the dispatch of the log's end shows that something before it is missing: one that
//! begins behind 0 though it had no files, one with units between its end and the next record. Which
//! of them really miss something, the older part of the log decides.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::holes::Hole;
use super::queue::Queue;
use super::table::QueueTable;
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;

/// A part of a queue that dispatch has passed over.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The queue.
    pub queue: Arc<Queue>,
    /// First queue offset.
    pub from: u64,
    /// One after the last.
    pub to: u64,
    /// The queue had no files: where it begins is not known.
    pub begins: bool,
    /// The queue surely had these units, and its files have not.
    pub is_lost: bool,
}

impl<D: Disk> QueueTable<D> {
    /// From now on what dispatch passes over is noted, until [`QueueTable::take_suspects`].
    pub fn watch_suspects(&self) {
        *self.suspects.lock() = Some(Vec::new());
    }

    /// What dispatch has passed over since it was watched.
    #[must_use]
    pub fn take_suspects(&self) -> Vec<Suspect> {
        self.suspects.lock().take().unwrap_or_default()
    }

    pub(super) fn suspect(&self, queue: &Arc<Queue>, part: (u64, u64), begins: bool) {
        self.note_suspect(queue, part, (begins, false));
    }

    /// As [`QueueTable::suspect`], of units that the queue surely had; false when nobody watches.
    pub(super) fn suspect_lost(&self, queue: &Arc<Queue>, part: (u64, u64), begins: bool) -> bool {
        self.note_suspect(queue, part, (begins, true))
    }

    fn note_suspect(
        &self,
        queue: &Arc<Queue>,
        (from, to): (u64, u64),
        (begins, is_lost): (bool, bool),
    ) -> bool {
        let mut suspects = self.suspects.lock();
        let Some(suspects) = suspects.as_mut().filter(|_| from < to) else {
            return false;
        };
        suspects.push(Suspect {
            queue: Arc::clone(queue),
            from,
            to,
            begins,
            is_lost,
        });
        true
    }

    /// Notes the queues that seem to have lost their first files. Retention keeps the file that holds
    /// the first record of the log, and with it nearly always a unit of a record before that; a queue
    /// whose oldest unit names a record that is there has lost a file, or is an exact fit.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn suspect_beginnings(&self, log_start: u64) -> Result<()> {
        for queue in self.all() {
            let first = {
                let state = queue.lock();
                if state.first_base == 0 || !state.has_files() || state.is_gone {
                    continue;
                }
                state.first_base / QUEUE_UNIT_BYTES
            };
            let unit = self.file_unit(&queue, first)?;
            let place = unit.physical_offset.cast_unsigned();
            if unit.is_present() && !unit.is_blank() && place >= log_start {
                self.suspect(&queue, (0, first), true);
            }
        }
        Ok(())
    }

    /// The holes that suspects are. A queue that began without files gets files from its first
    /// message in the log on, as `starts` says it; one that is not named there misses nothing.
    /// Tails were written before.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn holes_of_suspects(
        &self,
        suspects: Vec<Suspect>,
        starts: &HashMap<(Vec<u8>, i32), u64>,
    ) -> Result<Vec<Hole>> {
        let per_file = self.file_len_bytes / QUEUE_UNIT_BYTES;
        let mut holes = Vec::new();
        let mut seen = HashSet::new();
        for suspect in suspects {
            let queue = &suspect.queue;
            if suspect.begins && !seen.insert((queue.uid(), suspect.to)) {
                continue;
            }
            let key = (queue.topic().as_bytes().to_vec(), queue.queue_id());
            let start = starts.get(&key).copied();
            let start = start.filter(|start| *start < suspect.to);
            let mut from = suspect.from;
            if suspect.begins {
                from = match start {
                    Some(start) => {
                        self.begin_earlier(queue, start)?;
                        start
                    }
                    None if suspect.is_lost => suspect.to,
                    None => continue,
                };
                // Blanks up to it, from the start of its file on.
                from -= from % per_file;
            }
            let state = queue.lock();
            let to = suspect.to.min(state.written).min(state.end);
            if from < to && !state.is_gone {
                let mut hole = self.hole_of(queue, &state, from, to)?;
                if suspect.is_lost {
                    // Retention has removed the records before the first one in the log.
                    hole.min = hole.min.max(start.unwrap_or(to));
                }
                holes.push(hole);
            }
        }
        Ok(holes)
    }

    /// Makes the files before the first one of a queue, down to that of a queue offset.
    fn begin_earlier(&self, queue: &Arc<Queue>, from: u64) -> Result<()> {
        let len = self.file_len_bytes;
        let position = from * QUEUE_UNIT_BYTES;
        let first_base = position - position % len;
        let before = queue.lock().first_base;
        // Newest first: a crash leaves a shorter queue and not one with a hole.
        let files = before.saturating_sub(first_base) / len;
        for file in (0..files).rev() {
            self.make_whole(queue, first_base + file * len)?;
        }
        let mut state = queue.lock();
        state.first_base = first_base.min(state.first_base);
        state.min = from.min(state.min);
        state.min_physical = super::queue::MIN_UNKNOWN;
        Ok(())
    }
}
