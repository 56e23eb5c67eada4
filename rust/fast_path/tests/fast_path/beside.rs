//! Fast paths of several loops over one store: what is popped, ended or remembered on one connection is
//! known on all.

use std::time::Duration;

use mqcore_engine::config::FlushDiskType;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_fast_path::policy::PopRules;
use mqcore_fast_path::{ConnectionId, FastPath};

use crate::popping::{Popped, one_revive_queue};
use crate::serving::{START_MS, Serving, commands, host, pull_with, request, response, send_with};
use crate::transactions::{COMMIT, NOTES, ROLLBACK};

/// Loops that send at the same time, and keys that each of them sends.
const LOOPS: usize = 4;
const KEYS: usize = 300;

type Path = FastPath<TwinDisk, mqcore_engine::clock::ManualClock>;

/// Another loop: its fast path and a client of it.
pub(crate) struct Loop {
    pub(crate) fast_path: Path,
    pub(crate) client: ConnectionId,
}

impl Serving {
    pub(crate) fn another_loop(&self) -> Loop {
        let mut fast_path = self.fast_path.beside(0).unwrap();
        fast_path.policy = self.fast_path.policy.clone();
        fast_path.decide_broker(self.fast_path.policy.broker.as_ref().clone());
        let client = fast_path.open(host(10), "1.2.3.4:10");
        Loop { fast_path, client }
    }

    /// Goes on as a client of the other loop.
    pub(crate) fn change_loop(&mut self, other: &mut Loop) {
        std::mem::swap(&mut self.fast_path, &mut other.fast_path);
        std::mem::swap(&mut self.client, &mut other.client);
    }
}

#[test]
fn a_pop_is_acknowledged_on_another_loop() {
    let mut popped = Popped::new(one_revive_queue());
    let mut other = popped.serving.another_loop();
    for at in 0..6 {
        popped.send(at % 2, &at.to_string());
    }
    popped.serving.settle();
    let got = popped.pop(&[("maxMsgNums", "4")]);
    assert_eq!(got.len(), 4);
    popped.serving.change_loop(&mut other);
    let rest = popped.pop(&[]);
    assert_eq!(rest.len(), 2, "what the first loop gave is nobody else's");
    for each in got.iter().chain(&rest) {
        assert_eq!(response(&popped.ack(each)), (0, ""));
    }
    assert_eq!(popped.serving.number("pops_open"), 0);
    popped.serving.change_loop(&mut other);
    popped.pass(70_000);
    assert!(popped.pop(&[]).is_empty(), "all are settled");
}

#[test]
fn a_transaction_ends_once_whichever_loop_is_asked() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.another_loop();
    let half = serving.half(1, "");
    serving.change_loop(&mut other);
    assert_eq!(response(&serving.end(half, COMMIT, &[])), (0, ""));
    serving.change_loop(&mut other);
    let _refused_or_repeated = serving.end(half, ROLLBACK, &[]);
    let _repeated = serving.end(half, COMMIT, &[]);
    assert_eq!(serving.bodies(b"t", 2), ["body"]);
    assert_eq!(serving.bodies(NOTES, 0).len(), 1);
}

#[test]
fn offsets_of_one_loop_are_those_of_all() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.another_loop();
    assert!(serving.fast_path.commit_offset("g", "t", 0, 7));
    serving.change_loop(&mut other);
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), Some(7));
    assert_eq!(serving.fast_path.remove_offsets(Some("g"), None), 1);
    serving.change_loop(&mut other);
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), None);
}

fn is_woken(fast_path: &Path) -> bool {
    fast_path.events().wake_descriptor().wait(Duration::ZERO)
}

/// Dispatches what was appended, and drains nothing.
fn dispatch(serving: &Serving) {
    while serving.store.dispatching().step().unwrap_or(false) {}
}

#[test]
fn a_held_pull_is_answered_on_its_loop_by_a_send_on_another() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.another_loop();
    let wait = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    serving.feed(&pull_with(50, &wait));
    assert!(serving.answers().is_empty());
    serving.change_loop(&mut other);
    let sent = serving.ask(&send_with(1, &[], b"x"));
    assert_eq!(sent.code, 0);
    dispatch(&serving);
    assert!(!is_woken(&serving.fast_path));
    assert!(is_woken(&other.fast_path));
    serving.drain();
    assert!(serving.answers().is_empty());
    serving.change_loop(&mut other);
    serving.drain();
    let answer = serving.answers().remove(0);
    assert_eq!((answer.opaque, response(&answer)), (50, (0, "FOUND")));
    assert_eq!(serving.fast_path.events().arrivals().watched(), 0);
}

#[test]
fn a_pull_that_is_held_on_both_loops_is_answered_on_both() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.another_loop();
    let wait = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];
    for opaque in [50, 51] {
        serving.feed(&pull_with(opaque, &wait));
        serving.change_loop(&mut other);
    }
    serving.feed(&send_with(1, &[], b"x"));
    serving.bytes();
    dispatch(&serving);
    for opaque in [50, 51] {
        assert!(is_woken(&serving.fast_path));
        serving.drain();
        let answer = serving.answers().remove(0);
        assert_eq!((answer.opaque, answer.code), (opaque, 0));
        serving.change_loop(&mut other);
    }
}

#[test]
fn a_held_pop_is_answered_on_its_loop_by_a_send_on_another() {
    let mut popped = Popped::new(one_revive_queue());
    let mut other = popped.serving.another_loop();
    let now = START_MS.to_string();
    let request = popped.pop_request(&[("pollTime", "15000"), ("bornTime", now.as_str())]);
    popped.serving.feed(&request);
    assert_eq!(popped.serving.number("pops_held"), 1);
    popped.serving.change_loop(&mut other);
    popped.send(0, "x");
    dispatch(&popped.serving);
    assert!(!is_woken(&popped.serving.fast_path));
    assert!(is_woken(&other.fast_path));
    popped.serving.pass(5);
    assert!(popped.serving.answers().is_empty());
    popped.serving.change_loop(&mut other);
    popped.serving.pass(5);
    let answers = popped.serving.answers();
    assert_eq!((answers.len(), answers[0].code), (1, 0));
    assert_eq!(popped.serving.number("pops_held"), 0);
    assert_eq!(popped.serving.fast_path.events().arrivals().watched(), 0);
}

/// A pop that may be held, as a client sends it.
pub(crate) fn held_pop(popped: &mut Popped, more: &[(&str, &str)]) -> Vec<u8> {
    let now = popped.serving.store.wall_ms().to_string();
    let mut fields = vec![("pollTime", "15000"), ("bornTime", now.as_str())];
    fields.extend(more);
    popped.pop_request(&fields)
}

/// What a held pop of another loop was answered once that loop was woken: `popped` is on the loop that
/// woke it.
pub(crate) fn answered_elsewhere(popped: &mut Popped, other: &mut Loop) -> Vec<(i32, usize)> {
    assert!(is_woken(&other.fast_path), "the loop that holds the pop");
    assert!(!is_woken(&popped.serving.fast_path));
    popped.serving.change_loop(other);
    popped.serving.drain();
    let answers = popped.serving.answers();
    assert_eq!(popped.serving.number("pops_held"), 0);
    answers.iter().map(|a| (a.code, a.body.len())).collect()
}

#[test]
fn an_acknowledgement_on_another_loop_lets_an_ordered_pop_go_on() {
    let mut popped = Popped::new(one_revive_queue());
    let mut other = popped.serving.another_loop();
    for at in 0..4 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    let order = [("order", "true"), ("maxMsgNums", "2")];
    let first = popped.pop(&order);
    assert_eq!(first.len(), 2);
    popped.serving.change_loop(&mut other);
    popped.serving.drain();
    let request = held_pop(&mut popped, &order);
    popped.serving.feed(&request);
    assert_eq!(popped.serving.number("pops_held"), 1);
    popped.serving.change_loop(&mut other);
    popped.serving.drain();
    assert_eq!(response(&popped.ack(&first[0])), (0, ""));
    assert!(!is_woken(&other.fast_path), "its queue is blocked still");
    assert_eq!(response(&popped.ack(&first[1])), (0, ""));
    let answers = answered_elsewhere(&mut popped, &mut other);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0, 0);
}

#[test]
fn an_acknowledgement_on_another_loop_gives_a_full_queue_space() {
    let rules = PopRules {
        in_flight_max: Some(2),
        ..one_revive_queue()
    };
    let mut popped = Popped::new(rules);
    let mut other = popped.serving.another_loop();
    for at in 0..6 {
        popped.send(0, &at.to_string());
    }
    popped.serving.settle();
    let mut first = Vec::new();
    while first.len() <= 2 {
        first.extend(popped.pop(&[("maxMsgNums", "2")]));
    }
    popped.serving.change_loop(&mut other);
    popped.serving.drain();
    let request = held_pop(&mut popped, &[]);
    popped.serving.feed(&request);
    // It looks once more before it is held.
    popped.serving.drain();
    assert_eq!(popped.serving.number("pops_held"), 1);
    popped.serving.change_loop(&mut other);
    popped.serving.drain();
    for each in &first {
        assert_eq!(response(&popped.ack(each)), (0, ""));
    }
    let answers = answered_elsewhere(&mut popped, &mut other);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].0, 0);
}

#[test]
fn a_pop_leaves_the_rest_to_one_that_waits_on_another_loop() {
    let mut popped = Popped::new(one_revive_queue());
    let mut other = popped.serving.another_loop();
    let request = held_pop(&mut popped, &[("maxMsgNums", "1")]);
    popped.serving.feed(&request);
    assert_eq!(popped.serving.number("pops_held"), 1);
    popped.serving.change_loop(&mut other);
    for at in 0..3 {
        popped.send(0, &at.to_string());
    }
    dispatch(&popped.serving);
    let got = popped.pop(&[("maxMsgNums", "1")]);
    assert_eq!(got.len(), 1);
    let answers = answered_elsewhere(&mut popped, &mut other);
    assert_eq!((answers.len(), answers[0].0), (1, 0));
}

#[test]
fn lines_are_woken_once_and_on_loops_that_hold_something_alone() {
    let mut popped = Popped::new(one_revive_queue());
    let (idle, mut other) = (popped.serving.another_loop(), popped.serving.another_loop());
    popped.send(0, "x");
    popped.serving.settle();
    let order = [("order", "true"), ("maxMsgNums", "1")];
    let first = popped.pop(&order);
    popped.serving.change_loop(&mut other);
    popped.serving.drain();
    let request = held_pop(&mut popped, &[("queueId", "1")]);
    popped.serving.feed(&request);
    popped.serving.change_loop(&mut other);
    assert_eq!(response(&popped.ack(&first[0])), (0, ""));
    assert!(!is_woken(&idle.fast_path));
    // It holds another line: it looks, and goes on holding.
    popped.serving.change_loop(&mut other);
    popped.serving.drain();
    assert!(popped.serving.answers().is_empty());
    assert_eq!(popped.serving.number("pops_held"), 1);
}

#[test]
fn a_send_that_waits_for_its_sync_is_answered_on_its_loop_alone() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    let mut other = serving.another_loop();
    serving.feed(&send_with(1, &[], b"x"));
    serving.change_loop(&mut other);
    serving.feed(&send_with(2, &[], b"x"));
    serving.change_loop(&mut other);
    serving.store.durability().flush().unwrap();
    assert!(is_woken(&serving.fast_path) && is_woken(&other.fast_path));
    let codes = |serving: &mut Serving| -> Vec<(i32, i32)> {
        let answers = serving.answers();
        answers.iter().map(|a| (a.opaque, a.code)).collect()
    };
    serving.drain();
    assert_eq!(codes(&mut serving), [(1, 0)]);
    assert_eq!(serving.number("parked"), 0);
    serving.change_loop(&mut other);
    assert_eq!(codes(&mut serving), [], "the other drain was not its own");
    assert_eq!(serving.number("parked"), 1);
    serving.drain();
    assert_eq!(codes(&mut serving), [(2, 0)]);
}

#[test]
fn a_cold_read_wakes_the_loop_that_asked() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.feed(&send_with(1, &[], b"x"));
    serving.bytes();
    serving.settle();
    let mut other = serving.another_loop();
    serving.change_loop(&mut other);
    // A question by time is always read elsewhere.
    let fields = [("topic", "t"), ("queueId", "0"), ("timestamp", "1")];
    serving.feed(&request(29, 7, &fields, b""));
    assert!(serving.answers().is_empty());
    assert!(is_woken(&serving.fast_path) && !is_woken(&other.fast_path));
    serving.drain();
    assert_eq!(serving.answers().remove(0).code, 0);
}

#[test]
fn a_fast_path_that_is_dropped_leaves_nothing_that_waits() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    let (mut gone, mut abandoned) = (serving.another_loop(), serving.another_loop());
    for other in [&mut gone, &mut abandoned] {
        serving.change_loop(other);
        serving.feed(&send_with(1, &[], b"x"));
        serving.change_loop(other);
    }
    assert_eq!(serving.store.durability().parked(), 2);
    drop(gone);
    assert_eq!(serving.store.durability().parked(), 1);
    // As in a forked child, which takes no lock of the engine.
    abandoned.fast_path.abandon();
    drop(abandoned);
    assert_eq!(serving.store.durability().parked(), 1);
}

#[test]
fn of_copies_on_several_loops_at_the_same_time_one_is_stored() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.remember();
    let mut loops: Vec<Loop> = (0..LOOPS).map(|_loop| serving.another_loop()).collect();
    let send_all = |one: &mut Loop| -> Vec<(String, String)> {
        let each = (0..KEYS).map(|key| {
            let properties = format!("UNIQ_KEY\u{1}K{key}\u{2}");
            let request = send_with(1, &[("i", &properties)], b"body");
            one.fast_path.feed(one.client, &request, 0).unwrap();
            let connections = &mut one.fast_path.connections;
            let bytes = connections.change_output(one.client, |output| output.take(usize::MAX));
            let answers = commands(&bytes.unwrap());
            assert_eq!((answers.len(), answers[0].code), (1, 0));
            let ext = &answers[0].ext;
            (ext["msgId"].clone(), ext["queueOffset"].clone())
        });
        each.collect()
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = loops
            .iter_mut()
            .map(|one| scope.spawn(|| send_all(one)))
            .collect();
        started
            .into_iter()
            .map(|each| each.join().unwrap())
            .collect()
    });
    assert!(answers.iter().all(|each| *each == answers[0]));
    while serving.store.dispatching().step().unwrap_or(false) {}
    assert_eq!(serving.stored(b"t"), KEYS);
    assert_eq!(serving.number("repeats"), ((LOOPS - 1) * KEYS) as u64);
}
