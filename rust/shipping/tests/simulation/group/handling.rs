//! What a controller does with a letter: a twin of `python/mqcore/controller/requests.py` and `elections.py`.
//! Here is who was alive; what follows from that is decided by the state of production.

use std::collections::BTreeSet;

use mqcore_replica::controller::{
    AlterSet, ApplyId, AskedBy, Code, Elect, Epochs, Event, Fence, Register, View,
};

use super::flaw::Flaw;
use super::letters::{Answer, Ask, Letter, Purpose};
use super::member::address_of;
use super::world::World;
use crate::ledger::Checked;

/// The only broker name.
pub(crate) const NAME: &str = "B";

impl World {
    pub(crate) fn view(&self) -> Option<View> {
        self.controllers.view().cloned()
    }

    /// A request of a broker has come to a controller.
    pub(crate) fn handle(
        &mut self,
        (broker, incarnation): (usize, u32),
        number: u64,
        controller: usize,
        ask: &Ask,
    ) -> Checked {
        let answer = if self.controllers.confirm(controller, self.now_ms) {
            self.handled(controller, broker, ask)?
        } else {
            let leader = self.controllers.leader;
            Some(Answer::NotLeader(
                leader.filter(|leader| *leader != controller),
            ))
        };
        if let Some(answer) = answer.filter(|_| !self.controllers.all[controller].twin.is_stopped())
        {
            let to = (broker, incarnation);
            let letter = Letter::Answer {
                to,
                number,
                controller,
                answer,
            };
            self.post(self.options.brokers + controller, broker, letter);
        }
        Ok(())
    }

    fn handled(&mut self, controller: usize, broker: usize, ask: &Ask) -> Checked<Option<Answer>> {
        let now_ms = self.now_ms;
        let mut new_id = 0;
        let answer = match ask.purpose {
            Purpose::Sets | Purpose::Replicas => None,
            Purpose::NewId => {
                new_id = self.view().map_or(1, |view| view.next_id);
                let address = address_of(broker);
                let event = Event::ApplyId(ApplyId {
                    cluster: "C".to_owned(),
                    name: NAME.to_owned(),
                    id: new_id,
                    check_code: format!("{address};{now_ms}"),
                });
                Some(self.propose(&event)?)
            }
            Purpose::Register => {
                let event = Event::Register(Register {
                    name: NAME.to_owned(),
                    id: ask.id,
                    address: address_of(broker),
                    claim: None,
                });
                Some(self.propose(&event)?)
            }
            Purpose::Elect => Some(self.held(controller, AskedBy::Broker(ask.id), false)?),
            Purpose::Alter => Some(self.altered(controller, ask)?),
            Purpose::Fence => Some(self.fenced(ask)?),
        };
        let liveness = &self.controllers.all[controller].liveness;
        let alive = liveness.candidates(None, now_ms);
        let alive = alive.iter().map(|each| each.id).collect();
        let (code, mut view) = match answer {
            None => (Code::Success, self.view()),
            Some(None) => return Ok(None),
            Some(Some(answer)) => (answer.code, answer.view),
        };
        let is_dead = |id| !liveness.may_be_alive(id, now_ms);
        if ask.purpose == Purpose::Register
            && let Some(view) = &mut view
            && view.master.is_some_and(is_dead)
        {
            view.master = None;
        }
        Ok(Some(Answer::Done {
            code,
            view,
            alive,
            new_id,
        }))
    }

    fn fenced(&mut self, ask: &Ask) -> Checked<Option<Decided>> {
        let Some((epoch, wanted)) = &ask.wanted else {
            return Ok(None);
        };
        let event = Event::Fence(Fence {
            name: NAME.to_owned(),
            master: ask.id,
            seen: Epochs {
                master: *epoch,
                set: wanted.set_epoch,
            },
        });
        let answer = self.propose(&event)?;
        let is_done = answer
            .as_ref()
            .is_some_and(|answer| answer.code == Code::Success);
        self.count.sets_fenced += u64::from(is_done);
        Ok(answer)
    }

    fn altered(&mut self, controller: usize, ask: &Ask) -> Checked<Option<Decided>> {
        let Some((epoch, wanted)) = &ask.wanted else {
            return Ok(None);
        };
        let liveness = &self.controllers.all[controller].liveness;
        let alive = liveness.candidates(None, self.now_ms);
        let event = Event::AlterSet(AlterSet {
            name: NAME.to_owned(),
            master: ask.id,
            seen: Epochs {
                master: *epoch,
                set: wanted.set_epoch,
            },
            in_sync: wanted.members.iter().copied().collect(),
            alive: alive.iter().map(|each| each.id).collect(),
            in_sync_min: self.options.in_sync_min as u32,
        });
        let answer = self.propose(&event)?;
        if let Some(answer) = &answer
            && answer.code == Code::Success
        {
            self.count.set_changes += 1;
            let set = answer.view.as_ref().map(|view| view.in_sync.clone());
            self.trace.line(|| format!("the set is {set:?}"));
        }
        Ok(answer)
    }

    /// Has a master elected where one is wanted; brokers that live are notified.
    pub(crate) fn held(
        &mut self,
        controller: usize,
        asked_by: AskedBy,
        is_unclean: bool,
    ) -> Checked<Option<Decided>> {
        let Some(view) = self.view() else {
            return Ok(None);
        };
        let now_ms = self.now_ms;
        let alive = self.controllers.all[controller]
            .liveness
            .candidates(view.master, now_ms);
        let is_known = |id: &i64| view.replicas.iter().any(|(known, _)| known == id);
        let alive: Vec<_> = alive
            .into_iter()
            .filter(|each| is_known(&each.id))
            .collect();
        let event = Event::Elect(Elect {
            name: NAME.to_owned(),
            asked_by,
            seen: Epochs {
                master: view.master_epoch,
                set: view.set_epoch,
            },
            alive,
            allows_unclean: is_unclean || self.flaw == Some(Flaw::ElectsAnybody),
            in_sync_min: self.options.in_sync_min as u32,
        });
        let could_lead: BTreeSet<i64> =
            view.in_sync.iter().chain(&view.eligible).copied().collect();
        let Some(answer) = self.propose(&event)? else {
            return Ok(None);
        };
        let Some(new) = answer.view.clone().filter(|_| answer.code == Code::Success) else {
            if answer.is_changed {
                self.count.lost_masters += 1;
                self.trace.line(|| "nobody can be elected".to_owned());
            }
            return Ok(Some(answer));
        };
        self.trace
            .line(|| format!("{:?} is elected, epoch {}", new.master, new.master_epoch));
        self.count.elections += 1;
        self.check_elected(&new, &could_lead, is_unclean)?;
        for broker in 0..self.options.brokers {
            let id = self.nodes[broker].identity;
            let liveness = &self.controllers.all[controller].liveness;
            if id.is_some_and(|id| liveness.is_alive(id, now_ms)) {
                let view = new.clone();
                self.post(
                    self.options.brokers + controller,
                    broker,
                    Letter::Notice { broker, view },
                );
            }
        }
        Ok(Some(answer))
    }

    /// Somebody is gone: another master, where it was that.
    pub(crate) fn lost(&mut self, controller: usize, ids: &[i64]) -> Checked {
        if !self.controllers.confirm(controller, self.now_ms) {
            return Ok(());
        }
        let master = self.controllers.view().and_then(|view| view.master);
        if master.is_some_and(|master| ids.contains(&master)) {
            self.held(controller, AskedBy::Controller, false)?;
        }
        Ok(())
    }

    /// A look of all controllers: who leads, who is late, whose master is dead.
    pub(crate) fn scan(&mut self) -> Checked {
        if self.controllers.elect(self.now_ms)? {
            self.count.controller_leaders += 1;
            let leader = self.controllers.leader;
            self.trace.line(|| format!("controller {leader:?} leads"));
        }
        self.after_proposal()?;
        for controller in 0..self.options.controllers {
            if !self.controllers.is_up(controller) {
                continue;
            }
            let late = self.controllers.all[controller]
                .liveness
                .expired(self.now_ms);
            self.lost(controller, &late)?;
        }
        let Some(leader) = self.controllers.leader else {
            return Ok(());
        };
        let liveness = &self.controllers.all[leader].liveness;
        let master = self.controllers.view().and_then(|view| view.master);
        let is_dead = master.is_some_and(|id| !liveness.may_be_alive(id, self.now_ms));
        if is_dead && !liveness.candidates(None, self.now_ms).is_empty() {
            self.held(leader, AskedBy::Controller, false)?;
        }
        Ok(())
    }

    fn propose(&mut self, event: &Event) -> Checked<Option<Decided>> {
        let decided = self.controllers.propose(event, self.now_ms)?;
        self.after_proposal()?;
        Ok(decided)
    }

    /// Controllers that have died meanwhile are gone, and what is agreed on now is looked at.
    fn after_proposal(&mut self) -> Checked {
        while let Some(dead) = self.controllers.stopped() {
            self.count.stops += 1;
            self.crash_controller(dead, false)?;
        }
        self.watch_set()
    }
}

/// What came of an event.
pub(crate) type Decided = mqcore_replica::controller::Answer;
