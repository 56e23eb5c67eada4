//! The slaves of a master, a turn of each after the other: what they have reported, what may be acknowledged
//! by that, what goes to them next. Over any connection that does not wait: a socket, or a simulated one.
//! Knows no thread and no poll: whoever owns it makes its turns.

use std::io::{Read, Write};
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::{Standby, Store};
use mqcore_replica::{FlowLimit, LogSpan, MasterLink, QuorumRule, Standing, Timing, quorum};

use crate::peer::{Left, Peer, host_of, span_of};

/// While a connection takes nothing the silence of its slave is looked at this often.
const SOCKET_WAIT_MAX_MS: u64 = 1_000;

/// A message that was appended waits for its acknowledgement within so long, on any machine.
const PARKS_WITHIN_MS: u64 = 100;
/// How often it is looked whether what a new slave has not got still waits.
const BEGUN_LOOK_MS: u64 = 20;

/// How a master ships.
#[derive(Debug, Clone, Copy)]
pub struct Shipping {
    /// Heartbeats and silence.
    pub timing: Timing,
    /// `haTransferBatchSize`: bytes of a body at the most.
    pub batch_len_bytes: usize,
    /// `maxHaTransferByteInSecond`, where `haFlowControlEnable` is on.
    pub bytes_per_second_max: Option<u64>,
    /// Which sends may be acknowledged, where they wait for slaves.
    pub quorum: Option<QuorumRule>,
}

/// A slave and how far it is.
#[derive(Debug, Clone)]
pub struct SlaveStanding {
    /// Its address.
    pub address: String,
    /// How far it is.
    pub standing: Standing,
}

/// A slave that has begun with a part of the log: what was sent before that is not in its copy.
struct Begun {
    host: String,
    at: u64,
    /// Until then something may have been appended before it that does not wait yet.
    until_ms: u64,
}

/// The slaves that are connected to a store.
pub struct Slaves<D: Disk, C: Clock, S> {
    store: Arc<Store<D, C>>,
    how: Shipping,
    peers: Vec<Peer<D, S>>,
    /// What slaves have reported, and what they acknowledge, for one turn.
    reported: Vec<u64>,
    acknowledged: Vec<u64>,
    /// Where the log ended when it was opened after an end that may have lost some of it, or what was sent
    /// since: a slave that holds more has it from the log that lost it.
    known_end: u64,
    /// Slaves that acknowledge nothing while something waits that they have not got.
    begun: Vec<Begun>,
    /// What was announced as replicated.
    replicated: u64,
}

impl<D: Disk, C: Clock, S: Read + Write> Slaves<D, C, S> {
    /// Nobody yet. Where sends wait for slaves they do from now on.
    #[must_use]
    pub fn new(store: Arc<Store<D, C>>, how: Shipping) -> Self {
        if how.quorum.is_some() {
            store.replica().require();
        }
        // After a clean end nothing was lost, and whatever a slave holds that was copied elsewhere is ours.
        let known_end = if store.report().was_clean {
            u64::MAX
        } else {
            store.replica().appended()
        };
        let mut slaves = Self {
            known_end,
            store,
            how,
            peers: Vec::new(),
            reported: Vec::new(),
            acknowledged: Vec::new(),
            begun: Vec::new(),
            replicated: 0,
        };
        // Sends may come before the first turn.
        let log = span_of(slaves.store.replica());
        let now_ms = slaves.store.replica().elapsed_ms();
        slaves.acknowledge(log.end, now_ms);
        slaves
    }

    /// A slave has connected from `address`, over `stream`, which does not wait.
    pub fn add(&mut self, address: String, stream: S, now_ms: u64) {
        let flow = FlowLimit::new(self.how.bytes_per_second_max, now_ms);
        let link = MasterLink::new(self.how.timing, self.how.batch_len_bytes, flow, now_ms);
        for other in &mut self.peers {
            other.note_other(&address);
        }
        self.peers.push(Peer::new(address, stream, link));
    }

    /// Whether nobody is connected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// The connections, in the order in which they were added; true for those that are to take more.
    pub fn streams(&self) -> impl Iterator<Item = (&S, bool)> {
        let peers = self.peers.iter();
        peers.map(|peer| (&peer.stream, peer.waits_to_write))
    }

    /// Notes which of [`Slaves::streams`] may have something to read: others are not asked.
    pub fn note_readable(&mut self, readable: impl Iterator<Item = bool>) {
        for (peer, is_readable) in self.peers.iter_mut().zip(readable) {
            peer.may_read = is_readable;
        }
    }

    /// A turn of each slave; after how long the next one is due, ms, unless the log grows or something
    /// comes. `ended` is given the address of each link that ends, and why.
    ///
    /// # Blocking
    /// Reads the disk for what is no longer hot.
    pub fn turn(&mut self, now_ms: u64, mut ended: impl FnMut(&str, String)) -> u64 {
        // Sends wait for what is reported, so that it comes first.
        let log = span_of(self.store.replica());
        self.read(log, now_ms, &mut ended);
        self.acknowledge(log.end, now_ms);
        let replica = self.store.replica();
        let mut wait_ms = if self.begun.is_empty() {
            u64::from(u32::MAX)
        } else {
            BEGUN_LOOK_MS
        };
        let known_end = &mut self.known_end;
        self.peers.retain_mut(|peer| {
            let left = peer.turn(replica, log.end, now_ms);
            *known_end = (*known_end).max(peer.sent_end);
            peer.may_read = false;
            peer.waits_to_write = matches!(left, Ok(Left::Socket));
            match left {
                Ok(Left::Socket) => wait_ms = wait_ms.min(SOCKET_WAIT_MAX_MS),
                Ok(Left::More) => wait_ms = 0,
                Ok(Left::Wait(ms)) => wait_ms = wait_ms.min(ms),
                Err(why) => {
                    ended(&peer.address, why);
                    return false;
                }
            }
            true
        });
        wait_ms
    }

    /// Reads what slaves have reported.
    fn read(&mut self, log: LogSpan, now_ms: u64, ended: &mut impl FnMut(&str, String)) {
        let (known_end, all_begun) = (self.known_end, &mut self.begun);
        self.peers.retain_mut(|peer| {
            if !peer.may_read {
                return true;
            }
            let read = peer.read(log, known_end, now_ms);
            if let Some(at) = peer.begun_at.take() {
                let host = host_of(&peer.address).to_owned();
                all_begun.retain(|begun| begun.host != host);
                let until_ms = now_ms + PARKS_WITHIN_MS;
                all_begun.push(Begun { host, at, until_ms });
            }
            read.map_err(|why| ended(&peer.address, why)).is_ok()
        });
    }

    /// Acknowledges sends that enough slaves have, for a log that ends at `end`.
    fn acknowledge(&mut self, end: u64, now_ms: u64) {
        let Some(rule) = self.how.quorum else {
            return;
        };
        self.reported.clear();
        self.reported
            .extend(self.peers.iter().filter_map(Peer::reported));
        if !self.begun.is_empty() {
            // A mark has no begin: it would answer what waits below it, too.
            let nearest = self.store.durability().nearest_parked();
            self.begun.retain(|begun| {
                now_ms < begun.until_ms || nearest.is_some_and(|end| end <= begun.at)
            });
        }
        self.count_acknowledged();
        let decision = rule.decide(&self.reported, &mut self.acknowledged, end);
        self.store.replica().note_standby(match decision.standby {
            quorum::Standby::Unneeded => Standby::Unneeded,
            quorum::Standby::Reachable => Standby::Reachable,
            quorum::Standby::Unavailable => Standby::Unavailable,
            quorum::Standby::NotEnough => Standby::NotEnough,
        });
        if decision.replicated > self.replicated {
            self.replicated = decision.replicated;
            self.store.durability().note_replicated(self.replicated);
        }
    }

    /// Lists what slaves acknowledge, each once: connections of one host that may be one slave, which has come
    /// back, count together.
    fn count_acknowledged(&mut self) {
        self.acknowledged.clear();
        self.acknowledged.resize(self.peers.len(), 0);
        for (at, peer) in self.peers.iter().enumerate() {
            let host = host_of(&peer.address);
            let Some(end) = peer.acknowledged() else {
                continue;
            };
            if self.begun.iter().any(|begun| begun.host == host) {
                continue;
            }
            let is_same = |other: &Peer<D, S>| host_of(&other.address) == host;
            let newest = self.peers.iter().rposition(is_same);
            let counts_as = newest.filter(|_| peer.may_be_back()).unwrap_or(at);
            if let Some(counted) = self.acknowledged.get_mut(counts_as) {
                *counted = (*counted).max(end);
            }
        }
    }

    /// Whether growth can wait for a report: sends wait for reports, and each slave's is due at once. One
    /// message after the other would have a wake of every thread on its way for itself.
    #[must_use]
    pub fn gathers(&self, now_ms: u64) -> bool {
        let is_awaited = self.how.quorum.is_some() && !self.peers.is_empty();
        is_awaited && self.peers.iter().all(|peer| peer.reports_soon(now_ms))
    }

    /// Brings `standings` up to how far each slave is now.
    pub fn note_standings(&mut self, standings: &mut Vec<SlaveStanding>, now_ms: u64) {
        let end = self.store.replica().extent().end;
        let is_same = standings.len() == self.peers.len();
        for (at, peer) in self.peers.iter_mut().enumerate() {
            let standing = peer.standing(end, now_ms);
            match standings.get_mut(at) {
                Some(known) if is_same && known.address == peer.address => {
                    known.standing = standing;
                }
                _ => {
                    standings.truncate(at);
                    let address = peer.address.clone();
                    standings.push(SlaveStanding { address, standing });
                }
            }
        }
        standings.truncate(self.peers.len());
    }
}
