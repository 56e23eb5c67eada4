//! The lane itself: bytes of connections in, requests executed or handed over, answers of what was
//! parked, held or read out of the cold. Each request's meaning is in its own file.

use std::collections::VecDeque;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::Store;
use mqcore_engine::timer::Wheel;
use mqcore_record::Host;
use mqcore_wire::{Command, CommandRef};

use crate::asker::{Asker, ConnectionId};
use crate::bits::FilterBits;
use crate::codes;
use crate::desk::{Desk, Said};
use crate::filtering::Compiled;
use crate::gets::Gets;
use crate::holds::{Holds, Pull};
use crate::offsets::Offsets;
use crate::parked::Parked;
use crate::policy::{Broker, Policy};
use crate::pop::{Pops, names};
use crate::readers::{Done, Readers};
use crate::repeats::window::Mark;
use crate::repeats::{Doubt, Repeats};
use crate::requests::{BadField, Request};
use crate::resets::Resets;
use crate::stamp::Stamp;
use crate::transactions::ends::Ends;

/// How long a send may wait for the next log file, ms: the official bound of its send queue
/// (`waitTimeMillsInSendQueue`).
pub const SEND_WAIT_MAX_MS: u64 = 200;
/// Bytes of sends that wait for the next log file at the most.
const DEFERRED_BYTES_MAX: usize = 64 << 20;
/// Pause before it is tried again whether the next log file is there, ms.
const DEFERRED_RETRY_MS: u64 = 2;

/// Why a request is handed to Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The lane does not execute this code.
    Code,
    /// The topic of this name is not known.
    Topic(String),
    /// The group of this name is not known.
    Group(String),
    /// The policy asks for a look first.
    Check,
}

/// A request for Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// Who asks.
    pub connection: ConnectionId,
    /// What.
    pub command: Command,
    /// Why the lane does not execute it by itself.
    pub need: Need,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is answered, parked, held or on its way to the disk.
    Done,
    /// Python has to decide.
    Hand(Need),
    /// The next log file is not there yet.
    Defer,
    /// Whether it was stored before has to be read from the disk: the mark, and where.
    Doubt(Mark, u64),
}

/// Who decides about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The policy; what it does not say is handed over.
    ByPolicy,
    /// Python has decided: what still does not stand is refused.
    Decided,
}

struct Deferred {
    connection: ConnectionId,
    command: Command,
    since_ms: u64,
    how: How,
}

/// The lane.
pub struct Lane<D: Disk, C: Clock> {
    pub(crate) store: Arc<Store<D, C>>,
    /// What was decided.
    pub policy: Policy,
    /// The live consumer offsets.
    pub offsets: Offsets,
    /// How many messages groups got.
    pub gets: Gets,
    /// Those that were set and no consumer has gone on from yet.
    pub resets: Resets,
    /// Connections and answers.
    pub desk: Desk<D>,
    pub(crate) holds: Holds,
    pub(crate) parked: Parked,
    pub(crate) readers: Readers<D, C>,
    /// The wheel of messages with a time of their own, to ask how full a step is.
    pub wheel: Option<Arc<Wheel<D>>>,
    /// How transactions ended.
    pub ends: Ends,
    /// The sends of the last minutes, where they are remembered.
    pub(crate) repeats: Option<Repeats>,
    /// What is popped.
    pub pops: Pops,
    pub(crate) handed: Vec<Handed>,
    /// Rises with each message without a queue of its own, so that queues take turns.
    pub(crate) turn: u32,
    pub(crate) now_ms: u64,
    pub(crate) acks_deadline_ms: Option<u64>,
    pub(crate) scratch: Vec<u8>,
    pub(crate) compiled: Compiled,
    /// Who makes the bits of messages.
    pub(crate) bits: Arc<FilterBits>,
    /// Of the broker as it was decided last.
    pub(crate) stamp: Stamp,
    deferred: VecDeque<Deferred>,
    deferred_bytes: usize,
}

impl<D: Disk, C: Clock> Lane<D, C> {
    /// A lane over a store, with so many threads for cold reads (0: read where it is asked).
    #[must_use]
    pub fn new(store: Arc<Store<D, C>>, reader_threads: usize) -> Self {
        Self {
            readers: Readers::new(Arc::clone(&store), reader_threads),
            store,
            policy: Policy::default(),
            offsets: Offsets::default(),
            resets: Resets::default(),
            gets: Gets::default(),
            desk: Desk::new(),
            holds: Holds::default(),
            parked: Parked::default(),
            ends: Ends::default(),
            repeats: None,
            pops: Pops::default(),
            handed: Vec::new(),
            turn: 0,
            now_ms: 0,
            wheel: None,
            acks_deadline_ms: None,
            scratch: Vec::new(),
            compiled: Compiled::default(),
            bits: Arc::default(),
            stamp: Stamp::of(&Broker::default()),
            deferred: VecDeque::new(),
            deferred_bytes: 0,
        }
    }

    /// Replaces what is decided about the broker itself.
    pub fn decide_broker(&mut self, mut broker: Broker) {
        broker.timing.step_ms = self.store.config().timer_step_ms();
        broker.pops.revive_topic = names::revive_topic(&broker.cluster);
        self.desk.version = broker.version;
        self.stamp = Stamp::of(&broker);
        self.policy.broker = Arc::new(broker);
        self.count_in_flight();
    }

    /// Takes a new connection.
    pub fn open(&mut self, born_host: Host, peer: &str) -> ConnectionId {
        self.desk.open(born_host, peer)
    }

    /// Forgets a connection with all that it waits for.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.desk.close(id) {
            if connection.parked > 0 {
                self.parked.close(id);
            }
            self.holds.close(id);
            self.pops.polls.close(id);
            self.pops.notices.close(id);
            self.deferred.retain(|deferred| deferred.connection != id);
            self.deferred_bytes = self.deferred.iter().map(|d| weight(&d.command)).sum();
            self.unwatch_emptied();
        }
    }

    pub(crate) fn execute_frame(&mut self, id: ConnectionId, command: &CommandRef<'_>) {
        self.desk.stats.requests += 1;
        let need = if command.is_response() {
            Need::Code
        } else {
            match self.run(&Request::of_frame(id, command), How::ByPolicy) {
                Outcome::Done => return,
                Outcome::Hand(need) => need,
                other => return self.wait(id, command.to_owned(), How::ByPolicy, other),
            }
        };
        self.hand(id, command.to_owned(), need);
    }

    fn hand(&mut self, connection: ConnectionId, command: Command, need: Need) {
        self.desk.stats.handed += 1;
        self.handed.push(Handed {
            connection,
            command,
            need,
        });
    }

    /// Executes a request that was decided on; what still does not stand is refused. False when the
    /// lane does not execute requests of this code.
    pub fn execute(&mut self, id: ConnectionId, command: Command, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        match self.run(&Request::of_command(id, &command), How::Decided) {
            Outcome::Hand(_need) => false,
            other => {
                self.wait(id, command, How::Decided, other);
                true
            }
        }
    }

    /// Keeps a request that cannot be executed now; nothing for one that was.
    fn wait(&mut self, id: ConnectionId, command: Command, how: How, outcome: Outcome) {
        match outcome {
            Outcome::Done => {}
            Outcome::Defer => self.defer(id, command, how),
            Outcome::Doubt(mark, place) => {
                let bytes = weight(&command);
                self.have_read(Doubt::new(id, command, how, (mark, place)), bytes);
            }
            Outcome::Hand(need) => self.hand(id, command, need),
        }
    }

    /// Executes a request that waited.
    fn run_again(&mut self, id: ConnectionId, command: Command, how: How) {
        let outcome = self.run(&Request::of_command(id, &command), how);
        self.wait(id, command, how, outcome);
    }

    fn run(&mut self, request: &Request<'_>, how: How) -> Outcome {
        if self.policy.broker.needs_check && how == How::ByPolicy {
            return Outcome::Hand(match request.code {
                codes::SEND_MESSAGE
                | codes::SEND_MESSAGE_V2
                | codes::SEND_BATCH_MESSAGE
                | codes::CONSUMER_SEND_MSG_BACK
                | codes::RECALL_MESSAGE
                | codes::END_TRANSACTION
                | codes::PULL_MESSAGE
                | codes::LITE_PULL_MESSAGE
                | codes::POP_MESSAGE
                | codes::ACK_MESSAGE
                | codes::BATCH_ACK_MESSAGE
                | codes::CHANGE_MESSAGE_INVISIBLE_TIME
                | codes::NOTIFICATION
                | codes::POLLING_INFO
                | codes::PEEK_MESSAGE
                | codes::QUERY_CONSUMER_OFFSET
                | codes::UPDATE_CONSUMER_OFFSET
                | codes::GET_MAX_OFFSET
                | codes::GET_MIN_OFFSET
                | codes::SEARCH_OFFSET_BY_TIMESTAMP => Need::Check,
                _ => Need::Code,
            });
        }
        let ran = match request.code {
            codes::SEND_MESSAGE_V2 | codes::SEND_BATCH_MESSAGE => self.send(request, true, how),
            codes::SEND_MESSAGE => self.send(request, false, how),
            codes::CONSUMER_SEND_MSG_BACK => self.send_back(request, how),
            codes::END_TRANSACTION => self.end_transaction(request),
            codes::PULL_MESSAGE | codes::LITE_PULL_MESSAGE => self.pull(request, how),
            codes::POP_MESSAGE => self.pop(request, how),
            codes::ACK_MESSAGE => self.acknowledge(request),
            codes::BATCH_ACK_MESSAGE => self.acknowledge_many(request),
            codes::CHANGE_MESSAGE_INVISIBLE_TIME => self.change_invisible(request),
            codes::NOTIFICATION => self.notify(request, how),
            codes::POLLING_INFO => self.polling_info(request, how),
            codes::PEEK_MESSAGE => self.peek(request, how),
            codes::QUERY_CONSUMER_OFFSET => self.query_offset(request),
            codes::UPDATE_CONSUMER_OFFSET => self.update_offset(request),
            codes::GET_MAX_OFFSET => self.max_offset(request),
            codes::GET_MIN_OFFSET => self.min_offset(request),
            codes::SEARCH_OFFSET_BY_TIMESTAMP => self.search_offset(request),
            codes::RECALL_MESSAGE => self.recall(request),
            _ => Ok(Outcome::Hand(Need::Code)),
        };
        ran.unwrap_or_else(|bad| {
            self.refuse_field(&request.asker, &bad);
            Outcome::Done
        })
    }

    fn refuse_field(&mut self, asker: &Asker, bad: &BadField) {
        let remark = bad.to_string();
        self.refuse(asker, codes::SYSTEM_ERROR, &remark);
    }

    pub(crate) fn refuse(&mut self, asker: &Asker, code: i32, remark: &str) {
        let remark = Some(remark);
        self.desk
            .reply(asker, Said { code, remark }, |_fields| Ok(()));
    }

    fn defer(&mut self, connection: ConnectionId, command: Command, how: How) {
        let asker = Request::of_command(connection, &command).asker;
        let bytes = weight(&command);
        if self.deferred_bytes + bytes > DEFERRED_BYTES_MAX {
            return self.refuse_send(&asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
        self.deferred_bytes += bytes;
        let since_ms = self.now_ms;
        self.deferred.push_back(Deferred {
            connection,
            command,
            since_ms,
            how,
        });
    }

    /// Whether sends wait for the next log file: those that come now wait behind them.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Answers what can be answered now; `others` are tickets that are not the lane's.
    pub fn drain(&mut self, now_ms: u64, others: &mut Vec<(Ticket, PutStatus)>) {
        self.now_ms = now_ms;
        let mut answers = Vec::new();
        let next_ms = self.store.drain(&mut answers);
        self.acks_deadline_ms = next_ms.map(|next_ms| now_ms + next_ms);
        for (ticket, status) in answers {
            match self.parked.take(ticket) {
                Some(stored) => self.answer_parked(&stored, status),
                None => others.push((ticket, status)),
            }
        }
        self.wake_holds();
        self.run_deferred();
        self.run_later_pops();
        self.settle_due_pops();
        self.write_due_notes();
        for done in self.readers.take_done() {
            match done {
                Done::Pull(pull, hold, got) => self.answer_pull(pull, hold, *got),
                Done::Back(returned, how, record) => self.put_back_read(&returned, how, record),
                Done::End(ending, record) => self.end_read(&ending, record),
                Done::First(doubt, bytes, looked) => {
                    if let Some(doubt) = self.first_read(*doubt, bytes, looked) {
                        self.run_again(doubt.connection, doubt.command, doubt.how);
                    }
                }
                Done::Pop(cold, got) => self.pop_was_read(cold, *got),
                Done::Search(asker, found) => self.answer_search(&asker, found),
            }
        }
        self.unwatch_emptied();
    }

    fn wake_holds(&mut self) {
        let mut arrivals = Vec::new();
        self.store.arrivals().drain(&mut arrivals);
        let mut woken: Vec<Pull> = Vec::new();
        for arrival in arrivals {
            let Ok(topic) = std::str::from_utf8(&arrival.queue.topic) else {
                continue;
            };
            let news = (arrival.next_offset, arrival.tags_codes.as_slice());
            // Records that came; when there were too many to keep their codes, nobody knows how many.
            let count = arrival.tags_codes.len() as u64;
            let from = arrival.next_offset.saturating_sub(count);
            let store = &self.store;
            let wants = |pull: &Pull| count == 0 || Self::wants_arrived(store, pull, from);
            let queue_id = arrival.queue.queue_id;
            self.holds.arrived(topic, queue_id, news, wants, &mut woken);
            self.pops.arrived(topic, queue_id, &arrival.tags_codes);
        }
        self.holds.due(self.now_ms, &mut woken);
        for (topic, queue_id) in self.holds.check(self.now_ms) {
            if let Ok(Some(bounds)) = self.store.bounds(topic.as_bytes(), queue_id) {
                self.holds
                    .arrived(&topic, queue_id, (bounds.max, &[]), |_| true, &mut woken);
            }
        }
        for pull in woken {
            self.pull_again(pull);
        }
        self.wake_due_pops();
    }

    fn run_deferred(&mut self) {
        let mut waiting = std::mem::take(&mut self.deferred);
        while let Some(deferred) = waiting.pop_front() {
            let request = Request::of_command(deferred.connection, &deferred.command);
            let waited_ms = self.now_ms.saturating_sub(deferred.since_ms);
            if waited_ms > SEND_WAIT_MAX_MS {
                self.deferred_bytes -= weight(&deferred.command);
                let remark = format!(
                    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in \
                     queue: {waited_ms}ms, size of queue: {}",
                    waiting.len()
                );
                self.refuse_send(&request.asker, codes::SYSTEM_BUSY, &remark);
                continue;
            }
            match self.run(&request, deferred.how) {
                Outcome::Defer => {
                    waiting.push_front(deferred);
                    break;
                }
                other => {
                    self.deferred_bytes -= weight(&deferred.command);
                    self.wait(deferred.connection, deferred.command, deferred.how, other);
                }
            }
        }
        // Nothing was added meanwhile: what is run here defers by its outcome.
        self.deferred = waiting;
    }

    pub(crate) fn unwatch_emptied(&mut self) {
        let emptied = [
            self.holds.take_emptied(),
            self.pops.polls.take_emptied(),
            self.pops.notices.take_emptied(),
        ];
        for (topic, queue_id) in emptied.into_iter().flatten() {
            self.unwatch_unheld(&topic, queue_id);
        }
    }

    /// When [`Lane::drain`] has something to do although nothing was announced, ms.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let deferred = (!self.deferred.is_empty()).then(|| self.now_ms + DEFERRED_RETRY_MS);
        let held = self.holds.next_deadline_ms();
        let noted = self.ends.next_due_ms();
        let popped = self.pops.next_deadline_ms(self.now_ms);
        let deadlines = [held, self.acks_deadline_ms, deferred, noted, popped];
        deadlines.into_iter().flatten().min()
    }

    /// Requests for Python, in the order they came.
    pub fn take_handed(&mut self) -> Vec<Handed> {
        std::mem::take(&mut self.handed)
    }

    /// Lets everything be as it is: for a forked child, where the lane's threads are not there.
    pub fn abandon(&mut self) {
        self.readers.abandon();
    }

    /// Answers that the next drain could give, at the most.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.parked.len() + self.holds.len() + self.deferred.len()
    }

    /// Names and numbers, for reports.
    #[must_use]
    pub fn numbers(&self) -> Vec<(&'static str, u64)> {
        let mut pairs = self.desk.stats.pairs();
        pairs.extend([
            ("connections", self.desk.len() as u64),
            ("held", self.holds.len() as u64),
            ("parked", self.parked.len() as u64),
            ("deferred", self.deferred.len() as u64),
            ("ends_to_note", self.ends.waiting() as u64),
            ("queued_bytes", self.desk.queued_bytes() as u64),
            ("pinned_bytes", self.desk.pinned_bytes() as u64),
            ("half_frames_bytes", self.desk.half_frames_bytes as u64),
            ("offset_changes", self.offsets.changes()),
        ]);
        if let Some(repeats) = &self.repeats {
            pairs.extend(repeats.numbers(self.store.wall_ms()));
        }
        pairs.extend(self.pops.numbers());
        pairs
    }
}

/// Bytes that a command keeps in memory.
fn weight(command: &Command) -> usize {
    let fields = command.ext.iter();
    let fields: usize = fields.map(|(name, value)| name.len() + value.len()).sum();
    command.body.len() + fields
}
