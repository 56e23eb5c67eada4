//! One turn of the loop for what waits in the fast path: answers that have reached their watermark, held
//! requests that something came for, sends that waited for a log file, what threads have read. Each
//! kind has a slice of its own (`turn`); what is left over keeps for the next turn.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;

use crate::delivery::answers::refuse_send;
use crate::fast_path::{FastPath, end_step, run_throttled, unwatch_emptied};
use crate::holds::News;
use crate::offset_processor::answer_search;
use crate::readers::Done;
use crate::refusals;
use crate::requests::Request;
use crate::send::back;
use crate::stop::Stop;
use crate::turn::{CLOSED_WORK, DEFERRED_WORK, LOOKED_AT, NEWS_PER_TURN, READ_WORK, Slice};

/// Pause before it is tried again whether the next log file is there, ms.
const DEFERRED_RETRY_MS: u64 = 2;

impl<D: Disk, C: Clock> FastPath<D, C> {
    /// Answers what can be answered now, as far as one turn goes; `others` are tickets that are not
    /// the fast path's. With more to do [`FastPath::next_deadline_ms`] is over.
    pub fn drain(&mut self, now_ms: u64, others: &mut Vec<(Ticket, PutStatus)>) {
        self.now_ms = now_ms;
        self.renew_access();
        let (mut cx, processors) = self.split();
        processors.delivery.answer_durable(&mut cx, others);
        processors.forget_left(CLOSED_WORK);
        self.take_news();
        let due_ms = if self.lets_go {
            self.throttled.let_go();
            u64::MAX
        } else {
            now_ms
        };
        let (mut cx, processors) = self.split();
        processors.pull.check_queues(&mut cx);
        processors.pull.run_woken(&mut cx);
        let are_pulls_run = processors.pull.run_due(&mut cx, due_ms);
        let are_pops_run = processors.pops.wake(&mut cx, due_ms);
        self.lets_go &= !(are_pulls_run && are_pops_run);
        run_throttled(self);
        self.run_deferred();
        let (mut cx, processors) = self.split();
        processors.pops.run_later(&mut cx);
        processors.pops.shards().settle_due_of_all(&cx);
        processors.transactions.write_due_notes(&mut cx);
        self.take_read();
        unwatch_emptied(self);
        end_step(self);
    }

    fn take_news(&mut self) {
        let mut arrivals = Vec::new();
        self.events().arrivals().drain(NEWS_PER_TURN, &mut arrivals);
        self.has_more_news = arrivals.len() == NEWS_PER_TURN;
        for arrival in arrivals {
            let Ok(topic) = std::str::from_utf8(&arrival.queue.topic) else {
                continue;
            };
            let queue_id = arrival.queue.queue_id;
            let processors = &mut self.processors;
            processors
                .pops
                .arrived(topic, queue_id, &arrival.tags_codes);
            // Records that came; when there were too many to keep their codes, nobody knows how many.
            let count = arrival.tags_codes.len() as u64;
            let news = News {
                from: arrival.next_offset.saturating_sub(count),
                next_offset: arrival.next_offset,
                tags_codes: arrival.tags_codes,
            };
            processors.pull.holds.arrived(topic, queue_id, news);
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
            if self.connections.connection(deferred.connection).is_none() {
                continue;
            }
            let request = Request::of_command(deferred.connection, &deferred.command)
                .received_at(deferred.received_us);
            let waited_ms = self.now_ms.saturating_sub(deferred.since_ms);
            if waited_ms > self.policy.broker.send_wait_max_ms {
                let refused = refusals::waited_too_long(waited_ms, waiting.len());
                slice.spend_run(refused.remark.len());
                let broker = &self.policy.broker;
                refuse_send(
                    &mut self.connections,
                    broker,
                    &request.request_context,
                    &refused,
                );
                continue;
            }
            match self.run(&request, deferred.how) {
                Err(Stop::Defer) => {
                    waiting.put_back(deferred);
                    break;
                }
                ran => {
                    slice.spend_run(deferred.command.body.len());
                    if let Err(stop) = ran {
                        self.wait(deferred.connection, deferred.command, deferred.how, stop);
                    }
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
            let before = self.connections.stats.pulled_bytes;
            self.go_on(done);
            let answer_bytes = self.connections.stats.pulled_bytes - before;
            slice.spend_run(usize::try_from(answer_bytes).unwrap_or(usize::MAX));
        }
        let (mut cx, processors) = self.split();
        processors.pull.read_filtered(&mut cx);
    }

    /// Goes on with a request whose records were read.
    fn go_on(&mut self, done: Done<D>) {
        let (mut cx, processors) = self.split();
        let (cx, delivery) = (&mut cx, &mut processors.delivery);
        match done {
            Done::Pull(pull, hold, got) => processors.pull.was_read(cx, (pull, hold), *got),
            Done::Back(returned, how, record) => {
                back::was_read(cx, delivery, (&returned, how), record);
            }
            Done::End(ending, record) => {
                processors
                    .transactions
                    .was_read(cx, delivery, &ending, record);
            }
            Done::Pop(cold, got) => processors.pops.was_read(cx, cold, *got),
            Done::Search(request_context, found) => answer_search(cx, &request_context, found),
            Done::First(candidate, bytes, looked) => {
                let send = &processors.send.repeats;
                if let Some(candidate) = send.first_read(cx, delivery, (*candidate, bytes), looked)
                {
                    self.run_again(candidate.connection, candidate.command, candidate.how);
                }
            }
        }
    }

    /// When [`FastPath::drain`] has something to do although nothing was announced, ms.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let is_at_work = self.has_more_news || self.deferred.is_cut || self.lets_go;
        if is_at_work || !self.done.is_empty() {
            return Some(0);
        }
        let deferred = (!self.deferred.is_empty()).then(|| self.now_ms + DEFERRED_RETRY_MS);
        let others = self.processors.next_deadline_ms(self.now_ms);
        [deferred, self.throttled.next_ms(), others]
            .into_iter()
            .flatten()
            .min()
    }
}
