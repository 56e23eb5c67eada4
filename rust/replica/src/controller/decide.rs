//! What becomes of an event: the checks of `ReplicasInfoManager` in their order, with its codes and
//! remarks, and the change that follows. A pure function of the state and the event.
//!
//! Official faults that are not here: an id above the next one makes the next one collide with it; a name
//! whose set was cleaned away takes no broker any more; `isCleanLivingBroker` with ids forgets the whole
//! name; who asks first is elected without having an id.

use super::bytes::TEXT_BYTES_MAX;
use super::elect::elected;
use super::event::{
    AlterSet, Answer, ApplyId, AskedBy, Clean, Code, Elect, Epochs, Event, Fence, Register,
};
use super::state::{BrokerSet, Change, ControllerState, FIRST_ID, Replica};

/// Brokers of a name: two or three are usual, and an answer lists them all.
pub(super) const REPLICAS_MAX: usize = 1_000;
/// Broker names: as many as a name server takes.
pub(super) const NAMES_MAX: usize = 10_000;

/// What follows from an event.
struct Decision {
    code: Code,
    remark: String,
    change: Option<Change>,
}

impl Decision {
    fn done(change: Option<Change>) -> Self {
        Self {
            code: Code::Success,
            remark: String::new(),
            change,
        }
    }

    fn refused(code: Code, remark: impl Into<String>) -> Self {
        Self {
            code,
            remark: remark.into(),
            change: None,
        }
    }
}

impl ControllerState {
    /// Decides an event and makes its change; the same event on the same state always does the same.
    pub fn apply(&mut self, event: &Event) -> Answer {
        let Decision {
            code,
            remark,
            change,
        } = self.decide(event);
        let is_changed = change.is_some();
        if let Some(change) = change {
            self.make(event.name(), change);
        }
        Answer {
            code,
            remark,
            is_changed,
            view: self.view(event.name()),
        }
    }

    /// What [`ControllerState::apply`] would answer, where it would change nothing.
    #[must_use]
    pub fn answer_without_change(&self, event: &Event) -> Option<Answer> {
        let Decision {
            code,
            remark,
            change,
        } = self.decide(event);
        change.is_none().then(|| Answer {
            code,
            remark,
            is_changed: false,
            view: self.view(event.name()),
        })
    }

    fn decide(&self, event: &Event) -> Decision {
        match event {
            Event::AlterSet(event) => self.altered(event),
            Event::Elect(event) => self.elected(event),
            Event::ApplyId(event) => self.applied(event),
            Event::Register(event) => self.registered(event),
            Event::Clean(event) => self.cleaned(event),
            Event::Fence(event) => self.fenced(event),
        }
    }

    fn altered(&self, event: &AlterSet) -> Decision {
        let Some(set) = self.set(&event.name) else {
            return Decision::refused(Code::AlterSetFailed, "Broker metadata is not existed");
        };
        match alteration_fault(set, event) {
            Some((code, remark)) => Decision::refused(code, remark),
            None => Decision::done(Some(Change::SetAltered {
                in_sync: event.in_sync.clone(),
                in_sync_min: event.in_sync_min,
            })),
        }
    }

    fn elected(&self, event: &Elect) -> Decision {
        let Some(set) = self.set(&event.name) else {
            return Decision::refused(Code::NeedToBeRegistered, "Broker hasn't been registered");
        };
        if (event.seen.master, event.seen.set) != (set.master_epoch, set.set_epoch) {
            let remark = format!(
                "Rejecting elect master request because the epochs of master and syncStateSet are {} \
                 and {} now, and were {} and {} when the living brokers were counted",
                set.master_epoch, set.set_epoch, event.seen.master, event.seen.set
            );
            return Decision::refused(Code::FencedMasterEpoch, remark);
        }
        let asking = match event.asked_by {
            AskedBy::Controller => None,
            AskedBy::Broker(id) | AskedBy::Administrator(id) => Some(id),
        };
        let winner = if let Some(id) = asking.filter(|_| set.master_epoch == 0) {
            if !set.replicas.contains_key(&id) {
                return Decision::refused(Code::NeedToBeRegistered, unknown_id(id, &event.name));
            }
            Some(id)
        } else {
            elected(set, event)
        };
        if set.master_epoch == i32::MAX || set.set_epoch == i32::MAX {
            return Decision::refused(Code::ElectMasterFailed, "there is no epoch left");
        }
        match winner {
            Some(id) if set.master == Some(id) => {
                let remark = format!(
                    "The old master {id} is still alive, not need to elect new master for broker {}",
                    event.name
                );
                Decision::refused(Code::MasterStillExist, remark)
            }
            Some(id) => Decision::done(Some(Change::Mastered {
                master: Some(id),
                in_sync_min: event.in_sync_min,
            })),
            None if asking.is_none() => Decision {
                code: Code::MasterNotAvailable,
                remark: "Old master has down and failed to elect a new broker master".to_owned(),
                change: set.master.map(|_| Change::Mastered {
                    master: None,
                    in_sync_min: event.in_sync_min,
                }),
            },
            None => Decision::refused(Code::ElectMasterFailed, "Failed to elect a new master"),
        }
    }

    fn applied(&self, event: &ApplyId) -> Decision {
        let ApplyId {
            cluster,
            name,
            id,
            check_code,
        } = event;
        let address = check_code.split(';').next().unwrap_or_default();
        if let Some(fault) = text_fault(&[cluster, name, check_code, address]) {
            return Decision::refused(Code::InvalidRequest, fault);
        }
        let added = Decision::done(Some(Change::Added {
            cluster: cluster.clone(),
            id: *id,
            replica: Replica {
                address: address.to_owned(),
                check_code: check_code.clone(),
            },
        }));
        let taken = || format!("Fail to apply brokerId: {id} in broker-set: {name}");
        let Some(set) = self.set(name) else {
            if *id != FIRST_ID {
                let remark = format!(
                    "Broker-set: {name} hasn't been registered in controller, but broker try to apply \
                     brokerId: {id}"
                );
                return Decision::refused(Code::BrokerIdInvalid, remark);
            }
            if self.sets.len() >= NAMES_MAX {
                let remark = format!("there are {NAMES_MAX} broker names already");
                return Decision::refused(Code::BrokerIdInvalid, remark);
            }
            return added;
        };
        match set.replicas.get(id) {
            Some(replica) if replica.check_code == *check_code => Decision::done(None),
            Some(_) => Decision::refused(Code::BrokerIdInvalid, taken()),
            None if *id < FIRST_ID || *id == i64::MAX => {
                Decision::refused(Code::BrokerIdInvalid, taken())
            }
            None if set.replicas.len() >= REPLICAS_MAX => {
                let remark = format!("{}: there are {REPLICAS_MAX} brokers already", taken());
                Decision::refused(Code::BrokerIdInvalid, remark)
            }
            None => added,
        }
    }

    fn registered(&self, event: &Register) -> Decision {
        let Some(set) = self.set(&event.name) else {
            let remark = format!(
                "Broker-set: {} hasn't been registered in controller",
                event.name
            );
            return Decision::refused(Code::NeedToBeRegistered, remark);
        };
        let Some(replica) = set.replicas.get(&event.id) else {
            let remark = unknown_id(event.id, &event.name);
            return Decision::refused(Code::NeedToBeRegistered, remark);
        };
        let check_code = event.claim.as_ref().map(|claim| claim.check_code.as_str());
        if let Some(fault) = text_fault(&[&event.address, check_code.unwrap_or("-")]) {
            return Decision::refused(Code::InvalidRequest, fault);
        }
        let is_known = check_code.is_none_or(|code| code == replica.check_code);
        if let Some(claim) = event.claim.as_ref().filter(|_| !is_known) {
            if claim.seen != replica.check_code {
                let remark = format!(
                    "the broker {} of {} is another process now than when it was looked for",
                    event.id, event.name
                );
                return Decision::refused(Code::FencedMasterEpoch, remark);
            }
            if claim.is_held {
                let remark = held(event.id, &event.name, &replica.address);
                return Decision::refused(Code::BrokerIdInvalid, remark);
            }
        }
        let is_there = is_known && replica.address == event.address;
        let moved = (!is_there).then(|| Change::Moved {
            id: event.id,
            address: event.address.clone(),
            check_code: check_code.map(str::to_owned),
        });
        Decision::done(moved)
    }

    fn fenced(&self, event: &Fence) -> Decision {
        let Some(set) = self.set(&event.name) else {
            return Decision::refused(Code::AlterSetFailed, "Broker metadata is not existed");
        };
        match fault_of_seen(set, event.master, event.seen) {
            Some((code, remark)) => Decision::refused(code, remark),
            None => Decision::done(Some(Change::Fenced)),
        }
    }

    fn cleaned(&self, event: &Clean) -> Decision {
        let refused = |remark: String| Decision::refused(Code::InvalidClean, remark);
        let Clean {
            name,
            ids,
            allows_living,
            alive,
        } = event;
        let set = self.set(name);
        if !allows_living {
            if ids.is_empty() && set.is_some_and(|set| set.master.is_some()) {
                return refused(format!("Broker {name} is still alive, clean up failure"));
            }
            if let Some(id) = ids.iter().find(|&id| alive.contains(id)) {
                return refused(format!(
                    "Broker [{name},  {id}] is still alive, clean up failure"
                ));
            }
        }
        let Some(set) = set else {
            return refused(format!(
                "Broker {name} is not existed,clean broker data failure."
            ));
        };
        if ids.is_empty() {
            return Decision::done(Some(Change::NameForgotten));
        }
        let has_some = ids.iter().any(|id| set.replicas.contains_key(id));
        Decision::done(has_some.then(|| Change::Forgotten { ids: ids.clone() }))
    }
}

const REJECTING: &str = "Rejecting alter syncStateSet request because";

fn alteration_fault(set: &BrokerSet, event: &AlterSet) -> Option<(Code, String)> {
    if set.in_sync == event.in_sync {
        let remark =
            "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet";
        return Some((Code::AlterSetFailed, remark.to_owned()));
    }
    if let Some(fault) = fault_of_seen(set, event.master, event.seen) {
        return Some(fault);
    }
    for id in &event.in_sync {
        if !set.replicas.contains_key(id) {
            let remark = format!("{REJECTING} the replicas {{{id}}} don't exist");
            return Some((Code::InvalidReplicas, remark));
        }
        if !event.alive.contains(id) {
            let remark = format!("{REJECTING} the replicas {{{id}}} don't alive");
            return Some((Code::BrokerNotAlive, remark));
        }
    }
    if !event.in_sync.contains(&event.master) {
        let remark = format!(
            "{REJECTING} the newSyncStateSet don't contains origin leader {{{}}}",
            event.master
        );
        return Some((Code::AlterSetFailed, remark));
    }
    None
}

/// Why a master that knows these epochs is not the one whose set counts.
fn fault_of_seen(set: &BrokerSet, master: i64, seen: Epochs) -> Option<(Code, String)> {
    let now = set.master.map_or("null".to_owned(), |id| id.to_string());
    if set.master != Some(master) {
        let remark = format!("{REJECTING} the current leader is:{{{now}}}, not {{{master}}}");
        return Some((Code::InvalidMaster, remark));
    }
    if set.master_epoch != seen.master {
        let remark = format!(
            "{REJECTING} the current master epoch is:{{{}}}, not {{{}}}",
            set.master_epoch, seen.master
        );
        return Some((Code::FencedMasterEpoch, remark));
    }
    if set.set_epoch != seen.set {
        let remark = format!(
            "{REJECTING} the current syncStateSet epoch is:{{{}}}, not {{{}}}",
            set.set_epoch, seen.set
        );
        return Some((Code::FencedSetEpoch, remark));
    }
    if set.set_epoch == i32::MAX {
        return Some((Code::AlterSetFailed, "there is no epoch left".to_owned()));
    }
    None
}

fn held(id: i64, name: &str, address: &str) -> String {
    format!(
        "the id {id} of {name} belongs to the broker at {address}, which is alive: two brokers with one id \
         would take each other's place"
    )
}

fn unknown_id(id: i64, name: &str) -> String {
    format!("BrokerId: {id} hasn't been registered in broker-set: {name}")
}

fn text_fault(texts: &[&str]) -> Option<String> {
    texts.iter().find_map(|text| {
        if text.is_empty() {
            Some("a name or an address is empty".to_owned())
        } else if text.len() > TEXT_BYTES_MAX {
            Some(format!(
                "a name or an address has more than {TEXT_BYTES_MAX} bytes"
            ))
        } else {
            None
        }
    })
}
