//! Who asked: what an answer needs of its request. Knows no request's meaning.

use mqcore_wire::header::{ONEWAY, RESPONSE};
use mqcore_wire::{CommandRef, Head, Language, Serialization};

/// Names a connection of a fast path; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ConnectionId(pub u64);

/// What an answer needs of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestContext {
    /// The connection.
    pub connection: ConnectionId,
    /// Copied into the answer.
    pub opaque: i32,
    /// How the answer's header is written.
    pub serialization: Serialization,
    /// Whether there may be no answer.
    pub is_oneway: bool,
    /// The version of the client, as an ordinal.
    pub version: i32,
    /// The request code.
    pub code: i32,
    /// When the step began that received it, us of the clock of the fast path.
    pub received_us: u64,
}

/// Whether a frame with this flag is to be answered.
pub(crate) fn is_answered(flag: i32) -> bool {
    flag & (ONEWAY | RESPONSE) == 0
}

impl RequestContext {
    /// Who sent a command.
    #[must_use]
    pub fn of(connection: ConnectionId, command: &CommandRef<'_>) -> Self {
        Self {
            connection,
            opaque: command.opaque,
            serialization: command.serialization,
            is_oneway: command.flag & ONEWAY != 0,
            version: command.version,
            code: command.code,
            received_us: 0,
        }
    }

    /// The head of the answer, from a broker of this version.
    #[must_use]
    pub fn head<'a>(&self, code: i32, version: i32, remark: Option<&'a str>) -> Head<'a> {
        Head {
            code,
            language: Language::JAVA,
            version,
            opaque: self.opaque,
            flag: RESPONSE,
            remark,
            serialization: self.serialization,
        }
    }
}
