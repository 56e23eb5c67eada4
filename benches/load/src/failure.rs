//! Why a run could not be made.

use std::net::SocketAddr;
use std::path::PathBuf;

use mqcore_wire::WireError;

/// What ended a run before its time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A socket failed.
    #[error("{what} {address}: {error}")]
    Socket {
        what: &'static str,
        address: SocketAddr,
        error: std::io::Error,
    },
    /// A file failed.
    #[error("{path}: {error}")]
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    /// The system failed.
    #[error("{what}: {error}")]
    System {
        what: &'static str,
        error: std::io::Error,
    },
    /// Bytes of the peer are no answer.
    #[error("{address} does not speak the protocol: {error}")]
    Bytes {
        address: SocketAddr,
        error: WireError,
    },
    /// A request was refused.
    #[error("{address} refused {what}: code {code}, {remark}")]
    Refused {
        address: SocketAddr,
        what: &'static str,
        code: i32,
        remark: String,
    },
    /// A command could not be written, or a message made.
    #[error("{0}")]
    Message(String),
    /// The route has no broker.
    #[error("the name server knows no broker for {topic}")]
    NoBroker { topic: String },
    /// No connection is left.
    #[error("the broker {address} is gone: {why}")]
    Gone { address: SocketAddr, why: String },
}

impl Failure {
    /// The failure of a run that has lost its broker.
    pub(crate) fn gone(address: SocketAddr, why: &impl ToString) -> Self {
        Self::Gone {
            address,
            why: why.to_string(),
        }
    }
}

/// What a step of a run gives.
pub(crate) type Outcome<T> = Result<T, Failure>;
