//! A fast path with one client, fed from canned bytes: what a connection costs without its socket.

use std::hint::black_box;
use std::io::IoSlice;
use std::sync::Arc;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_fast_path::policy::{Broker, Group, Topic};
use mqcore_fast_path::{ConnectionId, FastPath};
use mqcore_record::Host;
use mqcore_wire::command::encode;
use mqcore_wire::{Head, Serialization};

use crate::stores::RealStore;

/// Requests in one feed: as they come when a client has 32 outstanding.
pub const AT_ONCE: i32 = 32;
/// Queues of a topic.
pub const QUEUES: i32 = 4;
/// The unique key of the messages; its last half is a number.
pub const KEY: &str = "7F0000010001000000000000000000FF";
/// Slices of one gathered write.
const SLICES_MAX: usize = 64;

const SEND_MESSAGE_V2: i32 = 310;
const PULL_MESSAGE: i32 = 11;

/// A fast path over the machine's disk and clock.
pub type RealFastPath = FastPath<RealDisk, SystemClock>;

/// A fast path and its client.
pub struct Served {
    /// The fast path.
    pub fast_path: RealFastPath,
    client: ConnectionId,
}

impl Served {
    /// The first fast path over a store, for `topics` and the group `readers`.
    #[must_use]
    pub fn first(store: &Arc<RealStore>, topics: &[&str]) -> Self {
        Self::with(FastPath::new(Arc::clone(store), 0), topics)
    }

    /// Another over the same store, for another thread.
    #[must_use]
    pub fn beside(&self, topics: &[&str]) -> Self {
        Self::with(self.fast_path.beside(0).unwrap(), topics)
    }

    fn with(mut fast_path: RealFastPath, topics: &[&str]) -> Self {
        let mut broker = Broker::default();
        broker.timing.is_enabled = true;
        broker.pops.has_buffer = true;
        fast_path.decide_broker(broker);
        for topic in topics {
            let plain = Topic::plain(QUEUES);
            fast_path.policy.topics.insert((*topic).into(), plain);
        }
        let group = Group::PLAIN;
        fast_path.policy.groups.insert("readers".into(), group);
        let host = Host::V4 {
            address: [127, 0, 0, 1],
            port: 40_000,
        };
        let client = fast_path.open(host, "127.0.0.1:40000");
        Self { fast_path, client }
    }

    /// Feeds bytes, as a reactor does, until all of it is executed; gives the answers' bytes to `take`
    /// and returns how many they were.
    pub fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(&[IoSlice<'_>])) -> usize {
        let mut bytes = black_box(bytes);
        let mut answered = 0;
        loop {
            self.fast_path.feed(self.client, bytes, 0).unwrap();
            answered += self.take_answers(&mut take);
            let connections = &self.fast_path.connections;
            if !connections.execution_time.is_over() && !connections.is_stalled(self.client) {
                return answered;
            }
            bytes = &[];
        }
    }

    /// As [`Served::feed`], without looking at the answers.
    pub fn turn(&mut self, bytes: &[u8]) -> usize {
        self.feed(bytes, |slices| {
            black_box(slices);
        })
    }

    fn take_answers(&mut self, take: &mut impl FnMut(&[IoSlice<'_>])) -> usize {
        let connections = &mut self.fast_path.connections;
        connections.take_dirty(&mut Vec::new());
        let mut answered = 0;
        while let Some(lent) = connections.lend_output(self.client) {
            let mut slices = Vec::with_capacity(SLICES_MAX);
            lent.slices(SLICES_MAX, &mut slices);
            let sent: usize = slices.iter().map(|slice| slice.len()).sum();
            take(&slices);
            drop(slices);
            connections.give_back_output(self.client, lent, sent);
            answered += sent;
            if sent == 0 {
                break;
            }
        }
        answered
    }
}

/// The bytes of a request with a JSON header.
#[must_use]
pub fn request(code: i32, opaque: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let head = Head {
        code,
        version: 409,
        opaque,
        serialization: Serialization::Json,
        ..Head::default()
    };
    encode(&head, fields.iter().copied(), body).unwrap()
}

/// The properties of a message of flights.
#[must_use]
pub fn flight_properties() -> String {
    format!("KEYS\u{1}N14228\u{2}UNIQ_KEY\u{1}{KEY}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}EWR")
}

/// The send of one message to a topic.
#[must_use]
pub fn send(topic: &str, number: i32, sys_flag: &str, properties: &str, body: &[u8]) -> Vec<u8> {
    let queue = (number % QUEUES).to_string();
    let fields = [
        ("a", "producer-group"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", &queue),
        ("f", sys_flag),
        ("g", "1795249596000"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    request(SEND_MESSAGE_V2, number, &fields, body)
}

/// 32 sends to the queues of a topic in turn.
#[must_use]
pub fn sends(topic: &str, body_bytes: usize) -> Vec<u8> {
    let (properties, body) = (flight_properties(), vec![b'x'; body_bytes]);
    (0..AT_ONCE)
        .flat_map(|number| send(topic, number, "0", &properties, &body))
        .collect()
}

/// 32 pulls of 32 messages from the queues of a topic in turn.
#[must_use]
pub fn pulls(topic: &str) -> Vec<u8> {
    let one = |opaque: i32| {
        let (queue, offset) = ((opaque % QUEUES).to_string(), (opaque * 7).to_string());
        let fields = [
            ("consumerGroup", "readers"),
            ("topic", topic),
            ("queueId", queue.as_str()),
            ("queueOffset", offset.as_str()),
            ("maxMsgNums", "32"),
            ("sysFlag", "6"),
            ("commitOffset", "0"),
            ("suspendTimeoutMillis", "15000"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        request(PULL_MESSAGE, opaque, &fields, &[])
    };
    (0..AT_ONCE).flat_map(one).collect()
}

/// Where the unique keys in some requests end.
#[must_use]
pub fn key_ends(bytes: &[u8]) -> Vec<usize> {
    let key = KEY.as_bytes();
    let found = bytes.windows(key.len()).enumerate();
    let found = found.filter(|(_, window)| *window == key);
    found.map(|(at, _)| at + key.len()).collect()
}

/// Gives the messages of some requests the unique keys of the next numbers.
pub fn number_keys(bytes: &mut [u8], ends: &[usize], number: &mut u64) {
    for end in ends {
        *number += 1;
        let digits = format!("{number:016X}");
        if let Some(key) = bytes.get_mut(end - digits.len()..*end) {
            key.copy_from_slice(digits.as_bytes());
        }
    }
}
