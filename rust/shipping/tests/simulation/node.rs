//! A replica: its disk, its clock, and while its process runs what that does by its role. What runs is the
//! code of production: the store, the slaves of a master, the follower of a slave.

use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::error::Result;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_replica::RecordWalk;
use mqcore_shipping::{Slaves, walk_of};

use super::copying::Copying;
use super::drift::DriftingClock;
use super::network::Wire;
use super::options::Options;

pub(crate) type SimStore = Store<TwinDisk, ManualClock>;

/// What a process does.
pub(crate) enum Duty {
    Master(Box<Slaves<TwinDisk, ManualClock, Wire>>),
    Slave {
        walk: Arc<Mutex<RecordWalk>>,
        link: Option<Box<Link>>,
    },
}

/// A slave's connection.
pub(crate) struct Link {
    pub(crate) wire: Wire,
    pub(crate) follower: Copying,
    pub(crate) has_begun: bool,
    /// The incarnation of the master that has accepted it.
    pub(crate) master: u32,
}

/// The process of a replica.
pub(crate) struct Process {
    pub(crate) store: Arc<SimStore>,
    pub(crate) duty: Duty,
    /// Whether growth of the log wakes it: it does not while reports are due at once.
    pub(crate) wakes_on_growth: bool,
    /// Units of each queue that readers have seen.
    pub(crate) seen: Vec<u64>,
}

/// A replica.
pub(crate) struct Node {
    pub(crate) twin: TwinDisk,
    pub(crate) time: DriftingClock,
    pub(crate) config: StoreConfig,
    /// Counts processes, so that what was planned for an earlier one is left out.
    pub(crate) incarnation: u32,
    pub(crate) process: Option<Process>,
    pub(crate) paused_until_ms: u64,
    /// The incarnation of the master whose bytes it has read last.
    pub(crate) last_master: u32,
    /// Why it was refused as a slave.
    pub(crate) refused: Option<String>,
    /// Whether the power was gone since its store was open.
    pub(crate) has_lost_power: bool,
    /// When its next turn is planned.
    pub(crate) turn_at_ms: Option<u64>,
}

impl Node {
    pub(crate) fn new(options: &Options, replica: usize) -> Self {
        let time = DriftingClock::new(options.drift_ppm[replica]);
        Self {
            twin: TwinDisk::with_clock(time.clock.clone()),
            time,
            config: options.config(replica),
            incarnation: 0,
            process: None,
            paused_until_ms: 0,
            last_master: 0,
            refused: None,
            has_lost_power: false,
            turn_at_ms: None,
        }
    }

    /// Opens the store.
    pub(crate) fn open(&self) -> Result<Arc<SimStore>> {
        let (disk, clock) = (self.twin.clone(), self.time.clock.clone());
        Store::open(disk, clock, self.config.clone(), OpenHow::RefuseDamage).map(Arc::new)
    }

    pub(crate) fn store(&self) -> Option<&Arc<SimStore>> {
        self.process.as_ref().map(|process| &process.store)
    }
}

impl Duty {
    /// A slave that is not connected.
    pub(crate) fn slave(store: &Arc<SimStore>) -> Self {
        store.replica().follow();
        Self::Slave {
            walk: Arc::new(Mutex::new(walk_of(store))),
            link: None,
        }
    }
}

/// Everything that a store's log holds between two offsets.
pub(crate) fn log_bytes(store: &SimStore, from: u64, to: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity((to - from) as usize);
    while from + (out.len() as u64) < to {
        let at = from + out.len() as u64;
        let read = store.replica().range(at, (to - at) as usize);
        match read {
            Ok(Some(chunk)) => out.extend_from_slice(chunk.bytes.as_bytes()),
            _ => return out,
        }
    }
    out
}
