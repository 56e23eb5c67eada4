//! What the tests share: a fast path over a store without threads, and a client's side of it.

use std::path::PathBuf;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_fast_path::policy::{Broker, Filter, Group, Members, Subscription, Topic, Wanted};
use mqcore_fast_path::{ConnectionId, FastPath, numbers};
use mqcore_record::Host;
use mqcore_wire::command::encode;
use mqcore_wire::{Command, Head, Serialization, WireError};

pub(crate) const START_MS: i64 = 1_795_249_596_000;
/// What the broker writes behind the properties of a message.
pub(crate) const STAMP: &[u8] =
    b"MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01c1\x02";
pub(crate) const SEGMENT_BYTES: u64 = 256 * 1024;

pub(crate) const TOPIC: Topic = Topic::plain(4);

pub(crate) const GROUP: Group = Group::PLAIN;

/// A fast path with one client.
pub(crate) struct Serving {
    pub(crate) twin: TwinDisk,
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<Store<TwinDisk, ManualClock>>,
    pub(crate) fast_path: FastPath<TwinDisk, ManualClock>,
    pub(crate) client: ConnectionId,
    pub(crate) now_ms: u64,
}

impl Serving {
    pub(crate) fn new(flush: FlushDiskType) -> Self {
        Self::with(StoreConfig {
            flush_disk_type: flush,
            ..StoreConfig::default()
        })
    }

    pub(crate) fn with(config: StoreConfig) -> Self {
        let clock = ManualClock::at(START_MS);
        let twin = TwinDisk::with_clock(clock.clone());
        twin.keep_history(false);
        Self::over(twin, clock, config)
    }

    /// The same store opened again, after a kill unless it was closed, with the same broker and another
    /// client.
    pub(crate) fn open_again(self) -> Self {
        let (twin, clock) = (self.twin.clone(), self.clock.clone());
        let config = self.store.config().clone();
        let broker = Broker::clone(&self.fast_path.policy.broker);
        self.store.abandon();
        drop(self);
        let mut serving = Self::over(twin, clock, config);
        serving.fast_path.decide_broker(broker);
        serving
    }

    fn over(twin: TwinDisk, clock: ManualClock, config: StoreConfig) -> Self {
        let config = StoreConfig {
            root: Some(PathBuf::from("/store")),
            segment_len_bytes: SEGMENT_BYTES,
            max_message_bytes: 100_000,
            queue_file_len_bytes: 20_000,
            index_slots: 100,
            index_entries: 400,
            ..config
        };
        let how = OpenHow::RefuseDamage;
        let store = Store::open(twin.clone(), clock.clone(), config, how).unwrap();
        let store = Arc::new(store);
        let mut fast_path = FastPath::new(Arc::clone(&store), 0);
        fast_path.decide_broker(Broker {
            cluster: "c1".to_owned(),
            version: 409,
            ..Broker::default()
        });
        let topics = &mut fast_path.policy.topics;
        topics.insert("t".into(), TOPIC);
        topics.insert("%RETRY%g".into(), TOPIC);
        fast_path.policy.groups.insert("g".into(), GROUP);
        let subscription = Subscription {
            wanted: Some(Wanted::Tags(Filter::All)),
            version: 5,
        };
        let members = Members {
            subscriptions: [("t".into(), subscription)].into_iter().collect(),
            ..Members::default()
        };
        fast_path.policy.members.insert("g".into(), members);
        let client = fast_path.open(host(9), "1.2.3.4:9");
        Self {
            twin,
            clock,
            store,
            fast_path,
            client,
            now_ms: 0,
        }
    }

    /// Feeds bytes of the client.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.fast_path
            .feed(self.client, bytes, self.now_ms)
            .unwrap();
    }

    /// Everything that the client was answered since the last call, as bytes.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let taken =
            |output: &mut mqcore_fast_path::output::Output<TwinDisk>| output.take(usize::MAX);
        self.fast_path
            .connections
            .change_output(self.client, taken)
            .unwrap_or_default()
    }

    /// The same as commands.
    pub(crate) fn answers(&mut self) -> Vec<Command> {
        commands(&self.bytes())
    }

    /// Feeds a request and gives its only answer, at once or after a thread has read.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Command {
        self.feed(request);
        let mut answers = self.answers();
        if answers.is_empty() {
            self.drain();
            answers = self.answers();
        }
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Dispatches all and drains.
    pub(crate) fn settle(&mut self) {
        while self.store.dispatching().step().unwrap_or(false) {}
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        let mut others = Vec::new();
        self.fast_path.drain(self.now_ms, &mut others);
        assert_eq!(others, [], "nobody else parks here");
    }

    /// Lets time pass on all clocks.
    pub(crate) fn pass(&mut self, by_ms: u64) {
        self.now_ms += by_ms;
        self.clock.advance(std::time::Duration::from_millis(by_ms));
        self.drain();
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        let numbers = numbers::of(&self.fast_path);
        let found = numbers.iter().find(|(known, _)| *known == name);
        found.unwrap().1
    }
}

pub(crate) fn host(port: i32) -> Host {
    Host::V4 {
        address: [1, 2, 3, 4],
        port,
    }
}

/// The commands in some whole frames.
pub(crate) fn commands(bytes: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut reader = mqcore_wire::FrameReader::new(mqcore_wire::FRAME_BYTES_MAX);
    let fed: Result<(), WireError> = reader.feed(bytes, |frame| {
        commands.push(mqcore_wire::CommandRef::decode(frame)?.to_owned());
        Ok(())
    });
    fed.unwrap();
    assert_eq!(reader.kept_bytes(), 0, "half an answer");
    commands
}

/// A request as a frame.
pub(crate) fn request(code: i32, opaque: i32, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let head = Head {
        code,
        opaque,
        version: 409,
        serialization: Serialization::Json,
        ..Head::default()
    };
    encode(&head, fields.iter().copied(), body).unwrap()
}

/// The fields of a send, with some replaced or added.
pub(crate) fn send_with(opaque: i32, more: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let usual = [
        ("a", "p"),
        ("b", "t"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", ""),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    let kept = usual
        .iter()
        .filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    let fields: Vec<(&str, &str)> = kept.chain(more).copied().collect();
    request(310, opaque, &fields, body)
}

/// The fields of a pull, with some replaced or added.
pub(crate) fn pull_with(opaque: i32, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "0"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subVersion", "5"),
    ];
    let kept = usual
        .iter()
        .filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    let fields: Vec<(&str, &str)> = kept.chain(more).copied().collect();
    request(11, opaque, &fields, b"")
}

/// Code and remark of an answer.
pub(crate) fn response(answer: &Command) -> (i32, &str) {
    (answer.code, answer.remark.as_deref().unwrap_or_default())
}
