//! Random courses: no message is lost, and one that was acknowledged in time comes again only when
//! the broker was killed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use mqcore_fast_path::policy::PopRules;

use crate::popping::{Got, Popped, one_revive_queue};

#[derive(Debug, Clone)]
enum Step {
    Send(i32),
    Pop(usize, u64),
    Ack(usize),
    /// Which, the new time, and whether the new handle is used.
    Change(usize, u64, bool),
    Pass(u64),
    Save,
    Kill,
    Stop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_i32).prop_map(Step::Send),
        4 => (1..5_usize, 1..20_u64).prop_map(|(count, s)| Step::Pop(count, s * 1_000)),
        4 => (0..20_usize).prop_map(Step::Ack),
        2 => (0..20_usize, 1..20_u64, any::<bool>())
            .prop_map(|(at, s, is_kept)| Step::Change(at, s * 1_000, is_kept)),
        3 => (1..12_u64).prop_map(|s| Step::Pass(s * 1_000)),
        1 => Just(Step::Save),
        1 => Just(Step::Kill),
        1 => Just(Step::Stop),
    ]
}

struct Course {
    popped: Popped,
    sent: usize,
    /// Given, not acknowledged, by the time until which it is the holder's alone.
    held: Vec<(Got, i64)>,
    done: BTreeSet<String>,
    /// Acknowledged when its time was over: it may count, as long as nobody has it again.
    late: BTreeSet<String>,
    saved: Vec<(String, BTreeMap<i32, i64>)>,
    was_killed: bool,
}

impl Course {
    fn take(&mut self, count: usize, invisible_ms: u64) -> usize {
        let (count, invisible) = (count.to_string(), invisible_ms.to_string());
        let more = [
            ("maxMsgNums", count.as_str()),
            ("invisibleTime", &invisible),
        ];
        let got = self.popped.pop(&more);
        let until_ms = self.popped.serving.store.wall_ms() + invisible_ms as i64;
        for each in &got {
            let is_again = self.done.contains(&each.body);
            assert!(
                !is_again || self.was_killed,
                "{each:?} was acknowledged in time"
            );
            self.held.push((each.clone(), until_ms));
        }
        got.len()
    }

    fn ack(&mut self, at: usize) {
        if self.held.is_empty() {
            return;
        }
        let (got, until_ms) = self.held.remove(at % self.held.len());
        assert_eq!(self.popped.ack(&got).code, 0);
        if self.popped.serving.store.wall_ms() < until_ms {
            self.done.insert(got.body);
        } else {
            self.late.insert(got.body);
        }
    }

    fn change(&mut self, at: usize, invisible_ms: u64, is_kept: bool) {
        if self.held.is_empty() {
            return;
        }
        let at = at % self.held.len();
        let now_ms = self.popped.serving.store.wall_ms();
        if now_ms >= self.held[at].1 {
            // It came back already: it would come back twice.
            return;
        }
        let (got, _until_ms) = self.held.remove(at);
        let changed = self.popped.changed(&got, invisible_ms as i64);
        if is_kept {
            self.held.push((changed, now_ms + invisible_ms as i64));
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Send(queue) => {
                self.popped.send(queue, &self.sent.to_string());
                self.sent += 1;
                self.popped.serving.settle();
            }
            Step::Pop(count, invisible_ms) => {
                self.take(count, invisible_ms);
            }
            Step::Ack(at) => self.ack(at),
            Step::Change(at, invisible_ms, is_kept) => self.change(at, invisible_ms, is_kept),
            Step::Pass(by_ms) => self.popped.pass(by_ms),
            Step::Save => self.saved = self.popped.offsets(),
            Step::Kill => {
                self.was_killed = true;
                let saved = self.saved.clone();
                self.popped.kill(saved);
            }
            Step::Stop => {
                self.popped.stop();
                self.saved = self.popped.offsets();
            }
        }
    }
}

/// Runs the steps, then acknowledges everything that ever comes; what was lost.
fn lost(steps: Vec<Step>, has_buffer: bool, has_retry_v2: bool) -> Vec<String> {
    let rules = PopRules {
        has_buffer,
        has_retry_v2,
        stay_ms: 4_000,
        ..one_revive_queue()
    };
    let mut course = Course {
        popped: Popped::new(rules),
        sent: 0,
        held: Vec::new(),
        done: BTreeSet::new(),
        late: BTreeSet::new(),
        saved: Vec::new(),
        was_killed: false,
    };
    for step in steps {
        course.run(step);
    }
    // In the end everything is acknowledged that ever comes.
    let mut quiet = 0;
    while quiet < 10 {
        let mut count = 0;
        while course.take(32, 20_000) > 0 {
            count += 1;
            while !course.held.is_empty() {
                course.ack(0);
            }
        }
        quiet = if count == 0 { quiet + 1 } else { 0 };
        course.popped.pass(5_000);
    }
    (0..course.sent)
        .map(|at| at.to_string())
        .filter(|body| !course.done.contains(body) && !course.late.contains(body))
        .collect()
}

/// The check point of a changed time is another than that of the pop, within one millisecond too.
#[test]
fn a_changed_time_has_a_check_point_of_its_own() {
    for (has_buffer, is_kept) in [(false, false), (false, true), (true, false), (true, true)] {
        let steps = vec![
            Step::Send(2),
            Step::Send(0),
            Step::Pop(1, 13_000),
            Step::Change(0, 9_000, is_kept),
            Step::Ack(0),
        ];
        let lost = lost(steps, has_buffer, false);
        assert_eq!(lost, Vec::<String>::new(), "{has_buffer} {is_kept}");
    }
}

/// As above, with the second change longer than the first, and back again.
#[test]
fn a_time_changed_twice_has_a_check_point_for_each_change() {
    for has_buffer in [false, true] {
        for times_ms in [[9_000, 12_000], [12_000, 9_000], [13_000, 13_000]] {
            let mut steps = vec![Step::Send(0), Step::Pop(1, 13_000)];
            steps.extend(times_ms.map(|time_ms| Step::Change(0, time_ms, true)));
            steps.push(Step::Ack(0));
            let lost = lost(steps, has_buffer, false);
            assert_eq!(lost, Vec::<String>::new(), "{has_buffer} {times_ms:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_is_lost(
        steps in proptest::collection::vec(step(), 1..60),
        has_buffer in any::<bool>(),
        has_retry_v2 in any::<bool>(),
    ) {
        let missing = lost(steps, has_buffer, has_retry_v2);
        prop_assert!(missing.is_empty(), "lost: {missing:?}");
    }
}
