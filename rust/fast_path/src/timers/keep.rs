//! What outlives a start, and what is reported: the files flushed, old ones removed, counts of what
//! waits (`TimerMetrics`, `TimerFlushService`).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::timer::Point;

use super::Timers;

/// Messages of one topic that wait, and since when that number holds (`TimerMetrics.Metric`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many; deletions are taken off.
    pub count: i64,
    /// When that changed, Unix ms.
    pub changed_ms: i64,
}

/// Topics whose timed messages are counted by name.
pub const MOVED_TOPICS_MAX: usize = 50_000;

/// Timed messages of one topic since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Entered.
    pub entered: u64,
    /// Delivered, or deleted before.
    pub left: u64,
}

impl Moved {
    /// So many came, or left where that is below zero.
    fn note(&mut self, by: i64) {
        if by > 0 {
            self.entered += by.unsigned_abs();
        } else {
            self.left += by.unsigned_abs();
        }
    }
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

impl<D: Disk, C: Clock> Timers<D, C> {
    /// Makes everything durable: messages that were delivered, then the files of the timers. Of a member of a
    /// group only once what was delivered is confirmed: another master may have it cut off the log, and who
    /// goes on behind it would never deliver it. Whether the files were written.
    ///
    /// # Durability
    /// Where they were, a start goes on where we are, also in the middle of a slot.
    ///
    /// # Errors
    /// [`Error::Io`](mqcore_engine::error::Error::Io); a start then goes on at the flush before.
    ///
    /// # Blocking
    /// Four files are synced.
    pub fn flush(&mut self, now_ms: i64) -> Result<bool> {
        self.store.durability().flush()?;
        let is_member = self.store.config().is_member;
        if is_member && self.store.replica().confirmed() < self.delivered_end {
            return Ok(false);
        }
        if let Some(slotted) = &mut self.slotted
            && slotted.at > slotted.begun_at
            && slotted.deletions.is_empty()
            && let Some(position) = slotted.positions.get(slotted.at)
        {
            let left = slotted.positions.len() - slotted.at;
            self.timer.shorten(&slotted.slot, *position, left)?;
            slotted.begun_at = slotted.at;
        }
        self.timer.flush(now_ms)?;
        Ok(true)
    }

    /// Removes files of the timer log whose messages are gone; how many.
    ///
    /// # Errors
    /// [`Error::Io`](mqcore_engine::error::Error::Io).
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

    /// Notes that so many of a topic came, or left where that is below zero.
    pub(super) fn count(&mut self, topic: &[u8], by: i64) {
        let Ok(topic) = std::str::from_utf8(topic) else {
            return;
        };
        let changed_ms = self.store.wall_ms();
        self.changes += 1;
        self.note_moved(topic, by);
        if let Some(waiting) = self.waiting.get_mut(topic) {
            waiting.count += by;
            waiting.changed_ms = changed_ms;
        } else {
            let waiting = Waiting {
                count: by,
                changed_ms,
            };
            self.waiting.insert(topic.into(), waiting);
        }
    }

    /// So many messages of a topic came, or left where that is below zero.
    fn note_moved(&mut self, topic: &str, by: i64) {
        if !self.moved.contains_key(topic) && self.moved.len() < MOVED_TOPICS_MAX {
            self.moved.insert(topic.into(), Moved::default());
        }
        if let Some(moved) = self.moved.get_mut(topic) {
            moved.note(by);
        }
    }

    /// What came and left since the start, by topic.
    pub fn moved(&self) -> impl Iterator<Item = (&str, Moved)> {
        self.moved.iter().map(|(topic, each)| (&**topic, *each))
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
    /// [`Error::Io`](mqcore_engine::error::Error::Io).
    pub fn progress(&self) -> Result<Progress> {
        let (log_bytes, wheel_bytes) = self.timer.sizes();
        let done = self
            .slotted
            .as_ref()
            .map_or(0, |slotted| slotted.at - slotted.begun_at);
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
