//! When a broker asks its controller what, and what follows from the answers: a twin of
//! `python/mqcore/broker/replication/membership.py`, without what is about names and files. A controller is
//! known by its place, a broker's address is `node` and its place.

use std::collections::{BTreeMap, BTreeSet};

use mqcore_replica::Alteration;
use mqcore_replica::controller::{Code, View};

use super::letters::{Answer, Ask, Purpose};
use super::set_requests::SetRequests;

const RETRY_MS: u64 = 1_000;
const FIRST_LOOK_MS: u64 = 3_000;

/// What the broker has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    Become {
        epoch: i32,
        members: Vec<i64>,
        set_epoch: i32,
    },
    Follow {
        epoch: i32,
        master: usize,
    },
    TakeSet {
        members: Vec<i64>,
        set_epoch: i32,
    },
    /// With how many sets were asked for then.
    RefuseSet(u64),
    KeepIdentity(i64),
    ForgetIdentity,
    /// What the log may have lost was decided on.
    SettleEnd,
}

impl Order {
    pub(crate) fn is_role(&self) -> bool {
        matches!(self, Self::Become { .. } | Self::Follow { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    LeaderKnown,
    Registered,
    Running,
}

/// One broker's membership.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: Option<i64>,
    pub(crate) is_suspect: bool,
    /// Whether it never asks for an election.
    is_learner: bool,
    phase: Phase,
    controllers: usize,
    pub(crate) leader: usize,
    master_id: Option<i64>,
    pub(crate) epoch: i32,
    set_epoch: i32,
    /// Whether the controller has taken the role of this epoch back, and given it to nobody.
    pub(crate) is_gone: bool,
    due_ms: BTreeMap<Purpose, u64>,
    asked: BTreeSet<Purpose>,
    beat_ms: u64,
    heartbeat_ms: u64,
    replicas_ms: u64,
    sets: SetRequests,
    looked_before: bool,
    orders: Vec<Order>,
}

impl Member {
    pub(crate) fn new(
        id: Option<i64>,
        is_learner: bool,
        controllers: usize,
        (heartbeat_ms, replicas_ms): (u64, u64),
    ) -> Self {
        Self {
            id,
            is_suspect: false,
            is_learner,
            phase: Phase::LeaderKnown,
            controllers,
            leader: 0,
            master_id: None,
            epoch: 0,
            set_epoch: -1,
            is_gone: false,
            due_ms: BTreeMap::new(),
            asked: BTreeSet::new(),
            beat_ms: 0,
            heartbeat_ms,
            replicas_ms,
            sets: SetRequests::default(),
            looked_before: false,
            orders: Vec::new(),
        }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.id.is_some() && self.master_id == self.id
    }

    /// Whether a heartbeat is due.
    pub(crate) fn beats(&mut self, now_ms: u64) -> Option<i64> {
        let id = self
            .id
            .filter(|_| self.phase != Phase::LeaderKnown || self.epoch > 0)?;
        if self.beat_ms > now_ms {
            return None;
        }
        self.beat_ms = now_ms + self.heartbeat_ms;
        Some(id)
    }

    /// The requests to be sent now.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Ask> {
        let mut asks = Vec::new();
        for purpose in self.wants() {
            let is_due = self
                .due_ms
                .get(&purpose)
                .is_none_or(|due_ms| *due_ms <= now_ms);
            if is_due && self.asked.insert(purpose) {
                let wanted = self.sets.asked(purpose, self.set_epoch);
                asks.push(Ask {
                    purpose,
                    id: self.id.unwrap_or(0),
                    wanted: wanted.map(|wanted| (self.epoch, wanted)),
                });
            }
        }
        asks
    }

    fn wants(&self) -> Vec<Purpose> {
        match self.phase {
            Phase::LeaderKnown => vec![match (self.id, self.is_suspect) {
                (None, _) => Purpose::NewId,
                (Some(_), true) => Purpose::Sets,
                (Some(_), false) => Purpose::Register,
            }],
            Phase::Registered if self.is_learner => vec![Purpose::Replicas],
            Phase::Registered => vec![Purpose::Elect],
            Phase::Running => {
                let mut wants = vec![Purpose::Replicas];
                wants.extend(self.sets.purpose().filter(|_| self.is_master()));
                if self.due_ms.contains_key(&Purpose::Elect) && !self.is_learner {
                    wants.push(Purpose::Elect);
                }
                wants
            }
        }
    }

    /// Takes the answer to a request; `None` where there is none in time.
    pub(crate) fn answered(
        &mut self,
        purpose: Purpose,
        controller: usize,
        answer: Option<Answer>,
        now_ms: u64,
    ) {
        self.asked.remove(&purpose);
        self.due_ms.remove(&purpose);
        let is_before = purpose == Purpose::Replicas && std::mem::take(&mut self.looked_before);
        let Some(Answer::Done {
            code,
            view,
            alive,
            new_id,
        }) = answer
        else {
            self.sets.unheard(purpose);
            self.due_ms.insert(purpose, now_ms + RETRY_MS);
            if controller == self.leader {
                let hint = match answer {
                    Some(Answer::NotLeader(leader)) => leader,
                    _ => None,
                };
                self.leader = hint.unwrap_or((controller + 1) % self.controllers);
            }
            return;
        };
        match purpose {
            Purpose::Sets => self.hear_sets(code, view.as_ref(), &alive, now_ms),
            Purpose::NewId if code == Code::Success => {
                self.id = Some(new_id);
                self.orders.push(Order::KeepIdentity(new_id));
            }
            Purpose::Register if code == Code::Success => {
                if self.phase == Phase::LeaderKnown {
                    self.phase = Phase::Registered;
                    self.beat_ms = 0;
                }
                if let Some(view) = &view {
                    self.take_master(view, now_ms);
                }
            }
            Purpose::Elect => self.hear_elected(code, view.as_ref(), now_ms),
            Purpose::Replicas => self.hear_replicas(view.as_ref(), is_before, now_ms),
            Purpose::Alter => self.hear_altered(code, view.as_ref(), now_ms),
            Purpose::Fence => self.hear_fenced(code, view.as_ref(), now_ms),
            Purpose::NewId | Purpose::Register => {
                self.due_ms.insert(purpose, now_ms + RETRY_MS);
            }
        }
    }

    fn hear_sets(&mut self, code: Code, view: Option<&View>, alive: &[i64], now_ms: u64) {
        let Some(view) = view.filter(|_| code == Code::Success) else {
            self.due_ms.insert(Purpose::Sets, now_ms + RETRY_MS);
            return;
        };
        self.is_suspect = false;
        let Some(own_id) = self.id else { return };
        let others = view
            .in_sync
            .iter()
            .any(|id| *id != own_id && alive.contains(id));
        if view.in_sync.contains(&own_id) && others {
            self.id = None;
            self.orders.push(Order::ForgetIdentity);
        }
        self.orders.push(Order::SettleEnd);
    }

    fn hear_elected(&mut self, code: Code, view: Option<&View>, now_ms: u64) {
        let is_fine = matches!(code, Code::Success | Code::MasterStillExist);
        let has_master = view.is_some_and(|view| is_fine && self.take_master(view, now_ms));
        if !has_master && self.phase == Phase::Registered {
            self.due_ms.insert(Purpose::Elect, now_ms + RETRY_MS);
        }
    }

    fn hear_replicas(&mut self, view: Option<&View>, is_before: bool, now_ms: u64) {
        let pause_ms = if is_before { 0 } else { self.replicas_ms };
        self.due_ms.insert(Purpose::Replicas, now_ms + pause_ms);
        let Some(view) = view else {
            self.phase = Phase::LeaderKnown;
            return;
        };
        let is_news = view.master_epoch > self.epoch;
        if is_news || self.phase == Phase::Registered {
            if !self.take_master(view, now_ms) && is_news {
                self.is_gone = true;
                self.due_ms.insert(Purpose::Elect, now_ms);
            }
        } else if view.master_epoch == self.epoch && self.is_master() {
            if !is_before && let Some(number) = self.sets.hear_set(view) {
                self.orders.push(Order::RefuseSet(number));
            }
            self.take_set(view);
        }
    }

    fn hear_altered(&mut self, code: Code, view: Option<&View>, now_ms: u64) {
        match view.filter(|_| code == Code::Success) {
            Some(view) => {
                self.sets.wanted = None;
                self.take_set(view);
            }
            None => {
                if self.sets.hear_refusal() {
                    self.look_behind(now_ms);
                }
            }
        }
    }

    fn hear_fenced(&mut self, code: Code, view: Option<&View>, now_ms: u64) {
        let view = view.filter(|_| code == Code::Success);
        self.sets.hear_fenced(view.is_some());
        match view {
            Some(view) => self.take_set(view),
            None => self.look_behind(now_ms),
        }
    }

    /// Looks at the group at once; a look that is under way shows what was before.
    fn look_behind(&mut self, now_ms: u64) {
        self.looked_before = self.asked.contains(&Purpose::Replicas);
        self.due_ms.insert(Purpose::Replicas, now_ms);
    }

    /// Takes a notice of the controller.
    pub(crate) fn notified(&mut self, view: &View, now_ms: u64) {
        self.take_master(view, now_ms);
    }

    /// Asks for another set, as the master sees it.
    pub(crate) fn alter(&mut self, wanted: Alteration) {
        self.sets.alter(wanted);
        self.due_ms.remove(&Purpose::Alter);
    }

    /// Whether no set was asked for since a refusal.
    pub(crate) fn is_last(&self, number: u64) -> bool {
        number == self.sets.count
    }

    pub(crate) fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn take_master(&mut self, view: &View, now_ms: u64) -> bool {
        let (Some(master), Some(address), Some(id)) =
            (view.master, view.master_address.as_ref(), self.id)
        else {
            return false;
        };
        if self.is_suspect {
            return false;
        }
        if self.phase != Phase::LeaderKnown {
            self.due_ms.remove(&Purpose::Elect);
            if self.phase == Phase::Registered {
                self.phase = Phase::Running;
                self.due_ms
                    .insert(Purpose::Replicas, now_ms + FIRST_LOOK_MS);
            }
        }
        let epoch = view.master_epoch;
        if epoch <= self.epoch {
            return true;
        }
        self.epoch = epoch;
        self.is_gone = false;
        self.master_id = Some(master);
        self.sets.begin_reign();
        if master == id {
            self.set_epoch = view.set_epoch;
            self.orders.push(Order::Become {
                epoch,
                members: view.in_sync.clone(),
                set_epoch: view.set_epoch,
            });
        } else {
            self.set_epoch = -1;
            let master = broker_of(address);
            self.orders.push(Order::Follow { epoch, master });
        }
        true
    }

    fn take_set(&mut self, view: &View) {
        if self.is_master() && view.set_epoch > self.set_epoch {
            self.set_epoch = view.set_epoch;
            self.sets.hear_newer();
            self.orders.push(Order::TakeSet {
                members: view.in_sync.clone(),
                set_epoch: view.set_epoch,
            });
        }
    }
}

/// The address of a broker.
pub(crate) fn address_of(broker: usize) -> String {
    format!("node{broker}")
}

/// The broker of an address.
pub(crate) fn broker_of(address: &str) -> usize {
    address.trim_start_matches("node").parse().unwrap_or(0)
}
