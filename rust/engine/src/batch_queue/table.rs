//! All batch queues of a directory, as they lay there when the store was opened.

use std::path::Path;

use hashbrown::HashMap;

use super::queue::BatchQueue;
use crate::disk::Disk;
use crate::error::Result;

/// Digits of the name of a file.
const NAME_DIGITS: usize = 20;

/// The batch queues by topic and queue id.
#[derive(Debug)]
pub struct BatchTable<D: Disk> {
    topics: HashMap<Box<str>, HashMap<i32, BatchQueue<D>>>,
}

impl<D: Disk> BatchTable<D> {
    /// The queues below a directory, with the units of records below `end` of the log. What is no
    /// queue is passed over.
    ///
    /// # Errors
    /// As [`BatchQueue::open`].
    pub fn open(disk: &D, dir: &Path, end: u64) -> Result<Self> {
        let mut topics = HashMap::new();
        for topic in disk.list(dir)?.into_iter().filter(|entry| entry.is_dir) {
            let topic_dir = dir.join(&topic.name);
            let mut queues = HashMap::new();
            for entry in disk
                .list(&topic_dir)?
                .into_iter()
                .filter(|each| each.is_dir)
            {
                let Ok(queue_id) = entry.name.parse::<i32>() else {
                    continue;
                };
                let queue_dir = topic_dir.join(&entry.name);
                let files = disk.list(&queue_dir)?.into_iter().filter(|file| {
                    let is_number = file.name.bytes().all(|byte| byte.is_ascii_digit());
                    !file.is_dir && file.name.len() == NAME_DIGITS && is_number
                });
                let files = files.map(|file| (queue_dir.join(&file.name), file.len_bytes));
                let queue = BatchQueue::open(disk.clone(), files.collect(), end)?;
                queues.insert(queue_id, queue);
            }
            topics.insert(topic.name.into_boxed_str(), queues);
        }
        Ok(Self { topics })
    }

    /// Whether a topic has batch queues.
    #[must_use]
    pub fn has_topic(&self, topic: &[u8]) -> bool {
        self.topic(topic).is_some()
    }

    /// A queue.
    #[must_use]
    pub fn find(&self, topic: &[u8], queue_id: i32) -> Option<&BatchQueue<D>> {
        // Nearly every store has none.
        if self.topics.is_empty() {
            return None;
        }
        self.topic(topic)?.get(&queue_id)
    }

    /// Topic, queue id and queue of each.
    pub fn all(&self) -> impl Iterator<Item = (&str, i32, &BatchQueue<D>)> {
        self.topics.iter().flat_map(|(topic, queues)| {
            let each = queues.iter();
            each.map(move |(queue_id, queue)| (&**topic, *queue_id, queue))
        })
    }

    fn topic(&self, topic: &[u8]) -> Option<&HashMap<i32, BatchQueue<D>>> {
        self.topics.get(std::str::from_utf8(topic).ok()?)
    }
}
