//! Requests of clients and their answers: a broker's fast path, made anew with each open of its store. Knows what
//! was asked by the number of the request; what follows from an answer is with the clients.

use std::collections::BTreeMap;
use std::sync::Arc;

use mqcore_engine::clock::ManualClock;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;
use mqcore_fast_path::policy::{Broker, Group, PopRules, Timing, Topic, Transactions};
use mqcore_fast_path::{ConnectionId, FastPath};
use mqcore_record::{Found, Host, head};
use mqcore_wire::{Command, CommandRef, FRAME_BYTES_MAX, Split, split};

use super::consuming::{CONSUMERS, Consumed};
use super::halves::Halves;
use super::popping::{POPPERS, Popped, RETRY_TOPIC};
use super::producing::{COMMITTED_TOPIC, Produced};
use super::revives::Revives;
use super::tables::Tables;
use crate::group::world::{Event, World};
use crate::ledger::{Checked, demand};

/// Release of a broker that names many ends in one op message.
const BATCHED_VERSION: i32 = 475;
/// How often a broker looks after what is done in rounds, ms.
const ROUND_MS: (u64, u64) = (10, 80);
const CLIENT: Host = Host::V4 {
    address: [10, 0, 0, 9],
    port: 9,
};

/// What an answer belongs to.
pub(crate) enum Asked {
    Produced(Produced),
    Popped(Popped),
    Consumed(Consumed),
}

/// What a broker serves clients with, between an open of its store and the close.
pub(crate) struct Served {
    pub(crate) path: FastPath<TwinDisk, ManualClock>,
    client: ConnectionId,
    waiting: BTreeMap<i32, Asked>,
    next_opaque: i32,
    pub(crate) tables: Tables,
    pub(crate) halves: Halves,
    pub(crate) revives: Revives,
    /// Where the log ended when it began to lead.
    pub(crate) led_from: u64,
}

/// A request.
pub(crate) struct Request<'a> {
    pub(crate) code: i32,
    pub(crate) fields: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
}

impl World {
    /// Serves clients from a store that was opened.
    pub(crate) fn serve(&mut self, broker: usize) -> Checked {
        let (has_timers, flaw) = (self.options.has_timers, self.flaw);
        let Some(wants) = self.wants() else {
            return Ok(());
        };
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(());
        };
        let mut path = FastPath::new(Arc::clone(&store), 0);
        for (topic, queues) in [("T", 2), (COMMITTED_TOPIC, 1), (RETRY_TOPIC, 1)] {
            path.policy
                .topics
                .insert(topic.into(), Topic::plain(queues));
        }
        for group in [CONSUMERS, POPPERS] {
            path.policy.groups.insert(group.into(), Group::PLAIN);
        }
        path.decide_broker(Broker {
            version: if wants.is_batched { BATCHED_VERSION } else { 0 },
            needs_replica: true,
            times_requests: false,
            transactions: Transactions {
                timeout_ms: super::halves::TIMEOUT_MS,
                note_interval_ms: wants.op_interval_ms,
                ..Transactions::default()
            },
            timing: Timing {
                is_enabled: has_timers,
                ..Timing::default()
            },
            pops: PopRules {
                revive_queues: 1,
                stay_ms: wants.stay_ms,
                stored_before_ms: 1_000,
                retry_first_percent: 50,
                ..PopRules::default()
            },
            ..Broker::default()
        });
        let client = path.open(CLIENT, "10.0.0.9:9");
        let node = &self.nodes[broker];
        let tables = Tables::loaded(&path.shared.offsets, node, &store, flaw)?;
        let opening = self.nodes[broker].opening;
        if let Some(opened) = self.nodes[broker].opened_mut() {
            opened.served = Some(Box::new(Served {
                path,
                client,
                waiting: BTreeMap::new(),
                next_opaque: 0,
                tables,
                halves: Halves::default(),
                revives: Revives::default(),
                led_from: 0,
            }));
        }
        let in_ms = self.draw(|dice| dice.between(ROUND_MS.0, ROUND_MS.1));
        self.plan(in_ms.unwrap_or(0), Event::Rounds(broker, opening));
        Ok(())
    }

    /// What a broker does for its clients in rounds.
    pub(crate) fn rounds(&mut self, broker: usize) -> Checked {
        let opening = self.nodes[broker].opening;
        let in_ms = self.draw(|dice| dice.between(ROUND_MS.0, ROUND_MS.1));
        self.plan(in_ms.unwrap_or(0), Event::Rounds(broker, opening));
        let steps = [
            Self::drain,
            Self::save_offsets,
            Self::follow_offsets,
            Self::check_halves,
            Self::revive,
        ];
        for step in steps {
            if self.nodes[broker].twin.is_stopped() {
                return Ok(());
            }
            step(self, broker)?;
        }
        Ok(())
    }

    pub(crate) fn served(&mut self, broker: usize) -> Option<&mut Served> {
        self.nodes[broker].opened_mut()?.served.as_deref_mut()
    }

    /// Sends a request; gives where the first record is that was stored for it.
    pub(crate) fn ask_broker(
        &mut self,
        broker: usize,
        request: &Request<'_>,
        asked: Asked,
    ) -> Checked<Option<(u64, u64)>> {
        let Some(store) = self.nodes[broker].store().cloned() else {
            return Ok(None);
        };
        let (now_ms, before) = (store.replica().elapsed_ms(), store.replica().appended());
        let Some(served) = self.served(broker) else {
            return Ok(None);
        };
        served.next_opaque += 1;
        let opaque = served.next_opaque;
        served.waiting.insert(opaque, asked);
        let fields = request.fields.iter();
        let command = Command {
            code: request.code,
            opaque,
            ext: fields
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            body: request.body.to_vec(),
            ..Command::default()
        };
        let is_executed = served.path.execute(served.client, command, now_ms);
        if self.nodes[broker].twin.is_stopped() {
            return Ok(None);
        }
        demand!(is_executed, "request {} is not executed", request.code);
        self.watch_log(broker)?;
        let stored = self.first_record(broker, before);
        if let Some(served) = self.served(broker)
            && let Some(Asked::Produced(produced)) = served.waiting.get_mut(&opaque)
        {
            produced.stored = stored;
        }
        if stored.is_some() && self.options.is_synced[broker] {
            let opening = self.nodes[broker].opening;
            let in_ms = self.draw(|dice| dice.below(4)).unwrap_or(0);
            self.plan(in_ms, Event::Flush(broker, opening));
        }
        if stored.is_some() {
            self.plan_turn(broker, 0);
        }
        self.drain(broker)?;
        Ok(stored)
    }

    /// The first record behind a place of a broker's log.
    fn first_record(&self, broker: usize, from: u64) -> Option<(u64, u64)> {
        let log = &self.ledger.copies[broker].log;
        let mut at = from as usize;
        while at < log.len() {
            match head(&log[at..]).ok()? {
                Found::Record(record) => {
                    return Some((at as u64, (at + record.total_len_bytes) as u64));
                }
                Found::Blank { len_bytes } => at += len_bytes,
            }
        }
        None
    }

    /// Whether clients wait for an answer.
    pub(crate) fn is_asked(&self, broker: usize) -> bool {
        let opened = self.nodes[broker].opened();
        opened
            .and_then(|opened| opened.served.as_ref())
            .is_some_and(|served| !served.waiting.is_empty())
    }

    /// Lets the fast path answer what it can, and gives the tickets that are not its own; whether there is
    /// one. It is asked again with the next round.
    pub(crate) fn drain_fast_path(
        &mut self,
        broker: usize,
        others: &mut Vec<(Ticket, PutStatus)>,
    ) -> bool {
        let now_ms = self.nodes[broker]
            .store()
            .map(|store| store.replica().elapsed_ms());
        let served = self.served(broker);
        let Some((now_ms, served)) = now_ms.zip(served) else {
            return false;
        };
        served.path.drain(now_ms, others);
        true
    }

    /// Takes what clients were answered.
    pub(crate) fn take_answers(&mut self, broker: usize) -> Checked {
        self.watch_log(broker)?;
        let Some(served) = self.served(broker) else {
            return Ok(());
        };
        let client = served.client;
        let taken = served
            .path
            .connections
            .change_output(client, |output| output.take(usize::MAX));
        let bytes = taken.unwrap_or_default();
        let mut rest = &bytes[..];
        while let Split::Frame(frame) =
            split(rest, FRAME_BYTES_MAX).map_err(|error| error.to_string())?
        {
            let answer = CommandRef::decode(&frame).map_err(|error| error.to_string())?;
            let answer = answer.to_owned();
            rest = &rest[frame.len_bytes..];
            let asked = self
                .served(broker)
                .and_then(|served| served.waiting.remove(&answer.opaque));
            let asked = asked.ok_or_else(|| format!("nobody has asked {}", answer.opaque))?;
            match asked {
                Asked::Produced(produced) => self.was_produced(broker, &produced, &answer)?,
                Asked::Popped(popped) => self.was_popped(broker, popped, &answer)?,
                Asked::Consumed(consumed) => self.was_consumed(broker, &consumed, &answer)?,
            }
        }
        Ok(())
    }
}
