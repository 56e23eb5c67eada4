//! Bugs that controller mode might have, planted around the code of production: in what goes over a
//! connection, in what is made of reports, in what controllers and brokers do. Each is one that was reported
//! of RocketMQ, or follows from its sources. Without a flaw nothing is changed.

use std::collections::BTreeMap;

use mqcore_replica::auto_switch::{
    AUTO_REPORT_LEN_BYTES, GREETING_LEN_BYTES, GreetingHead, INTRODUCTION_LEN_BYTES,
    TRANSFER_LEN_BYTES, Transfer, auto_report,
};
use mqcore_replica::{Alteration, Members};
use mqcore_shipping::SlaveStanding;

use std::io::Write;
use std::path::PathBuf;

use super::node::{Link, Role};
use super::options::Options;

use super::world::World;
use crate::ledger::Checked;
use crate::network::{Pair, Side, Tap};
use crate::options::{BODY_LEN_MAX, SEGMENT_BYTES};
use crate::watch::Reports;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A cut moves positions and leaves the bytes: a crash brings them back (#10666).
    CutMovesPositions,
    /// A slave reports what its master has announced.
    ReportAboveOwnEnd,
    /// A member without a report is left out of the minimum.
    MissingReportCounts,
    /// A slave is asked for before sends wait for it.
    JoinsInOneStep,
    /// An epoch that begins where the one before it does is not written down (PR #9942).
    EqualStartRefused,
    /// A member that lost its end with the power stays in the set (KIP-966).
    UncleanStays,
    /// A header goes out, and its body does not (#9689).
    HeaderWithoutBody,
    /// A master that no member is connected to lets readers see all (#6662).
    ConfirmsAlone,
    /// Readers of a slave see what is not confirmed (#6609).
    ReadersSeeAll,
    /// A broker outside of the set is elected.
    ElectsAnybody,
    /// A controller that starts has forgotten what it wrote last.
    ControllerForgets,
    /// An alteration without an answer is taken for refused.
    SilenceIsRefusal,
    /// The second start after a loss of power does not know of it.
    ForgetsLostEnd,
    /// A learner does not introduce itself as one.
    LearnerJoins,
    /// A learner asks for an election as others do.
    LearnerAsks,
    /// A broker with an empty disk goes on with the id that it had.
    LostDiskKeepsId,
    /// With a file of the log all epochs before the last one are forgotten.
    ForgetsEpochs,
    /// How far a master has asked about transactions is written down before that is confirmed.
    HalfOffsetsUnsettled,
    /// A slave takes offsets of groups before its log has the check points that they rest on.
    OffsetsBeforeLog,
    /// Offsets of a group that pops are written down before its check points are confirmed.
    PopOffsetsUnsettled,
    /// Offsets are written before the log is durable, and those behind a log that has lost its end stay.
    OffsetsNotClipped,
    /// A slave does not follow the offsets of its master.
    OffsetsNotFollowed,
}

impl Flaw {
    /// Every flaw.
    pub(crate) const ALL: [Self; 22] = [
        Self::CutMovesPositions,
        Self::ReportAboveOwnEnd,
        Self::MissingReportCounts,
        Self::JoinsInOneStep,
        Self::EqualStartRefused,
        Self::UncleanStays,
        Self::HeaderWithoutBody,
        Self::ConfirmsAlone,
        Self::ReadersSeeAll,
        Self::ElectsAnybody,
        Self::ControllerForgets,
        Self::SilenceIsRefusal,
        Self::ForgetsLostEnd,
        Self::LearnerJoins,
        Self::LearnerAsks,
        Self::LostDiskKeepsId,
        Self::ForgetsEpochs,
        Self::HalfOffsetsUnsettled,
        Self::PopOffsetsUnsettled,
        Self::OffsetsBeforeLog,
        Self::OffsetsNotClipped,
        Self::OffsetsNotFollowed,
    ];

    /// Changes the options so that the flaw can show.
    pub(crate) fn bend(self, options: &mut Options) {
        match self {
            Self::UncleanStays => {
                options.loses_power = true;
                options.is_synced.fill(false);
                options.at_least(3);
            }
            Self::HeaderWithoutBody => options.batch_len_bytes = 50,
            Self::EqualStartRefused => options.burst_every_ms = 1_500,
            Self::ControllerForgets => options.controllers = 1,
            Self::LostDiskKeepsId => options.loses_disks = true,
            Self::ForgetsEpochs => {
                options.removes_files = true;
                options.has_timers = false;
                options.body_len_max = BODY_LEN_MAX;
            }
            Self::LearnerJoins | Self::LearnerAsks => {
                options.at_least(3);
                options.learner = Some(options.brokers - 1);
            }
            Self::HalfOffsetsUnsettled | Self::OffsetsNotFollowed => {
                options.removes_files = false;
            }
            Self::OffsetsNotClipped => {
                options.removes_files = false;
                options.loses_power = true;
                options.is_synced.fill(false);
            }
            Self::OffsetsBeforeLog | Self::PopOffsetsUnsettled => {
                options.removes_files = false;
                options.has_timers = true;
            }
            Self::SilenceIsRefusal => options.letter_ms = (1, 300),
            Self::ForgetsLostEnd => {
                options.loses_power = true;
                options.is_synced.fill(false);
                options.letter_ms = (1, 300);
                options.fault_every_ms = 200;
                options.at_least(3);
            }
            _ => {}
        }
    }
}

/// One frame in so many loses its body.
const BODY_LOST_EVERY: u64 = 20;

impl World {
    /// What a slave with a flaw reports too early.
    pub(crate) fn report_early(&mut self, broker: usize, link: &mut Link) -> Checked {
        let appended = self.ledger.copies[broker].end();
        let announced = link.follower.announced();
        let has_reported = link.follower.reported().is_some();
        if self.flaw != Some(Flaw::ReportAboveOwnEnd) || announced <= appended || !has_reported {
            return Ok(());
        }
        // A connection that has ended takes nothing.
        let _sent = link.wire.write_all(&auto_report(announced));
        self.watch_frames()
    }

    /// What a slave with a flaw lets readers see.
    pub(crate) fn let_readers_see(&mut self, broker: usize) {
        if self.flaw == Some(Flaw::ReadersSeeAll)
            && let Some(store) = self.nodes[broker].store()
        {
            store.replica().confirm(None);
        }
    }

    /// What a master with a flaw makes of the reports.
    pub(crate) fn bend_marks(&mut self, broker: usize, flaw: Flaw) {
        let Some(opened) = self.nodes[broker].opened_mut() else {
            return;
        };
        let store = std::sync::Arc::clone(&opened.store);
        let Role::Master {
            slaves, members, ..
        } = &mut opened.role
        else {
            return;
        };
        let mut standings = Vec::new();
        slaves.note_standings(&mut standings, store.replica().elapsed_ms());
        let (known, _) = members.lock().known();
        let is_member =
            |standing: &&SlaveStanding| standing.id.is_some_and(|id| known.contains(&id));
        let connected: Vec<&SlaveStanding> = standings.iter().filter(is_member).collect();
        let end = store.replica().appended();
        match flaw {
            Flaw::MissingReportCounts if known.len() > 1 && !connected.is_empty() => {
                let known = connected
                    .iter()
                    .filter(|one| one.standing.requested.is_some());
                let least = known.map(|one| one.standing.acknowledged).min();
                let least = least.unwrap_or(end).min(end);
                if least > store.replica().confirmed() {
                    store.durability().note_replicated(least);
                    store.replica().confirm(Some(least));
                }
            }
            Flaw::ConfirmsAlone if known.len() > 1 && connected.is_empty() => {
                store.replica().confirm(None);
            }
            _ => {}
        }
    }

    /// A request for another set was not answered.
    pub(crate) fn refuse_in_silence(&mut self, broker: usize) {
        if self.flaw == Some(Flaw::SilenceIsRefusal)
            && let Some(opened) = self.nodes[broker].opened()
            && let Role::Master { members, .. } = &opened.role
        {
            members.lock().refuse();
        }
    }

    /// The bytes behind a cut are on the disk still, when a process starts.
    pub(crate) fn put_back_what_was_cut(&mut self, broker: usize) {
        let end = self.ledger.copies[broker].end();
        let known = &mut self.nodes[broker];
        let Some((at, tail)) = known.uncut.take().filter(|(at, _)| *at == end) else {
            return;
        };
        for (number, byte) in (at..).zip(tail) {
            let begin = number - number % SEGMENT_BYTES;
            let path = PathBuf::from(format!("/store/commitlog/{begin:020}"));
            known.twin.overwrite(&path, number - begin, |_| byte);
        }
    }
}

/// A master with a flaw: whoever is connected is asked for.
pub(crate) fn joined_at_once(members: &Members, standings: &[SlaveStanding]) -> Option<Alteration> {
    let (known, set_epoch) = members.known();
    let connected = standings
        .iter()
        .filter(|one| one.standing.requested.is_some() && !one.is_learner);
    let connected = connected.filter_map(|one| one.id);
    let new: Vec<i64> = connected.filter(|id| !known.contains(id)).collect();
    if new.is_empty() || !members.is_leading() {
        return None;
    }
    let mut members = [known, new].concat();
    members.sort_unstable();
    Some(Alteration { members, set_epoch })
}

/// What a tap knows of one direction of a connection.
#[derive(Default)]
struct Stream {
    head: Vec<u8>,
    is_introduced: bool,
    body_left: usize,
    drops_body: bool,
    frames: u64,
}

/// Looks at all that is written: reports are noted, and a flaw of the stream is planted.
pub(crate) fn tap(flaw: Option<Flaw>, frames: &Reports) -> Tap {
    let frames = frames.clone();
    let mut streams: BTreeMap<(Pair, bool), Stream> = BTreeMap::new();
    Box::new(move |pair, side, bytes| {
        let is_near = side == Side::Near;
        let stream = streams.entry((pair, is_near)).or_default();
        if is_near {
            stream.note_reports(pair, bytes, &frames);
            return bytes.to_vec();
        }
        match flaw {
            Some(Flaw::HeaderWithoutBody) => stream.drop_bodies(bytes),
            _ => bytes.to_vec(),
        }
    })
}

impl Stream {
    fn note_reports(&mut self, pair: Pair, bytes: &[u8], frames: &Reports) {
        for byte in bytes {
            self.head.push(*byte);
            if !self.is_introduced {
                if self.head.len() == INTRODUCTION_LEN_BYTES {
                    self.is_introduced = true;
                    self.head.clear();
                }
            } else if let Ok(report) = <[u8; AUTO_REPORT_LEN_BYTES]>::try_from(&self.head[..]) {
                let end = report.last_chunk::<8>();
                frames.push(pair, end.map_or(0, |end| u64::from_be_bytes(*end)));
                self.head.clear();
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
            if !self.is_introduced {
                if let Ok(head) = <[u8; GREETING_LEN_BYTES]>::try_from(&self.head[..]) {
                    self.is_introduced = true;
                    self.body_left = GreetingHead::of(&head).map_or(0, |head| head.len_bytes);
                    self.drops_body = false;
                    out.append(&mut self.head);
                }
            } else if let Ok(head) = <[u8; TRANSFER_LEN_BYTES]>::try_from(&self.head[..]) {
                self.frames += 1;
                self.body_left = Transfer::of(&head).map_or(0, |head| head.len_bytes as usize);
                self.drops_body = self.frames.is_multiple_of(BODY_LOST_EVERY);
                out.append(&mut self.head);
            }
        }
        out
    }
}
