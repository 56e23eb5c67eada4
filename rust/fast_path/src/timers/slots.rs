//! Delivery of slots: the chain of one read, its deletions first, its messages made ready before they
//! are due and stored when they are (`TimerMessageStore.dequeue`, `TimerDequeueGetMessageService`).

use std::collections::VecDeque;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::timer::Slot;
use mqcore_record::CrcCheck;

use super::fields::{TimedFields, properties_of};
use super::{Ticked, Timers, is_timed, record_of};

/// Messages of the next slot that are read before it is due, so that they only have to be stored
/// then: as many as a second may bring, in as much memory as they may have.
const READY_MAX: usize = 65_536;
const READY_BYTES_MAX: usize = 16 << 20;
/// How long before the end of a step the messages of its slot are read; half of a shorter step.
const READY_BEFORE_MS: i64 = 300;

/// A slot under delivery, or about to be.
pub(super) struct Slotted<D: Disk> {
    pub(super) slot: Slot,
    pub(super) positions: Vec<u64>,
    pub(super) at: usize,
    /// What its deletions name, each with the topic that they are counted for, until it was found.
    pub(super) deletions: HashMap<Vec<u8>, Deletion>,
    /// Where the chain begins on the disk.
    pub(super) begun_at: usize,
    /// Position of the newest unit that was looked at.
    known: i64,
    /// The next ones, from `at` on.
    ready: VecDeque<Option<Ready<D>>>,
    ready_bytes: usize,
}

impl<D: Disk> Slotted<D> {
    fn empty(slot: Slot) -> Self {
        Self {
            slot,
            positions: Vec::new(),
            at: 0,
            deletions: HashMap::new(),
            begun_at: 0,
            known: -1,
            ready: VecDeque::new(),
            ready_bytes: 0,
        }
    }

    /// Whether more may be read before they are due.
    fn has_space(&self) -> bool {
        self.at + self.ready.len() < self.positions.len()
            && self.ready.len() < READY_MAX
            && self.ready_bytes < READY_BYTES_MAX
    }
}

impl<D: Disk> Ready<D> {
    /// Memory that it keeps: bytes of a map are the page cache's.
    fn bytes(&self) -> usize {
        let copied = self.record.is_copy().then(|| self.record.as_bytes().len());
        self.text.len() + copied.unwrap_or(0) + size_of::<Self>()
    }
}

/// A message that only has to be stored.
struct Ready<D: Disk> {
    record: RecordBytes<D>,
    /// Its properties; the time of delivery is last, and not known yet.
    text: Vec<u8>,
    slot_ms: i64,
    is_roll: bool,
}

pub(super) struct Deletion {
    topic: Box<str>,
    was_found: bool,
}

impl<D: Disk, C: Clock> Timers<D, C> {
    /// Whether the slot of the step that the clock is in ends soon, and can be read ahead.
    pub(super) fn wants_reading(&self, now_ms: i64) -> bool {
        let step_ms = self.wheel().step_ms();
        let slot_ms = self.wheel().floored(now_ms);
        if slot_ms + step_ms - now_ms > READY_BEFORE_MS.min(step_ms / 2) {
            return false;
        }
        match &self.slotted {
            Some(slotted) => slotted.slot.time_ms == slot_ms && slotted.has_space(),
            None => self
                .wheel()
                .slot(slot_ms)
                .is_some_and(|slot| slot.last >= 0),
        }
    }

    pub(super) fn deliver_some(&mut self, limit: usize, done: &mut Ticked) -> Result<()> {
        let mut left = limit;
        while left > 0 {
            let Some(mut slotted) = self.next_slotted()? else {
                return self.read_ahead(left, done);
            };
            let outcome = self.deliver_slot(&mut slotted, &mut left, done);
            // Also in the middle of a slot: the next call enters before it goes on.
            let followed = match self.rolling {
                Some(_) => self.follow(self.timer.write_ms()),
                None => Ok(()),
            };
            let outcome = outcome.and(followed);
            if slotted.at < slotted.positions.len() {
                self.slotted = Some(slotted);
                outcome?;
                done.has_more = true;
                return Ok(());
            }
            // A deletion that met no message was taken off for nothing.
            for deletion in slotted.deletions.values().filter(|each| !each.was_found) {
                self.count(deletion.topic.as_bytes(), 1);
            }
            self.timer.slot_done(&slotted.slot);
            outcome?;
        }
        done.has_more = true;
        Ok(())
    }

    /// The slot to deliver now: the one that is half done, or the first that is due.
    fn next_slotted(&mut self) -> Result<Option<Slotted<D>>> {
        if let Some(slotted) = self.slotted.take_if(|slotted| slotted.at > 0) {
            return Ok(Some(slotted));
        }
        let Some(slot) = self.timer.due_slot() else {
            return Ok(None);
        };
        let ahead = self.slotted.take();
        let same = ahead.filter(|slotted| slotted.slot.time_ms == slot.time_ms);
        let mut slotted = same.unwrap_or_else(|| Slotted::empty(slot));
        self.gather(&mut slotted, slot)?;
        Ok(Some(slotted))
    }

    /// Reads messages of the step that the clock is in: once it ends they only have to be stored.
    fn read_ahead(&mut self, left: usize, done: &mut Ticked) -> Result<()> {
        let slot = self.wheel().slot(self.timer.write_ms());
        let Some(slot) = slot.filter(|_| self.wants_reading(self.now_ms)) else {
            return Ok(());
        };
        let same = self.slotted.take();
        let same = same.filter(|slotted| slotted.slot.time_ms == slot.time_ms);
        let mut slotted = same.unwrap_or_else(|| Slotted::empty(slot));
        let mut read = self.gather(&mut slotted, slot);
        for _ in 0..left {
            if read.is_err() || !slotted.has_space() {
                break;
            }
            let at = slotted.at + slotted.ready.len();
            read = self.make_ready(slotted.positions[at]).map(|ready| {
                slotted.ready_bytes += ready.as_ref().map_or(0, Ready::bytes);
                slotted.ready.push_back(ready);
            });
        }
        done.has_more |= slotted.has_space();
        self.slotted = Some(slotted);
        read
    }

    /// Adds what a slot has got since it was looked at: messages, and what deletions name.
    fn gather(&mut self, slotted: &mut Slotted<D>, slot: Slot) -> Result<()> {
        let positions = self.timer.chain(&slot, slotted.known)?;
        let mut kept = Vec::with_capacity(positions.len());
        for position in positions {
            let Some(unit) = self.timer.unit(position)? else {
                continue;
            };
            if !unit.is_delete() {
                kept.push(position);
                continue;
            }
            let Some(record) = record_of(&self.store, unit.physical_offset, unit.len_bytes)? else {
                continue;
            };
            let Ok(view) = record.view(CrcCheck::Skip) else {
                continue;
            };
            let fields = TimedFields::of(view.properties);
            if let (Some(key), Some(topic)) = (fields.deleted_key(), fields.real_topic) {
                let topic = String::from_utf8_lossy(topic).into_owned().into_boxed_str();
                let deletion = Deletion {
                    topic,
                    was_found: false,
                };
                slotted.deletions.insert(key, deletion);
            }
        }
        slotted.positions.extend(kept);
        slotted.slot = slot;
        slotted.known = slot.last;
        Ok(())
    }

    fn deliver_slot(
        &mut self,
        slotted: &mut Slotted<D>,
        left: &mut usize,
        done: &mut Ticked,
    ) -> Result<()> {
        while *left > 0 {
            let Some(position) = slotted.positions.get(slotted.at) else {
                return Ok(());
            };
            let ready = match slotted.ready.pop_front() {
                Some(ready) => ready,
                None => self.make_ready(*position)?,
            };
            let stored = match &ready {
                Some(ready) => self.deliver(ready, &mut slotted.deletions, done),
                None => {
                    done.skipped += 1;
                    Ok(())
                }
            };
            if let Err(error) = stored {
                slotted.ready.push_front(ready);
                return Err(error);
            }
            slotted.at += 1;
            *left -= 1;
        }
        Ok(())
    }

    /// Reads the message of a unit and writes its properties; `None` when it is gone.
    fn make_ready(&mut self, position: u64) -> Result<Option<Ready<D>>> {
        let Some(unit) = self.timer.unit(position)? else {
            return Ok(None);
        };
        let record = record_of(&self.store, unit.physical_offset, unit.len_bytes)?;
        let Some(record) = record else {
            return Ok(None);
        };
        let Ok(view) = record.view(CrcCheck::Verify) else {
            return Ok(None);
        };
        if !is_timed(&view) {
            return Ok(None);
        }
        let rolls = unit
            .is_roll()
            .then(|| TimedFields::of(view.properties).rolls + 1);
        let text = properties_of(&view, unit.entered_ms, rolls);
        Ok(Some(Ready {
            record,
            text,
            slot_ms: self.wheel().floored(unit.slot_ms),
            is_roll: unit.is_roll(),
        }))
    }

    fn deliver(
        &mut self,
        ready: &Ready<D>,
        deletions: &mut HashMap<Vec<u8>, Deletion>,
        done: &mut Ticked,
    ) -> Result<()> {
        let view = ready.record.view(CrcCheck::Skip)?;
        let fields = TimedFields::of(view.properties);
        if !deletions.is_empty()
            && let Some(deletion) = fields.delete_key().and_then(|key| deletions.get_mut(&key))
        {
            deletion.was_found = true;
            done.deleted += 1;
            return Ok(());
        }
        let mut text = ready.text.clone();
        self.put(&view, &fields, &mut text, ready.is_roll, done)?;
        if let Some(topic) = fields.real_topic {
            self.count(topic, if fields.deletes.is_some() { 1 } else { -1 });
        }
        done.late_ms = self.store.wall_ms() - ready.slot_ms - self.wheel().step_ms();
        Ok(())
    }
}
