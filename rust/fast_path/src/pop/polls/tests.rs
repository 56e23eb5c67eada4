//! Held pops: who is woken, in slices of every size; what one event, one turn and one close cost.

use proptest::prelude::*;

use super::*;
use crate::held::CHECK_INTERVAL_MS;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Waiter(u64, &'static str, i32, Option<i64>);

impl Waits for Waiter {
    fn connection(&self) -> ConnectionId {
        ConnectionId(self.0)
    }
    fn line(&self) -> (&str, &str, i32) {
        ("t", self.1, self.2)
    }
    fn may_want(&self, tags_codes: &[i64]) -> bool {
        self.3
            .is_none_or(|code| tags_codes.is_empty() || tags_codes.contains(&code))
    }
}

fn take_woken(polls: &mut Polls<Waiter>, woken: &mut Vec<Waiter>) {
    let mut slice = Slice::new(usize::MAX);
    woken.extend(std::iter::from_fn(|| polls.next_woken(&mut slice)));
}

fn queues() -> Vec<QueueKey> {
    vec![("t".into(), 0), ("t".into(), 1)]
}

#[test]
fn what_comes_wakes_one_of_each_line() {
    let mut polls = Polls::default();
    for connection in [1, 2] {
        for group in ["g", "h"] {
            polls.hold(Waiter(connection, group, -1, None), queues(), 0, 100);
        }
    }
    polls.hold(Waiter(3, "g", 1, Some(5)), vec![("t".into(), 1)], 0, 100);
    let mut woken = Vec::new();
    polls.arrived("t", 1, &[4]);
    take_woken(&mut polls, &mut woken);
    woken.sort_by_key(|each| each.1);
    assert_eq!(woken, [Waiter(1, "g", -1, None), Waiter(1, "h", -1, None)]);
    woken.clear();
    polls.arrived("t", 1, &[5, 6]);
    take_woken(&mut polls, &mut woken);
    assert_eq!(woken.len(), 3);
    assert!(polls.is_empty());
    let mut emptied = polls.take_emptied();
    emptied.sort();
    assert_eq!(emptied, queues());
    assert_eq!(polls.next_deadline_ms(), None);
}

#[test]
fn times_and_connections_end() {
    let mut polls = Polls::default();
    polls.hold(Waiter(1, "g", -1, None), queues(), 0, 10);
    polls.hold(Waiter(2, "g", -1, None), queues(), 0, 20);
    polls.hold(Waiter(3, "g", -1, None), queues(), 0, 20_000);
    assert_eq!(polls.len_of(("t", "g", -7)), 3);
    let mut woken = Vec::new();
    let mut slice = Slice::new(usize::MAX);
    woken.extend(polls.next_due(10, &mut slice));
    assert_eq!(polls.next_due(10, &mut slice), None);
    assert_eq!(woken, [Waiter(1, "g", -1, None)]);
    polls.close(ConnectionId(2));
    assert_eq!(polls.next_deadline_ms(), Some(0), "it is to be taken out");
    polls.forget_left(&mut slice);
    assert_eq!(polls.next_deadline_ms(), Some(CHECK_INTERVAL_MS));
    assert!(
        polls
            .next_checked(CHECK_INTERVAL_MS - 1, &mut slice)
            .is_none()
    );
    woken.extend(polls.next_checked(CHECK_INTERVAL_MS, &mut slice));
    assert!(polls.next_checked(CHECK_INTERVAL_MS, &mut slice).is_none());
    assert_eq!(woken.len(), 2);
    assert_eq!(polls.next_of(("t", "g", -1)), None);
}

#[test]
fn lines_and_all_have_bounds() {
    let mut polls = Polls::default();
    let bounds = Bounds {
        per_line: 1,
        all: 3,
        per_connection: 9,
    };
    let waiter = |group| Waiter(1, group, -1, None);
    for group in ["g", "g"] {
        assert!(polls.has_space(&waiter(group), bounds));
        polls.hold(waiter(group), queues(), 0, 10);
    }
    assert!(
        !polls.has_space(&waiter("g"), bounds),
        "one more than its size, as officially"
    );
    polls.hold(waiter("h"), queues(), 0, 10);
    assert!(!polls.has_space(&waiter("i"), bounds));
}

#[test]
fn the_next_of_a_line_is_none_of_a_closed_connection() {
    let mut polls = Polls::default();
    let connections = 2 * LEFT_LOOKS_MAX as u64;
    for connection in 0..=connections {
        polls.hold(Waiter(connection, "g", -1, None), queues(), 0, 9);
    }
    for connection in 0..connections {
        polls.close(ConnectionId(connection));
    }
    let line = ("t", "g", -1);
    assert_eq!(polls.next_of(line), None, "too many are to be passed over");
    let mut woken = Vec::new();
    take_woken(&mut polls, &mut woken);
    assert_eq!(woken, [Waiter(connections, "g", -1, None)]);
}

#[test]
fn one_event_costs_a_look_per_line_and_a_close_one_per_request() {
    let mut polls = Polls::default();
    let (lines, each) = (300, 10);
    for at in 0..lines * each {
        let group: &'static str = Box::leak(format!("g{}", at % lines).into_boxed_str());
        polls.hold(Waiter(at % 2, group, -1, None), queues(), 0, 9);
    }
    polls.arrived("t", 0, &[1]);
    let (mut turns, mut woken) = (0, 0);
    while polls.next_deadline_ms() == Some(0) {
        let mut slice = Slice::new(20);
        while polls.next_woken(&mut slice).is_some() {
            woken += 1;
        }
        assert!(slice.spent() <= 20 + 2 * LOOKED_AT, "{slice:?}");
        turns += 1;
    }
    assert_eq!(woken, lines);
    assert!(
        turns as u64 <= lines * 2 * LOOKED_AT as u64 / 20 + 2,
        "{turns}"
    );
    polls.close(ConnectionId(0));
    polls.close(ConnectionId(1));
    let mut slice = Slice::new(usize::MAX);
    polls.forget_left(&mut slice);
    assert_eq!(slice.spent(), (lines * (each - 1)) as usize * LOOKED_AT);
    let held = &polls.held;
    assert!(polls.is_empty() && held.members.by_key.is_empty() && held.queues.is_empty());
}

#[derive(Debug, Clone)]
enum Step {
    Hold(u64, usize, i32, Option<i64>, u64),
    Arrive(i32, Vec<i64>),
    Work(usize),
    Close(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let codes = proptest::collection::vec(0..3_i64, 0..3);
    let code = proptest::option::of(0..3_i64);
    prop_oneof![
        4 => (0..3_u64, 0..2_usize, -1..2, code, 0..40_u64)
            .prop_map(|(c, g, q, code, t)| Step::Hold(c, g, q, code, t)),
        2 => (0..2, codes).prop_map(|(q, codes)| Step::Arrive(q, codes)),
        3 => (1..9_usize).prop_map(Step::Work),
        1 => (0..3_u64).prop_map(Step::Close),
    ]
}

proptest! {
    /// Slices of any size: nobody is given twice or lost, and after the work nobody is passed over
    /// who is first for what came.
    #[test]
    fn slices_lose_and_double_nothing(steps in proptest::collection::vec(step(), 1..60)) {
        let mut polls = Polls::default();
        // Those held, and whether something came since that they may want.
        let mut model: Vec<(Waiter, bool)> = Vec::new();
        let mut given: Vec<Waiter> = Vec::new();
        for step in steps {
            match step {
                Step::Hold(connection, group, queue_id, code, _wait_ms) => {
                    let waiter = Waiter(connection, ["g", "h"][group], queue_id, code);
                    let queues = if queue_id < 0 { queues() } else { vec![("t".into(), queue_id)] };
                    polls.hold(waiter.clone(), queues, 0, u64::MAX);
                    model.push((waiter, false));
                }
                Step::Arrive(queue_id, codes) => {
                    polls.arrived("t", queue_id, &codes);
                    for (waiter, is_asked) in &mut model {
                        let waits = waiter.2 < 0 || waiter.2 == queue_id;
                        *is_asked |= waits && waiter.may_want(&codes);
                    }
                }
                Step::Work(work) => {
                    let mut slice = Slice::new(work);
                    while let Some(waiter) = polls.next_woken(&mut slice) {
                        let at = model.iter().position(|(held, _)| *held == waiter);
                        prop_assert!(at.is_some(), "{waiter:?} is not held");
                        // Equal ones are in the order of their holding.
                        model.remove(at.unwrap());
                        given.push(waiter);
                    }
                    prop_assert!(slice.spent() <= work + 2 * LOOKED_AT);
                    polls.forget_left(&mut slice);
                }
                Step::Close(connection) => {
                    polls.close(ConnectionId(connection));
                    model.retain(|(held, _)| held.0 != connection);
                    // The number of a connection is not used again.
                    let mut slice = Slice::new(usize::MAX);
                    polls.forget_left(&mut slice);
                    while polls.held.waiting.has_left() {
                        polls.forget_left(&mut slice);
                    }
                }
            }
            prop_assert_eq!(polls.len(), model.len());
        }
        let mut slice = Slice::new(usize::MAX);
        while let Some(waiter) = polls.next_woken(&mut slice) {
            let at = model.iter().position(|(held, _)| *held == waiter);
            prop_assert!(at.is_some());
            model.remove(at.unwrap());
        }
        prop_assert_eq!(polls.next_deadline_ms().is_none_or(|at| at > 0), true);
        prop_assert_eq!(polls.len(), model.len());
    }
}
