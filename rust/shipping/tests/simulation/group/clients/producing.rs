//! Producers of transactions: they send half messages, decide, end what they have sent, and answer when a broker
//! asks. What a producer has decided stays so. What follows at the end is compared with the log:
//!
//! | rule | reason |
//! |---|---|
//! | a half message that was acknowledged is in the log | it was promised |
//! | every half message of the log is ended, and in its topic where its producer commits | whoever leads asks until it is |
//! | what was rolled back is nowhere in the topic | its producer ended it so |
//! | one life of a master stores a commit once | it remembers what it has ended |
//! | nobody is asked about what an op message names, or the first copy of it | it was ended |
//!
//! An end is acknowledged as officially, whether replicas have it or not: a commit that is cut off with its op
//! message leaves the half message, which is asked about again. So an acknowledged commit comes as long as its half
//! message was acknowledged.
//!
//! A second copy is allowed where a master ended between a commit and its op message, where a round is repeated whose
//! offsets were not written down (the op message names the copy that was ended, and not the one before), and for an
//! answer to the question of a life before: those are counted.

use std::collections::{BTreeMap, BTreeSet};

use mqcore_fast_path::codes;
use mqcore_fast_path::transactions::decided::queue_offsets;
use mqcore_record::{Found, head};
use mqcore_wire::Command;

use super::serving::{Asked, Request};
use crate::group::ledger::Acked;
use crate::group::sends::{HALF_TOPIC, OP_TOPIC, name_of, name_of_record};
use crate::group::world::{Event, World};
use crate::ledger::{Checked, demand};

/// Where committed messages go.
pub(crate) const COMMITTED_TOPIC: &str = "Committed";
const GROUP: &str = "Producers";
const COMMIT: &str = "8";
const ROLLBACK: &str = "12";
/// How long a producer takes for what it does, ms.
const PAUSES_MS: [u64; 5] = [0, 1, 30, 400, 2_000];

/// A transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transaction {
    is_commit: bool,
    /// Whether its producer ends it by itself; otherwise it is asked.
    is_ended_at_once: bool,
    /// Lives of masters that have stored the commit.
    lives: Vec<(usize, u32)>,
}

/// All producers.
#[derive(Debug, Default)]
pub(crate) struct Producer {
    pub(crate) transactions: BTreeMap<String, Transaction>,
}

/// What a producer is going to do: end a transaction at a broker.
#[derive(Debug, Clone)]
pub(crate) struct Todo {
    pub(crate) broker: usize,
    pub(crate) name: String,
    pub(crate) half_offset: i64,
    pub(crate) physical_offset: u64,
    /// The life of the broker that has asked.
    pub(crate) asked_by: Option<(usize, u32)>,
}

/// What an answer belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Produced {
    name: String,
    /// Whether it is the answer to an end; else to a half message.
    is_end: bool,
    pub(crate) stored: Option<(u64, u64)>,
}

impl World {
    /// Sends a half message.
    pub(crate) fn send_half(&mut self, broker: usize) -> Checked {
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let name = format!("x{:x}", clients.producer.transactions.len());
        let transaction = Transaction {
            is_commit: !clients.dice.once_in(3),
            is_ended_at_once: !clients.dice.once_in(4),
            lives: Vec::new(),
        };
        clients
            .producer
            .transactions
            .insert(name.clone(), transaction);
        let born = self.nodes[broker].now_ms().to_string();
        let properties = format!(
            "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}{GROUP}\u{2}UNIQ_KEY\u{1}{name}\u{2}WAIT\u{1}true\u{2}"
        );
        let body = format!("{name}.half");
        let fields = [
            ("a", GROUP),
            ("b", COMMITTED_TOPIC),
            ("e", "0"),
            ("f", "4"),
            ("g", born.as_str()),
            ("h", "0"),
            ("i", properties.as_str()),
        ];
        let request = Request {
            code: codes::SEND_MESSAGE_V2,
            fields: &fields,
            body: body.as_bytes(),
        };
        self.count.halves += 1;
        let produced = Produced {
            name,
            is_end: false,
            stored: None,
        };
        self.ask_broker(broker, &request, Asked::Produced(produced))?;
        Ok(())
    }

    /// Plans that a producer ends a transaction.
    pub(crate) fn plan_end(&mut self, todo: Todo) {
        let Some(clients) = &mut self.clients else {
            return;
        };
        let in_ms = clients.dice.pick(&PAUSES_MS);
        clients.next_todo += 1;
        let number = clients.next_todo;
        clients.todo.insert(number, todo);
        self.plan(in_ms, Event::End(number));
    }

    /// A producer ends a transaction.
    pub(crate) fn end_transaction(&mut self, number: u64) -> Checked {
        let todo = self
            .clients
            .as_mut()
            .and_then(|clients| clients.todo.remove(&number));
        let Some(todo) = todo else {
            return Ok(());
        };
        let broker = todo.broker;
        if !self.is_reached(broker) {
            // Nobody ends it: whoever leads asks.
            return Ok(());
        }
        let life = (broker, self.nodes[broker].opening);
        let is_commit = self.transaction(&todo.name)?.is_commit;
        let (half, physical) = (
            todo.half_offset.to_string(),
            todo.physical_offset.to_string(),
        );
        let fields = [
            ("producerGroup", GROUP),
            ("tranStateTableOffset", half.as_str()),
            ("commitLogOffset", physical.as_str()),
            (
                "commitOrRollback",
                if is_commit { COMMIT } else { ROLLBACK },
            ),
            (
                "fromTransactionCheck",
                if todo.asked_by.is_some() {
                    "true"
                } else {
                    "false"
                },
            ),
            ("msgId", todo.name.as_str()),
            ("transactionId", todo.name.as_str()),
        ];
        let request = Request {
            code: codes::END_TRANSACTION,
            fields: &fields,
            body: b"",
        };
        let before = self.ledger.copies[broker].end();
        let produced = Produced {
            name: todo.name.clone(),
            is_end: true,
            stored: None,
        };
        self.ask_broker(broker, &request, Asked::Produced(produced))?;
        if self.has_met_stop(broker) {
            return self.die_inside(broker);
        }
        self.note_stored(broker, before, &todo, life)
    }

    /// What the end of a transaction has stored.
    fn note_stored(
        &mut self,
        broker: usize,
        before: u64,
        todo: &Todo,
        life: (usize, u32),
    ) -> Checked {
        let mut committed = Vec::new();
        each_record(
            &self.ledger.copies[broker].log[before as usize..],
            |record| {
                if record.topic == COMMITTED_TOPIC.as_bytes() {
                    committed.push(name_of(record.body));
                }
            },
        )?;
        for name in committed {
            demand!(
                name == todo.name,
                "the end of {:?} by {todo:?} has committed {name:?}",
                todo.name
            );
            let transaction = self.transaction(&name)?;
            demand!(transaction.is_commit, "{name:?}, rolled back, is committed");
            demand!(
                !transaction.lives.contains(&life),
                "broker {broker} commits {name:?} twice in one life: {todo:?}"
            );
            transaction.lives.push(life);
            self.trace
                .line(|| format!("broker {broker} commits {name:?} for {todo:?}"));
        }
        Ok(())
    }

    fn transaction(&mut self, name: &str) -> Checked<&mut Transaction> {
        let clients = self.clients.as_mut();
        let found = clients.and_then(|clients| clients.producer.transactions.get_mut(name));
        found.ok_or_else(|| format!("there is no transaction {name:?}"))
    }

    /// A producer was answered.
    pub(crate) fn was_produced(
        &mut self,
        broker: usize,
        produced: &Produced,
        answer: &Command,
    ) -> Checked {
        if answer.code != codes::SUCCESS {
            return Ok(());
        }
        let name = produced.name.clone();
        self.trace.line(|| {
            let what = if produced.is_end {
                "the end"
            } else {
                "the half message"
            };
            format!("broker {broker} acknowledges {what} of {name:?}")
        });
        if let Some((begin, end)) = produced.stored {
            self.count.halves_acknowledged += u64::from(!produced.is_end);
            let is_commit = self.transaction(&name)?.is_commit;
            self.count.commits += u64::from(produced.is_end && is_commit);
            if !produced.is_end {
                let acked = Acked {
                    begin,
                    end,
                    body: name.clone(),
                    is_delayed: false,
                    due_ms: None,
                };
                self.ledger.acknowledged(broker, acked)?;
            }
        }
        if produced.is_end {
            self.count.ends += 1;
            return Ok(());
        }
        if self.transaction(&name)?.is_ended_at_once {
            let number = |field: &str| answer.ext.get(field).and_then(|text| text.parse().ok());
            let id = answer.ext.get("msgId").and_then(|id| id.get(16..));
            let physical_offset = id.and_then(|id| u64::from_str_radix(id, 16).ok());
            let (Some(half_offset), Some(physical_offset)) =
                (number("queueOffset"), physical_offset)
            else {
                return Err(format!("the answer to a half message is {answer:?}"));
            };
            self.plan_end(Todo {
                broker,
                name,
                half_offset,
                physical_offset,
                asked_by: None,
            });
        }
        Ok(())
    }

    /// Looks in the whole log what has become of all transactions.
    pub(crate) fn compare_transactions(&mut self) -> Checked {
        let log = &self.ledger.copies[0].log;
        let mut halves = BTreeSet::new();
        let mut copies = BTreeMap::<String, u64>::new();
        each_record(log, |record| {
            let name = name_of(record.body);
            if record.topic == HALF_TOPIC.as_bytes() {
                halves.insert(name);
            } else if record.topic == COMMITTED_TOPIC.as_bytes() {
                *copies.entry(name).or_default() += 1;
            }
        })?;
        let Some(clients) = &self.clients else {
            return Ok(());
        };
        for name in &halves {
            let transaction = &clients.producer.transactions[name];
            let times = copies.get(name).copied().unwrap_or(0);
            demand!(
                !transaction.is_commit || times > 0,
                "the half message {name:?} is in the log, its producer commits, and it never came"
            );
            self.count.committed += u64::from(times > 0);
            self.count.rolled_back += u64::from(!transaction.is_commit);
        }
        for (name, times) in &copies {
            let transaction = &clients.producer.transactions[name];
            demand!(transaction.is_commit, "{name:?} was rolled back, and came");
            self.count.committed_again += times - 1;
        }
        Ok(())
    }

    /// The offsets of half messages that op messages of a broker's log name.
    pub(crate) fn named_by_ops(&self, broker: usize, end: u64) -> Checked<BTreeSet<u64>> {
        let log = &self.ledger.copies[broker].log;
        let mut named = BTreeSet::new();
        each_record(&log[..log.len().min(end as usize)], |record| {
            if record.topic == OP_TOPIC.as_bytes() {
                named.extend(queue_offsets(record.body));
            }
        })?;
        Ok(named)
    }

    /// Half messages that nobody has ended, of the log of a broker.
    pub(crate) fn open_halves(&self, broker: usize) -> Vec<String> {
        let end = self.ledger.copies[broker].end();
        let named = self.named_by_ops(broker, end).unwrap_or_default();
        let (mut open, mut ended) = (BTreeSet::new(), BTreeSet::new());
        let walked = each_record(&self.ledger.copies[broker].log, |record| {
            if record.topic == HALF_TOPIC.as_bytes() {
                let is_named = named.contains(&record.queue_offset.cast_unsigned());
                let names = if is_named { &mut ended } else { &mut open };
                names.insert(name_of(record.body));
            }
        });
        if walked.is_err() {
            return vec!["the log cannot be read".to_owned()];
        }
        open.difference(&ended).cloned().collect()
    }
}

/// Goes through the records of a part of a log that begins with one.
pub(crate) fn each_record<'a>(
    log: &'a [u8],
    mut each: impl FnMut(&mqcore_record::RecordView<'a>),
) -> Checked {
    let mut at = 0;
    while at < log.len() {
        match head(&log[at..]).map_err(|error| error.to_string())? {
            Found::Record(record) => {
                each(&record);
                at += record.total_len_bytes;
            }
            Found::Blank { len_bytes } => at += len_bytes,
        }
    }
    Ok(())
}

/// The name of the message in a question.
pub(crate) fn name_in(record: &[u8]) -> String {
    name_of_record(record)
}
