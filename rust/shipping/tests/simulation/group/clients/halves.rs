//! Rounds over half messages: a twin of `python/mqcore/broker/transactions.py` around the check of production. It
//! leaves out giving up (`transactionCheckMax`): what nobody ends is asked about for ever.

use mqcore_fast_path::transactions::check::{Checked as Done, Checker, LIMIT_MAX, Rules};

use super::producing::{Todo, name_in};
use super::tables::end_of;
use crate::group::sends::{HALF_TOPIC, OP_TOPIC};
use crate::group::world::World;
use crate::ledger::{Checked, demand};

/// The group of the offsets of the check.
const GROUP: &str = "CID_RMQ_SYS_TRANS";
/// Age from which on a half message is asked about, ms.
pub(crate) const TIMEOUT_MS: i64 = 1_000;
const AGE_MAX_MS: i64 = 72 * 3_600_000;
/// For how long a round waits for the dispatch, ms.
const DISPATCHED_MS: u64 = 5_000;

/// The rounds of one open store.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    checker: Option<Checker>,
    /// The round that is under way: up to where the log has to be dispatched, until when that is waited for.
    waits: Option<(u64, u64)>,
    /// Where the half queue ended when the round began.
    until: Option<u64>,
    /// Where the log ended then.
    begun_at: u64,
    next_ms: u64,
}

impl World {
    /// A step of a round over the half messages of a master.
    pub(crate) fn check_halves(&mut self, broker: usize) -> Checked {
        let wants = self.wants().filter(|wants| wants.transactions);
        let Some(wants) = wants.filter(|_| self.nodes[broker].is_master()) else {
            return Ok(());
        };
        if !self.is_round_ready(broker, wants.check_ms)? {
            return Ok(());
        }
        let Some((done, ended)) = self.go_on_checking(broker)? else {
            return Ok(());
        };
        demand!(done.given_up.is_empty(), "{:?} are given up", done.given_up);
        self.ask_producers(broker, done, &ended)
    }

    /// Whether a round has all ends in the log, dispatched; begins one that is due.
    fn is_round_ready(&mut self, broker: usize, check_ms: u64) -> Checked<bool> {
        let now_ms = self.now_ms;
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(false);
        };
        let Some(served) = self.served(broker) else {
            return Ok(false);
        };
        match served.halves.waits {
            None if now_ms < served.halves.next_ms => Ok(false),
            None => {
                served.halves.next_ms = now_ms + check_ms;
                let is_all = served.path.write_op_messages();
                if self.nodes[broker].twin.is_stopped() || !is_all {
                    return Ok(false);
                }
                let end = store.replica().appended();
                if let Some(served) = self.served(broker) {
                    served.halves.waits = Some((end, now_ms + DISPATCHED_MS));
                    served.halves.until = None;
                    served.halves.begun_at = end;
                }
                self.watch_log(broker)?;
                Ok(false)
            }
            Some((end, until_ms)) if store.replica().dispatched() < end => {
                if now_ms >= until_ms {
                    served.halves.waits = None;
                }
                Ok(false)
            }
            Some(_dispatched) => Ok(true),
        }
    }

    /// Goes on with a round, and keeps its offsets; what it did, and of each copy whether it was ended
    /// meanwhile.
    fn go_on_checking(&mut self, broker: usize) -> Checked<Option<(Done, Vec<bool>)>> {
        let wall_ms = self.nodes[broker].now_ms();
        let half_offset = self.offset_of_halves(broker, HALF_TOPIC)?;
        let op_offset = self.offset_of_halves(broker, OP_TOPIC)?;
        let store = self.nodes[broker].store().cloned();
        let Some((store, served)) = store.zip(self.served(broker)) else {
            return Ok(None);
        };
        let checker = served.halves.checker.take();
        let checker = checker.filter(|checker| checker.is_at(half_offset, op_offset));
        let mut checker = checker.unwrap_or_else(|| Checker::at(0, half_offset, op_offset));
        let rules = Rules {
            now_ms: wall_ms,
            timeout_ms: TIMEOUT_MS,
            check_max: i32::MAX,
            age_max_ms: AGE_MAX_MS,
            can_give_up: true,
            limit: LIMIT_MAX,
        };
        let done = checker.go_on(&store, rules, served.halves.until);
        served.halves.checker = Some(checker);
        let Some(done) = self.nodes[broker].twin_done(done)? else {
            return Ok(None);
        };
        let Some(served) = self.served(broker) else {
            return Ok(None);
        };
        let ended = served.path.note_checked(&done);
        served.halves.until = Some(done.until);
        if !done.has_more {
            served.halves.waits = None;
        }
        if self.nodes[broker].twin.is_stopped() {
            return Ok(None);
        }
        self.watch_log(broker)?;
        if done.end > 0 {
            let flushed = store.durability().flush();
            if self.nodes[broker].twin_done(flushed)?.is_none() {
                return Ok(None);
            }
            self.save_soon(broker);
            self.plan_turn(broker, 0);
        }
        if let Some(served) = self.served(broker) {
            let offsets = &served.path.shared.offsets;
            offsets.commit(GROUP, HALF_TOPIC, 0, done.half_offset.cast_signed());
            offsets.commit(GROUP, OP_TOPIC, 0, done.note_offset.cast_signed());
        }
        Ok(Some((done, ended)))
    }

    /// Asks producers about what nobody has ended meanwhile.
    fn ask_producers(&mut self, broker: usize, done: Done, ended: &[bool]) -> Checked {
        let life = (broker, self.nodes[broker].opening);
        let copies = done.copies.into_iter().zip(ended);
        let open = copies.filter(|(_copied, is_ended)| !**is_ended);
        let asked: Vec<_> = open
            .filter_map(|(copied, _)| {
                let to = (copied.to, copied.physical_offset);
                Some((copied.from, to, copied.question?))
            })
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let begun_at = self
            .served(broker)
            .map_or(0, |served| served.halves.begun_at);
        let known = self.named_by_ops(broker, begun_at)?;
        for (from, (half_offset, physical_offset), question) in asked {
            let name = name_in(&question.record);
            demand!(
                !known.contains(&from.offset) && !known.contains(&from.first),
                "broker {broker} asks about {name:?}, which an op message of its log names: {from:?}"
            );
            self.count.questions += 1;
            self.trace
                .line(|| format!("broker {broker} asks about {name:?}, at {half_offset}"));
            if self.is_faulty && self.draw(|dice| dice.once_in(4)) == Some(true) {
                // The producer does not know yet, or nobody of it is connected.
                continue;
            }
            self.plan_end(Todo {
                broker,
                name,
                half_offset: half_offset.cast_signed(),
                physical_offset,
                asked_by: Some(life),
            });
        }
        Ok(())
    }

    /// How far the check is in one of its topics.
    fn offset_of_halves(&mut self, broker: usize, topic: &str) -> Checked<u64> {
        let known = self
            .served(broker)
            .and_then(|served| served.path.shared.offsets.find(GROUP, topic, 0));
        Ok(known
            .and_then(|known| u64::try_from(known).ok())
            .unwrap_or(0))
    }

    /// Whether every half message of a master's log is ended, and its check knows it.
    pub(crate) fn are_halves_ended(&mut self, master: usize) -> Checked<bool> {
        let Some(store) = self.nodes[master].store().cloned() else {
            return Ok(false);
        };
        let end = end_of(&store, HALF_TOPIC, 0)?;
        let offset = self.offset_of_halves(master, HALF_TOPIC)?;
        Ok(offset.cast_signed() == end && self.open_halves(master).is_empty())
    }
}
