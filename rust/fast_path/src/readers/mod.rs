//! The threads that read cold records, so that the fast path never waits for a disk. They end with it.

mod ending;
mod returned;

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Boundary;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::store::{Ask, Got, LoopEvents, Store};

pub use self::ending::Ending;
pub use self::returned::Returned;
use crate::filtering::Sieve;
use crate::holds::Pull;
use crate::pop_run::ColdPop;
use crate::repeats::{DuplicateCandidate, Looked, look_patiently};
use crate::request_context::RequestContext;
use crate::shape::offsets_max;
use crate::stop::How;

/// Cold reads that wait at the most; beyond it they are refused. At a millisecond each a client
/// would wait a second for its turn.
pub const WAITING_MAX: usize = 1_024;

/// Something to read.
#[derive(Debug)]
pub enum Job<D: Disk> {
    /// The records of a pull, and how long it may be held when there are none.
    Pull(Pull, Option<u64>),
    /// A message that is sent back.
    Back(Returned, How),
    /// A half message that is ended.
    End(Ending),
    /// What is where a send may have been stored before; bytes of the send.
    First(Box<DuplicateCandidate>, usize),
    /// A queue of a pop.
    Pop(ColdPop<D>),
    /// The offset that goes with a time.
    Search {
        /// Who asks.
        request_context: RequestContext,
        /// The topic.
        topic: Box<str>,
        /// The queue.
        queue_id: i32,
        /// The time, ms.
        timestamp_ms: i64,
        /// Which of the messages around it.
        boundary: Boundary,
    },
}

/// What was read.
#[derive(Debug)]
pub enum Done<D: Disk> {
    /// The records of a pull.
    Pull(Pull, Option<u64>, Box<Result<Got<D>>>),
    /// A message that is sent back.
    Back(Returned, How, Result<RecordBytes<D>>),
    /// A half message that is ended.
    End(Ending, Result<RecordBytes<D>>),
    /// What is where a send may have been stored before.
    First(Box<DuplicateCandidate>, usize, Looked),
    /// A queue of a pop.
    Pop(ColdPop<D>, Box<Result<Got<D>>>),
    /// An offset.
    Search(RequestContext, Result<Option<u64>>),
}

type Finished<D> = Arc<Mutex<Vec<Done<D>>>>;

/// The threads, and what they have read.
pub struct Readers<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    /// What wakes the loop that takes what was read.
    events: Arc<LoopEvents>,
    thread_count: usize,
    jobs: Option<SyncSender<Job<D>>>,
    finished: Finished<D>,
    threads: Vec<JoinHandle<()>>,
}

impl<D: Disk, C: Clock> Readers<D, C> {
    pub(crate) fn new(
        store: Arc<Store<D, C>>,
        events: Arc<LoopEvents>,
        thread_count: usize,
    ) -> Self {
        Self {
            store,
            events,
            thread_count,
            jobs: None,
            finished: Finished::default(),
            threads: Vec::new(),
        }
    }

    /// Has something read; false when too much waits.
    pub(crate) fn submit(&mut self, job: Job<D>) -> bool {
        self.give_back(job).is_none()
    }

    /// Has something read; gives it back when too much waits.
    pub(crate) fn give_back(&mut self, job: Job<D>) -> Option<Job<D>> {
        if self.thread_count == 0 {
            finish(&self.store, &self.events, &self.finished, job);
            return None;
        }
        if self.jobs.is_none() {
            self.start();
        }
        let Some(jobs) = &self.jobs else {
            return Some(job);
        };
        match jobs.try_send(job) {
            Ok(()) => None,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Some(job),
        }
    }

    /// What was read since the last call.
    pub(crate) fn take_done(&self) -> Vec<Done<D>> {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut finished)
    }

    /// Forgets the threads: in a forked child they are not there, and would be waited for for ever.
    pub(crate) fn abandon(&mut self) {
        std::mem::forget(std::mem::take(&mut self.threads));
    }

    /// At the first cold read: a broker whose consumers keep up has no such thread.
    fn start(&mut self) {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        for at in 0..self.thread_count {
            let receiver: Arc<Mutex<Receiver<Job<D>>>> = Arc::clone(&receiver);
            let (store, finished) = (Arc::clone(&self.store), Arc::clone(&self.finished));
            let events = Arc::clone(&self.events);
            let work = move || {
                loop {
                    let next = receiver
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .recv();
                    match next {
                        Ok(job) => finish(&store, &events, &finished, job),
                        Err(_the_fast_path_is_gone) => return,
                    }
                }
            };
            let name = format!("mq-read-{at}");
            if let Ok(thread) = std::thread::Builder::new().name(name).spawn(work) {
                self.threads.push(thread);
            }
        }
        self.jobs = (!self.threads.is_empty()).then_some(sender);
    }
}

impl<D: Disk, C: Clock> Drop for Readers<D, C> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ended = thread.join();
        }
    }
}

fn finish<D: Disk, C: Clock>(
    store: &Store<D, C>,
    events: &LoopEvents,
    finished: &Finished<D>,
    job: Job<D>,
) {
    let done = match job {
        Job::Pull(pull, hold) => {
            let got = read(store, &pull);
            Done::Pull(pull, hold, Box::new(got))
        }
        Job::Back(returned, how) => {
            let record = store.reader().record_at(returned.physical_offset);
            Done::Back(returned, how, record)
        }
        Job::End(ending) => {
            let record = store.reader().record_at(ending.physical_offset);
            Done::End(ending, record)
        }
        Job::First(candidate, bytes) => {
            let looked = look_patiently(store, &candidate);
            Done::First(candidate, bytes, looked)
        }
        Job::Pop(cold) => {
            let got = cold.read.read(store);
            Done::Pop(cold, Box::new(got))
        }
        Job::Search {
            request_context,
            topic,
            queue_id,
            timestamp_ms,
            boundary,
        } => {
            let found =
                store
                    .reader()
                    .offset_by_time(topic.as_bytes(), queue_id, timestamp_ms, boundary);
            Done::Search(request_context, found)
        }
    };
    let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
    finished.push(done);
    drop(finished);
    events.wake_descriptor().raise();
}

/// The records of a pull whose offset is none below zero.
pub(crate) fn read<D: Disk, C: Clock>(store: &Store<D, C>, pull: &Pull) -> Result<Got<D>> {
    if pull.filter.looks_at_records() {
        return read_by(store, pull, &mut Sieve::in_thread(&pull.filter));
    }
    let topic = pull.topic.as_bytes();
    let ask = ask_of(pull);
    if pull.wants_offsets() {
        let count_max = pull.count_max.min(offsets_max(&pull.topic, pull.bytes_max));
        return store
            .reader()
            .offsets(topic, pull.queue_id, Ask { count_max, ..ask });
    }
    store.reader().get(topic, pull.queue_id, ask)
}

/// Those of them that its filter gives.
pub(crate) fn read_by<D: Disk, C: Clock>(
    store: &Store<D, C>,
    pull: &Pull,
    sieve: &mut Sieve<'_>,
) -> Result<Got<D>> {
    store
        .reader()
        .select(pull.topic.as_bytes(), pull.queue_id, ask_of(pull), sieve)
}

fn ask_of(pull: &Pull) -> Ask<'_> {
    Ask {
        from: u64::try_from(pull.queue_offset).unwrap_or(0),
        count_max: pull.count_max,
        bytes_max: pull.bytes_max,
        tags_codes: pull.filter.codes(),
        is_bulk: pull.shape.is_bulk(),
    }
}
