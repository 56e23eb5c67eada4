//! Quotas as they are now, for reports. No logic.

use mqcore_fast_path::quotas::elsewhere::Wait;
use mqcore_fast_path::quotas::{Row, Rules};
use pyo3::prelude::*;

use crate::frozen::frozen;

frozen! {
    /// A rule of `mqcoreQuotas` as it is now.
    QuotaRow {
        /// Whose, as it is written: `topic:orders*`.
        rule: String,
        /// Messages that may be sent a second, bytes sent, messages read, bytes read; 0 for no bound.
        rates: [u64; 4],
        /// Requests that were held back.
        held: u64,
        /// For how long in all, ms.
        held_ms: u64,
        /// Requests that were refused.
        refused: u64,
        /// Requests that are held back now.
        waiting: u64,
        /// Names that use it now.
        names: usize,
        /// Those that owe most.
        owing: Vec<String>,
        /// The time until each of them owes nothing, ms.
        owed_ms: Vec<u64>,
    }
}

frozen! {
    /// What becomes of a request that Python answers, by the quotas of who asks.
    QuotaWait {
        /// It waits for so long, ms; 0 for not at all.
        wait_ms: u64,
        /// It is refused then, with these words.
        refusal: Option<String>,
    }
}

impl QuotaWait {
    pub(crate) fn of(wait: Wait) -> Self {
        let Wait { wait_ms, refusal } = wait;
        Self { wait_ms, refusal }
    }
}

impl QuotaRow {
    pub(crate) fn of(row: Row) -> Self {
        let (owing, owed_ms) = row.owing.into_iter().unzip();
        Self {
            rule: row.rule.to_string(),
            rates: row.rates,
            held: row.counts.held,
            held_ms: row.counts.held_ms,
            refused: row.counts.refused,
            waiting: row.counts.waiting,
            names: row.names,
            owing,
            owed_ms,
        }
    }
}

/// What is wrong with the rules of quotas: none where they can be read.
#[pyfunction]
pub(crate) fn quotas_fault(text: &str) -> Option<String> {
    Rules::read(text).err()
}
