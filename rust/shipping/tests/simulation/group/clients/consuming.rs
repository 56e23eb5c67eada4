//! A consumer that reads the queues of a topic and commits where it is. Now and then another member of its group
//! goes on where the group is in the table of the master.
//!
//! | rule | reason |
//! |---|---|
//! | who leads has no offset behind a promised message that the group has not read | it would never come |
//! | the group reads every message of the log in the end | nothing is lost |
//!
//! Where power loss has taken the end of the log from everybody who is left, a consumer still remembers where it was:
//! it passes over what is stored at those places next, which no broker can know.

use std::collections::{BTreeMap, BTreeSet};

use mqcore_fast_path::codes;
use mqcore_record::{Found, RecordView, head};
use mqcore_wire::Command;

use super::producing::each_record;
use super::serving::{Asked, Request};
use crate::group::sends::name_of;
use crate::group::world::World;
use crate::ledger::{Checked, demand};

/// The group that consumes.
pub(crate) const CONSUMERS: &str = "Consumers";
/// The topic, of so many queues.
pub(crate) const TOPIC: &str = "T";
const QUEUES: i32 = 2;
/// A pull that brings its subscription and is not held, and one that commits too.
const PULL: &str = "4";
const PULL_AND_COMMIT: &str = "5";

/// The consumer.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    /// Where it goes on in a queue; asked for where it does not know.
    positions: BTreeMap<i32, i64>,
    /// The last offset that the group has committed: it commits no lower one, so that what goes back is the
    /// brokers' doing.
    committed: BTreeMap<i32, i64>,
    /// Up to where it may have been in a queue when the end of the log was lost.
    passed: BTreeMap<i32, i64>,
    read: BTreeSet<String>,
    /// Whether everything has healed, and it has begun anew since.
    is_healed: bool,
}

/// What an answer belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Consumed {
    Begin { queue_id: i32 },
    Pull { queue_id: i32, from: i64 },
    Commit,
}

impl Consumer {
    /// Whether it lacks a message of a queue: it has not read it, and has not passed over its place either.
    fn lacks(&self, queue_id: i32, queue_offset: i64, name: &str) -> bool {
        let passed = self.passed.get(&queue_id).copied().unwrap_or(0);
        queue_offset >= passed && !self.read.contains(name)
    }

    /// The end of the log is lost, and what is stored there next is something else.
    pub(crate) fn note_lost_end(&mut self) {
        for (queue_id, offset) in self.positions.iter().chain(&self.committed) {
            let passed = self.passed.entry(*queue_id).or_default();
            *passed = (*passed).max(*offset);
        }
    }
}

impl World {
    /// The consumer does something at a broker.
    pub(crate) fn consume(&mut self, broker: usize) -> Checked {
        let is_faulty = self.is_faulty;
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let (dice, consumer) = (&mut clients.dice, &mut clients.consumer);
        if !is_faulty && !consumer.is_healed {
            consumer.is_healed = true;
            consumer.positions.clear();
        }
        let queue_id = dice.below(QUEUES as u64) as i32;
        if is_faulty && dice.once_in(12) {
            consumer.positions.remove(&queue_id);
            self.count.rebalances += 1;
        }
        let queue = queue_id.to_string();
        let Some(from) = consumer.positions.get(&queue_id).copied() else {
            let fields = [
                ("consumerGroup", CONSUMERS),
                ("topic", TOPIC),
                ("queueId", queue.as_str()),
            ];
            let request = Request {
                code: codes::QUERY_CONSUMER_OFFSET,
                fields: &fields,
                body: b"",
            };
            let asked = Asked::Consumed(Consumed::Begin { queue_id });
            return self.ask_broker(broker, &request, asked).map(|_stored| ());
        };
        let committed = consumer.committed.entry(queue_id).or_default();
        let (wants_commit, is_alone) = (dice.once_in(2), dice.once_in(2));
        let commits = wants_commit && from >= *committed;
        let at = from.to_string();
        if commits {
            *committed = from;
            self.count.offsets_committed += 1;
        }
        if commits && is_alone {
            let fields = [
                ("consumerGroup", CONSUMERS),
                ("topic", TOPIC),
                ("queueId", queue.as_str()),
                ("commitOffset", at.as_str()),
            ];
            let request = Request {
                code: codes::UPDATE_CONSUMER_OFFSET,
                fields: &fields,
                body: b"",
            };
            return self
                .ask_broker(broker, &request, Asked::Consumed(Consumed::Commit))
                .map(|_stored| ());
        }
        self.pull(broker, queue_id, from, commits)
    }

    fn pull(&mut self, broker: usize, queue_id: i32, from: i64, commits: bool) -> Checked {
        let (queue, at) = (queue_id.to_string(), from.to_string());
        let fields = [
            ("consumerGroup", CONSUMERS),
            ("topic", TOPIC),
            ("queueId", queue.as_str()),
            ("queueOffset", at.as_str()),
            ("maxMsgNums", "8"),
            ("sysFlag", if commits { PULL_AND_COMMIT } else { PULL }),
            ("commitOffset", at.as_str()),
            ("suspendTimeoutMillis", "0"),
            ("subscription", "*"),
            ("subVersion", "0"),
        ];
        let request = Request {
            code: codes::PULL_MESSAGE,
            fields: &fields,
            body: b"",
        };
        let asked = Asked::Consumed(Consumed::Pull { queue_id, from });
        self.ask_broker(broker, &request, asked).map(|_stored| ())
    }

    /// The consumer was answered.
    pub(crate) fn was_consumed(
        &mut self,
        broker: usize,
        consumed: &Consumed,
        answer: &Command,
    ) -> Checked {
        let number = |field: &str| {
            answer
                .ext
                .get(field)
                .and_then(|text| text.parse::<i64>().ok())
        };
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let consumer = &mut clients.consumer;
        match *consumed {
            Consumed::Begin { queue_id } => {
                let at = match answer.code {
                    codes::SUCCESS => number("offset").unwrap_or(0),
                    codes::QUERY_NOT_FOUND => 0,
                    _ => return Ok(()),
                };
                consumer.positions.insert(queue_id, at);
                self.trace.line(|| {
                    format!("who consumes queue {queue_id} at broker {broker} begins at {at}")
                });
            }
            Consumed::Pull { queue_id, from } => {
                // Another member has begun anew meanwhile.
                if consumer.positions.get(&queue_id) != Some(&from) {
                    return Ok(());
                }
                let next = number("nextBeginOffset");
                match (answer.code, next) {
                    (codes::SUCCESS, Some(next)) => {
                        for name in names_of(&answer.body)? {
                            self.count.consumed += 1;
                            self.count.consumed_again += u64::from(!consumer.read.insert(name));
                        }
                        consumer.positions.insert(queue_id, next);
                    }
                    (codes::PULL_OFFSET_MOVED, Some(next)) => {
                        consumer.positions.insert(queue_id, next);
                    }
                    _ => {}
                }
            }
            Consumed::Commit => {}
        }
        Ok(())
    }

    /// Whether the group has read all promised messages before the offsets of who leads.
    pub(crate) fn check_consumed(&mut self, broker: usize) -> Checked {
        if !self.wants().is_some_and(|wants| wants.commits) {
            return Ok(());
        }
        let known = self
            .served(broker)
            .and_then(|served| served.path.shared.offsets.of(CONSUMERS, TOPIC));
        let (Some(known), Some(clients)) = (known, &self.clients) else {
            return Ok(());
        };
        let mut missing = Vec::new();
        each_record(&self.ledger.promised, |record| {
            let offset = known.get(&record.queue_id).copied().unwrap_or(0);
            if record.topic == TOPIC.as_bytes() && record.queue_offset < offset {
                let name = name_of(record.body);
                let consumer = &clients.consumer;
                if consumer.lacks(record.queue_id, record.queue_offset, &name) {
                    missing.push((record.queue_id, record.queue_offset, name));
                }
            }
        })?;
        demand!(
            missing.is_empty(),
            "broker {broker} leads, the group goes on at {known:?}, and has not read {missing:?}"
        );
        Ok(())
    }

    /// Messages of a broker's log that the group has not read.
    pub(crate) fn not_consumed(&self, broker: usize) -> Vec<String> {
        let Some(clients) = &self.clients else {
            return Vec::new();
        };
        names_in(&self.ledger.copies[broker].log, |record, name| {
            let consumer = &clients.consumer;
            consumer.lacks(record.queue_id, record.queue_offset, name)
        })
    }

    /// Whether the group has begun anew since everything has healed, and is at the end of the queues.
    pub(crate) fn are_all_consumed(&mut self, master: usize) -> Checked<bool> {
        let Some(store) = self.nodes[master].store().cloned() else {
            return Ok(false);
        };
        let Some(clients) = &self.clients else {
            return Ok(true);
        };
        for queue_id in 0..QUEUES {
            let end = super::tables::end_of(&store, TOPIC, queue_id)?;
            let position = clients.consumer.positions.get(&queue_id);
            if end > 0 && position != Some(&end) {
                return Ok(false);
            }
        }
        Ok(clients.consumer.is_healed)
    }
}

/// Names of messages of the topic that are wanted, in a whole log.
pub(crate) fn names_in(log: &[u8], wants: impl Fn(&RecordView<'_>, &str) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let walked = each_record(log, |record| {
        let name = name_of(record.body);
        if record.topic == TOPIC.as_bytes() && wants(record, &name) {
            names.push(name);
        }
    });
    names.extend(walked.err());
    names
}

/// The names of the messages in an answer.
fn names_of(body: &[u8]) -> Checked<Vec<String>> {
    let (mut names, mut at) = (Vec::new(), 0);
    while at < body.len() {
        match head(&body[at..]).map_err(|error| error.to_string())? {
            Found::Record(record) => {
                names.push(name_of(record.body));
                at += record.total_len_bytes;
            }
            Found::Blank { .. } => return Err("an answer has a blank".to_owned()),
        }
    }
    Ok(names)
}
