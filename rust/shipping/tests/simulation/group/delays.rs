//! Delayed messages: a master delivers what is due by the code of production; how far it has delivered is
//! written down as `python/mqcore/broker/delay_file.py` does, and copied as by `MetadataSync`.

use mqcore_fast_path::delay::deliver_due;

use super::member::Order;
use super::node::{Node, Role};
use super::options::LEVELS;
use super::world::{Event, World};
use crate::ledger::{Checked, demand};

/// How often a level is looked at, ms.
const LOOK_MS: u64 = 300;
/// Messages per look.
const LIMIT: usize = 8;

/// What a slave has heard of its master's deliveries: they count once so much is confirmed to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    delays: [u64; LEVELS],
    end: u64,
    /// Of the log of this master.
    epoch: i32,
}

impl World {
    /// Delivers what is due.
    pub(crate) fn delays(&mut self, broker: usize) -> Checked {
        let (opening, now_ms) = (self.nodes[broker].opening, self.nodes[broker].now_ms());
        self.plan(LOOK_MS, Event::Delays(broker, opening));
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        for level in 0..LEVELS {
            let offset = self.nodes[broker].delays[level];
            let number = level as i32 + 1;
            let delivered = deliver_due(&store, number, offset, now_ms, LIMIT);
            if self.nodes[broker].twin.is_stopped() {
                return Ok(());
            }
            let delivered = delivered.map_err(|error| format!("level {number}: {error}"))?;
            demand!(
                delivered.skipped == 0,
                "broker {broker} passes over messages of level {number} from {offset} to {}",
                delivered.next_offset
            );
            self.count.delivered += delivered.count;
            let known = &mut self.nodes[broker];
            known.delays[level] = delivered.next_offset;
            known.delivered_to = known.delivered_to.max(delivered.end);
            self.watch_log(broker)?;
            if delivered.count > 0 {
                self.trace.line(|| {
                    let (to, end) = (delivered.next_offset, delivered.end);
                    format!(
                        "broker {broker} delivers level {number} from {offset} to {to}, up to {end}"
                    )
                });
                self.plan_turn(broker, 0);
            }
        }
        Ok(())
    }

    /// Writes down how far a master has delivered, once its log is flushed and confirmed so far.
    pub(crate) fn keep_delays(&mut self, broker: usize) {
        let known = &mut self.nodes[broker];
        let Some(store) = known.store() else {
            return;
        };
        let flushed = store.files().positions.flushed.position();
        let kept_end = flushed.min(store.replica().confirmed());
        if known.is_master() && kept_end >= known.delivered_to {
            known.write_delays(known.delays, kept_end);
        }
    }

    /// Reads how far it had delivered, when a store was opened.
    pub(crate) fn load_delays(&mut self, broker: usize) {
        let known = &mut self.nodes[broker];
        if let Some(opened) = known.opened() {
            let log_end = opened.store.replica().appended();
            let kept = known.kept_delays.newest(&opened.epochs.table(), log_end);
            known.delays = kept.copied().unwrap_or_default();
        }
    }

    /// The epoch of the master that a slave follows; `None` where its log has a later one (`MasterCalls.address`).
    pub(crate) fn followed_epoch(&self, broker: usize) -> Option<i32> {
        let last = self.nodes[broker].opened()?.epochs.table().last_epoch();
        match self.nodes[broker].process.as_ref()?.followed {
            Some(Order::Follow { epoch, .. }) => Some(epoch).filter(|epoch| *epoch >= last),
            _ => None,
        }
    }

    /// A slave asks how far its master has delivered, and takes what it has heard before. It writes that down
    /// once its log is durable, as `ConfigPersistence.follow_delays` does.
    pub(crate) fn follow_delays(&mut self, broker: usize) -> Checked {
        let epoch = self.followed_epoch(broker);
        let Some((opened, epoch)) = self.nodes[broker].opened().zip(epoch) else {
            return Ok(());
        };
        let Role::Slave {
            master,
            link: Some(_),
        } = &opened.role
        else {
            self.nodes[broker].heard = None;
            return Ok(());
        };
        let (master, store) = (*master, std::sync::Arc::clone(&opened.store));
        let confirmed = opened.store.replica().confirmed();
        if let Some(heard) = self.nodes[broker].heard
            && heard.end <= confirmed
            && heard.epoch == epoch
        {
            let flushed = store.durability().flush();
            let known = &mut self.nodes[broker];
            if known.twin_done(flushed)?.is_none() {
                return Ok(());
            }
            known.delays = heard.delays;
            known.write_delays(heard.delays, heard.end);
            known.heard = None;
        }
        self.nodes[broker].heard = self.nodes[broker].heard.filter(|one| one.epoch == epoch);
        let is_cut = self.letters.is_cut(broker, master, self.now_ms);
        if self.nodes[broker].heard.is_none()
            && !is_cut
            && self.nodes[master].is_master()
            && self.dice.once_in(4)
            && let Some(store) = self.nodes[master].store()
        {
            let end = store.replica().appended();
            let delays = self.nodes[master].delays;
            self.nodes[broker].heard = Some(Heard { delays, end, epoch });
        }
        Ok(())
    }
}

impl Node {
    /// Writes down how far is delivered, which rests on the log up to `end`.
    fn write_delays(&mut self, delays: [u64; LEVELS], end: u64) {
        let table = self.opened().map(|opened| opened.epochs.table());
        if let Some(table) = table
            && self.kept_delays.last() != Some(&delays)
        {
            self.kept_delays.add(&table, end, delays);
        }
    }
}
