//! Parked acknowledgements: who waits for which watermark, in the order of the log. Pure: positions
//! and times are passed in, answers come out (`FlushDiskWatcher`, `GroupTransferService`).

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::status::PutStatus;

/// Acknowledgements parked at the most. At 1 KB a message this is a gigabyte in flight: far beyond
/// what a disk that still answers has behind it.
pub const ACKS_PARKED_MAX: usize = 1_000_000;

/// Names a parked acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What an acknowledgement waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The bytes survive the process.
    pub committed: bool,
    /// The bytes survive power loss.
    pub flushed: bool,
    /// Enough replicas have the bytes.
    pub replicated: bool,
}

/// Until when an acknowledgement waits for each of them, on a clock that does not step, ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deadlines {
    /// For the disk.
    pub disk_ms: u64,
    /// For replicas.
    pub replicas_ms: u64,
}

/// Where the log is when acknowledgements are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// Committed watermark.
    pub committed: u64,
    /// Flushed watermark.
    pub flushed: u64,
    /// Replicated watermark.
    pub replicated: u64,
    /// Whether a sync or write has failed: what is not reached now never will be.
    pub has_failed: bool,
    /// A clock that does not step, ms.
    pub now_ms: u64,
}

#[derive(Debug)]
struct Parked {
    end: u64,
    needs: Needs,
    until: Deadlines,
    ticket: Ticket,
}

impl Parked {
    /// When time alone can change its answer next, after `now_ms`.
    fn next_ms(&self, now_ms: u64) -> u64 {
        let needs_disk = self.needs.committed || self.needs.flushed;
        let disk = needs_disk.then_some(self.until.disk_ms);
        let replicas = self.needs.replicated.then_some(self.until.replicas_ms);
        let both = [disk, replicas];
        let next = both.into_iter().flatten().filter(|at| *at > now_ms).min();
        next.unwrap_or(now_ms)
    }
}

/// The parked acknowledgements of a log.
#[derive(Debug, Default)]
pub struct AckQueue {
    parked: VecDeque<Parked>,
    next_ticket: u64,
    earliest_deadline_ms: Option<u64>,
    /// Whether not all wait for the same: then one behind another may be answered before it.
    is_mixed: bool,
    /// Whether the last call gave as many as it was asked for: there may be more.
    has_more: bool,
}

impl AckQueue {
    /// Parks an acknowledgement of everything below `end`.
    ///
    /// # Errors
    /// [`Error::Limit`] at [`ACKS_PARKED_MAX`].
    pub fn park(&mut self, end: u64, needs: Needs, until: Deadlines) -> Result<Ticket> {
        if self.parked.len() >= ACKS_PARKED_MAX {
            let what = "another parked acknowledgement".to_owned();
            return Err(Error::Limit {
                what,
                limit: ACKS_PARKED_MAX as u64,
            });
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let others = self.parked.back().map(|last| last.needs);
        self.is_mixed = others.is_some_and(|others| self.is_mixed || others != needs);
        // Callers park right after their append, so the position is at or near the back.
        let mut at = self.parked.len();
        while at > 0
            && self
                .parked
                .get(at - 1)
                .is_some_and(|before| before.end > end)
        {
            at -= 1;
        }
        let parked = Parked {
            end,
            needs,
            until,
            ticket,
        };
        let next_ms = parked.next_ms(0);
        self.parked.insert(at, parked);
        let earliest = self.earliest_deadline_ms;
        self.earliest_deadline_ms = Some(earliest.map_or(next_ms, |at| at.min(next_ms)));
        Ok(ticket)
    }

    /// Acknowledgements parked now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parked.len()
    }

    /// Whether none is parked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// The end that the farthest parked one waits for.
    #[must_use]
    pub fn farthest(&self) -> Option<u64> {
        self.parked.back().map(|parked| parked.end)
    }

    /// The end that the nearest parked one waits for.
    #[must_use]
    pub fn nearest(&self) -> Option<u64> {
        self.parked.front().map(|parked| parked.end)
    }

    /// How many wait for something beyond `position`.
    #[must_use]
    pub fn beyond(&self, position: u64) -> usize {
        self.parked.len() - self.parked.partition_point(|parked| parked.end <= position)
    }

    /// When [`AckQueue::drain`] should be called at the latest.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.has_more {
            return Some(0);
        }
        self.earliest_deadline_ms
    }

    /// Takes the acknowledgements that can be answered, in the order of the log. After a failure all
    /// are answered at once.
    pub fn drain(&mut self, reached: Reached, out: &mut Vec<(Ticket, PutStatus)>) {
        self.drain_some(reached, usize::MAX, out);
    }

    /// As [`AckQueue::drain`], `answers_max` of them at the most.
    pub fn drain_some(
        &mut self,
        reached: Reached,
        answers_max: usize,
        out: &mut Vec<(Ticket, PutStatus)>,
    ) {
        let before = out.len();
        let is_enough = |out: &Vec<_>| out.len() - before >= answers_max;
        self.has_more = false;
        while let Some(front) = self.parked.front().filter(|front| has_all(front, &reached)) {
            if is_enough(out) {
                self.has_more = true;
                return;
            }
            out.push((front.ticket, PutStatus::PutOk));
            self.parked.pop_front();
        }
        let is_late = self
            .earliest_deadline_ms
            .is_some_and(|at| at <= reached.now_ms);
        // The queue is in the order of the log: where all wait for the same, those behind its front have
        // not reached it either.
        if is_late || self.is_mixed || reached.has_failed {
            self.parked.retain(|parked| {
                if is_enough(out) {
                    return true;
                }
                let answer = answer(parked, &reached);
                out.extend(answer.map(|status| (parked.ticket, status)));
                answer.is_none()
            });
            self.has_more = is_enough(out) && !self.parked.is_empty();
        }
        if is_late || self.parked.is_empty() {
            let next = |parked: &Parked| parked.next_ms(reached.now_ms);
            self.earliest_deadline_ms = self.parked.iter().map(next).min();
        }
    }
}

fn lacks_disk(Parked { end, needs, .. }: &Parked, reached: &Reached) -> bool {
    (needs.committed && reached.committed < *end) || (needs.flushed && reached.flushed < *end)
}

fn lacks_replica(Parked { end, needs, .. }: &Parked, reached: &Reached) -> bool {
    needs.replicated && reached.replicated < *end
}

fn has_all(parked: &Parked, reached: &Reached) -> bool {
    !lacks_disk(parked, reached) && !lacks_replica(parked, reached)
}

fn answer(parked: &Parked, reached: &Reached) -> Option<PutStatus> {
    let (lacks_disk, lacks_replica) = (lacks_disk(parked, reached), lacks_replica(parked, reached));
    if !lacks_disk && !lacks_replica {
        return Some(PutStatus::PutOk);
    }
    if lacks_disk && reached.has_failed {
        return Some(PutStatus::ServiceNotAvailable);
    }
    let Deadlines {
        disk_ms,
        replicas_ms,
    } = parked.until;
    if (lacks_disk && disk_ms > reached.now_ms) || (lacks_replica && replicas_ms > reached.now_ms) {
        return None;
    }
    // The replica's result overrides the disk's, as in the official combination of both results.
    Some(if lacks_replica {
        PutStatus::FlushSlaveTimeout
    } else {
        PutStatus::FlushDiskTimeout
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: Needs = Needs {
        committed: false,
        flushed: true,
        replicated: false,
    };
    const BOTH: Needs = Needs {
        committed: false,
        flushed: true,
        replicated: true,
    };

    fn by(deadline_ms: u64) -> Deadlines {
        Deadlines {
            disk_ms: deadline_ms,
            replicas_ms: deadline_ms,
        }
    }

    fn drained(acks: &mut AckQueue, reached: Reached) -> Vec<(u64, PutStatus)> {
        let mut out = Vec::new();
        acks.drain(reached, &mut out);
        out.into_iter()
            .map(|(ticket, status)| (ticket.0, status))
            .collect()
    }

    fn at(flushed: u64, replicated: u64, now_ms: u64) -> Reached {
        Reached {
            committed: u64::MAX,
            flushed,
            replicated,
            has_failed: false,
            now_ms,
        }
    }

    #[test]
    fn one_sync_answers_all_below_it_in_the_order_of_the_log() {
        let mut acks = AckQueue::default();
        acks.park(200, FLUSH, by(50)).unwrap();
        acks.park(100, FLUSH, by(50)).unwrap();
        acks.park(300, FLUSH, by(50)).unwrap();
        let ok = PutStatus::PutOk;
        assert_eq!(drained(&mut acks, at(200, u64::MAX, 0)), [(1, ok), (0, ok)]);
        assert_eq!(acks.len(), 1);
        assert_eq!(drained(&mut acks, at(300, 0, 0)), [(2, ok)]);
    }

    #[test]
    fn what_one_call_does_not_take_is_there_for_the_next() {
        let failed = Reached {
            has_failed: true,
            ..at(0, 0, 0)
        };
        for (reached, status) in [
            (at(600, u64::MAX, 0), PutStatus::PutOk),
            (at(0, u64::MAX, 50), PutStatus::FlushDiskTimeout),
            (failed, PutStatus::ServiceNotAvailable),
        ] {
            let mut acks = AckQueue::default();
            for end in 1..=5 {
                acks.park(end * 100, FLUSH, by(50)).unwrap();
            }
            let mut out = Vec::new();
            for answered in [2, 4, 5] {
                acks.drain_some(reached, 2, &mut out);
                assert_eq!(out.len(), answered);
                let next = (answered < 5).then_some(0);
                assert_eq!(acks.next_deadline_ms().filter(|at| *at == 0), next);
            }
            assert!(
                out.iter()
                    .zip(0..)
                    .all(|(each, at)| *each == (Ticket(at), status))
            );
        }
    }

    #[test]
    fn each_watermark_counts_for_who_needs_it() {
        let mut acks = AckQueue::default();
        acks.park(100, BOTH, by(50)).unwrap();
        acks.park(110, FLUSH, by(50)).unwrap();
        assert_eq!(drained(&mut acks, at(200, 0, 0)), [(1, PutStatus::PutOk)]);
        assert_eq!(drained(&mut acks, at(200, 0, 49)), []);
        assert_eq!(
            drained(&mut acks, at(200, 0, 50)),
            [(0, PutStatus::FlushSlaveTimeout)]
        );
        acks.park(300, FLUSH, by(70)).unwrap();
        assert_eq!(acks.next_deadline_ms(), Some(70));
        assert_eq!(
            drained(&mut acks, at(200, 0, 70)),
            [(2, PutStatus::FlushDiskTimeout)]
        );
        assert_eq!(acks.next_deadline_ms(), None);
    }

    #[test]
    fn a_failure_answers_everyone_and_nobody_with_ok_who_was_not_reached() {
        let mut acks = AckQueue::default();
        acks.park(100, FLUSH, by(50)).unwrap();
        acks.park(200, FLUSH, by(50)).unwrap();
        let failed = Reached {
            has_failed: true,
            ..at(100, 0, 0)
        };
        let expected = [(0, PutStatus::PutOk), (1, PutStatus::ServiceNotAvailable)];
        assert_eq!(drained(&mut acks, failed), expected);
    }

    #[test]
    fn disk_and_replicas_have_deadlines_of_their_own_and_both_are_waited_for() {
        let until = Deadlines {
            disk_ms: 50,
            replicas_ms: 30,
        };
        let mut acks = AckQueue::default();
        let park = |acks: &mut AckQueue| acks.park(100, BOTH, until).unwrap().0;
        // The replica is late at 30, and the disk may still come until 50.
        let late = park(&mut acks);
        assert_eq!(acks.next_deadline_ms(), Some(30));
        assert_eq!(drained(&mut acks, at(0, 0, 30)), []);
        assert_eq!(acks.next_deadline_ms(), Some(50));
        let slave = PutStatus::FlushSlaveTimeout;
        assert_eq!(drained(&mut acks, at(0, 0, 50)), [(late, slave)]);
        // The disk has it: the replica alone is waited for, and no longer than until 30.
        let late = park(&mut acks);
        assert_eq!(drained(&mut acks, at(100, 99, 29)), []);
        assert_eq!(drained(&mut acks, at(100, 99, 30)), [(late, slave)]);
        // The replica has it in time: the disk has its own deadline.
        let late = park(&mut acks);
        assert_eq!(drained(&mut acks, at(99, 100, 49)), []);
        let disk = PutStatus::FlushDiskTimeout;
        assert_eq!(drained(&mut acks, at(99, 100, 50)), [(late, disk)]);
        let both = park(&mut acks);
        assert_eq!(
            drained(&mut acks, at(100, 100, 0)),
            [(both, PutStatus::PutOk)]
        );
    }

    #[test]
    fn a_replica_that_fails_to_come_is_no_failure_of_the_disk() {
        let mut acks = AckQueue::default();
        acks.park(100, BOTH, by(50)).unwrap();
        let failed = Reached {
            has_failed: true,
            ..at(100, 0, 0)
        };
        assert_eq!(drained(&mut acks, failed), []);
        let late = Reached {
            now_ms: 50,
            ..failed
        };
        let slave = PutStatus::FlushSlaveTimeout;
        assert_eq!(drained(&mut acks, late), [(0, slave)]);
    }
}
