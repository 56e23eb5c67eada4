//! The reactors of a fast path: started and stopped with Python's loop, and what they report until that
//! loop takes it.

use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::SystemClock;
use mqcore_engine::disk::RealDisk;
use mqcore_engine::error::Result;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::LoopEvents;
use mqcore_reactor::{Reactor, Report, Reported, Reports};

use crate::locked::Home;

/// A reactor over the store of a broker.
pub(crate) type BrokerReactor = Reactor<RealDisk, SystemClock>;

/// How many connections the reactor with the most may have more than the one with the fewest; a
/// quarter of what it has, where that is more: to move some costs both a turn.
const DIFFERENCE_MAX: usize = 4;
/// Connections that are moved at once at the most.
const MOVED_MAX: usize = 64;

/// Who moves the bytes of a connection.
#[derive(Clone)]
pub(crate) struct Mover {
    /// The number of the fast path: 0 is that of Python's loop.
    pub(crate) number: usize,
    pub(crate) home: Arc<Home>,
    /// None: the transport of Python's loop.
    pub(crate) reactor: Option<Arc<BrokerReactor>>,
}

/// The reactors of a fast path.
pub(crate) struct Reactors {
    running: Mutex<Vec<Arc<BrokerReactor>>>,
    reported: Mutex<Vec<Arc<Reported>>>,
    /// Of Python's loop.
    events: Arc<LoopEvents>,
}

impl Reactors {
    pub(crate) fn new(events: Arc<LoopEvents>) -> Self {
        Self {
            running: Mutex::default(),
            reported: Mutex::default(),
            events,
        }
    }

    /// Starts a reactor for each of the fast paths, which looks for events for up to `busy_poll` before it
    /// sleeps; does nothing while there are some.
    ///
    /// # Errors
    /// As [`Reactor::start`]; those that were started stay.
    pub(crate) fn start_all(&self, homes: &[Arc<Home>], busy_poll: Duration) -> Result<()> {
        let mut running = self.running.lock();
        if !running.is_empty() {
            return Ok(());
        }
        for (at, home) in homes.iter().enumerate() {
            let reported = Arc::new(Reported::new(Arc::clone(&self.events)));
            let reports: Arc<dyn Reports> = reported.clone();
            let name = format!("mq-reactor-{at}");
            let started = Reactor::start(&name, Arc::clone(home), reports, busy_poll)?;
            running.push(Arc::new(started));
            self.reported.lock().push(reported);
        }
        Ok(())
    }

    /// Ends them.
    ///
    /// # Blocking
    /// Until their turns have ended.
    pub(crate) fn stop_all(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        for reactor in running {
            reactor.stop();
        }
        self.reported.lock().clear();
    }

    /// The one with the fewest connections, with the number of its fast path.
    pub(crate) fn least_loaded(&self) -> Option<(usize, Arc<BrokerReactor>)> {
        let running = self.running.lock();
        let numbered = running.iter().enumerate();
        let (at, reactor) = numbered.min_by_key(|(_, reactor)| reactor.connections())?;
        Some((at + 1, Arc::clone(reactor)))
    }

    /// How many connections each has.
    pub(crate) fn connections(&self) -> Vec<usize> {
        let running = self.running.lock();
        running
            .iter()
            .map(|reactor| reactor.connections())
            .collect()
    }

    /// Asks the reactor with the most connections to give up idle ones, where others have far fewer.
    pub(crate) fn even_out(&self) {
        let running = self.running.lock();
        let counts = running.iter().map(|reactor| reactor.connections());
        let least = counts.min().unwrap_or(0);
        let most = running.iter().max_by_key(|reactor| reactor.connections());
        let Some(most) = most else {
            return;
        };
        let more = most.connections().saturating_sub(least);
        if more > DIFFERENCE_MAX.max(most.connections() / 4) {
            most.spare((more / 2).min(MOVED_MAX));
        }
    }

    /// Takes what was reported, with the number of the fast path of whoever reports.
    pub(crate) fn take_reports(&self) -> Vec<(usize, Report)> {
        let reported = self.reported.lock();
        let all = reported.iter().enumerate().flat_map(|(at, reported)| {
            let waiting = reported.take();
            waiting.into_iter().map(move |report| (at + 1, report))
        });
        all.collect()
    }
}
