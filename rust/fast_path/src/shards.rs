//! Which shard of shared state something belongs to: state of many names is in several parts, each behind
//! a lock of its own, so that requests about different names do not wait for one another. Knows nothing of
//! what is in them.

use mqcore_engine::lock::{Mutex, MutexGuard};

/// Shards: some more than a large broker has reactors, so that few of what is asked for at the same time
/// share one; few enough that a report looks at all of them.
pub(crate) const SHARDS: usize = 16;

/// Bits of a shard's number.
const SHARD_BITS: u32 = SHARDS.trailing_zeros();

const _: () = assert!(SHARDS.is_power_of_two());

/// A lock for each shard.
#[derive(Debug, Default)]
pub(crate) struct Shards<T>([Shard<T>; SHARDS]);

/// By the cache line, so that one shard's lock does not slow down its neighbour.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard<T>(Mutex<T>);

impl<T> Shards<T> {
    /// What `each` makes for the number of a shard.
    pub(crate) fn from_fn(mut each: impl FnMut(usize) -> T) -> Self {
        Self(std::array::from_fn(|at| Shard(Mutex::new(each(at)))))
    }

    /// What is in a shard; the number is one that [`shard_of_number`] or [`shard_of_name`] gave.
    ///
    /// # Blocking
    /// While another thread has this shard.
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, T> {
        let [first, ..] = &self.0;
        self.0.get(shard).unwrap_or(first).0.lock()
    }

    /// Every shard.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Mutex<T>> {
        self.0.iter().map(|shard| &shard.0)
    }
}

/// The shard of a number: numbers that follow one another are spread evenly, whatever their distance.
pub(crate) fn shard_of_number(number: u64) -> usize {
    // Every bit of a number reaches the upper ones of the product.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHARD_BITS)) as usize
}

/// The shard of a name. FNV-1a: a name of some twenty bytes costs less than the look for it afterwards.
pub(crate) fn shard_of_name(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    // The last bytes of a name reach the lower bits alone.
    shard_of_number(hash ^ (hash >> 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: usize = 64;

    /// Whether each shard has between half and twice its part.
    fn are_even(shards: impl Iterator<Item = usize>) -> bool {
        let mut counts = [0; SHARDS];
        for shard in shards {
            counts[shard] += 1;
        }
        counts
            .iter()
            .all(|count| (EACH / 2..EACH * 2).contains(count))
    }

    #[test]
    fn names_and_numbers_are_spread_over_all_shards() {
        let all = 0..SHARDS * EACH;
        assert!(are_even(
            all.clone().map(|at| shard_of_name(&format!("topic_{at}")))
        ));
        for distance in [1, 2, 16, 20, 1_000, 1_024, 1 << 32] {
            let numbers = all.clone().map(|at| at as u64 * distance);
            assert!(
                are_even(numbers.map(shard_of_number)),
                "distance {distance}"
            );
        }
    }
}
