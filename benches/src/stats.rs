//! Order statistics of what was measured. Pure.

/// The middle value; 0 for none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The value that a `share` (0 to 1) of `sorted` does not exceed; 0 for none.
#[must_use]
pub fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted
        .get(rank.clamp(1, sorted.len().max(1)) - 1)
        .copied()
        .unwrap_or(0)
}

/// The middle ratio of pairs that were measured one after the other: what the machine did in a
/// slow minute hits both of a pair.
#[must_use]
pub fn median_ratio(pairs: &[(f64, f64)]) -> f64 {
    let ratios: Vec<f64> = pairs
        .iter()
        .map(|(reached, limit)| reached / limit)
        .collect();
    median(&ratios)
}

/// A number as people read it: 12.3 M, 4.56 k.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.2} G", value / 1e9),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
