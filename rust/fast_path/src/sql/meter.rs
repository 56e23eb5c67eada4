//! What a test may cost, and what it has cost. A unit is a single test, or what can be read of the
//! properties in its time: about 5 ns.

/// Bytes that are compared, or searched for separators, in one unit.
const COMPARED_PER_UNIT: usize = 16;
/// Bytes that are searched for a text, or read as a number, in one unit.
const READ_PER_UNIT: usize = 4;

/// Work that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meter {
    left: usize,
    spent: usize,
}

impl Meter {
    /// So much work and no more.
    #[must_use]
    pub fn of(work: usize) -> Self {
        Self {
            left: work,
            spent: 0,
        }
    }

    /// Counts only.
    #[must_use]
    pub fn endless() -> Self {
        Self::of(usize::MAX)
    }

    /// Whether all was spent: what was tested last is not known.
    #[inline]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Work that was done.
    #[must_use]
    pub fn spent(&self) -> usize {
        self.spent
    }

    /// Takes off work.
    #[inline]
    pub fn spend(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
        self.spent = self.spent.saturating_add(work);
    }

    #[inline]
    pub(super) fn compare(&mut self, bytes: usize) {
        self.spend(bytes / COMPARED_PER_UNIT);
    }

    #[inline]
    pub(super) fn read(&mut self, bytes: usize) {
        self.spend(bytes / READ_PER_UNIT);
    }
}
