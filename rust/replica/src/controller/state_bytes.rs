//! The state as a snapshot. Version 1, all numbers big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version |
//! | 4 | number of names, which follow in ascending order |
//! | 4 + n, 4 + n | name, cluster |
//! | 8 | next id |
//! | 4 + ... | number of brokers, each: id (8), address, check code, in ascending order of ids |
//! | 1 + 8 | whether there is a master, its id |
//! | 4, 4 + 8 n | master epoch, set |
//! | 4, 4 + 8 n | epoch of the set, who is eligible beside it |
//!
//! What is read is checked as what is decided: a set of unknown brokers, a master outside its set or an id
//! above the next one is no state.

use super::bytes::{ByteFault, Reader, Writer};
use super::state::{BrokerSet, ControllerState, Replica};

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;
/// The least bytes of a name with what belongs to it: lengths, counts and numbers.
const SET_BYTES_MIN: usize = 4 + 4 + 8 + 4 + 9 + 4 + 4 + 4 + 4;
/// The least bytes of a broker: id and two lengths.
const REPLICA_BYTES_MIN: usize = 8 + 4 + 4;

impl ControllerState {
    /// The state as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.byte(VERSION);
        to.count(self.sets.len());
        for (name, set) in &self.sets {
            to.text(name);
            write_set(&mut to, set);
        }
        to.bytes
    }

    /// The state that bytes are.
    ///
    /// # Errors
    /// [`ByteFault`]: they are none, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, ByteFault> {
        let mut from = Reader::new(bytes);
        let version = from.byte("the version of a snapshot")?;
        if version != VERSION {
            return Err(ByteFault::BadNumber {
                what: "the version of a snapshot",
                value: version.into(),
            });
        }
        let mut state = Self::default();
        for _ in 0..from.count("broker names", SET_BYTES_MIN)? {
            let name = from.text("a broker name")?;
            let is_in_order = state
                .sets
                .last_key_value()
                .is_none_or(|(last, _)| *last < name);
            if !is_in_order {
                return Err(ByteFault::Disorder {
                    what: "a broker name",
                });
            }
            let set = read_set(&mut from)?;
            state.sets.insert(name, set);
        }
        from.end()?;
        Ok(state)
    }
}

fn write_set(to: &mut Writer, set: &BrokerSet) {
    to.text(&set.cluster);
    to.long(set.next_id);
    to.count(set.replicas.len());
    for (id, replica) in &set.replicas {
        to.long(*id);
        to.text(&replica.address);
        to.text(&replica.check_code);
    }
    to.flag(set.master.is_some());
    to.long(set.master.unwrap_or(0));
    to.int(set.master_epoch);
    to.ids(set.in_sync.iter());
    to.int(set.set_epoch);
    to.ids(set.eligible.iter());
}

fn read_set(from: &mut Reader<'_>) -> Result<BrokerSet, ByteFault> {
    let mut set = BrokerSet::new(from.text("a cluster")?);
    set.next_id = from.long("the next id")?;
    for _ in 0..from.count("brokers", REPLICA_BYTES_MIN)? {
        let id = from.long("an id")?;
        if set
            .replicas
            .last_key_value()
            .is_some_and(|(last, _)| *last >= id)
        {
            return Err(ByteFault::Disorder { what: "an id" });
        }
        let address = from.text("an address")?;
        let check_code = from.text("a check code")?;
        set.replicas.insert(
            id,
            Replica {
                address,
                check_code,
            },
        );
    }
    let has_master = from.flag("whether there is a master")?;
    let master = from.long("a master")?;
    if !has_master && master != 0 {
        return Err(ByteFault::BadNumber {
            what: "the master of a name that has none",
            value: master,
        });
    }
    set.master = has_master.then_some(master);
    set.master_epoch = from.int("a master epoch")?;
    set.in_sync = from.ids("a set")?;
    set.set_epoch = from.int("the epoch of a set")?;
    set.eligible = from.ids("who is eligible")?;
    expect_whole(&set)?;
    Ok(set)
}

/// Checks what holds after every change.
fn expect_whole(set: &BrokerSet) -> Result<(), ByteFault> {
    let bad = |what, value| Err(ByteFault::BadNumber { what, value });
    if let Some(id) = set
        .replicas
        .keys()
        .find(|id| **id < 1 || **id >= set.next_id)
    {
        return bad("an id", *id);
    }
    let known = |id: &&i64| !set.replicas.contains_key(id);
    if let Some(id) = set.in_sync.iter().chain(&set.eligible).find(known) {
        return bad("a member of a set", *id);
    }
    if let Some(id) = set.in_sync.intersection(&set.eligible).next() {
        return bad("who is eligible beside the set", *id);
    }
    if let Some(id) = set.master.filter(|id| !set.in_sync.contains(id)) {
        return bad("a master", id);
    }
    if set.master_epoch < 0 || set.set_epoch < 0 {
        return bad("an epoch", set.master_epoch.min(set.set_epoch).into());
    }
    Ok(())
}
