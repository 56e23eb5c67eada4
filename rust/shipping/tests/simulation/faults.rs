//! What goes wrong: links, processes, machines, clocks, strangers. All of it is drawn, and counted.

use std::io::Write;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::twin::TwinDisk;

use super::flaw::Flaw;
use super::ledger::Checked;
use super::network::Side;
use super::world::{Event, World};

/// For how long something lasts, ms: mostly shorter than a link may be silent, sometimes longer.
const SPELLS_MS: [u64; 6] = [5, 50, 300, 1_500, 6_000, 25_000];

/// What a scanner of ports sends.
const PROBES: [&[u8]; 6] = [
    b"GET / HTTP/1.1\r\n\r\n",
    &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 9, 9, 9, 9, 9],
    &[0xff; 8],
    &[0; 16],
    &[0, 0, 0, 1, 0, 0, 0, 0],
    b"\r\n",
];

impl World {
    /// The next fault, and when the one behind it comes. Now and then an operator repairs.
    pub(crate) fn fault(&mut self) -> Checked {
        let refused = (1..self.nodes.len()).find(|node| self.nodes[*node].refused.is_some());
        if let Some(node) = refused.filter(|_| self.dice.once_in(4)) {
            self.nodes[node].refused = None;
            self.empty(node)?;
        }
        let in_ms = self.dice.between(1, 2 * self.options.fault_every_ms);
        self.plan(in_ms, Event::Fault);
        let node = self.dice.below(self.nodes.len() as u64) as usize;
        match self.dice.below(20) {
            0..5 => self.harm_link(),
            5..8 => self.pause(node),
            8..11 => return self.crash(node, false),
            11..13 if self.options.loses_power => return self.crash(node, true),
            13..15 => self.plan_stop(node),
            15 => self.step_clock(node),
            16 | 17 => self.probe(),
            18 if self.options.removes_files => return self.remove_file(node),
            _ => self.harm_link(),
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
        let spell_ms = self.dice.pick(&SPELLS_MS);
        match self.dice.below(5) {
            0 => {
                self.count.resets += 1;
                self.network.cut(pair);
            }
            1 | 2 => {
                self.count.cuts += 1;
                let bytes = self.dice.pick(&[1, 5, 12, 30, 300, 5_000]);
                let bytes = self.dice.between(1, bytes);
                self.network.cut_behind(pair, side, bytes);
            }
            3 => {
                self.count.blacks += 1;
                self.network.black(pair, side, spell_ms);
            }
            _ => {
                self.count.partitions += 1;
                self.network.black(pair, Side::Near, spell_ms);
                self.network.black(pair, Side::Far, spell_ms);
            }
        }
        self.trace
            .line(|| format!("harm to connection {pair} at {side:?}"));
    }

    fn pause(&mut self, node: usize) {
        self.count.pauses += 1;
        let until_ms = self.now_ms + self.dice.pick(&SPELLS_MS);
        let known = &mut self.nodes[node];
        known.paused_until_ms = known.paused_until_ms.max(until_ms);
        self.trace
            .line(|| format!("node {node} is paused until {until_ms}"));
    }

    /// The node ends inside a later step, at some call of its disk.
    fn plan_stop(&mut self, node: usize) {
        let twin = &self.nodes[node].twin;
        if self.nodes[node].process.is_some() && !twin.is_stopped() {
            let calls = twin.calls() + self.dice.between(1, 6);
            twin.stop_at_call(calls);
            self.trace
                .line(|| format!("node {node} will stop at call {calls}"));
        }
    }

    /// The stop was met: what the step has done since is not done.
    pub(crate) fn die_inside(&mut self, node: usize) -> Checked {
        self.count.stops += 1;
        self.network.take_back();
        self.reports.clear();
        let loses_power = self.options.loses_power && self.dice.once_in(2);
        self.crash(node, loses_power)
    }

    /// The process of a node ends, or its machine is without power.
    pub(crate) fn crash(&mut self, node: usize, loses_power: bool) -> Checked {
        let in_ms = self.dice.pick(&SPELLS_MS[..5]);
        let known = &mut self.nodes[node];
        let Some(process) = known.process.take() else {
            return Ok(());
        };
        known.incarnation += 1;
        known.turn_at_ms = None;
        if loses_power {
            self.count.power_losses += 1;
            let side = if node == 0 { Side::Far } else { Side::Near };
            for pair in self.network.open() {
                if node == 0 || self.near.get(&pair) == Some(&Some(node)) {
                    self.network.vanish(pair, side);
                }
            }
        } else {
            self.count.kills += 1;
        }
        let history = loses_power.then(|| known.twin.history());
        drop(process);
        known.twin.heal();
        if let Some(history) = history {
            let stop = history.stop_points() - 1;
            let pick = match self.dice.below(6) {
                0 => "x0".to_owned(),
                1 => "x1".to_owned(),
                _ => format!("r{}", self.dice.next() >> 1),
            };
            let id = format!("{stop}.w.{pick}");
            known.twin = history.image(&id.parse()?).disk();
        }
        known.has_lost_power |= loses_power;
        if node == 0 {
            // Nobody answers them any more.
            self.parked = 0;
            for sent in &mut self.ledger.sent {
                sent.ticket = None;
            }
        }
        let what = if loses_power {
            "the power of"
        } else {
            "the process of"
        };
        self.trace
            .line(|| format!("{what} node {node} is gone for {in_ms} ms"));
        self.plan(in_ms, Event::Start { node });
        Ok(())
    }

    fn step_clock(&mut self, node: usize) {
        self.count.clock_steps += 1;
        let clock = &self.nodes[node].time.clock;
        let by_ms = self.dice.pick(&[-3_600_000, -500, 500, 3_600_000]);
        clock.set_wall_ms(clock.now_ms() + by_ms);
    }

    /// Somebody who is no slave connects to the master.
    pub(crate) fn probe(&mut self) {
        if self.nodes[0].process.is_none() || self.nodes[0].paused_until_ms > self.now_ms {
            return;
        }
        self.count.probes += 1;
        let (pair, mut near, far) = self.network.connect(self.options.quality);
        self.near.insert(pair, None);
        let bytes = self.dice.pick(&PROBES);
        // It may be closed already.
        let _sent = near.write_all(bytes);
        let stays_ms = self.dice.pick(&[1, 100, 30_000]);
        self.strangers.push((self.now_ms + stays_ms, near));
        self.accept(format!("10.9.9.9:{pair}"), far);
        if self.flaw == Some(Flaw::ProbeCounts) {
            self.count_as_report();
        }
    }

    /// Strangers go.
    pub(crate) fn let_strangers_go(&mut self) {
        let now_ms = self.now_ms;
        self.strangers.retain(|(until_ms, _)| *until_ms > now_ms);
    }

    fn remove_file(&mut self, node: usize) -> Checked {
        let Some(store) = self.nodes[node].store().cloned() else {
            return Ok(());
        };
        let removed = store.retention().remove_oldest(None, 1, None);
        if self.nodes[node].twin.is_stopped() {
            return self.die_inside(node);
        }
        removed.map_err(|error| format!("node {node}: {error}"))?;
        let start = store.replica().extent().start;
        let promise = &mut self.ledger.promises[node];
        if start > promise.start && promise.end > 0 {
            self.count.removed += 1;
            promise.start = start;
        }
        Ok(())
    }

    /// An operator empties the store of a slave that was refused.
    pub(crate) fn empty(&mut self, node: usize) -> Checked {
        self.count.emptied += 1;
        self.crash(node, false)?;
        let known = &mut self.nodes[node];
        known.twin = TwinDisk::with_clock(known.time.clock.clone());
        known.has_lost_power = false;
        self.ledger.emptied(node);
        self.trace.line(|| format!("node {node} is emptied"));
        Ok(())
    }
}
