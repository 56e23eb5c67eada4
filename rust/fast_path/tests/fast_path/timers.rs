//! Messages with a time of their own, on a disk in memory and a clock that is turned by hand: never
//! early, at the first step that is not before their time, none lost; killed, recalled, set back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::Disk;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::store::{Ask, OpenHow, Store};
use mqcore_fast_path::FastPath;
use mqcore_fast_path::policy::{Broker, Timing};
use mqcore_fast_path::timers::{Ticked, Timers};
use mqcore_record::CrcCheck;
use mqcore_record::properties::lookup;
use mqcore_wire::Command;

use crate::serving::{START_MS, Serving, TOPIC, host, request, response, send_with};

/// The first whole second at or behind the start.
pub(crate) const SECOND_MS: i64 = (START_MS / 1_000 + 1) * 1_000;
const ROOT: &str = "/store";

pub(crate) struct Timed {
    pub(crate) serving: Serving,
    pub(crate) timers: Timers<TwinDisk, ManualClock>,
    config: StoreConfig,
    opaque: i32,
}

pub(crate) fn config(step_ms: u64, roll_slots: u64) -> StoreConfig {
    StoreConfig {
        timer_precision_ms: step_ms,
        timer_roll_window_slots: roll_slots,
        timer_log_file_len_bytes: 4_096,
        ..StoreConfig::default()
    }
}

pub(crate) fn timing() -> Timing {
    Timing {
        is_enabled: true,
        is_recall_enabled: true,
        ..Timing::default()
    }
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

impl Timed {
    pub(crate) fn new(config: StoreConfig, timing: Timing) -> Self {
        let mut serving = Serving::with(config.clone());
        serving.fast_path.decide_broker(Broker {
            timing,
            ..Broker::default()
        });
        let timers = opened(&serving);
        serving.fast_path.set_wheel(Arc::clone(timers.wheel()));
        let config = serving.store.config().clone();
        Self {
            serving,
            timers,
            config,
            opaque: 0,
        }
    }

    /// Sends; the answer.
    fn send(&mut self, properties: &str) -> Command {
        self.opaque += 1;
        let body = self.opaque.to_string();
        let request = send_with(self.opaque, &[("i", properties)], body.as_bytes());
        self.serving.ask(&request)
    }

    pub(crate) fn send_at(&mut self, key: &str, deliver_ms: i64) -> Command {
        let text = format!("TIMER_DELIVER_MS\u{1}{deliver_ms}\u{2}UNIQ_KEY\u{1}{key}\u{2}");
        let answer = self.send(&text);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer
    }

    pub(crate) fn recall(&mut self, handle: &str) -> Command {
        self.opaque += 1;
        let fields = [("topic", "t"), ("recallHandle", handle)];
        self.serving.ask(&request(370, self.opaque, &fields, b""))
    }

    /// Ticks until nothing is left to do now.
    pub(crate) fn tick(&mut self) -> Ticked {
        let mut all = Ticked::default();
        loop {
            self.serving.settle();
            let now_ms = self.serving.store.wall_ms();
            let done = self.timers.tick(now_ms, 3).unwrap();
            all.delivered += done.delivered;
            all.rolled += done.rolled;
            all.deleted += done.deleted;
            all.skipped += done.skipped;
            if !done.has_more {
                self.serving.settle();
                return all;
            }
        }
    }

    pub(crate) fn pass(&mut self, by_ms: u64) -> Ticked {
        self.serving.pass(by_ms);
        self.tick()
    }

    /// Ends as `kill -9` does, and starts again.
    pub(crate) fn kill(&mut self) {
        self.serving.store.abandon();
        self.start(OpenHow::RefuseDamage);
    }

    pub(crate) fn start(&mut self, how: OpenHow) {
        let (twin, clock) = (self.serving.twin.clone(), self.serving.clock.clone());
        let store = Store::open(twin, clock, self.config.clone(), how).unwrap();
        self.serving.store = Arc::new(store);
        let mut fast_path = FastPath::new(Arc::clone(&self.serving.store), 0);
        fast_path.decide_broker(Broker::clone(&self.serving.fast_path.policy.broker));
        fast_path.policy.topics.insert("t".into(), TOPIC);
        self.serving.client = fast_path.open(host(9), "1.2.3.4:9");
        self.serving.fast_path = fast_path;
        self.timers = opened(&self.serving);
        self.serving
            .fast_path
            .set_wheel(Arc::clone(self.timers.wheel()));
    }

    /// Unique keys of what is in the topic, with the store times.
    pub(crate) fn arrived(&self) -> Vec<(String, i64)> {
        let mut found = Vec::new();
        for queue_id in 0..4 {
            let mut from = 0;
            loop {
                let ask = Ask {
                    from,
                    count_max: 1_000,
                    bytes_max: u64::MAX,
                    tags_codes: &[],
                    is_bulk: false,
                };
                let got = self
                    .serving
                    .store
                    .reader()
                    .get(b"t", queue_id, ask)
                    .unwrap();
                if got.records.is_empty() {
                    break;
                }
                for record in &got.records {
                    let view = record.view(CrcCheck::Verify).unwrap();
                    let key = lookup(view.properties, "UNIQ_KEY").unwrap_or_default();
                    let key = String::from_utf8_lossy(key).into_owned();
                    found.push((key, view.store_timestamp_ms));
                }
                from = got.next_offset;
            }
        }
        found
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.arrived().into_iter().map(|(key, _)| key).collect()
    }
}

#[test]
fn a_message_comes_at_the_first_step_that_is_not_before_its_time() {
    for (step_ms, due_ms) in [(1_000, SECOND_MS + 1_000), (100, SECOND_MS + 300)] {
        let mut timed = Timed::new(config(step_ms, 172_800), timing());
        timed.send_at("A", SECOND_MS + 201);
        timed.send_at("B", due_ms);
        let wait_ms = (due_ms - START_MS - 1).cast_unsigned();
        assert_eq!(timed.pass(wait_ms).delivered, 0, "a millisecond too soon");
        assert_eq!(timed.pass(1).delivered, 2);
        let arrived = [("A".to_owned(), due_ms), ("B".to_owned(), due_ms)];
        assert_eq!(timed.arrived(), arrived);
        assert_eq!(timed.pass(60_000).delivered, 0, "once");
    }
}

#[test]
fn it_comes_as_it_went_with_the_properties_of_the_official_broker() {
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    let answer = timed.send("TIMER_DELAY_SEC\u{1}2\u{2}KEYS\u{1}k\u{2}UNIQ_KEY\u{1}U\u{2}");
    let slot_ms = (START_MS + 2_000 - 1) / 1_000 * 1_000;
    let handle = answer.ext.get("recallHandle").unwrap();
    assert!(handle.starts_with("djEgdCBicm9rZXItYSA"), "{handle}");
    timed.pass(3_000);
    let ask = Ask {
        from: 0,
        count_max: 1,
        bytes_max: u64::MAX,
        tags_codes: &[],
        is_bulk: false,
    };
    let got = timed.serving.store.reader().get(b"t", 0, ask).unwrap();
    let view = got.records[0].view(CrcCheck::Verify).unwrap();
    let property = |name| {
        let value = lookup(view.properties, name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    assert_eq!(view.body, b"1");
    assert_eq!(view.born_timestamp_ms, 1_700_000_000_000);
    assert_eq!(property("KEYS").as_deref(), Some("k"));
    assert_eq!(property("TIMER_OUT_MS"), Some(slot_ms.to_string()));
    let entered_ms = START_MS / 1_000 * 1_000;
    assert_eq!(property("TIMER_ENQUEUE_MS"), Some(entered_ms.to_string()));
    assert_eq!(
        property("TIMER_DEQUEUE_MS"),
        Some(timed.serving.store.wall_ms().to_string())
    );
}

#[test]
fn bad_times_get_the_official_code_and_nothing_is_stored() {
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    for bad in ["31556952000000", "soon", "259200001"] {
        let answer = timed.send(&format!("TIMER_DELAY_MS\u{1}{bad}\u{2}"));
        let (code, remark) = response(&answer);
        assert_eq!(code, 13, "{bad}");
        assert!(remark.starts_with("timer message illegal, the delay time"));
    }
    let answer = timed.send("TIMER_DELAY_MS\u{1}-1\u{2}UNIQ_KEY\u{1}now\u{2}");
    assert_eq!(answer.code, 0);
    assert_eq!(answer.ext.get("recallHandle"), None);
    timed.tick();
    assert_eq!(timed.keys(), ["now"]);
    let mut off = Timed::new(config(1_000, 172_800), Timing::default());
    let answer = off.send("TIMER_DELAY_MS\u{1}10\u{2}");
    let remark = "accurate timer message is not enabled, timerWheelEnable is false";
    assert_eq!(response(&answer), (1, remark));
}

#[test]
fn a_level_counts_before_a_time() {
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    timed.send("DELAY\u{1}1\u{2}TIMER_DELAY_MS\u{1}5000\u{2}UNIQ_KEY\u{1}L\u{2}");
    timed.serving.settle();
    let schedule = timed
        .serving
        .store
        .topics()
        .bounds(b"SCHEDULE_TOPIC_XXXX", 0)
        .unwrap();
    assert_eq!(schedule.unwrap().max, 1);
    let record = timed.serving.store.reader().record_at(0).unwrap();
    let view = record.view(CrcCheck::Verify).unwrap();
    assert_eq!(lookup(view.properties, "TIMER_DELAY_MS"), None);
}

#[test]
fn a_recalled_message_never_comes_and_others_do() {
    for is_recalled_by_topic in [true, false] {
        recall_one_of_two(is_recalled_by_topic);
    }
}

fn recall_one_of_two(is_recalled_by_topic: bool) {
    let mut timing = timing();
    timing.is_recalled_by_topic = is_recalled_by_topic;
    let mut timed = Timed::new(config(1_000, 172_800), timing);
    let answer = timed.send_at("A", SECOND_MS + 5_000);
    timed.send_at("B", SECOND_MS + 5_000);
    timed.tick();
    let handle = answer.ext.get("recallHandle").unwrap();
    let recalled = timed.recall(handle);
    assert_eq!(
        (recalled.code, recalled.ext.get("msgId").unwrap().as_str()),
        (0, "A")
    );
    let other = "djEgdSBicm9rZXItYSAxIEE=";
    assert_eq!(
        response(&timed.recall(other)),
        (604, "recall failed, topic not match")
    );
    assert_eq!(
        response(&timed.recall("x")),
        (604, "recall handle is invalid")
    );
    let done = timed.pass(20_000);
    assert_eq!((done.delivered, done.deleted), (1, 1));
    assert_eq!(timed.keys(), ["B"]);
    let late = timed.recall(handle);
    assert_eq!(response(&late), (604, "recall failed, timestamp invalid"));
    let waits: BTreeMap<_, _> = timed.timers.waiting().collect();
    assert_eq!(waits["t"].count, 0);
}

#[test]
fn a_kill_loses_nothing_and_repeats_only_what_was_not_flushed() {
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    for second in 1..=8 {
        for at in 0..5 {
            timed.send_at(&format!("{second}-{at}"), SECOND_MS + second * 1_000);
        }
    }
    timed.tick();
    timed.kill();
    timed.pass(4_700);
    let now_ms = timed.serving.store.wall_ms();
    assert!(timed.timers.flush(now_ms).unwrap());
    let before = timed.keys().len();
    assert!((15..40).contains(&before), "{before}");
    timed.kill();
    timed.tick();
    assert_eq!(timed.keys().len(), before, "flushed: nothing comes again");
    // In the middle of a slot.
    timed.serving.pass(1_000);
    timed.serving.settle();
    let now_ms = timed.serving.store.wall_ms();
    assert_eq!(timed.timers.tick(now_ms, 2).unwrap().delivered, 2);
    assert!(timed.timers.flush(now_ms).unwrap());
    timed.kill();
    timed.pass(20_000);
    let mut keys = timed.keys();
    keys.sort();
    assert_eq!(keys.len(), 40, "none lost, none doubled");
    keys.dedup();
    assert_eq!(keys.len(), 40);
}

#[test]
fn a_clock_that_is_set_makes_nothing_early_lost_or_doubled() {
    let day_ms = 86_400_000;
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    timed.send_at("A", SECOND_MS + 2_000);
    timed.send_at("B", SECOND_MS + day_ms + 60_000);
    timed.pass(10_000);
    assert_eq!(timed.keys(), ["A"]);
    timed.serving.clock.set_wall_ms(START_MS - day_ms);
    timed.tick();
    timed.send_at("C", START_MS - day_ms + 3_000);
    timed.tick();
    assert_eq!(
        timed.keys(),
        ["A"],
        "the time that comes again delivers nothing again"
    );
    timed.pass(5_000);
    assert_eq!(timed.keys(), ["A", "C"]);
    let now_ms = timed.serving.store.wall_ms();
    assert!(timed.timers.flush(now_ms).unwrap());
    timed.kill();
    timed.pass(day_ms.cast_unsigned() + 20_000);
    assert_eq!(timed.keys(), ["A", "C"], "not even after a kill");
    timed.serving.clock.set_wall_ms(START_MS + 2 * day_ms);
    timed.tick();
    assert_eq!(
        timed.keys(),
        ["A", "C", "B"],
        "set forward, what is due comes"
    );
}

#[test]
fn another_step_finds_the_messages_of_the_old_one() {
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    timed.send_at("A", SECOND_MS + 60_000);
    timed.tick();
    let now_ms = timed.serving.store.wall_ms();
    assert!(timed.timers.flush(now_ms).unwrap());
    timed.config.timer_precision_ms = 100;
    timed.kill();
    timed.pass(59_000);
    assert!(timed.keys().is_empty());
    timed.pass(3_000);
    assert_eq!(timed.keys(), ["A"]);
}

#[test]
fn the_log_goes_on_over_files_and_gives_old_ones_back() {
    let mut timed = Timed::new(config(1_000, 172_800), timing());
    for at in 0..200 {
        timed.send_at(&format!("{at}"), SECOND_MS + 1_000 + at % 7 * 1_000);
    }
    timed.tick();
    let now_ms = timed.serving.store.wall_ms();
    assert!(timed.timers.flush(now_ms).unwrap());
    let files = timed
        .serving
        .twin
        .list(Path::new("/store/timerlog"))
        .unwrap();
    assert_eq!(files.len(), 3, "78 units of 52 bytes fit into 4096");
    timed.kill();
    timed.pass(10_000);
    assert_eq!(timed.keys().len(), 200);
    assert_eq!(
        timed.timers.retain().unwrap(),
        0,
        "their messages are there"
    );
}

#[test]
fn a_step_that_is_full_refuses() {
    let mut timed = Timed::new(
        config(1_000, 172_800),
        Timing {
            congested_at: 3,
            ..timing()
        },
    );
    for at in 0..6 {
        timed.send_at(&format!("{at}"), SECOND_MS + 5_000);
    }
    timed.tick();
    let deliver_ms = SECOND_MS + 5_000;
    let answer = timed.send(&format!("TIMER_DELIVER_MS\u{1}{deliver_ms}\u{2}"));
    let (code, remark) = response(&answer);
    assert_eq!(code, 1);
    assert!(remark.starts_with("timer message is under flow control, max num limit is 6"));
}

#[test]
fn whatever_happens_none_is_early_lost_or_delivered_after_its_recall() {
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut dice = move |sides: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % sides
    };
    for round in 0..12 {
        let step_ms = [100, 1_000][round % 2];
        let mut timed = Timed::new(config(step_ms, 8), timing());
        let step_ms = step_ms.cast_signed();
        let mut wanted: BTreeMap<String, i64> = BTreeMap::new();
        let mut recalled: Vec<String> = Vec::new();
        let mut kills = 0;
        for at in 0..150 {
            let now_ms = timed.serving.store.wall_ms();
            match dice(12) {
                0..=5 => {
                    let key = format!("{at}");
                    let ahead_ms = 1 + dice(40 * step_ms.cast_unsigned()).cast_signed();
                    let answer = timed.send_at(&key, now_ms + ahead_ms);
                    let handle = answer.ext.get("recallHandle").unwrap();
                    if dice(5) == 0 && ahead_ms > 2 * step_ms {
                        assert_eq!(timed.recall(handle).code, 0);
                        recalled.push(key);
                    } else {
                        wanted.insert(key, now_ms + ahead_ms);
                    }
                }
                6 => assert!(timed.timers.flush(now_ms).unwrap()),
                7 => match dice(6) {
                    0 | 1 => {
                        timed.kill();
                        kills += 1;
                    }
                    2 => timed.serving.pass(dice(50 * step_ms.cast_unsigned())),
                    _ => {}
                },
                _ => {
                    timed.pass(dice(2 * step_ms.cast_unsigned()));
                }
            }
        }
        for _step in 0..60 {
            timed.pass(step_ms.cast_unsigned());
        }
        let arrived = timed.arrived();
        for (key, stored_ms) in &arrived {
            let due_ms = *wanted
                .get(key)
                .unwrap_or_else(|| panic!("{key} was recalled"));
            assert!(
                *stored_ms >= due_ms,
                "{key} came {} ms early",
                due_ms - stored_ms
            );
        }
        let mut keys: Vec<&String> = arrived.iter().map(|(key, _)| key).collect();
        keys.sort();
        let doubles = keys.len();
        keys.dedup();
        assert!(kills > 0 || doubles == keys.len(), "doubled without a kill");
        assert_eq!(keys, wanted.keys().collect::<Vec<_>>(), "round {round}");
    }
}
