//! Check points and acknowledgements as they lie in the topic of check points: JSON bodies with the
//! official short names (`PopCheckPoint`, `AckMsg`, `BatchAckMsg`). Pure.

use std::fmt::Write as _;

use mqcore_engine::relaxed_json::parse;

/// Tag of a check point.
pub const POINT_TAG: &str = "ck";
/// Tag of an acknowledgement.
pub const ACK_TAG: &str = "ack";
/// Tag of an acknowledgement of several messages.
pub const BATCH_ACK_TAG: &str = "bAck";
/// Messages of one check point: its bits are an `int`.
pub const MESSAGES_MAX: usize = 32;
/// Offsets in a batch of acknowledgements that are looked at: as many as a check point has.
const ACKED_MAX: usize = 4_096;

/// What was popped from one queue at once: which messages, until when nobody else gets them, and
/// which of them are acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckPoint {
    /// The topic they were popped from.
    pub topic: String,
    /// The group.
    pub group: String,
    /// The queue.
    pub queue_id: i32,
    /// Queue offset that the pop began at.
    pub start_offset: i64,
    /// When, Unix ms.
    pub pop_time_ms: i64,
    /// For how long, ms.
    pub invisible_ms: i64,
    /// Distances of the messages from the start; empty in old check points: one after the other.
    pub distances: Vec<i32>,
    /// How many messages.
    pub count: usize,
    /// Those that are acknowledged.
    pub bits: u32,
    /// The broker.
    pub broker: String,
    /// How often it was put off (`rePutTimes`).
    pub put_off: Option<u32>,
}

impl CheckPoint {
    /// When the messages come back, Unix ms.
    #[must_use]
    pub const fn due_ms(&self) -> i64 {
        self.pop_time_ms.saturating_add(self.invisible_ms)
    }

    /// The queue offset of a message by its place.
    #[must_use]
    pub fn offset_at(&self, at: usize) -> Option<i64> {
        if at >= self.count {
            return None;
        }
        if self.distances.is_empty() {
            return self.start_offset.checked_add(i64::try_from(at).ok()?);
        }
        let distance = self.distances.get(at)?;
        self.start_offset.checked_add((*distance).into())
    }

    /// The place of a message by its queue offset.
    #[must_use]
    pub fn index_of(&self, offset: i64) -> Option<usize> {
        let distance = offset.checked_sub(self.start_offset)?;
        if self.distances.is_empty() {
            let at = usize::try_from(distance).ok()?;
            return (at < self.count).then_some(at);
        }
        let distance = i32::try_from(distance).ok()?;
        self.distances.iter().position(|each| *each == distance)
    }

    /// Marks a message as acknowledged; false when it is none of these.
    pub fn acknowledge(&mut self, offset: i64) -> bool {
        let Some(at) = self.index_of(offset).filter(|at| *at < MESSAGES_MAX) else {
            return false;
        };
        self.bits |= 1 << at;
        true
    }

    /// Whether a message is acknowledged.
    #[must_use]
    pub const fn is_acknowledged(&self, at: usize) -> bool {
        at < MESSAGES_MAX && self.bits & (1 << at) != 0
    }

    /// The body of the record.
    #[must_use]
    pub fn json(&self) -> String {
        let mut out = String::with_capacity(160);
        let bits = self.bits.cast_signed();
        let _infallible = write!(out, "{{\"bm\":{bits},\"bn\":");
        text(&self.broker, &mut out);
        out.push_str(",\"c\":");
        text(&self.group, &mut out);
        out.push_str(",\"d\":[");
        for (at, distance) in self.distances.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let _infallible = write!(out, "{comma}{distance}");
        }
        let _infallible = write!(
            out,
            "],\"it\":{},\"n\":{},\"pt\":{},\"q\":{},\"ro\":0",
            self.invisible_ms, self.count, self.pop_time_ms, self.queue_id
        );
        if let Some(times) = self.put_off {
            let _infallible = write!(out, ",\"rp\":\"{times}\"");
        }
        let _infallible = write!(out, ",\"so\":{},\"t\":", self.start_offset);
        text(&self.topic, &mut out);
        out.push('}');
        out
    }

    /// The key of its record (`genCkUniqueId`).
    #[must_use]
    pub fn unique_key(&self) -> String {
        format!(
            "{}@{}@{}@{}@{}@{}@{POINT_TAG}",
            self.topic, self.queue_id, self.start_offset, self.group, self.pop_time_ms, self.broker
        )
    }

    /// Reads a body; `None` for one that names no topic or group, or is no JSON.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let found = parse(body).ok()?;
        let number = |name: &str| found.get(name).and_then(|value| value.as_i64());
        let string = |name: &str| found.get(name).and_then(|value| value.as_str());
        let listed = found.get("d").and_then(|value| value.as_array());
        let listed = listed.into_iter().flatten().take(MESSAGES_MAX);
        let distances: Option<Vec<i32>> = listed
            .map(|value| i32::try_from(value.as_i64()?).ok())
            .collect();
        let count = usize::try_from(number("n").unwrap_or(0)).unwrap_or(0);
        // 32 bits as an int: the highest makes it negative.
        let bits = number("bm").unwrap_or(0) as u64 as u32;
        Some(Self {
            topic: string("t")?.to_owned(),
            group: string("c")?.to_owned(),
            queue_id: i32::try_from(number("q").unwrap_or(0)).ok()?,
            start_offset: number("so").unwrap_or(0),
            pop_time_ms: number("pt").unwrap_or(0),
            invisible_ms: number("it").unwrap_or(0),
            distances: distances?,
            count: count.min(MESSAGES_MAX),
            bits,
            broker: string("bn").unwrap_or_default().to_owned(),
            put_off: string("rp").and_then(|times| times.parse().ok()),
        })
    }
}

/// One or several messages of a check point that were acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The topic they were popped from.
    pub topic: String,
    /// The group.
    pub group: String,
    /// The queue.
    pub queue_id: i32,
    /// Queue offset that the pop began at.
    pub start_offset: i64,
    /// When, Unix ms.
    pub pop_time_ms: i64,
    /// The broker.
    pub broker: String,
    /// The queue offsets of the messages.
    pub offsets: Vec<i64>,
    /// Whether it is one of several (`BatchAckMsg`).
    pub is_batch: bool,
}

impl Acknowledgement {
    /// The tag of its record.
    #[must_use]
    pub const fn tag(&self) -> &'static str {
        if self.is_batch {
            BATCH_ACK_TAG
        } else {
            ACK_TAG
        }
    }

    fn offset(&self) -> i64 {
        if self.is_batch {
            return -1;
        }
        self.offsets.first().copied().unwrap_or(-1)
    }

    fn listed(&self, separator: &str) -> String {
        let texts: Vec<String> = self.offsets.iter().map(ToString::to_string).collect();
        texts.join(separator)
    }

    /// The body of the record.
    #[must_use]
    pub fn json(&self) -> String {
        let mut out = String::with_capacity(128);
        let _infallible = write!(out, "{{\"ao\":{}", self.offset());
        if self.is_batch {
            let _infallible = write!(out, ",\"aol\":[{}]", self.listed(","));
        }
        out.push_str(",\"bn\":");
        text(&self.broker, &mut out);
        out.push_str(",\"c\":");
        text(&self.group, &mut out);
        let _infallible = write!(
            out,
            ",\"pt\":{},\"q\":{},\"so\":{},\"t\":",
            self.pop_time_ms, self.queue_id, self.start_offset
        );
        text(&self.topic, &mut out);
        out.push('}');
        out
    }

    /// The key of its record (`genAckUniqueId`): the official broker gives it to both kinds.
    #[must_use]
    pub fn unique_key(&self) -> String {
        format!(
            "{}@{}@{}@{}@{}@{}@{ACK_TAG}",
            self.topic,
            self.queue_id,
            self.offset(),
            self.group,
            self.pop_time_ms,
            self.broker
        )
    }

    /// Reads a body; `None` for one that names no topic or group, or is no JSON.
    #[must_use]
    pub fn parse(body: &[u8], is_batch: bool) -> Option<Self> {
        let found = parse(body).ok()?;
        // The long names are of the first releases with pops.
        let value = |short: &str, long: &str| found.get(short).or_else(|| found.get(long));
        let number = |short, long| value(short, long).and_then(|v| v.as_i64()).unwrap_or(0);
        let string = |short, long| value(short, long).and_then(|v| v.as_str());
        let offsets = if is_batch {
            let listed = value("aol", "ackOffsetList").and_then(|v| v.as_array());
            let listed = listed.into_iter().flatten().take(ACKED_MAX);
            listed.filter_map(|value| value.as_i64()).collect()
        } else {
            vec![number("ao", "ackOffset")]
        };
        Some(Self {
            topic: string("t", "topic")?.to_owned(),
            group: string("c", "consumerGroup")?.to_owned(),
            queue_id: i32::try_from(number("q", "queueId")).ok()?,
            start_offset: number("so", "startOffset"),
            pop_time_ms: number("pt", "popTime"),
            broker: string("bn", "brokerName").unwrap_or_default().to_owned(),
            offsets,
            is_batch,
        })
    }
}

/// A JSON string.
fn text(value: &str, out: &mut String) {
    out.push('"');
    for each in value.chars() {
        match each {
            '"' | '\\' => {
                out.push('\\');
                out.push(each);
            }
            '\u{0}'..='\u{1f}' => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(each));
            }
            _ => out.push(each),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point() -> CheckPoint {
        CheckPoint {
            topic: "t".into(),
            group: "g\"1".into(),
            queue_id: 3,
            start_offset: 100,
            pop_time_ms: 1_700_000_000_000,
            invisible_ms: 60_000,
            distances: vec![0, 2, 31],
            count: 3,
            bits: 0,
            broker: "b".into(),
            put_off: None,
        }
    }

    #[test]
    fn a_check_point_is_read_as_it_is_written() {
        let mut point = point();
        assert_eq!(
            CheckPoint::parse(point.json().as_bytes()),
            Some(point.clone())
        );
        assert!(point.acknowledge(131));
        assert!(!point.acknowledge(101));
        assert!(!point.acknowledge(99));
        point.put_off = Some(2);
        assert_eq!(
            CheckPoint::parse(point.json().as_bytes()),
            Some(point.clone())
        );
        assert_eq!(
            (point.is_acknowledged(2), point.offset_at(2)),
            (true, Some(131))
        );
        point.bits = u32::MAX;
        let again = CheckPoint::parse(point.json().as_bytes()).unwrap();
        assert_eq!(again.bits, u32::MAX);
        assert_eq!(point.unique_key(), "t@3@100@g\"1@1700000000000@b@ck");
    }

    #[test]
    fn old_check_points_have_no_distances() {
        let body = br#"{"bm":1,"c":"g","it":10,"n":2,"pt":5,"q":0,"so":7,"t":"t"}"#;
        let point = CheckPoint::parse(body).unwrap();
        assert_eq!((point.offset_at(1), point.offset_at(2)), (Some(8), None));
        assert_eq!((point.index_of(8), point.index_of(9)), (Some(1), None));
        assert!(point.is_acknowledged(0) && !point.is_acknowledged(1));
        assert_eq!(point.due_ms(), 15);
    }

    #[test]
    fn acknowledgements_are_read_as_they_are_written() {
        for is_batch in [false, true] {
            let offsets = if is_batch { vec![101, 103] } else { vec![101] };
            let ack = Acknowledgement {
                topic: "t".into(),
                group: "g".into(),
                queue_id: 1,
                start_offset: 100,
                pop_time_ms: 9,
                broker: "b".into(),
                offsets,
                is_batch,
            };
            let again = Acknowledgement::parse(ack.json().as_bytes(), is_batch);
            assert_eq!(again, Some(ack));
        }
        let old = br#"{"ackOffset":1,"consumerGroup":"g","popTime":2,"queueId":3,"startOffset":1,"topic":"t"}"#;
        let ack = Acknowledgement::parse(old, false).unwrap();
        assert_eq!(
            (ack.offsets, ack.pop_time_ms, ack.queue_id),
            (vec![1], 2, 3)
        );
    }

    #[test]
    fn what_is_no_body_is_none() {
        for body in [&b""[..], b"{", b"[]", b"{\"t\":1,\"c\":\"g\"}", b"0-5"] {
            assert_eq!(CheckPoint::parse(body), None);
            assert_eq!(Acknowledgement::parse(body, true), None);
        }
        let wild = br#"{"t":"t","c":"g","n":1,"d":["x"]}"#;
        assert_eq!(CheckPoint::parse(wild), None);
        let wild = br#"{"t":"t","c":"g","n":-1,"d":[],"bm":1e30,"q":5}"#;
        let point = CheckPoint::parse(wild).unwrap();
        assert_eq!((point.count, point.offset_at(0)), (0, None));
    }
}
