//! Held pulls against a list of them, in slices of every size; what one event and one turn cost.

use proptest::prelude::*;

use super::*;

fn pull(connection: u64, opaque: i32, queue_id: i32, queue_offset: i64) -> Pull {
    Pull {
        request_context: RequestContext {
            connection: ConnectionId(connection),
            opaque,
            ..RequestContext::default()
        },
        group: "g".into(),
        topic: "t".into(),
        queue_id,
        queue_offset,
        count_max: 32,
        bytes_max: 1,
        shape: Shape::Official,
        filter: if opaque % 3 == 0 {
            Filter::Tags([1_i64].into())
        } else {
            Filter::All
        },
        version: None,
        begun_us: 0,
    }
}

fn news(next_offset: u64, tags_codes: &[i64]) -> News {
    News {
        from: next_offset.saturating_sub(tags_codes.len() as u64),
        next_offset,
        tags_codes: tags_codes.to_vec(),
    }
}

/// Works off what one slice allows; it may be more by the last piece.
fn take_woken(holds: &mut Holds, work: usize, out: &mut Vec<Pull>) -> usize {
    let mut slice = Slice::new(work);
    while let Some(pull) = holds.next_woken(&mut slice, |_, _, _| true) {
        out.push(pull);
    }
    assert!(slice.spent() < work.saturating_add(LOOKED_AT), "{slice:?}");
    slice.spent()
}

fn take_due(holds: &mut Holds, now_ms: u64, work: usize, out: &mut Vec<Pull>) {
    let mut slice = Slice::new(work);
    out.extend(std::iter::from_fn(|| holds.next_due(now_ms, &mut slice)));
    assert!(slice.spent() < work.saturating_add(LOOKED_AT), "{slice:?}");
}

fn forget(holds: &mut Holds, work: usize) {
    let mut slice = Slice::new(work);
    holds.forget_left(&mut slice);
    assert!(slice.spent() < work.saturating_add(LOOKED_AT), "{slice:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Hold(u64, i32, i64, u64),
    Arrive(i32, u64, Vec<i64>),
    Pass(u64),
    Close(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let codes = proptest::collection::vec(0..3_i64, 0..3);
    prop_oneof![
        4 => (0..3_u64, 0..3, 0..6_i64, 0..40_u64).prop_map(|(c, q, o, t)| Step::Hold(c, q, o, t)),
        2 => (0..3, 0..6_u64, codes).prop_map(|(q, o, codes)| Step::Arrive(q, o, codes)),
        2 => (0..20_u64).prop_map(Step::Pass),
        1 => (0..3_u64).prop_map(Step::Close),
    ]
}

fn opaques(pulls: &[Pull]) -> Vec<i32> {
    let mut all: Vec<i32> = pulls
        .iter()
        .map(|pull| pull.request_context.opaque)
        .collect();
    all.sort_unstable();
    all
}

/// Splits a list by a test, as a naive model of all that is held.
fn split(model: &mut Vec<(Pull, u64)>, is_woken: impl Fn(&(Pull, u64)) -> bool) -> Vec<Pull> {
    let woken = model
        .iter()
        .filter(|held| is_woken(held))
        .map(|held| held.0.clone());
    let woken = woken.collect();
    model.retain(|held| !is_woken(held));
    woken
}

proptest! {
    /// Each event is worked off in slices of this size before the next one comes.
    #[test]
    fn it_agrees_with_a_list(
        steps in proptest::collection::vec(step(), 1..60),
        work in 1..12_usize,
    ) {
        let (mut holds, mut model, mut now_ms) = (Holds::default(), Vec::new(), 0);
        // The number of a connection that was closed is not used again.
        let mut numbers = [0_u64, 1, 2];
        for (at, step) in steps.into_iter().enumerate() {
            let mut out = Vec::new();
            let want = match step {
                Step::Hold(connection, queue_id, offset, wait_ms) => {
                    let pull = pull(numbers[connection as usize], at as i32, queue_id, offset);
                    let is_first = !model
                        .iter()
                        .any(|(held, _): &(Pull, u64)| held.queue_id == queue_id);
                    model.push((pull.clone(), now_ms + wait_ms));
                    let held = holds.hold(pull, now_ms, now_ms + wait_ms);
                    prop_assert_eq!(held == Hold::First, is_first);
                    vec![]
                }
                Step::Arrive(queue_id, next, codes) => {
                    holds.arrived("t", queue_id, news(next, &codes));
                    while holds.next_deadline_ms() == Some(0) && holds.held.queues.front().is_some() {
                        take_woken(&mut holds, work, &mut out);
                    }
                    split(&mut model, |(held, _at)| {
                        held.queue_id == queue_id
                            && held.queue_offset < next as i64
                            && held.filter.may_want(&codes)
                    })
                }
                Step::Pass(by_ms) => {
                    now_ms += by_ms;
                    while holds.next_deadline_ms().is_some_and(|at| at <= now_ms)
                        && holds.held.waiting.first_due(now_ms).is_some()
                    {
                        take_due(&mut holds, now_ms, work, &mut out);
                    }
                    split(&mut model, |(_pull, at)| *at <= now_ms)
                }
                Step::Close(connection) => {
                    let closed = std::mem::replace(&mut numbers[connection as usize], at as u64 + 9);
                    holds.close(ConnectionId(closed));
                    while holds.held.waiting.has_left() {
                        forget(&mut holds, work);
                    }
                    split(&mut model, |(held, _)| held.request_context.connection.0 == closed);
                    vec![]
                }
            };
            prop_assert_eq!(opaques(&out), opaques(&want));
            prop_assert_eq!(holds.len(), model.len());
            let next = model.iter().map(|(_pull, at)| *at).min();
            let deadline = holds.next_deadline_ms();
            prop_assert!(deadline.is_some() == next.is_some() && deadline <= next);
            for (_topic, queue_id) in holds.take_emptied() {
                prop_assert!(!model.iter().any(|(held, _at)| held.queue_id == queue_id));
            }
        }
    }

    /// Other events and other holds come between the slices of one: each pull ends once, those of
    /// closed connections are not given, and what is left wants nothing of what came.
    #[test]
    fn what_comes_between_slices_loses_and_doubles_nothing(
        steps in proptest::collection::vec((step(), 0..9_usize), 1..80),
    ) {
        let mut holds = Holds::default();
        let (mut all, mut given, mut now_ms) = (Vec::new(), Vec::new(), 0);
        let mut closed = std::collections::HashSet::new();
        let mut numbers = [0_u64, 1, 2];
        // News of each queue with the number of pulls that were held before.
        let mut events: Vec<(i32, News, usize)> = Vec::new();
        for (at, (step, work)) in steps.into_iter().enumerate() {
            match step {
                Step::Hold(connection, queue_id, offset, wait_ms) => {
                    let pull = pull(numbers[connection as usize], all.len() as i32, queue_id, offset);
                    all.push((pull.clone(), now_ms + wait_ms));
                    holds.hold(pull, now_ms, now_ms + wait_ms);
                }
                Step::Arrive(queue_id, next, codes) => {
                    events.push((queue_id, news(next, &codes), all.len()));
                    holds.arrived("t", queue_id, news(next, &codes));
                }
                Step::Pass(by_ms) => now_ms += by_ms,
                Step::Close(connection) => {
                    let number = std::mem::replace(&mut numbers[connection as usize], at as u64 + 9);
                    closed.insert(number);
                    holds.close(ConnectionId(number));
                }
            }
            let before = given.len();
            take_woken(&mut holds, work, &mut given);
            take_due(&mut holds, now_ms, work, &mut given);
            forget(&mut holds, work);
            for pull in given.get(before..).unwrap() {
                prop_assert!(!closed.contains(&pull.request_context.connection.0), "it is closed");
            }
        }
        take_woken(&mut holds, usize::MAX, &mut given);
        take_due(&mut holds, now_ms, usize::MAX, &mut given);
        forget(&mut holds, usize::MAX);
        let mut ended = opaques(&given);
        let count = ended.len();
        ended.dedup();
        prop_assert_eq!(ended.len(), count, "none is given twice");
        let left = all.iter().filter(|(pull, _at)| {
            let is_given = ended.binary_search(&pull.request_context.opaque).is_ok();
            !is_given && !closed.contains(&pull.request_context.connection.0)
        });
        let left: Vec<&(Pull, u64)> = left.collect();
        prop_assert_eq!(holds.len(), left.len(), "none is lost");
        for (pull, at) in left {
            prop_assert!(*at > now_ms, "its time is over");
            let missed = events.iter().find(|(queue_id, news, held)| {
                *queue_id == pull.queue_id
                    && (pull.request_context.opaque as usize) < *held
                    && pull.queue_offset < news.next_offset as i64
                    && pull.filter.may_want(&news.tags_codes)
            });
            prop_assert!(missed.is_none(), "{pull:?} wants {missed:?}");
        }
    }
}

#[test]
fn the_check_comes_at_its_interval_while_something_is_held() {
    let mut slice = Slice::new(usize::MAX);
    let mut checked = |holds: &mut Holds, now_ms| {
        let found = std::iter::from_fn(|| holds.next_checked(now_ms, &mut slice));
        found.map(|queue| queue.1).collect::<Vec<_>>()
    };
    let mut holds = Holds::default();
    assert!(checked(&mut holds, u64::MAX).is_empty());
    holds.hold(pull(1, 1, 4, 0), 100, 60_000);
    assert!(checked(&mut holds, 100 + CHECK_INTERVAL_MS - 1).is_empty());
    assert_eq!(checked(&mut holds, 100 + CHECK_INTERVAL_MS), [4]);
    assert!(checked(&mut holds, 101 + CHECK_INTERVAL_MS).is_empty());
}

#[test]
fn the_check_of_many_queues_takes_many_turns_and_sees_each_once() {
    let mut holds = Holds::default();
    for queue_id in 0..1_000 {
        holds.hold(pull(1, 1, queue_id, 0), 0, 60_000);
    }
    let (mut seen, mut turns) = (Vec::new(), 0);
    loop {
        let mut slice = Slice::new(100);
        while let Some(queue) = holds.next_checked(CHECK_INTERVAL_MS, &mut slice) {
            seen.push(queue.1);
        }
        assert!(slice.spent() <= 100);
        if holds.next_deadline_ms() != Some(0) {
            break;
        }
        turns += 1;
    }
    assert_eq!(seen, (0..1_000).collect::<Vec<_>>());
    assert!(turns >= 1_000 * LOOKED_AT / 100 - 1, "{turns}");
}

#[test]
fn connections_and_queues_have_limits() {
    let mut holds = Holds::default();
    let limits = HoldLimits {
        all: 6,
        per_connection: 4,
        per_queue: 2,
    };
    holds.set_limits(limits);
    let mut hold = |connection, queue_id| holds.hold(pull(connection, 1, queue_id, 0), 0, 9);
    assert_eq!(hold(1, 0), Hold::First);
    assert_eq!(hold(1, 0), Hold::Further);
    assert!(matches!(hold(1, 0), Hold::Full(2, whose) if whose.contains("queue")));
    assert_eq!(hold(2, 0), Hold::Further, "others go on");
    assert_eq!(hold(1, 1), Hold::First);
    assert_eq!(hold(1, 2), Hold::First);
    assert!(matches!(hold(1, 3), Hold::Full(4, _)));
    assert_eq!(hold(2, 3), Hold::First);
    assert!(matches!(hold(3, 3), Hold::Full(6, _)));
    let mut woken = Vec::new();
    holds.arrived("t", 0, news(1, &[]));
    take_woken(&mut holds, usize::MAX, &mut woken);
    assert_eq!(
        holds.hold(pull(1, 1, 0, 0), 0, 9),
        Hold::First,
        "they are counted off"
    );
}

#[test]
fn each_pull_costs_one_look_however_many_are_held() {
    let mut holds = Holds::default();
    let count = 20_000;
    holds.set_limits(HoldLimits {
        per_queue: count,
        ..HoldLimits::default()
    });
    for opaque in 0..count {
        holds.hold(pull(opaque as u64 % 4, opaque as i32 * 3 + 1, 0, 0), 0, 9);
    }
    holds.arrived("t", 0, news(1, &[7]));
    let (mut woken, mut turns, mut work) = (Vec::new(), 0, 0);
    while holds.next_deadline_ms() == Some(0) {
        work += take_woken(&mut holds, 1_000, &mut woken);
        turns += 1;
    }
    assert_eq!(woken.len(), count);
    assert_eq!(work, count * LOOKED_AT);
    assert!(turns >= count * LOOKED_AT / 1_000);
    assert!(
        woken.is_sorted_by_key(|pull| pull.request_context.opaque),
        "in their order"
    );
}

#[test]
fn queues_with_news_take_turns() {
    let mut holds = Holds::default();
    for opaque in 0..1_000 {
        holds.hold(pull(1, opaque * 3 + 1, 0, 0), 0, 9);
    }
    holds.hold(pull(2, 4_000, 1, 0), 0, 9);
    holds.arrived("t", 0, news(1, &[7]));
    holds.arrived("t", 1, news(1, &[7]));
    let mut woken = Vec::new();
    take_woken(&mut holds, (LOOKS_PER_VISIT + 1) * LOOKED_AT, &mut woken);
    assert_eq!(
        woken.last().unwrap().queue_id,
        1,
        "it does not wait for the long one"
    );
}

#[test]
fn news_that_come_while_earlier_ones_are_worked_off_reach_those_passed_by() {
    let mut holds = Holds::default();
    for opaque in 0..3 {
        // Those that want the tag 1 alone.
        holds.hold(pull(1, opaque * 3, 0, 0), 0, 9);
    }
    holds.arrived("t", 0, news(1, &[7]));
    let mut woken = Vec::new();
    take_woken(&mut holds, 2 * LOOKED_AT, &mut woken);
    holds.arrived("t", 0, news(2, &[1]));
    assert!(woken.is_empty());
    take_woken(&mut holds, usize::MAX, &mut woken);
    assert_eq!(opaques(&woken), [0, 3, 6]);
}
