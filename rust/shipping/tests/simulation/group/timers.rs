//! Messages with a time of their own: a master's timers take them in and deliver them by the code of
//! production. How far they are is written down as `python/mqcore/broker/timer_files.py` does; a slave's timers
//! follow as by `replication/master_timers.py`. Not in every history: a wheel has a large file.

use std::path::Path;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::Disk;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_fast_path::timers::Timers;

use super::node::Role;
use super::world::{Event, World};
use crate::ledger::Checked;
use crate::options::ROOT;

/// How often timers are looked at, ms.
const LOOK_MS: u64 = 100;
/// Messages per look.
const LIMIT: usize = 8;

/// The timers of an open store.
pub(crate) type SimTimers = Timers<TwinDisk, ManualClock>;

/// How far the timers of a master were when a slave asked: that counts once so much is confirmed of the log of
/// this master, by its epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    read_ms: i64,
    queue_offset: u64,
    log_end: u64,
    epoch: i32,
}

impl World {
    /// A look at the timers of a broker.
    pub(crate) fn timers(&mut self, broker: usize) -> Checked {
        let opening = self.nodes[broker].opening;
        self.plan(LOOK_MS, Event::Timers(broker, opening));
        if !self.has_timers(broker)? {
            return Ok(());
        }
        match self.nodes[broker].opened().map(|opened| &opened.role) {
            Some(Role::Master { .. }) => self.tick(broker)?,
            Some(Role::Slave { .. }) => self.follow_timers(broker)?,
            Some(Role::Waiting) | None => {}
        }
        if self.dice.once_in(8) {
            self.keep_timers(broker)?;
        }
        Ok(())
    }

    /// Whether timers are open; they are opened with the first message, and by a later start at once: before
    /// a log grows again where it was cut.
    pub(crate) fn has_timers(&mut self, broker: usize) -> Checked<bool> {
        let now_ms = self.nodes[broker].now_ms();
        let known = &mut self.nodes[broker];
        let Some(opened) = known.opened().filter(|_| !known.twin.is_stopped()) else {
            return Ok(false);
        };
        if opened.timers.is_some() {
            return Ok(true);
        }
        let store = std::sync::Arc::clone(&opened.store);
        let (topic, queue_id) = super::sends::TIMER_QUEUE;
        let bounds = store.topics().bounds(topic.as_bytes(), queue_id);
        let has_some = known.twin_done(bounds)?.flatten();
        let kept = known.twin.stat(&Path::new(ROOT).join("timerwheel"));
        let are_kept = known.twin_done(kept)?.flatten().is_some();
        if !are_kept && has_some.is_none_or(|bounds| bounds.max == 0) {
            return Ok(false);
        }
        let timers = Timers::open(store, &known.twin, Path::new(ROOT), now_ms);
        let timers = known.twin_done(timers)?;
        let has_some = timers.is_some();
        if let Some(opened) = known.opened_mut() {
            opened.timers = timers;
        }
        Ok(has_some)
    }

    /// A master takes in what came, and delivers what is due.
    fn tick(&mut self, broker: usize) -> Checked {
        let now_ms = self.nodes[broker].now_ms();
        let Some(timers) = self.timers_of(broker) else {
            return Ok(());
        };
        let done = timers.tick(now_ms, LIMIT);
        let Some(done) = self.nodes[broker].twin_done(done)? else {
            return Ok(());
        };
        self.count.timed_delivered += done.delivered;
        self.watch_log(broker)?;
        if done.delivered > 0 || done.entered > 0 {
            self.trace.line(|| {
                let (count, entered) = (done.delivered, done.entered);
                format!("the timers of broker {broker} take in {entered} and deliver {count} at {now_ms}")
            });
            self.plan_turn(broker, 0);
        }
        Ok(())
    }

    /// A slave asks how far the timers of its master are, and goes on to there once the log has it all.
    fn follow_timers(&mut self, broker: usize) -> Checked {
        let Some(Role::Slave { master, .. }) = self.nodes[broker].opened().map(|one| &one.role)
        else {
            return Ok(());
        };
        let (master, now_ms) = (*master, self.nodes[broker].now_ms());
        let Some(epoch) = self.followed_epoch(broker) else {
            return Ok(());
        };
        if self.nodes[broker]
            .ahead
            .is_some_and(|ahead| ahead.epoch != epoch)
        {
            self.nodes[broker].ahead = None;
        }
        if self.nodes[broker].ahead.is_none() {
            let is_asked = self.dice.once_in(6)
                && !self.letters.is_cut(broker, master, self.now_ms)
                && !self.letters.is_cut(master, broker, self.now_ms)
                && self.nodes[master].is_master();
            let asked = self.nodes[master].opened().filter(|_| is_asked);
            let point = asked.and_then(|opened| Some(opened.timers.as_ref()?.point()));
            let log_end = asked.map(|opened| opened.store.replica().appended());
            if let (Some(point), Some(log_end)) = (point, log_end)
                && point.read_ms > 0
            {
                self.nodes[broker].ahead = Some(Ahead {
                    read_ms: point.read_ms,
                    queue_offset: u64::try_from(point.queue_offset).unwrap_or(0),
                    log_end,
                    epoch,
                });
            }
        }
        let known = &mut self.nodes[broker];
        let confirmed = known.store().map_or(0, |store| store.replica().confirmed());
        let Some(ahead) = known.ahead.filter(|ahead| ahead.log_end <= confirmed) else {
            return Ok(());
        };
        let Some(timers) = self.timers_of(broker) else {
            return Ok(());
        };
        let followed = timers.follow_master(ahead.read_ms, ahead.queue_offset, now_ms);
        let progress = followed.and_then(|done| Ok((done.has_more, timers.progress()?)));
        let Some((has_more, progress)) = self.nodes[broker].twin_done(progress)? else {
            return Ok(());
        };
        if progress.queue_offset > ahead.queue_offset {
            // It has to enter what ours have first.
            self.nodes[broker].ahead = None;
            self.count.timers_ahead += 1;
        } else if !has_more && progress.queue_offset == ahead.queue_offset {
            self.nodes[broker].ahead = None;
            self.count.timers_followed += 1;
            self.trace
                .line(|| format!("the timers of broker {broker} follow to {ahead:?}"));
        }
        Ok(())
    }

    /// Writes down how far the timers are, unless what they delivered is not confirmed.
    pub(crate) fn keep_timers(&mut self, broker: usize) -> Checked {
        let now_ms = self.nodes[broker].now_ms();
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        if let Some(timers) = self.timers_of(broker) {
            let kept = timers.flush(now_ms);
            let kept = self.nodes[broker].twin_done(kept)?;
            self.count.timers_not_kept += u64::from(kept == Some(false));
            self.trace
                .line(|| format!("the timers of broker {broker} are kept: {kept:?}"));
        }
        Ok(())
    }

    /// Whether timers have taken in and delivered everything.
    pub(crate) fn are_timers_done(&self, broker: usize) -> Checked<bool> {
        let Some(opened) = self.nodes[broker].opened() else {
            return Ok(false);
        };
        let Some(timers) = &opened.timers else {
            let (topic, queue_id) = super::sends::TIMER_QUEUE;
            let bounds = opened.store.topics().bounds(topic.as_bytes(), queue_id);
            let bounds = bounds.map_err(|error| error.to_string())?;
            return Ok(bounds.is_none_or(|bounds| bounds.max == 0));
        };
        let progress = timers.progress().map_err(|error| error.to_string())?;
        Ok(progress.behind == 0 && progress.waiting <= 0)
    }

    fn timers_of(&mut self, broker: usize) -> Option<&mut SimTimers> {
        self.nodes[broker].opened_mut()?.timers.as_mut()
    }
}
