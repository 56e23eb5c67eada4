//! The numbers of the requests that the fast path executes, and of its answers (`RequestCode`,
//! `ResponseCode`).

/// Declares the requests that the fast path executes: a constant each, their list, and a test.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        $($(#[$doc])* pub const $name: i32 = $number;)*

        /// The requests that are executed here, by official name. Python compares them with its
        /// table of request codes when a broker starts.
        pub const REQUESTS: &[(&str, i32)] = &[$((stringify!($name), $name)),*];

        /// Whether a request is executed here.
        #[must_use]
        pub const fn is_executed(code: i32) -> bool {
            matches!(code, $($name)|*)
        }
    };
}

requests! {
    /// A message, header with long names.
    SEND_MESSAGE = 10,
    /// A pull.
    PULL_MESSAGE = 11,
    /// Where does a group go on?
    QUERY_CONSUMER_OFFSET = 14,
    /// A group goes on there.
    UPDATE_CONSUMER_OFFSET = 15,
    /// Which offset goes with a time?
    SEARCH_OFFSET_BY_TIMESTAMP = 29,
    /// Where does a queue end?
    GET_MAX_OFFSET = 30,
    /// Where does a queue begin?
    GET_MIN_OFFSET = 31,
    /// A consumer could not work a message off.
    CONSUMER_SEND_MSG_BACK = 36,
    /// A transaction ends.
    END_TRANSACTION = 37,
    /// A message, header with short names.
    SEND_MESSAGE_V2 = 310,
    /// Several messages, header with short names.
    SEND_BATCH_MESSAGE = 320,
    /// A pull of a consumer without rebalancing (5.x).
    LITE_PULL_MESSAGE = 361,
    /// A message with a time of its own is not to be delivered (5.3.2).
    RECALL_MESSAGE = 370,
    /// Messages of any queue, for a while (5.x).
    POP_MESSAGE = 200_050,
    /// A popped message is worked off.
    ACK_MESSAGE = 200_051,
    /// What could be popped now?
    PEEK_MESSAGE = 200_052,
    /// A popped message comes back at another time.
    CHANGE_MESSAGE_INVISIBLETIME = 200_053,
    /// Is there something to pop?
    NOTIFICATION = 200_054,
    /// How many pops are held?
    POLLING_INFO = 200_055,
    /// Several popped messages are worked off.
    BATCH_ACK_MESSAGE = 200_151,
}

/// Whether a request changes what the master alone may change, or asks for what it knows first: it
/// goes to the master while another broker is that.
#[must_use]
pub const fn is_for_master(code: i32) -> bool {
    matches!(
        code,
        SEND_MESSAGE
            | SEND_MESSAGE_V2
            | SEND_BATCH_MESSAGE
            | CONSUMER_SEND_MSG_BACK
            | END_TRANSACTION
            | RECALL_MESSAGE
            | QUERY_CONSUMER_OFFSET
            | UPDATE_CONSUMER_OFFSET
            | POP_MESSAGE
            | ACK_MESSAGE
            | BATCH_ACK_MESSAGE
            | CHANGE_MESSAGE_INVISIBLETIME
    )
}

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
/// Try again a little later: Java's consumers wait 20 ms (5.x).
pub const FLOW_CONTROL: i32 = 215;
/// There is no such message (5.x).
pub const NO_MESSAGE: i32 = 208;
/// Too many pops are held (5.x).
pub const POLLING_FULL: i32 = 209;
/// Nothing came while the pop was held (5.x).
pub const POLLING_TIMEOUT: i32 = 210;
/// Not allowed in the present state (5.x).
pub const ILLEGAL_OPERATION: i32 = 604;

/// What official remarks end with (`FAQUrl.suggestTodo`).
pub const SEE_FAQ: &str = "\nSee http://rocketmq.apache.org/docs/faq/ for further details.";
/// The remark of a refusal because something is full.
pub const OVERLOAD: &str = "[OVERLOAD]system busy, start flow control for a while";
