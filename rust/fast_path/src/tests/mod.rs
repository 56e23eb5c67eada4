//! Request processors by themselves: each over a store on a disk in memory, without a dispatcher and
//! without any other processor.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by a panic"
)]

mod offsets;
mod pops;
mod pulls;
mod sends;
mod transactions;

use std::path::PathBuf;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{Host, Message};
use mqcore_wire::{Command, CommandRef, FRAME_BYTES_MAX, Split, split};

use crate::connections::Connections;
use crate::consumer_offsets::ConsumerOffsets;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::filtering::MessageFilters;
use crate::gate::Gate;
use crate::policy::{Group, Policy, Topic};
use crate::readers::Readers;
use crate::request_context::ConnectionId;
use crate::requests::Request;

const START_MS: i64 = 1_795_249_596_000;
const HOST: Host = Host::V4 {
    address: [1, 2, 3, 4],
    port: 9,
};

/// What processors are given, and a client.
struct Surroundings {
    store: Arc<Store<TwinDisk, ManualClock>>,
    policy: Policy,
    connections: Connections<TwinDisk>,
    readers: Readers<TwinDisk, ManualClock>,
    filters: MessageFilters,
    gate: Gate,
    offsets: Arc<ConsumerOffsets>,
    delivery: Delivery<TwinDisk>,
    client: ConnectionId,
    now_ms: u64,
    has_deferred: bool,
}

impl Surroundings {
    fn new(flush_disk_type: FlushDiskType) -> Self {
        let clock = ManualClock::at(START_MS);
        let config = StoreConfig {
            root: Some(PathBuf::from("/store")),
            segment_len_bytes: 256 * 1024,
            max_message_bytes: 100_000,
            queue_file_len_bytes: 20_000,
            flush_disk_type,
            ..StoreConfig::default()
        };
        let twin = TwinDisk::with_clock(clock.clone());
        twin.keep_history(false);
        let store = Store::open(twin, clock, config, OpenHow::RefuseDamage).unwrap();
        let store = Arc::new(store);
        let mut policy = Policy::default();
        let topic = Topic::plain(4);
        policy.topics.insert("t".into(), topic);
        let group = Group::PLAIN;
        policy.groups.insert("g".into(), group);
        let mut connections = Connections::new();
        let client = connections.open(HOST, "1.2.3.4:9");
        Self {
            readers: Readers::new(Arc::clone(&store), Arc::clone(store.first_loop()), 0),
            store,
            policy,
            connections,
            filters: MessageFilters::default(),
            gate: Gate::default(),
            offsets: Arc::default(),
            delivery: Delivery::new(),
            client,
            now_ms: 0,
            has_deferred: false,
        }
    }

    /// What a processor is given, and what one that stores messages is given beside it.
    fn split(&mut self) -> (Context<'_, TwinDisk, ManualClock>, &mut Delivery<TwinDisk>) {
        let cx = Context {
            store: &self.store,
            events: self.store.first_loop(),
            policy: &self.policy,
            connections: &mut self.connections,
            readers: &mut self.readers,
            filters: &mut self.filters,
            gate: &self.gate,
            now_ms: self.now_ms,
            has_deferred: self.has_deferred,
        };
        (cx, &mut self.delivery)
    }

    fn context(&mut self) -> Context<'_, TwinDisk, ManualClock> {
        self.split().0
    }

    /// Stores a message as a producer would, and dispatches it.
    fn append(&self, topic: &str, queue_id: i32, body: &[u8]) {
        let stored = self.store.writer().append(&Message {
            born_timestamp_ms: START_MS,
            ..Message::of(topic, queue_id, body, HOST)
        });
        stored.unwrap();
        self.dispatch();
    }

    fn dispatch(&self) {
        while self.store.dispatching().step().unwrap() {}
    }

    /// What the client was answered since the last call.
    fn answers(&mut self) -> Vec<Command> {
        let taken = self
            .connections
            .change_output(self.client, |output| output.take(usize::MAX));
        let bytes = taken.unwrap();
        let (mut answers, mut rest) = (Vec::new(), &bytes[..]);
        while let Split::Frame(frame) = split(rest, FRAME_BYTES_MAX).unwrap() {
            answers.push(CommandRef::decode(&frame).unwrap().to_owned());
            rest = &rest[frame.len_bytes..];
        }
        assert!(rest.is_empty(), "half an answer");
        answers
    }

    /// The only answer since the last call: its code, its remark and its fields.
    fn answer(&mut self) -> (i32, String, Command) {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        let answer = answers.remove(0);
        (
            answer.code,
            answer.remark.clone().unwrap_or_default(),
            answer,
        )
    }
}

/// A request with a header and a body.
fn command(code: i32, fields: &[(&str, &str)], body: &[u8]) -> Command {
    let fields = fields.iter();
    Command {
        code,
        opaque: 7,
        ext: fields
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_vec(),
        ..Command::default()
    }
}

fn request(client: ConnectionId, command: &Command) -> Request<'_> {
    Request::of_command(client, command)
}
