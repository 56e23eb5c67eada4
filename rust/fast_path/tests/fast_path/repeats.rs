//! Sends that come again: which are answered as the first, and which are messages of their own.

use std::sync::Arc;

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::store::{OpenHow, Store};
use mqcore_fast_path::FastPath;
use mqcore_fast_path::policy::{Broker, Timing};
use mqcore_fast_path::repeats::Repeats;
use mqcore_fast_path::repeats::rebuild::Rebuilt;
use mqcore_record::batch::{Item, encode as encode_item};
use mqcore_wire::Command;
use proptest::prelude::*;

use crate::serving::{Serving, TOPIC, host, send_with};
use crate::transactions::HALF;

const WINDOW_MS: i64 = 60_000;
const MEMORY_BYTES: usize = 1 << 20;

/// Id, queue and queue offset in an answer.
type Sent = (String, String, String);

fn reported(answer: &Command) -> Sent {
    assert_eq!(answer.code, 0, "{answer:?}");
    let field = |name: &str| answer.ext[name].clone();
    (field("msgId"), field("queueId"), field("queueOffset"))
}

pub(crate) fn text(key: &str) -> String {
    format!("UNIQ_KEY\u{1}{key}\u{2}TAGS\u{1}a\u{2}")
}

pub(crate) fn batch(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, part) in parts {
        let properties = text(key);
        let item = Item {
            flag: 0,
            body: part,
            properties: properties.as_bytes(),
        };
        encode_item(&item, &mut body).unwrap();
    }
    body
}

impl Serving {
    pub(crate) fn remember(&mut self) -> Rebuilt {
        let (repeats, found) = Repeats::open(&self.store, WINDOW_MS, MEMORY_BYTES).unwrap();
        self.fast_path.remember(Some(repeats));
        found
    }

    pub(crate) fn keyed(&mut self, key: &str, more: &[(&str, &str)], body: &[u8]) -> Sent {
        let properties = text(key);
        let mut fields = vec![("i", properties.as_str())];
        fields.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        fields.extend(more);
        reported(&self.ask(&send_with(1, &fields, body)))
    }

    pub(crate) fn batched(&mut self, parts: &[(&str, &[u8])]) -> Sent {
        let fields = [("i", ""), ("m", "true")];
        reported(&self.ask(&send_with(1, &fields, &batch(parts))))
    }

    /// The store is opened anew, after a stop or after a kill.
    pub(crate) fn reopened(&mut self, is_killed: bool) -> Rebuilt {
        let config = self.store.config().clone();
        if is_killed {
            self.store.abandon();
        } else {
            self.store.close().unwrap();
        }
        let how = OpenHow::RefuseDamage;
        let store = Store::open(self.twin.clone(), self.clock.clone(), config, how).unwrap();
        self.store = Arc::new(store);
        let mut fast_path = FastPath::new(Arc::clone(&self.store), 0);
        fast_path.decide_broker(Broker::clone(&self.fast_path.policy.broker));
        fast_path.policy.topics = self.fast_path.policy.topics.clone();
        fast_path.policy.groups = self.fast_path.policy.groups.clone();
        self.client = fast_path.open(host(9), "1.2.3.4:9");
        self.fast_path = fast_path;
        self.remember()
    }

    pub(crate) fn stored(&self, topic: &[u8]) -> usize {
        (0..4)
            .map(|queue_id| self.bodies(topic, queue_id).len())
            .sum()
    }
}

fn serving() -> Serving {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.fast_path.policy.topics.insert("u".into(), TOPIC);
    serving.remember();
    serving
}

#[test]
fn a_message_that_comes_again_is_stored_once_and_has_one_offset() {
    let mut serving = serving();
    let first = serving.keyed("K", &[("e", "2")], b"body");
    let other = serving.keyed("L", &[("e", "2")], b"body");
    assert_eq!(serving.keyed("K", &[("e", "2")], b"body"), first);
    assert_eq!(
        serving.keyed("K", &[("e", "0")], b"body"),
        first,
        "whatever queue is asked for"
    );
    serving.settle();
    assert_eq!(
        serving.keyed("K", &[("e", "-1")], b"body"),
        first,
        "dispatched meanwhile"
    );
    assert_eq!(serving.keyed("L", &[], b"body"), other);
    serving.settle();
    assert_eq!(serving.stored(b"t"), 2);
    assert_eq!(serving.number("repeats"), 4);
    assert_eq!(serving.number("sends"), 2);
    assert_eq!(serving.number("repeat_keys"), 2);
}

#[test]
fn another_message_with_the_same_key_is_stored() {
    let mut serving = serving();
    let first = serving.keyed("K", &[], b"body");
    let second = serving.keyed("K", &[], b"another body");
    assert_ne!(first, second);
    assert_eq!(serving.number("repeats_told_apart"), 1);
    let elsewhere = serving.keyed("K", &[("b", "u")], b"body");
    assert_ne!(elsewhere.0, first.0);
    for (topic, more) in [("%RETRY%g", "3"), ("%DLQ%g", "0")] {
        serving.fast_path.policy.topics.insert(topic.into(), TOPIC);
        let fields = [("b", topic), ("j", more)];
        let one = serving.keyed("K", &fields, b"body");
        assert_ne!(serving.keyed("K", &fields, b"body"), one, "{topic}");
    }
    let delivered = format!("{}REAL_TOPIC\u{1}t\u{2}", text("M"));
    let one = serving.keyed("M", &[("i", &delivered)], b"body");
    assert_ne!(
        serving.keyed("M", &[("i", &delivered)], b"body"),
        one,
        "sent on by a consumer"
    );
    let nameless = serving.keyed("", &[("i", "")], b"body");
    assert_ne!(serving.keyed("", &[("i", "")], b"body"), nameless);
    assert_eq!(serving.number("repeats"), 0);
}

#[test]
fn after_the_window_a_message_is_a_new_one() {
    let mut serving = serving();
    let first = serving.keyed("K", &[], b"body");
    serving.pass(WINDOW_MS as u64 - 1);
    assert_eq!(serving.keyed("K", &[], b"body"), first);
    // A repeat does not make the window longer.
    serving.pass(100);
    let second = serving.keyed("K", &[], b"body");
    assert_ne!(second, first);
    assert_eq!(serving.keyed("K", &[], b"body"), second);
}

#[test]
fn a_half_message_that_comes_again_is_one_transaction() {
    let mut serving = serving();
    let half = serving.half(1, "");
    assert_eq!(serving.half(1, ""), half);
    let plain = serving.keyed("u1", &[("e", "2")], b"body");
    assert_eq!(
        serving.keyed("u1", &[("e", "2")], b"body"),
        plain,
        "apart from the half message"
    );
    serving.settle();
    assert_eq!(serving.bodies(HALF, 0).len(), 1);
    serving.reopened(true);
    serving.settle();
    assert_eq!(serving.half(1, ""), half);
    assert_eq!(serving.keyed("u1", &[("e", "2")], b"body"), plain);
    assert_eq!(serving.end(half, "8", &[]).code, 0);
    assert_eq!(serving.bodies(b"t", 2).len(), 2, "one committed, one plain");
    serving.reopened(false);
    assert_eq!(serving.half(1, ""), half);
    assert_eq!(
        serving.keyed("u1", &[("e", "2")], b"body"),
        plain,
        "not the committed one"
    );
}

#[test]
fn a_message_for_later_that_comes_again_waits_once() {
    let mut serving = serving();
    let later = format!("{}DELAY\u{1}2\u{2}", text("K"));
    let first = serving.keyed("K", &[("i", &later), ("e", "3")], b"body");
    assert_eq!(first.1, "3");
    assert_eq!(
        serving.keyed("K", &[("i", &later), ("e", "3")], b"body"),
        first
    );
    serving.settle();
    serving.reopened(true);
    serving.settle();
    assert_eq!(
        serving.keyed("K", &[("i", &later), ("e", "3")], b"body"),
        first
    );
    assert_eq!(serving.bodies(b"SCHEDULE_TOPIC_XXXX", 1).len(), 1);

    serving.fast_path.decide_broker(Broker {
        timing: Timing {
            is_enabled: true,
            ..Timing::default()
        },
        ..Broker::default()
    });
    let timed = format!("{}TIMER_DELAY_MS\u{1}5000\u{2}", text("T"));
    let ask = |serving: &mut Serving| {
        let answer = serving.ask(&send_with(1, &[("i", &timed)], b"body"));
        (reported(&answer), answer.ext["recallHandle"].clone())
    };
    let first = ask(&mut serving);
    serving.pass(3_000);
    assert_eq!(
        ask(&mut serving),
        first,
        "the handle names the slot of the first"
    );
    serving.settle();
    assert_eq!(serving.bodies(b"rmq_sys_wheel_timer", 0).len(), 1);
}

#[test]
fn a_batch_is_a_repeat_as_a_whole() {
    let mut serving = serving();
    let parts: [(&str, &[u8]); 3] = [("A", b"1"), ("B", b"2"), ("C", b"3")];
    let first = serving.batched(&parts);
    assert_eq!(first.0.split(',').count(), 3);
    assert_eq!(serving.batched(&parts), first);
    serving.settle();
    serving.reopened(true);
    assert_eq!(serving.batched(&parts), first);
    let single = serving.keyed("B", &[], b"2");
    assert_eq!(
        Some(single.0.as_str()),
        first.0.split(',').nth(1),
        "a part by its own key"
    );
    let longer = serving.batched(&[parts[0], parts[1], parts[2], ("D", b"4")]);
    assert_ne!(longer, first);
    let reordered = serving.batched(&[parts[1], parts[0], parts[2]]);
    assert_ne!(reordered.0, longer.0);
    serving.settle();
    assert_eq!(serving.stored(b"t"), 3 + 4 + 3);
}

#[test]
fn a_batch_with_a_key_of_its_own_is_known_by_its_messages() {
    let mut serving = serving();
    let parts: [(&str, &[u8]); 2] = [("A", b"1"), ("B", b"2")];
    let fields = [("i", "UNIQ_KEY\u{1}BATCH\u{2}"), ("m", "true")];
    let first = reported(&serving.ask(&send_with(1, &fields, &batch(&parts))));
    for turn in 0..2 {
        let again = reported(&serving.ask(&send_with(1, &fields, &batch(&parts))));
        assert_eq!(again, first, "turn {turn}");
        let single = serving.keyed("B", &[], b"2");
        assert_eq!(Some(single.0.as_str()), first.0.split(',').nth(1));
        serving.settle();
        serving.reopened(true);
    }
    assert_eq!(serving.stored(b"t"), 2);
}

#[test]
fn a_topic_that_was_deleted_has_no_firsts() {
    let mut serving = serving();
    let first = serving.keyed("K", &[], b"body");
    serving.settle();
    serving.store.topics().delete_topic(b"t").unwrap();
    let second = serving.keyed("K", &[], b"body");
    assert_ne!(second.0, first.0);
    serving.settle();
    serving.reopened(false);
    assert_eq!(
        serving.keyed("K", &[], b"body"),
        second,
        "also when the log has both"
    );
    assert_eq!(serving.stored(b"t"), 1);
}

#[test]
fn a_repeat_is_as_durable_as_the_first() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    serving.remember();
    let properties = text("K");
    let send = |opaque| send_with(opaque, &[("i", &properties)], b"body");
    serving.feed(&send(1));
    serving.feed(&send(2));
    assert_eq!(serving.answers(), [], "both wait");
    assert_eq!(serving.number("parked"), 2);
    serving.store.durability().flush().unwrap();
    serving.drain();
    let answers = serving.answers();
    assert_eq!(answers.len(), 2);
    assert_eq!(reported(&answers[0]), reported(&answers[1]));
    serving.settle();
    assert_eq!(serving.stored(b"t"), 1);
}

#[test]
fn what_is_in_no_file_yet_is_compared_elsewhere() {
    let mut serving = Serving::with(StoreConfig {
        transient_pool_enabled: true,
        transient_pool_buffers: 2,
        flush_disk_type: FlushDiskType::Async,
        ..StoreConfig::default()
    });
    serving.remember();
    let send = |opaque, key: &str, body| {
        let properties = format!("{}WAIT\u{1}false\u{2}", text(key));
        send_with(opaque, &[("i", &properties)], body)
    };
    let first = reported(&serving.ask(&send(1, "K", b"body")));
    serving.feed(&send(2, "K", b"body"));
    serving.feed(&send(3, "L", b"body"));
    serving.feed(&send(4, "L", b"another"));
    serving.drain();
    let mut answers = serving.answers();
    answers.sort_by_key(|answer| answer.opaque);
    let sent: Vec<Sent> = answers.iter().map(reported).collect();
    assert_eq!(sent.len(), 3, "{answers:?}");
    assert_eq!(sent[0], first);
    assert!(sent[1] != first && sent[2] != sent[1], "{sent:?}");
    serving.store.durability().flush().unwrap();
    serving.settle();
    assert_eq!(serving.stored(b"t"), 3);
}

#[derive(Debug, Clone)]
enum Step {
    Send(u8, u8),
    Batch(Vec<(u8, u8)>),
    Pass(u64),
    Restart(bool),
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let message = || (0_u8..12, 0_u8..2);
    prop_oneof![
        8 => message().prop_map(|(key, body)| Step::Send(key, body)),
        3 => prop::collection::vec(message(), 1..4).prop_map(Step::Batch),
        3 => (0_u64..30_000).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Restart),
        1 => Just(Step::Settle),
    ]
}

/// Every message in the order of the log: key, body, id, time.
#[derive(Default)]
struct Model {
    log: Vec<(u8, u8, String, u64)>,
}

impl Model {
    /// The messages that a request repeats, and whether they are surely within the window; `None`
    /// when it surely repeats none.
    fn first(&self, parts: &[(u8, u8)], now_ms: u64) -> Option<(String, bool)> {
        let at = self.log.iter().rposition(|each| each.0 == parts[0].0)?;
        let there = self.log.get(at..at + parts.len())?;
        let is_same = there
            .iter()
            .zip(parts)
            .all(|(is, asked)| (is.0, is.1) == *asked);
        let age_ms = now_ms - there[0].3;
        let grain_ms = WINDOW_MS as u64 / 1_024 + 1;
        if !is_same || age_ms >= WINDOW_MS as u64 + grain_ms {
            return None;
        }
        let ids: Vec<&str> = there.iter().map(|each| each.2.as_str()).collect();
        Some((ids.join(","), age_ms < WINDOW_MS as u64))
    }

    /// Whether the answer to a request is one that may be.
    fn check(&mut self, parts: &[(u8, u8)], ids: &str, now_ms: u64) {
        match self.first(parts, now_ms) {
            Some((first, _is_sure)) if first == ids => return,
            Some((first, true)) => panic!("{parts:?} is {ids}, and was {first}"),
            _ => {}
        }
        for (id, (key, body)) in ids.split(',').zip(parts) {
            assert!(
                self.log.iter().all(|each| each.2 != id),
                "{id} is another message"
            );
            self.log.push((*key, *body, id.to_owned(), now_ms));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_happens_a_repeat_is_known_and_nothing_else_is_swallowed(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut serving = serving();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Send(key, body) => {
                    let ids = serving.keyed(&format!("k{key}"), &[], &[body]).0;
                    model.check(&[(key, body)], &ids, serving.now_ms);
                }
                Step::Batch(parts) => {
                    let named: Vec<(String, [u8; 1])> =
                        parts.iter().map(|(key, body)| (format!("k{key}"), [*body])).collect();
                    let named: Vec<(&str, &[u8])> =
                        named.iter().map(|(key, body)| (key.as_str(), &body[..])).collect();
                    let ids = serving.batched(&named).0;
                    model.check(&parts, &ids, serving.now_ms);
                }
                Step::Pass(by_ms) => serving.pass(by_ms),
                Step::Restart(is_killed) => {
                    serving.reopened(is_killed);
                }
                Step::Settle => serving.settle(),
            }
        }
        serving.settle();
        prop_assert_eq!(serving.stored(b"t"), model.log.len());
    }
}

#[test]
fn a_large_body_is_passed_over_when_the_window_is_made_again() {
    let mut serving = serving();
    let large = vec![b'x'; 90_000];
    let mut firsts = Vec::new();
    for at in 0..9 {
        let key = format!("k{at}");
        let body = if at % 2 == 0 { &large[..] } else { b"small" };
        firsts.push(serving.keyed(&key, &[], body));
        serving.settle();
    }
    let found = serving.reopened(true);
    assert_eq!((found.records, found.marks), (9, 9));
    for (at, first) in firsts.iter().enumerate() {
        let body = if at % 2 == 0 { &large[..] } else { b"small" };
        assert_eq!(serving.keyed(&format!("k{at}"), &[], body), *first);
    }
    serving.pass(WINDOW_MS as u64 * 2);
    let _newer = serving.keyed("n", &[], b"x");
    let found = serving.reopened(false);
    assert_eq!(
        (found.records, found.marks),
        (1, 1),
        "files of old records are not read"
    );
    assert!(found.from > 0, "{found:?}");
}
