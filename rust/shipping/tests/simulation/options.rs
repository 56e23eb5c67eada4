//! What differs from one history to the next, drawn from its seed.

use std::path::PathBuf;

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_replica::{QuorumRule, Timing};

use super::dice::Dice;
use super::ledger::Rule;
use super::network::Quality;

pub(crate) const ROOT: &str = "/store";
/// The shortest log file that one message of [`BODY_LEN_MAX`] fits: 17 pages.
pub(crate) const SEGMENT_BYTES: u64 = 69_632;
pub(crate) const BODY_LEN_MAX: u64 = 4_000;
/// More than is ever behind.
const FAR_BYTES: u64 = 1 << 28;

/// The options of a history.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) slaves: usize,
    pub(crate) rule: QuorumRule,
    /// Whether a replica syncs before it acknowledges or reports; the master is the first.
    pub(crate) is_synced: Vec<bool>,
    pub(crate) timing: Timing,
    pub(crate) batch_len_bytes: usize,
    pub(crate) bytes_per_second_max: Option<u64>,
    pub(crate) quality: Quality,
    /// How fast the clock of a replica goes, millionths more or less.
    pub(crate) drift_ppm: Vec<i64>,
    /// For how long faults come, ms.
    pub(crate) faulty_ms: u64,
    /// One fault in about so many ms.
    pub(crate) fault_every_ms: u64,
    /// One burst of sends in about so many ms.
    pub(crate) burst_every_ms: u64,
    pub(crate) retry_ms: u64,
    pub(crate) body_len_max: u64,
    pub(crate) loses_power: bool,
    pub(crate) removes_files: bool,
    /// A flaw: slaves do not sync what they have promised to.
    pub(crate) leaves_out_sync: bool,
}

impl Options {
    pub(crate) fn of(seed: u64) -> Self {
        let dice = &mut Dice::of(seed ^ 0x6f70_7469_6f6e);
        let slaves = dice.pick(&[1, 1, 2, 2, 2, 3]);
        let in_sync_replicas = dice.between(1, slaves as u64 + 1) as usize;
        let is_synced = (0..=slaves).map(|_| dice.once_in(2)).collect();
        let heartbeat_ms = dice.pick(&[300, 1_000, 5_000]);
        Self {
            slaves,
            rule: QuorumRule {
                in_sync_replicas,
                in_sync_replicas_min: dice.pick(&[1, 1, 2, in_sync_replicas.max(1)]),
                follows_in_sync: dice.once_in(4),
                gap_max_bytes: dice.pick(&[FAR_BYTES, FAR_BYTES, 20_000]),
                behind_max_bytes: dice.pick(&[FAR_BYTES, FAR_BYTES, 20_000]),
            },
            is_synced,
            timing: Timing {
                heartbeat_ms,
                silence_max_ms: heartbeat_ms * 4,
            },
            batch_len_bytes: dice.pick(&[50, 300, 1_000, 32_768, 32_768]),
            bytes_per_second_max: dice.pick(&[None, None, None, Some(30_000)]),
            quality: Quality {
                latency_ms: dice.pick(&[(0, 0), (0, 3), (1, 40)]),
                capacity: dice.pick(&[2_000, 5_000, 65_536]),
            },
            drift_ppm: (0..=slaves)
                .map(|_| dice.below(2_001) as i64 - 1_000)
                .collect(),
            faulty_ms: dice.between(3_000, 30_000),
            fault_every_ms: dice.pick(&[150, 500, 2_000]),
            burst_every_ms: dice.pick(&[100, 400, 1_000]),
            retry_ms: dice.pick(&[20, 500, 3_000]),
            body_len_max: dice.pick(&[10, 300, BODY_LEN_MAX]),
            loses_power: dice.once_in(2),
            removes_files: dice.once_in(8),
            leaves_out_sync: false,
        }
    }

    /// Makes it so many slaves at the least.
    pub(crate) fn at_least(&mut self, slaves: usize) {
        self.slaves = self.slaves.max(slaves);
        self.is_synced.resize(self.slaves + 1, false);
        self.drift_ppm.resize(self.slaves + 1, 0);
    }

    /// What an acknowledgement means at the least.
    pub(crate) fn promise(&self) -> Rule {
        let rule = &self.rule;
        let copies = if rule.follows_in_sync {
            rule.in_sync_replicas_min
        } else {
            rule.in_sync_replicas
        };
        Rule {
            copies: copies.max(2),
            is_synced: self.is_synced.first().copied().unwrap_or(false),
        }
    }

    pub(crate) fn config(&self, replica: usize) -> StoreConfig {
        StoreConfig {
            root: Some(PathBuf::from(ROOT)),
            segment_len_bytes: SEGMENT_BYTES,
            max_message_bytes: BODY_LEN_MAX,
            queue_file_len_bytes: 20 * 50,
            index_enabled: false,
            hot_window_bytes: SEGMENT_BYTES,
            flush_disk_type: if self.is_synced[replica] && !(self.leaves_out_sync && replica > 0) {
                FlushDiskType::Sync
            } else {
                FlushDiskType::Async
            },
            ..StoreConfig::default()
        }
    }
}
