//! What Python has decided, as tables that the fast path only reads: topics, groups, subscriptions, the
//! broker's own state. Each part is replaced as a whole. Knows no request and no store.

mod plain;
mod pop_rules;
mod slave;

use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_record::properties::{RETRY_TOPIC, lookup};
use mqcore_record::{Host, tags_code};

pub use self::pop_rules::PopRules;
pub use self::slave::Slave;
use crate::bits::GroupBits;
use crate::held::HoldLimits;
use crate::parked::ParkLimits;
use crate::quotas::Rules;
use crate::sql::{Meter, Sql};

/// Permission bit: consumers may read.
const PERM_READ: i32 = 4;
/// Permission bit: producers may write.
const PERM_WRITE: i32 = 2;
/// Permission bit: new topics may inherit.
const PERM_INHERIT: i32 = 1;
/// A code that no tag has: the hash of a tag is an i32. It represents an expression without tags,
/// which matches nothing.
const NO_TAGS_CODE: i64 = i64::MIN;

/// What a permission number allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Perm(pub i32);

impl Perm {
    /// Everything a client may do.
    pub const READ_WRITE: Self = Self(PERM_READ | PERM_WRITE);

    /// Whether consumers may read.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.0 & PERM_READ != 0
    }

    /// Whether producers may write.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.0 & PERM_WRITE != 0
    }

    /// The official spelling (`PermName.perm2String`).
    #[must_use]
    pub fn spelled(self) -> String {
        let letter = |bit, letter| if self.0 & bit != 0 { letter } else { '-' };
        [
            letter(PERM_READ, 'R'),
            letter(PERM_WRITE, 'W'),
            letter(PERM_INHERIT, 'X'),
        ]
        .into_iter()
        .collect()
    }
}

/// One topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    /// Its permission.
    pub perm: Perm,
    /// Queues that consumers read.
    pub read_queues: i32,
    /// Queues that producers write.
    pub write_queues: i32,
    /// Its flags (`topicSysFlag`).
    pub sys_flag: i32,
    /// Whether it is an order topic.
    pub is_ordered: bool,
    /// Whether its messages carry several tags (`topicFilterType`).
    pub has_multi_tags: bool,
    /// Whether pops read its queues by their numbers (`message.type=PRIORITY` of 5.5).
    pub has_priorities: bool,
    /// Whether Python looks at every request for it first.
    pub needs_check: bool,
}

/// One subscription group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Whether its consumers may pull.
    pub is_consume_enabled: bool,
    /// Whether they may consume by broadcast.
    pub is_broadcast_enabled: bool,
    /// Queues of its retry topic.
    pub retry_queues: i32,
    /// How often a message is tried again before it goes to the dead letters.
    pub max_retries: i32,
    /// The broker it should pull from.
    pub broker_id: i64,
    /// The broker it should pull from when it is far behind.
    pub slow_broker_id: i64,
    /// In how many of a hundred pops priorities count (`priority.factor`).
    pub priority_percent: u32,
    /// Whether Python looks at every request of it first.
    pub needs_check: bool,
}

/// Which messages a subscription names: those of tags, or those of an expression that is compiled
/// elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// By the codes of tags.
    Tags(Filter),
    /// An expression of this kind.
    Expression(Arc<str>),
}

impl Wanted {
    /// What a subscription text wants (`FilterAPI.build`); `None` when it cannot be one.
    #[must_use]
    pub fn parse(text: Option<&str>, kind: Option<&str>) -> Option<Self> {
        let text = text.unwrap_or_default();
        if let Some(kind) = kind
            && !matches!(kind, "TAG" | "")
        {
            return (!text.is_empty()).then(|| Self::Expression(kind.into()));
        }
        if text.is_empty() || text == "*" {
            return Some(Self::Tags(Filter::All));
        }
        // Java's split drops trailing empty parts and then refuses when no part is left.
        if text.split("||").all(str::is_empty) {
            return None;
        }
        let tags = text.split("||").map(str::trim).filter(|t| !t.is_empty());
        let mut codes: Vec<i64> = tags.map(|tag| tags_code(tag.as_bytes())).collect();
        if codes.is_empty() {
            codes.push(NO_TAGS_CODE);
        }
        Some(Self::Tags(Filter::Tags(codes.into())))
    }
}

/// Which messages a pull is to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All.
    All,
    /// Those whose tag has one of these codes.
    Tags(Arc<[i64]>),
    /// Those whose properties pass; with the bits that decide it beforehand, where there are some.
    Sql(Arc<Sql>, Option<Arc<GroupBits>>),
    /// Those that pass what their group wants of the topic they came from; those of other topics
    /// are given (`ExpressionForRetryMessageFilter`).
    SqlOfOrigin(Arc<Filters>),
}

impl Filter {
    /// The codes to ask the store for; empty for all.
    #[must_use]
    pub fn codes(&self) -> &[i64] {
        match self {
            Self::Tags(codes) => codes,
            Self::All | Self::Sql(..) | Self::SqlOfOrigin(_) => &[],
        }
    }

    /// Whether one of some records may be wanted, as far as their codes show; no codes are codes
    /// that nobody kept.
    #[must_use]
    pub fn may_want(&self, tags_codes: &[i64]) -> bool {
        match self {
            Self::All | Self::Sql(..) | Self::SqlOfOrigin(_) => true,
            Self::Tags(codes) => {
                tags_codes.is_empty() || tags_codes.iter().any(|code| codes.contains(code))
            }
        }
    }

    /// Whether every record is given.
    #[must_use]
    pub fn gives_all(&self) -> bool {
        self.codes().is_empty() && !self.looks_at_records()
    }

    /// Whether records have to be looked at.
    #[must_use]
    pub fn looks_at_records(&self) -> bool {
        matches!(self, Self::Sql(..) | Self::SqlOfOrigin(_))
    }

    /// The bits that messages carry which pass, where there are some.
    #[must_use]
    pub fn bits(&self) -> Option<&GroupBits> {
        match self {
            Self::Sql(_, bits) => bits.as_deref(),
            Self::All | Self::Tags(_) | Self::SqlOfOrigin(_) => None,
        }
    }

    /// Whether a message with these properties is wanted; decides nothing when the work of the
    /// meter is spent. Tags are not looked at.
    #[must_use]
    pub fn wants(&self, properties: &[u8], meter: &mut Meter) -> bool {
        let sql = match self {
            Self::All | Self::Tags(_) => None,
            Self::Sql(sql, _) => Some(&**sql),
            Self::SqlOfOrigin(filters) => {
                let origin = lookup(properties, RETRY_TOPIC);
                let origin = origin.and_then(|topic| std::str::from_utf8(topic).ok());
                origin.and_then(|topic| Some(&*filters.get(topic)?.sql))
            }
        };
        sql.is_none_or(|sql| sql.matches_within(properties, meter))
    }
}

/// What a group's members subscribe of one topic, by their heartbeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Which messages they want; `None` when the expression cannot be read.
    pub wanted: Option<Wanted>,
    /// Version of the subscription (`subVersion`).
    pub version: i64,
}

/// The expression that a group has registered for one topic (`ConsumerFilterData`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The expression.
    pub sql: Arc<Sql>,
    /// Version of the subscription that it came with (`clientVersion`).
    pub version: i64,
    /// Its bits, where they are made.
    pub bits: Option<Arc<GroupBits>>,
}

/// What a group has registered, by topic.
pub type Filters = HashMap<Box<str>, Registered>;

/// The members of a group that are online.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Whether they consume by broadcast.
    pub is_broadcasting: bool,
    /// Their subscriptions by topic.
    pub subscriptions: HashMap<Box<str>, Subscription>,
    /// Their expressions by topic.
    pub filters: Arc<Filters>,
}

/// A refusal that Python has decided on: code and remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The response code.
    pub code: i32,
    /// The remark.
    pub remark: String,
}

/// What is decided about messages with a time of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Whether they are taken (`timerWheelEnable`).
    pub is_enabled: bool,
    /// Length of a step of time, ms: that of the store.
    pub step_ms: i64,
    /// How far ahead they may be due, ms (`timerMaxDelaySec`).
    pub max_delay_ms: i64,
    /// From so many messages of one step on some are refused, from twice as many all
    /// (`timerCongestNumEachSlot`).
    pub congested_at: i32,
    /// How far the timers' clock is ahead of the wall clock, ms: for tests that let time pass.
    pub ahead_ms: i64,
    /// Whether they may be recalled (`recallMessageEnable`).
    pub is_recall_enabled: bool,
    /// Whether they may be while the broker takes no messages
    /// (`allowRecallWhenBrokerNotWriteable`).
    pub is_recall_enabled_read_only: bool,
    /// Whether a recall names the topic beside the unique key (`appendTopicForTimerDeleteKey`).
    pub is_recalled_by_topic: bool,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            is_enabled: false,
            step_ms: 1_000,
            max_delay_ms: 259_200_000,
            congested_at: i32::MAX,
            ahead_ms: 0,
            is_recall_enabled: false,
            is_recall_enabled_read_only: true,
            is_recalled_by_topic: true,
        }
    }
}

/// How transactions are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transactions {
    /// Age from which on a half message is asked about, ms (`transactionTimeOut`).
    pub timeout_ms: i64,
    /// Bytes of an op message about many ends at the most (`transactionOpMsgMaxSize`).
    pub note_bytes_max: usize,
    /// How long an end may wait to share an op message with others, ms
    /// (`transactionOpBatchInterval`).
    pub note_interval_ms: u64,
}

impl Default for Transactions {
    fn default() -> Self {
        Self {
            timeout_ms: 6_000,
            note_bytes_max: 4_096,
            note_interval_ms: 3_000,
        }
    }
}

/// The broker's own state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its name.
    pub name: String,
    /// The cluster it belongs to: a property of every message it stores.
    pub cluster: String,
    /// Its address as remarks name it (`brokerIP1`).
    pub address: String,
    /// The version it reports, as an ordinal.
    pub version: i32,
    /// Where the message ids point.
    pub store_host: Host,
    /// Its permission.
    pub perm: Perm,
    /// Its region, part of every answer to a send.
    pub region: String,
    /// Whether clients should trace, part of every answer to a send.
    pub is_traced: bool,
    /// Sends are refused before this time, Unix ms.
    pub accepts_sends_from_ms: i64,
    /// How long a send may wait for the next log file (`waitTimeMillsInSendQueue`), ms.
    pub send_wait_max_ms: u64,
    /// Set: every send is refused so.
    pub refuse_sends: Option<Refusal>,
    /// Set: every pull is refused so.
    pub refuse_pulls: Option<Refusal>,
    /// Whether Python looks at every request first.
    pub needs_check: bool,
    /// Whether requests that the master alone may execute go to Python: another broker is master, or
    /// soon is.
    pub passes_on: bool,
    /// Whether requests are timed.
    pub times_requests: bool,
    /// Whether pulls are held as long as the consumer asks.
    pub is_long_polling: bool,
    /// How long they are held otherwise, ms.
    pub short_polling_ms: u64,
    /// Whether slow consumers are sent to a replica (`slaveReadEnable`).
    pub is_replica_readable: bool,
    /// Set on a slave: how it answers pulls.
    pub slave: Option<Slave>,
    /// Whether transactions are refused.
    pub rejects_transactions: bool,
    /// How transactions are ended.
    pub transactions: Transactions,
    /// Whether an answer waits for replicas.
    pub needs_replica: bool,
    /// Messages with a time of their own.
    pub timing: Timing,
    /// Pops.
    pub pops: PopRules,
    /// How much users, topics and groups may send and read (`mqcoreQuotas`).
    pub quotas: Arc<Rules>,
    /// How many pulls may be held.
    pub held: HoldLimits,
    /// How many sends may wait for their watermark.
    pub parked: ParkLimits,
    /// Whether pulls may bring or use expressions (`enablePropertyFilter`).
    pub filters_properties: bool,
    /// Whether retries pass the expression for the topic they came from (`filterSupportRetry`).
    pub filters_retries: bool,
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            name: "broker-a".to_owned(),
            cluster: "DefaultCluster".to_owned(),
            address: "127.0.0.1".to_owned(),
            version: 0,
            store_host: Host::V4 {
                address: [127, 0, 0, 1],
                port: 10911,
            },
            perm: Perm::READ_WRITE,
            region: "DefaultRegion".to_owned(),
            is_traced: true,
            accepts_sends_from_ms: 0,
            send_wait_max_ms: 200,
            refuse_sends: None,
            refuse_pulls: None,
            needs_check: false,
            passes_on: false,
            times_requests: true,
            is_long_polling: true,
            short_polling_ms: 1_000,
            is_replica_readable: false,
            slave: None,
            rejects_transactions: false,
            transactions: Transactions::default(),
            needs_replica: false,
            timing: Timing::default(),
            pops: PopRules::default(),
            quotas: Arc::default(),
            held: HoldLimits::default(),
            parked: ParkLimits::default(),
            filters_properties: false,
            filters_retries: false,
        }
    }
}

/// All tables together.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The broker.
    pub broker: Arc<Broker>,
    /// Topics by name.
    pub topics: HashMap<Box<str>, Topic>,
    /// Subscription groups by name.
    pub groups: HashMap<Box<str>, Group>,
    /// Online members by group.
    pub members: HashMap<Box<str>, Members>,
    /// Until when a client holds a queue for a group that consumes in order, Unix ms.
    pub locked_until_ms: HashMap<Box<str>, i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(text: &str) -> Option<Filter> {
        match Wanted::parse(Some(text), Some("TAG"))? {
            Wanted::Tags(filter) => Some(filter),
            Wanted::Expression(_) => None,
        }
    }

    #[test]
    fn subscriptions_are_read_as_the_official_filter_reads_them() {
        assert_eq!(tags("*"), Some(Filter::All));
        assert_eq!(tags(""), Some(Filter::All));
        assert_eq!(Wanted::parse(None, None), Some(Wanted::Tags(Filter::All)));
        let codes = [tags_code(b"TagA"), tags_code(b"b")];
        assert_eq!(tags("TagA || b ||"), Some(Filter::Tags(codes.into())));
        assert_eq!(tags("||"), None);
        assert_eq!(tags(" || "), Some(Filter::Tags([NO_TAGS_CODE].into())));
        let sql = Wanted::parse(Some("a > 1"), Some("SQL92"));
        assert_eq!(sql, Some(Wanted::Expression("SQL92".into())));
        assert_eq!(Wanted::parse(None, Some("SQL92")), None);
    }

    #[test]
    fn an_arrival_wakes_whom_it_may_concern() {
        let wants_b = tags("b").unwrap();
        assert!(wants_b.may_want(&[1, tags_code(b"b")]));
        assert!(!wants_b.may_want(&[1, 2]));
        assert!(wants_b.may_want(&[]), "codes that nobody kept");
        assert!(Filter::All.may_want(&[7]));
    }

    #[test]
    fn a_retry_is_checked_by_the_topic_it_came_from() {
        let sql = Arc::new(Sql::compile("a = 1").unwrap());
        let registered = Registered {
            sql,
            version: 1,
            bits: None,
        };
        let filters: Filters = [("t".into(), registered)].into_iter().collect();
        let filter = Filter::SqlOfOrigin(Arc::new(filters));
        let wants = |text: &str| filter.wants(text.as_bytes(), &mut Meter::endless());
        assert!(wants("RETRY_TOPIC\u{1}t\u{2}a\u{1}1\u{2}"));
        assert!(!wants("RETRY_TOPIC\u{1}t\u{2}a\u{1}2\u{2}"));
        assert!(
            wants("RETRY_TOPIC\u{1}u\u{2}a\u{1}2\u{2}"),
            "of another topic"
        );
        assert!(wants("a\u{1}2\u{2}"), "of none");
    }

    #[test]
    fn permissions_are_spelled_officially() {
        assert_eq!(Perm(6).spelled(), "RW-");
        assert_eq!(Perm(7).spelled(), "RWX");
        assert_eq!(Perm(0).spelled(), "---");
        assert!(Perm(4).is_readable() && !Perm(4).is_writable());
    }
}
