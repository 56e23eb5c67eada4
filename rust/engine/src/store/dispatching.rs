//! The rounds of dispatch, and what they mean for others: appends are refused while queues or index
//! cannot be written, and who watches a queue is woken.

use std::sync::Arc;

use super::event_loops::EventLoops;
use super::refusals::Refusals;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::dispatch::{Dispatcher, refusal_of};
use crate::error::Result;
use crate::key_index::{IndexState, KeyIndex};
use crate::notice::Notices;

/// Dispatches the log to queues and index.
pub struct Dispatching<D: Disk, C: Clock> {
    dispatcher: Arc<Dispatcher<D>>,
    index: Option<Arc<KeyIndex<D, C>>>,
    loops: Arc<EventLoops>,
    refusals: Arc<Refusals>,
    notices: Arc<Notices>,
}

impl<D: Disk, C: Clock> Dispatching<D, C> {
    pub(super) fn new(
        dispatcher: &Arc<Dispatcher<D>>,
        index: Option<&Arc<KeyIndex<D, C>>>,
        refusals: &Arc<Refusals>,
        (loops, notices): (&Arc<EventLoops>, &Arc<Notices>),
    ) -> Self {
        Self {
            dispatcher: Arc::clone(dispatcher),
            index: index.map(Arc::clone),
            loops: Arc::clone(loops),
            refusals: Arc::clone(refusals),
            notices: Arc::clone(notices),
        }
    }

    /// Dispatches one round; true when there is more. While queues or index cannot be written,
    /// appends are refused with the reason; reads go on, and a round that works lifts it.
    ///
    /// # Errors
    /// From queues or index: the same records come again.
    pub fn step(&self) -> Result<bool> {
        let stepped = self.dispatcher.step();
        self.refusals.report(
            &self.notices,
            "dispatch",
            stepped.as_ref().err().map(refusal_of),
            "queues are written again",
        );
        self.loops.wake_for_news();
        let more = stepped?;
        if let Some(index) = &self.index
            && let Some(from) = index.writer().needs_catch_up()?
        {
            self.dispatcher.send_back("index", from);
        }
        Ok(more)
    }

    /// Dispatches until the queues have everything: the first append of a queue takes its offset from
    /// there. The index may lag; it catches up later.
    pub(super) fn catch_up_queues(&self) -> Result<()> {
        while self
            .dispatcher
            .lags()
            .first()
            .is_some_and(|(_, _, lag)| *lag > 0)
        {
            if !self.dispatcher.step_lead()? {
                break;
            }
        }
        Ok(())
    }

    /// Dispatches everything.
    pub(super) fn finish(&self) -> Result<()> {
        while self.dispatcher.step()? {}
        Ok(())
    }

    /// Whether queues or index have not got everything.
    pub(super) fn is_behind(&self) -> bool {
        self.dispatcher.lags().iter().any(|(_, _, lag)| *lag > 0)
            || self
                .index
                .as_ref()
                .is_some_and(|index| index.writer().state() != IndexState::Running)
    }
}
