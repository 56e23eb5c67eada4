//! Open requests: each row joins that of its place, and a request leaves when the next row does
//! not fit. So the last row of each topic is always in an open request, and when the task ends its
//! topics can be closed explicitly: the last request of a topic has the number of its rows.
#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;

use mqcore_record::batch::{Item, encode};
use mqcore_record::properties::{KEYS, TAGS};
use mqcore_record::{Compression, java_hash_bytes, sys_flag};
use mqcore_wire::compression::compress;

use crate::columns::Rows;
use crate::error::{RowError, RowFault};
use crate::text::{Labels, SHARDING_KEY, TextWriter};

/// What a row takes in a batch beside its body and properties: five words, and the properties'
/// length.
const ITEM_LEN_BYTES: usize = 5 * 4 + 2;
const US_PER_MS: i64 = 1_000;

/// How requests are made.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes at which a batch leaves.
    pub batch_bytes: usize,
    /// The longest body of a row, and of a request.
    pub message_bytes_max: usize,
    /// Bytes of all open requests together; beyond them the longest leaves early.
    pub open_bytes_max: usize,
    /// Makes bodies small.
    pub compression: Option<Compression>,
    /// 0 to 9 for zlib, 1 to 22 for zstd.
    pub compression_level: i32,
    /// Bodies below stay as they are.
    pub compress_above_bytes: usize,
    /// Bytes of the properties that the request will have for all its rows.
    pub shared_len_bytes: usize,
    /// Whether rows carry their number.
    pub is_marked: bool,
    /// Names that a row's own properties may not set.
    pub system_names: Vec<String>,
}

/// A topic that rows may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its queues that may be written: broker and number, in the order of its route.
    pub queues: Vec<(String, i32)>,
}

/// The unique ids of rows: what they begin with, and the first one's counter.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a> {
    /// What they begin with.
    pub lead: &'a str,
    /// The counter of the first row; it counts on, and begins again after 65,535.
    pub first: u16,
}

/// What one request carries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    /// The topic's number.
    pub topic: usize,
    /// The queue that it must go to, by its place in the topic; any where there is none.
    pub queue: Option<usize>,
    /// Compression.
    pub sys_flag: i32,
    /// Whether the body is a batch.
    pub is_batch: bool,
    /// The body.
    pub body: Vec<u8>,
    /// The properties of a single message.
    pub properties: Vec<u8>,
    /// How many rows.
    pub rows: u64,
    /// The number of the first row.
    pub first_row: u64,
    /// The number of the last row.
    pub last_row: u64,
    /// Rows of the topic in the whole task, when it is the topic's last request.
    pub topic_rows: Option<u64>,
    /// Where the last item of a batch begins.
    last_at: usize,
    /// The number of the row before the last one.
    before_last_row: u64,
}

/// Where an open request goes. Rows of one queue keep their order: it has one open request, which
/// leaves when a row of another kind comes. Rows that may go anywhere have one per kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RequestKey {
    Queue { topic: usize, queue: usize },
    Any { topic: usize, batch: Option<i32> },
}

/// The open requests of a task.
#[derive(Debug)]
pub struct Packer {
    settings: Settings,
    topics: Vec<Topic>,
    topic_rows: Vec<u64>,
    numbers: HashMap<Vec<u8>, usize>,
    open: Vec<Packed>,
    open_indexes: HashMap<RequestKey, usize>,
    open_bytes: usize,
    writer: TextWriter,
    rows: u64,
}

impl Packer {
    /// Begins a task.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let writer = TextWriter::new(settings.system_names.iter().cloned());
        Self {
            settings,
            topics: Vec::new(),
            topic_rows: Vec::new(),
            numbers: HashMap::new(),
            open: Vec::new(),
            open_indexes: HashMap::new(),
            open_bytes: 0,
            writer,
            rows: 0,
        }
    }

    /// Takes a topic; returns its number. A topic keeps the queues of its first
    /// registration: rows are packed for their numbers.
    pub fn topic(&mut self, topic: Topic) -> usize {
        let name = topic.name.clone().into_bytes();
        *self.numbers.entry(name).or_insert_with(|| {
            self.topics.push(topic);
            self.topic_rows.push(0);
            self.topics.len() - 1
        })
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes rows; returns the requests that are full.
    ///
    /// # Errors
    /// [`RowError`] for the first row that cannot be sent; then the packer is of no use any more.
    pub fn pack(&mut self, rows: &Rows, ids: Ids<'_>) -> Result<Vec<Packed>, RowError> {
        let mut full = Vec::new();
        let mut number = ids.first;
        for row in 0..rows.count {
            self.take(rows, row, ids.lead, number, &mut full)
                .map_err(|fault| RowError {
                    row: self.rows,
                    fault,
                })?;
            self.rows += 1;
            number = number.wrapping_add(1);
            while self.open_bytes > self.settings.open_bytes_max {
                let Some(early) = self.cut_longest() else {
                    break;
                };
                full.push(early);
            }
        }
        Ok(full)
    }

    /// Closes what is open; the last request of each topic comes behind all others.
    pub fn finish(&mut self) -> Vec<Packed> {
        self.open_indexes.clear();
        self.open_bytes = 0;
        let mut last_of: HashMap<usize, usize> = HashMap::new();
        for (at, open) in self.open.iter().enumerate() {
            last_of.insert(open.topic, at);
        }
        let mut all: Vec<Packed> = std::mem::take(&mut self.open);
        for (topic, at) in last_of {
            if let Some(last) = all.get_mut(at) {
                last.topic_rows = self.topic_rows.get(topic).copied();
            }
        }
        all.sort_by_key(|packed| packed.topic_rows.is_some());
        all
    }

    fn take(
        &mut self,
        rows: &Rows,
        row: usize,
        lead: &str,
        number: u16,
        full: &mut Vec<Packed>,
    ) -> Result<(), RowFault> {
        let topic = self.topic_of(rows, row)?;
        let body = rows.body.value(row).ok_or(RowFault::NoBody)?;
        let max = self.settings.message_bytes_max;
        match body.len() {
            0 => return Err(RowFault::EmptyBody),
            len if len > max => return Err(RowFault::BodyTooLarge { len, max }),
            _ => {}
        }
        let labels = self.write_text(rows, row, lead, number)?;
        let queue = self.queue_of(topic, rows, row, labels.group)?;
        let small = self.made_small(body)?;
        let (body, sys_flag) = match &small {
            Some((small, sys_flag)) => (small.as_slice(), *sys_flag),
            None => (body, 0),
        };
        let item_len = ITEM_LEN_BYTES + body.len() + self.writer.text().len();
        let is_delayed = labels.delay_level > 0 || labels.deliver_at_ms.is_some();
        let is_batch = !is_delayed && item_len <= self.settings.batch_bytes.min(max);
        let key = match queue {
            Some(queue) => RequestKey::Queue { topic, queue },
            None => RequestKey::Any {
                topic,
                batch: is_batch.then_some(sys_flag),
            },
        };
        let made = Packed {
            topic,
            queue,
            sys_flag,
            is_batch,
            first_row: self.rows,
            ..Packed::default()
        };
        self.join(key, made, body, item_len, full)?;
        if let Some(rows) = self.topic_rows.get_mut(topic) {
            *rows += 1;
        }
        Ok(())
    }

    /// Puts a row into the open request of its key, which leaves first when it has no space.
    fn join(
        &mut self,
        key: RequestKey,
        made: Packed,
        body: &[u8],
        item_len: usize,
        full: &mut Vec<Packed>,
    ) -> Result<(), RowFault> {
        let at = *self.open_indexes.entry(key).or_insert_with(|| {
            self.open.push(made.clone());
            self.open.len() - 1
        });
        let limit = self.settings.batch_bytes;
        let Some(open) = self.open.get_mut(at) else {
            return Ok(());
        };
        let is_like = open.is_batch && made.is_batch && open.sys_flag == made.sys_flag;
        let has_space = is_like && open.body.len() + item_len <= limit;
        if open.rows > 0 && !has_space {
            let left = std::mem::replace(open, made);
            self.open_bytes -= left.body.len();
            if open.is_batch {
                open.body.reserve(left.body.len().max(item_len));
            }
            full.push(left);
        }
        let before = open.body.len();
        open.last_at = before;
        let text = self.writer.text();
        if open.is_batch {
            let item = Item {
                flag: 0,
                body,
                properties: text,
            };
            encode(&item, &mut open.body).map_err(RowFault::Record)?;
        } else {
            open.body.extend_from_slice(body);
            open.properties.extend_from_slice(text);
        }
        self.open_bytes += open.body.len() - before;
        open.rows += 1;
        open.before_last_row = std::mem::replace(&mut open.last_row, self.rows);
        Ok(())
    }

    /// Sends the longest open batch early, all but its last row.
    fn cut_longest(&mut self) -> Option<Packed> {
        let longest = self
            .open
            .iter_mut()
            .filter(|open| open.rows > 1)
            .max_by_key(|open| open.body.len())?;
        let rest = longest.body.split_off(longest.last_at);
        let last = Packed {
            body: rest,
            rows: 1,
            first_row: longest.last_row,
            last_row: longest.last_row,
            last_at: 0,
            ..longest.clone_head()
        };
        let mut early = std::mem::replace(longest, last);
        early.rows -= 1;
        early.last_row = early.before_last_row;
        self.open_bytes -= early.body.len();
        Some(early)
    }

    fn topic_of(&self, rows: &Rows, row: usize) -> Result<usize, RowFault> {
        if let Some(number) = rows.topic_number {
            return Ok(number);
        }
        let name = rows.topic.value(row).ok_or(RowFault::NoTopic)?;
        self.numbers
            .get(name)
            .copied()
            .ok_or_else(|| RowFault::UnknownTopic { topic: shown(name) })
    }

    /// Writes the row's properties; returns the labels in them.
    fn write_text<'a>(
        &mut self,
        rows: &'a Rows,
        row: usize,
        lead: &str,
        number: u16,
    ) -> Result<Labels<'a>, RowFault> {
        let mut labels = Labels {
            tags: rows.tags.value(row),
            keys: rows.keys.value(row),
            group: rows.group.value(row),
            delay_level: rows.delay_level.value(row).unwrap_or_default(),
            deliver_at_ms: rows
                .deliver_at_us
                .value(row)
                .map(|us| us.div_euclid(US_PER_MS)),
        };
        self.writer.begin();
        for (name, value) in rows.properties.of(row) {
            // What was read without columns for them goes where it came from.
            let (is_column, label) = match name {
                name if name == TAGS.as_bytes() => (rows.tags.is_there(), &mut labels.tags),
                name if name == KEYS.as_bytes() => (rows.keys.is_there(), &mut labels.keys),
                name if name == SHARDING_KEY.as_bytes() => {
                    (rows.group.is_there(), &mut labels.group)
                }
                _ => {
                    self.writer.own(name, value)?;
                    continue;
                }
            };
            if !is_column {
                *label = Some(value);
            }
        }
        labels.group = labels.group.filter(|group| !group.is_empty());
        self.writer.labels(&labels)?;
        let mark = self.settings.is_marked.then_some(self.rows);
        let shared = self.settings.shared_len_bytes;
        self.writer.end(lead, number, mark, shared)?;
        Ok(labels)
    }

    /// The queue that the row names, or that of its group; none for any.
    fn queue_of(
        &self,
        topic: usize,
        rows: &Rows,
        row: usize,
        group: Option<&[u8]>,
    ) -> Result<Option<usize>, RowFault> {
        let Some(known) = self.topics.get(topic) else {
            return Err(RowFault::NoTopic);
        };
        let queues = &known.queues;
        if let Some(id) = rows.queue_id.value(row) {
            let broker = rows.broker.value(row);
            let found = match broker {
                Some(broker) => queues.iter().position(|(name, queue_id)| {
                    name.as_bytes() == broker && i64::from(*queue_id) == id
                }),
                None => usize::try_from(id).ok().filter(|id| *id < queues.len()),
            };
            return match found {
                Some(at) => Ok(Some(at)),
                None => Err(RowFault::NoQueue {
                    topic: known.name.clone(),
                    queue: broker.map_or(id.to_string(), |name| format!("{}:{id}", shown(name))),
                }),
            };
        }
        Ok(group.filter(|_| !queues.is_empty()).map(|group| {
            // `SelectMessageQueueByHash`: Java's abs of its smallest number is negative, and it
            // takes 0 then.
            let hash = java_hash_bytes(group).checked_abs().unwrap_or_default();
            hash.unsigned_abs() as usize % queues.len()
        }))
    }

    fn made_small(&self, body: &[u8]) -> Result<Option<(Vec<u8>, i32)>, RowFault> {
        let Some(kind) = self.settings.compression else {
            return Ok(None);
        };
        if body.len() < self.settings.compress_above_bytes {
            return Ok(None);
        }
        let small =
            compress(kind, body, self.settings.compression_level).map_err(RowFault::Compression)?;
        Ok((small.len() < body.len()).then(|| (small, sys_flag::COMPRESSED | type_bits(kind))))
    }
}

impl Packed {
    /// The same without rows.
    fn clone_head(&self) -> Self {
        Self {
            topic: self.topic,
            queue: self.queue,
            sys_flag: self.sys_flag,
            is_batch: self.is_batch,
            ..Self::default()
        }
    }
}

fn type_bits(kind: Compression) -> i32 {
    match kind {
        Compression::Lz4 => sys_flag::COMPRESSION_LZ4,
        Compression::Zstd => sys_flag::COMPRESSION_ZSTD,
        Compression::Zlib => sys_flag::COMPRESSION_ZLIB,
        Compression::Unknown(number) => i32::from(number) << 8,
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
