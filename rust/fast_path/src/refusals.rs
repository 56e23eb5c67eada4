//! Every refusal of the request processors: the official codes and remarks. Where the official broker
//! has two remarks for one reason, both are here with the processor that has each. Knows no
//! request.

use std::borrow::Cow;
use std::fmt::Display;

use mqcore_access::Refusal;
use mqcore_engine::error::Error;
use mqcore_engine::status::PutStatus;
use mqcore_record::RecordError;
use mqcore_record::properties::CHECK_IMMUNITY_TIME_IN_SECONDS;

use crate::codes;
use crate::codes::SEE_FAQ;
use crate::policy::{self, Timing, Topic};
use crate::properties::DELAY;
use crate::requests::BadField;

/// Messages of one pop at the most (`PopMessageProcessor`).
pub(crate) const POP_COUNT_MAX: i32 = 32;

/// A refusal: response code and remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: i32,
    pub(crate) remark: Cow<'static, str>,
}

fn refused(code: i32, remark: impl Into<Cow<'static, str>>) -> Refused {
    Refused {
        code,
        remark: remark.into(),
    }
}

fn error(remark: impl Into<Cow<'static, str>>) -> Refused {
    refused(codes::SYSTEM_ERROR, remark)
}

fn forbidden(remark: impl Into<Cow<'static, str>>) -> Refused {
    refused(codes::NO_PERMISSION, remark)
}

// Of any request.

/// Flow control: something is full.
pub(crate) fn overload() -> Refused {
    refused(codes::SYSTEM_BUSY, codes::OVERLOAD)
}

/// Decided by Python.
pub(crate) fn decided(refusal: &policy::Refusal) -> Refused {
    refused(refusal.code, refusal.remark.clone())
}

/// Access control refuses.
pub(crate) fn not_permitted(refusal: &Refusal) -> Refused {
    refused(refusal.reason.code(), refusal.to_string())
}

/// A header field that is missing or of another type.
pub(crate) fn bad_header(bad: &BadField) -> Refused {
    error(bad.to_string())
}

/// A header field that is needed here and optional elsewhere.
pub(crate) fn no_field(name: &str) -> Refused {
    error(format!("the custom field <{name}> is null"))
}

/// Anything that failed, in its own words.
pub(crate) fn failed(why: &impl Display) -> Refused {
    error(why.to_string())
}

/// A topic that is not there, as `PullMessageProcessor` and the processors of pops refuse it.
pub(crate) fn no_topic(topic: &str) -> Refused {
    let remark = format!("topic[{topic}] not exist, apply first please! {SEE_FAQ}");
    refused(codes::TOPIC_NOT_EXIST, remark)
}

/// A topic that is not there, as `AbstractSendMessageProcessor.msgCheck` refuses it: without the
/// blank.
pub(crate) fn no_topic_to_send(topic: &str) -> Refused {
    let remark = format!("topic[{topic}] not exist, apply first please!{SEE_FAQ}");
    refused(codes::TOPIC_NOT_EXIST, remark)
}

/// A retry or dead letter topic that is not there: to its group this is an error of the broker
/// (`SendMessageProcessor.handleRetryAndDLQ`, `consumerSendMsgBack`).
pub(crate) fn no_retry_topic(topic: &str) -> Refused {
    error(format!("topic[{topic}] not exist"))
}

/// A group that is not there, as `PullMessageProcessor` and the processors of pops refuse it.
pub(crate) fn no_group(group: &str) -> Refused {
    let remark = format!("subscription group [{group}] does not exist, {SEE_FAQ}");
    refused(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
}

/// A group that is not there, as `SendMessageProcessor` refuses it.
pub(crate) fn no_group_to_send(group: &str) -> Refused {
    let remark = format!("subscription group not exist, {group} {SEE_FAQ}");
    refused(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark)
}

// Of what stores a message.

/// The broker takes no messages before a time.
pub(crate) fn not_yet(from_ms: i64) -> Refused {
    error(format!(
        "broker unable to service, until {from_ms} (Unix ms)"
    ))
}

pub(crate) fn broker_not_writable(address: &str) -> Refused {
    forbidden(format!(
        "the broker[{address}] sending message is forbidden"
    ))
}

pub(crate) fn topic_not_writable(topic: &str) -> Refused {
    forbidden(format!("the topic[{topic}] sending message is forbidden"))
}

pub(crate) fn transactions_forbidden(address: &str) -> Refused {
    forbidden(format!(
        "the broker[{address}] sending transaction message is forbidden"
    ))
}

/// The name of a topic is empty (`TopicValidator`, as the next three).
pub(crate) fn topic_blank() -> Refused {
    error("The specified topic is blank.")
}

/// The name of a topic has other characters than it may.
pub(crate) fn topic_illegal() -> Refused {
    error("The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")
}

/// The name of a topic is too long.
pub(crate) fn topic_too_long() -> Refused {
    error("The specified topic is longer than topic max length.")
}

pub(crate) fn topic_reserved(topic: &str) -> Refused {
    forbidden(format!("Sending message to topic[{topic}] is forbidden."))
}

/// A queue that the topic does not have; `shown` is the topic as official remarks show it.
pub(crate) fn no_queue_to_send(queue_id: i32, shown: &str, peer: &str) -> Refused {
    error(format!(
        "request queueId[{queue_id}] is illegal, {shown} Producer: {peer}"
    ))
}

/// A send that waited too long for the next log file (`BrokerFastFailure`).
pub(crate) fn waited_too_long(waited_ms: u64, waiting: usize) -> Refused {
    let why = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue";
    let remark = format!("{why}: {waited_ms}ms, size of queue: {waiting}");
    refused(codes::SYSTEM_BUSY, remark)
}

/// A batch, or a message of one, that cannot be read.
pub(crate) fn bad_batch(bad: RecordError) -> Refused {
    refused(codes::MESSAGE_ILLEGAL, bad.to_string())
}

pub(crate) fn batch_too_long(count_max: usize) -> Refused {
    let remark = format!("a batch of more than {count_max} messages");
    refused(codes::MESSAGE_ILLEGAL, remark)
}

pub(crate) fn batch_empty() -> Refused {
    refused(codes::MESSAGE_ILLEGAL, "a batch without messages")
}

pub(crate) fn bad_delay(text: &[u8]) -> Refused {
    let text = String::from_utf8_lossy(text);
    error(format!("the property {DELAY} is no number: {text:?}"))
}

/// Messages with a time of their own are not taken (`HookUtils`, as the next two).
pub(crate) fn timers_off() -> Refused {
    error("accurate timer message is not enabled, timerWheelEnable is false")
}

/// A time that is too far ahead, or has passed where it may not.
pub(crate) fn bad_time(timing: &Timing) -> Refused {
    let remark = format!(
        "timer message illegal, the delay time should not be bigger than the max delay {}ms; \
         or if set del msg, the delay time should be bigger than the current time",
        timing.max_delay_ms
    );
    refused(codes::MESSAGE_ILLEGAL, remark)
}

pub(crate) fn step_full(limit: i64) -> Refused {
    let twice = limit * 2;
    error(format!(
        "timer message is under flow control, max num limit is {twice} or the current value \
         is greater than {limit} and less than {twice}, trigger random flow control"
    ))
}

pub(crate) fn not_stored(why: &Error, message_bytes_max: u64) -> Refused {
    of_status(PutStatus::of(why), &why.to_string(), message_bytes_max)
}

pub(crate) fn illegal(message_bytes_max: u64) -> Refused {
    of_status(PutStatus::MessageIllegal, "", message_bytes_max)
}

/// A status of the store as code and remark (`handlePutMessageResult`).
pub(crate) fn of_status(status: PutStatus, why: &str, message_bytes_max: u64) -> Refused {
    match status {
        PutStatus::CreateMappedFileFailed => error(format!(
            "create mapped file failed, server is busy or broken. {why}"
        )),
        PutStatus::MessageIllegal | PutStatus::PropertiesSizeExceeded => {
            let remark = format!(
                "the message is illegal, maybe msg body or properties length not matched. msg \
                 body length limit {message_bytes_max}B, msg properties length limit 32KB. {why}"
            );
            refused(codes::MESSAGE_ILLEGAL, remark.trim_end().to_owned())
        }
        PutStatus::ServiceNotAvailable => {
            let remark = format!("service not available now: {why}");
            refused(codes::SERVICE_NOT_AVAILABLE, remark)
        }
        PutStatus::OsPageCacheBusy => {
            error("[PC_SYNCHRONIZED]broker busy, start flow control for a while")
        }
        PutStatus::InSyncReplicasNotEnough => error("in-sync replicas not enough"),
        PutStatus::UnknownError
        | PutStatus::PutOk
        | PutStatus::FlushDiskTimeout
        | PutStatus::FlushSlaveTimeout
        | PutStatus::SlaveNotAvailable => error(format!("{status}: {why}")),
    }
}

/// Nothing is stored, and the remark is the status alone (`CONSUMER_SEND_MSG_BACK`).
pub(crate) fn by_status(status: PutStatus) -> Refused {
    error(status.name())
}

/// A message that is sent back and not there.
pub(crate) fn no_message_to_send_back(physical_offset: i64) -> Refused {
    error(format!("look message by offset failed, {physical_offset}"))
}

/// The topic for a message that is sent back is still to be made.
pub(crate) fn retry_topic_not_yet() -> Refused {
    error("the topic for it is not there yet")
}

// Of recalls (`RecallMessageProcessor`).

pub(crate) fn recall_forbidden() -> Refused {
    forbidden("recall failed, operation is forbidden")
}

pub(crate) fn recall_unavailable() -> Refused {
    let remark = "recall failed, broker service not available";
    refused(codes::SERVICE_NOT_AVAILABLE, remark)
}

pub(crate) fn recall_no_topic(topic: &str) -> Refused {
    let remark = format!("recall failed, the topic[{topic}] not exist");
    refused(codes::TOPIC_NOT_EXIST, remark)
}

/// The handle is none, or none of this message, broker or time.
pub(crate) fn recall_illegal(why: &'static str) -> Refused {
    refused(codes::ILLEGAL_OPERATION, why)
}

pub(crate) fn recall_failed() -> Refused {
    error("recall failed, execute error")
}

// Of ends of transactions (`EndTransactionProcessor`).

pub(crate) fn no_half_message() -> Refused {
    error("Find prepared transaction message failed")
}

pub(crate) fn other_producer_group() -> Refused {
    error("The producer group wrong")
}

pub(crate) fn other_half_offset() -> Refused {
    error("The transaction state table offset wrong")
}

pub(crate) fn other_log_offset() -> Refused {
    error("The commit log offset wrong")
}

/// The end comes later than its message lets it.
pub(crate) fn ended_too_late(age_ms: i64, limit_ms: i64) -> Refused {
    let remark = format!(
        "the transaction is {age_ms} ms old, and its message lets only {limit_ms} ms \
         pass ({CHECK_IMMUNITY_TIME_IN_SECONDS}): wait for the check"
    );
    refused(codes::ILLEGAL_OPERATION, remark)
}

pub(crate) fn ended_otherwise(was: &str) -> Refused {
    error(format!(
        "the transaction was {was} before: that cannot be taken back"
    ))
}

/// A half message of a batch that cannot be read.
pub(crate) fn bad_half_batch(why: String) -> Refused {
    refused(codes::MESSAGE_ILLEGAL, why)
}

// Of pulls, and of whatever reads for a group.

/// The broker is not readable. `doing`: the officials name what the request does.
pub(crate) fn broker_not_readable(address: &str, doing: &str) -> Refused {
    forbidden(format!(
        "the broker[{address}] {doing} message is forbidden"
    ))
}

pub(crate) fn topic_not_readable(topic: &str, doing: &str) -> Refused {
    forbidden(format!("the topic[{topic}] {doing} message is forbidden"))
}

pub(crate) fn group_not_enabled(group: &str) -> Refused {
    forbidden(format!("subscription group no permission, {group}"))
}

/// A queue that the topic does not have. The code differs: `PullMessageProcessor` has
/// SYSTEM_ERROR, the pop INVALID_PARAMETER, the acknowledgement MESSAGE_ILLEGAL.
pub(crate) fn no_queue_to_read(
    code: i32,
    topic: (&str, Topic),
    queue_id: i32,
    peer: &str,
) -> Refused {
    let (topic, known) = topic;
    let remark = format!(
        "queueId[{queue_id}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{}] \
         consumer:[/{peer}]",
        known.read_queues
    );
    refused(code, remark)
}

pub(crate) fn not_read(why: &Error) -> Refused {
    error(format!("store getMessage failed: {why}"))
}

pub(crate) fn too_many_held(max: usize, whose: &str) -> Refused {
    let remark = format!("{}: {max} pulls {whose} wait already", codes::OVERLOAD);
    refused(codes::SYSTEM_BUSY, remark)
}

const UNREADABLE: &str = "parse the consumer's subscription failed";

// Of message filters.

pub(crate) fn bad_subscription() -> Refused {
    refused(codes::SUBSCRIPTION_PARSE_FAILED, UNREADABLE)
}

/// The same, and why.
pub(crate) fn bad_expression(why: &impl Display) -> Refused {
    let remark = format!("{UNREADABLE}: {why}");
    refused(codes::SUBSCRIPTION_PARSE_FAILED, remark)
}

pub(crate) fn unknown_expression(kind: &str) -> Refused {
    bad_expression(&format_args!("no expressions of kind {kind:?} are known"))
}

pub(crate) fn no_members() -> Refused {
    let remark = format!("the consumer's group info not exist{SEE_FAQ}");
    refused(codes::SUBSCRIPTION_NOT_EXIST, remark)
}

pub(crate) fn broadcast_forbidden(group: &str) -> Refused {
    forbidden(format!(
        "the consumer group[{group}] can not consume by broadcast way"
    ))
}

pub(crate) fn no_subscription() -> Refused {
    let remark = format!("the consumer's subscription not exist{SEE_FAQ}");
    refused(codes::SUBSCRIPTION_NOT_EXIST, remark)
}

pub(crate) fn old_subscription() -> Refused {
    let remark = "the consumer's subscription not latest";
    refused(codes::SUBSCRIPTION_NOT_LATEST, remark)
}

pub(crate) fn no_filter() -> Refused {
    let remark = "The broker's consumer filter data is not exist!Your expression may be wrong!";
    refused(codes::FILTER_DATA_NOT_EXIST, remark)
}

pub(crate) fn old_filter() -> Refused {
    let remark = "the consumer's consumer filter data not latest";
    refused(codes::FILTER_DATA_NOT_LATEST, remark)
}

pub(crate) fn filters_off(kind: &str) -> Refused {
    error(format!(
        "The broker does not support consumer to filter message by {kind}"
    ))
}

// Of offsets.

/// The group was never in the queue (`ConsumerManageProcessor`).
pub(crate) fn no_offset() -> Refused {
    let remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
    refused(codes::QUERY_NOT_FOUND, remark)
}

pub(crate) fn offset_nameless() -> Refused {
    error("an offset needs the names of a group and of a topic: one is empty")
}

/// A bound on offsets was met.
pub(crate) fn offset_not_kept() -> Refused {
    error("this queue is none, or too many offsets are kept")
}

// Of pops, acknowledgements and changes of the invisible time.

/// A pop that comes later than it may be held.
pub(crate) fn pop_too_late(address: &str) -> Refused {
    let remark = format!("the broker[{address}] pop message is timeout too much");
    refused(codes::POLLING_TIMEOUT, remark)
}

pub(crate) fn pop_too_many(address: &str) -> Refused {
    let remark = format!("the broker[{address}] pop message's num is greater than {POP_COUNT_MAX}");
    refused(codes::INVALID_PARAMETER, remark)
}

pub(crate) fn pop_without_timers(address: &str) -> Refused {
    error(format!(
        "the broker[{address}] pop message is forbidden because timerWheelEnable is false"
    ))
}

/// Messages may not be invisible for so long. The official broker gives them and can never store
/// their check point.
pub(crate) fn invisible_too_long(address: &str, max_ms: i64) -> Refused {
    let remark =
        format!("the broker[{address}] pop message's invisible time is greater than {max_ms} ms");
    refused(codes::INVALID_PARAMETER, remark)
}

/// An offset that the queue does not have.
pub(crate) fn no_message(queue: (&str, i32), offset: i64, (min, max): (i64, i64)) -> Refused {
    let (topic, queue_id) = queue;
    let remark =
        format!("offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{min}~{max}");
    refused(codes::NO_MESSAGE, remark)
}

/// An offset that was not popped in order.
pub(crate) fn not_popped(queue: (&str, &str, i32), old: i64, offset: i64, peer: &str) -> Refused {
    let (topic, group, queue_id) = queue;
    let remark = format!(
        "offset is illegal, key:{topic}@{group}@{queue_id}, old:{old}, \
         commit:{offset}, next:-1, /{peer}"
    );
    refused(codes::MESSAGE_ILLEGAL, remark)
}

/// A handle, or a body of acknowledgements, that cannot be read.
pub(crate) fn bad_handle(why: String) -> Refused {
    error(why)
}

/// A handle of a queue of check points that is not there.
pub(crate) fn no_revive_queue(queue_id: i32, queues: i32) -> Refused {
    error(format!("the handle names queue {queue_id} of {queues}"))
}

pub(crate) fn point_too_far(ahead_ms: i64) -> Refused {
    let remark = format!("a time {ahead_ms}ms ahead is beyond timerMaxDelaySec");
    refused(codes::MESSAGE_ILLEGAL, remark)
}

pub(crate) fn point_not_stored(why: &Error) -> Refused {
    error(format!("a check point cannot be stored: {why}"))
}
