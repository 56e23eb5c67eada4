//! Extensions of queues as consumers feel them: tags and times of delivery that are there, bits
//! that spare a look at the record, and never another message than without them.

use std::path::Path;
use std::sync::Arc;

use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::Disk;
use mqcore_fast_path::bits::{BitRow, GroupBits};
use mqcore_fast_path::policy::{Broker, Filters, Registered, Subscription, Wanted};
use mqcore_fast_path::sql::Sql;
use proptest::prelude::*;

use crate::serving::{START_MS, Serving, pull_with, send_with};

/// Bits of a message: few, so that groups share some.
const BITS: usize = 16;

fn serving(extends_queues: bool) -> Serving {
    let mut serving = Serving::with(StoreConfig {
        extends_queues,
        extension_file_len_bytes: 200,
        ..StoreConfig::default()
    });
    let mut broker = Broker::clone(&serving.fast_path.policy.broker);
    broker.filters_properties = true;
    serving.fast_path.decide_broker(broker);
    serving
}

fn send(serving: &mut Serving, properties: &str) {
    serving.feed(&send_with(1, &[("i", properties)], b"x"));
    serving.bytes();
}

/// Lets the group want these messages of the topic.
fn subscribe(serving: &mut Serving, wanted: Wanted, registered: Option<Registered>) {
    let members = serving.fast_path.policy.members.get_mut("g").unwrap();
    let wanted = Some(wanted);
    let subscription = Subscription { wanted, version: 5 };
    members.subscriptions.insert("t".into(), subscription);
    let row = registered.map(|registered| ("t".into(), registered));
    members.filters = Arc::new(row.into_iter().collect::<Filters>());
}

fn subscribe_sql(serving: &mut Serving, text: &str, bits: Option<GroupBits>) {
    let registered = Registered {
        sql: Arc::new(Sql::compile(text).unwrap()),
        version: 5,
        bits: bits.map(Arc::new),
    };
    subscribe(
        serving,
        Wanted::Expression("SQL92".into()),
        Some(registered),
    );
}

/// The records that the group gets of the queue from its start on, in the bytes of the answers.
fn pulled(serving: &mut Serving) -> Vec<u8> {
    let mut next = "0".to_owned();
    let mut bodies = Vec::new();
    loop {
        serving.feed(&pull_with(1, &[("queueOffset", &next)]));
        // After an open records are cold: the answer comes with the drain.
        serving.drain();
        let answer = serving.answers().remove(0);
        if ![0, 20].contains(&answer.code) {
            return bodies;
        }
        bodies.extend_from_slice(&answer.body);
        assert_ne!(answer.ext["nextBeginOffset"], next, "it goes on");
        next.clone_from(&answer.ext["nextBeginOffset"]);
    }
}

fn pulled_count(serving: &mut Serving) -> u64 {
    let before = serving.number("pulled");
    pulled(serving);
    serving.number("pulled") - before
}

fn row(text: &str, positions: &[usize]) -> BitRow {
    BitRow {
        topic: "t".into(),
        expression: text.into(),
        bits: GroupBits::new(positions, BITS, 0).unwrap(),
    }
}

#[test]
fn tags_are_tested_by_the_extension_before_records_are_given() {
    for extends_queues in [false, true] {
        let mut serving = serving(extends_queues);
        for at in 0..30 {
            send(
                &mut serving,
                ["TAGS\u{1}a\u{2}", "TAGS\u{1}b\u{2}", ""][at % 3],
            );
        }
        serving.settle();
        let wanted = Wanted::parse(Some("b || c"), None).unwrap();
        subscribe(&mut serving, wanted, None);
        assert_eq!(pulled_count(&mut serving), 10);
        serving.store.checkpoints().sync_queues(0).unwrap();
        let dir = Path::new("/store/consumequeue_ext/t/0");
        assert_eq!(serving.twin.list(dir).unwrap().is_empty(), !extends_queues);
    }
}

#[test]
fn what_the_extension_has_lost_is_given_whatever_its_tags() {
    let mut serving = serving(true);
    for at in 0..30 {
        send(&mut serving, ["TAGS\u{1}a\u{2}", "TAGS\u{1}b\u{2}"][at % 2]);
    }
    serving.settle();
    assert!(serving.store.close().unwrap());
    let file = Path::new("/store/consumequeue_ext/t/0/00000000000000000200");
    serving.twin.unlink(file).unwrap();
    let mut serving = serving.open_again();
    let wanted = Wanted::parse(Some("b"), None).unwrap();
    subscribe(&mut serving, wanted, None);
    // Units of 20 bytes, nine in each file of 200: the second file had those of 9 to 17, of which
    // four have the other tag.
    assert_eq!(pulled_count(&mut serving), 15 + 4);
}

#[test]
fn delayed_messages_wait_for_the_time_in_the_extension() {
    let mut serving = serving(true);
    for _ in 0..3 {
        serving.ask(&send_with(1, &[("i", "DELAY\u{1}2\u{2}")], b"later"));
        serving.clock.advance(std::time::Duration::from_millis(400));
    }
    serving.settle();
    let deliver = |serving: &Serving, at_ms: i64| {
        mqcore_fast_path::delay::deliver_due(&serving.store, 2, 0, START_MS + at_ms, 100).unwrap()
    };
    let due_ms = Some(START_MS + 5_000);
    assert_eq!(deliver(&serving, 4_999).next_due_ms, due_ms);
    assert_eq!(deliver(&serving, 4_999).count, 0);
    // The extension is gone: the time is made again of store time and level.
    assert!(serving.store.close().unwrap());
    let file = Path::new("/store/consumequeue_ext/SCHEDULE_TOPIC_XXXX/1/00000000000000000000");
    serving.twin.unlink(file).unwrap();
    let serving = serving.open_again();
    let done = deliver(&serving, 4_999);
    assert_eq!((done.count, done.next_due_ms), (0, due_ms));
    let done = deliver(&serving, 5_400);
    assert_eq!((done.count, done.next_due_ms), (2, Some(START_MS + 5_800)));
}

#[test]
fn bits_that_refuse_spare_the_record() {
    let mut serving = serving(true);
    // Whoever makes bits knows another expression than the group's: only bits can decide.
    let since_ms = serving.fast_path.decide_bits(vec![row("n = 3", &[1, 5])]);
    serving.pass(1);
    for at in 0..6 {
        send(&mut serving, &format!("n\u{1}{at}\u{2}"));
    }
    serving.settle();
    let bits = |since_ms| GroupBits::new(&[1, 5], BITS, since_ms);
    subscribe_sql(&mut serving, "n >= 0", bits(since_ms));
    assert_eq!(pulled_count(&mut serving), 1, "by bits");
    subscribe_sql(&mut serving, "n >= 0", bits(since_ms + 1));
    assert_eq!(pulled_count(&mut serving), 6, "stored before: not by bits");
    subscribe_sql(&mut serving, "n >= 0", None);
    assert_eq!(pulled_count(&mut serving), 6);
    subscribe_sql(&mut serving, "n < 3", bits(since_ms));
    assert_eq!(pulled_count(&mut serving), 0, "set bits promise nothing");
}

const TEXTS: [&str; 5] = [
    "n = 1",
    "n > 2",
    "n IN ('0', '4')",
    "m IS NOT NULL",
    "n <> 3",
];
const GROUPS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Send { n: u8, has_m: bool },
    Tick,
    Dispatch,
    Write,
    Register { group: usize, text: usize },
    Forget { group: usize },
    StopBits,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..5u8, any::<bool>()).prop_map(|(n, has_m)| Step::Send { n, has_m }),
        4 => Just(Step::Tick),
        4 => Just(Step::Dispatch),
        1 => Just(Step::Write),
        3 => (0..GROUPS, 0..TEXTS.len()).prop_map(|(group, text)| Step::Register { group, text }),
        1 => (0..GROUPS).prop_map(|group| Step::Forget { group }),
        1 => Just(Step::StopBits),
        1 => Just(Step::Reopen),
    ]
}

/// A group as whoever keeps expressions has it.
#[derive(Clone, Copy)]
struct Kept {
    text: &'static str,
    since_ms: Option<i64>,
}

fn bits_of(group: usize, since_ms: i64) -> GroupBits {
    let positions = [group, (group * 5 + 3) % BITS, (group * 11 + 7) % BITS];
    GroupBits::new(&positions, BITS, since_ms).unwrap()
}

fn fill(serving: &mut Serving, groups: &mut [Option<Kept>]) {
    let rows = (0..).zip(&*groups).filter_map(|(group, kept)| {
        Some(BitRow {
            topic: "t".into(),
            expression: kept.as_ref()?.text.into(),
            bits: bits_of(group, 0),
        })
    });
    let since_ms = serving.fast_path.decide_bits(rows.collect());
    for kept in groups.iter_mut().flatten() {
        kept.since_ms.get_or_insert(since_ms);
    }
}

fn play(serving: &mut Serving, groups: &mut [Option<Kept>], step: &Step) {
    match *step {
        Step::Send { n, has_m } => {
            let m = if has_m { "m\u{1}1\u{2}" } else { "" };
            send(serving, &format!("n\u{1}{n}\u{2}{m}"));
        }
        Step::Tick => serving.pass(1),
        Step::Dispatch => serving.settle(),
        Step::Write => serving.store.checkpoints().sync_queues(0).unwrap(),
        Step::Register { group, text } => {
            let text = TEXTS[text];
            if groups[group].is_none_or(|kept| kept.text != text) {
                let since_ms = None;
                groups[group] = Some(Kept { text, since_ms });
            }
            fill(serving, groups);
        }
        Step::Forget { group } => {
            groups[group] = None;
            fill(serving, groups);
        }
        Step::StopBits => {
            serving.store.set_bit_maker(None);
        }
        Step::Reopen => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn pulls_give_the_same_with_bits_and_without(steps in prop::collection::vec(step(), 1..60)) {
        let mut serving = serving(true);
        let mut groups = [None; GROUPS];
        for step in &steps {
            if matches!(step, Step::Reopen) {
                serving.settle();
                serving.store.durability().flush().unwrap();
                serving = serving.open_again();
            }
            play(&mut serving, &mut groups, step);
        }
        // Messages of a stopped clock may be older than an expression by nothing.
        fill(&mut serving, &mut groups);
        serving.settle();
        for (group, kept) in groups.iter().enumerate() {
            let Some(kept) = kept else { continue };
            subscribe_sql(&mut serving, kept.text, None);
            let wanted = pulled(&mut serving);
            subscribe_sql(&mut serving, kept.text, kept.since_ms.map(|ms| bits_of(group, ms)));
            prop_assert_eq!(pulled(&mut serving), wanted, "{}", kept.text);
        }
    }
}
