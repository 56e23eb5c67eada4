//! The processor of pulls: found, held and woken, out of time, refused.

use mqcore_engine::config::FlushDiskType;

use super::{Surroundings, command, request};
use crate::codes;
use crate::holds::News;
use crate::pull::PullProcessor;
use crate::stop::{Escalation, How, Processed, Stop};

struct Pulls {
    around: Surroundings,
    processor: PullProcessor,
}

/// Flags of a pull: it brings its subscription and may be held, and one that commits too.
const HELD: &str = "6";
const COMMITS: &str = "7";

impl Pulls {
    fn new() -> Self {
        let around = Surroundings::new(FlushDiskType::Async);
        Self {
            processor: PullProcessor::new(around.offsets.clone()),
            around,
        }
    }

    fn pull(&mut self, group: &str, offset: &str, flags: &str, how: How) -> Processed {
        let fields = [
            ("consumerGroup", group),
            ("topic", "t"),
            ("queueId", "0"),
            ("queueOffset", offset),
            ("maxMsgNums", "32"),
            ("sysFlag", flags),
            ("commitOffset", "5"),
            ("suspendTimeoutMillis", "1000"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        let command = command(codes::PULL_MESSAGE, &fields, b"");
        let request = request(self.around.client, &command);
        let mut cx = self.around.context();
        self.processor.process(&mut cx, &request, how)
    }

    fn drain(&mut self) {
        let mut cx = self.around.context();
        self.processor.run_woken(&mut cx);
        let due_ms = cx.now_ms;
        self.processor.run_due(&mut cx, due_ms);
    }
}

#[test]
fn what_is_there_is_given_and_counted() {
    let mut pulls = Pulls::new();
    pulls.around.append("t", 0, b"one");
    assert_eq!(pulls.pull("g", "0", COMMITS, How::ByPolicy), Ok(()));
    let (code, remark, answer) = pulls.around.answer();
    assert_eq!((code, remark.as_str()), (codes::SUCCESS, "FOUND"));
    assert_eq!(answer.ext["nextBeginOffset"], "1");
    assert_eq!(pulls.around.offsets.find("g", "t", 0), Some(5));
    let gets = pulls.processor.gets.rows();
    let rows: Vec<_> = gets
        .iter()
        .map(|row| (&*row.0, &*row.1, row.2.messages))
        .collect();
    assert_eq!(rows, [("g", "t", 1)]);
    assert!(gets.iter().all(|row| row.2.bytes > 3));
}

#[test]
fn a_held_pull_is_woken_by_what_comes() {
    let mut pulls = Pulls::new();
    pulls.around.append("t", 0, b"one");
    assert_eq!(pulls.pull("g", "1", HELD, How::ByPolicy), Ok(()));
    assert_eq!(
        (pulls.around.answers(), pulls.processor.holds.len()),
        (vec![], 1)
    );
    pulls.around.append("t", 0, b"two");
    pulls.processor.holds.arrived("t", 0, News::of_end(2));
    pulls.drain();
    assert_eq!(pulls.around.answer().0, codes::SUCCESS);
    assert!(pulls.processor.holds.is_empty());
    let emptied = pulls.processor.holds.take_emptied();
    assert_eq!(emptied, [("t".into(), 0)]);
}

#[test]
fn a_held_pull_is_answered_when_its_time_is_over() {
    let mut pulls = Pulls::new();
    pulls.around.append("t", 0, b"one");
    assert_eq!(pulls.pull("g", "1", HELD, How::ByPolicy), Ok(()));
    pulls.around.now_ms = 999;
    pulls.drain();
    assert_eq!(pulls.around.answers(), []);
    pulls.around.now_ms = 1_000;
    pulls.drain();
    assert_eq!(pulls.around.answer().0, codes::PULL_NOT_FOUND);
}

#[test]
fn a_reset_is_where_the_next_pull_goes_on() {
    let mut pulls = Pulls::new();
    pulls.around.append("t", 0, b"one");
    assert!(pulls.around.offsets.reset("g", "t", 0, 0));
    assert_eq!(pulls.pull("g", "1", COMMITS, How::ByPolicy), Ok(()));
    let (code, _, answer) = pulls.around.answer();
    assert_eq!(code, codes::PULL_OFFSET_MOVED);
    assert_eq!(answer.ext["nextBeginOffset"], "0");
    assert_eq!(
        pulls.around.offsets.find("g", "t", 0),
        Some(0),
        "not what it commits"
    );
}

#[test]
fn an_unknown_group_is_python_s_to_decide_and_then_refused() {
    let mut pulls = Pulls::new();
    let escalated = pulls.pull("h", "0", HELD, How::ByPolicy);
    assert_eq!(
        escalated,
        Err(Stop::Escalate(Escalation::Group("h".to_owned())))
    );
    assert_eq!(pulls.pull("h", "0", HELD, How::Decided), Ok(()));
    let (code, remark, _) = pulls.around.answer();
    assert_eq!(code, codes::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert!(
        remark.starts_with("subscription group [h] does not exist"),
        "{remark}"
    );
}
