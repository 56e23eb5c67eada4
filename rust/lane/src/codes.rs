//! The numbers of the requests that the lane executes, and of its answers (`RequestCode`,
//! `ResponseCode`).

/// A message, header with long names.
pub const SEND_MESSAGE: i32 = 10;
/// A pull.
pub const PULL_MESSAGE: i32 = 11;
/// Where does a group go on?
pub const QUERY_CONSUMER_OFFSET: i32 = 14;
/// A group goes on there.
pub const UPDATE_CONSUMER_OFFSET: i32 = 15;
/// Which offset goes with a time?
pub const SEARCH_OFFSET_BY_TIMESTAMP: i32 = 29;
/// Where does a queue end?
pub const GET_MAX_OFFSET: i32 = 30;
/// Where does a queue begin?
pub const GET_MIN_OFFSET: i32 = 31;
/// A consumer could not work a message off.
pub const CONSUMER_SEND_MSG_BACK: i32 = 36;
/// A transaction ends.
pub const END_TRANSACTION: i32 = 37;
/// A message, header with short names.
pub const SEND_MESSAGE_V2: i32 = 310;
/// Several messages, header with short names.
pub const SEND_BATCH_MESSAGE: i32 = 320;
/// A pull of a consumer without rebalancing (5.x).
pub const LITE_PULL_MESSAGE: i32 = 361;

/// A message with a time of its own is not to be delivered (5.3.2).
pub const RECALL_MESSAGE: i32 = 370;
/// Messages of any queue, for a while (5.x).
pub const POP_MESSAGE: i32 = 200_050;
/// A popped message is worked off.
pub const ACK_MESSAGE: i32 = 200_051;
/// What could be popped now?
pub const PEEK_MESSAGE: i32 = 200_052;
/// A popped message comes back at another time.
pub const CHANGE_MESSAGE_INVISIBLE_TIME: i32 = 200_053;
/// Is there something to pop?
pub const NOTIFICATION: i32 = 200_054;
/// How many pops are held?
pub const POLLING_INFO: i32 = 200_055;
/// Several popped messages are worked off.
pub const BATCH_ACK_MESSAGE: i32 = 200_151;

/// Done.
pub const SUCCESS: i32 = 0;
/// Anything that went wrong and has no code of its own.
pub const SYSTEM_ERROR: i32 = 1;
/// Flow control: try again later.
pub const SYSTEM_BUSY: i32 = 2;
/// Stored, but the sync was not confirmed in time.
pub const FLUSH_DISK_TIMEOUT: i32 = 10;
/// Stored, but no replica is near enough.
pub const SLAVE_NOT_AVAILABLE: i32 = 11;
/// Stored, but no replica confirmed in time.
pub const FLUSH_SLAVE_TIMEOUT: i32 = 12;
/// The message cannot be stored.
pub const MESSAGE_ILLEGAL: i32 = 13;
/// Nothing can be stored now.
pub const SERVICE_NOT_AVAILABLE: i32 = 14;
/// Not permitted.
pub const NO_PERMISSION: i32 = 16;
/// No such topic.
pub const TOPIC_NOT_EXIST: i32 = 17;
/// Nothing new.
pub const PULL_NOT_FOUND: i32 = 19;
/// Nothing that matches: pull on at once.
pub const PULL_RETRY_IMMEDIATELY: i32 = 20;
/// The offset is not in the queue: go on at another one.
pub const PULL_OFFSET_MOVED: i32 = 21;
/// There is no answer to the question.
pub const QUERY_NOT_FOUND: i32 = 22;
/// The subscription cannot be read.
pub const SUBSCRIPTION_PARSE_FAILED: i32 = 23;
/// The group does not subscribe that.
pub const SUBSCRIPTION_NOT_EXIST: i32 = 24;
/// The subscription is older than the request.
pub const SUBSCRIPTION_NOT_LATEST: i32 = 25;
/// No such subscription group.
pub const SUBSCRIPTION_GROUP_NOT_EXIST: i32 = 26;
/// The group has registered no expression for the topic.
pub const FILTER_DATA_NOT_EXIST: i32 = 27;
/// The registered expression is older than the request.
pub const FILTER_DATA_NOT_LATEST: i32 = 28;
/// An argument that cannot be (5.x).
pub const INVALID_PARAMETER: i32 = 29;
/// There is no such message (5.x).
pub const NO_MESSAGE: i32 = 208;
/// Too many pops are held (5.x).
pub const POLLING_FULL: i32 = 209;
/// Nothing came while the pop was held (5.x).
pub const POLLING_TIMEOUT: i32 = 210;
/// Not allowed as things stand (5.x).
pub const ILLEGAL_OPERATION: i32 = 604;

/// What official remarks end with (`FAQUrl.suggestTodo`).
pub const SEE_FAQ: &str = "\nSee http://rocketmq.apache.org/docs/faq/ for further details.";
/// The remark of a refusal because something is full.
pub const OVERLOAD: &str = "[OVERLOAD]system busy, start flow control for a while";
