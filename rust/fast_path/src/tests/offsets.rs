//! The processor of offsets: commits, resets, bounds of queues, and what it refuses.

use mqcore_engine::config::FlushDiskType;

use super::{Surroundings, command, request};
use crate::codes;
use crate::offset_processor::OffsetProcessor;
use crate::stop::{Escalation, How, Processed, Stop};

struct Offsets {
    around: Surroundings,
    processor: OffsetProcessor,
    how: How,
    /// Queues whose pops were released.
    released: Vec<(String, String, i32)>,
}

impl Offsets {
    fn new() -> Self {
        let around = Surroundings::new(FlushDiskType::Async);
        Self {
            processor: OffsetProcessor::new(around.offsets.clone()),
            how: How::ByPolicy,
            released: Vec::new(),
            around,
        }
    }

    fn process(&mut self, code: i32, fields: &[(&str, &str)]) -> Processed {
        let command = command(code, fields, b"");
        let request = request(self.around.client, &command);
        let mut cx = self.around.context();
        let released = &mut self.released;
        let how = self.how;
        self.processor
            .process(&mut cx, &request, how, |_cx, group, topic, queue_id| {
                released.push((group.to_owned(), topic.to_owned(), queue_id));
            })
    }

    /// Code, remark and offset of the answer to a request that is answered at once.
    fn ask(&mut self, code: i32, fields: &[(&str, &str)]) -> (i32, String, Option<String>) {
        assert_eq!(self.process(code, fields), Ok(()));
        let (code, remark, answer) = self.around.answer();
        (code, remark, answer.ext.get("offset").cloned())
    }
}

const QUEUE: [(&str, &str); 3] = [("consumerGroup", "g"), ("topic", "t"), ("queueId", "0")];

fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    QUEUE.iter().chain(more).copied().collect()
}

#[test]
fn what_is_committed_is_found_and_a_reset_goes_before_it() {
    let mut offsets = Offsets::new();
    let unknown = with(&[("setZeroIfNotFound", "false")]);
    let (code, remark, _) = offsets.ask(codes::QUERY_CONSUMER_OFFSET, &unknown);
    assert_eq!(code, codes::QUERY_NOT_FOUND, "{remark}");
    let seven = with(&[("commitOffset", "7")]);
    let done = offsets.ask(codes::UPDATE_CONSUMER_OFFSET, &seven);
    assert_eq!(done, (codes::SUCCESS, String::new(), None));
    let found = offsets.ask(codes::QUERY_CONSUMER_OFFSET, &QUEUE);
    assert_eq!(found.2.as_deref(), Some("7"));
    assert!(offsets.around.offsets.reset("g", "t", 0, 3));
    let dropped = offsets.ask(codes::UPDATE_CONSUMER_OFFSET, &seven);
    assert_eq!(dropped.1, "Offset has been previously reset");
    let found = offsets.ask(codes::QUERY_CONSUMER_OFFSET, &QUEUE);
    assert_eq!(found.2.as_deref(), Some("3"));
    // Pops of a queue are released where its offset was committed, and not where it was dropped.
    let released = [("g".to_owned(), "t".to_owned(), 0)];
    assert_eq!(offsets.released, released);
}

#[test]
fn a_queue_is_asked_for_its_bounds_and_by_time() {
    let mut offsets = Offsets::new();
    offsets.around.append("t", 0, b"one");
    offsets.around.append("t", 0, b"two");
    let bounds = [codes::GET_MIN_OFFSET, codes::GET_MAX_OFFSET];
    let bounds = bounds.map(|code| offsets.ask(code, &QUEUE).2.unwrap());
    assert_eq!(bounds, ["0", "2"]);
    let nowhere = [("topic", "t"), ("queueId", "3"), ("timestamp", "1")];
    let found = offsets.ask(codes::SEARCH_OFFSET_BY_TIMESTAMP, &nowhere);
    assert_eq!(found.2.as_deref(), Some("0"), "a queue without messages");
}

#[test]
fn what_is_missing_is_refused() {
    let mut offsets = Offsets::new();
    let nameless = [
        ("consumerGroup", " "),
        ("topic", "t"),
        ("queueId", "0"),
        ("commitOffset", "1"),
    ];
    for (fields, why) in [
        (&QUEUE[..], "the custom field <commitOffset> is null"),
        (&nameless[..], "one is empty"),
    ] {
        let refused = offsets.ask(codes::UPDATE_CONSUMER_OFFSET, fields);
        assert_eq!(refused.0, codes::SYSTEM_ERROR);
        assert!(refused.1.ends_with(why), "{}", refused.1);
    }
    let headless = offsets.process(codes::UPDATE_CONSUMER_OFFSET, &[]);
    assert!(matches!(headless, Err(Stop::BadHeader(_))), "{headless:?}");
    let other = offsets.process(codes::SEND_MESSAGE, &QUEUE);
    assert_eq!(other, Err(Stop::Escalate(Escalation::Code)));
}

#[test]
fn what_is_asked_about_a_topic_that_needs_a_look_is_handed_over() {
    let mut offsets = Offsets::new();
    let topics = &mut offsets.around.policy.topics;
    topics.get_mut("t").unwrap().needs_check = true;
    let asked = with(&[("commitOffset", "7"), ("timestamp", "1")]);
    for code in [
        codes::QUERY_CONSUMER_OFFSET,
        codes::UPDATE_CONSUMER_OFFSET,
        codes::GET_MAX_OFFSET,
        codes::GET_MIN_OFFSET,
        codes::SEARCH_OFFSET_BY_TIMESTAMP,
    ] {
        offsets.how = How::ByPolicy;
        let handed = offsets.process(code, &asked);
        assert_eq!(handed, Err(Stop::Escalate(Escalation::Check)), "{code}");
        offsets.how = How::Decided;
        assert_eq!(offsets.process(code, &asked), Ok(()), "{code}");
    }
}
