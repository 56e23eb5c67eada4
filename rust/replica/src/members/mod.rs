//! The sync-state set of a master under a controller (`AutoSwitchHAService`): who is in it, who is to come in
//! or to leave, what all of them hold, which sends may be acknowledged by that. Knows ids, offsets and times
//! alone; it asks nobody.
//!
//! What was acknowledged must be with everybody whom the controller may elect. A set that was asked for may
//! be in force before the answer comes, so that sends wait for the known set and for all that was asked for.
//! Somebody new is asked for in two steps: first sends wait for him, too; then, once he holds everything that
//! the log held at that moment, and with it all that was acknowledged without him, the controller is asked.
//!
//! | | known set | asked for | joining |
//! |---|---|---|---|
//! | sends wait for them, readers see no more than they hold | yes | yes | yes |
//! | the controller may elect them | yes | perhaps | no |
//! | counts for `minInSyncReplicas` | yes | no | no |
//! | ends with | a set with a larger epoch | that, or a refusal | being asked for, or falling behind |

use std::collections::{BTreeMap, BTreeSet};

/// A slave that is less behind may join: sends wait for it as long from then on.
const JOIN_LAG_MAX_MS: u64 = 100;
/// The same in bytes, some of what a network sends in that time: how long it takes a slave that has just
/// connected nobody knows yet.
const JOIN_LAG_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The settings of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MembersRule {
    /// The master's own id.
    pub own_id: i64,
    /// `allAckInSyncStateSet`: a send waits for the whole set, and readers see what the whole set holds.
    pub acks_whole_set: bool,
    /// `inSyncReplicas`: copies that a send waits for otherwise, the master's among them.
    pub in_sync_replicas: usize,
    /// `minInSyncReplicas`: with fewer in the set nothing is stored.
    pub in_sync_replicas_min: usize,
    /// `haMaxTimeSlaveNotCatchup`: who is behind for longer is to leave.
    pub behind_max_ms: u64,
    /// Who is not connected for longer is to leave, and who joins has so long to get what it lacks: sends
    /// wait for it meanwhile.
    pub absent_max_ms: u64,
}

/// A slave that is connected and has introduced itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connected {
    /// Its id.
    pub id: i64,
    /// What it has reported; `None` before its first report.
    pub reported: Option<u64>,
    /// Whether it is never to be in the set.
    pub is_learner: bool,
    /// For how long it has not held everything that the log held at one time, ms.
    pub lag_ms: u64,
}

/// What holds for a send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It waits for no slave.
    Unneeded,
    /// It waits for slaves.
    Needed,
    /// It is not stored: the set is too small.
    NotEnough,
}

/// What the reports of all slaves come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MembersDecision {
    /// Everything below may be acknowledged.
    pub replicated: u64,
    /// Everything below is with the whole set; `None` where the log ends there, wherever that is.
    pub confirmed: Option<u64>,
    /// What holds for sends.
    pub waits: Waits,
    /// Whether somebody begins to join: [`Members::must_reach`] is to be called.
    pub begins_to_join: bool,
}

/// A set that is to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alteration {
    /// All its members.
    pub members: Vec<i64>,
    /// The epoch of the set that it replaces.
    pub set_epoch: i32,
}

#[derive(Debug, Clone, Copy)]
struct Joining {
    /// What it must hold; `None` until the end of the log was looked at.
    must_reach: Option<u64>,
    since_ms: u64,
    is_ready: bool,
}

/// The set of one master, for as long as it is the master.
#[derive(Debug)]
pub struct Members {
    rule: MembersRule,
    known: BTreeSet<i64>,
    set_epoch: i32,
    asked: BTreeSet<i64>,
    /// What was asked for last: it is no news.
    asked_last: Option<BTreeSet<i64>>,
    joining: BTreeMap<i64, Joining>,
    /// Members that are to leave.
    leaving: BTreeSet<i64>,
    /// Since when a member is not connected, or is behind.
    absent_since_ms: BTreeMap<i64, u64>,
    /// Where the log of the own epoch begins.
    epoch_start: u64,
    replicated: u64,
    confirmed: u64,
    /// Whether readers saw all that the log held until now.
    was_unbounded: bool,
}

impl Members {
    /// A set of nobody: no send is acknowledged until there is one.
    #[must_use]
    pub fn new(rule: MembersRule) -> Self {
        Self {
            rule,
            known: BTreeSet::new(),
            set_epoch: -1,
            asked: BTreeSet::new(),
            asked_last: None,
            joining: BTreeMap::new(),
            leaving: BTreeSet::new(),
            absent_since_ms: BTreeMap::new(),
            epoch_start: 0,
            replicated: 0,
            confirmed: 0,
            was_unbounded: false,
        }
    }

    /// The master leads an epoch from `epoch_start` on, with the set that its controller has given out;
    /// `confirmed` is what its log has confirmed.
    pub fn lead(&mut self, members: &[i64], set_epoch: i32, epoch_start: u64, confirmed: u64) {
        self.epoch_start = epoch_start;
        self.confirmed = self.confirmed.max(confirmed);
        if set_epoch >= self.set_epoch {
            self.take(members, set_epoch);
        }
    }

    /// The controller has this set now; false where that is no news.
    pub fn adopt(&mut self, members: &[i64], set_epoch: i32) -> bool {
        if set_epoch <= self.set_epoch {
            return false;
        }
        self.take(members, set_epoch);
        true
    }

    fn take(&mut self, members: &[i64], set_epoch: i32) {
        self.known = members.iter().copied().collect();
        self.set_epoch = set_epoch;
        self.asked.clear();
        self.asked_last = None;
        let known = &self.known;
        self.joining.retain(|id, _| !known.contains(id));
        self.leaving.retain(|id| known.contains(id));
    }

    /// What was asked for was refused, and nothing of it is in force. It is no news that it is still
    /// wanted: [`Members::wanted`] gives it to who asks.
    pub fn refuse(&mut self) {
        self.asked.clear();
    }

    /// The set as the controller has it, and its epoch.
    #[must_use]
    pub fn known(&self) -> (Vec<i64>, i32) {
        (self.known.iter().copied().collect(), self.set_epoch)
    }

    /// Who was asked for and is not answered yet.
    #[must_use]
    pub fn asked(&self) -> Vec<i64> {
        self.asked.iter().copied().collect()
    }

    /// Who joins.
    #[must_use]
    pub fn joining(&self) -> Vec<i64> {
        self.joining.keys().copied().collect()
    }

    /// Whether the master leads: it has a set with itself in it.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.known.contains(&self.rule.own_id)
    }

    /// Whether `id` is in the set that the controller has.
    #[must_use]
    pub fn contains(&self, id: i64) -> bool {
        self.known.contains(&id)
    }

    /// Whether sends wait for the reports of slaves.
    #[must_use]
    pub fn are_awaited(&self) -> bool {
        self.waits() == Waits::Needed
    }

    /// Ids of slaves that sends wait for.
    fn required(&self) -> BTreeSet<i64> {
        let known = self.known.iter().chain(&self.asked);
        let all = known.chain(self.joining.keys()).copied();
        all.filter(|&id| id != self.rule.own_id).collect()
    }

    fn waits(&self) -> Waits {
        if !self.is_leading() || self.known.len() < self.rule.in_sync_replicas_min {
            Waits::NotEnough
        } else if self.rule.acks_whole_set && !self.required().is_empty()
            || !self.rule.acks_whole_set && self.rule.in_sync_replicas > 1
        {
            Waits::Needed
        } else {
            Waits::Unneeded
        }
    }

    /// Decides by what slaves have reported, for a log that ends at `end`.
    ///
    /// Where [`MembersDecision::begins_to_join`] is set the caller first lets sends wait as
    /// [`MembersDecision::waits`] has it, then looks where the log ends, and notes it by
    /// [`Members::must_reach`].
    pub fn decide(&mut self, slaves: &[Connected], end: u64, now_ms: u64) -> MembersDecision {
        self.note_absence(slaves, now_ms);
        let begins_to_join = self.note_joining(slaves, end, now_ms);
        let waits = self.waits();
        let all_hold = self.held_by_all(slaves, end);
        // A set that is too small is not all who may be elected: who has left it is still one of them, and
        // has not what was stored since.
        let has_enough = waits != Waits::NotEnough;
        let is_alone = self.required().is_empty();
        if self.was_unbounded {
            // What they have seen is not taken back when somebody is waited for from now on.
            self.confirmed = self.confirmed.max(end);
        }
        self.was_unbounded = !self.rule.acks_whole_set || is_alone && has_enough;
        let confirmed = if !self.was_unbounded {
            if let Some(held) = all_hold.filter(|_| has_enough) {
                self.confirmed = self.confirmed.max(held);
            }
            Some(self.confirmed)
        } else {
            self.confirmed = self.confirmed.max(end);
            None
        };
        let held = match waits {
            Waits::NotEnough => None,
            Waits::Unneeded => Some(end),
            Waits::Needed if self.rule.acks_whole_set => all_hold,
            Waits::Needed => self.held_by_enough(slaves),
        };
        self.replicated = self.replicated.max(held.unwrap_or(0));
        MembersDecision {
            replicated: self.replicated,
            confirmed,
            waits,
            begins_to_join,
        }
    }

    /// What everybody holds whom sends wait for; `None` where that is not known of one.
    fn held_by_all(&self, slaves: &[Connected], end: u64) -> Option<u64> {
        let mut held = end;
        for id in self.required() {
            let reported = slaves.iter().find(|slave| slave.id == id)?.reported?;
            held = held.min(reported);
        }
        Some(held)
    }

    /// What as many hold as `inSyncReplicas` wants.
    fn held_by_enough(&self, slaves: &[Connected]) -> Option<u64> {
        let counted = slaves.iter().filter(|slave| !slave.is_learner);
        let mut reported: Vec<u64> = counted.filter_map(|slave| slave.reported).collect();
        reported.sort_unstable_by(|one, other| other.cmp(one));
        let last = self.rule.in_sync_replicas.checked_sub(2)?;
        reported.get(last).copied()
    }

    /// Notes who of the set is not there, or behind, and lets him leave after a time.
    fn note_absence(&mut self, slaves: &[Connected], now_ms: u64) {
        self.leaving.clear();
        for &id in self.known.iter().filter(|&&id| id != self.rule.own_id) {
            let slave = slaves.iter().find(|slave| slave.id == id);
            let is_there = slave.is_some_and(|slave| slave.reported.is_some());
            if is_there {
                self.absent_since_ms.remove(&id);
            } else {
                self.absent_since_ms.entry(id).or_insert(now_ms);
            }
            let absent_ms = self.absent_since_ms.get(&id);
            let absent_ms = absent_ms.map_or(0, |&since_ms| now_ms.saturating_sub(since_ms));
            let is_learner = slave.is_some_and(|slave| slave.is_learner);
            let lag_ms = slave.map_or(0, |slave| slave.lag_ms);
            let is_late = is_there && lag_ms > self.rule.behind_max_ms;
            if absent_ms > self.rule.absent_max_ms || is_late || is_learner {
                self.leaving.insert(id);
            }
        }
        let known = &self.known;
        self.absent_since_ms.retain(|id, _| known.contains(id));
    }

    /// Notes who is near enough to join; whether somebody new is.
    fn note_joining(&mut self, slaves: &[Connected], end: u64, now_ms: u64) -> bool {
        let (rule, known, epoch_start) = (self.rule, &self.known, self.epoch_start);
        let near = |slave: &Connected, lag_max_ms: u64| {
            let is_outside = !slave.is_learner && !known.contains(&slave.id);
            let is_here = slave.reported.is_some_and(|at| at >= epoch_start);
            is_outside && is_here && slave.lag_ms <= lag_max_ms
        };
        self.joining.retain(|id, joining| {
            let slave = slaves.iter().find(|slave| slave.id == *id);
            let in_time = now_ms.saturating_sub(joining.since_ms) <= rule.absent_max_ms;
            slave.is_some_and(|slave| near(slave, rule.behind_max_ms))
                && (joining.is_ready || in_time)
        });
        let mut is_new = false;
        if !self.is_leading() {
            return false;
        }
        for slave in slaves {
            let lag_bytes = end.saturating_sub(slave.reported.unwrap_or(0));
            let is_near = near(slave, JOIN_LAG_MAX_MS) && lag_bytes <= JOIN_LAG_MAX_BYTES;
            if is_near && !self.joining.contains_key(&slave.id) {
                is_new = true;
                let joining = Joining {
                    must_reach: None,
                    since_ms: now_ms,
                    is_ready: false,
                };
                self.joining.insert(slave.id, joining);
            }
        }
        for (id, joining) in &mut self.joining {
            let reported = slaves.iter().find(|slave| slave.id == *id);
            let reported = reported.and_then(|slave| slave.reported).unwrap_or(0);
            joining.is_ready |= joining.must_reach.is_some_and(|end| reported >= end);
        }
        is_new
    }

    /// Where the log ended when sends had begun to wait for those that join: they must hold so much before
    /// they are asked for.
    pub fn must_reach(&mut self, end: u64) {
        for joining in self.joining.values_mut() {
            joining.must_reach.get_or_insert(end);
        }
    }

    /// Whether [`Members::wanted`] has something that was not asked for yet.
    #[must_use]
    pub fn is_wanting(&self) -> bool {
        let target = self.target();
        target.is_some_and(|members| self.asked_last.as_ref() != Some(&members))
    }

    /// The set that would be right, where it is not the known one.
    fn target(&self) -> Option<BTreeSet<i64>> {
        if !self.is_leading() {
            return None;
        }
        let ready = self.joining.iter().filter(|(_, joining)| joining.is_ready);
        let mut members: BTreeSet<i64> = self.known.difference(&self.leaving).copied().collect();
        members.extend(ready.map(|(&id, _)| id));
        (members != self.known).then_some(members)
    }

    /// The set that is to be asked for; it counts as asked for from now on. Where nothing is wanted any
    /// more, and something that was asked for is not answered, that is the known set: a controller refuses
    /// it where it has it still.
    pub fn wanted(&mut self) -> Option<Alteration> {
        let is_open = !self.asked.is_empty();
        let members = self
            .target()
            .or_else(|| is_open.then(|| self.known.clone()))?;
        self.asked.extend(&members);
        self.asked_last = Some(members.clone());
        Some(Alteration {
            members: members.into_iter().collect(),
            set_epoch: self.set_epoch,
        })
    }

    /// When something changes without a report: an absence that becomes too long; ms from now.
    #[must_use]
    pub fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let since_ms = self.absent_since_ms.iter();
        let due = since_ms.filter(|(id, _)| !self.leaving.contains(id));
        let due = due.map(|(_, since_ms)| since_ms + self.rule.absent_max_ms + 1);
        due.min().map(|at_ms| at_ms.saturating_sub(now_ms))
    }
}

#[cfg(test)]
mod tests;
