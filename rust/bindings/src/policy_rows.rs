//! The broker's policy as Python's named tuples hand it over.
//!
//! Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.

use pyo3::prelude::*;

/// `WaitPolicy`.
#[derive(FromPyObject)]
pub(crate) struct WaitRow {
    pub(crate) pulls_max: usize,
    pub(crate) pulls_per_connection_max: usize,
    pub(crate) pulls_per_queue_max: usize,
    pub(crate) sends_max: usize,
    pub(crate) sends_per_connection_max: usize,
}

/// `TimingPolicy`.
#[derive(FromPyObject)]
pub(crate) struct TimingRow {
    pub(crate) is_recall_enabled_read_only: bool,
    pub(crate) is_recall_enabled: bool,
    pub(crate) max_delay_ms: i64,
    pub(crate) is_enabled: bool,
    pub(crate) congested_at: i32,
    pub(crate) is_recalled_by_topic: bool,
    pub(crate) ahead_ms: i64,
}

/// `PopPolicy`.
#[derive(FromPyObject)]
pub(crate) struct PopRow {
    pub(crate) held_per_line: usize,
    pub(crate) held_max: usize,
    pub(crate) revive_queues: i32,
    pub(crate) has_buffer: bool,
    pub(crate) stay_ms: u64,
    pub(crate) stored_before_ms: i64,
    pub(crate) kept_max: usize,
    pub(crate) kept_per_queue_max: usize,
    pub(crate) begins_in_memory: bool,
    pub(crate) reads_retry_v1: bool,
    pub(crate) has_retry_v2: bool,
    pub(crate) retry_first_percent: u32,
    pub(crate) names_retry_topic: bool,
    pub(crate) in_flight_max: u64,
    pub(crate) bounds_in_flight: bool,
    pub(crate) priority_retry_first_percent: u32,
    pub(crate) is_priority_ascending: bool,
}

/// `BrokerPolicy`.
#[derive(FromPyObject)]
pub(crate) struct BrokerRow {
    pub(crate) address: String,
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) perm: i32,
    pub(crate) rejects_transactions: bool,
    pub(crate) is_long_polling: bool,
    pub(crate) short_polling_ms: u64,
    pub(crate) region: String,
    pub(crate) is_replica_readable: bool,
    pub(crate) send_wait_max_ms: u64,
    pub(crate) accepts_sends_from_ms: i64,
    pub(crate) is_traced: bool,
    pub(crate) filters_retries: bool,
    pub(crate) filters_properties: bool,
    pub(crate) transaction_timeout_ms: i64,
    pub(crate) note_bytes_max: usize,
    pub(crate) note_interval_ms: u64,
    pub(crate) checks_offsets: bool,
    pub(crate) times_requests: bool,
    pub(crate) quotas: String,
    pub(crate) refuse_sends: Option<String>,
    pub(crate) refuse_sends_code: i32,
    pub(crate) refuse_pulls: Option<String>,
    pub(crate) needs_check: bool,
    pub(crate) passes_on: bool,
    pub(crate) is_slave: bool,
    pub(crate) has_master: bool,
    pub(crate) sends_back: bool,
    pub(crate) needs_replica: bool,
    pub(crate) version: i32,
    pub(crate) timing: TimingRow,
    pub(crate) pops: PopRow,
    pub(crate) waits: WaitRow,
}
