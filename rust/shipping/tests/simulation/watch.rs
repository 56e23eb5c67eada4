//! The looks behind every step: marks, logs, reports, queues, and why links ended. What does not hold is
//! given back in words, and ends the history.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use mqcore_engine::commit_log::{Scan, scan};
use mqcore_record::CrcCheck;
use mqcore_record::layout::MAGIC_BLANK;

use super::ledger::{Checked, Sent, demand};
use super::network::Pair;
use super::node::{Duty, SimStore, log_bytes};
use super::world::{QUEUE_KEYS, World};

/// Reports that slaves have written and nobody has looked at yet; shared with the tap of the network.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reports(Rc<RefCell<Vec<(Pair, u64)>>>);

impl Reports {
    pub(crate) fn push(&self, pair: Pair, report: u64) {
        self.0.borrow_mut().push((pair, report));
    }

    pub(crate) fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    pub(crate) fn take(&self) -> Vec<(Pair, u64)> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

impl World {
    /// Looks at everything that a step may have changed.
    pub(crate) fn watch(&mut self) -> Checked {
        self.let_strangers_go();
        for node in 1..self.nodes.len() {
            let seen = self.watch_log(node);
            if self.has_met_stop(node) {
                self.die_inside(node)?;
            } else {
                seen?;
            }
        }
        self.watch_marks()
    }

    /// The marks of all replicas.
    pub(crate) fn watch_marks(&mut self) -> Checked {
        for node in 0..self.nodes.len() {
            let Some(store) = self.nodes[node].store() else {
                continue;
            };
            let positions = &store.files().positions;
            let (flushed, replicated) = (
                positions.flushed.position(),
                positions.replicated.position(),
            );
            if self.nodes[node].twin.is_stopped() {
                continue;
            }
            self.ledger.note_marks(node, flushed);
            if node == 0 {
                self.ledger.note_replicated(replicated)?;
            }
        }
        Ok(())
    }

    /// What a slave's log has grown by.
    fn watch_log(&mut self, node: usize) -> Checked {
        let Some(store) = self.nodes[node].store() else {
            return Ok(());
        };
        let end = store.replica().appended();
        if self.ledger.promises[node].end == 0 {
            let start = store.replica().extent().start;
            if start > 0 && !self.nodes[node].twin.is_stopped() {
                self.count.begun_later += 1;
                self.ledger.begun(node, start)?;
            }
        }
        let from = self.ledger.promises[node].end;
        if end <= from {
            return Ok(());
        }
        let bytes = log_bytes(store, from, end);
        let store = Arc::clone(store);
        // What it held beyond its master, the master may have stored again since: two records begin alike.
        self.compare_diverged(node, &store, from);
        if self.nodes[node].twin.is_stopped() {
            return Ok(());
        }
        self.trace.note(end);
        demand!(
            from + bytes.len() as u64 == end,
            "slave {node} has nothing at {}, and its log ends at {end}",
            from + bytes.len() as u64
        );
        let is_old = self.nodes[node].last_master != self.nodes[0].incarnation;
        self.ledger.grown(node, &bytes, end, is_old)
    }

    /// How far the log of a slave that has diverged is its master's, of what it has up to `end`.
    fn compare_diverged(&mut self, node: usize, store: &SimStore, end: u64) {
        if self.ledger.promises[node].has_diverged() {
            let bytes = log_bytes(store, self.ledger.promises[node].start, end);
            if !self.nodes[node].twin.is_stopped() {
                self.ledger.compared(node, &bytes);
            }
        }
    }

    /// What slaves have just reported.
    pub(crate) fn watch_reports(&mut self) -> Checked {
        for (pair, report) in self.reports.take() {
            let Some(Some(node)) = self.near.get(&pair).copied() else {
                continue;
            };
            self.watch_log(node)?;
            let Some(store) = self.nodes[node].store() else {
                continue;
            };
            if self.nodes[node].twin.is_stopped() {
                continue;
            }
            let appended = store.replica().appended();
            let store = Arc::clone(store);
            self.compare_diverged(node, &store, appended);
            if self.nodes[node].twin.is_stopped() {
                // At the look itself, which calls the disk too.
                continue;
            }
            let flushed = store.files().positions.flushed.position();
            let durable = self.options.is_synced[node].then_some(flushed);
            self.trace.note(report);
            self.trace
                .line(|| format!("node {node} reports {report} over {pair}"));
            let reported = (pair, report);
            self.ledger.note_report(node, reported, appended, durable)?;
        }
        Ok(())
    }

    /// What readers of a node see in its queues: the places that its log gives, for ever.
    pub(crate) fn watch_queues(&mut self, node: usize) -> Checked {
        let Some(store) = self.nodes[node].store().cloned() else {
            return Ok(());
        };
        for (at, queue_key) in QUEUE_KEYS.into_iter().enumerate() {
            let topic = queue_key.0.as_bytes();
            let bounds = store.topics().bounds(topic, queue_key.1);
            let Some(bounds) = bounds.map_err(|error| error.to_string())? else {
                continue;
            };
            let seen = self.nodes[node]
                .process
                .as_ref()
                .map_or(0, |process| process.seen[at]);
            let mut from = bounds.min.max(seen);
            while from < bounds.max {
                let mut units = Vec::new();
                let read = store
                    .queues()
                    .read(topic, queue_key.1, from, 100, &mut units);
                read.map_err(|error| error.to_string())?;
                if units.is_empty() {
                    break;
                }
                for unit in units {
                    let expected = self.ledger.physical_offset(queue_key, from);
                    let is_known = expected == u64::try_from(unit.physical_offset).ok();
                    let is_own = self.ledger.promises[node].has_diverged();
                    demand!(
                        unit.is_blank() || is_known || is_own,
                        "{queue_key:?} {from} of node {node} is the message at {}, and the master's \
                         is at {expected:?}",
                        unit.physical_offset
                    );
                    from += 1;
                }
            }
            if let Some(process) = &mut self.nodes[node].process {
                process.seen[at] = from;
            }
        }
        Ok(())
    }

    /// What a replica holds after it was opened.
    pub(crate) fn check_opened(&mut self, node: usize) -> Checked {
        let Some(store) = self.nodes[node].store().cloned() else {
            return Ok(());
        };
        let has_lost = std::mem::take(&mut self.nodes[node].has_lost_power);
        let start = store.replica().extent().start;
        let end = store.replica().appended().max(start);
        let bytes = log_bytes(&store, start, end);
        self.count.torn += u64::from(store.report().cut.kept_aside_bytes > 0);
        self.trace.note(end);
        self.trace
            .line(|| format!("node {node} opens with {start} to {end}"));
        demand!(
            bytes.len() as u64 == end - start,
            "node {node} cannot read its log from {start} to {end}"
        );
        if node == 0 {
            self.adopt(&store)?;
            self.ledger.replicated = 0;
        }
        let before = self.ledger.promises[node].end;
        self.ledger.reopened(node, start, &bytes, has_lost)?;
        self.count.cut_logs += u64::from(end < before);
        if node == 0 {
            self.ledger.cut(end);
        }
        Ok(())
    }

    /// A master that died while it appended may hold a message more than was seen.
    fn adopt(&mut self, store: &SimStore) -> Checked {
        let end = self.ledger.end();
        let last_end = self.ledger.sent.last().map_or(0, |sent| sent.end);
        let walk = Scan {
            from: last_end.max(store.files().chain.start()),
            limit: store.files().readable(),
            crc: CrcCheck::Verify,
            is_recovery: true,
            torn_from: 0,
            has_property_crc: false,
            forgets: false,
        };
        if walk.limit <= end {
            return Ok(());
        }
        let mut found = Vec::new();
        let walked = scan(&store.files().chain, walk, |record, at| {
            let queue_key = QUEUE_KEYS.iter().find(|(topic, queue_id)| {
                topic.as_bytes() == record.topic && *queue_id == record.queue_id
            });
            found.extend(queue_key.map(|queue_key| Sent {
                queue_key: *queue_key,
                queue_offset: record.queue_offset.cast_unsigned(),
                begin: at,
                end: at + record.total_len_bytes as u64,
                ticket: None,
                needs_replica: false,
                status: None,
            }));
            Ok(true)
        });
        walked.map_err(|error| error.to_string())?;
        for sent in found {
            if sent.begin >= last_end && sent.end > self.ledger.end() {
                let bytes = log_bytes(store, self.ledger.end(), sent.end);
                self.ledger.appended(&bytes, sent)?;
            }
        }
        // Or the blank end of a file, and the message that was to go behind it is not there.
        let rest = log_bytes(store, self.ledger.end(), store.files().readable());
        let is_blank = rest.get(4..8) == Some(&MAGIC_BLANK.to_be_bytes());
        if is_blank {
            self.ledger.history.extend(rest);
        }
        Ok(())
    }

    /// The master has closed a link. A slave is refused for a reason that is so, and for no other.
    pub(crate) fn note_ended_by_master(&mut self, address: &str, why: &str) -> Checked {
        self.trace
            .line(|| format!("the master closes {address}: {why}"));
        let pair = address
            .rsplit(':')
            .next()
            .and_then(|pair| pair.parse::<Pair>().ok());
        let Some((pair, Some(node))) = pair.and_then(|pair| Some((pair, *self.near.get(&pair)?)))
        else {
            return Ok(());
        };
        self.ledger.closed(node, pair);
        let is_ahead = why.contains("the slave is ahead");
        let is_behind = why.contains("wants to go on") || why.contains("has nothing at");
        if (is_ahead || is_behind) && self.is_left(node, pair) {
            return Ok(());
        }
        let promise = &self.ledger.promises[node];
        if is_ahead {
            self.count.ahead += 1;
            self.nodes[node].refused = Some(why.to_owned());
            // An empty log may begin where the master's does no more: it has lost all that it had.
            let is_so = promise.has_diverged() || promise.end > self.ledger.end();
            demand!(is_so, "slave {node} is refused, and it is not ahead: {why}");
        } else if is_behind {
            self.count.too_far_behind += 1;
            self.nodes[node].refused = Some(why.to_owned());
            // A slave that is at the very begin of a file has the one before it compared.
            let is_so = promise.end < self.ledger.promises[0].start + 256;
            demand!(
                is_so,
                "slave {node} is refused, and it is not behind: {why}"
            );
        } else {
            self.note_plain_end(why)?;
        }
        Ok(())
    }

    /// Whether a slave has left a connection: its log may be another one since, and nobody is refused. A master does
    /// not learn of it when the slave's machine is without power, and goes on sending what it asked for then.
    fn is_left(&self, node: usize, pair: Pair) -> bool {
        let of_node = |(_, other): &(&Pair, &Option<usize>)| **other == Some(node);
        let newest = self.near.iter().rev().find(of_node);
        !self.is_linked(node) || newest.is_none_or(|(newest, _)| *newest != pair)
    }

    /// A slave has closed its link.
    pub(crate) fn note_ended_by_slave(&mut self, node: usize, why: &str) -> Checked {
        self.trace.line(|| format!("slave {node} closes: {why}"));
        if why.contains("are no copies of each other") {
            self.count.other_refusals += 1;
            // A broker waits longer before it asks again.
            self.nodes[node].refused = Some(why.to_owned());
            let is_so = self.ledger.promises[node].has_diverged();
            demand!(
                is_so,
                "slave {node} refuses its master, and has its log: {why}"
            );
            return Ok(());
        }
        self.note_plain_end(why)
    }

    fn note_plain_end(&mut self, why: &str) -> Checked {
        let is_silence = why.contains("nothing came");
        self.count.silences += u64::from(is_silence);
        // Retention took what was being compared: the next link begins behind it.
        let is_removed = why.contains("our log has nothing at") && self.count.removed > 0;
        let is_plain = is_silence
            || is_removed
            || why.contains("closed the connection")
            || why.contains("reset");
        demand!(is_plain, "a link of a slave ended: {why}");
        Ok(())
    }

    /// Whether a node is connected, by its role.
    pub(crate) fn is_linked(&self, node: usize) -> bool {
        self.nodes[node].process.as_ref().is_some_and(
            |process| matches!(&process.duty, Duty::Slave { link, .. } if link.is_some()),
        )
    }
}
