//! The processors of pops: popped and acknowledged, held, refused; and what they leave of offsets.

use std::sync::Arc;

use mqcore_engine::config::FlushDiskType;

use super::{Surroundings, command, request};
use crate::codes;
use crate::policy::Broker;
use crate::pop::{PopShards, Pops};
use crate::stop::{Escalation, How, Processed, Stop};

struct Popping {
    around: Surroundings,
    pops: Pops,
}

impl Popping {
    fn new() -> Self {
        let mut around = Surroundings::new(FlushDiskType::Async);
        let mut broker = Broker::default();
        broker.timing.is_enabled = true;
        broker.pops.has_buffer = true;
        around.policy.broker = Arc::new(broker);
        let merge = PopShards::new(&around.offsets);
        Self {
            pops: Pops::new(Arc::new(merge), around.store.first_loop()),
            around,
        }
    }

    fn process(&mut self, code: i32, fields: &[(&str, &str)]) -> Processed {
        let command = command(code, fields, b"");
        let request = request(self.around.client, &command);
        let mut cx = self.around.context();
        self.pops.process(&mut cx, &request, How::ByPolicy)
    }

    fn pop(&mut self, group: &str, poll_ms: &str) -> Processed {
        let fields = [
            ("consumerGroup", group),
            ("topic", "t"),
            ("queueId", "0"),
            ("maxMsgNums", "8"),
            ("invisibleTime", "60000"),
            ("pollTime", poll_ms),
            ("bornTime", "0"),
            ("initMode", "0"),
        ];
        self.process(codes::POP_MESSAGE, &fields)
    }
}

#[test]
fn what_is_popped_and_acknowledged_is_behind_the_offset() {
    let mut popping = Popping::new();
    popping.around.append("t", 0, b"one");
    assert_eq!(popping.pop("g", "0"), Ok(()));
    let (code, _, answer) = popping.around.answer();
    assert_eq!(code, codes::SUCCESS);
    assert!(!answer.body.is_empty());
    assert_eq!(popping.pops.shards().sum_open(), 1);
    let (time, queue) = (&answer.ext["popTime"], &answer.ext["reviveQid"]);
    let handle = format!("0 {time} 60000 {queue} 0 broker-a 0 0");
    let ack = [
        ("consumerGroup", "g"),
        ("topic", "t"),
        ("queueId", "0"),
        ("extraInfo", handle.as_str()),
        ("offset", "0"),
    ];
    assert_eq!(popping.process(codes::ACK_MESSAGE, &ack), Ok(()));
    assert_eq!(popping.around.answer().0, codes::SUCCESS);
    assert_eq!(popping.pops.shards().sum_open(), 0);
    assert_eq!(popping.around.offsets.find("g", "t", 0), Some(1));
}

#[test]
fn a_held_pop_is_woken_by_what_comes() {
    let mut popping = Popping::new();
    assert_eq!(popping.pop("g", "10000"), Ok(()));
    assert_eq!(popping.around.answers(), []);
    assert!(popping.pops.is_waited_at("t", 0));
    popping.around.append("t", 0, b"one");
    popping.pops.arrived("t", 0, &[]);
    let mut cx = popping.around.context();
    let due_ms = cx.now_ms;
    popping.pops.wake(&mut cx, due_ms);
    popping.pops.run_later(&mut cx);
    assert_eq!(popping.around.answer().0, codes::SUCCESS);
    assert!(!popping.pops.is_waited_at("t", 0));
    assert!(popping.pops.has_emptied());
}

#[test]
fn an_unknown_group_is_python_s_to_decide() {
    let mut popping = Popping::new();
    let escalation = Escalation::Group("h".to_owned());
    assert_eq!(popping.pop("h", "0"), Err(Stop::Escalate(escalation)));
    assert_eq!(popping.around.answers(), []);
}
