//! How a broker takes the role that its controller gives it: a twin of the steps of `ControlledBroker` and
//! `RoleSwitch` in Python, with the verbs of production.

use std::sync::Arc;

use mqcore_engine::error::{Error, Result};
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::OpenHow;
use mqcore_replica::{Introduction, Members};
use mqcore_shipping::{Follower, Joining, Membership, Reign, Shipping, Slaves};

use super::flaw::Flaw;
use super::member::Order;
use super::node::{Link, Role};
use super::sends::delivered_of;
use super::world::{Event, World};
use crate::ledger::{Checked, demand};

/// A role that cannot be taken is tried again after this.
const RETRY_MS: u64 = 1_000;

impl World {
    /// What the controller wants: the id at once, the rest in order.
    pub(crate) fn take_orders(&mut self, broker: usize) -> Checked {
        let incarnation = self.nodes[broker].incarnation;
        let Some(process) = &mut self.nodes[broker].process else {
            return Ok(());
        };
        let (mut ids, mut is_settled) = (Vec::new(), false);
        for order in process.member.take_orders() {
            match order {
                Order::KeepIdentity(id) => ids.push(Some(id)),
                Order::ForgetIdentity => ids.push(None),
                Order::SettleEnd => is_settled = true,
                order => process.orders.push_back(order),
            }
        }
        // The last role, and what concerns it.
        let last = process.orders.iter().rposition(Order::is_role);
        process.orders.drain(..last.unwrap_or(0));
        if !process.orders.is_empty() && !process.performs {
            process.performs = true;
            let in_ms = self.dice.pick(&[0, 1, 20, 300]);
            self.plan(in_ms, Event::Perform(broker, incarnation));
        }
        for id in ids {
            self.nodes[broker].identity = id;
            self.count.new_ids += u64::from(id.is_none());
            self.ledger.copies[broker].may_lack = false;
            self.trace.line(|| format!("broker {broker} has id {id:?}"));
            self.note_holders()?;
        }
        if is_settled && let Some(store) = self.nodes[broker].store() {
            let settled = store.settle_end();
            self.nodes[broker].twin_done(settled)?;
        }
        Ok(())
    }

    /// Does the next of what the controller wants.
    pub(crate) fn perform(&mut self, broker: usize) -> Checked {
        let incarnation = self.nodes[broker].incarnation;
        let Some(process) = &mut self.nodes[broker].process else {
            return Ok(());
        };
        process.performs = false;
        let Some(order) = process.orders.pop_front() else {
            return Ok(());
        };
        let done = match &order {
            Order::Become {
                epoch,
                members,
                set_epoch,
            } => {
                process.followed = None;
                self.lead(broker, *epoch, members, *set_epoch)
            }
            Order::Follow { master, .. } => {
                process.followed = Some(order.clone());
                self.follow(broker, *master)
            }
            other => {
                self.take_set(broker, other);
                Ok(true)
            }
        };
        if self.has_met_stop(broker) {
            return Ok(());
        }
        let is_done = done?;
        let Some(process) = &mut self.nodes[broker].process else {
            return Ok(());
        };
        let is_newest = !process.orders.iter().any(Order::is_role) && !process.member.is_gone;
        process.is_failing = !is_done && is_newest;
        if process.is_failing {
            process.orders.push_front(order);
        }
        if !process.orders.is_empty() {
            process.performs = true;
            let in_ms = if process.is_failing { RETRY_MS } else { 0 };
            self.plan(in_ms, Event::Perform(broker, incarnation));
        }
        Ok(())
    }

    fn take_set(&mut self, broker: usize, order: &Order) {
        let Some(process) = &self.nodes[broker].process else {
            return;
        };
        let Some(Role::Master { members, .. }) = process.opened.as_ref().map(|one| &one.role)
        else {
            return;
        };
        let mut set = members.lock();
        match order {
            Order::TakeSet { members, set_epoch } => {
                set.adopt(members, *set_epoch);
            }
            Order::RefuseSet(number) if process.member.is_last(*number) => {
                self.count.refused_sets += 1;
                set.refuse();
            }
            _ => {}
        }
        drop(set);
        self.plan_turn(broker, 0);
    }

    /// Leads an epoch; whether that was done.
    fn lead(
        &mut self,
        broker: usize,
        epoch: i32,
        members: &[i64],
        set_epoch: i32,
    ) -> Checked<bool> {
        if self.nodes[broker].opened().is_none() {
            self.open(broker, OpenHow::RefuseDamage)?;
        }
        let Some(id) = self.nodes[broker]
            .identity
            .filter(|id| members.contains(id))
        else {
            return Ok(false);
        };
        let is_new = !self.nodes[broker].is_master();
        if let Some(opened) = self.nodes[broker].opened_mut()
            && is_new
        {
            // The connection to the master before ends first.
            opened.role = Role::Waiting;
        }
        let led = match self.led(broker, id, epoch, members, set_epoch) {
            Some(Err(Error::NoRecord {
                physical_offset, ..
            })) => {
                self.reopen(broker, Some(physical_offset))?;
                self.led(broker, id, epoch, members, set_epoch)
            }
            led => led,
        };
        if self.nodes[broker].twin.is_stopped() {
            return Ok(false);
        }
        match led {
            Some(Ok(start)) => {
                self.trace.line(|| {
                    format!("broker {broker} leads epoch {epoch} from {start} with {members:?}")
                });
                self.check_leading(broker, epoch)?;
                self.count.switches += u64::from(is_new);
                let waits = self.nodes.iter().filter_map(|node| node.opened());
                let is_loaded = waits.into_iter().any(|opened| !opened.parked.is_empty());
                self.count.switches_under_load += u64::from(is_new && is_loaded);
                if is_new {
                    self.take_over(broker)?;
                }
                self.plan_turn(broker, 0);
                Ok(true)
            }
            Some(Err(Error::NotWritable { .. })) | None => Ok(false),
            Some(Err(error)) => Err(format!("broker {broker} cannot lead: {error}")),
        }
    }

    /// As `ReplicationMaster.lead`: where the epoch begins.
    fn led(
        &mut self,
        broker: usize,
        id: i64,
        epoch: i32,
        members: &[i64],
        set_epoch: i32,
    ) -> Option<Result<u64>> {
        let rule = self.options.rule(id);
        let how = Shipping {
            timing: self.options.timing,
            batch_len_bytes: self.options.batch_len_bytes,
            bytes_per_second_max: None,
            copied_bytes_per_second_max: None,
            quorum: None,
        };
        let flaw = self.flaw;
        let opened = self.nodes[broker].opened_mut()?;
        let store = Arc::clone(&opened.store);
        let epochs = Arc::clone(&opened.epochs);
        if !matches!(opened.role, Role::Master { .. }) {
            let set = Arc::new(Mutex::new(Members::new(rule)));
            let membership = Membership {
                own_id: id,
                members: Arc::clone(&set),
                epochs: Arc::clone(&epochs),
            };
            let slaves = Slaves::of_member(Arc::clone(&store), how, membership);
            opened.role = Role::Master {
                slaves: Box::new(slaves),
                members: set,
                was_wanting: false,
            };
        }
        let Role::Master {
            slaves,
            members: set,
            ..
        } = &mut opened.role
        else {
            return None;
        };
        let goes_on = opened.has_led || store.report().is_log_whole;
        let replica = store.replica();
        let mut has_led = false;
        let mut begins = 0;
        let led = replica.lead(|end| {
            let last = epochs.table().last();
            let is_equal = last.is_some_and(|last| last.start == end && last.epoch < epoch);
            let start = if is_equal && flaw == Some(Flaw::EqualStartRefused) {
                end
            } else {
                let reign = Reign { epoch, set_epoch };
                epochs.lead(reign, replica.extent().start, end, goes_on)?
            };
            begins = start;
            has_led = true;
            set.lock()
                .lead(members, set_epoch, start, replica.confirmed());
            // The thread has two turns before anything is taken.
            let now_ms = replica.elapsed_ms();
            for _ in 0..2 {
                slaves.note_readable(std::iter::repeat(false));
                slaves.turn(now_ms, |_, _| ());
            }
            Ok(())
        });
        opened.has_led |= has_led;
        if led.is_err() {
            opened.role = Role::Waiting;
        }
        Some(led.map(|()| begins))
    }

    /// Goes on with what the master before left off.
    fn take_over(&mut self, broker: usize) -> Checked {
        let opening = self.nodes[broker].opening;
        let end = self.ledger.copies[broker].end();
        if let Some(served) = self.served(broker) {
            served.led_from = end;
        }
        self.clip_delays(broker)?;
        self.clip_offsets(broker)?;
        self.check_offsets_of_leader(broker)?;
        self.plan(0, Event::Delays(broker, opening));
        Ok(())
    }

    /// Follows a master; whether that was done.
    fn follow(&mut self, broker: usize, master: usize) -> Checked<bool> {
        if self.nodes[broker].opened().is_none() {
            self.open(broker, OpenHow::RefuseDamage)?;
        } else if self.nodes[broker].is_master() {
            self.count.deposed += 1;
            self.reopen(broker, None)?;
        }
        let opening = self.nodes[broker].opening;
        let Some(opened) = self.nodes[broker].opened_mut() else {
            return Ok(false);
        };
        if master == broker {
            // It goes by another id now: there is nobody to follow until somebody else is elected.
            return Ok(true);
        }
        opened.store.replica().follow();
        opened.role = Role::Slave { master, link: None };
        self.count.switches += 1;
        let in_ms = self.dice.below(self.options.retry_ms);
        self.plan(in_ms, Event::Connect(broker, opening));
        Ok(true)
    }

    /// A slave connects to the master that it was sent to.
    pub(crate) fn connect(&mut self, broker: usize) -> Checked {
        let (opening, id) = (self.nodes[broker].opening, self.nodes[broker].identity);
        let Some(opened) = self.nodes[broker].opened() else {
            return Ok(());
        };
        let Role::Slave { master, link: None } = &opened.role else {
            return Ok(());
        };
        let master = *master;
        let now_ms = self.now_ms;
        let is_cut = self.letters.is_cut(broker, master, now_ms)
            || self.letters.is_cut(master, broker, now_ms);
        let is_reached = self.nodes[master].is_master()
            && self.nodes[master].paused_until_ms <= now_ms
            && !is_cut
            && !self.dice.once_in(8);
        let Some(id) = id.filter(|_| is_reached) else {
            let retry_ms = self.options.retry_ms;
            self.plan(retry_ms, Event::Connect(broker, opening));
            return Ok(());
        };
        let (pair, near, far) = self.network.connect(self.options.quality);
        self.count.connects += 1;
        self.ends.insert(pair, (broker, master));
        let timing = self.options.timing;
        let is_learner = self.options.learner == Some(broker);
        let is_learner = is_learner && self.flaw != Some(Flaw::LearnerJoins);
        if let Some(opened) = self.nodes[broker].opened_mut() {
            let joining = Joining {
                epochs: Arc::clone(&opened.epochs),
                who: Introduction {
                    id,
                    from_last_file: false,
                    is_learner,
                },
            };
            let store = Arc::clone(&opened.store);
            let link = Some(Box::new(Link {
                pair,
                wire: near,
                follower: Follower::of_member(store, joining, timing),
                has_begun: false,
            }));
            opened.role = Role::Slave { master, link };
        }
        self.nodes[master].time.pass_to(now_ms);
        if let Some(opened) = self.nodes[master].opened_mut()
            && let Role::Master { slaves, .. } = &mut opened.role
        {
            let now_ms = opened.store.replica().elapsed_ms();
            slaves.add(format!("10.0.0.{broker}:{pair}"), far, now_ms);
            opened.wakes_on_growth = true;
        }
        self.plan_turn(master, 0);
        self.plan_turn(broker, 0);
        Ok(())
    }

    /// The log of a slave is not that of its master behind a place: it is cut there, and the master followed
    /// again.
    pub(crate) fn diverged(&mut self, broker: usize, cut_at: u64) -> Checked {
        let incarnation = self.nodes[broker].incarnation;
        self.trace
            .line(|| format!("the log of broker {broker} is to be cut at {cut_at}"));
        let confirmed = self.nodes[broker]
            .opened()
            .map_or(0, |opened| opened.confirmed);
        self.ledger.cut(broker, cut_at, confirmed)?;
        self.reopen(broker, Some(cut_at))?;
        if self.flaw == Some(Flaw::CutMovesPositions) && self.dice.once_in(2) {
            return self.crash(broker, false);
        }
        let Some(process) = &mut self.nodes[broker].process else {
            return Ok(());
        };
        if let Some(followed) = process.followed.clone()
            && !process.orders.iter().any(Order::is_role)
        {
            process.orders.push_front(followed);
            if !process.performs {
                process.performs = true;
                self.plan(0, Event::Perform(broker, incarnation));
            }
        }
        Ok(())
    }

    /// Closes the store of a process, and opens it anew without a role.
    fn reopen(&mut self, broker: usize, cut_at: Option<u64>) -> Checked {
        self.keep_delays(broker);
        self.keep_timers(broker)?;
        self.save_step(broker, true)?;
        let process = self.nodes[broker].process.as_mut();
        let Some(opened) = process.and_then(|process| process.opened.take()) else {
            return Ok(());
        };
        let log = &self.ledger.copies[broker].log;
        let tail = cut_at.map(|at| (at, log.get(at as usize..).unwrap_or_default().to_vec()));
        // Its tables are read anew.
        self.nodes[broker].delivered_to = 0;
        self.nodes[broker].heard = None;
        self.nodes[broker].ahead = None;
        // Its connections end before its store is closed.
        drop(opened.role);
        drop(opened.timers);
        drop(opened.served);
        let closed = opened.store.close();
        drop(opened.store);
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        demand!(
            closed.is_ok(),
            "broker {broker} does not close: {:?}",
            closed.err().map(|error| error.to_string())
        );
        let how = cut_at.map_or(OpenHow::RefuseDamage, OpenHow::CutAt);
        self.open(broker, how)?;
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        if let Some((at, tail)) = tail.filter(|(_, tail)| !tail.is_empty()) {
            self.count.cut_logs += 1;
            self.count.cut_bytes += tail.len() as u64;
            if self.flaw == Some(Flaw::CutMovesPositions) {
                self.nodes[broker].uncut = Some((at, tail));
            }
        }
        Ok(())
    }

    /// Offsets of delays that lie behind what the log holds go back (`MasterWork.take_over`).
    fn clip_delays(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        for level in 0..super::options::LEVELS {
            let bounds = delivered_of(&store, level)?;
            let offset = &mut self.nodes[broker].delays[level];
            *offset = (*offset).clamp(bounds.0, bounds.1);
        }
        Ok(())
    }
}
