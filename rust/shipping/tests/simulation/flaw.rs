//! Bugs that replication might have, planted around the code of production: in what goes over a connection, in
//! what is made of the reports, in the options. Each is one that was reported of the official brokers, or
//! follows from their sources. Without a flaw nothing is changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mqcore_replica::stream::{HEADER_LEN_BYTES, Header};

use super::network::{Pair, Side, Tap};
use super::node::{Duty, Link};
use super::options::Options;
use super::watch::Reports;
use super::world::World;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Whatever somebody sends to the port counts as an offset that the log reaches (#1155, #3015).
    ProbeCounts,
    /// A slave reports what its master has announced.
    ReportAboveOwnEnd,
    /// A slave reports what it has received, before it appends it.
    ReportBeforeAppend,
    /// A slave with synchronous flush reports what its disk has not (5.3: always).
    ReportBeforeSync,
    /// A slave that is ahead is let on as soon as the log has grown so far (4.9, 5.3).
    AheadGoesOn,
    /// A fresh slave takes bytes from the middle of a file for its beginning (4.9, 5.3).
    FreshInTheMiddle,
    /// A slave that has not reported yet is left out of the minimum.
    MissingReportCounts,
    /// A synchronous master with `inSyncReplicas=1` waits for nobody (5.3).
    WaitsForNobody,
    /// A header goes out, and its body does not (#9689).
    HeaderWithoutBody,
    /// Two connections of one slave count as two slaves.
    OneSlaveTwice,
}

impl Flaw {
    /// Every flaw.
    pub(crate) const ALL: [Self; 10] = [
        Self::ProbeCounts,
        Self::ReportAboveOwnEnd,
        Self::ReportBeforeAppend,
        Self::ReportBeforeSync,
        Self::AheadGoesOn,
        Self::FreshInTheMiddle,
        Self::MissingReportCounts,
        Self::WaitsForNobody,
        Self::HeaderWithoutBody,
        Self::OneSlaveTwice,
    ];
}

/// One frame in so many loses its body.
const BODY_LOST_EVERY: u64 = 20;

impl Flaw {
    /// Changes the options so that the flaw can show.
    pub(crate) fn bend(self, options: &mut Options) {
        options.rule.follows_in_sync = false;
        options.rule.in_sync_replicas = 2;
        options.rule.in_sync_replicas_min = 1;
        match self {
            Self::ReportBeforeSync => {
                options.is_synced[1..].fill(true);
                options.leaves_out_sync = true;
            }
            Self::AheadGoesOn => {
                options.loses_power = true;
                options.at_least(2);
                options.is_synced.fill(false);
            }
            Self::MissingReportCounts | Self::OneSlaveTwice => {
                options.rule.in_sync_replicas = 3;
                options.retry_ms = 20;
            }
            Self::WaitsForNobody => options.rule.in_sync_replicas = 1,
            Self::HeaderWithoutBody => options.batch_len_bytes = 50,
            Self::ProbeCounts | Self::ReportAboveOwnEnd | Self::ReportBeforeAppend => {}
            Self::FreshInTheMiddle => options.is_synced.fill(false),
        }
        options.at_least(options.rule.in_sync_replicas - 1);
    }

    /// Whether a slave copies whatever comes, as official ones do.
    pub(crate) fn copies_all(self, node: usize) -> bool {
        match self {
            Self::FreshInTheMiddle => true,
            Self::AheadGoesOn => node == 1,
            _ => false,
        }
    }

    /// Where a slave connects from, as its master sees it.
    pub(crate) fn host_of(flaw: Option<Self>, node: usize, pair: Pair) -> String {
        match flaw {
            Some(Self::OneSlaveTwice) => format!("10.1.{}.{}", pair / 256, pair % 256),
            _ => format!("10.0.0.{node}"),
        }
    }

    /// What a slave reports too much or too soon, with `came` about to be appended to a log that ends at
    /// `appended`.
    pub(crate) fn early_report(self, link: &Link, appended: u64, came: &[u8]) -> Option<u64> {
        let head = came.first_chunk::<HEADER_LEN_BYTES>();
        let header = head.and_then(|head| Header::of(*head).ok())?;
        if header.offset != appended || link.follower.announced() != Some(appended) {
            return None;
        }
        match self {
            Self::ReportAboveOwnEnd => Some(appended + u64::from(header.len_bytes)),
            Self::ReportBeforeAppend => {
                let body = came.len() - HEADER_LEN_BYTES;
                Some(appended + (body as u64).min(u64::from(header.len_bytes)))
            }
            _ => None,
        }
    }
}

impl World {
    /// A slave that is ahead waits until its master's log has grown as far: no master of ours lets it on
    /// before.
    pub(crate) fn is_let_wait(&self, node: usize) -> bool {
        let promise = &self.ledger.promises[node];
        self.flaw == Some(Flaw::AheadGoesOn) && promise.end > self.ledger.end()
    }

    /// A master with a flaw takes what a stranger has sent for the end of a slave's log.
    pub(crate) fn count_as_report(&mut self) {
        if let Some(store) = self.nodes[0].store() {
            store
                .durability()
                .note_replicated(store.replica().appended());
        }
    }

    /// What a master with a flaw makes of the reports, or of a send.
    pub(crate) fn bend_marks(&mut self, flaw: Flaw) {
        let Some(process) = &mut self.nodes[0].process else {
            return;
        };
        let store = &process.store;
        let (now_ms, end) = (store.replica().elapsed_ms(), store.replica().appended());
        if flaw == Flaw::WaitsForNobody {
            store.durability().note_replicated(end);
        }
        let Duty::Master(slaves) = &mut process.duty else {
            return;
        };
        if flaw == Flaw::MissingReportCounts {
            let mut standings = Vec::new();
            slaves.note_standings(&mut standings, now_ms);
            let known = standings
                .iter()
                .filter(|each| each.standing.requested.is_some());
            let least = known.map(|each| each.standing.acknowledged).min();
            if let Some(least) = least.filter(|_| standings.len() >= self.options.slaves) {
                store.durability().note_replicated(least);
            }
        }
    }
}

/// What a tap knows of one direction of a connection.
#[derive(Default)]
struct Stream {
    head: Vec<u8>,
    body_left: usize,
    drops_body: bool,
    frames: u64,
}

/// Looks at all that is written: reports are noted, and a flaw of the stream is planted.
pub(crate) fn tap(flaw: Option<Flaw>, reports: &Reports, bounds: &Bounds) -> Tap {
    let (reports, bounds) = (reports.clone(), bounds.clone());
    let mut streams: BTreeMap<(Pair, bool), Stream> = BTreeMap::new();
    Box::new(move |pair, side, bytes| {
        let is_near = side == Side::Near;
        if is_near && flaw == Some(Flaw::FreshInTheMiddle) {
            let stream = streams.entry((pair, true)).or_default();
            if stream.frames == 0 && bytes == [0; 8] {
                stream.frames = 1;
                return bounds.middle().to_be_bytes().to_vec();
            }
        }
        let stream = streams.entry((pair, is_near)).or_default();
        if is_near {
            stream.note_reports(pair, bytes, &reports);
            return bytes.to_vec();
        }
        match flaw {
            Some(Flaw::HeaderWithoutBody) => stream.drop_bodies(bytes),
            _ => bytes.to_vec(),
        }
    })
}

impl Stream {
    fn note_reports(&mut self, pair: Pair, bytes: &[u8], reports: &Reports) {
        for byte in bytes {
            self.head.push(*byte);
            if let Ok(report) = <[u8; 8]>::try_from(&self.head[..]) {
                reports.push(pair, u64::from_be_bytes(report));
                self.head.clear();
                self.frames += 1;
            }
        }
    }

    /// A master's frames, of which some have no body.
    fn drop_bodies(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if self.body_left > 0 {
                self.body_left -= 1;
                if !self.drops_body {
                    out.push(*byte);
                }
                continue;
            }
            self.head.push(*byte);
            let Ok(head) = <[u8; HEADER_LEN_BYTES]>::try_from(&self.head[..]) else {
                continue;
            };
            self.head.clear();
            let Ok(header) = Header::of(head) else {
                continue;
            };
            self.frames += 1;
            self.body_left = header.len_bytes as usize;
            self.drops_body = self.frames.is_multiple_of(BODY_LOST_EVERY);
            out.extend(header.to_bytes());
        }
        out
    }
}

/// What a tap may know of the master's log: a place in the middle of its last file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds(Rc<RefCell<u64>>);

impl Bounds {
    /// Where the last message begins.
    pub(crate) fn note(&self, begin: u64) {
        *self.0.borrow_mut() = begin;
    }

    fn middle(&self) -> u64 {
        *self.0.borrow()
    }
}
