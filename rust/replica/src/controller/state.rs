//! Brokers, masters and sets by broker name (`BrokerReplicaInfo`, `SyncStateInfo`), and the changes that
//! events make. Knows no check: what comes here was decided.

use std::collections::{BTreeMap, BTreeSet};

use super::event::View;

/// The first id that a controller gives (`MixAll.FIRST_BROKER_CONTROLLER_ID`).
pub(super) const FIRST_ID: i64 = 1;

/// A broker that a controller has given an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Where it is reached, `host:port`.
    pub address: String,
    /// What it applied for its id with: who repeats it gets the same id. Then what names the process that has
    /// registered last, where it names itself.
    pub check_code: String,
}

/// The brokers of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSet {
    /// The cluster they belong to.
    pub cluster: String,
    /// The next id that is given; it only grows.
    pub next_id: i64,
    /// The brokers by id.
    pub replicas: BTreeMap<i64, Replica>,
    /// The master, where there is one.
    pub master: Option<i64>,
    /// Grows by one with every master, and with the loss of one.
    pub master_epoch: i32,
    /// Brokers that have every message that may have been acknowledged.
    pub in_sync: BTreeSet<i64>,
    /// Grows by one with every change of that set.
    pub set_epoch: i32,
    /// Brokers beside the set that have every message that may have been acknowledged: they left when
    /// the set fell below the least number of copies, and nothing was acknowledged since.
    pub eligible: BTreeSet<i64>,
}

/// Everything that a controller keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerState {
    pub(super) sets: BTreeMap<String, BrokerSet>,
}

/// What an event changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A broker gets an id.
    Added {
        cluster: String,
        id: i64,
        replica: Replica,
    },
    /// A broker has another address, or is another process.
    Moved {
        id: i64,
        address: String,
        check_code: Option<String>,
    },
    /// The set has another epoch.
    Fenced,
    /// There is another master, or none.
    Mastered {
        master: Option<i64>,
        in_sync_min: u32,
    },
    /// The set is another one.
    SetAltered {
        in_sync: BTreeSet<i64>,
        in_sync_min: u32,
    },
    /// Brokers are forgotten.
    Forgotten { ids: BTreeSet<i64> },
    /// The name is forgotten.
    NameForgotten,
}

impl BrokerSet {
    pub(super) fn new(cluster: String) -> Self {
        Self {
            cluster,
            next_id: FIRST_ID,
            replicas: BTreeMap::new(),
            master: None,
            master_epoch: 0,
            in_sync: BTreeSet::new(),
            set_epoch: 0,
            eligible: BTreeSet::new(),
        }
    }

    /// The address of a broker.
    #[must_use]
    pub fn address(&self, id: i64) -> Option<&str> {
        self.replicas.get(&id).map(|each| each.address.as_str())
    }

    /// What an answer has of it.
    pub(super) fn view(&self) -> View {
        let address = self.master.and_then(|id| self.address(id));
        View {
            cluster: self.cluster.clone(),
            next_id: self.next_id,
            master: self.master,
            master_address: address.map(str::to_owned),
            master_epoch: self.master_epoch,
            in_sync: self.in_sync.iter().copied().collect(),
            set_epoch: self.set_epoch,
            replicas: self
                .replicas
                .iter()
                .map(|(id, each)| (*id, each.address.clone()))
                .collect(),
            check_codes: self
                .replicas
                .iter()
                .map(|(id, each)| (*id, each.check_code.clone()))
                .collect(),
            eligible: self.eligible.iter().copied().collect(),
        }
    }

    fn set_in_sync(&mut self, in_sync: BTreeSet<i64>, in_sync_min: u32) {
        let min = usize::try_from(in_sync_min).unwrap_or(usize::MAX);
        if in_sync.len() >= min {
            self.eligible.clear();
        } else {
            // With fewer copies than that a master acknowledges nothing: who leaves now has it all.
            if self.in_sync.len() >= min {
                self.eligible.clear();
            }
            self.eligible.extend(self.in_sync.iter().copied());
            self.eligible.retain(|id| !in_sync.contains(id));
        }
        self.in_sync = in_sync;
        self.set_epoch = self.set_epoch.saturating_add(1);
    }

    fn forget(&mut self, ids: &BTreeSet<i64>) {
        self.replicas.retain(|id, _| !ids.contains(id));
        self.eligible.retain(|id| !ids.contains(id));
        let before = self.in_sync.len();
        self.in_sync.retain(|id| !ids.contains(id));
        if self.in_sync.len() != before {
            self.set_epoch = self.set_epoch.saturating_add(1);
        }
        if self.master.is_some_and(|id| ids.contains(&id)) {
            self.master = None;
            self.master_epoch = self.master_epoch.saturating_add(1);
        }
    }
}

impl ControllerState {
    /// The brokers of a name.
    #[must_use]
    pub fn set(&self, name: &str) -> Option<&BrokerSet> {
        self.sets.get(name)
    }

    /// Every name with its brokers, in order.
    pub fn sets(&self) -> impl Iterator<Item = (&str, &BrokerSet)> {
        self.sets.iter().map(|(name, set)| (name.as_str(), set))
    }

    /// What an answer has of a name.
    #[must_use]
    pub fn view(&self, name: &str) -> Option<View> {
        self.sets.get(name).map(BrokerSet::view)
    }

    pub(super) fn make(&mut self, name: &str, change: Change) {
        match change {
            Change::Added {
                cluster,
                id,
                replica,
            } => {
                let set = self
                    .sets
                    .entry(name.to_owned())
                    .or_insert_with(|| BrokerSet::new(cluster));
                set.next_id = set.next_id.max(id.saturating_add(1));
                set.replicas.insert(id, replica);
            }
            Change::NameForgotten => {
                self.sets.remove(name);
            }
            other => {
                if let Some(set) = self.sets.get_mut(name) {
                    set.change(other);
                    if set.replicas.is_empty() {
                        self.sets.remove(name);
                    }
                }
            }
        }
    }
}

impl BrokerSet {
    fn change(&mut self, change: Change) {
        match change {
            Change::Moved {
                id,
                address,
                check_code,
            } => {
                if let Some(replica) = self.replicas.get_mut(&id) {
                    replica.address = address;
                    if let Some(check_code) = check_code {
                        replica.check_code = check_code;
                    }
                }
            }
            Change::Fenced => self.set_epoch = self.set_epoch.saturating_add(1),
            Change::Mastered {
                master,
                in_sync_min,
            } => {
                self.master = master;
                self.master_epoch = self.master_epoch.saturating_add(1);
                if let Some(id) = master {
                    self.set_in_sync(BTreeSet::from([id]), in_sync_min);
                }
            }
            Change::SetAltered {
                in_sync,
                in_sync_min,
            } => self.set_in_sync(in_sync, in_sync_min),
            Change::Forgotten { ids } => self.forget(&ids),
            // Both are made by who holds the names.
            Change::Added { .. } | Change::NameForgotten => {}
        }
    }
}
