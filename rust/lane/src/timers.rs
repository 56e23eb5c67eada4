//! Messages with a time of their own on their way: from the queue of the wheel's topic into the
//! wheel, and when their slot is due out of it into their topic (`TimerMessageStore`). Knows no
//! timetable: whoever has one calls, from any thread, one at a time.

use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Unit as QueueUnit;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::Store;
use mqcore_engine::timer::{Entered, Entry, Point, Slot, Timer, TimerConfig, Unit, Wheel};
use mqcore_record::properties::pairs;
use mqcore_record::{CrcCheck, Message, RecordView, java_hash_bytes};

use crate::names::TIMER_TOPIC;
use crate::properties::{self, TIMER_DEQUEUE_MS, TIMER_ENQUEUE_MS, TIMER_ROLL_TIMES};

/// Messages entered, and delivered, per call at the most: some milliseconds of work.
pub const LIMIT_MAX: usize = 4_096;
/// The queue of the wheel's topic: it has one.
const QUEUE_ID: i32 = 0;
/// What `TIMER_ENQUEUE_MS` says of a message that was due before it could be entered.
const NEVER_ENTERED: i64 = i64::MAX;

/// What a call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticked {
    /// Messages taken from the queue.
    pub entered: u64,
    /// Messages stored in their topic.
    pub delivered: u64,
    /// Messages that go around the wheel again.
    pub rolled: u64,
    /// Messages that were deleted by another one.
    pub deleted: u64,
    /// Messages passed over: gone by retention, or with nowhere to go.
    pub skipped: u64,
    /// How late the last one was delivered, ms behind the end of its step.
    pub late_ms: i64,
    /// Whether more can be done now.
    pub has_more: bool,
}

/// Messages of one topic that wait, and since when that number holds (`TimerMetrics.Metric`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many; deletions are taken off.
    pub count: i64,
    /// When that changed, Unix ms.
    pub changed_ms: i64,
}

/// How far the timers are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time of the first slot that is not delivered, Unix ms.
    pub read_ms: i64,
    /// Next queue offset to enter.
    pub queue_offset: u64,
    /// Messages in the queue that are not entered.
    pub behind: u64,
    /// Messages in slots that are not delivered.
    pub waiting: i64,
    /// Rises with each change of what waits.
    pub changes: u64,
    /// Messages entered since the start.
    pub entered: u64,
    /// Messages delivered since the start.
    pub delivered: u64,
    /// Bytes of the timer log on the disk.
    pub log_bytes: u64,
    /// Bytes of the wheel in memory.
    pub wheel_bytes: u64,
}

/// What of a message matters here.
#[derive(Default)]
struct Told<'a> {
    real_topic: Option<&'a [u8]>,
    real_queue: Option<i32>,
    uniq_key: Option<&'a [u8]>,
    deletes: Option<&'a [u8]>,
    out_ms: Option<i64>,
    rolls: i64,
}

impl<'a> Told<'a> {
    fn of(text: &'a [u8]) -> Self {
        fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        let mut told = Self::default();
        for (name, value) in pairs(text) {
            match name {
                b"REAL_TOPIC" => told.real_topic = Some(value),
                b"REAL_QID" => told.real_queue = number(value),
                b"UNIQ_KEY" => told.uniq_key = Some(value),
                b"TIMER_DEL_UNIQKEY" => told.deletes = Some(value),
                b"TIMER_OUT_MS" => told.out_ms = number(value),
                b"TIMER_ROLL_TIMES" => told.rolls = number(value).unwrap_or(0),
                _ => {}
            }
        }
        told
    }

    /// What another message names to delete this one (`buildDeleteKey`).
    fn delete_key(&self) -> Option<Vec<u8>> {
        Some([self.real_topic?, b"+", self.uniq_key?].concat())
    }
}

/// A slot under delivery.
struct Slotted {
    slot: Slot,
    positions: Vec<u64>,
    at: usize,
    /// What its deletions name, each with the topic that they are counted for, until it was found.
    deletions: HashMap<Vec<u8>, Deletion>,
    /// Where the chain begins on the disk.
    begun_at: usize,
}

struct Deletion {
    topic: Box<str>,
    was_found: bool,
}

/// The timers of a store.
pub struct Timers<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    timer: Timer<D>,
    slotted: Option<Slotted>,
    waiting: HashMap<Box<str>, Waiting>,
    changes: u64,
    entered: u64,
    delivered: u64,
    scratch: Vec<u8>,
    units: Vec<QueueUnit>,
}

impl<D: Disk, C: Clock> Timers<D, C> {
    /// Opens the timers of an open store.
    ///
    /// # Errors
    /// As [`Timer::open`].
    ///
    /// # Blocking
    /// As [`Timer::open`].
    pub fn open(store: Arc<Store<D, C>>, disk: &D, root: &Path, now_ms: i64) -> Result<Self> {
        let config = TimerConfig {
            step_ms: store.config().timer_step_ms(),
            roll_slots: store.config().timer_roll_window_slots,
            log_file_len_bytes: store.config().timer_log_file_len_bytes,
        };
        let mut whole = |unit: &Unit| {
            let record = record_of(&store, unit.physical_offset, unit.len_bytes).ok()??;
            let view = record.view(CrcCheck::Skip).ok()?;
            is_timed(&view).then(|| view.queue_offset.cast_unsigned())
        };
        let mut timer = Timer::open(disk, root, &config, now_ms, &mut whole)?;
        let bounds = store.bounds(TIMER_TOPIC.as_bytes(), QUEUE_ID)?;
        let (min, max) = bounds.map_or((0, 0), |bounds| (bounds.min, bounds.max));
        timer.set_queue_offset(timer.queue_offset().clamp(min, max));
        let opened = timer.opened();
        if opened.is_rebuilt {
            let text = "the timer wheel did not fit its log: it was made again from the log";
            store.files().notices.warn(text);
        }
        Ok(Self {
            store,
            timer,
            slotted: None,
            waiting: HashMap::new(),
            changes: 0,
            entered: 0,
            delivered: 0,
            scratch: Vec::new(),
            units: Vec::new(),
        })
    }

    /// The wheel, to ask how full a slot is.
    #[must_use]
    pub fn wheel(&self) -> &Arc<Wheel<D>> {
        self.timer.wheel()
    }

    /// Whether a call of [`Timers::tick`] would do anything.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_due(&self, now_ms: i64) -> Result<bool> {
        Ok(self.slotted.is_some() || self.behind()? > 0 || self.timer.is_due(now_ms))
    }

    /// Messages in the queue that are not entered.
    fn behind(&self) -> Result<u64> {
        let bounds = self.store.bounds(TIMER_TOPIC.as_bytes(), QUEUE_ID)?;
        let max = bounds.map_or(0, |bounds| bounds.max);
        Ok(max.saturating_sub(self.timer.queue_offset()))
    }

    /// Enters what came, and delivers what is due: each at most `limit` messages.
    ///
    /// # Durability
    /// That of an append; after [`Timers::flush`] nothing of it is repeated.
    ///
    /// # Errors
    /// What kept the first message of the call from being stored or entered; nothing is lost, the
    /// next call goes on there.
    ///
    /// # Blocking
    /// For the disk, where messages are cold.
    pub fn tick(&mut self, now_ms: i64, limit: usize) -> Result<Ticked> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let mut done = Ticked::default();
        if self.slotted.is_none() {
            self.timer.turn(now_ms)?;
        }
        // A slot that is half delivered takes no more: what would be for it now is due.
        if !self.timer.is_far_behind() {
            self.enter_some(limit, &mut done)?;
        }
        match self.deliver_some(limit, &mut done) {
            Err(error) if done == Ticked::default() => return Err(error),
            // What was done counts; the next call meets the error again.
            Err(_later) => {}
            Ok(()) => done.has_more |= self.behind()? > 0 && !self.timer.is_far_behind(),
        }
        self.entered += done.entered;
        self.delivered += done.delivered;
        Ok(done)
    }

    fn enter_some(&mut self, limit: usize, done: &mut Ticked) -> Result<()> {
        let topic = TIMER_TOPIC.as_bytes();
        let Some(bounds) = self.store.bounds(topic, QUEUE_ID)? else {
            return Ok(());
        };
        let from = self.timer.queue_offset().clamp(bounds.min, bounds.max);
        if from >= bounds.max {
            return Ok(());
        }
        let mut units = std::mem::take(&mut self.units);
        units.clear();
        let queues = self.store.queues();
        let read = queues.read(topic, QUEUE_ID, from, limit, &mut units);
        let entered = read.and_then(|_read| {
            for (at, unit) in units.iter().enumerate() {
                self.enter(unit, done)?;
                done.entered += 1;
                self.timer.set_queue_offset(from + at as u64 + 1);
            }
            Ok(())
        });
        done.has_more |= units.len() == limit;
        self.units = units;
        match entered {
            Err(error) if done.entered == 0 => Err(error),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, queued: &QueueUnit, done: &mut Ticked) -> Result<()> {
        let (offset, len) = (queued.physical_offset, queued.size_bytes);
        let record = if queued.is_blank() {
            None
        } else {
            record_of(&self.store, offset, len)?
        };
        let Some(record) = record else {
            done.skipped += 1;
            return Ok(());
        };
        let view = record.view(CrcCheck::Skip)?;
        let told = Told::of(view.properties);
        let (Some(real_topic), Some(due_ms)) = (told.real_topic, told.out_ms) else {
            done.skipped += 1;
            return Ok(());
        };
        let entry = Entry {
            due_ms,
            physical_offset: offset,
            len_bytes: len,
            topic_hash: java_hash_bytes(real_topic),
            is_delete: told.deletes.is_some(),
        };
        match self.timer.enter(&entry)? {
            Entered::Waits => self.count(real_topic, if entry.is_delete { -1 } else { 1 }),
            Entered::Due if entry.is_delete => done.deleted += 1,
            Entered::Due => {
                let step_ms = self.wheel().step_ms();
                let late_ms = self.store.wall_ms() - due_ms - step_ms;
                self.put(&view, &told, NEVER_ENTERED, false, done)?;
                done.late_ms = late_ms;
            }
        }
        Ok(())
    }

    fn deliver_some(&mut self, limit: usize, done: &mut Ticked) -> Result<()> {
        let mut left = limit;
        while left > 0 {
            if self.slotted.is_none() {
                let Some(slot) = self.timer.due_slot() else {
                    return Ok(());
                };
                self.slotted = Some(self.begin(slot)?);
            }
            let Some(mut slotted) = self.slotted.take() else {
                return Ok(());
            };
            let outcome = self.deliver_slot(&mut slotted, &mut left, done);
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

    /// Reads the chain of a slot, and what its deletions name.
    fn begin(&mut self, slot: Slot) -> Result<Slotted> {
        let positions = self.timer.chain(&slot)?;
        let mut slotted = Slotted {
            slot,
            positions: Vec::with_capacity(positions.len()),
            at: 0,
            deletions: HashMap::new(),
            begun_at: 0,
        };
        for position in positions {
            let Some(unit) = self.timer.unit(position)? else {
                continue;
            };
            if !unit.is_delete() {
                slotted.positions.push(position);
                continue;
            }
            let Some(record) = record_of(&self.store, unit.physical_offset, unit.len_bytes)? else {
                continue;
            };
            let view = record.view(CrcCheck::Skip)?;
            let told = Told::of(view.properties);
            if let (Some(key), Some(topic)) = (told.deletes, told.real_topic) {
                let topic = String::from_utf8_lossy(topic).into_owned().into_boxed_str();
                let deletion = Deletion {
                    topic,
                    was_found: false,
                };
                slotted.deletions.insert(key.to_vec(), deletion);
            }
        }
        Ok(slotted)
    }

    fn deliver_slot(
        &mut self,
        slotted: &mut Slotted,
        left: &mut usize,
        done: &mut Ticked,
    ) -> Result<()> {
        while *left > 0 {
            let Some(position) = slotted.positions.get(slotted.at) else {
                return Ok(());
            };
            let unit = self.timer.unit(*position)?;
            match unit {
                Some(unit) => self.deliver(&unit, &mut slotted.deletions, done)?,
                None => done.skipped += 1,
            }
            slotted.at += 1;
            *left -= 1;
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        unit: &Unit,
        deletions: &mut HashMap<Vec<u8>, Deletion>,
        done: &mut Ticked,
    ) -> Result<()> {
        let record = record_of(&self.store, unit.physical_offset, unit.len_bytes)?;
        let Some(record) = record else {
            done.skipped += 1;
            return Ok(());
        };
        let view = record.view(CrcCheck::Verify)?;
        if !is_timed(&view) {
            done.skipped += 1;
            return Ok(());
        }
        let told = Told::of(view.properties);
        if !deletions.is_empty()
            && let Some(deletion) = told.delete_key().and_then(|key| deletions.get_mut(&key))
        {
            deletion.was_found = true;
            done.deleted += 1;
            return Ok(());
        }
        if let Some(topic) = told.real_topic {
            self.count(topic, if told.deletes.is_some() { 1 } else { -1 });
        }
        let slot_ms = self.wheel().floored(unit.slot_ms);
        done.late_ms = self.store.wall_ms() - slot_ms - self.wheel().step_ms();
        self.put(&view, &told, unit.entered_ms, unit.is_roll(), done)
    }

    /// Stores a message in its topic, or in that of the wheel again.
    fn put(
        &mut self,
        view: &RecordView<'_>,
        told: &Told<'_>,
        entered_ms: i64,
        is_roll: bool,
        done: &mut Ticked,
    ) -> Result<()> {
        let topic = told.real_topic.and_then(|topic| std::str::from_utf8(topic).ok());
        let (target, queue_id) = match (topic, told.real_queue) {
            _ if is_roll => (TIMER_TOPIC, QUEUE_ID),
            (Some(topic), Some(queue_id)) if queue_id >= 0 => (topic, queue_id),
            _ => {
                done.skipped += 1;
                return Ok(());
            }
        };
        let (entered, left) = (entered_ms.to_string(), self.store.wall_ms().to_string());
        let rolls = (told.rolls + 1).to_string();
        let adds = [
            (TIMER_ENQUEUE_MS, entered.as_bytes()),
            (TIMER_DEQUEUE_MS, left.as_bytes()),
            (TIMER_ROLL_TIMES, rolls.as_bytes()),
        ];
        let adds = if is_roll { &adds[..] } else { &adds[..2] };
        let mut text = std::mem::take(&mut self.scratch);
        properties::rewrite(view.properties, &[], adds, &mut text);
        let appended = self.store.append(&Message {
            topic: target,
            queue_id,
            flag: view.flag,
            sys_flag: view.sys_flag,
            born_timestamp_ms: view.born_timestamp_ms,
            born_host: view.born_host,
            store_host: view.store_host,
            reconsume_times: view.reconsume_times,
            prepared_transaction_offset: 0,
            body: view.body,
            properties: &text,
            version: None,
        });
        self.scratch = text;
        match appended {
            Ok(_place) if is_roll => done.rolled += 1,
            Ok(_place) => done.delivered += 1,
            // Its topic has a name that no topic may have, or its properties do not fit any more:
            // it would stand in the way for ever.
            Err(Error::Message(_)) => done.skipped += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn count(&mut self, topic: &[u8], by: i64) {
        let Ok(topic) = std::str::from_utf8(topic) else {
            return;
        };
        let changed_ms = self.store.wall_ms();
        self.changes += 1;
        if let Some(waiting) = self.waiting.get_mut(topic) {
            waiting.count += by;
            waiting.changed_ms = changed_ms;
        } else {
            let count = by;
            let waiting = Waiting { count, changed_ms };
            self.waiting.insert(topic.into(), waiting);
        }
    }

    /// Makes everything durable: messages that were delivered, then the files of the timers.
    ///
    /// # Durability
    /// On return a start goes on where we are, also in the middle of a slot.
    ///
    /// # Errors
    /// [`Error::Io`]; a start then goes on at the flush before.
    ///
    /// # Blocking
    /// Four files are synced.
    pub fn flush(&mut self, now_ms: i64) -> Result<()> {
        self.store.flush()?;
        if let Some(slotted) = &mut self.slotted
            && slotted.at > slotted.begun_at
            && slotted.deletions.is_empty()
            && let Some(position) = slotted.positions.get(slotted.at)
        {
            let left = slotted.positions.len() - slotted.at;
            self.timer.shorten(&slotted.slot, *position, left)?;
            slotted.begun_at = slotted.at;
        }
        self.timer.flush(now_ms)
    }

    /// Removes files of the timer log whose messages are gone; how many.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn retain(&mut self) -> Result<usize> {
        self.timer.retain(self.store.files().chain.start())
    }

    /// The check point as it was written last.
    #[must_use]
    pub fn point(&self) -> Point {
        *self.timer.point()
    }

    /// What waits, by topic.
    pub fn waiting(&self) -> impl Iterator<Item = (&str, Waiting)> {
        self.waiting.iter().map(|(topic, each)| (&**topic, *each))
    }

    /// Takes what waited when the file was written.
    pub fn set_waiting(&mut self, rows: impl IntoIterator<Item = (String, Waiting)>) {
        let rows = rows.into_iter();
        self.waiting = rows
            .map(|(topic, each)| (topic.into_boxed_str(), each))
            .collect();
    }

    /// Forgets what waits for a topic that is deleted.
    pub fn forget(&mut self, topic: &str) {
        self.changes += u64::from(self.waiting.remove(topic).is_some());
    }

    /// Messages that wait in the slots from `from_ms` to `to_ms`.
    #[must_use]
    pub fn waiting_between(&self, from_ms: i64, to_ms: i64) -> i64 {
        self.wheel().count(from_ms, Some(to_ms))
    }

    /// How far the timers are.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn progress(&self) -> Result<Progress> {
        let (log_bytes, wheel_bytes) = self.timer.sizes();
        let done = self.slotted.as_ref().map_or(0, |slotted| slotted.at - slotted.begun_at);
        Ok(Progress {
            read_ms: self.timer.read_ms(),
            queue_offset: self.timer.queue_offset(),
            behind: self.behind()?,
            waiting: self.wheel().count(self.timer.read_ms(), None) - done as i64,
            changes: self.changes,
            entered: self.entered,
            delivered: self.delivered,
            log_bytes,
            wheel_bytes,
        })
    }
}

fn is_timed(view: &RecordView<'_>) -> bool {
    view.topic == TIMER_TOPIC.as_bytes()
}

/// A message by its place; `None` when it is gone.
fn record_of<D: Disk, C: Clock>(
    store: &Store<D, C>,
    physical_offset: i64,
    len_bytes: i32,
) -> Result<Option<RecordBytes<D>>> {
    let (Ok(place), Ok(len)) = (u64::try_from(physical_offset), usize::try_from(len_bytes)) else {
        return Ok(None);
    };
    let found = match store.record_now(place, len) {
        Ok(Some(record)) => Ok(record),
        Ok(None) => store.record_at(place),
        Err(error) => Err(error),
    };
    match found {
        Ok(record) => Ok(Some(record)),
        Err(Error::NoRecord { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
