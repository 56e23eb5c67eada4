//! Rounds over check points: a twin of `python/mqcore/broker/pop.py` around the reviver of production. It leaves out
//! that a retry topic has to be made: everybody knows it.

use mqcore_fast_path::pop::revive::{Known, LIMIT_MAX, Reviver, Rules};

use super::tables::end_of;
use crate::group::sends::REVIVE_TOPIC;
use crate::group::world::World;
use crate::ledger::{Checked, demand};

/// The group of the offsets of check points.
const GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";
/// `reviveInterval`.
const REVIVE_MS: u64 = 300;
/// For how long a round waits for the dispatch, ms.
const DISPATCHED_MS: u64 = 5_000;

/// The rounds of one open store.
#[derive(Debug, Default)]
pub(crate) struct Revives {
    reviver: Option<Reviver>,
    waiting: u64,
    /// The round that is under way: up to which time the timers have brought everything, up to where the log
    /// has to be dispatched, until when that is waited for.
    waits: Option<(i64, u64, u64)>,
    next_ms: u64,
    /// Whether its clock was set.
    pub(crate) is_stepped: bool,
}

/// Everybody knows all names.
struct All;

impl Known for All {
    fn has_topic(&self, _name: &str) -> bool {
        true
    }

    fn has_group(&self, _name: &str) -> bool {
        true
    }
}

impl World {
    /// A step of a round over the check points of a master.
    pub(crate) fn revive(&mut self, broker: usize) -> Checked {
        let now_ms = self.now_ms;
        let has_pops = self.wants().is_some_and(|wants| wants.pops);
        if !has_pops || !self.nodes[broker].is_master() {
            return Ok(());
        }
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let end = end_of(&store, REVIVE_TOPIC, 0)?;
        let timers_ms = self.timers_are_at(broker)?;
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        let offsets = std::sync::Arc::clone(&served.path.shared.offsets);
        let offset = offsets.find(GROUP, REVIVE_TOPIC, 0).unwrap_or(-1);
        let revives = &mut served.revives;
        let timers_ms = match revives.waits {
            None => {
                let has_news = revives.waiting > 0 || offset < end - 1;
                if now_ms >= revives.next_ms && has_news {
                    revives.next_ms = now_ms + REVIVE_MS;
                    let end = store.replica().appended();
                    revives.waits = Some((timers_ms, end, now_ms + DISPATCHED_MS));
                }
                return Ok(());
            }
            Some((_, end, until_ms)) if store.replica().dispatched() < end => {
                if now_ms >= until_ms {
                    revives.waits = None;
                }
                return Ok(());
            }
            Some((timers_ms, _, _)) => timers_ms,
        };
        let reviver = revives.reviver.take();
        let reviver = reviver.filter(|reviver| reviver.done_offset() == offset);
        let mut reviver = reviver.unwrap_or_else(|| Reviver::behind(0, offset));
        let policy = std::sync::Arc::clone(&served.path.policy.broker);
        let rules = Rules {
            topic: REVIVE_TOPIC,
            timers_ms,
            broker: &policy.name,
            store_host: policy.store_host,
            has_retry_v2: policy.pops.has_retry_v2,
            limit: LIMIT_MAX,
        };
        let done = reviver.go_on(&store, rules, &All);
        served.revives.reviver = Some(reviver);
        let Some(done) = self.nodes[broker].twin_done(done)? else {
            return Ok(());
        };
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        self.watch_log(broker)?;
        demand!(
            done.skipped == 0,
            "broker {broker} passes over {} check points or messages, up to {}",
            done.skipped,
            done.done_offset
        );
        if done.end > 0 {
            let flushed = store.durability().flush();
            if self.nodes[broker].twin_done(flushed)?.is_none() {
                return Ok(());
            }
            self.plan_turn(broker, 0);
        }
        self.count.revived += done.revived;
        self.trace.line(|| {
            format!(
                "broker {broker} brings back {} pops, up to {}",
                done.revived, done.done_offset
            )
        });
        if let Some(served) = self.served(broker) {
            served.revives.waiting = done.waiting;
            if !done.has_more {
                served.revives.waits = None;
            }
            for landed in &done.landed {
                let queue = (
                    landed.topic.as_str(),
                    landed.group.as_str(),
                    landed.queue_id,
                );
                served.path.land(queue, landed.pop_time_ms, 1);
            }
        }
        if done.done_offset >= 0 {
            offsets.commit(GROUP, REVIVE_TOPIC, 0, done.done_offset);
        }
        Ok(())
    }

    /// Up to which time the timers of a broker have brought everything.
    fn timers_are_at(&mut self, broker: usize) -> Checked<i64> {
        let now_ms = self.nodes[broker].now_ms();
        let Some(opened) = self.nodes[broker].opened() else {
            return Ok(now_ms);
        };
        let Some(timers) = &opened.timers else {
            return Ok(now_ms);
        };
        let is_due = timers.is_due(now_ms).map_err(|error| error.to_string())?;
        if !is_due {
            return Ok(now_ms);
        }
        let progress = timers.progress().map_err(|error| error.to_string())?;
        Ok(now_ms.min(progress.read_ms))
    }
}
