//! Filters: expressions tested on properties alone, and pulls by one from the bytes of the request
//! to a socket whose reader only reads.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mqcore_benches::bench_dir::BenchDir;
use mqcore_benches::gauge::thread_ns;
use mqcore_benches::rows::{Row, Rows};
use mqcore_benches::stats::{median, median_ratio, short};
use mqcore_benches::stores::{RealStore, TOPIC, body, message, open};
use mqcore_benches::{by_mode, is_wanted};
use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_fast_path::policy::{Broker, Group, Members, Registered, Subscription, Topic, Wanted};
use mqcore_fast_path::sql::Sql;
use mqcore_fast_path::{ConnectionId, FastPath, numbers};
use mqcore_record::Host;
use mqcore_record::properties::pairs;
use mqcore_wire::command::encode;
use mqcore_wire::{Head, Serialization};

/// Different messages that expressions are tested on: more than a predictor learns by heart.
const FLIGHTS: usize = 4_096;
/// Messages that lie in the hot window, with some to spare.
const MESSAGES: u64 = 40_000;
/// What the filter of the demonstration asks for.
const DELAYED: &str = "dep_delay > 60 AND origin = 'JFK'";
const GOAL_PREDICATES: f64 = 5e6;
const GOAL_SHARE: f64 = 0.5;

/// The properties of a message as our producer of flights writes them.
fn flight(number: usize) -> Vec<u8> {
    let origin = ["EWR", "JFK", "LGA"][number % 3];
    let delay = (number * 7_919) % 181;
    let text = format!(
        "KEYS\u{1}N{number:05}\u{2}UNIQ_KEY\u{1}7F000001000100000000{number:012X}\u{2}WAIT\u{1}true\u{2}\
         TAGS\u{1}{origin}\u{2}dep_delay\u{1}{delay}\u{2}origin\u{1}{origin}\u{2}n\u{1}{}\u{2}",
        number % 10
    );
    text.into_bytes()
}

/// How often a second of processor time `test` runs over texts: what others on the machine do does
/// not change it.
fn rate(texts: &[Vec<u8>], mut test: impl FnMut(&[u8]) -> bool) -> f64 {
    let rounds = by_mode(200, 50);
    let started_ns = thread_ns();
    let mut count = 0;
    for _ in 0..rounds {
        count += texts.iter().filter(|text| test(black_box(text))).count();
    }
    black_box(count);
    let took_ns = thread_ns() - started_ns;
    (rounds * texts.len()) as f64 * 1e9 / took_ns as f64
}

fn predicates(rows: &mut Rows) {
    let texts: Vec<Vec<u8>> = (0..FLIGHTS).map(flight).collect();
    let cases = [
        ("SQL92: number and text", DELAYED),
        ("SQL92: one text", "origin = 'JFK'"),
        (
            "SQL92: ten tests",
            "dep_delay BETWEEN 10 AND 20 OR dep_delay > 170 OR origin IN ('ORD', 'ATL', 'LAX') OR \
             KEYS STARTSWITH 'N9' AND NOT (TAGS CONTAINS 'W') OR gate IS NOT NULL OR n >= 9 AND \
             carrier <> 'UA'",
        ),
    ];
    for (name, text) in cases {
        if !is_wanted(name) {
            continue;
        }
        let sql = Sql::compile(text).unwrap();
        let walk = |text: &[u8]| {
            pairs(text)
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>()
                > 0
        };
        let measured: Vec<(f64, f64)> = (0..by_mode(15, 5))
            .map(|_| (rate(&texts, |text| sql.matches(text)), rate(&texts, walk)))
            .collect();
        let reached = median(&measured.iter().map(|pair| pair.0).collect::<Vec<f64>>());
        let limit = median(&measured.iter().map(|pair| pair.1).collect::<Vec<f64>>());
        rows.add(&Row {
            name,
            goal: ">= 5 M predicates/s per core",
            unit: "predicates/s",
            reached: Some(reached),
            limit: Some(limit),
            ratio: Some(median_ratio(&measured)),
            missed: Some(reached < GOAL_PREDICATES),
            note: format!(
                "{} bytes of properties each; limit: a bare walk over their pairs",
                texts[0].len()
            ),
        });
    }
}

struct Served {
    store: Arc<RealStore>,
    fast_path: FastPath<RealDisk, SystemClock>,
    client: ConnectionId,
    socket: TcpStream,
    reader: Option<JoinHandle<()>>,
    // Removed last.
    _bench_dir: BenchDir,
}

impl Served {
    fn new() -> Self {
        let bench_dir = BenchDir::new("filter");
        let store = open(bench_dir.path(), &[]);
        store.start().unwrap();
        let (body, mut end) = (body(), 0);
        for number in 0..MESSAGES as usize {
            let text = flight(number);
            end = store
                .writer()
                .append(&message(0, &body, &text))
                .unwrap()
                .end();
        }
        let dispatched = &store.files().positions.dispatched;
        assert!(dispatched.wait(end, Duration::from_secs(20), || false));
        let mut fast_path = FastPath::new(Arc::clone(&store), 0);
        fast_path.decide_broker(Broker {
            filters_properties: true,
            ..Broker::default()
        });
        let host = Host::V4 {
            address: [127, 0, 0, 1],
            port: 40_000,
        };
        let client = fast_path.open(host, "127.0.0.1:40000");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nodelay(true).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut sink = vec![0; 1 << 20];
            while peer.read(&mut sink).is_ok_and(|len| len > 0) {}
        });
        Self {
            store,
            fast_path,
            client,
            socket,
            reader: Some(reader),
            _bench_dir: bench_dir,
        }
    }

    /// Lets a group want everything, tagged messages, or those of an expression.
    fn subscribe(&mut self, text: &str, kind: &str) {
        let topic = Topic::plain(1);
        let group = Group::PLAIN;
        let subscription = Subscription {
            wanted: Wanted::parse(Some(text), Some(kind)),
            version: 1,
        };
        let mut members = Members::default();
        members.subscriptions.insert(TOPIC.into(), subscription);
        if kind == "SQL92" {
            let sql = Arc::new(Sql::compile(text).unwrap());
            let registered = Registered {
                sql,
                version: 1,
                bits: None,
            };
            members.filters = Arc::new([(TOPIC.into(), registered)].into_iter().collect());
        }
        let policy = &mut self.fast_path.policy;
        policy.topics.insert(TOPIC.into(), topic);
        policy.groups.insert("readers".into(), group);
        policy.members.insert("readers".into(), members);
    }

    /// Pulls the queue from its start to its end; seconds, those of the processor, and messages
    /// given.
    fn drain(&mut self) -> (f64, f64, u64) {
        let before = self.number("pulled");
        let started_ns = thread_ns();
        let started = Instant::now();
        let mut offset = 0_u64;
        while offset < MESSAGES {
            let request = pull(offset);
            self.fast_path.feed(self.client, &request, 0).unwrap();
            let mut ids = Vec::new();
            self.fast_path.connections.take_dirty(&mut ids);
            let socket = &mut self.socket;
            let next = self
                .fast_path
                .connections
                .change_output(self.client, |output| {
                    let mut next = None;
                    while !output.is_empty() {
                        let mut slices = Vec::with_capacity(64);
                        output.slices(64, &mut slices);
                        if next.is_none() {
                            next = next_offset(&slices[0]);
                        }
                        let sent = socket.write_vectored(&slices).unwrap();
                        drop(slices);
                        output.sent(sent);
                    }
                    next
                });
            offset = next.flatten().unwrap();
        }
        let took_s = started.elapsed().as_secs_f64();
        let worked_s = (thread_ns() - started_ns) as f64 / 1e9;
        (took_s, worked_s, self.number("pulled") - before)
    }

    fn number(&self, name: &str) -> u64 {
        let numbers = numbers::of(&self.fast_path);
        numbers.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _closed = self.socket.shutdown(std::net::Shutdown::Both);
        let _ended = self.reader.take().map(JoinHandle::join);
        let _closed = self.store.close();
    }
}

fn pull(offset: u64) -> Vec<u8> {
    let offset = offset.to_string();
    let fields = [
        ("consumerGroup", "readers"),
        ("topic", TOPIC),
        ("queueId", "0"),
        ("queueOffset", &offset),
        ("maxMsgNums", "32"),
        ("sysFlag", "0"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "1"),
    ];
    let head = Head {
        code: 11,
        version: 409,
        serialization: Serialization::Json,
        ..Head::default()
    };
    encode(&head, fields.iter().copied(), &[]).unwrap()
}

/// Where the queue of an answer goes on.
fn next_offset(answer: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"\"nextBeginOffset\":\"";
    let at = answer.windows(NAME.len()).position(|part| part == NAME)? + NAME.len();
    let digits = answer[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |sum, byte| sum * 10 + u64::from(byte - b'0')))
}

fn pulls(rows: &mut Rows) {
    if !is_wanted("pull by SQL92") {
        return;
    }
    let mut served = Served::new();
    let (mut measured, mut worked) = (Vec::new(), Vec::new());
    let mut given = 0;
    for _ in 0..by_mode(21, 7) {
        served.subscribe("*", "TAG");
        let (all_s, all_worked_s, all) = served.drain();
        assert_eq!(all, MESSAGES);
        served.subscribe("n = 3", "SQL92");
        let (some_s, some_worked_s, some) = served.drain();
        assert_eq!(some, MESSAGES / 10);
        given = some;
        measured.push((MESSAGES as f64 / some_s, MESSAGES as f64 / all_s));
        worked.push((all_worked_s, some_worked_s));
    }
    let reached = median(&measured.iter().map(|pair| pair.0).collect::<Vec<f64>>());
    let limit = median(&measured.iter().map(|pair| pair.1).collect::<Vec<f64>>());
    let ratio = median_ratio(&measured);
    let delivered = reached * given as f64 / MESSAGES as f64;
    rows.add(&Row {
        name: "pull by SQL92, 1 message in 10 matches",
        goal: ">= 50 % of unfiltered",
        unit: "messages/s",
        reached: Some(reached),
        limit: Some(limit),
        ratio: Some(ratio),
        missed: Some(ratio < GOAL_SHARE),
        note: format!(
            "messages of the queue gone through per second, in pulls of 32; given to the consumer: \
             {}/s; by processor time the ratio is {:.2}",
            short(delivered),
            median_ratio(&worked),
        ),
    });
}

fn main() {
    let mut rows = Rows::new("filter");
    predicates(&mut rows);
    pulls(&mut rows);
}
