//! What is looked at in the offsets of groups when a broker begins to lead, and what everybody had written down by
//! then. Reads tables; changes none.
//!
//! | rule | reason |
//! |---|---|
//! | no offset of who leads is behind its queue | what is stored there next would never be read |
//! | who leads is not behind what everybody had written down who could be elected | a group would get again what it had committed, with no loss of power to explain it |

use std::collections::BTreeMap;

use super::consuming::CONSUMERS;
use super::producing::each_record;
use super::tables::{Table, end_of};
use crate::group::world::World;
use crate::ledger::{Checked, demand};
use mqcore_fast_path::consumer_offsets::offsets::{Queues, SEPARATOR};

/// What everybody who may be elected had written down.
#[derive(Debug, Default)]
pub(crate) struct LeastKept {
    offsets: BTreeMap<(String, i32), i64>,
    holders: Vec<usize>,
}

impl World {
    /// Where each queue ends in a log.
    fn queue_ends(log: &[u8]) -> Checked<BTreeMap<(String, i32), i64>> {
        let mut ends = BTreeMap::new();
        each_record(log, |record| {
            let topic = String::from_utf8_lossy(record.topic).into_owned();
            ends.insert((topic, record.queue_id), record.queue_offset + 1);
        })?;
        Ok(ends)
    }

    /// The end of the log is lost: offsets behind the queues that are left are taken back, whoever leads, and
    /// consumers go on at places that had other messages.
    pub(crate) fn note_lost_end(&mut self) -> Checked {
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        clients.consumer.note_lost_end();
        let ends = Self::queue_ends(&self.ledger.promised)?;
        for ((key, queue_id), offset) in &mut clients.least_kept.offsets {
            let topic = key.split_once(SEPARATOR).map_or("", |(topic, _)| topic);
            let end = ends.get(&(topic.to_owned(), *queue_id));
            *offset = (*offset).min(end.copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Whether no offset of who leads is behind what its log has of the queue.
    pub(crate) fn check_within_queues(&mut self, broker: usize) -> Checked {
        let ends = Self::queue_ends(&self.ledger.copies[broker].log)?;
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        for (key, queues) in served.path.shared.offsets.all() {
            let topic = key
                .split_once(SEPARATOR)
                .map_or("", |(topic, _group)| topic);
            for (queue_id, offset) in queues {
                // One of a queue without a message stays (`beyond_end`): a consumer is sent to its begin.
                let Some(&end) = ends.get(&(topic.to_owned(), queue_id)) else {
                    continue;
                };
                demand!(
                    offset <= end,
                    "broker {broker} leads, and {key} goes on at {offset} of queue {queue_id}, which its log \
                     has up to {end}"
                );
            }
        }
        Ok(())
    }

    /// The broker that is elected, where it leads that epoch.
    fn elected_leader(&self) -> Option<usize> {
        let view = self.view()?;
        self.nodes.iter().position(|node| {
            let epoch = node.opened().map(|one| one.epochs.table().last_epoch());
            let is_elected = node.identity.is_some() && node.identity == view.master;
            is_elected && node.is_master() && epoch == Some(view.master_epoch)
        })
    }

    /// Notes what everybody who may be elected has written down, and still has.
    pub(crate) fn note_least_kept(&mut self) {
        if self.clients.is_none() {
            return;
        }
        let holders: Vec<usize> = self.ledger.holders.iter().copied().collect();
        let tables: Vec<Table> = holders
            .iter()
            .map(|holder| self.least_of(*holder))
            .collect();
        let Some((clients, first)) = self.clients.as_mut().zip(tables.first()) else {
            return;
        };
        let kept = &mut clients.least_kept;
        let least_of = |key: &str, queue_id: i32| {
            let found = tables.iter().map(|table| find(table, key, queue_id));
            found.min().unwrap_or(-1)
        };
        let is_new = |holder: &usize| !kept.holders.contains(holder);
        if holders.iter().any(is_new) {
            for ((key, queue_id), offset) in &mut kept.offsets {
                *offset = (*offset).min(least_of(key, *queue_id));
            }
        }
        for (key, queues) in first {
            for queue_id in queues.keys() {
                let least = least_of(key, *queue_id);
                let known = kept.offsets.entry((key.clone(), *queue_id)).or_insert(-1);
                *known = (*known).max(least);
            }
        }
        kept.holders = holders;
    }

    /// Slaves that do not have where the master has the group.
    pub(crate) fn not_followed(&mut self, master: usize) -> Vec<usize> {
        let consumed = |table: &[(String, Queues)]| {
            let mut found = table.iter().filter(|(key, _)| key.ends_with(CONSUMERS));
            found.next().map(|(_, queues)| queues.clone())
        };
        let Some(of_master) = self.offsets_of(master).and_then(|all| consumed(&all)) else {
            return Vec::new();
        };
        let mut behind = Vec::new();
        for broker in 0..self.nodes.len() {
            let own = self.offsets_of(broker).and_then(|all| consumed(&all));
            let own = own.unwrap_or_default();
            let is_behind = |(queue_id, offset): (&i32, &i64)| {
                own.get(queue_id).copied().unwrap_or(0) < *offset
            };
            if of_master.iter().any(is_behind) {
                behind.push(broker);
            }
        }
        behind
    }

    /// Where the consumers are by the file of a broker, and by its table, the less of both.
    fn least_of(&mut self, broker: usize) -> Table {
        let mut table = self.nodes[broker].kept_offsets.clone();
        table.retain(|key, _queues| key.ends_with(CONSUMERS));
        if let Some(now) = self.offsets_of(broker) {
            let now: Table = now.into_iter().collect();
            for (key, queues) in &mut table {
                for (queue_id, offset) in queues {
                    *offset = (*offset).min(find(&now, key, *queue_id));
                }
            }
        }
        table
    }

    /// A slave has taken a table of its master: one that is lower has set the group back. That master had less
    /// when it was elected.
    pub(crate) fn lower_least_kept(&mut self, now: &Table) {
        let Some(clients) = &mut self.clients else {
            return;
        };
        for ((key, queue_id), offset) in &mut clients.least_kept.offsets {
            *offset = (*offset).min(find(now, key, *queue_id));
        }
    }

    /// Whether who leads goes on no earlier than where everybody had written down.
    pub(crate) fn check_least_kept(&mut self, broker: usize) -> Checked {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        // What was kept is of those whom the set has now: of an epoch before it may be others.
        if self.elected_leader() != Some(broker) {
            return Ok(());
        }
        let kept_least = self
            .clients
            .as_ref()
            .map(|clients| clients.least_kept.offsets.clone());
        for ((key, queue_id), kept) in kept_least.unwrap_or_default() {
            let (topic, group) = key.split_once(SEPARATOR).unwrap_or((&key, ""));
            let end = end_of(&store, topic, queue_id)?;
            let Some(served) = self.served(broker) else {
                return Ok(());
            };
            let offset = served.path.shared.offsets.find(group, topic, queue_id);
            let least = kept.min(end);
            demand!(
                offset.unwrap_or(0) >= least,
                "broker {broker} leads, and {key} goes on at {offset:?} of queue {queue_id}, which ends at {end}: \
                 everybody who could be elected had {kept}"
            );
            self.count.least_kept_held += u64::from(kept > 0);
        }
        Ok(())
    }
}

fn find(table: &Table, key: &str, queue_id: i32) -> i64 {
    let queues = table.get(key);
    let found = queues.and_then(|queues| queues.get(&queue_id)).copied();
    found.unwrap_or(-1)
}
