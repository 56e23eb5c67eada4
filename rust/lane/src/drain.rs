//! One turn of the loop for what waits in the lane: answers that have reached their watermark, held
//! requests that something came for, sends that waited for a log file, what threads have read. Each
//! kind has a slice of its own (`turn`); what is left over keeps for the next turn.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;

use crate::codes;
use crate::holds::{News, Pull};
use crate::lane::{Lane, Outcome, SEND_WAIT_MAX_MS};
use crate::readers::Done;
use crate::requests::Request;
use crate::turn::{
    ANSWERS_PER_TURN, CHECK_WORK, CLOSE_WORK, CLOSED_WORK, DEFERRED_WORK, DUE_WORK, LOOKED_AT,
    NEWS_PER_TURN, READ_WORK, Slice, WOKEN_WORK,
};

/// Pause before it is tried again whether the next log file is there, ms.
const DEFERRED_RETRY_MS: u64 = 2;

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Answers what can be answered now, as far as one turn goes; `others` are tickets that are not
    /// the lane's. With more to do [`Lane::next_deadline_ms`] is over.
    pub fn drain(&mut self, now_ms: u64, others: &mut Vec<(Ticket, PutStatus)>) {
        self.now_ms = now_ms;
        let mut answers = Vec::new();
        let next_ms = self.store.drain_some(ANSWERS_PER_TURN, &mut answers);
        self.acks_deadline_ms = next_ms.map(|next_ms| match next_ms {
            0 => 0,
            next_ms => now_ms + next_ms,
        });
        for (ticket, status) in answers {
            match self.parked.take(ticket) {
                Some(stored) => self.answer_parked(&stored, status),
                None => others.push((ticket, status)),
            }
        }
        self.forget_left(CLOSED_WORK);
        self.take_news();
        self.check_queues();
        self.run_woken_pulls();
        self.run_due_pulls();
        self.wake_pops();
        self.run_deferred();
        self.run_later_pops();
        self.settle_due_pops();
        self.write_due_notes();
        self.take_read();
        self.unwatch_emptied();
    }

    /// Forgets a connection with all that it waits for: what it has is marked, and worked off in
    /// turns. Its parked sends are answered to nobody.
    pub(crate) fn close_waits(&mut self, id: crate::asker::ConnectionId) {
        self.holds.close(id);
        self.pops.polls.close(id);
        self.pops.notices.close(id);
        self.filtered.close(id);
        self.forget_left(CLOSE_WORK);
        self.unwatch_emptied();
    }

    fn forget_left(&mut self, work: usize) {
        let mut slice = Slice::new(work);
        self.holds.forget_left(&mut slice);
        self.pops.polls.forget_left(&mut slice);
        self.pops.notices.forget_left(&mut slice);
    }

    fn take_news(&mut self) {
        let mut arrivals = Vec::new();
        self.store.arrivals().drain(NEWS_PER_TURN, &mut arrivals);
        self.has_more_news = arrivals.len() == NEWS_PER_TURN;
        for arrival in arrivals {
            let Ok(topic) = std::str::from_utf8(&arrival.queue.topic) else {
                continue;
            };
            let queue_id = arrival.queue.queue_id;
            self.pops.arrived(topic, queue_id, &arrival.tags_codes);
            // Records that came; when there were too many to keep their codes, nobody knows how many.
            let count = arrival.tags_codes.len() as u64;
            let news = News {
                from: arrival.next_offset.saturating_sub(count),
                next_offset: arrival.next_offset,
                tags_codes: arrival.tags_codes,
            };
            self.holds.arrived(topic, queue_id, news);
        }
    }

    fn run_woken_pulls(&mut self) {
        let mut slice = Slice::new(WOKEN_WORK);
        loop {
            let store = &self.store;
            let wants = |pull: &Pull, news: &News, slice: &mut Slice| {
                news.tags_codes.is_empty() || Self::wants_arrived(store, pull, news.from, slice)
            };
            let Some(pull) = self.holds.next_woken(&mut slice, wants) else {
                return;
            };
            self.run_pull(pull, &mut slice);
        }
    }

    fn run_due_pulls(&mut self) {
        let mut slice = Slice::new(DUE_WORK);
        while let Some(pull) = self.holds.next_due(self.now_ms, &mut slice) {
            self.run_pull(pull, &mut slice);
        }
    }

    fn run_pull(&mut self, pull: Pull, slice: &mut Slice) {
        let before = self.desk.stats.pulled_bytes;
        self.pull_again(pull);
        let answer_bytes = self.desk.stats.pulled_bytes - before;
        slice.spend_run(usize::try_from(answer_bytes).unwrap_or(usize::MAX));
    }

    fn check_queues(&mut self) {
        let mut slice = Slice::new(CHECK_WORK);
        while let Some(queue) = self.holds.next_checked(self.now_ms, &mut slice) {
            if let Ok(Some(bounds)) = self.store.bounds(queue.0.as_bytes(), queue.1) {
                self.holds
                    .arrived(&queue.0, queue.1, News::of_end(bounds.max));
            }
        }
    }

    fn run_deferred(&mut self) {
        let mut slice = Slice::new(DEFERRED_WORK);
        let mut waiting = std::mem::take(&mut self.deferred);
        waiting.is_cut = false;
        while let Some(deferred) = waiting.pop() {
            if slice.is_spent() {
                waiting.put_back(deferred);
                waiting.is_cut = true;
                break;
            }
            slice.spend(LOOKED_AT);
            if self.desk.connection(deferred.connection).is_none() {
                continue;
            }
            let request = Request::of_command(deferred.connection, &deferred.command);
            let waited_ms = self.now_ms.saturating_sub(deferred.since_ms);
            if waited_ms > SEND_WAIT_MAX_MS {
                let remark = format!(
                    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in \
                     queue: {waited_ms}ms, size of queue: {}",
                    waiting.len()
                );
                slice.spend_run(remark.len());
                self.refuse_send(&request.asker, codes::SYSTEM_BUSY, &remark);
                continue;
            }
            match self.run(&request, deferred.how) {
                Outcome::Defer => {
                    waiting.put_back(deferred);
                    break;
                }
                other => {
                    slice.spend_run(deferred.command.body.len());
                    self.wait(deferred.connection, deferred.command, deferred.how, other);
                }
            }
        }
        // Nothing was added meanwhile: what is run here defers by its outcome.
        self.deferred = waiting;
    }

    fn take_read(&mut self) {
        let mut slice = Slice::new(READ_WORK);
        self.done.extend(self.readers.take_done());
        while !slice.is_spent()
            && let Some(done) = self.done.pop_front()
        {
            let before = self.desk.stats.pulled_bytes;
            match done {
                Done::Pull(pull, hold, got) => {
                    if pull.filter.looks_at_records() {
                        self.filtered.end_one();
                    }
                    self.answer_pull(pull, hold, *got);
                }
                Done::Back(returned, how, record) => self.put_back_read(&returned, how, record),
                Done::End(ending, record) => self.end_read(&ending, record),
                Done::First(doubt, bytes, looked) => {
                    if let Some(doubt) = self.first_read(*doubt, bytes, looked) {
                        self.run_again(doubt.connection, doubt.command, doubt.how);
                    }
                }
                Done::Pop(cold, got) => self.pop_was_read(cold, *got),
                Done::Search(asker, found) => self.answer_search(&asker, found),
            }
            let answer_bytes = self.desk.stats.pulled_bytes - before;
            slice.spend_run(usize::try_from(answer_bytes).unwrap_or(usize::MAX));
        }
        self.read_filtered();
    }

    pub(crate) fn unwatch_emptied(&mut self) {
        let emptied = [
            self.holds.take_emptied(),
            self.pops.polls.take_emptied(),
            self.pops.notices.take_emptied(),
        ];
        for (topic, queue_id) in emptied.into_iter().flatten() {
            self.unwatch_unheld(&topic, queue_id);
        }
    }

    /// When [`Lane::drain`] has something to do although nothing was announced, ms.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        if self.has_more_news || self.deferred.is_cut || !self.done.is_empty() {
            return Some(0);
        }
        let deferred = (!self.deferred.is_empty()).then(|| self.now_ms + DEFERRED_RETRY_MS);
        let held = self.holds.next_deadline_ms();
        let noted = self.ends.next_due_ms();
        let popped = self.pops.next_deadline_ms(self.now_ms);
        let deadlines = [held, self.acks_deadline_ms, deferred, noted, popped];
        deadlines.into_iter().flatten().min()
    }
}
