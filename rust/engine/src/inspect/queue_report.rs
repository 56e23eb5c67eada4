//! What a report has of a queue, plain or batch queue.

/// A queue in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueReport {
    /// The topic.
    pub topic: String,
    /// The number of the queue in it.
    pub queue_id: i32,
    /// First queue offset whose record the log still has.
    pub min_offset: u64,
    /// Where that record is; `None` when the queue has none.
    pub min_physical_offset: Option<u64>,
    /// Queue offset behind the last unit.
    pub max_offset: u64,
    /// Files.
    pub files: usize,
}
