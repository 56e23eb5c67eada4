//! The lane itself: bytes of connections in, requests executed or handed over, answers of what was
//! parked, held or read out of the cold (`drain`). Each request's meaning is in its own file.

use std::collections::VecDeque;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_engine::timer::Wheel;
use mqcore_record::Host;
use mqcore_wire::{Command, CommandRef};

use crate::asker::{Asker, ConnectionId};
use crate::bits::FilterBits;
use crate::codes;
use crate::deferred::{DeferredQueue, weight};
use crate::desk::{Desk, Said};
use crate::filtering::{Compiled, FilterWork};
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
use crate::turns::Turns;

/// How long a send may wait for the next log file, ms: the official bound of its send queue
/// (`waitTimeMillsInSendQueue`).
pub const SEND_WAIT_MAX_MS: u64 = 200;

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
    pub(crate) deferred: DeferredQueue,
    /// What was read and is not answered yet.
    pub(crate) done: VecDeque<Done<D>>,
    /// Pulls by expressions that wait for a thread.
    pub(crate) filtered: Turns<(Pull, Option<u64>)>,
    /// What pulls by expressions may still cost in the loop.
    pub(crate) filter_work: FilterWork,
    /// Whether queues have news that were not taken.
    pub(crate) has_more_news: bool,
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
            deferred: DeferredQueue::default(),
            done: VecDeque::new(),
            filtered: Turns::default(),
            filter_work: FilterWork::default(),
            has_more_news: false,
        }
    }

    /// Replaces what is decided about the broker itself.
    pub fn decide_broker(&mut self, mut broker: Broker) {
        broker.timing.step_ms = self.store.config().timer_step_ms();
        broker.pops.revive_topic = names::revive_topic(&broker.cluster);
        self.desk.version = broker.version;
        self.stamp = Stamp::of(&broker);
        self.holds.set_limits(broker.held);
        self.policy.broker = Arc::new(broker);
        self.count_in_flight();
    }

    /// Takes a new connection.
    pub fn open(&mut self, born_host: Host, peer: &str) -> ConnectionId {
        self.desk.open(born_host, peer)
    }

    /// Forgets a connection with all that it waits for.
    pub fn close(&mut self, id: ConnectionId) {
        if self.desk.close(id).is_some() {
            self.close_waits(id);
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
    pub(crate) fn wait(&mut self, id: ConnectionId, command: Command, how: How, outcome: Outcome) {
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
    pub(crate) fn run_again(&mut self, id: ConnectionId, command: Command, how: How) {
        let outcome = self.run(&Request::of_command(id, &command), how);
        self.wait(id, command, how, outcome);
    }

    pub(crate) fn run(&mut self, request: &Request<'_>, how: How) -> Outcome {
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
        let bytes_max = self.desk.bounds.deferred_bytes;
        let pushed = self
            .deferred
            .push((connection, command), how, (self.now_ms, bytes_max));
        if let Err(command) = pushed {
            let asker = Request::of_command(connection, &command).asker;
            self.refuse_send(&asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
    }

    /// Whether sends wait for the next log file: those that come now wait behind them.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
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
            ("filtered_waiting", self.filtered.len() as u64),
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
