//! Events as the entries of a controllers' log. Version 1, all numbers big-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version |
//! | 1 | kind |
//! | 4 + n | broker name: length, UTF-8 |
//! | ... | the fields of that kind, in the order of its struct; an id is 8 bytes, an epoch 4, a set of ids its count (4) and the ids in ascending order |

use std::collections::BTreeSet;

use super::bytes::{ByteFault, Reader, Writer};
use super::event::{
    AlterSet, ApplyId, AskedBy, Candidate, Claim, Clean, Elect, Epochs, Event, Fence, Register,
};

/// The version that is written, and the only one that is read.
const VERSION: u8 = 1;

const ALTER_SET: u8 = 1;
const ELECT: u8 = 2;
const APPLY_ID: u8 = 3;
const REGISTER: u8 = 4;
const CLEAN: u8 = 5;
/// As [`REGISTER`], with a claim.
const CLAIM: u8 = 6;
const FENCE: u8 = 7;

const BY_CONTROLLER: u8 = 0;
const BY_BROKER: u8 = 1;
const BY_ADMINISTRATOR: u8 = 2;

/// Bytes of a candidate: id, epoch, offset, priority.
const CANDIDATE_BYTES: usize = 8 + 4 + 8 + 4;

impl Event {
    /// The event as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.byte(VERSION);
        match self {
            Self::AlterSet(event) => {
                to.byte(ALTER_SET);
                to.text(&event.name);
                to.long(event.master);
                write_epochs(&mut to, event.seen);
                to.ids(event.in_sync.iter());
                to.ids(event.alive.iter());
                to.number(event.in_sync_min);
            }
            Self::Elect(event) => {
                to.byte(ELECT);
                to.text(&event.name);
                write_asked_by(&mut to, event.asked_by);
                write_epochs(&mut to, event.seen);
                to.count(event.alive.len());
                for each in &event.alive {
                    to.long(each.id);
                    to.int(each.epoch);
                    to.long(each.max_offset);
                    to.int(each.priority);
                }
                to.flag(event.allows_unclean);
                to.number(event.in_sync_min);
            }
            Self::ApplyId(event) => {
                to.byte(APPLY_ID);
                to.text(&event.name);
                to.text(&event.cluster);
                to.long(event.id);
                to.text(&event.check_code);
            }
            Self::Register(event) => {
                let kind = event.claim.as_ref().map_or(REGISTER, |_| CLAIM);
                to.byte(kind);
                to.text(&event.name);
                to.long(event.id);
                to.text(&event.address);
                if let Some(claim) = &event.claim {
                    to.text(&claim.check_code);
                    to.text(&claim.seen);
                    to.flag(claim.is_held);
                }
            }
            Self::Fence(event) => {
                to.byte(FENCE);
                to.text(&event.name);
                to.long(event.master);
                write_epochs(&mut to, event.seen);
            }
            Self::Clean(event) => {
                to.byte(CLEAN);
                to.text(&event.name);
                to.ids(event.ids.iter());
                to.flag(event.allows_living);
                to.ids(event.alive.iter());
            }
        }
        to.bytes
    }

    /// The event that bytes are.
    ///
    /// # Errors
    /// [`ByteFault`]: they are none, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, ByteFault> {
        let mut from = Reader::new(bytes);
        expect_version(&mut from)?;
        let kind = from.byte("the kind of an event")?;
        let name = from.text("a broker name")?;
        let event = match kind {
            ALTER_SET => Self::AlterSet(read_alter_set(&mut from, name)?),
            ELECT => Self::Elect(read_elect(&mut from, name)?),
            APPLY_ID => Self::ApplyId(ApplyId {
                name,
                cluster: from.text("a cluster")?,
                id: from.long("an id")?,
                check_code: from.text("a check code")?,
            }),
            REGISTER | CLAIM => Self::Register(read_register(&mut from, name, kind == CLAIM)?),
            FENCE => Self::Fence(Fence {
                name,
                master: from.long("a master")?,
                seen: read_epochs(&mut from)?,
            }),
            CLEAN => Self::Clean(Clean {
                name,
                ids: from.ids("ids to forget")?,
                allows_living: from.flag("whether the living may go")?,
                alive: from.ids("the living")?,
            }),
            other => {
                return Err(ByteFault::BadNumber {
                    what: "the kind of an event",
                    value: other.into(),
                });
            }
        };
        from.end()?;
        Ok(event)
    }
}

fn expect_version(from: &mut Reader<'_>) -> Result<(), ByteFault> {
    match from.byte("the version of an event")? {
        VERSION => Ok(()),
        other => Err(ByteFault::BadNumber {
            what: "the version of an event",
            value: other.into(),
        }),
    }
}

fn write_epochs(to: &mut Writer, epochs: Epochs) {
    to.int(epochs.master);
    to.int(epochs.set);
}

fn read_epochs(from: &mut Reader<'_>) -> Result<Epochs, ByteFault> {
    Ok(Epochs {
        master: from.int("a master epoch")?,
        set: from.int("the epoch of a set")?,
    })
}

fn write_asked_by(to: &mut Writer, asked_by: AskedBy) {
    let (kind, id) = match asked_by {
        AskedBy::Controller => (BY_CONTROLLER, 0),
        AskedBy::Broker(id) => (BY_BROKER, id),
        AskedBy::Administrator(id) => (BY_ADMINISTRATOR, id),
    };
    to.byte(kind);
    to.long(id);
}

fn read_asked_by(from: &mut Reader<'_>) -> Result<AskedBy, ByteFault> {
    let what = "who asks for an election";
    let kind = from.byte(what)?;
    let id = from.long(what)?;
    match kind {
        BY_CONTROLLER if id == 0 => Ok(AskedBy::Controller),
        BY_BROKER => Ok(AskedBy::Broker(id)),
        BY_ADMINISTRATOR => Ok(AskedBy::Administrator(id)),
        other => Err(ByteFault::BadNumber {
            what,
            value: other.into(),
        }),
    }
}

fn read_register(
    from: &mut Reader<'_>,
    name: String,
    has_claim: bool,
) -> Result<Register, ByteFault> {
    let (id, address) = (from.long("an id")?, from.text("an address")?);
    let claim = if has_claim {
        Some(Claim {
            check_code: from.text("a check code")?,
            seen: from.text("a check code")?,
            is_held: from.flag("whether the id is held")?,
        })
    } else {
        None
    };
    Ok(Register {
        name,
        id,
        address,
        claim,
    })
}

fn read_alter_set(from: &mut Reader<'_>, name: String) -> Result<AlterSet, ByteFault> {
    Ok(AlterSet {
        name,
        master: from.long("a master")?,
        seen: read_epochs(from)?,
        in_sync: from.ids("a set")?,
        alive: from.ids("the living")?,
        in_sync_min: from.number("the least number of copies")?,
    })
}

fn read_elect(from: &mut Reader<'_>, name: String) -> Result<Elect, ByteFault> {
    let asked_by = read_asked_by(from)?;
    let seen = read_epochs(from)?;
    let count = from.count("the living", CANDIDATE_BYTES)?;
    let mut alive = Vec::with_capacity(count);
    let mut ids = BTreeSet::new();
    for _ in 0..count {
        let candidate = Candidate {
            id: from.long("an id")?,
            epoch: from.int("an epoch")?,
            max_offset: from.long("an offset")?,
            priority: from.int("a priority")?,
        };
        if !ids.insert(candidate.id) {
            return Err(ByteFault::Disorder { what: "the living" });
        }
        alive.push(candidate);
    }
    Ok(Elect {
        name,
        asked_by,
        seen,
        alive,
        allows_unclean: from.flag("whether the election may be unclean")?,
        in_sync_min: from.number("the least number of copies")?,
    })
}
