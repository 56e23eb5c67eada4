//! Consumers that pop messages of any queue, acknowledge most of them, at whoever is master then, and let the others
//! come again.
//!
//! | rule | reason |
//! |---|---|
//! | every message of the log is popped until it is acknowledged | nothing is lost |
//! | what was acknowledged in time does not come again in the life of the master that gave it | its pop is settled, or its check point has the acknowledgement |
//!
//! Where another life is in between it may come again, since acknowledgements are kept in memory first: that is
//! counted. So it is where an earlier life has popped it and was killed before it answered: its check point is in
//! the log, and the offset of the group was in memory. A clock that was put back in between makes a check point due
//! twice: such lives are left out.

use std::collections::{BTreeMap, BTreeSet};

use mqcore_fast_path::codes;
use mqcore_fast_path::pop::points::{CheckPoint, POINT_TAG};
use mqcore_fast_path::pop_run::handle::HandleFields;
use mqcore_fast_path::pop_run::names::Source;
use mqcore_record::properties::lookup;
use mqcore_record::{Found, RecordView, head};
use mqcore_wire::Command;

use super::consuming::{TOPIC, names_in};
use super::producing::each_record;
use super::serving::{Asked, Request};
use crate::group::sends::name_of;
use crate::group::world::World;
use crate::ledger::{Checked, demand};

/// The group that pops.
pub(crate) const POPPERS: &str = "Poppers";
/// Where its messages come again.
pub(crate) const RETRY_TOPIC: &str = "%RETRY%Poppers_T";
/// For how long messages are away, ms: some pops are stored at once, some stay in memory.
const INVISIBLE_MS: [i64; 4] = [1_000, 2_000, 3_000, 6_000];
/// A check point has brought its messages back so long after they were due, ms.
const BACK_MS: i64 = 4_000;
/// The same once everything has healed.
const HEALED_MS: i64 = 6_000;
/// Nothing more is popped while so many messages are away.
const AWAY_MAX: u64 = 16;
/// Of so many messages one is never acknowledged.
const LEFT_ONCE_IN: u64 = 4;

/// A message that is away.
#[derive(Debug, Clone)]
struct Away {
    name: String,
    topic: &'static str,
    queue_id: i32,
    offset: i64,
    handle: String,
    due_ms: i64,
}

/// What is known of a message that was popped.
#[derive(Debug, Default)]
struct Known {
    /// Lives of masters that have given it.
    given_by: BTreeSet<(usize, u32)>,
    is_acknowledged: bool,
    /// The life that has taken the acknowledgement in time.
    settled_by: Option<(usize, u32)>,
}

/// The consumers.
#[derive(Debug, Default)]
pub(crate) struct Popper {
    known: BTreeMap<String, Known>,
    away: Vec<Away>,
}

/// What an answer belongs to.
#[derive(Debug, Clone)]
pub(crate) enum Popped {
    Pop { invisible_ms: i64 },
    Ack { name: String, due_ms: i64 },
}

impl World {
    /// The consumers do something at a broker; once everything has healed they acknowledge all that they have.
    pub(crate) fn pop_and_acknowledge(&mut self, broker: usize) -> Checked {
        let is_faulty = self.is_faulty;
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let away = clients.popper.away.len() as u64;
        let acks = if is_faulty {
            away.min(clients.dice.below(4))
        } else {
            away
        };
        let pops = away < AWAY_MAX && clients.dice.once_in(3);
        for _ in 0..acks {
            self.acknowledge_one(broker)?;
            if self.nodes[broker].twin.is_stopped() {
                return Ok(());
            }
        }
        if pops {
            self.pop(broker)?;
        }
        Ok(())
    }

    fn pop(&mut self, broker: usize) -> Checked {
        let is_faulty = self.is_faulty;
        let drawn = self.draw(|dice| (dice.pick(&INVISIBLE_MS), dice.between(1, 8)));
        let (invisible_ms, count) = drawn.unwrap_or_default();
        let invisible_ms = if is_faulty { invisible_ms } else { HEALED_MS };
        let (count, invisible) = (count.to_string(), invisible_ms.to_string());
        let fields = [
            ("consumerGroup", POPPERS),
            ("topic", TOPIC),
            ("queueId", "-1"),
            ("maxMsgNums", count.as_str()),
            ("invisibleTime", invisible.as_str()),
            ("pollTime", "0"),
            ("bornTime", "0"),
            ("initMode", "0"),
        ];
        let request = Request {
            code: codes::POP_MESSAGE,
            fields: &fields,
            body: b"",
        };
        let asked = Asked::Popped(Popped::Pop { invisible_ms });
        self.ask_broker(broker, &request, asked).map(|_stored| ())
    }

    fn acknowledge_one(&mut self, broker: usize) -> Checked {
        let is_faulty = self.is_faulty;
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let (dice, popper) = (&mut clients.dice, &mut clients.popper);
        if popper.away.is_empty() {
            return Ok(());
        }
        let at = dice.below(popper.away.len() as u64) as usize;
        let away = popper.away.swap_remove(at);
        if is_faulty && dice.once_in(LEFT_ONCE_IN) {
            self.count.pops_left += 1;
            return Ok(());
        }
        let (queue, offset) = (away.queue_id.to_string(), away.offset.to_string());
        let fields = [
            ("consumerGroup", POPPERS),
            ("topic", away.topic),
            ("queueId", queue.as_str()),
            ("extraInfo", away.handle.as_str()),
            ("offset", offset.as_str()),
        ];
        let request = Request {
            code: codes::ACK_MESSAGE,
            fields: &fields,
            body: b"",
        };
        let asked = Asked::Popped(Popped::Ack {
            name: away.name,
            due_ms: away.due_ms,
        });
        self.ask_broker(broker, &request, asked).map(|_stored| ())
    }

    /// The consumers were answered.
    pub(crate) fn was_popped(
        &mut self,
        broker: usize,
        popped: Popped,
        answer: &Command,
    ) -> Checked {
        if answer.code != codes::SUCCESS {
            return Ok(());
        }
        let life = (broker, self.nodes[broker].opening);
        let wall_ms = self.nodes[broker].now_ms();
        match popped {
            Popped::Pop { invisible_ms } => self.came(life, invisible_ms, answer),
            Popped::Ack { name, due_ms } => {
                let Some(clients) = &mut self.clients else {
                    return Ok(());
                };
                let known = clients.popper.known.entry(name.clone()).or_default();
                known.is_acknowledged = true;
                let is_of_one_life = known.given_by.len() == 1 && known.given_by.contains(&life);
                let is_in_time = wall_ms < due_ms && is_of_one_life;
                let is_settled = is_in_time && !self.is_of_earlier_pop(broker, &name)?;
                self.count.pops_acknowledged += 1;
                self.count.pops_of_earlier_lives += u64::from(is_in_time && !is_settled);
                if let Some(clients) = &mut self.clients
                    && let Some(known) = clients.popper.known.get_mut(&name)
                {
                    known.settled_by = is_settled.then_some(life);
                }
                self.trace
                    .line(|| format!("broker {broker} takes the acknowledgement of {name:?}"));
                Ok(())
            }
        }
    }

    /// Whether the log of a master has a check point with a message from before it began to lead.
    fn is_of_earlier_pop(&mut self, broker: usize, name: &str) -> Checked<bool> {
        let led_from = self.served(broker).map_or(0, |served| served.led_from);
        let log = &self.ledger.copies[broker].log;
        let mut positions = BTreeSet::new();
        each_record(log, |record| {
            let is_popped = [TOPIC, RETRY_TOPIC]
                .map(str::as_bytes)
                .contains(&record.topic);
            if is_popped && name_of(record.body) == name {
                let topic = String::from_utf8_lossy(record.topic).into_owned();
                positions.insert((topic, record.queue_id, record.queue_offset));
            }
        })?;
        let mut is_left = false;
        each_record(&log[..log.len().min(led_from as usize)], |record| {
            if record.tags() != Some(POINT_TAG.as_bytes()) {
                return;
            }
            let Some(point) = CheckPoint::parse(record.body) else {
                return;
            };
            let offsets = (0..point.count).filter_map(|at| point.offset_at(at));
            let mut held = offsets.map(|at| (point.topic.clone(), point.queue_id, at));
            is_left |= held.any(|position| positions.contains(&position));
        })?;
        Ok(is_left)
    }

    /// Messages came with a pop.
    fn came(&mut self, life: (usize, u32), invisible_ms: i64, answer: &Command) -> Checked {
        let field = |name: &str| answer.ext.get(name).map_or("", String::as_str);
        let pop_time_ms: i64 = field("popTime").parse().unwrap_or(0);
        let revive_queue = field("reviveQid").parse().unwrap_or(0);
        let starts = field("startOffsetInfo");
        let due_ms = pop_time_ms + invisible_ms;
        self.due_max_ms = self.due_max_ms.max(due_ms + BACK_MS);
        let is_stepped = self
            .served(life.0)
            .is_some_and(|served| served.revives.is_stepped);
        let Some(clients) = &mut self.clients else {
            return Ok(());
        };
        let popper = &mut clients.popper;
        let mut at = 0;
        while at < answer.body.len() {
            let found = head(&answer.body[at..]).map_err(|error| error.to_string())?;
            let Found::Record(record) = found else {
                return Err("the answer to a pop has a blank".to_owned());
            };
            at += record.total_len_bytes;
            let name = name_of(record.body);
            let own = lookup(record.properties, "POP_CK");
            let own = own.map(|text| String::from_utf8_lossy(text).into_owned());
            let times = (pop_time_ms, invisible_ms);
            let away = match own {
                Some(handle) => of_retry(&name, handle, due_ms)?,
                None => of_topic(&name, &record, times, (starts, revive_queue))?,
            };
            let known = popper.known.entry(name.clone()).or_default();
            let is_back = away.topic == RETRY_TOPIC;
            self.count.popped += 1;
            self.count.popped_back += u64::from(is_back);
            self.count.popped_again += u64::from(known.is_acknowledged);
            let is_settled = known.settled_by == Some(life) && !is_stepped;
            demand!(
                !is_settled,
                "{name:?} comes again with {:?}, and broker {} has taken its acknowledgement in this life",
                away.handle,
                life.0
            );
            known.given_by.insert(life);
            known.settled_by = None;
            self.trace.line(|| {
                format!(
                    "broker {} gives {name:?}: {:?} of {}",
                    life.0, away.handle, away.topic
                )
            });
            popper.away.push(away);
        }
        Ok(())
    }

    /// The clock of a broker was set: what it has brought back may be due once more.
    pub(crate) fn note_clock_step(&mut self, broker: usize) {
        if let Some(served) = self.served(broker) {
            served.revives.is_stepped = true;
        }
    }

    /// Messages of a broker's log that were never acknowledged.
    pub(crate) fn not_acknowledged(&self, broker: usize) -> Vec<String> {
        let Some(clients) = &self.clients else {
            return Vec::new();
        };
        let known = &clients.popper.known;
        let is_open = |_: &RecordView<'_>, name: &str| {
            known.get(name).is_none_or(|known| !known.is_acknowledged)
        };
        names_in(&self.ledger.copies[broker].log, is_open)
    }

    pub(crate) fn are_all_popped(&mut self, master: usize) -> Checked<bool> {
        Ok(self.not_acknowledged(master).is_empty())
    }
}

/// A message of the retry topic, by the handle that it has.
fn of_retry(name: &str, handle: String, due_ms: i64) -> Checked<Away> {
    let words: Vec<&str> = handle.split(' ').collect();
    let (Some(queue_id), Some(offset)) = (
        words.get(6).and_then(|word| word.parse().ok()),
        words.get(7).and_then(|word| word.parse().ok()),
    ) else {
        return Err(format!("{name:?} has the handle {handle:?}"));
    };
    Ok(Away {
        name: name.to_owned(),
        topic: RETRY_TOPIC,
        queue_id,
        offset,
        handle,
        due_ms,
    })
}

/// A message of the topic itself, with the handle that a client makes for it.
fn of_topic(
    name: &str,
    record: &RecordView<'_>,
    (pop_time_ms, invisible_ms): (i64, i64),
    (starts, revive_queue): (&str, i32),
) -> Checked<Away> {
    let prefix = format!("0 {} ", record.queue_id);
    let start = starts
        .split(';')
        .find_map(|part| part.strip_prefix(&prefix));
    let start = start.and_then(|start| start.parse().ok());
    let start_offset = start.ok_or_else(|| format!("{name:?} is of no queue of {starts:?}"))?;
    let handle = HandleFields {
        start_offset,
        pop_time_ms,
        invisible_ms,
        revive_queue,
        source: Source::Normal,
        broker: "broker-a",
        queue_id: record.queue_id,
        offset: record.queue_offset.cast_unsigned(),
    };
    Ok(Away {
        name: name.to_owned(),
        topic: TOPIC,
        queue_id: record.queue_id,
        offset: record.queue_offset,
        handle: handle.text(),
        due_ms: pop_time_ms + invisible_ms,
    })
}
