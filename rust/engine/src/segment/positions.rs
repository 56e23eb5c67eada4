//! How far the log has come, stage by stage: appended >= committed >= flushed, and replicated and
//! dispatched behind them. Physical offsets, each only rising. Knows no file.

use crate::watermark::Watermark;

/// The watermarks of one log.
#[derive(Debug, Default)]
pub struct LogPositions {
    /// End of what was appended (to the mapping or to a pool buffer).
    pub appended: Watermark,
    /// End of what is in the page cache: survives the process. Without a pool equal to `appended`.
    pub committed: Watermark,
    /// End of what survives power loss.
    pub flushed: Watermark,
    /// End of what enough replicas have; whoever replicates raises it.
    pub replicated: Watermark,
    /// End of what is readable through queues.
    pub dispatched: Watermark,
}

impl LogPositions {
    /// Sets all to the end of a recovered log.
    pub fn reset(&self, end: u64) {
        for mark in [
            &self.appended,
            &self.committed,
            &self.flushed,
            &self.replicated,
            &self.dispatched,
        ] {
            mark.reset(end);
        }
    }

    /// Wakes all who wait, after a failure or at the end.
    pub fn wake_all(&self) {
        for mark in [
            &self.appended,
            &self.committed,
            &self.flushed,
            &self.replicated,
            &self.dispatched,
        ] {
            mark.wake_all();
        }
    }
}
