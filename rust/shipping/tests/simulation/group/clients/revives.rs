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
/// What was dispatched so late may have come to the timers behind the time that they are at (`_STALLED_S`), ms.
const STALLED_MS: u64 = 500;
/// By then they have brought it (`_BROUGHT_S`), ms.
const BROUGHT_MS: u64 = 2_000;

/// The rounds of one open store.
#[derive(Debug, Default)]
pub(crate) struct Revives {
    reviver: Option<Reviver>,
    waiting: u64,
    /// The round that is under way.
    step: Step,
    next_ms: u64,
    resume_ms: u64,
    /// Whether its clock was set.
    pub(crate) is_stepped: bool,
}

/// How far a round is.
#[derive(Debug, Default, Clone, Copy)]
enum Step {
    #[default]
    Idle,
    /// It waits until the timers can have everything that was stored when it began.
    Begun { at_ms: u64, end: u64 },
    /// It waits until what the timers have brought can be read.
    Brought {
        timers_ms: i64,
        end: u64,
        until_ms: u64,
    },
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
        let has_pops = self.wants().is_some_and(|wants| wants.pops);
        if !has_pops || !self.nodes[broker].is_master() {
            return Ok(());
        }
        match self.timers_of_round(broker)? {
            Some(timers_ms) => self.bring_back(broker, timers_ms),
            None => Ok(()),
        }
    }

    /// Up to which time a round may look, once everything is there for it; begins one that is due.
    fn timers_of_round(&mut self, broker: usize) -> Checked<Option<i64>> {
        let now_ms = self.now_ms;
        let timers_ms = self.timers_are_at(broker)?;
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(None);
        };
        let end_of_queue = end_of(&store, REVIVE_TOPIC, 0)?;
        let (appended, dispatched) = (store.replica().appended(), store.replica().dispatched());
        let Some(served) = self.served(broker) else {
            return Ok(None);
        };
        let known = served.path.shared.offsets.find(GROUP, REVIVE_TOPIC, 0);
        let revives = &mut served.revives;
        match revives.step {
            Step::Idle => {
                if now_ms >= revives.next_ms {
                    if now_ms > revives.next_ms + STALLED_MS {
                        // Nobody has looked for some time: it may have stood still.
                        revives.resume_ms = now_ms + BROUGHT_MS;
                    }
                    revives.next_ms = now_ms + REVIVE_MS;
                    revives.step = Step::Begun {
                        at_ms: now_ms,
                        end: appended,
                    };
                }
                Ok(None)
            }
            Step::Begun { at_ms, end } => {
                if dispatched < end && now_ms < at_ms + DISPATCHED_MS {
                    return Ok(None);
                }
                revives.step = Step::Idle;
                if now_ms > at_ms + STALLED_MS {
                    revives.resume_ms = now_ms + BROUGHT_MS;
                }
                let has_news = revives.waiting > 0 || known.unwrap_or(-1) < end_of_queue - 1;
                if dispatched >= end && now_ms >= revives.resume_ms && has_news {
                    revives.step = Step::Brought {
                        timers_ms,
                        end: appended,
                        until_ms: now_ms + DISPATCHED_MS,
                    };
                }
                Ok(None)
            }
            Step::Brought { end, until_ms, .. } if dispatched < end => {
                if now_ms >= until_ms {
                    revives.step = Step::Idle;
                }
                Ok(None)
            }
            Step::Brought { timers_ms, .. } => Ok(Some(timers_ms)),
        }
    }

    /// Goes on with a round.
    fn bring_back(&mut self, broker: usize, timers_ms: i64) -> Checked {
        let store = self.nodes[broker].store().cloned();
        let Some((store, served)) = store.zip(self.served(broker)) else {
            return Ok(());
        };
        let offsets = std::sync::Arc::clone(&served.path.shared.offsets);
        let offset = offsets.find(GROUP, REVIVE_TOPIC, 0).unwrap_or(-1);
        let reviver = served.revives.reviver.take();
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
            let (revived, to) = (done.revived, done.done_offset);
            format!("broker {broker} brings back {revived} pops, up to {to}")
        });
        if let Some(served) = self.served(broker) {
            served.revives.waiting = done.waiting;
            if !done.has_more {
                served.revives.step = Step::Idle;
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
