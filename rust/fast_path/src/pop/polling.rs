//! Pops that wait: held ones, and those that were woken and run at the next turn or at once
//! (`PopLongPollingService`). Pure: times and arrivals are passed in.

use std::collections::VecDeque;

use super::merge::PopBufferMerge;
use super::other_loops::{Line, LoopNumber};
use super::polls::{Polls, Waits};
use super::shards::PopShards;
use crate::pop_run::Pop;
use crate::request_context::ConnectionId;
use crate::turn::{POPS_WORK, Slice};

/// The pops that wait.
#[derive(Debug, Default)]
pub(crate) struct PopLongPolling {
    /// Of the loop that they wait on.
    pub(super) number: LoopNumber,
    /// Held pops.
    pub(crate) polls: Polls<Pop>,
    /// Pops to run again at the next drain.
    pub(super) later: VecDeque<Pop>,
    /// Whether the last turn ended before all of them had run that could.
    pub(super) is_cut: bool,
    /// Pops to run before anything else.
    pub(super) woken: Vec<Pop>,
    /// The shards, a bit each, that know of pops held here.
    pub(super) held_in: u64,
}

impl Waits for Pop {
    fn connection(&self) -> ConnectionId {
        self.request_context.connection
    }

    fn line(&self) -> (&str, &str, i32) {
        (&self.topic, &self.group, self.queue_id)
    }

    fn may_want(&self, tags_codes: &[i64]) -> bool {
        self.filter.may_want(tags_codes)
    }
}

impl PopLongPolling {
    /// Wakes one of a line, to be run before anything else; one of another loop, at its next drain,
    /// where none waits here.
    pub(super) fn wake(&mut self, merge: &mut PopBufferMerge, line: Line<'_>) {
        match self.polls.next_of(line) {
            Some(next) => self.woken.push(next),
            None => merge.loops.wake(self.number, line),
        }
    }

    /// Wakes one of a line, to be run at the next drain, here or on another loop.
    pub(super) fn wake_later(&mut self, merge: &mut PopBufferMerge, line: Line<'_>) {
        match self.polls.next_of(line) {
            Some(next) => self.later.push_back(next),
            None => merge.loops.wake(self.number, line),
        }
    }

    /// Wakes those whose lines other loops have woken, to be run at this drain.
    pub(super) fn wake_from_elsewhere(&mut self, shards: &PopShards) {
        for (topic, group, queue_id) in shards.take_lines_of(self.number) {
            let next = self.polls.next_of((&topic, &group, queue_id));
            self.later.extend(next);
        }
    }

    /// Wakes pops that something came for, whose time is over at `due_ms`, and that the check looks after;
    /// whether none whose time is over is left.
    pub(super) fn wake_all(&mut self, due_ms: u64, now_ms: u64) -> bool {
        // Each kind has its own part, so that one does not wait for another to end.
        let mut slice = Slice::new(POPS_WORK);
        while let Some(pop) = self.polls.next_woken(&mut slice) {
            self.later.push_back(pop);
        }
        let mut slice = Slice::new(POPS_WORK);
        while let Some(mut pop) = self.polls.next_released(&mut slice) {
            // It does not wait again.
            pop.poll_ms = 0;
            self.later.push_back(pop);
        }
        while let Some(pop) = self.polls.next_due(due_ms, &mut slice) {
            self.later.push_back(pop);
        }
        let are_all_woken = !slice.is_spent();
        while let Some(pop) = self.polls.next_checked(now_ms, &mut slice) {
            self.later.push_back(pop);
        }
        are_all_woken
    }

    /// When a drain has something to do, ms.
    pub(super) fn next_deadline_ms(&self, now_ms: u64) -> Option<u64> {
        let at = if self.is_cut { 0 } else { now_ms + 1 };
        let later = (!self.later.is_empty()).then_some(at);
        let deadlines = [later, self.polls.next_deadline_ms()];
        deadlines.into_iter().flatten().min()
    }
}
