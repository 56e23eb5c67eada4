//! A record into the columns asked for. Knows no bytes around it, and not which records are wanted.
#![deny(clippy::indexing_slicing)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Write;

use arrow_schema::Fields;
use mqcore_record::{Host, RecordView, properties, sys_flag};
use mqcore_wire::compression::inflate;

use crate::buffers::{Batch, Growing, fields};
use crate::column::Column;

/// The key that keeps messages in order (`MessageConst.PROPERTY_SHARDING_KEY`).
const MESSAGE_GROUP: &[u8] = b"__SHARDINGKEY";
/// Pairs of properties that are compared each with each; more are put into a table.
const PAIRS_FEW: usize = 16;
const US_PER_MS: i64 = 1_000;
/// How often a byte of a record may stand in the columns: a name of the properties in its own column
/// and in the map, each replaced by three bytes where it is no UTF-8.
const COPIES_MAX: usize = 6;
/// Bytes of what columns have beside a record's: two hosts and an id made of one.
const MADE_BYTES_MAX: usize = 256;

/// The properties that have columns of their own, each the last of its name.
#[derive(Default)]
struct Named<'a> {
    tags: Option<&'a [u8]>,
    keys: Option<&'a [u8]>,
    uniq_key: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
    deliver_ms: Option<&'a [u8]>,
    out_ms: Option<&'a [u8]>,
}

impl<'a> Named<'a> {
    #[inline]
    fn of(text: &'a [u8]) -> Self {
        let mut named = Self::default();
        for (name, value) in properties::pairs(text) {
            match name {
                b"TAGS" => named.tags = Some(value),
                b"KEYS" => named.keys = Some(value),
                b"UNIQ_KEY" => named.uniq_key = Some(value),
                b"TIMER_DELIVER_MS" => named.deliver_ms = Some(value),
                b"TIMER_OUT_MS" => named.out_ms = Some(value),
                MESSAGE_GROUP => named.group = Some(value),
                _ => {}
            }
        }
        named
    }

    /// When the message is to be delivered, ms; none where the text is no number.
    fn deliver_timestamp_ms(&self) -> Option<i64> {
        let text = self.deliver_ms.or(self.out_ms)?;
        str::from_utf8(text).ok()?.parse().ok()
    }
}

/// The text of a host, kept while the next record has the same.
#[derive(Default)]
struct HostText {
    host: Option<Host>,
    text: Vec<u8>,
}

impl HostText {
    #[inline]
    fn of(&mut self, host: Host) -> &[u8] {
        if self.host != Some(host) {
            self.text.clear();
            // Writing into memory cannot fail.
            let _ = write!(self.text, "{host}");
            self.host = Some(host);
        }
        &self.text
    }
}

/// Rows of the columns asked for.
pub(crate) struct Rows {
    fields: Fields,
    columns: Vec<(Column, Growing)>,
    rows: usize,
    /// Bytes of texts at the most: counting them exactly means asking each column.
    text_bytes_max: usize,
    has_named: bool,
    has_body: bool,
    rows_max: usize,
    broker_name: Option<Vec<u8>>,
    inflated_bytes_max: usize,
    born: HostText,
    stored: HostText,
}

impl Rows {
    pub(crate) fn new(
        columns: &[Column],
        broker_name: Option<Vec<u8>>,
        rows_max: usize,
        inflated_bytes_max: usize,
    ) -> Self {
        let empty = |column: &Column| (*column, Growing::with_capacity(column.layout().1, 0, 0));
        Self {
            fields: fields(columns.iter().map(|column| column.layout())),
            columns: columns.iter().map(empty).collect(),
            rows: 0,
            text_bytes_max: 0,
            has_named: columns.iter().any(|column| column.is_of_properties()),
            has_body: columns.contains(&Column::Body),
            rows_max,
            broker_name,
            inflated_bytes_max,
            born: HostText::default(),
            stored: HostText::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are so many bytes of texts.
    #[inline]
    pub(crate) fn has_text_bytes(&mut self, count: usize) -> bool {
        if self.text_bytes_max < count {
            return false;
        }
        let of_column = |column: &(Column, Growing)| column.1.text_bytes();
        self.text_bytes_max = self.columns.iter().map(of_column).sum();
        self.text_bytes_max >= count
    }

    /// Adds a record; refuses one whose body was asked for and cannot be inflated.
    #[inline]
    pub(crate) fn push(&mut self, record: &RecordView<'_>) -> Result<(), String> {
        let body = if self.has_body {
            body_of(record, self.inflated_bytes_max)?
        } else {
            Cow::Borrowed(&[][..])
        };
        let named = if self.has_named {
            Named::of(record.properties)
        } else {
            Named::default()
        };
        let broker_name = self.broker_name.as_deref();
        let beside = MADE_BYTES_MAX + broker_name.map_or(0, <[u8]>::len) + body.len();
        self.text_bytes_max += COPIES_MAX * record.total_len_bytes + beside;
        let us = |ms: i64| ms.saturating_mul(US_PER_MS);
        for (column, values) in &mut self.columns {
            match column {
                Column::Topic => values.push_bytes(Some(record.topic)),
                Column::BrokerName => values.push_bytes(broker_name),
                Column::QueueId => values.push_int(record.queue_id),
                Column::QueueOffset => values.push_long(record.queue_offset),
                Column::PhysicalOffset => values.push_long(record.physical_offset),
                Column::MsgId => match named.uniq_key {
                    Some(id) => values.push_bytes(Some(id)),
                    None => values.push_bytes(Some(record.offset_id().as_bytes())),
                },
                Column::Keys => values.push_bytes(named.keys),
                Column::Tags => values.push_bytes(named.tags),
                Column::MessageGroup => values.push_bytes(named.group),
                Column::Body => values.push_bytes(Some(&body)),
                Column::BodyLength => values.push_int(record.body.len() as i32),
                Column::Flag => values.push_int(record.flag),
                Column::SysFlag => values.push_int(record.sys_flag),
                Column::ReconsumeTimes => values.push_int(record.reconsume_times),
                Column::BornTimestamp => values.push_long(us(record.born_timestamp_ms)),
                Column::StoreTimestamp => values.push_long(us(record.store_timestamp_ms)),
                Column::DeliverTimestamp => match named.deliver_timestamp_ms() {
                    Some(ms) => values.push_long(us(ms)),
                    None => values.push_null(),
                },
                Column::BornHost => values.push_bytes(Some(self.born.of(record.born_host))),
                Column::StoreHost => values.push_bytes(Some(self.stored.of(record.store_host))),
                Column::Properties => push_properties(values, record.properties),
                Column::Corrupt => values.push_null(),
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Adds a row of a damaged stretch: where no record is, and why.
    pub(crate) fn push_damage(&mut self, at: u64, why: &str) {
        for (column, values) in &mut self.columns {
            match column {
                Column::PhysicalOffset => values.push_long(at.cast_signed()),
                Column::Corrupt => values.push_bytes(Some(why.as_bytes())),
                _ => values.push_null(),
            }
        }
        self.text_bytes_max += why.len();
        self.rows += 1;
    }

    /// Gives the rows and begins anew, with capacity for as much again.
    pub(crate) fn take(&mut self) -> Batch {
        let columns = self.columns.iter_mut().map(|(column, values)| {
            // A little more than the last batch had: the next is rarely the same to the byte.
            let bytes = values.text_bytes();
            let layout = column.layout().1;
            let empty = Growing::with_capacity(layout, self.rows_max, bytes + bytes / 16);
            std::mem::replace(values, empty).done()
        });
        self.text_bytes_max = 0;
        Batch {
            fields: self.fields.clone(),
            columns: columns.collect(),
            rows: std::mem::take(&mut self.rows),
        }
    }
}

/// The body as its sender made it.
#[inline]
pub(crate) fn body_of<'a>(record: &RecordView<'a>, max: usize) -> Result<Cow<'a, [u8]>, String> {
    match sys_flag::compression(record.sys_flag) {
        None => Ok(Cow::Borrowed(record.body)),
        Some(kind) => match inflate(kind, record.body, max) {
            Ok(body) => Ok(Cow::Owned(body)),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Of several values of a name the last, as Java's map keeps it: Spark refuses a name twice.
fn push_properties(values: &mut Growing, text: &[u8]) {
    let mut few = [(&[][..], &[][..]); PAIRS_FEW];
    let mut count = 0;
    let mut pairs = properties::pairs(text);
    for (slot, pair) in few.iter_mut().zip(pairs.by_ref()) {
        *slot = pair;
        count += 1;
    }
    let few = few.get(..count).unwrap_or_default();
    let Some(next) = pairs.next() else {
        let is_last = |at: usize, name: &[u8]| {
            let mut later = few.iter().skip(at + 1);
            !later.any(|later| later.0 == name)
        };
        let last = few
            .iter()
            .enumerate()
            .filter(|(at, pair)| is_last(*at, pair.0));
        values.push_map(last.map(|(_, pair)| *pair));
        return;
    };
    let all: Vec<_> = few.iter().copied().chain([next]).chain(pairs).collect();
    let last_of: HashMap<&[u8], usize> = all
        .iter()
        .enumerate()
        .map(|(at, pair)| (pair.0, at))
        .collect();
    let last = all
        .iter()
        .enumerate()
        .filter(|(at, pair)| last_of.get(pair.0) == Some(at));
    values.push_map(last.map(|(_, pair)| *pair));
}
