//! Metrics by topic and by group as text: there may be a hundred thousand of them, and they are written
//! without the interpreter. What they are called comes from Python's table of families.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use mqcore_engine::lock::Mutex;
use mqcore_fast_path::exposition::{Row, SeriesBound, Shape, Value, labels_text};
use mqcore_fast_path::gets::Got;
use mqcore_fast_path::lags::{Groups, Lag};
use mqcore_fast_path::traffic::Traffic;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// How a family is written (`BulkFamily`).
#[derive(FromPyObject)]
pub(crate) struct BulkFamilyRow {
    figure: String,
    name: String,
    head: String,
    labels: Vec<String>,
    bounds: Vec<String>,
    is_age: bool,
}

/// What is to be written (`BulkOrder`).
#[derive(FromPyObject)]
pub(crate) struct BulkOrderRow {
    common: String,
    series_max: usize,
    system_topics: HashSet<String>,
    system_topic_prefix: String,
    system_groups: HashSet<String>,
    system_group_prefix: String,
    retry_prefix: String,
    dead_letter_prefix: String,
    /// A group that is reported by itself.
    own_group: String,
    families: Vec<BulkFamilyRow>,
}

/// Metrics as text, taken in pieces: all of it at once would keep the interpreter for as long as its copy
/// takes.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct BulkText {
    text: Vec<u8>,
    /// How many series of a family are in the sum of others, where there are some.
    #[pyo3(get)]
    left_out: HashMap<String, usize>,
    /// For how long the first message that the group reported by itself has not read has been there, ms.
    #[pyo3(get)]
    own_behind_ms: Option<u64>,
}

#[pymethods]
impl BulkText {
    /// Bytes of the text.
    fn __len__(&self) -> usize {
        self.text.len()
    }

    /// A piece of the text.
    fn piece<'py>(&self, py: Python<'py>, start: usize, len: usize) -> Bound<'py, PyBytes> {
        let end = start.saturating_add(len).min(self.text.len());
        PyBytes::new(py, self.text.get(start..end).unwrap_or_default())
    }
}

/// A row of figures by topic and group, before it is text.
struct Figures<'a> {
    topic: &'a str,
    group: &'a str,
    kind: &'a str,
}

impl BulkOrderRow {
    fn flag(is_so: bool) -> &'static str {
        if is_so { "true" } else { "false" }
    }

    fn is_system(&self, topic: &str, group: &str) -> bool {
        topic.starts_with(&self.system_topic_prefix)
            || self.system_topics.contains(topic)
            || (!group.is_empty()
                && (group.starts_with(&self.system_group_prefix)
                    || self.system_groups.contains(group)))
    }

    fn labels(&self, family: &BulkFamilyRow, of: &Figures<'_>) -> String {
        labels_text(&family.labels, |at| {
            match family.labels.get(at).map_or("", String::as_str) {
                "topic" => of.topic,
                "consumer_group" => of.group,
                "message_type" => of.kind,
                "is_system" => Self::flag(self.is_system(of.topic, of.group)),
                "is_retry" => Self::flag(of.topic.starts_with(&self.retry_prefix)),
                _ => "",
            }
        })
    }

    fn of_topics(&self, family: &BulkFamilyRow, traffic: &Traffic) -> Vec<Row> {
        let rows = traffic.topics().map(|(topic, kind, stored)| {
            let value = match family.figure.as_str() {
                "throughput_in" => Value::Number(stored.bytes),
                "message_size" => Value::Buckets(stored.sizes.counts.to_vec(), stored.sizes.sum),
                _ => Value::Number(stored.messages),
            };
            let of = Figures {
                topic,
                group: "",
                kind,
            };
            (self.labels(family, &of), value)
        });
        rows.collect()
    }

    fn of_gets(&self, family: &BulkFamilyRow, groups: &Groups) -> Vec<Row> {
        let all = groups.gets.iter();
        let users = all.filter(|((_, topic), _)| {
            !topic.starts_with(&self.retry_prefix) && !topic.starts_with(&self.dead_letter_prefix)
        });
        let rows = users.map(|((group, topic), got): (&(String, String), &Got)| {
            let number = match family.figure.as_str() {
                "throughput_out" => got.bytes,
                _ => got.messages,
            };
            let of = Figures {
                topic,
                group,
                kind: "",
            };
            (self.labels(family, &of), Value::Number(number))
        });
        rows.collect()
    }

    fn of_lags(&self, family: &BulkFamilyRow, lags: &[Lag]) -> Vec<Row> {
        let users = lags.iter().filter(|lag| lag.group != self.own_group);
        let rows = users.filter_map(|lag| {
            let number = match family.figure.as_str() {
                "lag_latency" => lag.behind_ms?,
                "inflight_messages" => lag.in_flight,
                "ready_messages" => lag.ready,
                "queueing_latency" => lag.queueing_ms?,
                _ => lag.messages,
            };
            let of = Figures {
                topic: &lag.topic,
                group: &lag.group,
                kind: "",
            };
            Some((self.labels(family, &of), Value::Number(number)))
        });
        rows.collect()
    }

    /// Writes all families; how many rows of each are in the sum of others.
    fn write(
        &self,
        bound: &mut SeriesBound,
        (traffic, groups, lags): (&Traffic, &Groups, &[Lag]),
        out: &mut Vec<u8>,
    ) -> HashMap<String, usize> {
        let mut left_out = HashMap::new();
        for family in &self.families {
            let rows = match family.figure.as_str() {
                "messages_in" | "throughput_in" | "message_size" => self.of_topics(family, traffic),
                "messages_out" | "throughput_out" => self.of_gets(family, groups),
                _ => self.of_lags(family, lags),
            };
            let shape = Shape {
                name: family.name.clone(),
                head: family.head.clone(),
                labels: family.labels.clone(),
                bounds: family.bounds.clone(),
                is_age: family.is_age,
            };
            let others = bound.write(&shape, &self.common, (rows, self.series_max), out);
            if others > 0 {
                left_out.insert(family.name.clone(), others);
            }
        }
        left_out
    }
}

/// Writes metrics by topic and by group; which series are shown is kept between two calls.
#[derive(Default)]
pub(crate) struct Bulk {
    bound: Mutex<SeriesBound>,
    /// How long the last text was: a longer one is copied while it grows.
    last_len: AtomicUsize,
}

impl Bulk {
    /// The text of these figures.
    pub(crate) fn text(
        &self,
        order: &BulkOrderRow,
        (traffic, groups, lags): (&Traffic, &Groups, &[Lag]),
    ) -> BulkText {
        let own = lags.iter().find(|lag| lag.group == order.own_group);
        let own_behind_ms = own.and_then(|lag| lag.behind_ms);
        // Some series come between two texts.
        let last_len = self.last_len.load(Relaxed);
        let mut text = Vec::with_capacity(last_len + last_len / 16);
        let figures = (traffic, groups, lags);
        let left_out = order.write(&mut self.bound.lock(), figures, &mut text);
        self.last_len.store(text.len(), Relaxed);
        BulkText {
            text,
            left_out,
            own_behind_ms,
        }
    }
}
