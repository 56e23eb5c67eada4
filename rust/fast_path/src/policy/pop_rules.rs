//! What is decided about pops: settings as the fast path reads them. No logic.

/// The rules; the official keys are named with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopRules {
    /// The topic of check points: follows from the name of the cluster.
    pub revive_topic: String,
    /// Its queues (`reviveQueueNum`).
    pub revive_queues: i32,
    /// Whether pops are kept in memory first (`enablePopBufferMerge`).
    pub has_buffer: bool,
    /// How long they are, ms (`popCkStayBufferTime`).
    pub stay_ms: u64,
    /// How long before its messages come back a pop is stored at the latest, ms
    /// (`popCkStayBufferTimeOut`).
    pub stored_before_ms: i64,
    /// Pops kept at the most (`popCkMaxBufferSize`).
    pub kept_max: usize,
    /// Pops kept per queue at the most (`popCkOffsetMaxQueueSize`).
    pub kept_per_queue_max: usize,
    /// Messages of a queue that a group may have and not acknowledge before it gets no more of it
    /// (`popInflightMessageThreshold`); `None`: any number (`enablePopMessageThreshold` is false).
    pub in_flight_max: Option<u64>,
    /// How often in a hundred a pop looks at the retry topic first (`popFromRetryProbability`).
    pub retry_first_percent: u32,
    /// The same of a pop for which priorities count (`popFromRetryProbabilityForPriority`).
    pub priority_retry_first_percent: u32,
    /// Whether the queue with the highest number comes first then (`priorityOrderAsc`).
    pub is_priority_ascending: bool,
    /// Whether messages come back in retry topics of the second kind (`enableRetryTopicV2`).
    pub has_retry_v2: bool,
    /// Whether those of the first kind are read all the same
    /// (`retrieveMessageFromPopRetryTopicV1`).
    pub reads_retry_v1: bool,
    /// Whether a new group begins with what is in memory (`initPopOffsetByCheckMsgInMem`).
    pub begins_in_memory: bool,
    /// Whether answers name the retry topic (`popResponseReturnActualRetryTopic`).
    pub names_retry_topic: bool,
    /// Pops held per topic, group and queue (`popPollingSize`).
    pub held_per_line: usize,
    /// Pops held at all (`maxPopPollingSize`).
    pub held_max: usize,
}

impl Default for PopRules {
    fn default() -> Self {
        Self {
            revive_topic: String::new(),
            revive_queues: 8,
            has_buffer: true,
            stay_ms: 10_000,
            stored_before_ms: 3_000,
            kept_max: 200_000,
            kept_per_queue_max: 20_000,
            in_flight_max: None,
            retry_first_percent: 20,
            priority_retry_first_percent: 0,
            is_priority_ascending: true,
            has_retry_v2: false,
            reads_retry_v1: true,
            begins_in_memory: true,
            names_retry_topic: false,
            held_per_line: 1_024,
            held_max: 100_000,
        }
    }
}
