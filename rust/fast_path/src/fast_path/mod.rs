//! The dispatcher: connections, which request processor executes a request, and what waits for the next
//! log file or for Python. Knows no request's meaning.

mod held_back;

use std::collections::VecDeque;
use std::sync::Arc;

use mqcore_access::Access;
use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{LoopEvents, Store};
use mqcore_engine::timer::Wheel;
use mqcore_record::Host;
use mqcore_wire::{Command, CommandRef};

pub(crate) use self::held_back::run_throttled;
use self::held_back::{is_held_back, refuse_when};
use crate::bits::BitRow;
use crate::codes;
use crate::connections::Connections;
use crate::context::Context;
use crate::deferred::{DeferredQueue, weight};
use crate::delivery::answers::refuse_send;
use crate::delivery::stamp::Stamp;
use crate::filtering::MessageFilters;
use crate::gate::{Gate, READS_FURTHER};
use crate::gets::Got;
use crate::policy::{Broker, Policy};
use crate::pop_run::names;
use crate::processors::Processors;
use crate::readers::{Done, Readers};
use crate::refusals;
use crate::repeats::{DuplicateCandidate, Repeats};
use crate::request_context::{ConnectionId, is_answered};
use crate::requests::Request;
use crate::shared_state::SharedState;
use crate::stop::{Escalation, How, Processed, Stop};
use crate::throttled::Throttled;
use crate::throttling::other_rights;
use crate::transactions::check::Checked;

/// A request for Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalated {
    /// Who asks.
    pub connection: ConnectionId,
    /// What.
    pub command: Command,
    /// Why the fast path does not execute it by itself.
    pub escalation: Escalation,
    /// Whose signature it has, while access control is on; empty where nobody had to sign.
    pub user: Box<str>,
}

impl Escalated {
    fn of(
        connection: ConnectionId,
        command: Command,
        escalation: Escalation,
        user: Box<str>,
    ) -> Self {
        Self {
            connection,
            command,
            escalation,
            user,
        }
    }
}

/// The fast path.
pub struct FastPath<D: Disk, C: Clock> {
    pub(crate) store: Arc<Store<D, C>>,
    /// What its loop is woken for.
    events: Arc<LoopEvents>,
    /// What was decided.
    pub policy: Policy,
    /// What it shares with those of other loops.
    pub shared: SharedState,
    /// Connections and answers.
    pub connections: Connections<D>,
    pub(crate) processors: Processors<D>,
    pub(crate) readers: Readers<D, C>,
    pub(crate) filters: MessageFilters,
    pub(crate) gate: Gate,
    escalated: Vec<Escalated>,
    pub(crate) now_ms: u64,
    pub(crate) deferred: DeferredQueue,
    /// What quotas hold back.
    pub(crate) throttled: Throttled,
    /// What was read and is not answered yet.
    pub(crate) done: VecDeque<Done<D>>,
    /// Whether queues have news that were not taken.
    pub(crate) has_more_news: bool,
    /// Whether what is held is let go, as if its time were over.
    pub(crate) lets_go: bool,
}

impl<D: Disk, C: Clock> FastPath<D, C> {
    /// A fast path for the first loop over a store, with so many threads for cold reads (0: read where
    /// it is asked).
    #[must_use]
    pub fn new(store: Arc<Store<D, C>>, reader_threads: usize) -> Self {
        let events = Arc::clone(store.first_loop());
        Self::sharing(store, events, reader_threads, SharedState::default())
    }

    /// Another fast path over the same store, for the connections of another loop: it shares what is
    /// popped, ended, committed and remembered, and has connections, held requests and policy of its own.
    /// Its wake descriptor is its own too.
    ///
    /// # Errors
    /// [`mqcore_engine::error::Error::Io`] when descriptors are exhausted.
    pub fn beside(&self, reader_threads: usize) -> Result<Self> {
        let store = Arc::clone(&self.store);
        let events = store.add_loop()?;
        let mut beside = Self::sharing(store, events, reader_threads, self.shared.clone());
        beside.connections = self.connections.beside();
        Ok(beside)
    }

    fn sharing(
        store: Arc<Store<D, C>>,
        events: Arc<LoopEvents>,
        reader_threads: usize,
        shared: SharedState,
    ) -> Self {
        Self {
            readers: Readers::new(Arc::clone(&store), Arc::clone(&events), reader_threads),
            processors: Processors::new(&shared, &events),
            store,
            events,
            policy: Policy::default(),
            shared,
            connections: Connections::new(),
            filters: MessageFilters::default(),
            gate: Gate::default(),
            escalated: Vec::new(),
            now_ms: 0,
            deferred: DeferredQueue::default(),
            throttled: Throttled::default(),
            done: VecDeque::new(),
            has_more_news: false,
            lets_go: false,
        }
    }

    /// The processors, and what they are given for one call.
    #[inline]
    pub(crate) fn split(&mut self) -> (Context<'_, D, C>, &mut Processors<D>) {
        let cx = Context {
            store: &self.store,
            events: &self.events,
            policy: &self.policy,
            connections: &mut self.connections,
            readers: &mut self.readers,
            filters: &mut self.filters,
            gate: &self.gate,
            now_ms: self.now_ms,
            has_deferred: !self.deferred.is_empty(),
        };
        (cx, &mut self.processors)
    }

    /// Replaces what is decided about the broker itself.
    pub fn decide_broker(&mut self, mut broker: Broker) {
        broker.timing.step_ms = self.store.config().timer_step_ms();
        broker.pops.revive_topic = names::revive_topic(&broker.cluster);
        self.connections.version = broker.version;
        self.connections.times.is_on = broker.times_requests;
        self.processors.delivery.stamp = Stamp::of(&broker);
        self.processors.pull.holds.set_limits(broker.held);
        // Who waits here looks for the next master.
        self.lets_go |= broker.passes_on && !self.policy.broker.passes_on;
        if self.policy.broker.quotas != broker.quotas {
            self.connections.quotas.decide(&broker.quotas);
            // Whoever waits by the former rules has waited enough.
            self.throttled.let_go();
        }
        self.policy.broker = Arc::new(broker);
        for shard in self.shared.pops.all() {
            shard.with(|merge| merge.decide(&self.store, &self.policy));
        }
    }

    /// Lets the bits of messages be made by these expressions; the time from which on that holds, Unix
    /// ms. Bits of a group may be read of messages that were stored later and not before.
    pub fn decide_bits(&mut self, rows: Vec<BitRow>) -> i64 {
        self.filters.decide_bits(&self.store, rows)
    }

    /// Remembers sends from now on; `None` does not, and forgets.
    pub fn remember(&mut self, repeats: Option<Repeats>) {
        self.shared.repeats.remember(repeats);
    }

    /// Lets sends ask the timing wheel how full a step of time is.
    pub fn set_wheel(&mut self, wheel: Arc<Wheel<D>>) {
        self.processors.delivery.wheel = Some(wheel);
    }

    /// What its loop is woken for. The loop waits on the wake descriptor, and [`FastPath::drain`] clears
    /// it; whoever changes something for the loop from elsewhere raises it.
    #[must_use]
    pub fn events(&self) -> &Arc<LoopEvents> {
        &self.events
    }

    /// Takes a new connection.
    pub fn open(&mut self, born_host: Host, peer: &str) -> ConnectionId {
        self.connections.open(born_host, peer)
    }

    /// Forgets a connection with all that it waits for: what it has is marked, and worked off in
    /// turns. Its parked sends are answered to nobody.
    pub fn close(&mut self, id: ConnectionId) {
        if self.connections.close(id).is_some() {
            self.processors.close(id);
            unwatch_emptied(self);
        }
    }

    /// Checks requests from now on; new tables wake the loop.
    ///
    /// # Errors
    /// A code that is executed here, and of which pairs are to be asked for that nobody here reads.
    pub fn set_access(&mut self, access: Arc<Access>) -> std::result::Result<(), i32> {
        let is_unread = |code: &i32| codes::is_executed(*code) && !READS_FURTHER.contains(code);
        if let Some(code) = access.rules.with_body().find(is_unread) {
            return Err(code);
        }
        let events = Arc::clone(&self.events);
        access.listen(move || events.wake_descriptor().raise());
        self.gate.set(access);
        self.renew_access();
        Ok(())
    }

    /// Takes the tables of access control in force; what is held for users whose rights they change is let
    /// go, and their clients ask again.
    pub(crate) fn renew_access(&mut self) {
        let changed = self.gate.renewed(&self.connections);
        for id in &changed {
            self.processors.release(*id);
        }
        self.throttled.refuse(&changed, other_rights);
    }

    pub(crate) fn execute_frame(&mut self, id: ConnectionId, command: &CommandRef<'_>) {
        self.connections.stats.requests += 1;
        if command.is_response() {
            let escalated = Escalated::of(id, command.to_owned(), Escalation::Code, Box::default());
            return escalate(self, escalated);
        }
        let now_us = self.connections.times.now_us();
        let mut request = Request::of_frame(id, command).received_at(now_us);
        self.renew_access();
        if self.gate.is_on() {
            let now_ms = || self.store.wall_ms();
            match self.gate.admit(&mut self.connections, id, command, &now_ms) {
                Ok(has_further) => request.has_further = has_further,
                Err((refused, when)) => return refuse_when(self, &request, refused, when),
            }
        }
        if !self.policy.broker.quotas.is_empty() && is_held_back(self, &request, command) {
            return;
        }
        match self.run(&request, How::ByPolicy) {
            Ok(()) => {}
            Err(Stop::Escalate(escalation)) => {
                let connection = self.connections.connection(id);
                let user = connection.map_or("", |connection| connection.identity.user());
                let escalated = Escalated::of(id, command.to_owned(), escalation, user.into());
                escalate(self, escalated);
            }
            Err(stop) => self.wait(id, command.to_owned(), How::ByPolicy, stop),
        }
    }

    /// Executes a request that was decided on; what still is not allowed is refused. False when the
    /// fast path does not execute requests of this code, or another broker is to.
    pub fn execute(&mut self, id: ConnectionId, command: Command, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        let asked = i64::from(is_answered(command.flag));
        self.connections.count_unanswered(id, asked);
        self.connections.times.begin_now();
        let now_us = self.connections.times.now_us();
        let request = Request::of_command(id, &command).received_at(now_us);
        let is_executed = match self.run(&request, How::Decided) {
            Ok(()) => true,
            Err(Stop::Escalate(_escalation)) => {
                self.connections.count_unanswered(id, -asked);
                false
            }
            Err(stop) => {
                self.wait(id, command, How::Decided, stop);
                true
            }
        };
        end_step(self);
        is_executed
    }

    /// Keeps a request that is not finished.
    pub(crate) fn wait(&mut self, id: ConnectionId, command: Command, how: How, stop: Stop) {
        let is_answered = is_answered(command.flag);
        if !is_answered && matches!(stop, Stop::Defer | Stop::DuplicateCandidate(..)) {
            self.connections.keep_here(id);
        }
        match stop {
            // It passed before it waited; what it is escalated for now needs no user.
            Stop::Escalate(escalation) => {
                escalate(self, Escalated::of(id, command, escalation, Box::default()));
            }
            Stop::Defer => defer(self, id, command, how),
            Stop::DuplicateCandidate(mark, slot) => {
                let bytes = weight(&command);
                let candidate = DuplicateCandidate::new(id, command, how, (mark, slot));
                let (mut cx, processors) = self.split();
                processors.send.repeats.have_read(&mut cx, candidate, bytes);
            }
            // Processors answer these themselves.
            Stop::BadHeader(_) | Stop::Refuse(_) => {}
        }
    }

    /// Executes a request that waited.
    pub(crate) fn run_again(&mut self, id: ConnectionId, command: Command, how: How) {
        let now_us = self.connections.times.now_us();
        let request = Request::of_command(id, &command).received_at(now_us);
        if let Err(stop) = self.run(&request, how) {
            self.wait(id, command, how, stop);
        }
    }

    /// Executes a request, unless it has to wait or Python has to decide.
    pub(crate) fn run(&mut self, request: &Request<'_>, how: How) -> Processed {
        if self.policy.broker.passes_on && codes::is_for_master(request.code) {
            return Err(Stop::Escalate(Escalation::PassOn));
        }
        if self.policy.broker.needs_check && how == How::ByPolicy {
            return Err(Stop::Escalate(if codes::is_executed(request.code) {
                Escalation::Check
            } else {
                Escalation::Code
            }));
        }
        let (mut cx, processors) = self.split();
        let ran = match processors.process(&mut cx, request, how) {
            Err(Stop::BadHeader(bad)) => {
                cx.connections
                    .refuse(&request.request_context, &refusals::bad_header(&bad));
                Ok(())
            }
            other => other,
        };
        if self.processors.has_emptied() {
            unwatch_emptied(self);
        }
        ran
    }

    /// Sets an offset that was decided on, as a consumer does; false when a bound was met.
    pub fn commit_offset(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let (cx, processors) = self.split();
        // Pops of the group would go on behind the offset that is left.
        let shard = processors.pops.shards().of_group(group);
        shard.with(|merge| merge.release(&cx, group, topic, queue_id));
        self.shared.offsets.commit(group, topic, queue_id, offset)
    }

    /// Sets where a group goes on in a queue, whatever its members commit before they have heard of
    /// it; false when a bound was met.
    pub fn reset_offset(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) -> bool {
        let (cx, processors) = self.split();
        // Pops of the group would go on behind the offset that is left.
        let shard = processors.pops.shards().of_group(group);
        shard.with(|merge| merge.release(&cx, group, topic, queue_id));
        self.shared.offsets.reset(group, topic, queue_id, offset)
    }

    /// Forgets the offsets of a group, of a topic or of both together, and what is in flight of them;
    /// how many offsets those were.
    pub fn remove_offsets(&mut self, group: Option<&str>, topic: Option<&str>) -> usize {
        self.processors.remove(group, topic);
        self.shared.offsets.remove(group, topic)
    }

    /// Forgets how many messages a group got, of a topic or of both together, on this loop.
    pub fn forget_gets(&mut self, group: Option<&str>, topic: Option<&str>) {
        self.processors.forget_gets(group, topic);
    }

    /// What each group got of each topic.
    #[must_use]
    pub fn gets(&self) -> Vec<(String, String, Got)> {
        self.processors.gets()
    }

    /// Writes all op messages of ended transactions; true when none is left.
    pub fn write_op_messages(&mut self) -> bool {
        let (mut cx, processors) = self.split();
        processors.transactions.write_op_messages(&mut cx)
    }

    /// Takes what a round of the check of half messages did; returns of each copy whether it was
    /// ended meanwhile.
    pub fn note_checked(&mut self, done: &Checked) -> Vec<bool> {
        let (mut cx, processors) = self.split();
        processors.transactions.note_checked(&mut cx, done)
    }

    /// Records that messages of a pop are settled; lets one go on that waits for the queue, where
    /// it has space again.
    pub fn land(&mut self, queue: (&str, &str, i32), pop_time_ms: i64, messages: usize) {
        let pops = &mut self.processors.pops;
        pops.land(&self.policy, queue, pop_time_ms, messages);
    }

    /// Stores every open pop: at a stop. Returns whether all are stored.
    pub fn store_pops(&mut self) -> bool {
        let (cx, processors) = self.split();
        processors.pops.shards().store_all_of_all(&cx)
    }

    /// Requests for Python, in the order they came.
    pub fn take_escalated(&mut self) -> Vec<Escalated> {
        std::mem::take(&mut self.escalated)
    }

    /// Lets everything be as it is: for a forked child, where the fast path's threads are not there.
    pub fn abandon(&mut self) {
        self.readers.abandon();
        // Forgetting a loop takes locks, which a thread of the parent may hold here for ever.
        std::mem::forget(Arc::clone(&self.events));
    }

    /// Answers that the next drain could give, at the most.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.processors.waiting() + self.deferred.len() + self.throttled.len()
    }
}

/// What was begun at one time has been done: its answers, and what was stored and waits, have their times.
pub(crate) fn end_step<D: Disk, C: Clock>(path: &mut FastPath<D, C>) {
    let delivery = &mut path.processors.delivery;
    if let Some(us) = path.connections.times.end_step(delivery.has_parked()) {
        delivery.mark_appended(us);
    }
}

/// Gives a request to Python.
fn escalate<D: Disk, C: Clock>(path: &mut FastPath<D, C>, escalated: Escalated) {
    let asked = i64::from(is_answered(escalated.command.flag));
    path.connections
        .count_unanswered(escalated.connection, -asked);
    path.connections.stats.escalated += 1;
    path.escalated.push(escalated);
}

/// Lets a request wait for the next log file, or refuses it at a bound.
fn defer<D: Disk, C: Clock>(
    path: &mut FastPath<D, C>,
    connection: ConnectionId,
    command: Command,
    how: How,
) {
    let bytes_max = path.connections.bounds.deferred_bytes;
    let request = (connection, command);
    let received = (path.now_ms, path.connections.times.now_us());
    let pushed = path.deferred.push(request, how, received, bytes_max);
    if let Err(command) = pushed {
        let request_context = Request::of_command(connection, &command).request_context;
        let refused = refusals::overload();
        refuse_send(
            &mut path.connections,
            &path.policy.broker,
            &request_context,
            &refused,
        );
    }
}

/// Ends the watching of queues that nobody waits at.
pub(crate) fn unwatch_emptied<D: Disk, C: Clock>(path: &mut FastPath<D, C>) {
    for (topic, queue_id) in path.processors.take_emptied() {
        let arrivals = path.events.arrivals();
        arrivals.unwatch(topic.as_bytes(), queue_id);
    }
}
