//! The processor of ends of transactions, next to the one of sends that makes its half messages.

use std::sync::Arc;

use mqcore_engine::config::FlushDiskType;

use super::{Surroundings, command, request};
use crate::codes;
use crate::half_counts::{Count, Counts};
use crate::send::{RepeatedSends, SendProcessor};
use crate::stop::How;
use crate::transactions::EndTransactionProcessor;

const COMMIT: &str = "8";
const ROLLBACK: &str = "12";

struct Transactions {
    around: Surroundings,
    processor: EndTransactionProcessor,
    counts: Arc<Counts>,
    /// Physical offset of the half message.
    half: String,
}

impl Transactions {
    /// With one half message.
    fn new() -> Self {
        let counts = Arc::new(Counts::default());
        let mut around = Surroundings::new(FlushDiskType::Async);
        let half = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}";
        let fields = [
            ("b", "t"),
            ("e", "2"),
            ("f", "4"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", half),
        ];
        let command = command(codes::SEND_MESSAGE_V2, &fields, b"body");
        let request = request(around.client, &command);
        let (mut cx, delivery) = around.split();
        let mut sends = SendProcessor::new(RepeatedSends::default(), Arc::clone(&counts));
        let sent = sends.process(&mut cx, delivery, &request, How::ByPolicy);
        assert_eq!(sent, Ok(()));
        around.dispatch();
        let (_, _, answer) = around.answer();
        let physical_offset = u64::from_str_radix(&answer.ext["msgId"][16..], 16).unwrap();
        Self {
            around,
            processor: EndTransactionProcessor::new(Arc::default(), Arc::clone(&counts)),
            counts,
            half: physical_offset.to_string(),
        }
    }

    fn end(&mut self, group: &str, state: &str) -> (i32, String) {
        let half = self.half.clone();
        let fields = [
            ("producerGroup", group),
            ("tranStateTableOffset", "0"),
            ("commitLogOffset", &half),
            ("commitOrRollback", state),
        ];
        let command = command(codes::END_TRANSACTION, &fields, b"");
        let request = request(self.around.client, &command);
        let (mut cx, delivery) = self.around.split();
        let ended = self.processor.process(&mut cx, delivery, &request);
        assert_eq!(ended, Ok(()));
        self.around.dispatch();
        let (code, remark, _) = self.around.answer();
        (code, remark)
    }

    fn stored(&self) -> u64 {
        let bounds = self.around.store.topics().bounds(b"t", 2).unwrap();
        bounds.map_or(0, |bounds| bounds.max)
    }

    fn count(&self) -> Count {
        self.counts.all()[0].1
    }
}

#[test]
fn a_commit_stores_the_message_once() {
    let mut ended = Transactions::new();
    assert_eq!((ended.stored(), ended.count().waiting), (0, 1));
    assert_eq!(ended.end("p", COMMIT), (codes::SUCCESS, String::new()));
    assert_eq!((ended.stored(), ended.count().committed), (1, 1));
    let (code, remark) = ended.end("p", COMMIT);
    assert_eq!(code, codes::SUCCESS);
    assert_eq!(remark, "the transaction was committed before");
    assert_eq!(ended.end("p", ROLLBACK).0, codes::SYSTEM_ERROR);
    assert_eq!((ended.stored(), ended.count().waiting), (1, 0));
}

#[test]
fn a_rollback_stores_nothing() {
    let mut ended = Transactions::new();
    assert_eq!(ended.end("p", ROLLBACK), (codes::SUCCESS, String::new()));
    assert_eq!((ended.stored(), ended.count().rolled_back), (0, 1));
}

#[test]
fn who_is_not_its_producer_ends_nothing() {
    let mut ended = Transactions::new();
    let refused = ended.end("q", COMMIT);
    let why = "The producer group wrong".to_owned();
    assert_eq!(refused, (codes::SYSTEM_ERROR, why));
    ended.half = "1".to_owned();
    assert_eq!(ended.end("p", COMMIT).0, codes::SYSTEM_ERROR);
    assert_eq!((ended.stored(), ended.count().waiting), (0, 1));
}
