//! Bugs that are planted: a test demands that each is found.

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Power loss takes what was synced, too.
    SyncLies,
    /// A controller grants every vote.
    GrantsEveryVote,
    /// A controller takes entries for stored that never reached it.
    StoresNothing,
    /// A read is not confirmed.
    ReadsUnconfirmed,
    /// An entry is acknowledged when it is not known whether it was agreed on.
    AcknowledgesUnknown,
    /// A snapshot lacks the last entry.
    CutsSnapshots,
    /// Who led when it ended leads on after its start.
    LeadsOn,
}

impl Flaw {
    pub(super) const ALL: [Self; 7] = [
        Self::SyncLies,
        Self::GrantsEveryVote,
        Self::StoresNothing,
        Self::ReadsUnconfirmed,
        Self::AcknowledgesUnknown,
        Self::CutsSnapshots,
        Self::LeadsOn,
    ];
}
