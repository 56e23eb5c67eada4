//! The headers of requests around pops, typed (`PopMessageRequestHeader`, `AckMessageRequestHeader`,
//! `BatchAck`, `ChangeInvisibleTimeRequestHeader`, `NotificationRequestHeader`). Knows no policy.

use mqcore_engine::relaxed_json::parse;

use crate::pop_run::names::Source;
use crate::requests::{BadField, Request};

/// Acknowledged pops of one request: far more than a client gathers, far below what costs time.
const BATCHES_MAX: usize = 4_096;
/// Bytes of a bit set: a pop has 32 messages, and offsets between them may be passed over.
const BIT_SET_BYTES_MAX: usize = 8_192;

/// A pop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PopHeader<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue; negative: any.
    pub queue_id: i32,
    /// Messages at the most.
    pub count_max: i32,
    /// How long nobody else gets them, ms.
    pub invisible_ms: i64,
    /// How long it may be held, ms.
    pub poll_ms: i64,
    /// When it was made, Unix ms; 0 where the client does not set it.
    pub born_ms: i64,
    /// Whether a new group begins at the end of the queues.
    pub from_max: bool,
    /// The expression.
    pub expression: Option<&'a str>,
    /// Its kind.
    pub expression_kind: Option<&'a str>,
    /// Whether the messages of a queue are given in order.
    pub is_ordered: bool,
    /// Names the attempt, so that it may be repeated.
    pub attempt: Option<&'a str>,
}

/// `initMode` of a group that begins at the end.
const FROM_MAX: i32 = 1;

impl<'a> PopHeader<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            group: request.text("consumerGroup")?,
            topic: request.text("topic")?,
            queue_id: request.number("queueId")?,
            count_max: request.number("maxMsgNums")?,
            invisible_ms: request.number("invisibleTime")?,
            poll_ms: request.number("pollTime")?,
            born_ms: request.number_or("bornTime", 0)?,
            from_max: request.number::<i32>("initMode")? == FROM_MAX,
            expression: request.field("exp"),
            expression_kind: request.field("expType"),
            is_ordered: request.is_true("order"),
            attempt: request.field("attemptId"),
        })
    }
}

/// An acknowledgement, or a change of the invisible time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckHeader<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The topic that the message lies in.
    pub topic: &'a str,
    /// Its queue.
    pub queue_id: i32,
    /// The handle.
    pub handle: &'a str,
    /// Its queue offset.
    pub offset: i64,
    /// The new invisible time, ms; 0 for an acknowledgement.
    pub invisible_ms: i64,
}

impl<'a> AckHeader<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>, is_change: bool) -> Result<Self, BadField> {
        Ok(Self {
            group: request.text("consumerGroup")?,
            topic: request.text("topic")?,
            queue_id: request.number("queueId")?,
            handle: request.text("extraInfo")?,
            offset: request.number("offset")?,
            invisible_ms: if is_change {
                request.number("invisibleTime")?
            } else {
                0
            },
        })
    }
}

/// A question whether there is something to pop, or how many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookHeader<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue; negative: any.
    pub queue_id: i32,
    /// Messages at the most, of a peek.
    pub count_max: i32,
    /// How long it may be held, ms.
    pub poll_ms: i64,
    /// When it was made, Unix ms; 0 where the client does not set it.
    pub born_ms: i64,
    /// Whether it is about ordered pops.
    pub is_ordered: bool,
    /// Names the attempt.
    pub attempt: Option<&'a str>,
}

impl<'a> LookHeader<'a> {
    /// Topic, group and queue asked for.
    pub(super) fn line(&self) -> (&'a str, &'a str, i32) {
        (self.topic, self.group, self.queue_id)
    }

    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            group: request.text("consumerGroup")?,
            topic: request.text("topic")?,
            queue_id: request.number("queueId")?,
            count_max: request.number_or("maxMsgNums", 0)?,
            poll_ms: request.number_or("pollTime", 0)?,
            born_ms: request.number_or("bornTime", 0)?,
            is_ordered: request.is_true("order"),
            attempt: request.field("attemptId"),
        })
    }
}

/// Messages of one pop that are acknowledged together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchAck {
    /// The consumer group.
    pub group: String,
    /// The topic that they lie in.
    pub topic: String,
    /// Their queue.
    pub queue_id: i32,
    /// The queue of their check point.
    pub revive_queue: i32,
    /// Queue offset that their pop began at.
    pub start_offset: i64,
    /// When they were popped, Unix ms.
    pub pop_time_ms: i64,
    /// For how long, ms.
    pub invisible_ms: i64,
    /// Their queue offsets.
    pub offsets: Vec<i64>,
}

/// The body of a batch of acknowledgements: the broker that it names, and what is acknowledged. In
/// words what is wrong with it.
///
/// # Errors
/// It is no JSON, or a part of it is none of the protocol.
pub fn batch_acks(body: &[u8]) -> Result<(String, Vec<BatchAck>), String> {
    if body.is_empty() {
        return Ok((String::new(), Vec::new()));
    }
    let found = parse(body).map_err(|error| error.why)?;
    let broker = found.get("brokerName").and_then(|value| value.as_str());
    let listed = found.get("acks").and_then(|value| value.as_array());
    let listed = listed.map_or(&[][..], |listed| listed.as_slice());
    if listed.len() > BATCHES_MAX {
        return Err(format!("more than {BATCHES_MAX} acknowledgements"));
    }
    let mut acks = Vec::with_capacity(listed.len());
    for each in listed {
        let number = |name: &str| each.get(name).and_then(|value| value.as_i64()).unwrap_or(0);
        let string = |name: &str| each.get(name).and_then(|value| value.as_str());
        let int = |name: &str| i32::try_from(number(name)).map_err(|_| format!("{name} is no int"));
        let (Some(topic), Some(group)) = (string("t"), string("c")) else {
            return Err("an acknowledgement names no topic or no group".to_owned());
        };
        let source = Source::of_flag(string("r").unwrap_or_default());
        let source = source.ok_or("getRetry fail, format is wrong")?;
        let start_offset = number("so");
        let bits = string("b").unwrap_or_default();
        acks.push(BatchAck {
            topic: source.topic(topic, group),
            group: group.to_owned(),
            queue_id: int("q")?,
            revive_queue: int("rq")?,
            start_offset,
            pop_time_ms: number("pt"),
            invisible_ms: number("it"),
            offsets: offsets_of(bits, start_offset)?,
        });
    }
    Ok((broker.unwrap_or_default().to_owned(), acks))
}

/// The offsets of a bit set as Java writes it (`BitSet.toByteArray`) in base64.
fn offsets_of(text: &str, start: i64) -> Result<Vec<i64>, String> {
    let bytes = base64(text).ok_or("the bit set is no base64")?;
    let mut offsets = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        for bit in 0..8 {
            if byte & (1 << bit) != 0 {
                let distance = (at * 8 + bit) as i64;
                offsets.push(start.saturating_add(distance));
            }
        }
    }
    Ok(offsets)
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    if text.len() > BIT_SET_BYTES_MAX {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_set_is_read_as_java_writes_it() {
        assert_eq!(offsets_of("BQI=", 100), Ok(vec![100, 102, 109]));
        assert_eq!(offsets_of("", 100), Ok(vec![]));
        assert!(offsets_of("*", 0).is_err());
        assert_eq!(base64("AAECAwQ="), Some(vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn a_batch_names_topics_by_their_flag() {
        let body = br#"{"acks":[{"b":"AQ==","c":"g","it":5,"pt":6,"q":1,"r":"1","rq":2,"so":3,"t":"t"}],"brokerName":"b"}"#;
        let (broker, acks) = batch_acks(body).unwrap();
        assert_eq!((broker.as_str(), acks.len()), ("b", 1));
        assert_eq!(
            (acks[0].topic.as_str(), acks[0].revive_queue),
            ("%RETRY%g_t", 2)
        );
        assert_eq!(acks[0].offsets, [3]);
        assert_eq!(batch_acks(b""), Ok((String::new(), vec![])));
        assert_eq!(batch_acks(b"{}"), Ok((String::new(), vec![])));
        for bad in [
            &b"{"[..],
            br#"{"acks":[{}]}"#,
            br#"{"acks":[{"t":"t","c":"g","r":"7"}]}"#,
        ] {
            assert!(batch_acks(bad).is_err());
        }
    }
}
