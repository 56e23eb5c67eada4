//! Why a link ends, in words for an operator: each names the offsets that do not agree.

/// Why a link of replication is closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// A slave reported a negative offset.
    #[error("the slave reports offset {reported}, which is no place in a log")]
    NegativeReport {
        /// What it reported.
        reported: i64,
    },
    /// A slave holds what its master does not.
    #[error(
        "the slave is ahead: it reports {reported}, our log ends at {end}. One of the two has lost \
         messages, or they were never copies of each other: compare them, and empty the store of the \
         one that is to be filled anew"
    )]
    SlaveAhead {
        /// What it reported first.
        reported: u64,
        /// Where the master's log ends.
        end: u64,
    },
    /// A slave holds what its master has not sent it.
    #[error(
        "the slave is ahead: it reports {reported}, and our log was there up to {known_end} when it was \
         opened, and was sent no farther since. One of the two has lost messages, or they were never \
         copies of each other: compare them, and empty the store of the one that is to be filled anew"
    )]
    NeverSent {
        /// What it reported first.
        reported: u64,
        /// Where the log ended when it was opened, or what was sent since.
        known_end: u64,
    },
    /// A slave's log has other bytes than its master's.
    #[error(
        "the master's bytes at {offset} are not ours: the two logs are no copies of each other there. \
         Compare them, and empty the store of the one that is to be filled anew"
    )]
    OtherBytes {
        /// Where they lie.
        offset: u64,
    },
    /// A master's log ends before its slave's.
    #[error(
        "the master has nothing behind {offset}, and our log ends at {end}: the two are no copies of each \
         other there. Compare them, and empty the store of the one that is to be filled anew"
    )]
    EndsBefore {
        /// Where the master's log ends.
        offset: u64,
        /// Where ours does.
        end: u64,
    },
    /// What a slave wants was removed.
    #[error(
        "the slave wants to go on at {reported}, and our log begins at {start}: what is between was \
         removed. Stop the slave, and begin its log anew: `mqcore store refill --set-aside` has the whole log \
         and keeps the old one"
    )]
    SlaveTooFarBehind {
        /// What it reported first.
        reported: u64,
        /// Where the master's log begins.
        start: u64,
    },
    /// A slave reported more than it was sent.
    #[error("the slave reports {reported}, and was sent the log up to {sent}")]
    ReportBeyondSent {
        /// What it reported.
        reported: u64,
        /// What was sent.
        sent: u64,
    },
    /// A master's header has a negative number.
    #[error("the master sent a header with offset {offset} and length {len_bytes}")]
    BadHeader {
        /// Its offset.
        offset: i64,
        /// Its length.
        len_bytes: i32,
    },
    /// A master goes on at another place.
    #[error(
        "the master goes on at {offset}, and our log ends at {end}: the two are no copies of each \
         other there. Compare them, and empty the store of the one that is to be filled anew"
    )]
    OtherOffset {
        /// Where the master goes on.
        offset: u64,
        /// Where our log ends.
        end: u64,
    },
    /// A master begins a fresh log where no file begins.
    #[error(
        "the master begins at {offset}, which is no multiple of {file_len_bytes} bytes: set \
         mappedFileSizeCommitLog as the master has it"
    )]
    NotAtFile {
        /// Where it begins.
        offset: u64,
        /// Length of our log files.
        file_len_bytes: u64,
    },
    /// What a master sent is no record.
    #[error("the master sent bytes at {offset} that are no record: {why}")]
    NoRecord {
        /// Where they lie.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// Nothing came for too long.
    #[error("nothing came for {silent_ms} ms")]
    Silent {
        /// For how long.
        silent_ms: u64,
    },
    /// A frame of AutoSwitch that is none, or comes out of turn.
    #[error(
        "what came is no frame of controller mode: {why}. Where the other end is a broker of ours, set \
         enableControllerMode on both, or on neither"
    )]
    BadFrame {
        /// What is wrong.
        why: String,
    },
    /// A slave in controller mode at a master that is not.
    #[error(
        "the slave introduces itself as one in controller mode, and we are in none: set \
         enableControllerMode on both, or on neither"
    )]
    OtherDialect,
    /// A master has no epoch that the log here has.
    #[error(
        "no epoch of the master is one of ours: its log and ours are no copies of each other \
         (its last epoch is {theirs}, ours is {ours}). Empty the store of the one that is to be filled \
         anew"
    )]
    NoCommonEpoch {
        /// Its last epoch, -1 for none.
        theirs: i32,
        /// Ours.
        ours: i32,
    },
    /// A master that was deposed, and has not heard of it.
    #[error(
        "the master's last epoch is {theirs}, and our log has epoch {ours}: another one was master since. \
         Nothing is copied of it, and nothing cut for it; the controller names the new one"
    )]
    OldMaster {
        /// Its last epoch.
        theirs: i32,
        /// Ours.
        ours: i32,
    },
    /// The log here goes on behind the last place that its master has, too.
    #[error(
        "our log is a copy of the master's up to {offset} (epoch {epoch}): what is behind must be cut \
         first"
    )]
    CutNeeded {
        /// Where it must end.
        offset: u64,
        /// The last common epoch.
        epoch: i32,
    },
    /// The last place that a master's log and ours have in common was removed here.
    #[error(
        "our log is a copy of the master's up to {offset}, and begins at {start}: nothing of it can stay. \
         Stop this broker, and begin its log anew: `mqcore store refill --set-aside` has the whole log and \
         keeps the old one"
    )]
    NothingInCommon {
        /// The place.
        offset: u64,
        /// Where our log begins.
        start: u64,
    },
    /// Somebody gives an id that is no slave's.
    #[error("the slave gives {id} as its id, which no slave of ours has")]
    BadId {
        /// The id.
        id: i64,
    },
}

impl LinkFault {
    /// What it comes to where our log begins at `start`: before that it cannot be cut.
    #[must_use]
    pub fn at_log_from(self, start: u64) -> Self {
        match self {
            Self::CutNeeded { offset, .. } if offset < start => {
                Self::NothingInCommon { offset, start }
            }
            fault => fault,
        }
    }
}
