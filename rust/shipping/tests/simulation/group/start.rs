//! Starts of brokers and controllers, and what a broker asks its controllers for.

use std::collections::{BTreeMap, VecDeque};

use mqcore_engine::store::OpenHow;
use mqcore_shipping::Reign;

use super::flaw::Flaw;
use super::letters::{Answer, Letter, Purpose};
use super::liveness::Beat;
use super::member::Member;
use super::node::Process;
use super::world::{Event, World};
use crate::ledger::Checked;

/// How long a broker waits for an answer (`_TIMEOUT_S` of `controller_link.py`).
const ANSWER_MAX_MS: u64 = 3_000;

impl World {
    pub(crate) fn start_controller(&mut self, controller: usize) -> Checked {
        if !self.controllers.is_up(controller) {
            self.controllers.start(controller, self.now_ms)?;
            self.trace
                .line(|| format!("controller {controller} starts"));
        }
        Ok(())
    }

    /// Starts the process of a broker that is down: its store is opened, and it looks for its controller.
    pub(crate) fn start(&mut self, broker: usize) -> Checked {
        if self.nodes[broker].process.is_some() {
            return Ok(());
        }
        let now_ms = self.now_ms;
        let times_ms = (self.options.heartbeat_ms, self.options.replicas_ms);
        let is_learner =
            self.options.learner == Some(broker) && self.flaw != Some(Flaw::LearnerAsks);
        let known = &mut self.nodes[broker];
        known.time.pass_to(now_ms);
        known.incarnation += 1;
        known.paused_until_ms = 0;
        let controllers = self.options.controllers;
        let member = Member::new(known.identity, is_learner, controllers, times_ms);
        known.process = Some(Process {
            opened: None,
            member,
            orders: VecDeque::new(),
            followed: None,
            is_failing: false,
            waiting: BTreeMap::new(),
            ask_at_ms: None,
            performs: false,
        });
        self.put_back_what_was_cut(broker);
        self.open(broker, OpenHow::RefuseDamage)?;
        if self.has_met_stop(broker) {
            return self.die_inside(broker);
        }
        let keeps_id = self.flaw == Some(Flaw::UncleanStays);
        let known = &mut self.nodes[broker];
        let opened = known.opened();
        let is_certain = opened.is_some_and(|opened| opened.store.report().is_tail_certain);
        if self.flaw == Some(Flaw::ForgetsLostEnd)
            && let Some(store) = self.nodes[broker].store()
        {
            let settled = store.settle_end();
            self.nodes[broker].twin_done(settled)?;
        }
        let known = &mut self.nodes[broker];
        if let Some(process) = &mut known.process {
            process.member.is_suspect = !is_certain && !keeps_id;
        }
        self.plan_ask(broker, 0);
        Ok(())
    }

    /// Opens the store of a process.
    pub(crate) fn open(&mut self, broker: usize, how: OpenHow) -> Checked {
        let known = &mut self.nodes[broker];
        known.opening += 1;
        known.turn_at_ms = None;
        let opening = known.opening;
        let opened = known.open(how);
        if known.twin.is_stopped() {
            return Ok(());
        }
        let opened = opened.map_err(|error| format!("broker {broker} does not open: {error}"))?;
        if let Some(process) = &mut known.process {
            process.opened = Some(opened);
        }
        self.load_delays(broker);
        self.check_opened(broker, how)?;
        if self.options.has_timers {
            self.has_timers(broker)?;
        }
        self.serve(broker)?;
        let work_ms = self.dice.below(100);
        self.plan(work_ms, Event::Work(broker, opening));
        if self.options.has_timers {
            self.plan(work_ms, Event::Timers(broker, opening));
        }
        Ok(())
    }

    /// Asks what is due: heartbeats to every controller, requests to the one that leads.
    pub(crate) fn ask(&mut self, broker: usize) -> Checked {
        let now_ms = self.now_ms;
        let known = &mut self.nodes[broker];
        let incarnation = known.incarnation;
        let Some(process) = &mut known.process else {
            return Ok(());
        };
        process.ask_at_ms = None;
        self.take_orders(broker)?;
        let known = &mut self.nodes[broker];
        let Some(process) = &mut known.process else {
            return Ok(());
        };
        let beat = process.member.beats(now_ms).filter(|_| !process.is_failing);
        let opened = process.opened.as_ref().filter(|_| beat.is_some());
        let standing = opened.map(|opened| {
            let epoch = opened.epochs.table().last_epoch();
            (epoch, opened.store.replica().appended().cast_signed())
        });
        let asks = process.member.due(now_ms);
        let controller = process.member.leader;
        if let (Some(id), Some((epoch, max_offset))) = (beat, standing) {
            for controller in 0..self.options.controllers {
                let beat = Beat {
                    id,
                    epoch,
                    max_offset,
                    channel: (broker, incarnation),
                };
                let to = self.options.brokers + controller;
                self.post(broker, to, Letter::Beat { controller, beat });
            }
        }
        for ask in asks {
            if ask.purpose == Purpose::Alter
                && let Some((epoch, wanted)) = &ask.wanted
            {
                let set_epoch = wanted.set_epoch;
                let reign = Reign {
                    epoch: *epoch,
                    set_epoch,
                };
                if !self.notes_asked(broker, reign)? {
                    if let Some(process) = &mut self.nodes[broker].process {
                        process
                            .member
                            .answered(ask.purpose, controller, None, now_ms);
                    }
                    continue;
                }
            }
            self.sent_number += 1;
            let number = self.sent_number;
            if let Some(process) = &mut self.nodes[broker].process {
                process.waiting.insert(number, ask.purpose);
            }
            let letter = Letter::Ask {
                from: (broker, incarnation),
                number,
                controller,
                ask,
            };
            self.post(broker, self.options.brokers + controller, letter);
            self.plan(ANSWER_MAX_MS, Event::AskLate(broker, incarnation, number));
        }
        let in_ms = self.options.heartbeat_ms.min(100);
        self.plan_ask(broker, in_ms);
        Ok(())
    }

    /// Notes durably what set is going to be asked for; whether it was.
    fn notes_asked(&mut self, broker: usize, reign: Reign) -> Checked<bool> {
        let known = &self.nodes[broker];
        let Some(opened) = known.opened().filter(|_| !known.twin.is_stopped()) else {
            return Ok(false);
        };
        let noted = opened.epochs.note_asked(reign);
        Ok(known.twin_done(noted)?.is_some())
    }

    pub(crate) fn ask_late(&mut self, broker: usize, number: u64) {
        let now_ms = self.now_ms;
        let Some(process) = &mut self.nodes[broker].process else {
            return;
        };
        if let Some(purpose) = process.waiting.remove(&number) {
            let controller = process.member.leader;
            process.member.answered(purpose, controller, None, now_ms);
            if purpose == Purpose::Alter {
                self.refuse_in_silence(broker);
            }
            self.plan_ask(broker, 0);
        }
    }

    pub(crate) fn answered(
        &mut self,
        broker: usize,
        number: u64,
        controller: usize,
        answer: Answer,
    ) {
        let now_ms = self.now_ms;
        let Some(process) = &mut self.nodes[broker].process else {
            return;
        };
        if let Some(purpose) = process.waiting.remove(&number) {
            process
                .member
                .answered(purpose, controller, Some(answer), now_ms);
            self.plan_ask(broker, 0);
        }
    }
}
