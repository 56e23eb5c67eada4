//! What a broker has written down of its own progress, by the end of the log that it rests on: a twin of
//! `python/mqcore/broker/progress_history.py`.

use mqcore_replica::{EpochTable, LogEnd};

/// States that are kept (`STATES_MAX`).
const STATES_MAX: usize = 16;

/// States of something, oldest first: ends of logs rise.
#[derive(Debug, Clone)]
pub(crate) struct History<T> {
    states: Vec<(LogEnd, T)>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { states: Vec::new() }
    }
}

impl<T> History<T> {
    /// The state that is on the disk, whatever has become of the log.
    pub(crate) fn last(&self) -> Option<&T> {
        self.states.last().map(|(_end, state)| state)
    }

    /// The newest state whose log this one goes on with.
    pub(crate) fn newest(&self, epochs: &EpochTable, log_end: u64) -> Option<&T> {
        let mut states = self.states.iter().rev();
        let found = states.find(|(end, _state)| epochs.has(*end, log_end));
        found.map(|(_end, state)| state)
    }

    /// Adds a state that rests on the log up to `offset`.
    pub(crate) fn add(&mut self, epochs: &EpochTable, offset: u64, state: T) {
        self.states
            .retain(|(end, _state)| end.offset < offset && epochs.has(*end, offset));
        self.states.push((epochs.end_at(offset), state));
        if self.states.len() > STATES_MAX {
            let at = self.most_crowded(offset);
            self.states.remove(at);
        }
    }

    /// The state between two others that lie the closest together, by how far back they are.
    fn most_crowded(&self, offset: u64) -> usize {
        let back = |at: usize| offset - self.states[at].0.offset + 1;
        let ratio = |at: &usize| (back(at - 1) << 20) / back(at + 1);
        (1..self.states.len() - 1).min_by_key(ratio).unwrap_or(0)
    }
}
