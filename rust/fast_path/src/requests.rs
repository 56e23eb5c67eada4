//! The headers of the hot requests, typed: read from the fields of a frame or of a command. Knows
//! no policy. A field that is missing or of another type is an error that names it.

use std::collections::BTreeMap;
use std::fmt;

use std::net::SocketAddr;

use mqcore_record::{Host, sys_flag};
use mqcore_wire::{Command, CommandRef, Fields};

use crate::request_context::{ConnectionId, RequestContext};
use crate::shape::{self, Shape};

/// Where the fields of a request are.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Frame(&'a Fields<'a>),
    Command(&'a BTreeMap<String, String>),
}

/// The field in which a broker that passes a request on names where its client is.
const BORN_HOST: &str = "mqcoreBornHost";

/// A request, wherever it lies.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who asks.
    pub request_context: RequestContext,
    /// The request code.
    pub code: i32,
    fields: Source<'a>,
    /// The body.
    pub body: &'a [u8],
    /// Whether its user has to be asked for what it does beside its header (`gate`).
    pub(crate) has_further: bool,
}

/// A header field that is missing or of another type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadField {
    name: &'static str,
    value: Option<String>,
}

impl fmt::Display for BadField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(out, "the custom field <{}> is null", self.name),
            Some(value) => write!(out, "the custom field <{}> is no {value:?}", self.name),
        }
    }
}

/// Characters of a bad value that an answer repeats.
const SHOWN_CHARS: usize = 64;

fn required<'a>(name: &'static str, value: Option<&'a str>) -> Result<&'a str, BadField> {
    value.ok_or(BadField { name, value: None })
}

fn number<T: std::str::FromStr>(name: &'static str, value: &str) -> Result<T, BadField> {
    value.parse().map_err(|_bad| BadField {
        name,
        value: Some(value.chars().take(SHOWN_CHARS).collect()),
    })
}

/// As Java's `Boolean.parseBoolean`.
fn truth(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}

impl<'a> Request<'a> {
    /// The request in a frame.
    #[must_use]
    pub fn of_frame(connection: ConnectionId, command: &'a CommandRef<'a>) -> Self {
        Self {
            request_context: RequestContext::of(connection, command),
            code: command.code,
            fields: Source::Frame(&command.fields),
            body: command.body,
            has_further: false,
        }
    }

    /// The request that a command of its own is.
    #[must_use]
    pub fn of_command(connection: ConnectionId, command: &'a Command) -> Self {
        Self {
            request_context: RequestContext {
                connection,
                opaque: command.opaque,
                serialization: command.serialization,
                is_oneway: command.flag & mqcore_wire::header::ONEWAY != 0,
                version: command.version,
                code: command.code,
                received_us: 0,
            },
            code: command.code,
            fields: Source::Command(&command.ext),
            body: &command.body,
            has_further: false,
        }
    }

    /// The same, as it was received at a time.
    #[must_use]
    pub(crate) fn received_at(mut self, us: u64) -> Self {
        self.request_context.received_us = us;
        self
    }

    /// A field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'a str> {
        match self.fields {
            Source::Frame(fields) => fields.value(name),
            Source::Command(ext) => ext.get(name).map(String::as_str),
        }
    }

    /// Where its client is, by a broker that passes it on.
    pub(crate) fn named_host(&self) -> Option<Host> {
        let address: SocketAddr = self.field(BORN_HOST)?.parse().ok()?;
        Some(address.into())
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<&'a str, BadField> {
        required(name, self.field(name))
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &'static str) -> Result<T, BadField> {
        number(name, self.text(name)?)
    }

    pub(crate) fn number_or<T: std::str::FromStr>(
        &self,
        name: &'static str,
        or: T,
    ) -> Result<T, BadField> {
        self.field(name).map_or(Ok(or), |value| number(name, value))
    }

    fn optional<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>, BadField> {
        self.field(name)
            .map(|value| number(name, value))
            .transpose()
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.field(name).is_some_and(truth)
    }

    fn each(&self, mut visit: impl FnMut(&'a str, &'a str)) {
        match self.fields {
            Source::Frame(fields) => fields.iter().for_each(|(name, value)| visit(name, value)),
            Source::Command(ext) => ext.iter().for_each(|(name, value)| visit(name, value)),
        }
    }
}

/// A send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Send<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue; negative: any.
    pub queue_id: i32,
    /// System flag of the message.
    pub sys_flag: i32,
    /// Time on the producer's clock.
    pub born_timestamp_ms: i64,
    /// The user's flag.
    pub flag: i32,
    /// Properties as text.
    pub properties: &'a str,
    /// How often it was consumed before.
    pub reconsume_times: i32,
    /// How often it may be.
    pub max_reconsume_times: Option<i32>,
    /// Whether the body holds several messages.
    pub is_batch: bool,
}

/// The letters of the short header and the names of the long one, in the order of [`Send::slots`].
const SEND_NAMES: [(&str, &str); 9] = [
    ("b", "topic"),
    ("e", "queueId"),
    ("f", "sysFlag"),
    ("g", "bornTimestamp"),
    ("h", "flag"),
    ("i", "properties"),
    ("j", "reconsumeTimes"),
    ("l", "maxReconsumeTimes"),
    ("m", "batch"),
];

impl<'a> Send<'a> {
    /// Reads the header with the short names, or with the long ones.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>, has_short_names: bool) -> Result<Self, BadField> {
        let slots = Self::slots(request, has_short_names);
        let [
            topic,
            queue_id,
            sys_flag,
            born,
            flag,
            properties,
            reconsumed,
            max,
            batch,
        ] = slots;
        let numbered = |name, value| number::<i32>(name, required(name, value)?);
        Ok(Self {
            topic: required("topic", topic)?,
            queue_id: numbered("queueId", queue_id)?,
            sys_flag: numbered("sysFlag", sys_flag)?,
            born_timestamp_ms: number("bornTimestamp", required("bornTimestamp", born)?)?,
            flag: numbered("flag", flag)?,
            properties: properties.unwrap_or_default(),
            reconsume_times: reconsumed.map_or(Ok(0), |v| number("reconsumeTimes", v))?,
            max_reconsume_times: max.map(|v| number("maxReconsumeTimes", v)).transpose()?,
            is_batch: batch.is_some_and(truth),
        })
    }

    /// The values in one pass over the fields: a send is the request that comes most.
    fn slots(request: &Request<'a>, has_short_names: bool) -> [Option<&'a str>; 9] {
        let mut slots = [None; 9];
        request.each(|name, value| {
            let index = if has_short_names {
                SEND_NAMES.iter().position(|(short, _)| *short == name)
            } else {
                SEND_NAMES.iter().position(|(_, long)| *long == name)
            };
            if let Some(slot) = index.and_then(|at| slots.get_mut(at)) {
                *slot = Some(value);
            }
        });
        slots
    }
}

/// A pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullHeader<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// First queue offset wanted.
    pub queue_offset: i64,
    /// Messages at the most.
    pub count_max: i32,
    /// Bytes at the most, where the client sets it (5.x).
    pub bytes_max: Option<i32>,
    /// How much of its messages the answer is to bring (ours).
    pub shape: Shape,
    /// The flags of the pull.
    pub sys_flag: i32,
    /// The offset to commit.
    pub commit_offset: i64,
    /// How long to hold it, ms.
    pub suspend_ms: i64,
    /// The subscription.
    pub subscription: Option<&'a str>,
    /// Its version.
    pub version: i64,
    /// Its kind.
    pub expression_kind: Option<&'a str>,
}

impl<'a> PullHeader<'a> {
    /// Flag: an offset is to be committed.
    const COMMITS: i32 = 0x1;
    /// Flag: the broker may hold the request.
    const SUSPENDS: i32 = 0x2;
    /// Flag: the request brings its subscription.
    const SUBSCRIBES: i32 = 0x4;

    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            group: request.text("consumerGroup")?,
            topic: request.text("topic")?,
            queue_id: request.number("queueId")?,
            queue_offset: request.number("queueOffset")?,
            count_max: request.number("maxMsgNums")?,
            bytes_max: request.optional("maxMsgBytes")?,
            shape: Shape::of(request.field(shape::FIELD)),
            sys_flag: request.number("sysFlag")?,
            commit_offset: request.number("commitOffset")?,
            suspend_ms: request.number("suspendTimeoutMillis")?,
            subscription: request.field("subscription"),
            version: request.number("subVersion")?,
            expression_kind: request.field("expressionType"),
        })
    }

    /// Whether an offset is to be committed.
    #[must_use]
    pub const fn commits(&self) -> bool {
        self.sys_flag & Self::COMMITS != 0
    }

    /// Whether it may be held.
    #[must_use]
    pub const fn suspends(&self) -> bool {
        self.sys_flag & Self::SUSPENDS != 0
    }

    /// Whether it brings its subscription.
    #[must_use]
    pub const fn subscribes(&self) -> bool {
        self.sys_flag & Self::SUBSCRIBES != 0
    }
}

/// A question about an offset of a group, or a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupOffset<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The new offset.
    pub commit_offset: Option<i64>,
    /// False: an unknown offset is not to be answered with zero (5.x).
    pub zero_if_unknown: bool,
}

impl<'a> GroupOffset<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            group: request.text("consumerGroup")?,
            topic: request.text("topic")?,
            queue_id: request.number("queueId")?,
            commit_offset: request.optional("commitOffset")?,
            zero_if_unknown: request.field("setZeroIfNotFound").is_none_or(truth),
        })
    }
}

/// A question about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueQuestion<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The time asked for, where one is.
    pub timestamp_ms: Option<i64>,
    /// Whether the last message up to the time is wanted (5.x).
    pub is_upper: bool,
}

impl<'a> QueueQuestion<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        let boundary = request.field("boundaryType");
        Ok(Self {
            topic: request.text("topic")?,
            queue_id: request.number("queueId")?,
            timestamp_ms: request.optional("timestamp")?,
            is_upper: boundary.is_some_and(|b| b.eq_ignore_ascii_case("upper")),
        })
    }
}

/// Header field of a half message of a batch: how many messages are stored already; ours, like such
/// half messages.
const STORED_OF_BATCH: &str = "mqcoreStored";

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The message goes to its topic.
    Commit,
    /// The message is dropped.
    Rollback,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End<'a> {
    /// The producer group.
    pub group: &'a str,
    /// Queue offset of the half message (`tranStateTableOffset`).
    pub half_offset: i64,
    /// Physical offset of the half message.
    pub commit_log_offset: i64,
    /// Whether it answers a question of the broker's.
    pub is_answer: bool,
    /// Of a half message of a batch: how many messages are stored already.
    pub stored: usize,
    state: i32,
}

impl<'a> End<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            group: request.text("producerGroup")?,
            half_offset: request.number("tranStateTableOffset")?,
            commit_log_offset: request.number("commitLogOffset")?,
            state: request.number("commitOrRollback")?,
            is_answer: request.is_true("fromTransactionCheck"),
            stored: request.number_or(STORED_OF_BATCH, 0)?,
        })
    }

    /// What was decided; `None` while nothing is.
    #[must_use]
    pub const fn decision(&self) -> Option<Decision> {
        match self.state {
            sys_flag::COMMIT => Some(Decision::Commit),
            sys_flag::ROLLBACK => Some(Decision::Rollback),
            _ => None,
        }
    }
}

/// A message that its consumer sends back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Back<'a> {
    /// Physical offset of the message.
    pub physical_offset: i64,
    /// The consumer group.
    pub group: &'a str,
    /// 0: the broker decides; negative: dead letter.
    pub delay_level: i32,
    /// How often it may be consumed again.
    pub max_reconsume_times: Option<i32>,
    /// Whether its topic is one of units.
    pub is_unit: bool,
}

impl<'a> Back<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// The first bad field.
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            physical_offset: request.number("offset")?,
            group: request.text("group")?,
            delay_level: request.number_or("delayLevel", 0)?,
            max_reconsume_times: request.optional("maxReconsumeTimes")?,
            is_unit: request.is_true("unitMode"),
        })
    }
}

/// A recall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recall<'a> {
    /// Who sent the message.
    pub group: &'a str,
    /// Its topic.
    pub topic: &'a str,
    /// What its send was answered with.
    pub handle: &'a str,
}

impl<'a> Recall<'a> {
    /// Reads a header.
    ///
    /// # Errors
    /// [`BadField`].
    pub fn read(request: &Request<'a>) -> Result<Self, BadField> {
        Ok(Self {
            group: request.field("producerGroup").unwrap_or_default(),
            topic: request.text("topic")?,
            handle: request.text("recallHandle")?,
        })
    }
}
