//! The slaves of a master, a turn of each after the other: what they have reported, what may be acknowledged
//! by that, what goes to them next. Over any connection that does not wait: a socket, or a simulated one.
//! Knows no thread and no poll: whoever owns it makes its turns.

use std::io::{Read, Write};
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::{Standby, Store};
use mqcore_replica::auto_master::CONFIRM_HEARTBEAT_MS;
use mqcore_replica::{
    AutoSwitchMasterLink, EpochTable, FlowLimit, LogSpan, MasterLink, Members, QuorumRule, Source,
    Standing, Timing, Waits, quorum,
};

use crate::epochs::Epochs;
use crate::link::Link;
use crate::peer::{Left, Peer, host_of, span_of};

/// While a connection takes nothing the silence of its slave is looked at this often.
const SOCKET_WAIT_MAX_MS: u64 = 1_000;
/// When sends wait for nobody any more, one that has looked a moment before may still be parked: what may be
/// acknowledged is announced again for so long, this often.
const RESETTLE_MS: u64 = 100;
const RESETTLE_INTERVAL_MS: u64 = 10;

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
    /// Bytes a second that go to all who copy whole files, while the store takes messages; `None` for no
    /// bound.
    pub copied_bytes_per_second_max: Option<u64>,
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
    /// The id that its controller gave it; `None` in classic replication, and before it has introduced itself.
    pub id: Option<i64>,
    /// Whether it is never counted, as it wants.
    pub is_learner: bool,
    /// Whether what it reports counts.
    pub counts: bool,
}

/// What a master under a controller ships by.
pub struct Membership<D: Disk> {
    /// Its id.
    pub own_id: i64,
    /// The sync-state set.
    pub members: Arc<Mutex<Members>>,
    /// The epochs of its log.
    pub epochs: Arc<Epochs<D>>,
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
    /// Of a master under a controller.
    membership: Option<Membership<D>>,
    no_epochs: Arc<EpochTable>,
    /// First byte of the log when epochs were last looked at.
    log_start: u64,
    /// Where readers are let stop; `None` for the end of the log.
    confirmed: Option<Option<u64>>,
    waits: Waits,
    /// Until when it is announced again what may be acknowledged.
    resettle_until_ms: u64,
    wanted: bool,
    /// Who copies whole files: the owner's, from the next look on.
    copying: Vec<(String, S)>,
}

impl<D: Disk, C: Clock, S: Read + Write> Slaves<D, C, S> {
    /// Nobody yet, of a master under a controller: nothing is stored until it leads.
    #[must_use]
    pub fn of_member(store: Arc<Store<D, C>>, how: Shipping, membership: Membership<D>) -> Self {
        store.replica().require();
        let how = Shipping {
            quorum: None,
            ..how
        };
        let mut slaves = Self::new(store, how);
        slaves.membership = Some(membership);
        slaves
    }

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
            membership: None,
            no_epochs: Arc::default(),
            log_start: 0,
            confirmed: None,
            waits: Waits::NotEnough,
            resettle_until_ms: 0,
            wanted: false,
            copying: Vec::new(),
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
        let (timing, batch_len_bytes) = (self.how.timing, self.how.batch_len_bytes);
        let link = match &self.membership {
            None => Link::Classic(MasterLink::new(timing, batch_len_bytes, flow, now_ms)),
            Some(Membership { own_id, .. }) => Link::AutoSwitch(Box::new(
                AutoSwitchMasterLink::new(*own_id, timing, batch_len_bytes, flow, now_ms),
            )),
        };
        for other in &mut self.peers {
            other.note_other(&address);
        }
        self.peers.push(Peer::new(address, stream, link));
    }

    /// Whether what the slave at `address` reports counts: it does unless it is no member. Who does not
    /// count gets the log, acknowledges nothing and is in no set.
    pub fn set_counts(&mut self, address: &str, counts: bool) {
        for peer in &mut self.peers {
            if peer.address == address {
                peer.counts = counts;
            }
        }
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
        let mut wait_ms = self.settle_members(log, now_ms);
        if !self.begun.is_empty() {
            wait_ms = wait_ms.min(BEGUN_LOOK_MS);
        }
        let membership = self.membership.as_ref();
        let epochs = membership.map_or_else(
            || Arc::clone(&self.no_epochs),
            |membership| membership.epochs.table(),
        );
        let replica = self.store.replica();
        let source = Source {
            log,
            epochs: &epochs,
            confirm: replica.confirmed(),
        };
        let known_end = &mut self.known_end;
        self.peers.retain_mut(|peer| {
            let left = peer.turn(replica, source, now_ms);
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
        self.drop_earlier(ended);
        let copying = self.peers.extract_if(.., |peer| peer.copies_files());
        self.copying
            .extend(copying.map(|peer| (peer.address, peer.stream)));
    }

    /// Takes the connections of those who copy whole files: they have sent their greeting, and are no slaves.
    #[must_use]
    pub fn take_copying(&mut self) -> Vec<(String, S)> {
        std::mem::take(&mut self.copying)
    }

    /// Ends the links of slaves that have connected once more: the older one is a rest.
    fn drop_earlier(&mut self, ended: &mut impl FnMut(&str, String)) {
        // Who does not count may give any id.
        let ids = self.peers.iter();
        let ids = ids.map(|peer| peer.identity().filter(|_id| peer.counts));
        let ids: Vec<Option<i64>> = ids.map(|known| known.map(|(id, _)| id)).collect();
        let mut behind = ids.iter();
        self.peers.retain(|peer| {
            let id = behind.next().copied().flatten();
            let is_earlier = id.is_some() && behind.clone().any(|later| *later == id);
            if is_earlier {
                let why = "the slave has connected once more".to_owned();
                ended(&peer.address, why);
            }
            !is_earlier
        });
    }

    /// Acknowledges what the members of the sync-state set have, lets readers see it, and forgets epochs
    /// whose files are gone; when that is due again, ms.
    fn settle_members(&mut self, log: LogSpan, now_ms: u64) -> u64 {
        let mut wait_ms = u64::from(u32::MAX);
        let Some(membership) = &self.membership else {
            return wait_ms;
        };
        let peers = self.peers.iter_mut();
        let connected = peers.filter_map(|peer| peer.connected(log.end, now_ms));
        let connected: Vec<_> = connected.collect();
        let replica = self.store.replica();
        let mut members = membership.members.lock();
        if !members.is_leading() {
            return wait_ms;
        }
        let decision = members.decide(&connected, log.end, now_ms);
        replica.note_standby(match decision.waits {
            Waits::Unneeded => Standby::Unneeded,
            Waits::Needed => Standby::Reachable,
            Waits::NotEnough => Standby::NotEnough,
        });
        if self.confirmed != Some(decision.confirmed) {
            self.confirmed = Some(decision.confirmed);
            replica.confirm(decision.confirmed);
        }
        if decision.begins_to_join {
            // Whatever was acknowledged, or given to readers, without those who join ends there.
            members.must_reach(replica.appended());
        }
        let is_wanting = members.is_wanting();
        self.wanted = is_wanting;
        if let Some(due_ms) = members.due_ms(now_ms) {
            wait_ms = wait_ms.min(due_ms);
        }
        drop(members);
        if decision.replicated > self.replicated {
            self.replicated = decision.replicated;
            self.store.durability().note_replicated(self.replicated);
        }
        if decision.waits != self.waits {
            self.waits = decision.waits;
            self.resettle_until_ms = now_ms + RESETTLE_MS;
        }
        if now_ms < self.resettle_until_ms || decision.begins_to_join {
            wait_ms = wait_ms.min(RESETTLE_INTERVAL_MS);
        }
        if !self.peers.is_empty() && replica.confirmed() < decision.confirmed.unwrap_or(log.end) {
            // The disk here does not have it yet; slaves are to learn soon when it has.
            wait_ms = wait_ms.min(CONFIRM_HEARTBEAT_MS);
        }
        if log.start > self.log_start {
            self.log_start = log.start;
            // Entries that stay are looked at again at the next start.
            let _is_written = membership.epochs.forget_before(log.start);
        }
        wait_ms
    }

    /// Whether there is a set to be asked for that was not given out.
    #[must_use]
    pub fn is_wanting(&self) -> bool {
        self.wanted
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
        let waits = self.how.quorum.is_some() || self.waits == Waits::Needed;
        let is_awaited = waits && !self.peers.is_empty();
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
                    known.id = peer.identity().map(|(id, _)| id);
                    known.is_learner = peer.is_learner();
                    known.counts = peer.counts;
                }
                _ => {
                    standings.truncate(at);
                    standings.push(SlaveStanding {
                        address: peer.address.clone(),
                        standing,
                        id: peer.identity().map(|(id, _)| id),
                        is_learner: peer.is_learner(),
                        counts: peer.counts,
                    });
                }
            }
        }
        standings.truncate(self.peers.len());
    }
}
