//! Offsets of groups: a twin of the file of `python/mqcore/broker/consumer_offset_file.py`, of how a slave follows the
//! table of its master (`replication/metadata.py`), and of what a master takes back when it begins
//! (`leading.py`). The table itself is that of production. A file is written whole and survives everything.
//!
//! | rule | reason |
//! |---|---|
//! | the broker's own groups, and all once pops were stored, are written as far as what they rest on is promised | who is elected with them would pass over what was cut |
//! | every slave has where the group is by its master, in the end | it may be the next one |

use std::collections::BTreeMap;

use mqcore_fast_path::consumer_offsets::ConsumerOffsets;
use mqcore_fast_path::consumer_offsets::offsets::{Queues, SEPARATOR};

use crate::group::flaw::Flaw;
use crate::group::node::{Node, Role};
use crate::group::world::World;
use crate::ledger::Checked;
use crate::node::SimStore;

/// What the groups of the broker itself begin with.
const OWN_PREFIX: &str = "CID_RMQ_SYS_";
/// For how long a write waits until what it rests on is confirmed, ms.
const SETTLE_MS: u64 = 500;
/// For how long a slave waits until it has what its master had, ms.
const COME_MS: u64 = 2_000;
/// A slave asks once in so many rounds.
const ASKS_ONCE_IN: u64 = 8;

/// Offsets by the official keys.
pub(crate) type Table = BTreeMap<String, Queues>;

/// How far a broker is with the file of offsets, and with the table of its master.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// The offsets of the broker's own groups that may be written.
    own_settled: Table,
    /// How often others were left.
    own_left: u64,
    saved: Option<(u64, u64)>,
    saving: Option<Saving>,
    pop_records: u64,
    next_save_ms: u64,
    /// The table of the master when it was taken last, and what was heard of it since.
    taken: Table,
    held: Option<Held>,
}

/// A write that waits.
#[derive(Debug, Clone)]
struct Saving {
    version: (u64, u64),
    own: Table,
    rest: Table,
    /// How many records of pops were stored.
    pop_records: u64,
    /// Where the log ended.
    end: u64,
    until_ms: u64,
}

/// What a master has answered: it counts once so much is confirmed of the log of this reign.
#[derive(Debug, Clone)]
struct Held {
    table: Table,
    end: u64,
    epoch: i32,
    until_ms: u64,
}

impl Tables {
    /// Reads the file into the table, when a store was opened: of the broker's own groups what its log has all of.
    pub(crate) fn loaded(
        offsets: &ConsumerOffsets,
        node: &Node,
        store: &SimStore,
        flaw: Option<Flaw>,
    ) -> Checked<Self> {
        let mut table = node.kept_offsets.clone();
        if let Some(opened) = node.opened() {
            let log_end = store.replica().appended();
            let own = node.kept_own.newest(&opened.epochs.table(), log_end);
            table.retain(|key, _queues| !is_own(key));
            table.extend(own.cloned().unwrap_or_default());
        }
        if flaw != Some(Flaw::OffsetsNotClipped) {
            for (key, queue_id, end) in beyond_end(&table, store)? {
                table.entry(key).or_default().insert(queue_id, end);
            }
        }
        let own_settled = own_of(&table);
        offsets.load(table);
        Ok(Self {
            own_settled,
            ..Self::default()
        })
    }
}

impl World {
    /// Writes the offsets down now and then, when they have changed.
    pub(crate) fn save_offsets(&mut self, broker: usize) -> Checked {
        let now_ms = self.now_ms;
        let Some(wants) = self.wants() else {
            return Ok(());
        };
        let pause_ms = self.draw(|dice| dice.between(1, 2 * wants.save_ms));
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        if served.tables.saving.is_none() {
            if now_ms < served.tables.next_save_ms {
                return Ok(());
            }
            served.tables.next_save_ms = now_ms + pause_ms.unwrap_or(1);
        }
        self.save_step(broker, false)
    }

    /// Writes the offsets down: at the next round, and soon.
    pub(crate) fn save_soon(&mut self, broker: usize) {
        if let Some(served) = self.served(broker) {
            served.tables.next_save_ms = 0;
        }
    }

    /// Begins a write, or goes on with one; `is_last`: it waits no longer.
    pub(crate) fn save_step(&mut self, broker: usize, is_last: bool) -> Checked {
        let (now_ms, flaw) = (self.now_ms, self.flaw);
        let store = self.nodes[broker].store().cloned();
        let Some(store) = store.filter(|_| !self.nodes[broker].twin.is_stopped()) else {
            return Ok(());
        };
        self.begin_save(broker, &store)?;
        let is_unsettled = flaw == Some(Flaw::HalfOffsetsUnsettled);
        let forgets_pops = flaw == Some(Flaw::PopOffsetsUnsettled);
        let is_stopped = self.nodes[broker].twin.is_stopped();
        let Some(served) = self.served(broker).filter(|_| !is_stopped) else {
            return Ok(());
        };
        let tables = &mut served.tables;
        let Some(saving) = tables.saving.take() else {
            return Ok(());
        };
        let mut settled_end = None;
        let has_pops = saving.pop_records != tables.pop_records && !forgets_pops;
        if saving.own != tables.own_settled || has_pops {
            if store.replica().confirmed() >= saving.end || is_unsettled {
                tables.own_settled = saving.own.clone();
                tables.pop_records = saving.pop_records;
                settled_end = Some(saving.end);
            } else if now_ms < saving.until_ms && !is_last {
                tables.saving = Some(saving);
                return Ok(());
            } else {
                tables.own_left += 1;
                if has_pops {
                    // Offsets of groups that pop rest on check points.
                    return Ok(());
                }
            }
        }
        tables.saved = Some(saving.version);
        let mut table = saving.rest;
        table.extend(tables.own_settled.clone());
        self.trace.line(|| {
            let groups = groups_of(&table);
            format!("broker {broker} writes down where groups are: {groups:?}")
        });
        let known = &mut self.nodes[broker];
        known.kept_offsets = table;
        if let Some(end) = settled_end
            && let Some(epochs) = known.opened().map(|opened| opened.epochs.table())
        {
            let own = own_of(&known.kept_offsets);
            known.kept_own.add(&epochs, end, own);
        }
        self.count.offsets_saved += 1;
        if let Some(end) = settled_end {
            self.count.own_offsets_saved += 1;
            let why =
                "has written down how far it has asked about transactions and brought pops back";
            self.watch_broker(broker)?;
            if !self.nodes[broker].twin.is_stopped() {
                self.ledger.promise(broker, end, why)?;
            }
        }
        self.note_least_kept();
        Ok(())
    }

    /// Notes what is to be written, where that has changed and nothing is being written.
    fn begin_save(&mut self, broker: usize, store: &SimStore) -> Checked {
        let (now_ms, flaw) = (self.now_ms, self.flaw);
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        let offsets = &served.path.shared.offsets;
        let version = (offsets.changes(), served.tables.own_left);
        if served.tables.saving.is_some() || served.tables.saved == Some(version) {
            return Ok(());
        }
        let mut rest: Table = offsets.all().into_iter().collect();
        let own = own_of(&rest);
        let pop_records = served.path.shared.pops_stored();
        rest.retain(|key, _queues| !is_own(key));
        let tables = &mut served.tables;
        tables.saving = Some(Saving {
            version,
            own,
            rest,
            pop_records,
            end: store.replica().appended(),
            until_ms: now_ms + SETTLE_MS,
        });
        if flaw != Some(Flaw::OffsetsNotClipped) {
            let flushed = store.durability().flush();
            self.nodes[broker].twin_done(flushed)?;
        }
        Ok(())
    }

    /// A slave takes the offsets of its master, once its log has what they rest on.
    pub(crate) fn follow_offsets(&mut self, broker: usize) -> Checked {
        let asks = self
            .draw(|dice| dice.once_in(ASKS_ONCE_IN))
            .unwrap_or(false);
        let (now_ms, flaw) = (self.now_ms, self.flaw);
        if flaw == Some(Flaw::OffsetsNotFollowed) {
            return Ok(());
        }
        let Some(Role::Slave { master, .. }) = self.nodes[broker].opened().map(|one| &one.role)
        else {
            return Ok(());
        };
        let master = *master;
        let Some(epoch) = self.followed_epoch(broker) else {
            return Ok(());
        };
        let confirmed = self.nodes[broker]
            .store()
            .map_or(0, |store| store.replica().confirmed());
        let answer = (asks && !self.letters.is_cut(broker, master, now_ms))
            .then(|| self.table_of_master(master))
            .flatten();
        let is_holder = self.ledger.holders.contains(&broker);
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        let held = served.tables.held.take();
        let held = held.filter(|held| held.epoch == epoch && now_ms < held.until_ms);
        let Some(held) = held else {
            served.tables.held = answer.map(|(table, end)| Held {
                table,
                end: if flaw == Some(Flaw::OffsetsBeforeLog) {
                    0
                } else {
                    end
                },
                epoch,
                until_ms: now_ms + COME_MS,
            });
            return Ok(());
        };
        if held.end > confirmed {
            served.tables.held = Some(held);
            return Ok(());
        }
        let offsets = &served.path.shared.offsets;
        for (key, queues) in &held.table {
            if is_own(key) {
                for (queue_id, offset) in queues {
                    let (topic, group) = key.split_once(SEPARATOR).unwrap_or((key, ""));
                    offsets.commit(group, topic, *queue_id, *offset);
                }
            } else {
                offsets.follow(key, queues, served.tables.taken.get(key));
            }
        }
        let now: Table = offsets.all().into_iter().collect();
        let groups = groups_of(&held.table);
        served.tables.taken.extend(held.table);
        if is_holder {
            self.lower_least_kept(&now);
        }
        self.trace.line(|| {
            let now = groups_of(&now);
            format!("broker {broker} takes {groups:?} of broker {master}, and has {now:?}")
        });
        self.count.offsets_followed += 1;
        Ok(())
    }

    /// What a master answers that is asked for its offsets, and where its log ends then.
    fn table_of_master(&mut self, master: usize) -> Option<(Table, u64)> {
        if !self.is_reached(master) {
            return None;
        }
        let end = self.nodes[master].store()?.replica().appended();
        let served = self.served(master)?;
        Some((served.path.shared.offsets.all().into_iter().collect(), end))
    }

    pub(crate) fn offsets_of(&mut self, broker: usize) -> Option<Vec<(String, Queues)>> {
        Some(self.served(broker)?.path.shared.offsets.all())
    }

    /// A new master takes offsets back that are behind their queues.
    pub(crate) fn clip_offsets(&mut self, broker: usize) -> Checked {
        let flaw = self.flaw;
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        served.tables.taken.clear();
        served.tables.held = None;
        if flaw == Some(Flaw::OffsetsNotClipped) {
            return Ok(());
        }
        let offsets = &served.path.shared.offsets;
        let table: Table = offsets.all().into_iter().collect();
        let beyond = beyond_end(&table, &store)?;
        for (key, queue_id, end) in &beyond {
            let (topic, group) = key.split_once(SEPARATOR).unwrap_or((key, ""));
            offsets.commit(group, topic, *queue_id, *end);
        }
        self.count.offsets_clipped += beyond.len() as u64;
        Ok(())
    }
}

/// Whether a key is of a group of the broker itself.
fn is_own(key: &str) -> bool {
    let group = key
        .split_once(SEPARATOR)
        .map_or("", |(_topic, group)| group);
    group.starts_with(OWN_PREFIX)
}

/// Of the table those that are not the broker's own.
fn groups_of(table: &Table) -> Table {
    let groups = table.iter().filter(|(key, _queues)| !is_own(key));
    groups
        .map(|(key, queues)| (key.clone(), queues.clone()))
        .collect()
}

fn own_of(table: &Table) -> Table {
    let own = table.iter().filter(|(key, _queues)| is_own(key));
    own.map(|(key, queues)| (key.clone(), queues.clone()))
        .collect()
}

/// The end of a queue; 0 for one that is not there.
pub(crate) fn end_of(store: &SimStore, topic: &str, queue_id: i32) -> Checked<i64> {
    let bounds = store.topics().bounds(topic.as_bytes(), queue_id);
    let bounds = bounds.map_err(|error| error.to_string())?;
    Ok(bounds.map_or(0, |bounds| bounds.max.cast_signed()))
}

/// Offsets behind the end of their queue, and that end (`beyond_end` in `consumer_offsets.py`).
fn beyond_end(table: &Table, store: &SimStore) -> Checked<Vec<(String, i32, i64)>> {
    let behind = store.replica().ends_behind_queues();
    let behind = behind.map_err(|error| error.to_string())?;
    let mut beyond = Vec::new();
    for (key, queues) in table {
        let topic = key
            .split_once(SEPARATOR)
            .map_or("", |(topic, _group)| topic);
        for (queue_id, offset) in queues {
            let bounds = store.topics().bounds(topic.as_bytes(), *queue_id);
            let bounds = bounds.map_err(|error| error.to_string())?;
            let later = behind.get(topic).and_then(|ends| ends.get(queue_id));
            let end = bounds.map(|bounds| bounds.max).max(later.copied());
            let end = end.map(u64::cast_signed).filter(|end| offset > end);
            beyond.extend(end.map(|end| (key.clone(), *queue_id, end)));
        }
    }
    Ok(beyond)
}
