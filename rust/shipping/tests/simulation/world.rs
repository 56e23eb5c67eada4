//! One history: nodes, network and load in virtual time, one event after the other. The agenda decides what
//! comes next, the seed what happens then; every event ends with a look at everything that it may have
//! changed (`watch`).

use std::collections::BTreeMap;

use mqcore_engine::store::Standby;
use mqcore_record::{Host, Message};
use mqcore_shipping::{Follower, Shipping, Slaves};

use super::agenda::Agenda;
use super::copying::Copying;
use super::count::Count;
use super::dice::Dice;
use super::flaw::Flaw;
use super::ledger::{Checked, Ledger, QueueKey, Sent};
use super::network::{Network, Pair, Side};
use super::node::{Duty, Link, Node, Process};
use super::options::Options;
use super::run::History;
use super::trace::Trace;

/// Topics and queues that messages go to.
pub(crate) const QUEUE_KEYS: [QueueKey; 3] = [("T", 0), ("T", 1), ("Other", 0)];

pub(crate) const HOST: Host = Host::V4 {
    address: [127, 0, 0, 1],
    // What power loss takes of the end of a port cannot be distinguished from another one: zeros.
    port: 42 << 8,
};

/// What is planned. A number of a node goes with the incarnation that it is planned for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// Bytes that `near` or the other end has written are due.
    Deliver { pair: Pair, is_near: bool },
    /// The thread of replication has a turn.
    Turn { node: usize, incarnation: u32 },
    /// Other threads of a store do something.
    Work { node: usize, incarnation: u32 },
    /// The log is synced for those who wait.
    Flush { incarnation: u32 },
    /// The loop of the master answers what waited.
    Drain { incarnation: u32 },
    /// A slave connects.
    Connect { node: usize, incarnation: u32 },
    /// A node that is down starts.
    Start { node: usize },
    /// Some messages are sent.
    Burst,
    /// Something goes wrong.
    Fault,
}

/// One history under way.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) dice: Dice,
    pub(crate) now_ms: u64,
    agenda: Agenda<Event>,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    /// Who is at the near end of each connection; `None`: a stranger.
    pub(crate) near: BTreeMap<Pair, Option<usize>>,
    pub(crate) strangers: Vec<(u64, super::network::Wire)>,
    pub(crate) ledger: Ledger,
    pub(crate) count: Count,
    pub(crate) trace: Trace,
    pub(crate) is_faulty: bool,
    pub(crate) is_loaded: bool,
    pub(crate) reports: super::watch::Reports,
    bounds: super::flaw::Bounds,
    sent_number: u64,
    /// Sends to this start of the master that wait, and what a slave reads into.
    pub(crate) parked: usize,
    pub(crate) read_buffer: Vec<u8>,
}

impl World {
    pub(crate) fn new(seed: u64, flaw: Option<Flaw>, keeps_trace: bool) -> Self {
        let mut options = Options::of(seed);
        if let Some(flaw) = flaw {
            flaw.bend(&mut options);
        }
        let replicas = options.slaves + 1;
        let world = Self {
            flaw,
            dice: Dice::of(seed),
            now_ms: 0,
            agenda: Agenda::new(),
            network: Network::new(seed ^ 0x006e_6574_776f_726b),
            nodes: (0..replicas)
                .map(|node| Node::new(&options, node))
                .collect(),
            near: BTreeMap::new(),
            strangers: Vec::new(),
            ledger: Ledger::new(replicas, options.promise()),
            count: Count {
                histories: 1,
                ..Count::default()
            },
            trace: Trace::new(keeps_trace),
            is_faulty: true,
            is_loaded: true,
            reports: super::watch::Reports::default(),
            bounds: super::flaw::Bounds::default(),
            sent_number: 0,
            parked: 0,
            read_buffer: Vec::new(),
            options,
        };
        let tap = super::flaw::tap(flaw, &world.reports, &world.bounds);
        world.network.tap(tap);
        world
    }

    /// Runs the whole history.
    pub(crate) fn run(&mut self) -> Checked {
        for node in 0..self.nodes.len() {
            self.start(node)?;
        }
        self.plan(10, Event::Burst);
        self.plan(self.options.fault_every_ms, Event::Fault);
        let faulty_ms = self.options.faulty_ms;
        while self.now_ms < faulty_ms {
            self.step()?;
        }
        self.heal()?;
        self.settle()?;
        self.compare_all()
    }

    pub(crate) fn plan(&mut self, in_ms: u64, event: Event) {
        self.agenda.plan(self.now_ms + in_ms, event);
    }

    /// Plans a turn of a node, unless there is an earlier one.
    pub(crate) fn plan_turn(&mut self, node: usize, in_ms: u64) {
        let at_ms = self.now_ms + in_ms;
        let known = &mut self.nodes[node];
        if known.turn_at_ms.is_some_and(|planned| planned <= at_ms) {
            return;
        }
        known.turn_at_ms = Some(at_ms);
        let incarnation = known.incarnation;
        self.plan(in_ms, Event::Turn { node, incarnation });
    }

    /// The next event.
    pub(crate) fn step(&mut self) -> Checked {
        let Some((at_ms, event)) = self.agenda.next() else {
            return Err("nothing is planned any more".to_owned());
        };
        self.now_ms = self.now_ms.max(at_ms);
        self.network.set_time(self.now_ms);
        self.count.steps += 1;
        self.trace.event(self.now_ms, event);
        self.happen(event)?;
        self.watch()?;
        self.plan_what_is_due();
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Checked {
        match event {
            Event::Deliver { pair, is_near } => {
                let side = if is_near { Side::Near } else { Side::Far };
                self.network.deliver(pair, side);
            }
            Event::Turn { node, incarnation } => {
                let known = &mut self.nodes[node];
                if known.incarnation != incarnation || known.turn_at_ms != Some(self.now_ms) {
                    // An earlier one has come in its place.
                    return Ok(());
                }
                known.turn_at_ms = None;
                let paused_ms = known.paused_until_ms.saturating_sub(self.now_ms);
                if paused_ms > 0 {
                    self.plan_turn(node, paused_ms);
                    return Ok(());
                }
                return self.of_process(node, incarnation, event, Self::turn);
            }
            Event::Work { node, incarnation } => {
                return self.of_process(node, incarnation, event, Self::work);
            }
            Event::Flush { incarnation } => {
                return self.of_process(0, incarnation, event, |world, _node| world.flush(0));
            }
            Event::Drain { incarnation } => {
                return self.of_process(0, incarnation, event, |world, _node| world.drain());
            }
            Event::Connect { node, incarnation } => {
                return self.of_process(node, incarnation, event, Self::connect);
            }
            Event::Start { node } => return self.start(node),
            Event::Burst => return self.burst(),
            Event::Fault if self.is_faulty => return self.fault(),
            Event::Fault => {}
        }
        Ok(())
    }

    /// Does what a process does, unless it is gone; later, while it is paused.
    fn of_process(
        &mut self,
        node: usize,
        incarnation: u32,
        event: Event,
        does: impl FnOnce(&mut Self, usize) -> Checked,
    ) -> Checked {
        let known = &self.nodes[node];
        if known.process.is_none() || known.incarnation != incarnation {
            return Ok(());
        }
        if known.paused_until_ms > self.now_ms {
            let in_ms = known.paused_until_ms - self.now_ms;
            self.plan(in_ms, event);
            return Ok(());
        }
        self.nodes[node].time.pass_to(self.now_ms);
        let done = does(self, node);
        if self.has_met_stop(node) {
            return self.die_inside(node);
        }
        done
    }

    /// Whether a process has come to the call of its disk at which it dies.
    pub(crate) fn has_met_stop(&self, node: usize) -> bool {
        self.nodes[node].process.is_some() && self.nodes[node].twin.is_stopped()
    }

    /// Opens the store of a node that is down, and lets it do what its role is.
    pub(crate) fn start(&mut self, node: usize) -> Checked {
        if self.nodes[node].process.is_some() {
            return Ok(());
        }
        let now_ms = self.now_ms;
        let known = &mut self.nodes[node];
        known.time.pass_to(now_ms);
        known.incarnation += 1;
        known.turn_at_ms = None;
        known.paused_until_ms = 0;
        let incarnation = known.incarnation;
        let opened = known.open();
        let store = opened.map_err(|error| format!("node {node} does not open: {error}"))?;
        let duty = if node == 0 {
            let how = Shipping {
                timing: self.options.timing,
                batch_len_bytes: self.options.batch_len_bytes,
                bytes_per_second_max: self.options.bytes_per_second_max,
                copied_bytes_per_second_max: None,
                quorum: Some(self.options.rule),
            };
            Duty::Master(Box::new(Slaves::new(std::sync::Arc::clone(&store), how)))
        } else {
            Duty::slave(&store)
        };
        self.nodes[node].process = Some(Process {
            store,
            duty,
            wakes_on_growth: true,
            seen: vec![0; QUEUE_KEYS.len()],
        });
        self.check_opened(node)?;
        if node == 0 {
            self.bounds
                .note(self.ledger.sent.last().map_or(0, |sent| sent.begin));
        }
        let work_ms = self.dice.below(100);
        self.plan(work_ms, Event::Work { node, incarnation });
        if node == 0 {
            self.plan_turn(0, 0);
        } else {
            let in_ms = self.dice.below(self.options.retry_ms);
            self.plan(in_ms, Event::Connect { node, incarnation });
        }
        Ok(())
    }

    fn connect(&mut self, node: usize) -> Checked {
        let incarnation = self.nodes[node].incarnation;
        let is_reached = self.nodes[0].process.is_some()
            && self.nodes[0].paused_until_ms <= self.now_ms
            && !self.dice.once_in(8)
            && !self.is_let_wait(node);
        if !is_reached {
            let retry_ms = self.options.retry_ms;
            self.plan(retry_ms, Event::Connect { node, incarnation });
            return Ok(());
        }
        let (pair, near, far) = self.network.connect(self.options.quality);
        self.count.connects += 1;
        self.near.insert(pair, Some(node));
        let timing = self.options.timing;
        let master = self.nodes[0].incarnation;
        if let Some(process) = &mut self.nodes[node].process
            && let Duty::Slave { walk, link } = &mut process.duty
        {
            let store = std::sync::Arc::clone(&process.store);
            let follower = if self.flaw.is_some_and(|flaw| flaw.copies_all(node)) {
                Copying::official(store)
            } else {
                let walk = std::sync::Arc::clone(walk);
                Copying::Ours(Box::new(Follower::new(store, walk, timing)))
            };
            *link = Some(Box::new(Link {
                wire: near,
                follower,
                has_begun: false,
                master,
            }));
        }
        let host = Flaw::host_of(self.flaw, node, pair);
        self.accept(format!("{host}:{pair}"), far);
        self.plan_turn(node, 0);
        Ok(())
    }

    /// The master takes a connection.
    pub(crate) fn accept(&mut self, address: String, wire: super::network::Wire) {
        self.nodes[0].time.pass_to(self.now_ms);
        let now_ms = self.elapsed_ms(0);
        if let Some(process) = &mut self.nodes[0].process
            && let Duty::Master(slaves) = &mut process.duty
        {
            slaves.add(address, wire, now_ms);
            process.wakes_on_growth = true;
        }
        self.plan_turn(0, 0);
    }

    fn elapsed_ms(&self, node: usize) -> u64 {
        let store = self.nodes[node].store();
        store.map_or(0, |store| store.replica().elapsed_ms())
    }

    fn burst(&mut self) -> Checked {
        let every_ms = self.options.burst_every_ms;
        let in_ms = self.dice.between(1, 2 * every_ms);
        self.plan(in_ms, Event::Burst);
        let is_up = self.nodes[0].process.is_some() && self.nodes[0].paused_until_ms <= self.now_ms;
        if !is_up || !self.is_loaded {
            return Ok(());
        }
        self.nodes[0].time.pass_to(self.now_ms);
        for _ in 0..self.dice.between(1, 4) {
            self.send()?;
            if self.nodes[0].process.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// A body that no other message has, and where it goes.
    fn next_body(&mut self) -> (QueueKey, Vec<u8>) {
        self.sent_number += 1;
        let queue_key = self.dice.pick(&QUEUE_KEYS);
        let len = self.dice.between(1, self.options.body_len_max) as usize;
        let mut body = format!("{:x}.", self.sent_number).into_bytes();
        body.resize(len.max(body.len()), b'a' + (self.sent_number % 26) as u8);
        (queue_key, body)
    }

    /// Sends a message, as the fast path does: looks before the append, and parks what waits.
    fn send(&mut self) -> Checked {
        let Some(process) = &self.nodes[0].process else {
            return Ok(());
        };
        let (store, wakes) = (
            std::sync::Arc::clone(&process.store),
            process.wakes_on_growth,
        );
        let incarnation = self.nodes[0].incarnation;
        self.count.sent += 1;
        if store.replica().standby() == Standby::NotEnough {
            self.count.refused += 1;
            return Ok(());
        }
        let (queue_key, body) = self.next_body();
        let message = Message {
            // What power loss takes of a time cannot be distinguished from one of 1970 (`torn_head.rs`).
            born_timestamp_ms: 0,
            ..Message::of(queue_key.0, queue_key.1, &body, HOST)
        };
        let appended = store.writer().append(&message);
        if self.has_met_stop(0) {
            return self.die_inside(0);
        }
        let at = appended.map_err(|error| format!("a send failed: {error}"))?;
        let standby = store.replica().standby();
        let needs_replica = standby == Standby::Reachable;
        let is_synced = self.options.is_synced[0];
        let ticket = if needs_replica || is_synced {
            let parked = store.durability().park(at.end(), needs_replica);
            self.parked += 1;
            Some(parked.map_err(|error| error.to_string())?)
        } else {
            None
        };
        if matches!(standby, Standby::Unavailable | Standby::NotEnough) {
            self.count.unavailable += 1;
        }
        let from = self.ledger.end();
        let bytes = super::node::log_bytes(&store, from, at.end());
        if self.has_met_stop(0) {
            return self.die_inside(0);
        }
        let sent = Sent {
            queue_key,
            queue_offset: at.queue_offset,
            begin: at.physical_offset,
            end: at.end(),
            ticket,
            needs_replica,
            status: None,
        };
        self.trace.note(at.end());
        self.ledger.appended(&bytes, sent)?;
        if let Some(flaw) = self.flaw {
            self.bend_marks(flaw);
        }
        if is_synced {
            let in_ms = self.dice.below(4);
            self.plan(in_ms, Event::Flush { incarnation });
        }
        if ticket.is_some() {
            let config = store.config();
            let in_ms = config.replicas_timeout_ms.min(config.sync_flush_timeout_ms);
            self.plan(in_ms, Event::Drain { incarnation });
        }
        if wakes {
            let in_ms = self.dice.below(2);
            self.plan_turn(0, in_ms);
        }
        Ok(())
    }

    /// Plans what connections and wake descriptors ask for.
    fn plan_what_is_due(&mut self) {
        for (at_ms, pair, side) in self.network.take_due() {
            let in_ms = at_ms.saturating_sub(self.now_ms);
            let is_near = side == Side::Near;
            self.plan(in_ms, Event::Deliver { pair, is_near });
        }
        for wake in self.network.take_wakes() {
            let node = match wake.side {
                Side::Far => Some(0),
                Side::Near => self.near.get(&wake.pair).copied().flatten(),
            };
            if let Some(node) = node.filter(|node| self.nodes[*node].process.is_some()) {
                let in_ms = self.dice.below(2);
                self.plan_turn(node, in_ms);
            }
        }
        let process = self.nodes[0].process.as_ref();
        let Some(process) = process.filter(|_| self.parked > 0) else {
            return;
        };
        let wake = process.store.wake_descriptor();
        if wake.is_raised() {
            wake.clear();
            let incarnation = self.nodes[0].incarnation;
            let in_ms = self.dice.below(3);
            self.plan(in_ms, Event::Drain { incarnation });
        }
    }
}

impl History for World {
    type Flaw = Flaw;
    type Count = Count;

    const SEED: &'static str = "MQCORE_SIMULATE_SEED";

    fn new(seed: u64, flaw: Option<Flaw>, keeps_trace: bool) -> Self {
        Self::new(seed, flaw, keeps_trace)
    }

    fn run(&mut self) -> Checked {
        self.run()
    }

    fn options(&self) -> String {
        format!("{:#?}", self.options)
    }

    fn count(&self) -> Count {
        self.count
    }

    fn trace(&self) -> &Trace {
        &self.trace
    }
}
