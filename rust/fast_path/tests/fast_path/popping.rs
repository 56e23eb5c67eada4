//! What the tests of pops share: a fast path that pops, with its timers and the rounds over check points,
//! and its client.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_fast_path::FastPath;
use mqcore_fast_path::policy::{Broker, Policy, PopRules, Timing, Topic};
use mqcore_fast_path::pop::revive::{Known, Revived, Reviver, Rules};
use mqcore_fast_path::timers::Timers;
use mqcore_record::properties::lookup;
use mqcore_record::{Found, RecordView, head};
use mqcore_wire::Command;

use crate::serving::{Serving, host, request, response, send_with};

const ROOT: &str = "/store";
pub(crate) const REVIVE: &str = "rmq_sys_REVIVE_LOG_c1";

struct Names<'a>(&'a Policy);

impl Known for Names<'_> {
    fn has_topic(&self, name: &str) -> bool {
        self.0.topics.contains_key(name)
    }
    fn has_group(&self, name: &str) -> bool {
        self.0.groups.contains_key(name)
    }
}

/// A message as a client of pops has it.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) body: String,
    pub(crate) topic: String,
    pub(crate) queue_id: i32,
    pub(crate) offset: i64,
    pub(crate) handle: String,
    pub(crate) times: i32,
}

pub(crate) struct Popped {
    pub(crate) serving: Serving,
    pub(crate) timers: Timers<TwinDisk, ManualClock>,
    pub(crate) config: StoreConfig,
    pub(crate) rules: PopRules,
    pub(crate) revivers: Vec<Reviver>,
    pub(crate) opaque: i32,
}

fn broker(rules: &PopRules) -> Broker {
    Broker {
        cluster: "c1".to_owned(),
        timing: Timing {
            is_enabled: true,
            ..Timing::default()
        },
        pops: rules.clone(),
        ..Broker::default()
    }
}

pub(crate) fn one_revive_queue() -> PopRules {
    PopRules {
        revive_queues: 1,
        ..PopRules::default()
    }
}

impl Popped {
    pub(crate) fn new(rules: PopRules) -> Self {
        let config = StoreConfig {
            flush_disk_type: FlushDiskType::Async,
            timer_log_file_len_bytes: 4_096,
            batch_topics: "b".to_owned(),
            ..StoreConfig::default()
        };
        let mut serving = Serving::with(config);
        serving.fast_path.decide_broker(broker(&rules));
        let timers = opened(&serving);
        let config = serving.store.config().clone();
        let revivers = revivers(&mut serving, rules.revive_queues);
        Self {
            serving,
            timers,
            config,
            rules,
            revivers,
            opaque: 0,
        }
    }

    pub(crate) fn send(&mut self, queue: i32, body: &str) {
        self.opaque += 1;
        let queue = queue.to_string();
        let answer = self.serving.ask(&send_with(
            self.opaque,
            &[("e", queue.as_str()), ("i", "TAGS\u{1}a\u{2}")],
            body.as_bytes(),
        ));
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    pub(crate) fn request(
        &mut self,
        code: i32,
        fields: &[(&str, &str)],
        more: &[(&str, &str)],
    ) -> Vec<u8> {
        self.opaque += 1;
        let kept = fields
            .iter()
            .filter(|(name, _)| more.iter().all(|(other, _)| other != name));
        let fields: Vec<(&str, &str)> = kept.chain(more).copied().collect();
        request(code, self.opaque, &fields, b"")
    }

    pub(crate) fn pop_request(&mut self, more: &[(&str, &str)]) -> Vec<u8> {
        let usual = [
            ("consumerGroup", "g"),
            ("topic", "t"),
            ("queueId", "-1"),
            ("maxMsgNums", "32"),
            ("invisibleTime", "60000"),
            ("pollTime", "0"),
            ("bornTime", "0"),
            ("initMode", "0"),
        ];
        self.request(200_050, &usual, more)
    }

    pub(crate) fn pop(&mut self, more: &[(&str, &str)]) -> Vec<Got> {
        let request = self.pop_request(more);
        self.serving.feed(&request);
        let mut answers = self.serving.answers();
        // Each queue that lies on the disk, as after a start, is read between two drains.
        for _queue in 0..8 {
            if answers.is_empty() {
                self.serving.drain();
                answers = self.serving.answers();
            }
        }
        assert_eq!(answers.len(), 1, "{answers:?}");
        got(&answers[0])
    }

    pub(crate) fn ack_fields(got: &Got) -> [(&'static str, String); 5] {
        let topic = match got.handle.split(' ').nth(4) {
            Some("1") => format!("%RETRY%g_{}", got.topic),
            Some("2") => format!("%RETRY%g+{}", got.topic),
            _ => got.topic.clone(),
        };
        [
            ("consumerGroup", "g".to_owned()),
            ("topic", topic),
            ("queueId", got.queue_id.to_string()),
            ("extraInfo", got.handle.clone()),
            ("offset", got.offset.to_string()),
        ]
    }

    pub(crate) fn ack(&mut self, got: &Got) -> Command {
        let fields = Self::ack_fields(got);
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let request = self.request(200_051, &fields, &[]);
        self.serving.ask(&request)
    }

    pub(crate) fn change(&mut self, got: &Got, invisible_ms: i64) -> Command {
        let fields = Self::ack_fields(got);
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let invisible = invisible_ms.to_string();
        let request = self.request(200_053, &fields, &[("invisibleTime", invisible.as_str())]);
        self.serving.ask(&request)
    }

    /// Changes the time of a message; the message with its new handle, as the official client makes it.
    pub(crate) fn changed(&mut self, got: &Got, invisible_ms: i64) -> Got {
        let answer = self.change(got, invisible_ms);
        assert_eq!(answer.code, 0, "{answer:?}");
        let kept: Vec<&str> = got.handle.split(' ').skip(4).collect();
        let ext = &answer.ext;
        let handle = format!(
            "{} {} {} {} {}",
            got.offset,
            ext["popTime"],
            ext["invisibleTime"],
            ext["reviveQid"],
            kept.join(" ")
        );
        Got {
            handle,
            ..got.clone()
        }
    }

    /// Lets time pass in steps of a second, with the timers and the rounds over check points.
    pub(crate) fn pass(&mut self, by_ms: u64) {
        for _second in 0..by_ms.div_ceil(1_000) {
            self.serving.pass(1_000);
            self.tick();
            self.revive();
        }
    }

    pub(crate) fn tick(&mut self) {
        loop {
            self.serving.settle();
            let now_ms = self.serving.store.wall_ms();
            let done = self.timers.tick(now_ms, 1_000).unwrap();
            self.serving.settle();
            if !done.has_more {
                return;
            }
        }
    }

    pub(crate) fn revive(&mut self) -> Revived {
        let mut all = Revived::default();
        let now_ms = self.serving.store.wall_ms();
        let is_idle = !self.timers.is_due(now_ms).unwrap();
        let read_ms = self.timers.progress().unwrap().read_ms;
        let timers_ms = if is_idle { now_ms } else { read_ms };
        for queue_id in 0..self.revivers.len() {
            loop {
                self.serving.settle();
                let broker = Arc::clone(&self.serving.fast_path.policy.broker);
                let rules = Rules {
                    topic: REVIVE,
                    timers_ms,
                    broker: &broker.name,
                    store_host: broker.store_host,
                    has_retry_v2: broker.pops.has_retry_v2,
                    limit: 3,
                };
                let known = Names(&self.serving.fast_path.policy);
                let reviver = &mut self.revivers[queue_id];
                let done = reviver.go_on(&self.serving.store, rules, &known).unwrap();
                all.revived += done.revived;
                all.skipped += done.skipped;
                let fast_path = &mut self.serving.fast_path;
                if done.done_offset >= 0 {
                    let queue_id = queue_id as i32;
                    fast_path.shared.offsets.commit(
                        "CID_RMQ_SYS_REVIVE_GROUP",
                        REVIVE,
                        queue_id,
                        done.done_offset,
                    );
                }
                if let Some((topic, group)) = done.needs {
                    let one = Topic::plain(1);
                    fast_path.policy.topics.insert(topic.as_str().into(), one);
                    fast_path.shared.offsets.commit(&group, &topic, 0, 0);
                }
                if !done.has_more {
                    break;
                }
            }
        }
        self.serving.settle();
        all
    }

    /// Ends as `kill -9` does, and starts again with the offsets as they were saved last.
    pub(crate) fn kill(&mut self, saved: Vec<(String, BTreeMap<i32, i64>)>) {
        self.serving.store.abandon();
        self.start(saved);
    }

    pub(crate) fn stop(&mut self) {
        assert!(self.serving.fast_path.store_pops());
        let saved = self.offsets();
        self.serving.settle();
        let now_ms = self.serving.store.wall_ms();
        assert!(self.timers.flush(now_ms).unwrap());
        assert!(self.serving.store.close().unwrap());
        self.start(saved);
    }

    pub(crate) fn offsets(&self) -> Vec<(String, BTreeMap<i32, i64>)> {
        self.serving.fast_path.shared.offsets.all()
    }

    pub(crate) fn start(&mut self, saved: Vec<(String, BTreeMap<i32, i64>)>) {
        let (twin, clock) = (self.serving.twin.clone(), self.serving.clock.clone());
        let store = Store::open(twin, clock, self.config.clone(), OpenHow::RefuseDamage).unwrap();
        let store = Arc::new(store);
        let policy = self.serving.fast_path.policy.clone();
        let mut fast_path = FastPath::new(Arc::clone(&store), 0);
        fast_path.policy = policy;
        fast_path.decide_broker(broker(&self.rules));
        fast_path.shared.offsets.load(saved);
        self.serving.client = fast_path.open(host(9), "1.2.3.4:9");
        self.serving.fast_path = fast_path;
        self.serving.store = store;
        self.timers = opened(&self.serving);
        self.revivers = revivers(&mut self.serving, self.rules.revive_queues);
        self.serving.settle();
    }
}

fn revivers(serving: &mut Serving, queues: i32) -> Vec<Reviver> {
    let each = |queue_id| {
        let offsets = &serving.fast_path.shared.offsets;
        let done = offsets.find("CID_RMQ_SYS_REVIVE_GROUP", REVIVE, queue_id);
        Reviver::behind(queue_id, done.unwrap_or(-1))
    };
    (0..queues).map(each).collect()
}

fn opened(serving: &Serving) -> Timers<TwinDisk, ManualClock> {
    let store = Arc::clone(&serving.store);
    Timers::open(
        store,
        &serving.twin,
        Path::new(ROOT),
        serving.store.wall_ms(),
    )
    .unwrap()
}

/// The messages of an answer with their handles, as the official client makes them.
pub(crate) fn got(answer: &Command) -> Vec<Got> {
    if answer.code != 0 {
        assert_eq!(response(answer), (210, "NO_MESSAGE_IN_QUEUE"), "{answer:?}");
        assert_eq!(answer.ext["startOffsetInfo"], "");
        return Vec::new();
    }
    let starts: BTreeMap<String, String> = answer.ext["startOffsetInfo"]
        .split(';')
        .map(|part| {
            let (queue, start) = part.rsplit_once(' ').unwrap();
            (queue.to_owned(), start.to_owned())
        })
        .collect();
    let mut all = Vec::new();
    let mut rest = answer.body.as_slice();
    while !rest.is_empty() {
        let Ok(Found::Record(view)) = head(rest) else {
            panic!("no record");
        };
        all.push(got_of(answer, &starts, &view));
        rest = &rest[view.total_len_bytes..];
    }
    all
}

fn got_of(answer: &Command, starts: &BTreeMap<String, String>, view: &RecordView<'_>) -> Got {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let own = lookup(view.properties, "POP_CK").map(text);
    let handle = own.unwrap_or_else(|| {
        let start = &starts[&format!("0 {}", view.queue_id)];
        let ext = &answer.ext;
        format!(
            "{start} {} {} {} 0 broker-a {} {}",
            ext["popTime"],
            ext["invisibleTime"],
            ext["reviveQid"],
            view.queue_id,
            view.queue_offset
        )
    });
    Got {
        body: text(view.body),
        topic: text(view.topic),
        queue_id: view.queue_id,
        offset: view.queue_offset,
        handle,
        times: view.reconsume_times,
    }
}

pub(crate) fn bodies(got: &[Got]) -> Vec<&str> {
    let mut all: Vec<&str> = got.iter().map(|each| each.body.as_str()).collect();
    all.sort_unstable();
    all
}
