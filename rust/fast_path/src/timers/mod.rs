//! The steps of messages with a time of their own: from the queue of the wheel's topic into the
//! wheel, and when their slot is due out of it into their topic (`TimerMessageStore`); on a slave into
//! the wheel alone (`shouldRunningDequeue` off). Knows no timetable: whoever has one calls, from any
//! thread, one at a time.

use std::path::Path;
use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Unit as QueueUnit;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::Store;
use mqcore_engine::timer::{Entered, Entry, Timer, TimerConfig, Unit, Wheel};
use mqcore_record::{CrcCheck, RecordView, java_hash_bytes};

use crate::moved::moved;
use crate::names::{TIMER_QUEUE, TIMER_TOPIC};

mod fields;
mod keep;
mod slots;

use fields::{TIME_DIGITS, TimedFields, properties_of};
pub use keep::{MOVED_TOPICS_MAX, Moved, Progress, Waiting};
use slots::Slotted;

/// Messages delivered per call at the most, some 40 ms of work: what a step brings goes in one.
pub const LIMIT_MAX: usize = 32_768;
/// Messages entered per call at the most: some 20 ms of work, before what is due.
const ENTER_MAX: usize = 4_096;
/// Calls that may pass until the clock is followed although messages wait to be entered: some 50 ms
/// of work, so that a step ends in time whatever comes.
const HELD_MAX: u32 = 8;
/// `TIMER_ENQUEUE_MS` of a message that was due before it could be entered.
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

/// The timers of a store.
pub struct Timers<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    timer: Timer<D>,
    slotted: Option<Slotted<D>>,
    waiting: HashMap<Box<str>, Waiting>,
    /// What came into the wheel and left it since the start, by topic.
    moved: HashMap<Box<str>, Moved>,
    changes: u64,
    entered: u64,
    delivered: u64,
    /// End of what was delivered last in the log.
    delivered_end: u64,
    units: Vec<QueueUnit>,
    now_ms: i64,
    /// Calls since the clock was followed last.
    held: u32,
    /// What goes around again and is not entered yet.
    rolling: Option<Rolling>,
}

/// Messages that were stored in the queue again. The clock is not followed beyond the first of their
/// times before they are entered: after an outage that took longer than a round a message would be
/// delivered at once, and what deletes it would come too late.
#[derive(Debug, Clone, Copy)]
struct Rolling {
    /// The queue offset behind the last of them.
    end_offset: u64,
    /// The first of their times, ms.
    first_ms: i64,
}

/// A message of the queue on its way into the wheel.
struct Queued<'a> {
    entry: Entry,
    real_topic: &'a [u8],
    fields: &'a TimedFields<'a>,
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
        // The first start begins where the first message does: what is due meanwhile is entered
        // all the same, with what deletes it.
        let is_first = disk.stat(&root.join("timerwheel"))?.is_none();
        let began_ms = first_stored_ms(&store)?.filter(|first_ms| is_first && *first_ms < now_ms);
        let begin_ms = began_ms.unwrap_or(now_ms);
        let messages_end = store.replica().appended();
        let mut timer = Timer::open(disk, root, &config, begin_ms, messages_end, &mut whole)?;
        let bounds = store.topics().bounds(TIMER_TOPIC.as_bytes(), TIMER_QUEUE)?;
        let (min, max) = bounds.map_or((0, 0), |bounds| (bounds.min, bounds.max));
        let (known, opened) = (timer.queue_offset(), timer.opened());
        timer.set_queue_offset(known.clamp(min, max));
        if timer.queue_offset() != known || opened.cut_bytes > 0 {
            // What was entered beyond a cut is kept as gone: other messages come to those positions, and
            // the next start must not take them for entered.
            timer.flush(now_ms)?;
        }
        if opened.is_rebuilt {
            let text = "the timer wheel did not fit its log: it was made again from the log";
            store.files().notices.warn(text);
        }
        Ok(Self {
            store,
            timer,
            slotted: None,
            waiting: HashMap::new(),
            moved: HashMap::new(),
            changes: 0,
            entered: 0,
            delivered: 0,
            delivered_end: 0,
            units: Vec::new(),
            now_ms,
            held: 0,
            rolling: None,
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
        let is_half_done = self.slotted.as_ref().is_some_and(|slotted| slotted.at > 0);
        let is_due = is_half_done || self.behind()? > 0 || self.timer.is_due(now_ms);
        Ok(is_due || self.wants_reading(now_ms))
    }

    /// Messages in the queue that are not entered.
    fn behind(&self) -> Result<u64> {
        let bounds = self
            .store
            .topics()
            .bounds(TIMER_TOPIC.as_bytes(), TIMER_QUEUE)?;
        let max = bounds.map_or(0, |bounds| bounds.max);
        Ok(max.saturating_sub(self.timer.queue_offset()))
    }

    /// Enters what came, and delivers what is due: each at most `limit` messages, which stays below
    /// [`LIMIT_MAX`].
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
        self.now_ms = now_ms;
        // A slot that is half delivered is ended first, whatever the time is meanwhile.
        let may_turn = self.slotted.as_ref().is_none_or(|slotted| slotted.at == 0);
        if may_turn && now_ms < self.timer.write_ms() {
            self.timer.turn(now_ms)?;
        }
        // Before the step ends: a message that deletes another one must be in its slot by then.
        let is_far_behind = self.timer.is_far_behind();
        let entered = if is_far_behind {
            Ok(())
        } else {
            self.enter_some(limit.min(ENTER_MAX), &mut done)
        };
        self.held += 1;
        if is_far_behind || self.held > HELD_MAX || self.behind()? == 0 {
            self.held = 0;
            if may_turn {
                self.follow(now_ms)?;
            }
        }
        // What cannot be entered keeps nothing from being delivered.
        match self.deliver_some(limit, &mut done).and(entered) {
            Err(error) if done == Ticked::default() => return Err(error),
            // What was done counts; the next call meets the error again.
            Err(_later) => {}
            Ok(()) => done.has_more |= self.behind()? > 0 && !is_far_behind,
        }
        // The clock is not followed yet.
        let is_behind = self.timer.write_ms() < self.wheel().floored(now_ms);
        done.has_more |= self.rolling.is_some() && is_behind;
        self.entered += done.entered;
        self.delivered += done.delivered;
        Ok(done)
    }

    /// Follows the clock, but not beyond what goes around again and is not entered yet.
    fn follow(&mut self, now_ms: i64) -> Result<()> {
        let entered = self.timer.queue_offset();
        self.rolling = self.rolling.filter(|each| each.end_offset > entered);
        let until_ms = match self.rolling {
            Some(rolling) if now_ms >= self.timer.read_ms() => {
                now_ms.min(rolling.first_ms.max(self.timer.read_ms()))
            }
            _ => now_ms,
        };
        self.timer.turn(until_ms)
    }

    fn enter_some(&mut self, limit: usize, done: &mut Ticked) -> Result<()> {
        self.enter_until(u64::MAX, limit, done, Self::enter)
    }

    /// Takes up to `limit` messages before the queue offset `until` from the queue.
    fn enter_until(
        &mut self,
        until: u64,
        limit: usize,
        done: &mut Ticked,
        enter: fn(&mut Self, &RecordView<'_>, &Queued<'_>, &mut Ticked) -> Result<()>,
    ) -> Result<()> {
        let topic = TIMER_TOPIC.as_bytes();
        let Some(bounds) = self.store.topics().bounds(topic, TIMER_QUEUE)? else {
            return Ok(());
        };
        let from = self.timer.queue_offset().clamp(bounds.min, bounds.max);
        let end = bounds.max.min(until);
        if from >= end {
            return Ok(());
        }
        let limit = limit.min(usize::try_from(end - from).unwrap_or(usize::MAX));
        let mut units = std::mem::take(&mut self.units);
        units.clear();
        let queues = self.store.queues();
        let read = queues.read(topic, TIMER_QUEUE, from, limit, &mut units);
        let entered = read.and_then(|_read| {
            for (at, unit) in units.iter().enumerate() {
                self.enter_queued(unit, done, enter)?;
                done.entered += 1;
                self.timer.set_queue_offset(from + at as u64 + 1);
            }
            Ok(())
        });
        done.has_more |= units.len() == limit && from + limit as u64 != until;
        self.units = units;
        match entered {
            Err(error) if done.entered == 0 => Err(error),
            _ => Ok(()),
        }
    }

    fn enter_queued(
        &mut self,
        queued: &QueueUnit,
        done: &mut Ticked,
        enter: fn(&mut Self, &RecordView<'_>, &Queued<'_>, &mut Ticked) -> Result<()>,
    ) -> Result<()> {
        let (offset, len) = (queued.physical_offset, queued.size_bytes);
        let record = if queued.is_blank() {
            None
        } else {
            record_of(&self.store, offset, len)?
        };
        // What is no record any more would block the queue for ever.
        let Some(Ok(view)) = record.as_ref().map(|record| record.view(CrcCheck::Skip)) else {
            done.skipped += 1;
            return Ok(());
        };
        let fields = TimedFields::of(view.properties);
        let (Some(real_topic), Some(due_ms)) = (fields.real_topic, fields.out_ms) else {
            done.skipped += 1;
            return Ok(());
        };
        let entry = Entry {
            due_ms,
            physical_offset: offset,
            len_bytes: len,
            topic_hash: java_hash_bytes(real_topic),
            is_delete: fields.deletes.is_some(),
        };
        let queued = Queued {
            entry,
            real_topic,
            fields: &fields,
        };
        enter(self, &view, &queued, done)
    }

    fn enter(
        &mut self,
        view: &RecordView<'_>,
        queued: &Queued<'_>,
        done: &mut Ticked,
    ) -> Result<()> {
        let Queued {
            entry, real_topic, ..
        } = queued;
        match self.timer.enter(entry)? {
            Entered::Waits => self.count(real_topic, if entry.is_delete { -1 } else { 1 }),
            Entered::Due if entry.is_delete => done.deleted += 1,
            Entered::Due => {
                let step_ms = self.wheel().step_ms();
                let late_ms = self.store.wall_ms() - entry.due_ms - step_ms;
                let mut text = properties_of(view, NEVER_ENTERED, None);
                self.put(view, queued.fields, &mut text, false, done)?;
                done.late_ms = late_ms;
            }
        }
        Ok(())
    }

    /// Goes on to where the timers of the master were at one moment: the slots before `read_ms` were
    /// delivered, and so was what is before `queue_offset` in the queue and was due by then. The rest
    /// of that is entered, [`ENTER_MAX`] messages a call at the most.
    ///
    /// To be called only when the log has everything that the master had delivered at that moment:
    /// what is passed over here is delivered by nobody any more.
    ///
    /// Nothing is done while the master has entered less than we have: it has not delivered the rest. What
    /// goes around the wheel again is in the queue twice for as long as the master has not stored it again:
    /// a slave that takes its place in that time may deliver it twice.
    ///
    /// # Durability
    /// That of memory, until [`Timers::flush`].
    ///
    /// # Errors
    /// What kept the first message of the call from being entered; the next call goes on there.
    ///
    /// # Blocking
    /// For the disk, where messages are cold.
    pub fn follow_master(
        &mut self,
        read_ms: i64,
        queue_offset: u64,
        now_ms: i64,
    ) -> Result<Ticked> {
        let mut done = Ticked::default();
        if self.timer.queue_offset() > queue_offset {
            return Ok(done);
        }
        self.timer.follow(read_ms, now_ms)?;
        self.slotted = None;
        if !self.timer.is_far_behind() {
            self.enter_until(queue_offset, ENTER_MAX, &mut done, Self::enter_undelivered)?;
        }
        self.entered += done.entered;
        Ok(done)
    }

    fn enter_undelivered(
        &mut self,
        _view: &RecordView<'_>,
        queued: &Queued<'_>,
        done: &mut Ticked,
    ) -> Result<()> {
        // How many wait is taken from the master.
        if self.timer.enter_undelivered(&queued.entry)? == Entered::Due {
            done.delivered += 1;
        }
        Ok(())
    }

    /// Stores a message in its topic, or in that of the wheel again.
    fn put(
        &mut self,
        view: &RecordView<'_>,
        fields: &TimedFields<'_>,
        text: &mut [u8],
        is_roll: bool,
        done: &mut Ticked,
    ) -> Result<()> {
        let topic = fields
            .real_topic
            .and_then(|topic| std::str::from_utf8(topic).ok());
        let (target, queue_id) = match (topic, fields.real_queue) {
            _ if is_roll => (TIMER_TOPIC, TIMER_QUEUE),
            (Some(topic), Some(queue_id)) if queue_id >= 0 => (topic, queue_id),
            _ => {
                done.skipped += 1;
                return Ok(());
            }
        };
        let now = self.store.wall_ms().to_string();
        if let Some(end) = text.len().checked_sub(TIME_DIGITS + 1)
            && now.len() == TIME_DIGITS
        {
            text[end..end + TIME_DIGITS].copy_from_slice(now.as_bytes());
        }
        let message = moved(view, target, queue_id, text);
        let appended = self.store.writer().append(&message);
        if let Ok(appended) = &appended {
            self.delivered_end = appended.end();
        }
        match appended {
            Ok(appended) if is_roll => {
                done.rolled += 1;
                let due_ms = fields.out_ms.unwrap_or(i64::MAX);
                let first_ms = self
                    .rolling
                    .map_or(due_ms, |each| each.first_ms.min(due_ms));
                let end_offset = appended.queue_offset + 1;
                self.rolling = Some(Rolling {
                    end_offset,
                    first_ms,
                });
            }
            Ok(_appended) => done.delivered += 1,
            // Its topic has a name that no topic may have, or its properties do not fit any more:
            // it would block the slot for ever.
            Err(Error::Message(_)) => done.skipped += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// When the oldest message in the queue of the wheel's topic was stored.
fn first_stored_ms<D: Disk, C: Clock>(store: &Store<D, C>) -> Result<Option<i64>> {
    let topic = TIMER_TOPIC.as_bytes();
    let Some(bounds) = store.topics().bounds(topic, TIMER_QUEUE)? else {
        return Ok(None);
    };
    let mut units = Vec::with_capacity(1);
    store
        .queues()
        .read(topic, TIMER_QUEUE, bounds.min, 1, &mut units)?;
    let Some(unit) = units.first().filter(|unit| !unit.is_blank()) else {
        return Ok(None);
    };
    let record = record_of(store, unit.physical_offset, unit.size_bytes)?;
    let view = record.as_ref().map(|record| record.view(CrcCheck::Skip));
    Ok(view.and_then(|view| Some(view.ok()?.store_timestamp_ms)))
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
    let (Ok(appended), Ok(len)) = (u64::try_from(physical_offset), usize::try_from(len_bytes))
    else {
        return Ok(None);
    };
    let found = match store.reader().record_now(appended, len) {
        Ok(Some(record)) => Ok(record),
        Ok(None) => store.reader().record_at(appended),
        Err(error) => Err(error),
    };
    match found {
        Ok(record) => Ok(Some(record)),
        Err(Error::NoRecord { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
