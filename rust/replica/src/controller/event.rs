//! What is asked of a controller, with everything that the decision needs, and what is answered. Ids are
//! those that controllers give, from 1; epochs have 32 bits with sign, as on the wire.

use std::collections::BTreeSet;

/// The two numbers of a name that every change moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epochs {
    /// Of its master.
    pub master: i32,
    /// Of its set.
    pub set: i32,
}

/// Who asks for an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// The controller: a master is gone.
    Controller,
    /// A broker that knows of no master: its id.
    Broker(i64),
    /// A person, who wants that broker and no other.
    Administrator(i64),
}

/// A living broker, as its last heartbeat describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: i64,
    /// The last epoch in its log, -1 for none.
    pub epoch: i32,
    /// Where its log ends, -1 where it did not report it.
    pub max_offset: i64,
    /// Of equal ones the smaller number wins.
    pub priority: i32,
}

/// A master wants another set (`ALTER_SYNC_STATE_SET`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterSet {
    /// The broker name.
    pub name: String,
    /// Who asks.
    pub master: i64,
    /// What the master knows.
    pub seen: Epochs,
    /// The set that it wants.
    pub in_sync: BTreeSet<i64>,
    /// Who was alive.
    pub alive: BTreeSet<i64>,
    /// With fewer copies a master acknowledges nothing.
    pub in_sync_min: u32,
}

/// Somebody wants a master (`ELECT_MASTER`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elect {
    /// The broker name.
    pub name: String,
    /// Who asks.
    pub asked_by: AskedBy,
    /// What held when the living were counted; they may have changed since.
    pub seen: Epochs,
    /// Who was alive.
    pub alive: Vec<Candidate>,
    /// Whether a broker may become master that may miss messages.
    pub allows_unclean: bool,
    /// With fewer copies a master acknowledges nothing.
    pub in_sync_min: u32,
}

/// A broker wants an id (`APPLY_BROKER_ID`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyId {
    /// Its cluster.
    pub cluster: String,
    /// Its broker name.
    pub name: String,
    /// The id that it wants.
    pub id: i64,
    /// `address;time`: its own, so that it can ask again.
    pub check_code: String,
}

/// A broker with an id is there (`REGISTER_BROKER`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// Its broker name.
    pub name: String,
    /// Its id.
    pub id: i64,
    /// Where it is reached now.
    pub address: String,
    /// Which process it is; `None` of one that does not name itself (RocketMQ's).
    pub claim: Option<Claim>,
}

/// A process claims an id: of two that start with one directory, or its copy, the first one has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Names the process, `address;time`: the check code of the broker from now on.
    pub check_code: String,
    /// The check code that the broker had when it was looked whether the process of it lives.
    pub seen: String,
    /// Whether that one may live.
    pub is_held: bool,
}

/// A master wants every request for another set that it has sent to be refused, whenever it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The broker name.
    pub name: String,
    /// Who asks.
    pub master: i64,
    /// What the master knows.
    pub seen: Epochs,
}

/// Brokers are to be forgotten (`CLEAN_BROKER_DATA`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clean {
    /// The broker name.
    pub name: String,
    /// Which; none: the whole name.
    pub ids: BTreeSet<i64>,
    /// Whether those that live may be among them.
    pub allows_living: bool,
    /// Who was alive.
    pub alive: BTreeSet<i64>,
}

/// What is asked of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A master wants another set.
    AlterSet(AlterSet),
    /// Somebody wants a master.
    Elect(Elect),
    /// A broker wants an id.
    ApplyId(ApplyId),
    /// A broker with an id is there.
    Register(Register),
    /// Brokers are to be forgotten.
    Clean(Clean),
    /// A master wants what it has asked for to be refused.
    Fence(Fence),
}

impl Event {
    /// The broker name that it is about.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::AlterSet(each) => &each.name,
            Self::Elect(each) => &each.name,
            Self::ApplyId(each) => &each.name,
            Self::Register(each) => &each.name,
            Self::Clean(each) => &each.name,
            Self::Fence(each) => &each.name,
        }
    }
}

/// Official codes of answers (`ResponseCode` of 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// Done.
    Success = 0,
    /// The master epoch moved on.
    FencedMasterEpoch = 2000,
    /// The set's epoch moved on.
    FencedSetEpoch = 2001,
    /// Who asks is not the master.
    InvalidMaster = 2002,
    /// A member of the set is unknown.
    InvalidReplicas = 2003,
    /// The master is gone, and nobody can take over.
    MasterNotAvailable = 2004,
    /// What is asked is no such request.
    InvalidRequest = 2005,
    /// A member of the set is not alive.
    BrokerNotAlive = 2006,
    /// Nothing is known of that name.
    MetadataNotExist = 2008,
    /// It cannot be forgotten.
    InvalidClean = 2009,
    /// It has to get an id first.
    NeedToBeRegistered = 2010,
    /// The master lives.
    MasterStillExist = 2011,
    /// Nobody can be elected.
    ElectMasterFailed = 2012,
    /// The set cannot be altered.
    AlterSetFailed = 2013,
    /// The id belongs to another broker.
    BrokerIdInvalid = 2014,
}

impl Code {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// What is reported of the brokers of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Their cluster.
    pub cluster: String,
    /// The next id that is given.
    pub next_id: i64,
    /// The master, where there is one.
    pub master: Option<i64>,
    /// Its address.
    pub master_address: Option<String>,
    /// The master's epoch.
    pub master_epoch: i32,
    /// The set, in order.
    pub in_sync: Vec<i64>,
    /// The set's epoch.
    pub set_epoch: i32,
    /// Ids and addresses, in order.
    pub replicas: Vec<(i64, String)>,
    /// Ids and check codes, in order.
    pub check_codes: Vec<(i64, String)>,
    /// Who could be elected beside the set, in order.
    pub eligible: Vec<i64>,
}

/// What came of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The official code.
    pub code: Code,
    /// Why, where it was refused; empty where it was done.
    pub remark: String,
    /// Whether the state is another one.
    pub is_changed: bool,
    /// The name behind the event, where it is known.
    pub view: Option<View>,
}
