//! Which sends a master may acknowledge: how many slaves must have a message, how far that many are, and
//! whether there are enough of them (`GroupTransferService`, `isSlaveOK` of 4.9, `inSyncReplicasNums` of
//! 5.3). Knows offsets alone.
//!
//! 5.3 counts the master among `inSyncReplicas`, so that its default of 1 waits for nobody: a synchronous
//! master would acknowledge what no slave has. Here 1 waits for one slave, as 4.9 does.

/// The master and one slave: fewer are no synchronous master.
const COPIES_MIN: usize = 2;

/// The settings of how many copies a send waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuorumRule {
    /// `inSyncReplicas`: copies that a send waits for, the master's among them.
    pub in_sync_replicas: usize,
    /// `minInSyncReplicas`: with fewer in sync, the master among them, nothing is stored.
    pub in_sync_replicas_min: usize,
    /// `enableAutoInSyncReplicas`: wait for those alone that are in sync now, and no fewer than the least.
    pub follows_in_sync: bool,
    /// `haMaxGapNotInSync`: a slave that is less behind is in sync.
    pub gap_max_bytes: u64,
    /// `haSlaveFallbehindMax`: a slave that is less behind can be waited for.
    pub behind_max_bytes: u64,
}

/// What holds for a send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standby {
    /// It waits for no slave.
    Unneeded,
    /// It waits for slaves.
    Reachable,
    /// It is stored, and slaves that could be waited for are too few.
    Unavailable,
    /// It is not stored: too few are in sync.
    NotEnough,
}

/// What the reports of all slaves come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuorumDecision {
    /// Everything below is held by as many slaves as sends wait for; 0 where they wait for none.
    pub replicated: u64,
    /// What holds for sends.
    pub standby: Standby,
}

impl QuorumRule {
    /// Decides by how far slaves are, and by what they acknowledge, for a log that ends at `end`: a slave
    /// that has come back is there, and acknowledges what it is sent from then on. What is acknowledged is
    /// put in order.
    #[must_use]
    pub fn decide(&self, reported: &[u64], acknowledged: &mut [u64], end: u64) -> QuorumDecision {
        acknowledged.sort_unstable_by(|one, other| other.cmp(one));
        let nearer = |gap: u64| {
            reported
                .iter()
                .filter(|&&at| end.saturating_sub(at) < gap)
                .count()
        };
        let in_sync = 1 + nearer(self.gap_max_bytes);
        let mut copies = self.in_sync_replicas.max(COPIES_MIN);
        if self.follows_in_sync {
            copies = copies.min(in_sync).max(self.in_sync_replicas_min);
        }
        let standby = if in_sync < self.in_sync_replicas_min {
            Standby::NotEnough
        } else if copies < COPIES_MIN {
            Standby::Unneeded
        } else if nearer(self.behind_max_bytes) + 1 < copies {
            Standby::Unavailable
        } else {
            Standby::Reachable
        };
        let last = copies
            .checked_sub(COPIES_MIN)
            .and_then(|at| acknowledged.get(at));
        QuorumDecision {
            replicated: last.copied().unwrap_or(0),
            standby,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: QuorumRule = QuorumRule {
        in_sync_replicas: 1,
        in_sync_replicas_min: 1,
        follows_in_sync: false,
        gap_max_bytes: 100,
        behind_max_bytes: 500,
    };

    fn decided(rule: QuorumRule, reported: &[u64]) -> (u64, Standby) {
        let decision = rule.decide(reported, &mut reported.to_vec(), 1_000);
        (decision.replicated, decision.standby)
    }

    #[test]
    fn one_slave_is_waited_for_by_default_and_the_farthest_one_counts() {
        for in_sync_replicas in [1, 2] {
            let rule = QuorumRule {
                in_sync_replicas,
                ..RULE
            };
            assert_eq!(decided(rule, &[]), (0, Standby::Unavailable));
            assert_eq!(decided(rule, &[700, 990, 0]), (990, Standby::Reachable));
            assert_eq!(decided(rule, &[501]), (501, Standby::Reachable));
            assert_eq!(decided(rule, &[500]), (500, Standby::Unavailable));
        }
    }

    #[test]
    fn as_many_slaves_as_wanted_must_have_it() {
        let rule = QuorumRule {
            in_sync_replicas: 3,
            ..RULE
        };
        assert_eq!(decided(rule, &[950]), (0, Standby::Unavailable));
        assert_eq!(decided(rule, &[950, 940]), (940, Standby::Reachable));
        assert_eq!(decided(rule, &[10, 950, 940]), (940, Standby::Reachable));
        assert_eq!(decided(rule, &[950, 10]), (10, Standby::Unavailable));
    }

    #[test]
    fn a_slave_that_is_back_is_waited_for_and_acknowledges_nothing_yet() {
        let decision = RULE.decide(&[990, 700], &mut [700, 0], 1_000);
        assert_eq!(
            (decision.replicated, decision.standby),
            (700, Standby::Reachable)
        );
        let decision = RULE.decide(&[990], &mut [0], 1_000);
        assert_eq!(
            (decision.replicated, decision.standby),
            (0, Standby::Reachable)
        );
    }

    #[test]
    fn below_the_least_in_sync_nothing_is_stored() {
        let rule = QuorumRule {
            in_sync_replicas: 2,
            in_sync_replicas_min: 2,
            ..RULE
        };
        assert_eq!(decided(rule, &[]), (0, Standby::NotEnough));
        assert_eq!(decided(rule, &[900]), (900, Standby::NotEnough));
        assert_eq!(decided(rule, &[901]), (901, Standby::Reachable));
    }

    #[test]
    fn with_automatic_numbers_those_in_sync_are_waited_for_and_no_fewer_than_the_least() {
        let rule = QuorumRule {
            in_sync_replicas: 3,
            follows_in_sync: true,
            ..RULE
        };
        assert_eq!(decided(rule, &[]), (0, Standby::Unneeded));
        assert_eq!(decided(rule, &[10]), (0, Standby::Unneeded));
        assert_eq!(decided(rule, &[950, 10]), (950, Standby::Reachable));
        assert_eq!(decided(rule, &[950, 940]), (940, Standby::Reachable));
        let rule = QuorumRule {
            in_sync_replicas_min: 2,
            ..rule
        };
        assert_eq!(decided(rule, &[10]), (10, Standby::NotEnough));
        assert_eq!(decided(rule, &[950]), (950, Standby::Reachable));
    }

    #[test]
    fn what_is_acknowledged_is_held_by_as_many_as_wanted_whatever_is_reported() {
        let all: Vec<u64> = (0..5).map(|at| at * 250).collect();
        for in_sync_replicas in 1..5_usize {
            let rule = QuorumRule {
                in_sync_replicas,
                ..RULE
            };
            for mask in 0..32_u32 {
                let of = |at: &usize| mask & (1 << *at) != 0;
                let reported: Vec<u64> = (0..5).filter(of).map(|at| all[at]).collect();
                let (replicated, _) = decided(rule, &reported);
                let holders = reported.iter().filter(|&&at| at >= replicated).count();
                assert!(replicated == 0 || holders + 1 >= in_sync_replicas.max(2));
            }
        }
    }
}
