//! A broker of a group: its disk, its clock, and while its process runs its store, its role, and how far it is
//! with its controller.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use mqcore_engine::clock::{Clock, ManualClock};
use mqcore_engine::config::StoreConfig;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::error::Result;
use mqcore_engine::flush::Ticket;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_replica::Members;
use mqcore_shipping::{Epochs, Follower, Slaves};

use super::clients::serving::Served;
use super::clients::tables::Table;
use super::delays::Heard;
use super::history::History;
use super::ledger::Acked;
use super::letters::Purpose;
use super::member::{Member, Order};
use super::options::{LEVELS, Options};
use super::timers::{Ahead, SimTimers};
use crate::drift::DriftingClock;
use crate::ledger::Checked;
use crate::network::{Pair, Wire};
use crate::node::SimStore;

/// Below the root of the store, as brokers have it.
const EPOCH_FILE: &str = "/store/epochFileCheckpoint";

/// What a broker is to its group.
pub(crate) enum Role {
    /// Nothing yet.
    Waiting,
    Master {
        slaves: Box<Slaves<TwinDisk, ManualClock, Wire>>,
        members: Arc<Mutex<Members>>,
        was_wanting: bool,
    },
    Slave {
        master: usize,
        link: Option<Box<Link>>,
    },
}

/// A slave's connection.
pub(crate) struct Link {
    pub(crate) pair: Pair,
    pub(crate) wire: Wire,
    pub(crate) follower: Follower<TwinDisk, ManualClock>,
    pub(crate) has_begun: bool,
}

/// A send that waits.
#[derive(Debug, Clone)]
pub(crate) struct Parked {
    pub(crate) ticket: Ticket,
    pub(crate) acked: Acked,
    pub(crate) needs_replica: bool,
}

/// The store of a process, between an open and a close.
pub(crate) struct Opened {
    pub(crate) store: Arc<SimStore>,
    pub(crate) epochs: Arc<Epochs<TwinDisk>>,
    pub(crate) role: Role,
    /// Whether it has led since it was opened.
    pub(crate) has_led: bool,
    pub(crate) parked: Vec<Parked>,
    /// Whether growth of the log wakes it.
    pub(crate) wakes_on_growth: bool,
    /// Units of each queue that were looked at.
    pub(crate) seen: Vec<u64>,
    /// What readers could see at the last look.
    pub(crate) confirmed: u64,
    /// Once there was a message for them.
    pub(crate) timers: Option<SimTimers>,
    /// What clients are served with, where the history has some.
    pub(crate) served: Option<Box<Served>>,
}

/// A process.
pub(crate) struct Process {
    /// `None` while the store could not be opened anew.
    pub(crate) opened: Option<Opened>,
    pub(crate) member: Member,
    pub(crate) orders: VecDeque<Order>,
    /// The order to follow that was performed last.
    pub(crate) followed: Option<Order>,
    /// A role could not be taken: no heartbeat until it is, or another one is wanted.
    pub(crate) is_failing: bool,
    /// Requests that are not answered.
    pub(crate) waiting: BTreeMap<u64, Purpose>,
    pub(crate) ask_at_ms: Option<u64>,
    pub(crate) performs: bool,
}

/// A broker.
pub(crate) struct Node {
    pub(crate) twin: TwinDisk,
    pub(crate) time: DriftingClock,
    pub(crate) config: StoreConfig,
    /// What its file of its id has.
    pub(crate) identity: Option<i64>,
    /// How far each level of delayed messages is delivered; what its file has of that; up to where the log
    /// must be flushed before it is written down.
    pub(crate) delays: [u64; LEVELS],
    pub(crate) kept_delays: History<[u64; LEVELS]>,
    pub(crate) delivered_to: u64,
    pub(crate) heard: Option<Heard>,
    pub(crate) ahead: Option<Ahead>,
    /// The file of offsets of groups; and of those of the broker's own groups.
    pub(crate) kept_offsets: Table,
    pub(crate) kept_own: History<Table>,
    /// Counts processes, and opens of its store: what was planned for an earlier one is left out.
    pub(crate) incarnation: u32,
    pub(crate) opening: u32,
    pub(crate) process: Option<Process>,
    pub(crate) paused_until_ms: u64,
    pub(crate) has_lost_power: bool,
    /// Whether its process ended in the middle of a step.
    pub(crate) has_died_inside: bool,
    pub(crate) turn_at_ms: Option<u64>,
    /// A flaw: what was cut, and where it lay.
    pub(crate) uncut: Option<(u64, Vec<u8>)>,
}

impl Node {
    pub(crate) fn new(options: &Options, broker: usize) -> Self {
        let time = DriftingClock::new(options.drift_ppm[broker]);
        Self {
            twin: TwinDisk::with_clock(time.clock.clone()),
            time,
            config: options.config(broker),
            identity: None,
            delays: [0; LEVELS],
            kept_delays: History::default(),
            delivered_to: 0,
            heard: None,
            ahead: None,
            kept_offsets: Table::new(),
            kept_own: History::default(),
            incarnation: 0,
            opening: 0,
            process: None,
            paused_until_ms: 0,
            has_lost_power: false,
            has_died_inside: false,
            turn_at_ms: None,
            uncut: None,
        }
    }

    /// Opens the store and its file of epochs.
    pub(crate) fn open(&self, how: OpenHow) -> Result<Opened> {
        let (disk, clock) = (self.twin.clone(), self.time.clock.clone());
        let store = Arc::new(Store::open(disk, clock, self.config.clone(), how)?);
        let epochs = Arc::new(Epochs::open(&store, EPOCH_FILE.as_ref())?);
        let confirmed = store.replica().confirmed();
        Ok(Opened {
            store,
            epochs,
            role: Role::Waiting,
            has_led: false,
            parked: Vec::new(),
            wakes_on_growth: false,
            seen: vec![0; super::sends::QUEUES.len()],
            confirmed,
            timers: None,
            served: None,
        })
    }

    /// Whether something was done on its disk, and not the end of the process came in between.
    pub(crate) fn twin_done<T>(&self, done: Result<T>) -> Checked<Option<T>> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.twin.is_stopped() => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Its wall time.
    pub(crate) fn now_ms(&self) -> i64 {
        Clock::now_ms(&self.time.clock)
    }

    pub(crate) fn opened(&self) -> Option<&Opened> {
        self.process.as_ref()?.opened.as_ref()
    }

    pub(crate) fn opened_mut(&mut self) -> Option<&mut Opened> {
        self.process.as_mut()?.opened.as_mut()
    }

    pub(crate) fn store(&self) -> Option<&Arc<SimStore>> {
        self.opened().map(|opened| &opened.store)
    }

    pub(crate) fn is_master(&self) -> bool {
        let role = self.opened().map(|opened| &opened.role);
        matches!(role, Some(Role::Master { .. }))
    }
}
