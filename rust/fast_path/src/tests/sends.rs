//! The processor of sends: stored and answered, parked, deferred, escalated to Python, refused.

use std::sync::Arc;

use mqcore_engine::config::FlushDiskType;

use super::{Surroundings, command, request};
use crate::codes;
use crate::half_counts::Counts;
use crate::send::{RepeatedSends, SendProcessor};
use crate::stop::{Escalation, How, Processed, Stop};

struct Sends {
    around: Surroundings,
    processor: SendProcessor,
    counts: Arc<Counts>,
}

impl Sends {
    fn new(flush: FlushDiskType) -> Self {
        let counts = Arc::new(Counts::default());
        Self {
            around: Surroundings::new(flush),
            processor: SendProcessor::new(RepeatedSends::default(), Arc::clone(&counts)),
            counts,
        }
    }

    fn send(&mut self, topic: &str, properties: &str, how: How) -> Processed {
        let fields = [
            ("b", topic),
            ("e", "0"),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", properties),
        ];
        let command = command(codes::SEND_MESSAGE_V2, &fields, b"body");
        let request = request(self.around.client, &command);
        let (mut cx, delivery) = self.around.split();
        self.processor.process(&mut cx, delivery, &request, how)
    }
}

#[test]
fn a_send_is_stored_and_answered_with_its_offsets() {
    let mut sends = Sends::new(FlushDiskType::Async);
    for at in ["0", "1"] {
        assert_eq!(sends.send("t", "", How::ByPolicy), Ok(()));
        let (code, _, answer) = sends.around.answer();
        assert_eq!(
            (code, answer.ext["queueOffset"].as_str()),
            (codes::SUCCESS, at)
        );
    }
    assert_eq!(sends.around.connections.stats.sends, 2);
}

#[test]
fn under_synchronous_flush_the_answer_waits_for_the_watermark() {
    let mut sends = Sends::new(FlushDiskType::Sync);
    assert_eq!(sends.send("t", "", How::ByPolicy), Ok(()));
    assert_eq!(sends.around.answers(), []);
    assert_eq!(sends.around.delivery.parked(), 1);
    sends.around.store.durability().flush().unwrap();
    let (mut cx, delivery) = sends.around.split();
    delivery.answer_durable(&mut cx, &mut Vec::new());
    assert_eq!(sends.around.answer().0, codes::SUCCESS);
    assert_eq!(sends.around.delivery.parked(), 0);
}

#[test]
fn a_half_message_goes_to_its_own_topic_and_is_counted() {
    let mut sends = Sends::new(FlushDiskType::Async);
    let half = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}";
    assert_eq!(sends.send("t", half, How::ByPolicy), Ok(()));
    sends.around.dispatch();
    let store = &sends.around.store;
    let bounds = store
        .topics()
        .bounds(b"RMQ_SYS_TRANS_HALF_TOPIC", 0)
        .unwrap();
    assert_eq!(bounds.map(|bounds| bounds.max), Some(1));
    let counts = sends.counts.all();
    assert_eq!((counts[0].0.as_str(), counts[0].1.waiting), ("t", 1));
}

#[test]
fn behind_those_that_wait_for_a_log_file_a_send_waits_too() {
    let mut sends = Sends::new(FlushDiskType::Async);
    sends.around.has_deferred = true;
    assert_eq!(sends.send("t", "", How::ByPolicy), Err(Stop::Defer));
    assert_eq!(sends.around.answers(), []);
}

#[test]
fn an_unknown_topic_is_python_s_to_decide_and_then_refused() {
    let mut sends = Sends::new(FlushDiskType::Async);
    let escalation = Escalation::Topic("u".to_owned());
    let escalated = sends.send("u", "", How::ByPolicy);
    assert_eq!(escalated, Err(Stop::Escalate(escalation)));
    assert_eq!(sends.send("u", "", How::Decided), Ok(()));
    let (code, remark, answer) = sends.around.answer();
    assert_eq!(code, codes::TOPIC_NOT_EXIST);
    assert!(remark.starts_with("topic[u] not exist"), "{remark}");
    assert!(
        answer.ext.contains_key("MSG_REGION"),
        "as every answer to a send"
    );
}
