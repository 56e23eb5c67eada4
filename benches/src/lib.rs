//! What the benches share: directories on a real disk, stores that are ready, the physical limits
//! to which each figure is compared, gauges of the process and the machine, and rows of results.
//! Knows the engine's public face only.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

pub mod bench_dir;
pub mod cgroup;
pub mod gauge;
pub mod limits;
pub mod rows;
pub mod served;
pub mod stats;
pub mod stores;

/// Whether `MQCORE_BENCH=quick` asks for the short form: fewer rounds, smaller stores.
#[must_use]
pub fn is_quick() -> bool {
    std::env::var("MQCORE_BENCH").is_ok_and(|mode| mode == "quick")
}

/// `full`, or `quick` when the short form is asked for.
#[must_use]
pub fn by_mode<T>(full: T, quick: T) -> T {
    if is_quick() { quick } else { full }
}

/// Whether the row whose name contains one of `MQCORE_BENCH_ONLY` (separated by `|`) is wanted;
/// without that variable every row is.
#[must_use]
pub fn is_wanted(name: &str) -> bool {
    match std::env::var("MQCORE_BENCH_ONLY") {
        Ok(wanted) => wanted.split('|').any(|part| name.contains(part.trim())),
        Err(_) => true,
    }
}
