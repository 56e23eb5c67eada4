//! The answers of an append under the names of the official store (`PutMessageStatus`). Knows only
//! errors.

use std::fmt;

use mqcore_record::RecordError;

use crate::error::Error;

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PutStatus {
    /// Stored as the settings promise.
    PutOk,
    /// Stored, but the sync was not confirmed in time.
    FlushDiskTimeout,
    /// Stored, but no replica confirmed in time.
    FlushSlaveTimeout,
    /// Stored, but no replica is near enough.
    SlaveNotAvailable,
    /// Refused: closed, read-only, poisoned or disk full.
    ServiceNotAvailable,
    /// Refused: the next log file could not be made.
    CreateMappedFileFailed,
    /// Refused: topic, body or batch are not allowed.
    MessageIllegal,
    /// Refused: properties too long.
    PropertiesSizeExceeded,
    /// Refused: the append lock is held too long.
    OsPageCacheBusy,
    /// Refused: too few replicas in sync.
    InSyncReplicasNotEnough,
    /// Refused for a reason without a name of its own.
    UnknownError,
}

impl PutStatus {
    /// The official name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PutOk => "PUT_OK",
            Self::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            Self::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            Self::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
            Self::ServiceNotAvailable => "SERVICE_NOT_AVAILABLE",
            Self::CreateMappedFileFailed => "CREATE_MAPPED_FILE_FAILED",
            Self::MessageIllegal => "MESSAGE_ILLEGAL",
            Self::PropertiesSizeExceeded => "PROPERTIES_SIZE_EXCEEDED",
            Self::OsPageCacheBusy => "OS_PAGE_CACHE_BUSY",
            Self::InSyncReplicasNotEnough => "IN_SYNC_REPLICAS_NOT_ENOUGH",
            Self::UnknownError => "UNKNOWN_ERROR",
        }
    }

    /// Whether the message is in the log.
    #[must_use]
    pub fn is_stored(self) -> bool {
        matches!(
            self,
            Self::PutOk
                | Self::FlushDiskTimeout
                | Self::FlushSlaveTimeout
                | Self::SlaveNotAvailable
        )
    }

    /// The status that goes with a refusal.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Message(RecordError::PropertiesTooLong { .. }) => Self::PropertiesSizeExceeded,
            Error::Message(_) => Self::MessageIllegal,
            Error::NoSegment { .. } => Self::CreateMappedFileFailed,
            Error::PageCacheBusy { .. } => Self::OsPageCacheBusy,
            Error::Timeout { .. } => Self::FlushDiskTimeout,
            Error::Poisoned { .. }
            | Error::NotWritable { .. }
            | Error::Closed
            | Error::Forked { .. }
            | Error::Locked { .. }
            | Error::Limit { .. } => Self::ServiceNotAvailable,
            Error::Io { .. }
            | Error::Config { .. }
            | Error::WrongFileSize { .. }
            | Error::ForeignFile { .. }
            | Error::Damaged { .. }
            | Error::NoRecord { .. }
            | Error::BadText { .. } => Self::UnknownError,
        }
    }
}

impl fmt::Display for PutStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
