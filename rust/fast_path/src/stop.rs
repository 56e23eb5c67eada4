//! Why a request processor does not finish a request: the one type behind its `?`.

use crate::mark::Mark;
use crate::refusals::{self, Refused};
use crate::requests::BadField;

/// Why a request is escalated to Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Escalation {
    /// No request processor executes this code.
    Code,
    /// The topic of this name is not known.
    Topic(String),
    /// The group of this name is not known.
    Group(String),
    /// The policy asks for a look first.
    Check,
    /// It is for the master, which another broker is, or soon is.
    PassOn,
}

/// Who decides about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The policy; what it does not decide is escalated.
    ByPolicy,
    /// Python has decided: what is still not allowed is refused.
    Decided,
}

/// Why a request is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A header field is missing or of another type. Officially this is refused before a processor is
    /// asked, so that the response has none of the fields of its family.
    BadHeader(BadField),
    /// It is refused, with the response header of its family.
    Refuse(Refused),
    /// Python decides.
    Escalate(Escalation),
    /// The next log file is not there yet.
    Defer,
    /// Whether it was stored before has to be read from the disk: the mark, and where.
    DuplicateCandidate(Mark, u64),
}

/// `Ok`: the request is answered, parked, held or with the reader threads.
pub(crate) type Processed<T = ()> = Result<T, Stop>;

impl From<BadField> for Stop {
    fn from(bad: BadField) -> Self {
        Self::BadHeader(bad)
    }
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Self {
        Self::Refuse(refused)
    }
}

impl Stop {
    /// The refusal of a request that can neither wait nor be decided on any more.
    pub(crate) fn into_refused(self) -> Refused {
        match self {
            Self::Refuse(refused) => refused,
            Self::BadHeader(bad) => refusals::bad_header(&bad),
            Self::Escalate(_) | Self::Defer | Self::DuplicateCandidate(..) => refusals::overload(),
        }
    }

    /// A topic that is not known: Python may make it, or the request is refused.
    pub(crate) fn topic(name: &str, how: How, refused: impl FnOnce(&str) -> Refused) -> Self {
        match how {
            How::ByPolicy => Self::Escalate(Escalation::Topic(name.to_owned())),
            How::Decided => Self::Refuse(refused(name)),
        }
    }

    /// A group that is not known: Python may make it, or the request is refused.
    pub(crate) fn group(name: &str, how: How, refused: impl FnOnce(&str) -> Refused) -> Self {
        match how {
            How::ByPolicy => Self::Escalate(Escalation::Group(name.to_owned())),
            How::Decided => Self::Refuse(refused(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_has_decided_on_is_refused() {
        let stop = Stop::topic("t", How::Decided, refusals::no_topic);
        assert_eq!(stop, Stop::Refuse(refusals::no_topic("t")));
        let stop = Stop::topic("t", How::ByPolicy, refusals::no_topic);
        assert_eq!(stop, Stop::Escalate(Escalation::Topic("t".to_owned())));
        let stop = Stop::group("g", How::ByPolicy, refusals::no_group);
        assert_eq!(stop, Stop::Escalate(Escalation::Group("g".to_owned())));
    }
}
