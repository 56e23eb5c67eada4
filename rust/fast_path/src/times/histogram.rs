//! Counts of durations in bounds that are powers of two, and in bounds that are given. Knows no request.

/// Bounds of a [`Durations`]: 1 us, 2 us, 4 us and so on to 16.8 s; what is longer is above all of them.
pub const BOUNDS: usize = 25;

/// How long something took, each time: by powers of two of a microsecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many were at most so long as the bound of this bucket and longer than the one before; the
    /// last bucket has what is longer than all.
    pub counts: [u64; BOUNDS + 1],
    /// All together, us.
    pub sum_us: u64,
    /// The longest, us.
    pub max_us: u64,
}

impl Durations {
    /// The bound of a bucket, us; `None` for the last one.
    #[must_use]
    pub fn bound_us(bucket: usize) -> Option<u64> {
        (bucket < BOUNDS).then(|| 1 << bucket)
    }

    /// Takes a duration that so many had.
    #[inline]
    pub fn add(&mut self, us: u64, times: u64) {
        // The bucket of the smallest power of two that is not below it.
        let bits = u64::BITS - us.saturating_sub(1).leading_zeros();
        let bucket = (bits as usize).min(BOUNDS);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += times;
        }
        self.sum_us = self.sum_us.saturating_add(us.saturating_mul(times));
        self.max_us = self.max_us.max(us);
    }

    /// Takes what another one has.
    pub fn add_all(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Counts below bounds that rise; the last bucket has what is above all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Below<const BUCKETS: usize> {
    /// By bucket.
    pub counts: [u64; BUCKETS],
    /// All values together.
    pub sum: u64,
}

impl<const BUCKETS: usize> Default for Below<BUCKETS> {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            sum: 0,
        }
    }
}

impl<const BUCKETS: usize> Below<BUCKETS> {
    /// Takes a value that so many had; `bounds` has one bucket less.
    #[inline]
    pub fn add(&mut self, value: u64, times: u64, bounds: &[u64]) {
        let bucket = bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += times;
        }
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
    }

    /// Takes what another one has.
    pub fn add_all(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_at_the_smallest_bound_that_it_does_not_pass() {
        let mut durations = Durations::default();
        for us in [0, 1, 2, 3, 4, 5, 1 << 24, (1 << 24) + 1, u64::MAX] {
            durations.add(us, 1);
        }
        let at = |bucket: usize| durations.counts[bucket];
        assert_eq!((at(0), at(1), at(2), at(3)), (2, 1, 2, 1));
        assert_eq!((at(24), at(BOUNDS)), (1, 2));
        assert_eq!(durations.count(), 9);
        assert_eq!(durations.max_us, u64::MAX);
        assert_eq!(Durations::bound_us(3), Some(8));
        assert_eq!(Durations::bound_us(BOUNDS), None);
    }

    #[test]
    fn values_are_counted_below_given_bounds() {
        let mut below = Below::<3>::default();
        for value in [0, 10, 11, 100, 101] {
            below.add(value, 2, &[10, 100]);
        }
        assert_eq!(below.counts, [4, 4, 2]);
        assert_eq!(below.sum, 444);
    }
}
