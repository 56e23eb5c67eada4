//! The end of a history of a group: faults stop, everything heals, a master is there, every broker comes into
//! the set, all delayed messages are delivered; then all logs and queues are compared whole.

use mqcore_replica::EpochEntry;
use mqcore_replica::controller::{AskedBy, Code};

use super::node::Role;
use super::sends::{LATER_TOPIC, SCHEDULE_TOPIC, TIMED_TOPIC, TIMER_QUEUE};
use super::world::{Event, World};
use crate::ledger::{Checked, demand};

/// For how long sends go on after the last fault, ms.
const LOAD_AFTER_MS: u64 = 2_000;
/// After so long without a master a person elects one.
const BY_HAND_AFTER_MS: u64 = 40_000;
/// Everybody must be in sync then, ms.
const SETTLE_MAX_MS: u64 = 400_000;
/// What is delayed is delivered then, with the longest level and a clock that lags.
const DELAYS_MS: u64 = 6_000;
/// A message is delivered within so long after its time.
const LATE_MS: i64 = 2_000;

impl World {
    /// No fault any more.
    pub(crate) fn heal(&mut self) {
        self.trace.line(|| "everything heals".to_owned());
        self.is_faulty = false;
        self.network.heal();
        self.letters.heal();
        for controller in 0..self.options.controllers {
            let one = &mut self.controllers.all[controller];
            one.cut_until_ms = 0;
            one.paused_until_ms = 0;
            if !one.twin.is_stopped() {
                one.twin.heal();
            }
            self.plan(0, Event::StartController(controller));
        }
        for broker in 0..self.nodes.len() {
            self.nodes[broker].paused_until_ms = 0;
            if !self.nodes[broker].twin.is_stopped() {
                self.nodes[broker].twin.heal();
            }
            self.plan(0, Event::Start(broker));
            self.plan_turn(broker, 0);
        }
    }

    /// A person moves the role to a broker of the set, as `mqadmin electMaster` does.
    pub(crate) fn hand_over(&mut self) -> Checked {
        let Some(leader) = self.controllers.leader else {
            return Ok(());
        };
        let Some(view) = self.view().filter(|view| !view.in_sync.is_empty()) else {
            return Ok(());
        };
        let to = self.dice.pick(&view.in_sync);
        self.trace.line(|| format!("a person wants {to} as master"));
        let done = self.held(leader, AskedBy::Administrator(to), false)?;
        let is_done = done.is_some_and(|answer| answer.code == Code::Success);
        self.count.handed_over += u64::from(is_done);
        Ok(())
    }

    /// Goes on until every broker is in sync and has what the master has.
    pub(crate) fn settle(&mut self) -> Checked {
        let load_until_ms = self.now_ms + LOAD_AFTER_MS;
        let until_ms = self.now_ms + SETTLE_MAX_MS;
        let mut without_since_ms = self.now_ms;
        let mut settled_since_ms = None;
        while self.now_ms < until_ms {
            self.is_loaded = self.now_ms < load_until_ms;
            self.step()?;
            if self.has_master() {
                without_since_ms = self.now_ms;
            } else if self.now_ms - without_since_ms > BY_HAND_AFTER_MS {
                without_since_ms = self.now_ms;
                self.elect_by_hand()?;
            }
            if self.is_loaded || !self.is_settled() {
                settled_since_ms = None;
                continue;
            }
            let since_ms = *settled_since_ms.get_or_insert(self.now_ms);
            if self.now_ms - since_ms > DELAYS_MS {
                if self.are_delivered()? {
                    self.count.joined += self.options.brokers as u64;
                    self.count.learners += u64::from(self.options.learner.is_some());
                    return Ok(());
                }
                self.turn_clocks();
            }
        }
        let state = |broker: usize| {
            let node = &self.nodes[broker];
            let role = node.opened().map(|opened| match &opened.role {
                Role::Waiting => "waits".to_owned(),
                Role::Master { members, .. } => format!("leads {:?}", members.lock()),
                Role::Slave { master, link } => {
                    format!("follows {master}, connected {}", link.is_some())
                }
            });
            let member = node.process.as_ref().map(|process| &process.member);
            let end = self.ledger.copies[broker].end();
            format!("broker {broker} with {end}: {role:?} {member:?}")
        };
        let states: Vec<String> = (0..self.nodes.len()).map(state).collect();
        Err(format!(
            "{SETTLE_MAX_MS} ms after the last fault not every broker is in sync: {:?}\n{}\n{}",
            self.view(),
            self.left_open(),
            states.join("\n")
        ))
    }

    /// Whether somebody leads the newest epoch: who led an older one, and was paused, may not know yet.
    fn has_master(&self) -> bool {
        let Some(view) = self.controllers.view() else {
            return false;
        };
        self.nodes.iter().any(|node| {
            let process = node.process.as_ref();
            node.is_master() && process.is_some_and(|one| one.member.epoch >= view.master_epoch)
        })
    }

    /// Nobody of the set will come back: a person elects the broker that has most.
    fn elect_by_hand(&mut self) -> Checked {
        let (Some(leader), Some(view)) = (self.controllers.leader, self.view()) else {
            return Ok(());
        };
        let ids = view.in_sync.iter().chain(&view.eligible);
        let is_held = |id: &i64| self.nodes.iter().any(|node| node.identity == Some(*id));
        let held: Vec<i64> = ids.copied().filter(is_held).collect();
        demand!(
            held.is_empty(),
            "nobody is elected, and {held:?} may be: {view:?}"
        );
        let voters = (0..self.nodes.len()).filter(|one| self.options.learner != Some(*one));
        let most = voters.max_by_key(|broker| self.ledger.copies[*broker].agrees);
        let Some((broker, id)) = most.and_then(|one| Some((one, self.nodes[one].identity?))) else {
            return Ok(());
        };
        self.count.by_hand += 1;
        self.trace
            .line(|| format!("a person elects broker {broker}"));
        if self.ledger.copies[broker].agrees < self.ledger.promised_end() {
            self.give_up_end(broker)?;
        }
        self.give_up_other_epochs(broker);
        self.held(leader, AskedBy::Administrator(id), true)
            .map(|_| ())
    }

    /// Others are cut where masters have written to their logs that did not write to that of `broker`, which is
    /// to lead although it may lack something. Its log may be the same there by chance: two masters deliver a
    /// delayed message each, and give it the time of the last message before, because their clocks lag.
    pub(crate) fn give_up_other_epochs(&mut self, broker: usize) {
        let entries_of = |node: usize| {
            let opened = self.nodes[node].opened()?;
            Some(opened.epochs.table().entries().to_vec())
        };
        let Some(own) = entries_of(broker) else {
            return;
        };
        // A master that has not heard of it may count what it had reported, and promise that anew.
        let owed = self.ledger.copies[broker].owed;
        let counted_to = self.ledger.promised_end().max(owed);
        for other in (0..self.nodes.len()).filter(|other| *other != broker) {
            let Some(others) = entries_of(other) else {
                continue;
            };
            let Some(last) = own.iter().rev().find(|entry| others.contains(entry)) else {
                continue;
            };
            let end_of = |node: usize, entries: &[EpochEntry]| {
                let next = entries.iter().find(|entry| entry.epoch > last.epoch);
                next.map_or(self.ledger.copies[node].end(), |next| next.start)
            };
            let from = end_of(broker, &own).min(end_of(other, &others));
            if from < counted_to {
                self.ledger.give_up_of(other, from);
            }
        }
    }

    /// A log that has nothing in common with its master's, or that asks for what its master has removed, is
    /// filled anew: a person does what the reason of its link asks for. With the log its id is set aside.
    pub(crate) fn empty(&mut self, broker: usize) -> Checked {
        self.trace
            .line(|| format!("a person empties the store of broker {broker}"));
        self.nodes[broker].identity = None;
        self.note_holders()?;
        self.ledger.emptied(broker)?;
        self.count.emptied += 1;
        self.renew_disk(broker)
    }

    /// What was sent by a clock that was ahead is due now.
    fn turn_clocks(&mut self) {
        let until_ms = self.due_max_ms.saturating_add(LATE_MS);
        for node in &self.nodes {
            if self.options.has_timers && node.now_ms() < until_ms {
                node.time.clock.set_wall_ms(until_ms);
            }
        }
    }

    fn is_settled(&self) -> bool {
        let Some(view) = self.controllers.view() else {
            return false;
        };
        let master = self
            .nodes
            .iter()
            .position(|node| node.identity == view.master);
        let Some(master) = master.filter(|master| self.nodes[*master].is_master()) else {
            return false;
        };
        let end = self.ledger.copies[master].end();
        let in_sync = |broker: usize| {
            let id = self.nodes[broker].identity;
            let has_all = self.ledger.copies[broker].end() == end;
            let is_confirmed = self.nodes[broker]
                .store()
                .is_some_and(|store| store.replica().confirmed() == end);
            let is_member = id.is_some_and(|id| view.in_sync.contains(&id));
            has_all && is_confirmed && (is_member || self.options.learner == Some(broker))
        };
        (0..self.nodes.len()).all(in_sync)
    }

    /// Whether everything that is due was delivered.
    fn are_delivered(&mut self) -> Checked<bool> {
        let master = self.nodes.iter().position(|node| node.is_master());
        let Some(master) = master else {
            return Ok(false);
        };
        let Some(store) = self.nodes[master].store() else {
            return Ok(false);
        };
        // What is not in its queue yet waits, too.
        if store.replica().dispatched() < self.ledger.copies[master].end() {
            return Ok(false);
        }
        for (level, offset) in self.nodes[master].delays.iter().enumerate() {
            if *offset < super::sends::delivered_of(store, level)?.1 {
                return Ok(false);
            }
        }
        Ok(self.are_timers_done(master)? && self.are_clients_done(master)?)
    }

    /// Compares all logs and queues whole.
    pub(crate) fn compare_all(&mut self) -> Checked {
        let bodies = self.ledger.compare_all()?;
        self.compare_clients()?;
        for acked in self.ledger.acked.iter().filter(|acked| acked.is_delayed) {
            let times = bodies.get(&format!("{LATER_TOPIC}/{}", acked.body));
            let times = times.copied().unwrap_or(0);
            demand!(
                times > 0,
                "{:?}, at {}, was never delivered",
                acked.body,
                acked.begin
            );
            self.count.delivered_again += times.saturating_sub(1);
        }
        for acked in self
            .ledger
            .acked
            .iter()
            .filter(|acked| acked.due_ms.is_some())
        {
            let times = bodies.get(&format!("{TIMED_TOPIC}/{}", acked.body));
            let times = times.copied().unwrap_or(0);
            demand!(
                times > 0,
                "{:?}, at {}, which was due at {:?}, was never delivered",
                acked.body,
                acked.begin,
                acked.due_ms
            );
            self.count.timed_again += times.saturating_sub(1);
        }
        for (waits, goes_to) in [(SCHEDULE_TOPIC, LATER_TOPIC), (TIMER_QUEUE.0, TIMED_TOPIC)] {
            let came = bodies.keys().filter_map(|key| key.strip_prefix(goes_to));
            for body in came {
                demand!(
                    bodies.contains_key(&format!("{waits}{body}")),
                    "{body} was delivered, and nobody has sent it"
                );
            }
        }
        for broker in 0..self.nodes.len() {
            let store = self.nodes[broker].store().cloned();
            let store = store.ok_or_else(|| format!("broker {broker} is down at the end"))?;
            store
                .durability()
                .flush()
                .map_err(|error| error.to_string())?;
            while store
                .dispatching()
                .step()
                .map_err(|error| error.to_string())?
            {}
            if let Some(opened) = self.nodes[broker].opened_mut() {
                opened.seen.fill(0);
            }
            self.watch_queues(broker)?;
            let is_clean = store.close().map_err(|error| error.to_string())?;
            demand!(
                is_clean,
                "broker {broker} does not close: {:?}",
                store.notices()
            );
        }
        Ok(())
    }
}
