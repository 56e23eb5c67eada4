//! Policy tables out of Python's named tuples. No logic.

use std::collections::BTreeMap;
use std::sync::Arc;

use mqcore_fast_path::bits::{BitRow, GroupBits};
use mqcore_fast_path::codes::{OVERLOAD, REQUESTS, SYSTEM_BUSY};
use mqcore_fast_path::holds::HoldLimits;
use mqcore_fast_path::parked::ParkLimits;
use mqcore_fast_path::policy::{
    Broker, Group, Members, Perm, Refusal, Registered, Slave, Subscription, Timing, Topic,
    Transactions, Wanted,
};
use mqcore_fast_path::quotas::Rules;
use mqcore_fast_path::sql::Sql;
use mqcore_record::Host;
use pyo3::prelude::*;

use crate::policy_rows::{BrokerRow, TimingRow};

impl From<TimingRow> for Timing {
    fn from(row: TimingRow) -> Self {
        Self {
            is_enabled: row.is_enabled,
            max_delay_ms: row.max_delay_ms,
            congested_at: row.congested_at,
            ahead_ms: row.ahead_ms,
            is_recall_enabled: row.is_recall_enabled,
            is_recall_enabled_read_only: row.is_recall_enabled_read_only,
            is_recalled_by_topic: row.is_recalled_by_topic,
            ..Self::default()
        }
    }
}

fn refusal(remark: Option<String>, code: i32) -> Option<Refusal> {
    remark.map(|remark| Refusal {
        code,
        remark: if remark.is_empty() {
            OVERLOAD.to_owned()
        } else {
            remark
        },
    })
}

impl BrokerRow {
    pub(crate) fn broker(self, store_host: Host) -> Broker {
        Broker {
            name: self.name,
            cluster: self.cluster,
            address: self.address,
            version: self.version,
            store_host,
            perm: Perm(self.perm),
            region: self.region,
            is_traced: self.is_traced,
            accepts_sends_from_ms: self.accepts_sends_from_ms,
            send_wait_max_ms: self.send_wait_max_ms,
            refuse_sends: refusal(self.refuse_sends, self.refuse_sends_code),
            refuse_pulls: refusal(self.refuse_pulls, SYSTEM_BUSY),
            needs_check: self.needs_check,
            passes_on: self.passes_on,
            times_requests: self.times_requests,
            is_long_polling: self.is_long_polling,
            short_polling_ms: self.short_polling_ms,
            is_replica_readable: self.is_replica_readable,
            slave: self.is_slave.then_some(Slave {
                has_master: self.has_master,
                checks_offsets: self.checks_offsets,
                sends_back: self.sends_back,
            }),
            rejects_transactions: self.rejects_transactions,
            transactions: Transactions {
                timeout_ms: self.transaction_timeout_ms,
                note_bytes_max: self.note_bytes_max,
                note_interval_ms: self.note_interval_ms,
            },
            needs_replica: self.needs_replica,
            timing: self.timing.into(),
            pops: self.pops.into(),
            // They were read before they were taken: what cannot be read bounds nobody.
            quotas: Arc::new(Rules::read(&self.quotas).unwrap_or_default()),
            held: HoldLimits {
                all: self.waits.pulls_max,
                per_connection: self.waits.pulls_per_connection_max,
                per_queue: self.waits.pulls_per_queue_max,
            },
            parked: ParkLimits {
                all: self.waits.sends_max,
                per_connection: self.waits.sends_per_connection_max,
            },
            filters_properties: self.filters_properties,
            filters_retries: self.filters_retries,
        }
    }
}

/// `TopicPolicy`.
#[derive(FromPyObject)]
pub(crate) struct TopicRow {
    perm: i32,
    read_queues: i32,
    write_queues: i32,
    sys_flag: i32,
    is_ordered: bool,
    has_multi_tags: bool,
    needs_check: bool,
    has_priorities: bool,
}

impl From<TopicRow> for Topic {
    fn from(row: TopicRow) -> Self {
        Self {
            perm: Perm(row.perm),
            read_queues: row.read_queues,
            write_queues: row.write_queues,
            sys_flag: row.sys_flag,
            is_ordered: row.is_ordered,
            has_multi_tags: row.has_multi_tags,
            has_priorities: row.has_priorities,
            needs_check: row.needs_check,
        }
    }
}

/// `GroupPolicy`.
#[derive(FromPyObject)]
pub(crate) struct GroupRow {
    is_consume_enabled: bool,
    is_broadcast_enabled: bool,
    retry_queues: i32,
    max_retries: i32,
    broker_id: i64,
    slow_broker_id: i64,
    needs_check: bool,
    priority_percent: u32,
}

impl From<GroupRow> for Group {
    fn from(row: GroupRow) -> Self {
        Self {
            is_consume_enabled: row.is_consume_enabled,
            is_broadcast_enabled: row.is_broadcast_enabled,
            retry_queues: row.retry_queues,
            max_retries: row.max_retries,
            broker_id: row.broker_id,
            slow_broker_id: row.slow_broker_id,
            priority_percent: row.priority_percent,
            needs_check: row.needs_check,
        }
    }
}

/// `Subscription`.
#[derive(FromPyObject)]
pub(crate) struct SubscriptionRow {
    topic: String,
    expression: String,
    kind: String,
    version: i64,
}

/// `RegisteredFilter`.
#[derive(FromPyObject)]
pub(crate) struct FilterRow {
    topic: String,
    expression: String,
    version: i64,
    bits: Option<BitsRow>,
}

/// `FilterBits`.
#[derive(FromPyObject)]
pub(crate) struct BitsRow {
    positions: Vec<usize>,
    count: usize,
    since_ms: i64,
}

impl BitsRow {
    fn group_bits(&self) -> Option<GroupBits> {
        GroupBits::new(&self.positions, self.count, self.since_ms)
    }
}

/// `ExpressionBits`.
#[derive(FromPyObject)]
pub(crate) struct ExpressionBitsRow {
    topic: String,
    expression: String,
    bits: BitsRow,
}

impl ExpressionBitsRow {
    /// The row for who makes bits; `None` where its bits cannot be: nobody reads them then.
    pub(crate) fn bit_row(self) -> Option<BitRow> {
        let bits = self.bits.group_bits()?;
        Some(BitRow {
            topic: self.topic.into(),
            expression: self.expression.into(),
            bits,
        })
    }
}

/// `MembersPolicy`.
#[derive(FromPyObject)]
pub(crate) struct MembersRow {
    subscriptions: Vec<SubscriptionRow>,
    filters: Vec<FilterRow>,
    is_broadcasting: bool,
}

impl From<MembersRow> for Members {
    fn from(row: MembersRow) -> Self {
        let subscriptions = row.subscriptions.into_iter().map(|row| {
            let subscription = Subscription {
                wanted: Wanted::parse(Some(&row.expression), Some(&row.kind)),
                version: row.version,
            };
            (row.topic.into_boxed_str(), subscription)
        });
        // One that does not compile is as one that is not there: nothing reports that it was taken.
        let filters = row.filters.into_iter().filter_map(|row| {
            let sql = Arc::new(Sql::compile(&row.expression).ok()?);
            let bits = row.bits.and_then(|bits| bits.group_bits());
            let registered = Registered {
                sql,
                version: row.version,
                bits: bits.map(Arc::new),
            };
            Some((row.topic.into_boxed_str(), registered))
        });
        Self {
            is_broadcasting: row.is_broadcasting,
            subscriptions: subscriptions.collect(),
            filters: Arc::new(filters.collect()),
        }
    }
}

/// What is wrong with an expression, and where; `None` for one that can be used.
#[pyfunction]
pub(crate) fn sql_fault(text: &str) -> Option<String> {
    Sql::compile(text).err().map(|error| error.to_string())
}

/// The requests that the fast path executes: numbers by official name.
#[pyfunction]
pub(crate) fn native_request_codes() -> BTreeMap<&'static str, i32> {
    REQUESTS.iter().copied().collect()
}
