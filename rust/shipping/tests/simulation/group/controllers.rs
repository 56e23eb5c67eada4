//! The controllers: what they agree on, durable in a journal each, and the state that it leads to. One that
//! leads writes an entry down, and so does every other one that it reaches; with the greater half it is
//! agreed on. Whoever takes over has the newest log of the greater half. That is what Raft promises, in one
//! thread: openraft draws its own times, so that a run of it would not be the same twice.

use std::path::Path;

use mqcore_consensus::journal::Journal;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_replica::controller::{Answer, ControllerState, Event, View};

use super::handling::NAME;
use super::liveness::Liveness;

const DIR: &str = "/controller";
/// Bytes of the term before each event.
const TERM_BYTES: usize = 8;

/// A controller, and what its disk has.
pub(crate) struct Controller {
    pub(crate) twin: TwinDisk,
    journal: Option<Journal<TwinDisk>>,
    /// As in the journal: a term, and an event.
    entries: Vec<Vec<u8>>,
    pub(crate) liveness: Liveness,
    /// Cut off from the others until then.
    pub(crate) cut_until_ms: u64,
    pub(crate) paused_until_ms: u64,
}

/// All controllers of a group.
pub(crate) struct Controllers {
    pub(crate) all: Vec<Controller>,
    pub(crate) leader: Option<usize>,
    term: u64,
    /// What the leader's log leads to; without a leader what was agreed on last.
    state: ControllerState,
    /// What of it a broker is answered.
    view: Option<View>,
    /// A flaw: the last entry of a log is not synced.
    pub(crate) forgets_last: bool,
}

impl Controllers {
    pub(crate) fn new(count: usize, dead_after_ms: u64) -> Self {
        let controller = |_| Controller {
            twin: TwinDisk::new(),
            journal: None,
            entries: Vec::new(),
            liveness: Liveness::new(dead_after_ms, 0),
            cut_until_ms: 0,
            paused_until_ms: 0,
        };
        Self {
            all: (0..count).map(controller).collect(),
            leader: None,
            term: 0,
            state: ControllerState::default(),
            view: None,
            forgets_last: false,
        }
    }

    /// What was agreed on of the group.
    pub(crate) fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    pub(crate) fn is_up(&self, controller: usize) -> bool {
        self.all[controller].journal.is_some()
    }

    fn takes_part(&self, controller: usize, now_ms: u64) -> bool {
        let one = &self.all[controller];
        one.journal.is_some() && one.cut_until_ms.max(one.paused_until_ms) <= now_ms
    }

    fn majority(&self) -> usize {
        self.all.len() / 2 + 1
    }

    /// Those that reach each other, unless they are too few.
    fn quorum(&self, now_ms: u64) -> Option<Vec<usize>> {
        let there = (0..self.all.len()).filter(|one| self.takes_part(*one, now_ms));
        let there: Vec<usize> = there.collect();
        (there.len() >= self.majority()).then_some(there)
    }

    /// Opens the journal of a controller that is down.
    pub(crate) fn start(&mut self, controller: usize, now_ms: u64) -> Result<(), String> {
        let timeout = self.all[controller].liveness.fresh(now_ms);
        let one = &mut self.all[controller];
        let opened = Journal::open(one.twin.clone(), Path::new(DIR));
        let (journal, mut entries) = opened.map_err(|error| error.to_string())?;
        if self.forgets_last {
            entries.pop();
        }
        one.entries = entries;
        one.journal = Some(journal);
        one.liveness = timeout;
        if let Some(leader) = self
            .leader
            .filter(|leader| self.takes_part(*leader, now_ms))
        {
            self.bring_up(leader, controller)?;
        }
        Ok(())
    }

    /// The process of a controller has ended.
    pub(crate) fn end(&mut self, controller: usize) {
        let one = &mut self.all[controller];
        one.journal = None;
        one.paused_until_ms = 0;
        if self.leader == Some(controller) {
            self.leader = None;
        }
    }

    /// Whether one has died at a call of its disk.
    pub(crate) fn stopped(&self) -> Option<usize> {
        (0..self.all.len()).find(|one| self.is_up(*one) && self.all[*one].twin.is_stopped())
    }

    /// A leader that does not reach the greater half steps down; another one takes its place. Whether one does.
    pub(crate) fn elect(&mut self, now_ms: u64) -> Result<bool, String> {
        let Some(there) = self.quorum(now_ms) else {
            self.leader = None;
            return Ok(false);
        };
        if self.leader.is_some_and(|leader| there.contains(&leader)) {
            return Ok(false);
        }
        let rank = |one: &usize| {
            let entries = &self.all[*one].entries;
            (
                entries.last().map_or(0, |last| term_of(last)),
                entries.len(),
            )
        };
        let Some(leader) = there.iter().copied().max_by_key(rank) else {
            return Ok(false);
        };
        self.term += 1;
        self.leader = Some(leader);
        for other in there {
            if other != leader {
                self.bring_up(leader, other)?;
            }
        }
        if self.all[leader].twin.is_stopped() {
            return Ok(false);
        }
        let mut state = ControllerState::default();
        for entry in &self.all[leader].entries {
            let event = Event::decode(&entry[TERM_BYTES..]);
            state.apply(&event.map_err(|fault| fault.to_string())?);
        }
        self.view = state.view(NAME);
        self.state = state;
        self.all[leader].liveness.lead(now_ms);
        Ok(true)
    }

    /// Makes the log of `other` that of the leader.
    fn bring_up(&mut self, leader: usize, other: usize) -> Result<(), String> {
        let theirs = self.all[leader].entries.clone();
        let one = &mut self.all[other];
        let Some(journal) = &mut one.journal else {
            return Ok(());
        };
        let both = one.entries.iter().zip(&theirs);
        let same = both.take_while(|(one, other)| one == other).count();
        let mut missing = &theirs[same..];
        let mut done = Ok(());
        if same < one.entries.len() {
            let Some((first, rest)) = theirs.split_first() else {
                return Ok(());
            };
            done = journal.replace(first);
            missing = rest;
        }
        for entry in missing {
            done = done.and_then(|()| journal.append(entry));
        }
        match done {
            Ok(()) => one.entries = theirs,
            // It dies there.
            Err(_) if one.twin.is_stopped() => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Has an event agreed on, and applies it; `None` where that is not known to be so.
    pub(crate) fn propose(&mut self, event: &Event, now_ms: u64) -> Result<Option<Answer>, String> {
        let there = self.quorum(now_ms).unwrap_or_default();
        let Some(leader) = self.leader.filter(|leader| there.contains(leader)) else {
            self.leader = None;
            return Ok(None);
        };
        if let Some(answer) = self.state.answer_without_change(event) {
            return Ok(Some(answer));
        }
        let entry = [&self.term.to_be_bytes()[..], &event.encode()].concat();
        let one = &mut self.all[leader];
        let Some(journal) = &mut one.journal else {
            return Ok(None);
        };
        match journal.append(&entry) {
            Ok(()) => one.entries.push(entry),
            Err(_) if one.twin.is_stopped() => return Ok(None),
            Err(error) => return Err(error.to_string()),
        }
        let mut have = 1;
        for other in there {
            if other != leader {
                self.bring_up(leader, other)?;
                have += usize::from(self.all[other].entries == self.all[leader].entries);
            }
        }
        if have < self.majority() {
            self.leader = None;
            return Ok(None);
        }
        let answer = self.state.apply(event);
        self.view = self.state.view(NAME);
        Ok(Some(answer))
    }

    /// Whether what the leader knows is the present state.
    pub(crate) fn confirm(&mut self, controller: usize, now_ms: u64) -> bool {
        let there = self.quorum(now_ms).unwrap_or_default();
        self.leader == Some(controller) && there.contains(&controller)
    }
}

fn term_of(entry: &[u8]) -> u64 {
    let term = entry.first_chunk::<TERM_BYTES>();
    term.map_or(0, |term| u64::from_be_bytes(*term))
}
