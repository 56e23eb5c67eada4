//! A bucket of tokens that fills at a rate, as a time: until when what was taken is paid for. Pure; times are
//! passed in, and need not rise.

/// How much may be taken at once after a pause: what a second brings.
pub const BURST_NS: u64 = 1_000_000_000;
const NS_PER_S: u128 = 1_000_000_000;

/// A bucket. A new one is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// When the bucket is full again.
    full_at_ns: u64,
}

/// How long a rate needs to bring an amount.
fn cost_ns(amount: u64, per_second: u64) -> u64 {
    let cost = (u128::from(amount) * NS_PER_S).div_ceil(u128::from(per_second.max(1)));
    u64::try_from(cost).unwrap_or(u64::MAX)
}

impl Bucket {
    /// When an amount may be taken at the earliest: when there is as much, and of more than a full bucket
    /// has when it is full. Nothing may be taken while the bucket owes some.
    #[inline]
    #[must_use]
    pub fn earliest_ns(&self, amount: u64, per_second: u64, now_ns: u64) -> u64 {
        let needed_ns = cost_ns(amount, per_second).min(BURST_NS);
        let at_ns = self.full_at_ns.saturating_add(needed_ns);
        now_ns.max(at_ns.saturating_sub(BURST_NS))
    }

    /// Takes an amount, at once or for [`Bucket::earliest_ns`]. What is taken before the time of others is
    /// not taken twice.
    #[inline]
    pub fn take(&mut self, amount: u64, per_second: u64, now_ns: u64) {
        let from_ns = self.full_at_ns.max(now_ns);
        self.full_at_ns = from_ns.saturating_add(cost_ns(amount, per_second));
    }

    /// Whether it is as good as a new one.
    #[must_use]
    pub const fn is_full(&self, now_ns: u64) -> bool {
        self.full_at_ns <= now_ns
    }

    /// For how long it still owes what was taken, ns.
    #[must_use]
    pub const fn owes_ns(&self, now_ns: u64) -> u64 {
        self.full_at_ns
            .saturating_sub(now_ns.saturating_add(BURST_NS))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_burst_of_a_second_goes_at_once_and_the_rest_by_the_rate() {
        let mut bucket = Bucket::default();
        for _ in 0..10 {
            assert_eq!(bucket.earliest_ns(1, 10, 5 * S), 5 * S);
            bucket.take(1, 10, 5 * S);
        }
        assert_eq!(bucket.earliest_ns(1, 10, 5 * S), 5 * S + S / 10);
        bucket.take(1, 10, 5 * S);
        assert_eq!(bucket.earliest_ns(1, 10, 5 * S), 5 * S + S / 5);
        assert_eq!(bucket.owes_ns(5 * S), S / 10);
        assert!(bucket.is_full(8 * S));
    }

    #[test]
    fn what_is_larger_than_the_bucket_goes_when_it_is_full_and_is_paid_for() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.earliest_ns(50, 10, S), S);
        bucket.take(50, 10, S);
        assert_eq!(bucket.earliest_ns(1, 10, S), 5 * S + S / 10);
        assert_eq!(bucket.earliest_ns(0, 10, S), 5 * S, "it owes four seconds");
    }

    #[test]
    fn huge_numbers_end_at_the_end_of_time() {
        let mut bucket = Bucket::default();
        bucket.take(u64::MAX, 1, u64::MAX);
        assert_eq!(bucket.earliest_ns(u64::MAX, 1, 0), u64::MAX - BURST_NS);
    }

    proptest! {
        /// In no span of time is more begun than the rate brings in it, and one burst.
        #[test]
        fn never_more_than_the_rate_and_a_burst(
            rate in 1_u64..1_000,
            asked in prop::collection::vec((0_u64..400_000_000, 1_u64..1_000), 1..200),
        ) {
            let mut bucket = Bucket::default();
            let (mut now_ns, mut begun) = (0, Vec::new());
            for (pause_ns, amount) in asked {
                now_ns += pause_ns;
                // What is more than a bucket holds has a test of its own.
                let amount = amount.min(rate);
                let at_ns = bucket.earliest_ns(amount, rate, now_ns);
                bucket.take(amount, rate, now_ns);
                begun.push((at_ns, amount));
            }
            for (first, (from_ns, _)) in begun.iter().enumerate() {
                let mut sum = 0;
                for (at_ns, amount) in &begun[first..] {
                    sum += amount;
                    let most = u128::from(rate) * u128::from(at_ns - from_ns) / NS_PER_S + u128::from(rate);
                    prop_assert!(u128::from(sum) <= most + 1, "{sum} in {} ns", at_ns - from_ns);
                }
            }
        }

        /// Whoever waits goes in the order of asking, and the rate is used up.
        #[test]
        fn first_come_is_first_served_and_nothing_is_left_lying(rate in 1_u64..1_000, count in 1_u64..3_000) {
            let mut bucket = Bucket::default();
            let mut last_ns = 0;
            for _ in 0..count {
                let at_ns = bucket.earliest_ns(1, rate, 0);
                bucket.take(1, rate, 0);
                prop_assert!(at_ns >= last_ns);
                last_ns = at_ns;
            }
            // A burst at once, the rest one after the other; costs are rounded up to whole ns.
            let least_ns = u128::from(count.saturating_sub(rate)) * NS_PER_S / u128::from(rate);
            prop_assert!(u128::from(last_ns) <= least_ns + u128::from(count) + NS_PER_S / u128::from(rate));
        }
    }
}
