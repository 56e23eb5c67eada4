//! The end of a history: faults stop, everything heals, and each slave catches up or is refused for a reason
//! that is so; then all logs and queues are compared whole.

use super::ledger::{Checked, demand};
use super::node::log_bytes;
use super::world::{Event, World};

/// For how long sends go on after the last fault, ms.
const LOAD_AFTER_MS: u64 = 2_000;
/// Everything must have caught up then, ms: several silences of a link, and the whole log once more at the
/// slowest rate.
const SETTLE_MAX_MS: u64 = 1_000_000;

impl World {
    /// No fault any more.
    pub(crate) fn heal(&mut self) -> Checked {
        self.trace.line(|| "everything heals".to_owned());
        self.is_faulty = false;
        self.network.heal();
        self.strangers.clear();
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until_ms = 0;
            if !self.nodes[node].twin.is_stopped() {
                self.nodes[node].twin.heal();
            }
            self.nodes[node].refused = None;
            self.plan(0, Event::Start { node });
            self.plan_turn(node, 0);
        }
        Ok(())
    }

    /// Goes on until every slave has what the master has.
    pub(crate) fn settle(&mut self) -> Checked {
        let load_until_ms = self.now_ms + LOAD_AFTER_MS;
        let until_ms = self.now_ms + SETTLE_MAX_MS;
        while self.now_ms < until_ms {
            self.is_loaded = self.now_ms < load_until_ms;
            self.step()?;
            for node in 1..self.nodes.len() {
                if self.nodes[node].refused.take().is_some() {
                    self.empty(node)?;
                }
            }
            if !self.is_loaded && self.have_all_caught_up() {
                self.count.caught_up += self.options.slaves as u64;
                return Ok(());
            }
        }
        let states: Vec<String> = (0..self.nodes.len())
            .map(|node| {
                let known = &self.nodes[node];
                format!(
                    "node {node}: {:?}, open {}, linked {}",
                    self.ledger.promises[node],
                    known.process.is_some(),
                    self.is_linked(node),
                )
            })
            .collect();
        Err(format!(
            "{SETTLE_MAX_MS} ms after the last fault not every slave has caught up:\n{}",
            states.join("\n")
        ))
    }

    fn have_all_caught_up(&self) -> bool {
        let end = self.ledger.end();
        let slaves = self.ledger.promises.iter().enumerate().skip(1);
        let mut slaves = slaves.map(|(node, promise)| {
            let is_whole = promise.end == end && promise.agrees_to == end;
            is_whole && promise.reported() == end && self.nodes[node].process.is_some()
        });
        self.nodes[0].process.is_some() && slaves.all(|has_caught_up| has_caught_up)
    }

    /// Compares all logs and queues whole.
    pub(crate) fn compare_all(&mut self) -> Checked {
        for node in 0..self.nodes.len() {
            let store = self.nodes[node].store().cloned();
            let store = store.ok_or_else(|| format!("node {node} is down at the end"))?;
            let (start, end) = (store.replica().extent().start, store.replica().appended());
            let bytes = log_bytes(&store, start, end);
            demand!(
                self.ledger.bytes(start, end) == Some(&bytes[..]),
                "the log of node {node} from {start} to {end} is not that of the master"
            );
            store
                .durability()
                .flush()
                .map_err(|error| error.to_string())?;
            while store
                .dispatching()
                .step()
                .map_err(|error| error.to_string())?
            {}
            if let Some(process) = &mut self.nodes[node].process {
                process.seen.fill(0);
            }
            self.watch_queues(node)?;
            let is_clean = store.close().map_err(|error| error.to_string())?;
            demand!(
                is_clean,
                "node {node} does not close: {:?}",
                store.notices()
            );
        }
        Ok(())
    }
}
