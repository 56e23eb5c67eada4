//! How often what happened: a sample in which a kind never happens judges nothing.

/// Counts of one history, or of many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) kills: u64,
    pub(super) power_losses: u64,
    pub(super) stops: u64,
    pub(super) failures: u64,
    pub(super) failed_starts: u64,
    pub(super) isolations: u64,
    pub(super) cuts: u64,
    pub(super) slow: u64,
    pub(super) lost: u64,
    pub(super) snapshots: u64,
    pub(super) reigns: u64,
    pub(super) entries: u64,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    pub(super) refused_and_applied: u64,
    pub(super) late: u64,
    pub(super) reads: u64,
    pub(super) others: u64,
}

impl Count {
    /// Counts what came of a proposal or a read.
    pub(super) fn add(&mut self, what: &str) {
        *match what {
            "acknowledged" => &mut self.acknowledged,
            "refused" => &mut self.refused,
            "late" => &mut self.late,
            "read" => &mut self.reads,
            _ => &mut self.others,
        } += 1;
    }

    fn fields(&mut self) -> [(&'static str, &mut u64); 18] {
        [
            ("kills", &mut self.kills),
            ("power losses", &mut self.power_losses),
            ("stops inside of a call", &mut self.stops),
            ("failures of a disk", &mut self.failures),
            ("rare: starts that failed", &mut self.failed_starts),
            ("isolations", &mut self.isolations),
            ("one-way cuts", &mut self.cuts),
            ("slow spells", &mut self.slow),
            ("lost messages", &mut self.lost),
            ("snapshots sent", &mut self.snapshots),
            ("leaders", &mut self.reigns),
            ("entries", &mut self.entries),
            ("acknowledged", &mut self.acknowledged),
            ("refused", &mut self.refused),
            ("rare: refused and applied", &mut self.refused_and_applied),
            ("late", &mut self.late),
            ("reads", &mut self.reads),
            ("rare: other ends", &mut self.others),
        ]
    }

    /// Adds those of another history.
    pub(super) fn sum(&mut self, mut other: Self) {
        for ((_, to), (_, from)) in self.fields().into_iter().zip(other.fields()) {
            *to += *from;
        }
    }

    /// Every kind with its number.
    pub(super) fn all(&mut self) -> Vec<(&'static str, u64)> {
        self.fields()
            .into_iter()
            .map(|(name, number)| (name, *number))
            .collect()
    }
}
