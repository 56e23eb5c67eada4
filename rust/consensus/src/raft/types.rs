//! The types that openraft is used with, and the records that they are on disk. Bytes are hexadecimal text in
//! JSON: entries are some hundred bytes, and what is written can be read by a person.

#[cfg(not(test))]
use openraft::TokioRuntime as Runtime;
use openraft::{BasicNode, Entry, LogId, SnapshotMeta, Vote};
use serde::{Deserialize, Serialize};

// The same, with times of elections that a seed draws.
#[cfg(test)]
use super::simulation::runtime::Runtime;

/// The number of a controller in its group.
pub(super) type NodeId = u64;

/// An entry that somebody proposed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proposal(#[serde(with = "hex")] pub(super) Vec<u8>);

impl std::fmt::Debug for Proposal {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} bytes", self.0.len())
    }
}

openraft::declare_raft_types!(
    /// What openraft is used with. Answers do not pass it: the state keeps those of its last entries.
    pub(crate) Types:
        D = Proposal,
        R = (),
        NodeId = u64,
        Node = BasicNode,
        Entry = openraft::Entry<Types>,
        SnapshotData = std::io::Cursor<Vec<u8>>,
        AsyncRuntime = Runtime,
);

/// A whole state, in the place of the entries that led to it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptSnapshot {
    pub(super) meta: SnapshotMeta<NodeId, BasicNode>,
    #[serde(with = "hex")]
    pub(super) bytes: Vec<u8>,
}

/// Everything that a log keeps.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Whole {
    pub(super) vote: Option<Vote<NodeId>>,
    pub(super) purged: Option<LogId<NodeId>>,
    pub(super) snapshot: Option<KeptSnapshot>,
    pub(super) entries: Vec<Entry<Types>>,
}

/// A record of the journal.
#[derive(Clone, Serialize, Deserialize)]
pub(super) enum Record {
    /// The first one: everything.
    Whole(Whole),
    /// For whom it votes.
    Vote(Vote<NodeId>),
    /// More entries.
    Entries(Vec<Entry<Types>>),
    /// Entries from that index on are gone.
    Truncate(u64),
    /// Another snapshot.
    Snapshot(KeptSnapshot),
}

mod hex {
    //! Bytes as hexadecimal text.

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const DIGITS: &[u8; 16] = b"0123456789abcdef";

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
        let text: String = bytes
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
            .collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let pairs = text.as_bytes().chunks(2);
        let bytes = pairs.map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        });
        bytes
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(|| D::Error::custom("bytes are no hexadecimal text"))
    }
}
