//! What a round over check points did. Data alone.

/// What a call did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Revived {
    /// The last queue offset of check points that is done; −1 for none.
    pub done_offset: i64,
    /// Records read.
    pub read: u64,
    /// Messages stored for another try.
    pub revived: u64,
    /// Check points whose messages were all acknowledged.
    pub acknowledged: u64,
    /// Check points and messages passed over: gone, or of topics and groups that are gone.
    pub skipped: u64,
    /// Check points that are not due.
    pub waiting: u64,
    /// Messages of queues that are popped no more, with the time of their pop: acknowledged ones were
    /// before.
    pub landed: Vec<Landed>,
    /// Whether the round goes on with another call.
    pub has_more: bool,
    /// The retry topic that has to be made first, and its group.
    pub needs: Option<(String, String)>,
    /// End of the last record stored; 0 for none. The offset may be written down once the log is
    /// flushed up to it.
    pub end: u64,
}

/// A message that is popped no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// Its topic.
    pub topic: String,
    /// Who had it.
    pub group: String,
    /// Its queue.
    pub queue_id: i32,
    /// When it was popped, Unix ms.
    pub pop_time_ms: i64,
}
