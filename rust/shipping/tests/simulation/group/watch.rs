//! The looks behind every step: logs, marks, reports, queues, the set. What does not hold is given back in
//! words, and ends the history.

use std::sync::Arc;

use mqcore_engine::store::OpenHow;
use mqcore_replica::controller::View;

use super::flaw::Flaw;
use super::sends::QUEUES;
use super::world::World;
use crate::ledger::{Checked, demand};
use crate::node::{SimStore, log_bytes};

impl World {
    /// Looks at everything that a step may have changed.
    pub(crate) fn watch(&mut self) -> Checked {
        for broker in 0..self.nodes.len() {
            let seen = self.watch_broker(broker);
            if self.has_met_stop(broker) {
                self.die_inside(broker)?;
            } else {
                seen?;
            }
        }
        Ok(())
    }

    /// The log and the marks of a broker.
    pub(crate) fn watch_broker(&mut self, broker: usize) -> Checked {
        self.watch_log(broker)?;
        let Some(opened) = self.nodes[broker].opened() else {
            return Ok(());
        };
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        let positions = &opened.store.files().positions;
        let (flushed, confirmed) = (
            positions.flushed.position(),
            opened.store.replica().confirmed(),
        );
        let before = opened.confirmed;
        self.ledger.note_marks(broker, flushed);
        demand!(
            confirmed >= before,
            "the confirm offset of broker {broker} falls from {before} to {confirmed}"
        );
        // With synchronous flush they see no more than the disk has.
        let is_synced = self.options.is_synced[broker];
        let visible = confirmed.min(if is_synced { flushed } else { u64::MAX });
        if confirmed > before || visible > self.ledger.promised_end() {
            if let Some(opened) = self.nodes[broker].opened_mut() {
                opened.confirmed = confirmed;
            }
            self.trace.note(confirmed);
            self.ledger
                .promise(broker, visible, "lets readers see its log")?;
        }
        Ok(())
    }

    /// What a broker's log has grown by.
    pub(crate) fn watch_log(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store() else {
            return Ok(());
        };
        if self.ledger.copies[broker].end() == 0 {
            let start = store.replica().extent().start;
            if start > 0 && !self.nodes[broker].twin.is_stopped() {
                self.count.begun_later += 1;
                self.ledger.begun(broker, start)?;
            }
        }
        let (from, end) = (self.ledger.copies[broker].end(), store.replica().appended());
        if end <= from || self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        let store = Arc::clone(store);
        let bytes = log_bytes(&store, from, end);
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        demand!(
            from + bytes.len() as u64 == end,
            "broker {broker} has nothing at {}, and its log ends at {end}",
            from + bytes.len() as u64
        );
        self.trace.note(end);
        self.ledger.grown(broker, &bytes)
    }

    /// What slaves have just reported.
    pub(crate) fn watch_frames(&mut self) -> Checked {
        for (pair, report) in self.frames.take() {
            let Some((broker, _)) = self.ends.get(&pair).copied() else {
                continue;
            };
            self.watch_log(broker)?;
            let Some(store) = self.nodes[broker].store() else {
                continue;
            };
            if self.nodes[broker].twin.is_stopped() {
                continue;
            }
            let flushed = store.files().positions.flushed.position();
            let durable = self.options.is_synced[broker].then_some(flushed);
            self.trace.note(report);
            self.trace
                .line(|| format!("broker {broker} reports {report} over {pair}"));
            self.ledger.reported(broker, report, durable)?;
        }
        Ok(())
    }

    /// What readers of a broker see in its queues: the places that its log gives, for ever.
    pub(crate) fn watch_queues(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        for (at, queue_key) in QUEUES.into_iter().enumerate() {
            let topic = queue_key.0.as_bytes();
            let bounds = store.topics().bounds(topic, queue_key.1);
            let Some(bounds) = bounds.map_err(|error| error.to_string())? else {
                continue;
            };
            let seen = self.nodes[broker]
                .opened()
                .map_or(0, |opened| opened.seen[at]);
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
                    if !unit.is_blank() {
                        let at = unit.physical_offset.cast_unsigned();
                        self.ledger.seen(broker, (queue_key, from), at)?;
                    }
                    from += 1;
                }
            }
            if let Some(opened) = self.nodes[broker].opened_mut() {
                opened.seen[at] = from;
            }
        }
        Ok(())
    }

    /// What a broker holds after its store was opened.
    pub(crate) fn check_opened(&mut self, broker: usize, how: OpenHow) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let has_lost = std::mem::take(&mut self.nodes[broker].has_lost_power);
        let start = store.replica().extent().start;
        let bytes = [self.ledger.before(broker, start), whole_log(&store)?].concat();
        if self.nodes[broker].twin.is_stopped() {
            return Ok(());
        }
        let report = store.report();
        if has_lost && !report.is_tail_certain {
            self.ledger.may_have_lost(broker);
        }
        let cut = match how {
            OpenHow::CutAt(at) => Some(at),
            _ => {
                self.count.torn += u64::from(report.cut.kept_aside_bytes > 0);
                None
            }
        };
        self.trace.note(bytes.len() as u64);
        self.trace
            .line(|| format!("broker {broker} opens with {} bytes", bytes.len()));
        let has_died_inside = std::mem::take(&mut self.nodes[broker].has_died_inside);
        let ended = (has_lost, has_died_inside);
        self.ledger.opened(broker, bytes, ended, cut)
    }

    /// What the controllers have agreed on is looked at when it has changed.
    pub(crate) fn watch_set(&mut self) -> Checked {
        let Some(view) = self.controllers.view() else {
            return Ok(());
        };
        let now = (view.master_epoch, view.set_epoch);
        if now == self.set_seen {
            return Ok(());
        }
        demand!(
            now.0 >= self.set_seen.0 && now.1 >= self.set_seen.1 || self.flaw.is_some(),
            "the epochs of master and set fall from {:?} to {now:?}",
            self.set_seen
        );
        self.set_seen = now;
        self.note_holders()
    }

    /// Who may be elected now must hold what is promised.
    pub(crate) fn note_holders(&mut self) -> Checked {
        let Some(view) = self.view() else {
            return Ok(());
        };
        let ids = view.in_sync.iter().chain(&view.eligible);
        let holder = |id: &i64| {
            self.nodes
                .iter()
                .position(|node| node.identity == Some(*id))
        };
        self.ledger.holders = ids.filter_map(holder).collect();
        self.note_least_kept();
        let learner = self.options.learner;
        demand!(
            learner.is_none_or(|learner| !self.ledger.holders.contains(&learner)),
            "{learner:?} is a learner, and may be elected: {view:?}"
        );
        let why = format!(
            "the set is {:?}, with {:?} beside it",
            view.in_sync, view.eligible
        );
        self.ledger.check_holders(&why)
    }

    /// A broker was elected: out of the set, or of those beside it; else by hand.
    pub(crate) fn check_elected(
        &mut self,
        new: &View,
        could_lead: &std::collections::BTreeSet<i64>,
        is_by_hand: bool,
    ) -> Checked {
        let is_first = new.master_epoch == 1;
        let is_of_set = new
            .master
            .is_some_and(|master| could_lead.contains(&master));
        demand!(
            is_first || is_of_set || is_by_hand,
            "{:?} is elected, and only {could_lead:?} hold what was acknowledged",
            new.master
        );
        Ok(())
    }

    /// A broker leads. Where power loss has taken what it had promised, and it kept its id all the same,
    /// because nobody else of the set lived, what it lacks is given up.
    pub(crate) fn check_leading(&mut self, broker: usize, epoch: i32) -> Checked {
        let is_back = self.ledger.leads(broker, epoch)?;
        self.count.brought_back += u64::from(is_back);
        let copy = &mut self.ledger.copies[broker];
        if !std::mem::take(&mut copy.may_lack) {
            return Ok(());
        }
        let (agrees, end) = (copy.agrees, self.ledger.promised_end());
        self.give_up_other_epochs(broker);
        if agrees >= end {
            return Ok(());
        }
        let has_all = |other: &usize| {
            let copy = &self.ledger.copies[*other];
            copy.agrees == end && self.nodes[*other].process.is_some() && !copy.may_lack
        };
        let others: Vec<usize> = (0..self.nodes.len()).filter(has_all).collect();
        self.trace.line(|| {
            format!("broker {broker} leads with {agrees} of {end} bytes; {others:?} have all")
        });
        demand!(
            others.is_empty()
                || !matches!(self.flaw, Some(Flaw::UncleanStays | Flaw::ForgetsLostEnd)),
            "broker {broker} leads with {agrees} of {end} bytes, and {others:?} have all"
        );
        self.count.given_up_though_held += u64::from(!others.is_empty());
        self.give_up_end(broker)
    }

    /// The end that a broker lacks, which is to lead, is given up.
    pub(crate) fn give_up_end(&mut self, broker: usize) -> Checked {
        self.count.given_up += 1;
        self.ledger.give_up(broker);
        self.note_lost_end()
    }
}

/// Everything that a store's log holds.
fn whole_log(store: &SimStore) -> Checked<Vec<u8>> {
    let start = store.replica().extent().start;
    let end = store.replica().appended().max(start);
    let bytes = log_bytes(store, start, end);
    demand!(
        bytes.len() as u64 == end - start || store.files().poison.reason().is_some(),
        "the log cannot be read from {} on, and ends at {end}",
        bytes.len()
    );
    Ok(bytes)
}
