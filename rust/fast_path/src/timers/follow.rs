//! Timers of a slave: the wheel is kept as full as that of its master, and nothing is delivered, so that
//! they go on from where the master was when the slave takes its place (`SlaveSynchronize`,
//! `TimerMessageStore` with `shouldRunningDequeue` off).

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::Result;
use mqcore_engine::timer::Entered;
use mqcore_record::RecordView;

use super::{ENTER_MAX, Queued, Ticked, Timers};

impl<D: Disk, C: Clock> Timers<D, C> {
    /// Goes on to where the timers of the master were at one moment: the slots before `read_ms` were
    /// delivered, and so was what is before `queue_offset` in the queue and was due by then. The rest
    /// of that is entered, [`ENTER_MAX`] messages a call at the most.
    ///
    /// To be called only when the log has everything that the master had delivered at that moment:
    /// what is passed over here is delivered by nobody any more.
    ///
    /// What goes around the wheel again is in the queue twice for as long as the master has not stored it
    /// again: a slave that takes its place in that time may deliver it twice.
    ///
    /// # Durability
    /// That of memory, until [`Timers::flush`].
    ///
    /// # Errors
    /// What kept the first message of the call from being entered; the next call goes on there.
    ///
    /// # Blocking
    /// For the disk, where messages are cold.
    pub fn follow_master(
        &mut self,
        read_ms: i64,
        queue_offset: u64,
        now_ms: i64,
    ) -> Result<Ticked> {
        let mut done = Ticked::default();
        self.timer.follow(read_ms, now_ms);
        self.slotted = None;
        if !self.timer.is_far_behind() {
            self.enter_until(queue_offset, ENTER_MAX, &mut done, Self::enter_undelivered)?;
        }
        self.entered += done.entered;
        Ok(done)
    }

    fn enter_undelivered(
        &mut self,
        _view: &RecordView<'_>,
        queued: &Queued<'_>,
        done: &mut Ticked,
    ) -> Result<()> {
        // How many wait is taken from the master.
        if self.timer.enter_undelivered(&queued.entry)? == Entered::Due {
            done.delivered += 1;
        }
        Ok(())
    }
}
