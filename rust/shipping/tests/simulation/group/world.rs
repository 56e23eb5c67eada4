//! One history of a group: brokers, controllers, network and load in virtual time, one event after the other.
//! The agenda decides what comes next, the seed what happens then; every event ends with a look at everything
//! that it may have changed (`watch`).

use std::collections::BTreeMap;

use super::clients::Clients;
use super::controllers::Controllers;
use super::count::Count;
use super::flaw::Flaw;
use super::ledger::Ledger;
use super::letters::{Letter, Letters, Party};
use super::node::Node;
use super::options::Options;
use crate::agenda::Agenda;
use crate::dice::Dice;
use crate::ledger::Checked;
use crate::network::{Network, Pair, Side};
use crate::run::History;
use crate::trace::Trace;
use crate::watch::Reports;

/// What is planned. A broker goes with the process, or the open of its store, that it is planned for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// Bytes that `near` or the other end has written are due.
    Deliver { pair: Pair, is_near: bool },
    /// The thread of replication has a turn.
    Turn(usize, u32),
    /// Other threads of a store do something.
    Work(usize, u32),
    /// The log is synced for those who wait.
    Flush(usize, u32),
    /// The loop of a master answers what waited.
    Drain(usize, u32),
    /// A slave connects.
    Connect(usize, u32),
    /// What is due of delayed messages.
    Delays(usize, u32),
    /// What is due of messages with a time of their own.
    Timers(usize, u32),
    /// A broker asks its controller what is due.
    Ask(usize, u32),
    /// A request was not answered in time.
    AskLate(usize, u32, u64),
    /// A broker does what its controller wants.
    Perform(usize, u32),
    /// A broker that is down starts.
    Start(usize),
    /// A letter arrives.
    Letter(u64),
    /// Controllers look who is alive.
    Scan,
    /// A controller that is down starts.
    StartController(usize),
    /// Some messages are sent.
    Burst,
    /// Something goes wrong.
    Fault,
    /// Clients do something.
    Act,
    /// A broker does for its clients what it does in rounds.
    Rounds(usize, u32),
    /// A producer ends a transaction.
    End(u64),
}

/// More than any history has that comes to an end.
const STEPS_MAX: u64 = 2_000_000;

/// One history under way.
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) dice: Dice,
    pub(crate) now_ms: u64,
    agenda: Agenda<Event>,
    pub(crate) network: Network,
    pub(crate) letters: Letters,
    pub(crate) nodes: Vec<Node>,
    pub(crate) controllers: Controllers,
    /// Who is at the near and who at the far end of each connection.
    pub(crate) ends: BTreeMap<Pair, (usize, usize)>,
    pub(crate) ledger: Ledger,
    pub(crate) count: Count,
    pub(crate) trace: Trace,
    pub(crate) is_faulty: bool,
    pub(crate) is_loaded: bool,
    pub(crate) frames: Reports,
    pub(crate) sent_number: u64,
    /// What a slave reads into.
    pub(crate) read_buffer: Vec<u8>,
    /// The last time that a message was sent for.
    pub(crate) due_max_ms: i64,
    /// The number of the set that was looked at last.
    pub(crate) set_seen: (i32, i32),
    /// Clients beside the load, where the history has some.
    pub(crate) clients: Option<Box<Clients>>,
}

impl World {
    pub(crate) fn new(seed: u64, flaw: Option<Flaw>, keeps_trace: bool) -> Self {
        let mut options = Options::of(seed);
        if let Some(flaw) = flaw {
            flaw.bend(&mut options);
        }
        let mut controllers = Controllers::new(options.controllers, options.dead_after_ms);
        controllers.forgets_last = flaw == Some(Flaw::ControllerForgets);
        let world = Self {
            flaw,
            dice: Dice::of(seed ^ 0x6772_6f75),
            now_ms: 0,
            agenda: Agenda::new(),
            network: Network::new(seed ^ 0x006e_6574_776f_726b),
            letters: Letters::default(),
            nodes: (0..options.brokers)
                .map(|broker| Node::new(&options, broker))
                .collect(),
            controllers,
            ends: BTreeMap::new(),
            ledger: Ledger::new(options.brokers),
            count: Count {
                histories: 1,
                ..Count::default()
            },
            trace: Trace::new(keeps_trace),
            is_faulty: true,
            is_loaded: true,
            frames: Reports::default(),
            sent_number: 0,
            read_buffer: Vec::new(),
            due_max_ms: i64::MIN,
            set_seen: (-1, -1),
            clients: Clients::of(seed, &options, flaw),
            options,
        };
        world.network.tap(super::flaw::tap(flaw, &world.frames));
        world
    }

    /// Runs the whole history.
    pub(crate) fn run(&mut self) -> Checked {
        for controller in 0..self.options.controllers {
            self.start_controller(controller)?;
        }
        self.scan()?;
        for broker in 0..self.nodes.len() {
            self.start(broker)?;
        }
        self.plan(self.options.scan_ms, Event::Scan);
        self.plan(500, Event::Burst);
        if self.clients.is_some() {
            self.plan(500, Event::Act);
        }
        self.plan(1_500 + self.options.fault_every_ms, Event::Fault);
        let faulty_ms = self.options.faulty_ms;
        while self.now_ms < faulty_ms {
            self.step()?;
        }
        self.heal();
        self.settle()?;
        self.compare_all()
    }

    pub(crate) fn plan(&mut self, in_ms: u64, event: Event) {
        self.agenda.plan(self.now_ms + in_ms, event);
    }

    /// Plans a turn of a broker, unless there is an earlier one.
    pub(crate) fn plan_turn(&mut self, broker: usize, in_ms: u64) {
        let at_ms = self.now_ms + in_ms;
        let known = &mut self.nodes[broker];
        if known.turn_at_ms.is_some_and(|planned| planned <= at_ms) {
            return;
        }
        known.turn_at_ms = Some(at_ms);
        let opening = known.opening;
        self.plan(in_ms, Event::Turn(broker, opening));
    }

    /// Plans that a broker looks what it has to ask, unless that is planned for earlier.
    pub(crate) fn plan_ask(&mut self, broker: usize, in_ms: u64) {
        let at_ms = self.now_ms + in_ms;
        let incarnation = self.nodes[broker].incarnation;
        let Some(process) = &mut self.nodes[broker].process else {
            return;
        };
        if process.ask_at_ms.is_some_and(|planned| planned <= at_ms) {
            return;
        }
        process.ask_at_ms = Some(at_ms);
        self.plan(in_ms, Event::Ask(broker, incarnation));
    }

    /// Sends a letter.
    pub(crate) fn post(&mut self, from: Party, to: Party, letter: Letter) {
        let is_lost = self.is_faulty && self.dice.once_in(40);
        if is_lost || self.letters.is_cut(from, to, self.now_ms) {
            self.count.lost_letters += 1;
            return;
        }
        let (least, most) = self.options.letter_ms;
        let in_ms = self.dice.between(least, most);
        let number = self.letters.put(letter);
        self.plan(in_ms, Event::Letter(number));
    }

    /// The next event.
    pub(crate) fn step(&mut self) -> Checked {
        let Some((at_ms, event)) = self.agenda.next() else {
            return Err("nothing is planned any more".to_owned());
        };
        self.now_ms = self.now_ms.max(at_ms);
        self.network.set_time(self.now_ms);
        self.count.steps += 1;
        if self.count.steps >= STEPS_MAX {
            return Err(format!("it does not come to an end: {}", self.left_open()));
        }
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
                Ok(())
            }
            Event::Turn(broker, opening) => self.happen_turn(broker, opening, event),
            Event::Work(broker, opening) => self.of_store(broker, opening, event, Self::work),
            Event::Flush(broker, opening) => self.of_store(broker, opening, event, Self::flush),
            Event::Drain(broker, opening) => self.of_store(broker, opening, event, Self::drain),
            Event::Connect(broker, opening) => self.of_store(broker, opening, event, Self::connect),
            Event::Delays(broker, opening) => self.of_store(broker, opening, event, Self::delays),
            Event::Timers(broker, opening) => self.of_store(broker, opening, event, Self::timers),
            Event::Ask(broker, process) => self.of_process(broker, process, event, Self::ask),
            Event::AskLate(broker, process, number) => {
                self.of_process(broker, process, event, |world, broker| {
                    world.ask_late(broker, number);
                    Ok(())
                })
            }
            Event::Perform(broker, process) => {
                self.of_process(broker, process, event, Self::perform)
            }
            Event::Start(broker) => self.start(broker),
            Event::Letter(number) => self.arrive(number),
            Event::Scan => {
                self.plan(self.options.scan_ms, Event::Scan);
                self.scan()
            }
            Event::StartController(controller) => self.start_controller(controller),
            Event::Burst => self.burst(),
            Event::Fault if self.is_faulty => self.fault(),
            Event::Fault => Ok(()),
            Event::Act => self.act(),
            Event::Rounds(broker, opening) => self.of_store(broker, opening, event, Self::rounds),
            Event::End(number) => self.end_transaction(number),
        }
    }

    fn happen_turn(&mut self, broker: usize, opening: u32, event: Event) -> Checked {
        let known = &mut self.nodes[broker];
        if known.opening != opening || known.turn_at_ms != Some(self.now_ms) {
            // An earlier one has come in its place.
            return Ok(());
        }
        known.turn_at_ms = None;
        let paused_ms = known.paused_until_ms.saturating_sub(self.now_ms);
        if paused_ms > 0 {
            self.plan_turn(broker, paused_ms);
            return Ok(());
        }
        self.of_store(broker, opening, event, Self::turn)
    }

    /// Does what concerns a store, unless that is closed.
    fn of_store(
        &mut self,
        broker: usize,
        opening: u32,
        event: Event,
        does: impl FnOnce(&mut Self, usize) -> Checked,
    ) -> Checked {
        let known = &self.nodes[broker];
        if known.opening != opening || known.opened().is_none() {
            return Ok(());
        }
        self.of_process(broker, known.incarnation, event, does)
    }

    /// Does what a process does, unless it is gone; later, while it is paused.
    fn of_process(
        &mut self,
        broker: usize,
        incarnation: u32,
        event: Event,
        does: impl FnOnce(&mut Self, usize) -> Checked,
    ) -> Checked {
        let known = &mut self.nodes[broker];
        if known.process.is_none() || known.incarnation != incarnation {
            return Ok(());
        }
        if known.paused_until_ms > self.now_ms {
            let in_ms = known.paused_until_ms - self.now_ms;
            self.plan(in_ms, event);
            return Ok(());
        }
        known.time.pass_to(self.now_ms);
        let done = does(self, broker);
        if self.has_met_stop(broker) {
            return self.die_inside(broker);
        }
        done
    }

    /// Whether a process has come to the call of its disk at which it dies.
    pub(crate) fn has_met_stop(&self, broker: usize) -> bool {
        self.nodes[broker].process.is_some() && self.nodes[broker].twin.is_stopped()
    }

    /// A letter has come.
    fn arrive(&mut self, number: u64) -> Checked {
        let Some(letter) = self.letters.take(number) else {
            return Ok(());
        };
        let controller = match &letter {
            Letter::Ask { controller, .. }
            | Letter::Beat { controller, .. }
            | Letter::Closed { controller, .. } => Some(*controller),
            Letter::Answer { .. } | Letter::Notice { .. } => None,
        };
        if let Some(controller) = controller {
            let paused_until_ms = self.controllers.all[controller].paused_until_ms;
            if !self.controllers.is_up(controller) {
                return Ok(());
            }
            if paused_until_ms > self.now_ms {
                let number = self.letters.put(letter);
                self.plan(paused_until_ms - self.now_ms, Event::Letter(number));
                return Ok(());
            }
        }
        match letter {
            Letter::Ask {
                from,
                number,
                controller,
                ask,
            } => self.handle(from, number, controller, &ask),
            Letter::Beat { controller, beat } => {
                let now_ms = self.now_ms;
                self.controllers.all[controller]
                    .liveness
                    .heard(beat, now_ms);
                Ok(())
            }
            Letter::Closed {
                controller,
                channel,
            } => {
                let gone = self.controllers.all[controller].liveness.closed(channel);
                self.lost(controller, &gone)
            }
            Letter::Answer {
                to: (broker, incarnation),
                number,
                controller,
                answer,
            } => {
                if self.nodes[broker].incarnation == incarnation {
                    self.answered(broker, number, controller, answer);
                }
                Ok(())
            }
            Letter::Notice { broker, view } => {
                let now_ms = self.now_ms;
                if let Some(process) = &mut self.nodes[broker].process {
                    process.member.notified(&view, now_ms);
                    self.plan_ask(broker, 0);
                }
                Ok(())
            }
        }
    }

    /// Plans what connections and wake descriptors ask for.
    fn plan_what_is_due(&mut self) {
        for (at_ms, pair, side) in self.network.take_due() {
            let in_ms = at_ms.saturating_sub(self.now_ms);
            let is_near = side == Side::Near;
            self.plan(in_ms, Event::Deliver { pair, is_near });
        }
        for wake in self.network.take_wakes() {
            let Some((near, far)) = self.ends.get(&wake.pair).copied() else {
                continue;
            };
            let broker = if wake.side == Side::Near { near } else { far };
            if self.nodes[broker].opened().is_some() {
                let in_ms = self.dice.below(2);
                self.plan_turn(broker, in_ms);
            }
        }
        for broker in 0..self.nodes.len() {
            let known = &self.nodes[broker];
            let opening = known.opening;
            let is_asked = self.is_asked(broker);
            let opened = known.opened();
            let Some(opened) = opened.filter(|opened| is_asked || !opened.parked.is_empty()) else {
                continue;
            };
            let wake = opened.store.wake_descriptor();
            if wake.is_raised() {
                wake.clear();
                let in_ms = self.dice.below(3);
                self.plan(in_ms, Event::Drain(broker, opening));
            }
        }
    }
}

impl History for World {
    type Flaw = Flaw;
    type Count = Count;

    const SEED: &'static str = "MQCORE_SIMULATE_GROUP";

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
