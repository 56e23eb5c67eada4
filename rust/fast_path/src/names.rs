//! Names of topics: those with a meaning, which a client may not send to, and how remarks show one
//! (`TopicValidator`, `MixAll`).

use crate::policy::Topic;
use crate::refusals::{self, Refused};

/// Longest topic that a client may name.
const TOPIC_LEN_MAX: usize = 127;
/// The topic of delayed messages.
pub(crate) const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// The topic of messages that wait for a time of their own.
pub(crate) const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// The queue of the wheel's topic: it has one.
pub(crate) const TIMER_QUEUE: i32 = 0;
/// The topic of half messages.
pub(crate) const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// The topic of op messages: that half messages are ended.
pub(crate) const OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// The topic of half messages that nobody ended.
pub(crate) const CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// What the topics of retries begin with.
pub(crate) const RETRY_PREFIX: &str = "%RETRY%";
/// What the topics of dead letters begin with.
pub(crate) const DEAD_LETTER_PREFIX: &str = "%DLQ%";
/// Topics that clients may not send to (`TopicValidator`).
const NOT_ALLOWED: [&str; 6] = [
    SCHEDULE_TOPIC,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];

/// Refuses the name of a topic that a client may not send to (`TopicValidator`).
pub(crate) fn check_name(topic: &str) -> Result<(), Refused> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"%|-_".contains(&byte);
    if topic.trim().is_empty() {
        Err(refusals::topic_blank())
    } else if !topic.bytes().all(is_legal) {
        Err(refusals::topic_illegal())
    } else if topic.len() > TOPIC_LEN_MAX {
        Err(refusals::topic_too_long())
    } else if NOT_ALLOWED.contains(&topic) {
        Err(refusals::topic_reserved(topic))
    } else {
        Ok(())
    }
}

/// A topic as official remarks show it (`TopicConfig.toString`).
pub(crate) fn spelled(name: &str, topic: Topic) -> String {
    let kind = if topic.has_multi_tags {
        "MULTI_TAG"
    } else {
        "SINGLE_TAG"
    };
    format!(
        "TopicConfig [topicName={name}, readQueueNums={}, writeQueueNums={}, perm={}, \
         topicFilterType={kind}, topicSysFlag={}, order={}]",
        topic.read_queues,
        topic.write_queues,
        topic.perm.spelled(),
        topic.sys_flag,
        topic.is_ordered,
    )
}
