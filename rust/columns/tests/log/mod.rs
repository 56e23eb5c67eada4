//! Logs made for tests, and the plain way to read them: one record after the other from the start.

use mqcore_columns::{Damage, Span, Step, Walk};
use mqcore_record::{CrcCheck, Found, Host, Limits, Message, Prepared, Version, check, properties};

/// One message of a made log.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) topic: String,
    pub(crate) body: Vec<u8>,
    pub(crate) pairs: Vec<(String, String)>,
    pub(crate) is_v6: bool,
    pub(crate) is_v2: bool,
    pub(crate) sys_flag: i32,
}

impl Sent {
    pub(crate) fn plain(topic: &str, body: &[u8]) -> Self {
        Self {
            topic: topic.to_owned(),
            body: body.to_vec(),
            pairs: Vec::new(),
            is_v6: false,
            is_v2: false,
            sys_flag: 0,
        }
    }
}

/// The bytes of a log that begins at `base`.
pub(crate) fn log(sent: &[Sent], base: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, message) in sent.iter().enumerate() {
        let mut text = Vec::new();
        let pairs = message.pairs.iter();
        properties::encode(pairs.map(|(n, v)| (n.as_str(), v.as_str())), &mut text).unwrap();
        let host = if message.is_v6 {
            Host::V6 {
                address: [7; 16],
                port: 9,
            }
        } else {
            Host::V4 {
                address: [127, 0, 0, 1],
                port: 9,
            }
        };
        let whole = Message {
            topic: &message.topic,
            queue_id: number as i32 % 3,
            flag: 5,
            sys_flag: message.sys_flag,
            born_timestamp_ms: 1_000 + number as i64,
            born_host: host,
            store_host: host,
            reconsume_times: 2,
            prepared_transaction_offset: 0,
            body: &message.body,
            properties: &text,
            version: message.is_v2.then_some(Version::V2),
        };
        let limits = Limits {
            body_len_max: 1 << 20,
        };
        let mut prepared = Prepared::new(&whole, &limits).unwrap();
        let physical_offset = base + out.len() as u64;
        prepared.stamp(number as i64, physical_offset as i64, 2_000 + number as i64);
        let at = out.len();
        out.resize(at + prepared.total_len(), 0);
        prepared.write_to(&mut out[at..]);
    }
    out
}

/// Where the records of an undamaged log begin.
pub(crate) fn record_offsets(log: &[u8], base: u64) -> Vec<u64> {
    let mut record_offsets = Vec::new();
    let mut at = 0;
    while let Ok(Found::Record(record)) = check(&log[at..], CrcCheck::Verify) {
        record_offsets.push(base + at as u64);
        at += record.total_len_bytes;
    }
    record_offsets
}

/// What a walk came upon: physical offsets of records, and damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) records: Vec<u64>,
    pub(crate) damage: Vec<Damage>,
}

impl Seen {
    pub(crate) fn note(&mut self, step: Step<'_>) -> Result<(), ()> {
        match step {
            Step::Record(record) => self.records.push(record.physical_offset as u64),
            Step::Damage(damage) => self.damage.push(damage),
        }
        Ok(())
    }
}

/// Walks a span of a log in pieces of changing length.
pub(crate) fn walk(log: &[u8], base: u64, span: Span, pieces: &[usize]) -> Seen {
    let mut walk = Walk::new(span, CrcCheck::Verify);
    let mut seen = Seen::default();
    let mut lens = pieces.iter().cycle();
    while !walk.is_done() {
        let at = (walk.next_position() - base) as usize;
        if at >= log.len() {
            break;
        }
        let len = (*lens.next().unwrap()).clamp(1, log.len() - at);
        walk.feed(&log[at..at + len], |step| seen.note(step))
            .unwrap();
    }
    walk.finish(|step| seen.note(step)).unwrap();
    seen
}

/// The span of a whole log.
pub(crate) fn whole(log: &[u8], base: u64, is_log_end: bool) -> Span {
    let end = base + log.len() as u64;
    Span {
        start: base,
        end,
        limit: end,
        is_inside: false,
        is_log_end,
    }
}

/// The spans between cuts of a log: what readers side by side would take.
pub(crate) fn spans(log: &[u8], base: u64, cuts: &[usize], is_log_end: bool) -> Vec<Span> {
    let mut bounds: Vec<usize> = cuts.iter().map(|cut| cut % log.len()).collect();
    bounds.extend([0, log.len()]);
    bounds.sort_unstable();
    bounds.dedup();
    let limit = base + log.len() as u64;
    let span = |pair: &[usize]| Span {
        start: base + pair[0] as u64,
        end: base + pair[1] as u64,
        limit,
        is_inside: pair[0] != 0,
        is_log_end,
    };
    bounds.windows(2).map(span).collect()
}
