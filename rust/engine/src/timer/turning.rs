//! Wheel, log and check point put together: what is entered, what is due, what is durable
//! (`TimerMessageStore.doEnqueue`, `dequeue`, `prepareTimerCheckPoint`).

use std::path::Path;
use std::sync::Arc;

use super::log::TimerLog;
use super::opening::{Opened, TimerConfig};
use super::point::{Point, PointFile};
use super::recover::{Whole, recovered};
use super::unit::{Found, MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, Unit};
use super::wheel::{SLOTS, Slot, Wheel};
use crate::disk::Disk;
use crate::error::Result;

/// Half of the wheel: who is farther behind delivers before anything is entered, because a slot so
/// far ahead has the place of one that waits.
const BEHIND_MAX_SLOTS: i64 = (SLOTS / 2).cast_signed();

/// What goes around the wheel again does so on a slave no sooner than on its master, whose clock may be so
/// much ahead: a slot that the master has passed is passed on the slave, and must not hold what the master
/// has not stored again yet.
const ROLL_LATER_MS: i64 = 60_000;

/// A message to be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it is due: `TIMER_OUT_MS`.
    pub due_ms: i64,
    /// Where it lies in the log.
    pub physical_offset: i64,
    /// Its length.
    pub len_bytes: i32,
    /// Java hash of its real topic.
    pub topic_hash: i32,
    /// Whether it deletes another message.
    pub is_delete: bool,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It is due: deliver it, nothing was entered.
    Due,
    /// It waits.
    Waits,
}

/// The timers of one store. One thread at a time; the wheel may be asked from any.
pub struct Timer<D: Disk> {
    wheel: Arc<Wheel<D>>,
    log: TimerLog<D>,
    point_file: PointFile<D>,
    point: Point,
    roll_slots: i64,
    /// Time of the first slot that is not delivered.
    read_ms: i64,
    /// The step that the clock is in: slots before it are due.
    write_ms: i64,
    /// Next queue offset to enter.
    queue_offset: u64,
    opened: Opened,
}

impl<D: Disk> Timer<D> {
    /// Opens the timers of a store; makes their files when there are none.
    ///
    /// # Arguments
    /// `messages_end` is where the log of messages ends: it may have been cut since the check point was
    /// written. `whole` gives the queue offset of the message that a unit names, or `None` when there is no
    /// such message: units that were not durable are believed only then.
    ///
    /// # Errors
    /// [`crate::error::Error::ForeignFile`], [`crate::error::Error::WrongFileSize`],
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the wheel, and the log behind the check point.
    pub fn open(
        disk: &D,
        root: &Path,
        config: &TimerConfig,
        now_ms: i64,
        messages_end: u64,
        whole: &mut Whole<'_>,
    ) -> Result<Self> {
        let (point_file, point) = PointFile::open(disk, &root.join("config").join("timercheck"))?;
        let found = recovered(disk, root, config, (point, now_ms), messages_end, whole)?;
        let mut timer = Self {
            wheel: Arc::new(found.wheel),
            log: found.log,
            point_file,
            point,
            roll_slots: config.roll_slots(),
            read_ms: found.read_ms,
            write_ms: found.read_ms,
            queue_offset: found.queue_offset,
            opened: found.opened,
        };
        // What came before the end is entered as if there had been none: the clock turns then.
        if now_ms < timer.read_ms {
            timer.turn(now_ms)?;
        }
        Ok(timer)
    }

    /// What opening found.
    #[must_use]
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// The wheel, for whoever asks how full a slot is.
    #[must_use]
    pub fn wheel(&self) -> &Arc<Wheel<D>> {
        &self.wheel
    }

    /// Time of the first slot that is not delivered, ms.
    #[must_use]
    pub fn read_ms(&self) -> i64 {
        self.read_ms
    }

    /// The step that the clock is in, ms.
    #[must_use]
    pub fn write_ms(&self) -> i64 {
        self.write_ms
    }

    /// Next queue offset to enter.
    #[must_use]
    pub fn queue_offset(&self) -> u64 {
        self.queue_offset
    }

    /// Goes on at another queue offset: what lies before it is entered, or gone.
    pub fn set_queue_offset(&mut self, offset: u64) {
        self.queue_offset = offset;
    }

    /// Whether so much waits to be delivered that nothing may be entered.
    #[must_use]
    pub fn is_far_behind(&self) -> bool {
        self.write_ms - self.read_ms > BEHIND_MAX_SLOTS * self.wheel.step_ms()
    }

    /// Follows the clock. One that was set back makes times come again: their slots, which were
    /// delivered, are emptied.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn turn(&mut self, now_ms: i64) -> Result<()> {
        let now_ms = self.wheel.floored(now_ms);
        self.go_back(now_ms)?;
        self.write_ms = now_ms;
        Ok(())
    }

    /// Goes back to `read_ms`, where we are farther: slots from there on are emptied. That times come again is
    /// written down before anything is entered for them: a start by the old check point would take it for
    /// delivered.
    fn go_back(&mut self, read_ms: i64) -> Result<()> {
        if read_ms < self.read_ms {
            self.wheel.clear(read_ms, self.read_ms)?;
            self.read_ms = read_ms;
        }
        if self.read_ms < self.point.read_ms {
            self.wheel.flush(self.read_ms)?;
            let point = Point {
                read_ms: self.read_ms,
                ..self.point
            };
            self.point_file.write(&point)?;
            self.point = point;
        }
        Ok(())
    }

    /// Goes on where the timers of a master are: its slots before `read_ms` are delivered, and no others. Where
    /// ours were farther, by another clock, times come again: their slots, which were delivered, are emptied. The
    /// clock is followed, never back, by [`ROLL_LATER_MS`] ahead.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn follow(&mut self, read_ms: i64, now_ms: i64) -> Result<()> {
        let read_ms = self.wheel.floored(read_ms);
        self.go_back(read_ms)?;
        self.read_ms = read_ms;
        let now_ms = self.wheel.floored(now_ms + ROLL_LATER_MS);
        self.write_ms = self.write_ms.max(now_ms).max(self.read_ms);
        Ok(())
    }

    /// Enters a message into the slot of its time; far ahead, into one that enters it again.
    ///
    /// # Durability
    /// That of memory, until [`Timer::flush`].
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: nothing was entered.
    pub fn enter(&mut self, entry: &Entry) -> Result<Entered> {
        self.enter_unless_before(self.write_ms, entry)
    }

    /// Enters a message as [`Timer::enter`] does for timers that follow those of a master: only what
    /// is before the first slot that is not delivered is due, since nothing is delivered here.
    ///
    /// # Durability
    /// That of memory, until [`Timer::flush`].
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]: nothing was entered.
    pub fn enter_undelivered(&mut self, entry: &Entry) -> Result<Entered> {
        self.enter_unless_before(self.read_ms, entry)
    }

    fn enter_unless_before(&mut self, due_until_ms: i64, entry: &Entry) -> Result<Entered> {
        if entry.due_ms < due_until_ms {
            return Ok(Entered::Due);
        }
        let step_ms = self.wheel.step_ms();
        let (ahead_ms, window_ms) = (entry.due_ms - self.write_ms, self.roll_slots * step_ms);
        let mut magic = MAGIC_DEFAULT;
        let mut slot_ms = entry.due_ms;
        if ahead_ms >= window_ms {
            magic |= MAGIC_ROLL;
            // Two halves where a whole window would leave little for the second.
            let slots = if ahead_ms - window_ms < self.roll_slots / 3 * step_ms {
                self.roll_slots / 2
            } else {
                self.roll_slots
            };
            slot_ms = self.write_ms + slots * step_ms;
        }
        if entry.is_delete {
            magic |= MAGIC_DELETE;
        }
        let slot = self.wheel.slot(slot_ms);
        let unit = Unit {
            previous: slot.map_or(-1, |slot| slot.last),
            magic,
            entered_ms: self.write_ms,
            slot_ms,
            physical_offset: entry.physical_offset,
            len_bytes: entry.len_bytes,
            topic_hash: entry.topic_hash,
        };
        let position = self.log.append(&unit)?.cast_signed();
        self.wheel.put(&Slot {
            time_ms: slot_ms,
            first: slot.map_or(position, |slot| slot.first),
            last: position,
            count: slot.map_or(0, |slot| slot.count) + unit.weight(),
        })?;
        Ok(Entered::Waits)
    }

    /// The first slot that is due and not delivered; those before it need nothing.
    pub fn due_slot(&mut self) -> Option<Slot> {
        let next_ms = self.wheel.next_used(self.read_ms, self.write_ms);
        self.read_ms = next_ms.clamp(self.read_ms, self.write_ms.max(self.read_ms));
        let slot = self.wheel.slot(self.read_ms);
        slot.filter(|_| self.read_ms < self.write_ms)
    }

    /// Whether [`Timer::due_slot`] would give one at this time, or the clock was set back.
    #[must_use]
    pub fn is_due(&self, now_ms: i64) -> bool {
        let now_ms = self.wheel.floored(now_ms);
        now_ms < self.read_ms || self.wheel.next_used(self.read_ms, now_ms) < now_ms
    }

    /// The positions of a slot's units, oldest first, without those up to `known` (-1 for all).
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    ///
    /// # Blocking
    /// Reads the log.
    pub fn chain(&mut self, slot: &Slot, known: i64) -> Result<Vec<u64>> {
        let mut positions = Vec::with_capacity(usize::try_from(slot.count).unwrap_or(0));
        let mut at = slot.last;
        while at > known
            && let Ok(position) = u64::try_from(at)
        {
            let Found::Unit(unit) = self.log.at(position)? else {
                break;
            };
            positions.push(position);
            at = unit.previous;
        }
        positions.reverse();
        Ok(positions)
    }

    /// The unit at a position; `None` when its file is gone.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn unit(&mut self, position: u64) -> Result<Option<Unit>> {
        Ok(match self.log.at(position)? {
            Found::Unit(unit) => Some(unit),
            Found::Blank | Found::End => None,
        })
    }

    /// A slot is delivered: goes on behind it.
    pub fn slot_done(&mut self, slot: &Slot) {
        self.read_ms = self.read_ms.max(slot.time_ms + self.wheel.step_ms());
    }

    /// A slot is delivered up to the unit at `position`, which becomes the oldest of its chain: a
    /// start after this gives the rest alone.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn shorten(&mut self, slot: &Slot, position: u64, left: usize) -> Result<()> {
        self.log.unlink_before(position)?;
        let Some(now) = self.wheel.slot(slot.time_ms) else {
            return Ok(());
        };
        self.wheel.put(&Slot {
            first: position.cast_signed(),
            count: i32::try_from(left).unwrap_or(i32::MAX),
            ..now
        })
    }

    /// Makes everything durable; the messages that were delivered must be so already.
    ///
    /// # Durability
    /// On return a start finds the timers as they are now.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`]; the check point stays what it was.
    ///
    /// # Blocking
    /// Three files are synced.
    pub fn flush(&mut self, now_ms: i64) -> Result<()> {
        let log_end = self.log.flush()?.cast_signed();
        self.wheel.flush(self.read_ms)?;
        let queue_offset = self.queue_offset.cast_signed();
        let was = self.point;
        let has_moved = (was.read_ms, was.queue_offset) != (self.read_ms, queue_offset);
        let point = Point {
            read_ms: self.read_ms,
            log_end,
            queue_offset,
            master_queue_offset: queue_offset,
            state_version: was.state_version,
            version_ms: if has_moved { now_ms } else { was.version_ms },
            counter: was.counter + i64::from(has_moved),
        };
        self.point_file.write(&point)?;
        self.point = point;
        Ok(())
    }

    /// The check point as it was written last.
    #[must_use]
    pub fn point(&self) -> &Point {
        &self.point
    }

    /// Removes files of the log whose messages are gone; how many.
    ///
    /// # Errors
    /// [`crate::error::Error::Io`].
    pub fn retain(&mut self, log_start: u64) -> Result<usize> {
        self.log.retain(log_start)
    }

    /// Bytes on the disk for the log, and in memory for the wheel.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        (self.log.disk_bytes(), self.wheel.memory_bytes())
    }
}
