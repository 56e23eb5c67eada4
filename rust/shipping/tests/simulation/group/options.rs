//! What differs from one history of a group to the next, drawn from its seed.

use std::path::PathBuf;

use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_replica::{MembersRule, Timing};

use crate::dice::Dice;
use crate::network::Quality;
use crate::options::{BODY_LEN_MAX, ROOT, SEGMENT_BYTES};

/// The levels of delayed messages.
pub(crate) const DELAY_LEVELS: &str = "1s 3s";
/// Timers have a file of 39 MB that each open looks through: not every history has some.
const TIMERS_ONCE_IN: u64 = 4;
/// A group of three or more has a learner.
const LEARNER_ONCE_IN: u64 = 4;
/// Retention takes files, or a broker gets an empty disk.
const REMOVES_ONCE_IN: u64 = 5;
/// How many levels there are.
pub(crate) const LEVELS: usize = 2;

/// The options of a history.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) brokers: usize,
    pub(crate) controllers: usize,
    /// `minInSyncReplicas`, which brokers and controllers know.
    pub(crate) in_sync_min: usize,
    /// Whether a broker syncs before it acknowledges or reports.
    pub(crate) is_synced: Vec<bool>,
    pub(crate) timing: Timing,
    pub(crate) batch_len_bytes: usize,
    pub(crate) quality: Quality,
    /// How long a letter between a broker and a controller is on its way, ms.
    pub(crate) letter_ms: (u64, u64),
    pub(crate) drift_ppm: Vec<i64>,
    pub(crate) behind_max_ms: u64,
    pub(crate) absent_max_ms: u64,
    /// Distance of heartbeats to controllers, and the silence after which a broker counts as dead.
    pub(crate) heartbeat_ms: u64,
    pub(crate) dead_after_ms: u64,
    /// How often a broker asks who is master.
    pub(crate) replicas_ms: u64,
    /// How often a controller looks for dead brokers.
    pub(crate) scan_ms: u64,
    pub(crate) faulty_ms: u64,
    pub(crate) fault_every_ms: u64,
    pub(crate) burst_every_ms: u64,
    pub(crate) retry_ms: u64,
    pub(crate) body_len_max: u64,
    pub(crate) loses_power: bool,
    /// Whether messages with a time of their own are sent.
    pub(crate) has_timers: bool,
    /// A broker that is never to be in the set.
    pub(crate) learner: Option<usize>,
    /// Whether old log files are removed. Nothing is delayed then: it would be gone with them.
    pub(crate) removes_files: bool,
    /// Whether brokers get empty disks.
    pub(crate) loses_disks: bool,
}

impl Options {
    pub(crate) fn of(seed: u64) -> Self {
        let dice = &mut Dice::of(seed ^ 0x0067_726f_7570);
        let brokers = dice.pick(&[2, 3, 3, 3, 4]);
        let heartbeat_ms = dice.pick(&[300, 1_000]);
        let link_ms = dice.pick(&[300, 1_000]);
        let all_synced = dice.once_in(2);
        Self {
            brokers,
            controllers: dice.pick(&[1, 1, 3]),
            in_sync_min: dice.pick(&[1, 2]),
            is_synced: (0..brokers)
                .map(|_| all_synced || dice.once_in(3))
                .collect(),
            timing: Timing {
                heartbeat_ms: link_ms,
                silence_max_ms: link_ms * 4,
            },
            batch_len_bytes: dice.pick(&[50, 300, 1_000, 32_768, 32_768]),
            quality: Quality {
                latency_ms: dice.pick(&[(0, 0), (0, 3), (1, 40)]),
                capacity: dice.pick(&[2_000, 5_000, 65_536]),
            },
            letter_ms: dice.pick(&[(0, 1), (1, 10), (1, 300)]),
            drift_ppm: (0..brokers)
                .map(|_| dice.below(2_001) as i64 - 1_000)
                .collect(),
            behind_max_ms: dice.pick(&[500, 5_000, 15_000]),
            absent_max_ms: dice.pick(&[50, 1_000, 3_000]),
            heartbeat_ms,
            dead_after_ms: heartbeat_ms * dice.pick(&[2, 4]),
            replicas_ms: dice.pick(&[500, 2_000, 5_000]),
            scan_ms: dice.pick(&[200, 1_000]),
            faulty_ms: dice.between(3_000, 20_000),
            fault_every_ms: dice.pick(&[200, 500, 2_000]),
            burst_every_ms: dice.pick(&[100, 400, 1_500]),
            retry_ms: dice.pick(&[20, 500]),
            body_len_max: dice.pick(&[10, 300, BODY_LEN_MAX]),
            loses_power: dice.once_in(2),
            has_timers: dice.once_in(TIMERS_ONCE_IN),
            learner: (brokers > 2 && dice.once_in(LEARNER_ONCE_IN)).then_some(brokers - 1),
            removes_files: dice.once_in(REMOVES_ONCE_IN),
            loses_disks: dice.once_in(REMOVES_ONCE_IN),
        }
        .settled()
    }

    /// Without what does not go together.
    fn settled(mut self) -> Self {
        if self.removes_files {
            self.has_timers = false;
            self.body_len_max = BODY_LEN_MAX;
        }
        self
    }

    pub(crate) fn at_least(&mut self, brokers: usize) {
        self.brokers = self.brokers.max(brokers);
        self.is_synced.resize(self.brokers, false);
        self.drift_ppm.resize(self.brokers, 0);
    }

    pub(crate) fn rule(&self, own_id: i64) -> MembersRule {
        MembersRule {
            own_id,
            acks_whole_set: true,
            in_sync_replicas: 1,
            in_sync_replicas_min: self.in_sync_min,
            behind_max_ms: self.behind_max_ms,
            absent_max_ms: self.absent_max_ms,
        }
    }

    pub(crate) fn config(&self, broker: usize) -> StoreConfig {
        StoreConfig {
            root: Some(PathBuf::from(ROOT)),
            is_member: true,
            segment_len_bytes: SEGMENT_BYTES,
            max_message_bytes: BODY_LEN_MAX,
            queue_file_len_bytes: 20 * 50,
            index_enabled: false,
            hot_window_bytes: SEGMENT_BYTES,
            delay_levels: DELAY_LEVELS.to_owned(),
            timer_log_file_len_bytes: 4_096,
            flush_disk_type: if self.is_synced[broker] {
                FlushDiskType::Sync
            } else {
                FlushDiskType::Async
            },
            ..StoreConfig::default()
        }
    }
}
