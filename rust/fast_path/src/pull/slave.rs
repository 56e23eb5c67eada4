//! How a slave answers a pull where a master would answer otherwise (`PullMessageProcessor`,
//! `DefaultMessageStore.nextOffsetCorrection`): it may be behind its master, so that an offset which it does
//! not have is no wrong one, and consumers go back to the master where there is one. Pure; knows no store
//! and no connection.

use mqcore_engine::store::GetStatus;

use crate::codes;
use crate::policy::{Group, Slave};
use crate::pull::slow::MASTER;

/// The parts of an answer that depend on the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) code: i32,
    pub(crate) next_offset: u64,
    pub(crate) suggested: i64,
}

/// What was asked and found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) offset: i64,
    pub(crate) status: GetStatus,
    pub(crate) is_far: bool,
    pub(crate) group: Option<&'a Group>,
}

impl Slave {
    /// The answer of a slave where that of a master would be `reply`.
    pub(crate) fn reply(self, asked: Asked<'_>, reply: Reply) -> Reply {
        if let Some(missing) = self.missing(asked, reply) {
            return missing;
        }
        let goes_back = self.sends_back && self.has_master && !asked.is_far;
        if !goes_back {
            return reply;
        }
        let code = if asked.status == GetStatus::Found {
            reply.code
        } else {
            codes::PULL_RETRY_IMMEDIATELY
        };
        Reply {
            code,
            suggested: MASTER,
            ..reply
        }
    }

    /// The answer for an offset that this broker does not have; `None` where it has it, or checks.
    fn missing(self, asked: Asked<'_>, reply: Reply) -> Option<Reply> {
        let is_missing = reply.code == codes::PULL_OFFSET_MOVED
            && asked.status != GetStatus::OffsetReset
            && !self.checks_offsets;
        let next_offset = u64::try_from(asked.offset).ok().filter(|_| is_missing)?;
        let code = if self.has_master {
            codes::PULL_RETRY_IMMEDIATELY
        } else {
            // The master may have it when it is back, also what is before the begin of a slave that
            // started later. To ask again at once would be a busy loop, and to go to what this broker
            // has would repeat or leave out messages.
            codes::PULL_NOT_FOUND
        };
        Some(Reply {
            code,
            next_offset,
            suggested: asked.group.map_or(MASTER, |group| group.broker_id),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOVED: Reply = Reply {
        code: codes::PULL_OFFSET_MOVED,
        next_offset: 3,
        suggested: 1,
    };
    const FOUND: Reply = Reply {
        code: codes::SUCCESS,
        next_offset: 8,
        suggested: 1,
    };

    fn slave(has_master: bool) -> Slave {
        Slave {
            has_master,
            checks_offsets: false,
            sends_back: true,
        }
    }

    fn asked(status: GetStatus) -> Asked<'static> {
        Asked {
            offset: 7,
            status,
            is_far: false,
            group: None,
        }
    }

    #[test]
    fn an_offset_that_is_missing_is_asked_of_the_master_again() {
        let expected = Reply {
            code: codes::PULL_RETRY_IMMEDIATELY,
            next_offset: 7,
            suggested: MASTER,
        };
        for status in [
            GetStatus::OffsetOverflowBadly,
            GetStatus::OffsetTooSmall,
            GetStatus::NoMessageInQueue,
            GetStatus::NoMatchedLogicQueue,
        ] {
            assert_eq!(slave(true).reply(asked(status), MOVED), expected);
        }
    }

    #[test]
    fn without_a_master_what_it_may_have_is_waited_for() {
        for status in [GetStatus::OffsetOverflowBadly, GetStatus::OffsetTooSmall] {
            let waits = slave(false).reply(asked(status), MOVED);
            assert_eq!((waits.code, waits.next_offset), (codes::PULL_NOT_FOUND, 7));
        }
    }

    #[test]
    fn an_offset_that_was_reset_is_moved_to_by_a_slave_too() {
        let reset = slave(false).reply(asked(GetStatus::OffsetReset), MOVED);
        assert_eq!(reset, MOVED);
    }

    #[test]
    fn consumers_that_are_not_far_behind_go_back_to_the_master() {
        let found = slave(true).reply(asked(GetStatus::Found), FOUND);
        assert_eq!((found.code, found.suggested), (codes::SUCCESS, MASTER));
        let nothing = Reply {
            code: codes::PULL_NOT_FOUND,
            ..FOUND
        };
        let end = slave(true).reply(asked(GetStatus::OffsetOverflowOne), nothing);
        assert_eq!(
            (end.code, end.suggested),
            (codes::PULL_RETRY_IMMEDIATELY, MASTER)
        );
        let far = Asked {
            is_far: true,
            ..asked(GetStatus::Found)
        };
        assert_eq!(slave(true).reply(far, FOUND), FOUND);
        assert_eq!(slave(false).reply(asked(GetStatus::Found), FOUND), FOUND);
    }

    proptest! {
        #[test]
        fn one_that_checks_and_sends_nobody_back_answers_as_a_master(
            has_master: bool, is_far: bool, offset: i64, moved: bool,
        ) {
            let slave = Slave { has_master, checks_offsets: true, sends_back: false };
            let reply = if moved { MOVED } else { FOUND };
            let asked = Asked { offset, is_far, ..asked(GetStatus::OffsetTooSmall) };
            prop_assert_eq!(slave.reply(asked, reply), reply);
        }
    }
}
