//! Random courses: no message is lost, and one that was acknowledged in time comes again only when
//! the broker was killed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use mqcore_lane::pop::rules::PopRules;

use crate::popping::{Got, Popped, one_revive_queue};

#[derive(Debug, Clone)]
enum Step {
    Send(i32),
    Pop(usize, u64),
    Ack(usize),
    Change(usize, u64),
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
        1 => (0..20_usize, 1..20_u64).prop_map(|(at, s)| Step::Change(at, s * 1_000)),
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
        let until_ms = self.popped.desk.store.wall_ms() + invisible_ms as i64;
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
        if self.popped.desk.store.wall_ms() < until_ms {
            self.done.insert(got.body);
        } else {
            self.late.insert(got.body);
        }
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Send(queue) => {
                self.popped.send(queue, &self.sent.to_string());
                self.sent += 1;
                self.popped.desk.settle();
            }
            Step::Pop(count, invisible_ms) => {
                self.take(count, invisible_ms);
            }
            Step::Ack(at) => self.ack(at),
            Step::Change(at, invisible_ms) => {
                if self.held.is_empty() {
                    return;
                }
                let at = at % self.held.len();
                let (got, until_ms) = self.held[at].clone();
                if self.popped.desk.store.wall_ms() >= until_ms {
                    // It came back already: it would come back twice.
                    return;
                }
                let code = self.popped.change(&got, invisible_ms as i64).code;
                assert_eq!(code, 0);
                // Its new handle is of no use here: it comes back.
                self.held.remove(at);
            }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_is_lost(
        steps in proptest::collection::vec(step(), 1..60),
        has_buffer in any::<bool>(),
        has_retry_v2 in any::<bool>(),
    ) {
        let rules = PopRules { has_buffer, has_retry_v2, stay_ms: 4_000, ..one_revive_queue() };
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
        let missing: Vec<String> = (0..course.sent)
            .map(|at| at.to_string())
            .filter(|body| !course.done.contains(body) && !course.late.contains(body))
            .collect();
        prop_assert!(missing.is_empty(), "lost: {missing:?}");
    }
}
