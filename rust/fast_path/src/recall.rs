//! Recall of a message with a time of its own: a message that deletes it, for the same slot
//! (`RecallMessageProcessor`, `RecallMessageHandle`).
//!
//! A handle is base64 (URL alphabet, padded) of `v1 TOPIC BROKER TIME KEY`: the time is one past the
//! slot, the key the unique key of the message.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;

use crate::answers::refuse_recall;
use crate::context::Context;
use crate::delivery::{Delivery, Draft, Target};
use crate::names::{TIMER_QUEUE, TIMER_TOPIC};
use crate::parked::{Kind, Stored};
use crate::properties::{
    self, REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_DELIVER_MS, TIMER_OUT_MS, UNIQ_KEY,
};
use crate::refusals::{self, Refused};
use crate::requests::{Recall, Request};
use crate::stop::Processed;

const VERSION: &str = "v1";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// A deletion has a body, as every message.
const BODY: &[u8] = b"0";
const TAG: &[u8] = b"_RECALL_TAG_";

/// What a handle holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Handle {
    topic: String,
    broker: String,
    deliver_ms: i64,
    uniq_key: String,
}

/// The handle of a message in the slot `out_ms`.
pub(crate) fn handle_of(topic: &str, broker: &str, out_ms: i64, uniq_key: &str) -> String {
    let deliver_ms = out_ms + 1;
    encode(format!("{VERSION} {topic} {broker} {deliver_ms} {uniq_key}").as_bytes())
}

impl Handle {
    fn parse(text: &str) -> Option<Self> {
        let plain = decode(text.as_bytes())?;
        let plain = String::from_utf8(plain).ok()?;
        let mut parts = plain.split(' ');
        if parts.next() != Some(VERSION) {
            return None;
        }
        let mut next = || parts.next().map(str::to_owned);
        Some(Self {
            topic: next()?,
            broker: next()?,
            // What is no number is a time that has passed.
            deliver_ms: next()?.parse().unwrap_or(-1),
            uniq_key: next()?,
        })
    }
}

/// Executes a recall.
pub(crate) fn process<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
) -> Processed {
    let done = recall(cx, delivery, request);
    cx.refuse_by(done, |cx, refused| {
        refuse_recall(
            cx.connections,
            &cx.policy.broker,
            &request.request_context,
            refused,
        );
    })
}

/// The checks in the official order; the message that deletes.
fn recall<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
) -> Processed {
    let recall = Recall::read(request)?;
    let broker = &cx.policy.broker;
    let timing = broker.timing;
    let now_ms = cx.store.wall_ms();
    if !timing.is_recall_enabled {
        return Err(refusals::recall_forbidden().into());
    }
    let is_closed = !broker.perm.is_writable() && !timing.is_recall_enabled_read_only;
    if broker.refuse_sends.is_some() || now_ms < broker.accepts_sends_from_ms || is_closed {
        return Err(refusals::recall_unavailable().into());
    }
    if !cx.policy.topics.contains_key(recall.topic) {
        return Err(refusals::recall_no_topic(recall.topic).into());
    }
    let handle = Handle::parse(recall.handle);
    let handle = handle.ok_or_else(|| refusals::recall_illegal("recall handle is invalid"))?;
    let now_ms = now_ms.saturating_add(timing.ahead_ms);
    let left_ms = handle.deliver_ms.saturating_sub(now_ms);
    let why = if handle.topic != recall.topic {
        Some("recall failed, topic not match")
    } else if handle.broker != broker.name {
        Some("recall failed, broker service not available")
    } else if left_ms <= 0 || left_ms >= timing.max_delay_ms {
        Some("recall failed, timestamp invalid")
    } else {
        None
    };
    if let Some(why) = why {
        return Err(refusals::recall_illegal(why).into());
    }
    append_recall(cx, delivery, request, (&recall, &handle))
        .map_err(|_refused| refusals::recall_failed().into())
}

fn append_recall<D: Disk, C: Clock>(
    cx: &mut Context<'_, D, C>,
    delivery: &mut Delivery<D>,
    request: &Request<'_>,
    (recall, handle): (&Recall<'_>, &Handle),
) -> Result<(), Refused> {
    let broker = &cx.policy.broker;
    let now_ms = cx.store.wall_ms();
    let deliver = handle.deliver_ms.to_string();
    let timed = properties::Timed {
        deliver_ms: Some(deliver.as_bytes()),
        is_delete: true,
        ..properties::Timed::default()
    };
    let slot_ms = broker.timing.slot_of(&timed, now_ms)?;
    let out = slot_ms.unwrap_or(handle.deliver_ms).to_string();
    let (delete, born) = (
        format!("{}+{}", handle.topic, handle.uniq_key),
        now_ms.to_string(),
    );
    let adds = [
        ("TAGS", TAG),
        (TIMER_DEL_UNIQKEY, delete.as_bytes()),
        (UNIQ_KEY, handle.uniq_key.as_bytes()),
        (TIMER_DELIVER_MS, deliver.as_bytes()),
        ("BORN_TIMESTAMP", born.as_bytes()),
        ("PGROUP", recall.group.as_bytes()),
        (TIMER_OUT_MS, out.as_bytes()),
        (REAL_TOPIC, handle.topic.as_bytes()),
        (REAL_QID, b"0"),
    ];
    let mut text = Vec::new();
    properties::rewrite(b"", &[], &adds, &mut text);
    let draft = Draft {
        flag: 0,
        sys_flag: 0,
        born_timestamp_ms: now_ms,
        born_host: cx.born_host(&request.request_context),
        store_host: broker.store_host,
        reconsume_times: 0,
        body: BODY,
        properties: &text,
    };
    let target = Target {
        topic: TIMER_TOPIC,
        queue_id: TIMER_QUEUE,
    };
    let appended = cx.store.writer().append(&draft.message(&target));
    let appended = appended.map_err(|error| cx.not_stored(&error))?;
    let mut stored = Stored::at(request.request_context, Kind::Recall, 0, &appended);
    stored.recall = Some(handle.uniq_key.as_str().into());
    delivery.settle(cx, stored, appended.end(), true);
    Ok(())
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let padded = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = (padded[0] << 16) | (padded[1] << 8) | padded[2];
        for at in 0..4 {
            if at <= group.len() {
                let index = (bits >> (18 - 6 * at)) & 63;
                out.push(char::from(ALPHABET[index as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Reads base64 as Java's URL decoder does: padding may be left out, nothing else may be there.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = &text[..text.len() - padding];
    if padding > 2 || digits.len() % 4 == 1 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for at in 0..4 {
            let digit = match group.get(at) {
                Some(byte) => ALPHABET.iter().position(|each| each == byte)? as u32,
                None => 0,
            };
            bits = (bits << 6) | digit;
        }
        let bytes = bits.to_be_bytes();
        out.extend(&bytes[1..group.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_the_official_text() {
        let text = handle_of("T", "bn", 1_700_000_000_000, "AC11");
        assert_eq!(text, "djEgVCBibiAxNzAwMDAwMDAwMDAxIEFDMTE=");
        let handle = Handle {
            topic: "T".to_owned(),
            broker: "bn".to_owned(),
            deliver_ms: 1_700_000_000_001,
            uniq_key: "AC11".to_owned(),
        };
        assert_eq!(Handle::parse(&text), Some(handle.clone()));
        assert_eq!(Handle::parse(text.trim_end_matches('=')), Some(handle));
    }

    #[test]
    fn bytes_come_back_whatever_they_are() {
        for len in 0..20 {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 37 + 250) as u8).collect();
            assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }

    #[test]
    fn what_is_no_handle_is_none() {
        for bad in [
            "",
            "=",
            "A",
            "djEgVCBi*",
            "djEgVCBibg==",
            "ÄÖ",
            "djIgVCBibiAxIEFDMTE=",
        ] {
            assert_eq!(Handle::parse(bad), None, "{bad}");
        }
    }
}
