//! Units that queues have lost: a queue that begins behind 0 though it had no files, one with units
//! between its end and the next record, one that ends before the last stop or checkpoint had it
//! end. Called while the store is opened, when the end of the log was dispatched again. Reads no
//! record.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::holes::{Hole, HoleMender};
use super::load::QueueLoader;
use super::manifest::{MANIFEST_NAME, decode_manifest};
use super::queue::{MIN_UNKNOWN, Queue, State};
use super::suspects::{Suspect, Suspects};
use super::unit::Unit;
use super::witness::{WITNESS_NAME, Witness};
use crate::config::QUEUE_UNIT_BYTES;
use crate::disk::Disk;
use crate::error::Result;
use crate::queue_store::{QueueMap, Segments, TailWriter};
use crate::units::round_up;

/// Finds the units that queues have lost.
pub struct LostUnits<D: Disk> {
    pub(super) map: Arc<QueueMap<Unit>>,
    pub(super) segments: Arc<Segments<D, Unit>>,
    pub(super) loader: Arc<QueueLoader<D>>,
    pub(super) witness: Arc<Witness<D>>,
    pub(super) writer: Arc<TailWriter<D, Unit>>,
    pub(super) mender: Arc<HoleMender<D>>,
    pub(super) suspects: Arc<Suspects>,
}

/// A queue that ends before it should.
struct Shorter {
    queue: Arc<Queue>,
    recorded: State,
}

impl<D: Disk> LostUnits<D> {
    /// From now on what dispatch passes over is noted, until [`LostUnits::take_suspects`].
    pub fn watch_suspects(&self) {
        self.suspects.watch();
    }

    /// What dispatch has passed over since it was watched.
    #[must_use]
    pub fn take_suspects(&self) -> Vec<Suspect> {
        self.suspects.take()
    }

    /// Notes the queues that seem to have lost their first files. Retention keeps the file that
    /// holds the first record of the log, and with it nearly always a unit of a record before that;
    /// a queue whose oldest unit names a record that is there has lost a file, or is an exact fit.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn suspect_beginnings(&self, log_start: u64) -> Result<()> {
        for queue in self.map.all() {
            let first = {
                let state = queue.lock();
                if state.first_base == 0 || !state.has_files() || state.is_gone {
                    continue;
                }
                state.first_base / QUEUE_UNIT_BYTES
            };
            let unit = self.segments.file_unit(&queue, first)?;
            let physical_offset = unit.physical_offset.cast_unsigned();
            if unit.is_present() && !unit.is_blank() && physical_offset >= log_start {
                self.suspects.note(&queue, (0, first), true);
            }
        }
        Ok(())
    }

    /// The holes that suspects are. A queue that began without files gets files from its first
    /// message in the log on, as `starts` has it; one that is not named there misses nothing.
    /// Tails were written before.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn holes_of_suspects(
        &self,
        suspects: Vec<Suspect>,
        starts: &HashMap<(Vec<u8>, i32), u64>,
    ) -> Result<Vec<Hole>> {
        let per_file = self.segments.file_len_bytes() / QUEUE_UNIT_BYTES;
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
                let mut hole = self.mender.hole_of(queue, &state, from, to)?;
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
        let len = self.segments.file_len_bytes();
        let position = from * QUEUE_UNIT_BYTES;
        let first_base = position - position % len;
        let before = queue.lock().first_base;
        // Newest first: a crash leaves a shorter queue and not one with a hole.
        let files = before.saturating_sub(first_base) / len;
        for file in (0..files).rev() {
            self.segments.make_whole(queue, first_base + file * len)?;
        }
        let mut state = queue.lock();
        state.first_base = first_base.min(state.first_base);
        state.min = from.min(state.min);
        state.min_physical = MIN_UNKNOWN;
        Ok(())
    }

    /// Lengthens each queue that is shorter than it was at the last clean stop, with nothing in the
    /// new part, and notes it as a suspect. Called while the store is opened, when the queues have
    /// everything that is dispatched again.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads one file; writes what waits where a queue is shorter.
    pub fn compare_with_witness(&self, log_start: u64, log_end: u64) -> Result<()> {
        if self.witness.is_void() {
            return Ok(());
        }
        let log_end = i64::try_from(log_end).unwrap_or(i64::MAX);
        let mut shorter = Vec::new();
        let mut is_void = false;
        for name in [MANIFEST_NAME, WITNESS_NAME] {
            let Some(bytes) = self.witness.read(name)? else {
                continue;
            };
            let Some((_stamp, queues)) =
                decode_manifest(&bytes, None, self.segments.file_len_bytes())
            else {
                continue;
            };
            for (topic, queue_id, recorded) in queues {
                if recorded.last_physical_end > log_end {
                    // The log has lost some of it, and reported it.
                    is_void = true;
                } else if recorded.end > 0 {
                    shorter.extend(self.if_shorter((topic, queue_id), recorded, log_start)?);
                }
            }
            break;
        }
        if !shorter.is_empty() {
            self.writer.write_pending()?;
        }
        for each in shorter {
            self.lengthen(&each)?;
        }
        if is_void {
            self.witness.void()?;
        }
        Ok(())
    }

    fn if_shorter(
        &self,
        (topic, id): (&str, i32),
        recorded: State,
        log_start: u64,
    ) -> Result<Option<Shorter>> {
        let queue = match self.map.find(topic.as_bytes(), id) {
            Some(queue) => queue,
            None => self.map.insert(topic, id, State::empty()),
        };
        let (end, first_base, has_files) = {
            let state = self.loader.lock_known(&queue)?;
            (state.end, state.first_base, state.has_files())
        };
        if has_files && first_base > recorded.first_base {
            let first = first_base / QUEUE_UNIT_BYTES;
            let unit = self.segments.file_unit(&queue, first)?;
            let physical_offset = unit.physical_offset.cast_unsigned();
            // Retention keeps the file of the first record that the log has.
            if !unit.is_present() || (!unit.is_blank() && physical_offset >= log_start) {
                let _is_watched = self.suspects.note_lost(&queue, (0, first), true);
            }
        }
        Ok((end < recorded.end).then_some(Shorter { queue, recorded }))
    }

    fn lengthen(&self, Shorter { queue, recorded }: &Shorter) -> Result<()> {
        let len = self.segments.file_len_bytes();
        let (end, files_end, has_files) = {
            let state = queue.lock();
            (state.end, state.files_end, state.has_files())
        };
        let position = recorded.end * QUEUE_UNIT_BYTES;
        let first = if has_files {
            files_end
        } else {
            position - position % len
        };
        let to = round_up(position, len);
        for base in (first..to).step_by(len as usize) {
            // One after the other, each for good: a crash leaves a shorter queue.
            self.segments.make_whole(queue, base)?;
            self.segments
                .disk()
                .sync_dir(&self.segments.queue_dir(queue))?;
        }
        {
            let mut state = queue.lock();
            if !has_files {
                state.begin_at(recorded.end, len);
            }
            state.files_end = state.files_end.max(to);
            state.set_end(recorded.end);
            state.has_checked_ends = false;
            state.last_physical_end = state.last_physical_end.max(recorded.last_physical_end);
        }
        let from = if has_files { end } else { 0 };
        let _is_watched = self
            .suspects
            .note_lost(queue, (from, recorded.end), !has_files);
        Ok(())
    }
}
