//! What goes wrong in a group: links, processes, machines, clocks, controllers. All of it is drawn, and counted.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::twin::TwinDisk;

use super::flaw::Flaw;
use super::history::History;
use super::letters::Letter;
use super::world::{Event, World};
use crate::ledger::Checked;
use crate::network::Side;
use crate::options::SEGMENT_BYTES;

/// For how long something lasts, ms.
const SPELLS_MS: [u64; 6] = [5, 50, 300, 1_500, 6_000, 12_000];

impl World {
    /// The next fault, and when the one behind it comes.
    pub(crate) fn fault(&mut self) -> Checked {
        let in_ms = self.dice.between(1, 2 * self.options.fault_every_ms);
        self.plan(in_ms, Event::Fault);
        let broker = self.dice.below(self.nodes.len() as u64) as usize;
        let master = (0..self.nodes.len()).find(|broker| self.nodes[*broker].is_master());
        // Masters are where most goes on.
        let broker = master.filter(|_| self.dice.once_in(3)).unwrap_or(broker);
        let controller = self.dice.below(self.options.controllers as u64) as usize;
        if self.options.removes_files && self.dice.once_in(4) {
            return self.remove_file(broker);
        }
        if self.options.loses_disks && self.dice.once_in(30) {
            return self.lose_disk(broker);
        }
        match self.dice.below(24) {
            0..4 => self.harm_link(),
            4..6 => self.pause(broker),
            6..9 => return self.crash(broker, false),
            9..11 if self.options.loses_power => return self.crash(broker, true),
            11..14 => self.plan_stop(broker),
            14 => self.step_clock(broker),
            15..18 => self.part(broker),
            18 => self.part(self.options.brokers + controller),
            19 => return self.crash_controller(controller, self.options.loses_power),
            20 => {
                let twin = &self.controllers.all[controller].twin;
                if self.controllers.is_up(controller) && !twin.is_stopped() {
                    twin.stop_at_call(twin.calls() + self.dice.between(1, 6));
                }
            }
            21 => {
                self.count.pauses += 1;
                let until_ms = self.now_ms + self.dice.pick(&SPELLS_MS);
                self.controllers.all[controller].paused_until_ms = until_ms;
            }
            _ => return self.hand_over(),
        }
        Ok(())
    }

    fn harm_link(&mut self) {
        let open = self.network.open();
        if open.is_empty() {
            return;
        }
        let pair = self.dice.pick(&open);
        let side = self.dice.pick(&[Side::Near, Side::Far]);
        match self.dice.below(3) {
            0 => {
                self.count.resets += 1;
                self.network.cut(pair);
            }
            1 => {
                self.count.cuts += 1;
                let bytes = self.dice.pick(&[1, 5, 12, 36, 300, 5_000]);
                let bytes = self.dice.between(1, bytes);
                self.network.cut_behind(pair, side, bytes);
            }
            _ => {
                self.count.one_way += 1;
                let spell_ms = self.dice.pick(&SPELLS_MS);
                self.network.black(pair, side, spell_ms);
            }
        }
        self.trace
            .line(|| format!("harm to connection {pair} at {side:?}"));
    }

    /// Cuts a party off from some of the others, in one direction or in both.
    fn part(&mut self, party: usize) {
        let spell_ms = self.dice.pick(&SPELLS_MS[2..]);
        let until_ms = self.now_ms + spell_ms;
        let way = self.dice.below(3);
        let spares = self.dice.once_in(2);
        let parties = self.options.brokers + self.options.controllers;
        if way == 0 {
            self.count.partitions += 1;
        } else {
            self.count.one_way += 1;
        }
        if party >= self.options.brokers && self.options.controllers > 1 {
            let controller = party - self.options.brokers;
            self.controllers.all[controller].cut_until_ms = until_ms;
        }
        for other in (0..parties).filter(|other| *other != party) {
            if spares && self.dice.once_in(2) {
                continue;
            }
            if way < 2 {
                self.letters.cut(party, other, until_ms);
            }
            if way != 1 {
                self.letters.cut(other, party, until_ms);
            }
            for pair in self.network.open() {
                let side = match self.ends.get(&pair) {
                    Some(ends) if *ends == (party, other) => Side::Near,
                    Some(ends) if *ends == (other, party) => Side::Far,
                    _ => continue,
                };
                if way < 2 {
                    self.network.black(pair, side, spell_ms);
                }
                if way != 1 {
                    self.network.black(pair, side.other(), spell_ms);
                }
            }
        }
        self.trace
            .line(|| format!("party {party} is cut off, way {way}, until {until_ms}"));
    }

    fn pause(&mut self, broker: usize) {
        self.count.pauses += 1;
        let until_ms = self.now_ms + self.dice.pick(&SPELLS_MS);
        let known = &mut self.nodes[broker];
        known.paused_until_ms = known.paused_until_ms.max(until_ms);
        self.trace
            .line(|| format!("broker {broker} is paused until {until_ms}"));
    }

    /// The broker ends inside a later step, at some call of its disk.
    fn plan_stop(&mut self, broker: usize) {
        let twin = &self.nodes[broker].twin;
        if self.nodes[broker].process.is_some() && !twin.is_stopped() {
            let calls = twin.calls() + self.dice.pick(&[1, 2, 4, 8, 30, 100]);
            twin.stop_at_call(calls);
            self.trace
                .line(|| format!("broker {broker} will stop at call {calls}"));
        }
    }

    /// Retention takes the oldest file, all of which is promised.
    fn remove_file(&mut self, broker: usize) -> Checked {
        let Some(opened) = self.nodes[broker].opened() else {
            return Ok(());
        };
        let store = std::sync::Arc::clone(&opened.store);
        let confirmed = store
            .replica()
            .confirmed()
            .min(store.replica().dispatched());
        let file_end = store.replica().extent().start + SEGMENT_BYTES;
        if file_end > confirmed || self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        let removed = store.retention().remove_oldest(None, 1, None);
        if self.has_met_stop(broker) {
            return self.die_inside(broker);
        }
        removed.map_err(|error| format!("broker {broker}: {error}"))?;
        if self.flaw == Some(Flaw::ForgetsEpochs)
            && let Some(opened) = self.nodes[broker].opened()
        {
            let end = store.replica().appended();
            let forgotten = opened.epochs.forget_before(end);
            self.nodes[broker].twin_done(forgotten)?;
        }
        let start = store.replica().extent().start;
        self.count.removed += u64::from(start == file_end);
        self.trace
            .line(|| format!("the log of broker {broker} begins at {start} now"));
        Ok(())
    }

    /// A broker gets an empty disk: with its log it has lost its id.
    fn lose_disk(&mut self, broker: usize) -> Checked {
        self.trace
            .line(|| format!("the disk of broker {broker} is lost"));
        self.count.lost_disks += 1;
        if self.flaw != Some(Flaw::LostDiskKeepsId) {
            self.nodes[broker].identity = None;
        }
        self.note_holders()?;
        self.ledger.lost(broker)?;
        self.renew_disk(broker)
    }

    /// Ends the process of a broker, and empties its disk.
    pub(crate) fn renew_disk(&mut self, broker: usize) -> Checked {
        self.crash(broker, false)?;
        let node = &mut self.nodes[broker];
        node.twin = TwinDisk::with_clock(node.time.clock.clone());
        node.has_lost_power = false;
        node.has_died_inside = false;
        node.kept_delays = History::default();
        node.kept_offsets.clear();
        node.kept_own = History::default();
        Ok(())
    }

    /// The stop was met: what the step has done since is not done.
    pub(crate) fn die_inside(&mut self, broker: usize) -> Checked {
        self.count.stops += 1;
        self.network.take_back();
        self.frames.clear();
        self.nodes[broker].has_died_inside = true;
        let loses_power = self.options.loses_power && self.dice.once_in(2);
        self.crash(broker, loses_power)
    }

    /// The process of a broker ends, or its machine is without power.
    pub(crate) fn crash(&mut self, broker: usize, loses_power: bool) -> Checked {
        let in_ms = self.dice.pick(&SPELLS_MS[..5]);
        let known = &mut self.nodes[broker];
        let Some(process) = known.process.take() else {
            return Ok(());
        };
        let channel = (broker, known.incarnation);
        known.incarnation += 1;
        known.opening += 1;
        known.turn_at_ms = None;
        known.delivered_to = 0;
        known.heard = None;
        known.ahead = None;
        if loses_power {
            self.count.power_losses += 1;
            for pair in self.network.open() {
                match self.ends.get(&pair) {
                    Some((near, _)) if *near == broker => self.network.vanish(pair, Side::Near),
                    Some((_, far)) if *far == broker => self.network.vanish(pair, Side::Far),
                    _ => {}
                }
            }
        } else {
            self.count.kills += 1;
            for controller in 0..self.options.controllers {
                let to = self.options.brokers + controller;
                let letter = Letter::Closed {
                    controller,
                    channel,
                };
                self.post(broker, to, letter);
            }
        }
        let known = &mut self.nodes[broker];
        let history = loses_power.then(|| known.twin.history());
        drop(process);
        known.twin.heal();
        if let Some(history) = history {
            let id = drawn_image(&mut self.dice, history.stop_points() - 1);
            known.twin = history.image(&id.parse()?).disk();
        }
        known.has_lost_power |= loses_power;
        let what = if loses_power { "power" } else { "process" };
        self.trace
            .line(|| format!("the {what} of broker {broker} is gone for {in_ms} ms"));
        self.plan(in_ms, Event::Start(broker));
        Ok(())
    }

    pub(crate) fn crash_controller(&mut self, controller: usize, loses_power: bool) -> Checked {
        if !self.controllers.is_up(controller) {
            return Ok(());
        }
        self.count.controller_crashes += 1;
        self.controllers.end(controller);
        let one = &mut self.controllers.all[controller];
        if loses_power {
            let history = one.twin.history();
            one.twin.heal();
            let id = drawn_image(&mut self.dice, history.stop_points() - 1);
            one.twin = history.image(&id.parse()?).disk();
        } else {
            one.twin.heal();
        }
        let in_ms = self.dice.pick(&SPELLS_MS[..5]);
        self.trace
            .line(|| format!("controller {controller} is gone for {in_ms} ms"));
        self.plan(in_ms, Event::StartController(controller));
        Ok(())
    }

    fn step_clock(&mut self, broker: usize) {
        self.count.clock_steps += 1;
        self.note_clock_step(broker);
        let clock = &self.nodes[broker].time.clock;
        let by_ms = self.dice.pick(&[-3_600_000, -500, 500, 3_600_000]);
        clock.set_wall_ms(clock.now_ms() + by_ms);
    }
}

/// One of the images that a disk may leave at a stop.
fn drawn_image(dice: &mut crate::dice::Dice, stop: usize) -> String {
    let pick = match dice.below(6) {
        0 => "x0".to_owned(),
        1 => "x1".to_owned(),
        _ => format!("r{}", dice.next() >> 1),
    };
    format!("{stop}.w.{pick}")
}
