//! Which records are wanted, asked before a body is touched. Pure; knows no column.

use std::collections::{HashMap, HashSet};

use mqcore_record::{RecordView, properties};

/// Topics whose answer is kept. There are as many in a log as directories of queues; beyond this
/// bound somebody made them up, and the answers are found anew.
const TOPICS_KEPT_MAX: usize = 65_536;

/// What is wanted; the default wants everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only these topics.
    pub topics: Option<HashSet<Vec<u8>>>,
    /// Not these, unless `topics` names them.
    pub hidden_topics: HashSet<Vec<u8>>,
    /// No topic that begins so, unless `topics` names it.
    pub hidden_prefixes: Vec<Vec<u8>>,
    /// Only messages with one of these tags, compared in full.
    pub tags: Option<HashSet<Vec<u8>>>,
    /// Only these queues.
    pub queue_ids: Option<HashSet<i32>>,
    /// Only messages stored then or later, ms.
    pub start_ms: Option<i64>,
    /// Only messages stored before, ms.
    pub end_ms: Option<i64>,
    /// Only messages at this queue offset or behind.
    pub start_queue_offset: Option<i64>,
    /// Only messages before this queue offset.
    pub end_queue_offset: Option<i64>,
    /// Only records that are in a queue: no prepared and no rolled back ones.
    pub is_queued_only: bool,
}

/// A filter at work: remembers what it answered for a topic.
#[derive(Debug)]
pub(crate) struct Gate {
    filter: Filter,
    last_topic: Vec<u8>,
    is_last_wanted: bool,
    topics: HashMap<Vec<u8>, bool>,
}

impl Gate {
    pub(crate) fn new(filter: Filter) -> Self {
        let is_last_wanted = topic_is_wanted(&filter, b"");
        Self {
            filter,
            last_topic: Vec::new(),
            is_last_wanted,
            topics: HashMap::new(),
        }
    }

    /// Whether a record passes.
    #[inline]
    pub(crate) fn passes(&mut self, record: &RecordView<'_>) -> bool {
        let filter = &self.filter;
        let is_inside = |value: i64, start: Option<i64>, end: Option<i64>| {
            start.is_none_or(|start| value >= start) && end.is_none_or(|end| value < end)
        };
        let (start, end) = (filter.start_queue_offset, filter.end_queue_offset);
        let wants = is_inside(record.store_timestamp_ms, filter.start_ms, filter.end_ms)
            && is_inside(record.queue_offset, start, end)
            && (!filter.is_queued_only || record.transaction().has_queue_offset())
            && filter
                .queue_ids
                .as_ref()
                .is_none_or(|ids| ids.contains(&record.queue_id));
        wants && self.wants_topic(record.topic) && self.wants_tags(record.properties)
    }

    #[inline]
    fn wants_topic(&mut self, topic: &[u8]) -> bool {
        // Messages of a topic come in runs.
        if topic != self.last_topic {
            self.is_last_wanted = match self.topics.get(topic) {
                Some(is_wanted) => *is_wanted,
                None => {
                    if self.topics.len() >= TOPICS_KEPT_MAX {
                        self.topics.clear();
                    }
                    let is_wanted = topic_is_wanted(&self.filter, topic);
                    self.topics.insert(topic.to_vec(), is_wanted);
                    is_wanted
                }
            };
            self.last_topic.clear();
            self.last_topic.extend_from_slice(topic);
        }
        self.is_last_wanted
    }

    #[inline]
    fn wants_tags(&self, text: &[u8]) -> bool {
        let Some(tags) = &self.filter.tags else {
            return true;
        };
        properties::lookup(text, properties::TAGS).is_some_and(|tag| tags.contains(tag))
    }
}

fn topic_is_wanted(filter: &Filter, topic: &[u8]) -> bool {
    if let Some(topics) = &filter.topics {
        return topics.contains(topic);
    }
    let mut hidden = filter.hidden_prefixes.iter();
    !filter.hidden_topics.contains(topic) && !hidden.any(|prefix| topic.starts_with(prefix))
}
