//! The queues that pops and questions about pops wait for, and whether there is something in them.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::{LoopEvents, Store};

use super::merge::PopBufferMerge;
use super::other_loops::Line;
use super::polls::QueueKey;
use crate::policy::Policy;
use crate::pop_run::names::retry_topic;

/// The queues that something to pop may come into.
pub(super) fn queues_of_line(
    policy: &Policy,
    (topic, group, queue_id): Line<'_>,
    is_ordered: bool,
) -> Vec<QueueKey> {
    let known = policy.topics.get(topic);
    let queues = known.map_or(0, |known| known.read_queues);
    let mut keys: Vec<QueueKey> = if queue_id < 0 {
        (0..queues)
            .map(|queue_id| (topic.into(), queue_id))
            .collect()
    } else {
        vec![(topic.into(), queue_id)]
    };
    if !is_ordered {
        let rules = &policy.broker.pops;
        let kinds: &[bool] = match (rules.has_retry_v2, rules.reads_retry_v1) {
            (false, _) => &[false],
            (true, false) => &[true],
            (true, true) => &[true, false],
        };
        for is_v2 in kinds {
            let name = retry_topic(topic, group, *is_v2);
            let known = policy.topics.get(name.as_str());
            let queues = known.map_or(1, |known| known.read_queues);
            keys.extend((0..queues).map(|queue_id| (name.as_str().into(), queue_id)));
        }
    }
    keys
}

/// Watches some queues for the loop that these events wake.
pub(super) fn watch_all(events: &LoopEvents, queues: &[QueueKey]) {
    let arrivals = events.arrivals();
    for (topic, queue_id) in queues {
        arrivals.watch(topic.as_bytes(), *queue_id);
    }
}

/// Whether one of some queues has messages that a group was not given.
pub(super) fn has_more_for<D: Disk, C: Clock>(
    store: &Store<D, C>,
    merge: &mut PopBufferMerge,
    group: &str,
    queues: &[QueueKey],
) -> bool {
    queues.iter().any(|(topic, queue_id)| {
        let bounds = store.topics().bounds(topic.as_bytes(), *queue_id);
        let Ok(Some(bounds)) = bounds else {
            return false;
        };
        merge
            .position_of(topic, group, *queue_id)
            .unwrap_or(bounds.min)
            < bounds.max
    })
}
