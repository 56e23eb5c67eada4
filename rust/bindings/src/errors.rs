//! Errors of engine and wire to Python exceptions, one to one and without a wildcard: a new error
//! does not build until it has a class. The classes stand in `mqcore.native.errors` and
//! `mqcore.native.wire_errors`.

use mqcore_access::Refusal;
use mqcore_engine::error::Error;
use mqcore_engine::relaxed_json::JsonError;
use mqcore_engine::status::PutStatus;
use mqcore_packing::RowError;
use mqcore_record::RecordError;
use mqcore_wire::WireError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The module of the store's exception classes.
const OF_STORE: &str = "mqcore.native.errors";
/// The module of the exception class of requests that are refused.
const OF_REFUSALS: &str = "mqcore.native.refused";
/// The module of the exception classes of bytes that a peer sent.
const OF_WIRE: &str = "mqcore.native.wire_errors";

/// A fact of an error: an attribute of its exception.
enum Fact {
    Text(String),
    Number(i64),
    Truth(bool),
}

type Facts = Vec<(&'static str, Fact)>;

fn text(value: impl ToString) -> Fact {
    Fact::Text(value.to_string())
}

fn number<T>(value: T) -> Fact
where
    i64: TryFrom<T>,
{
    Fact::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The exception for an engine error.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    raised_after(py, error, 0)
}

/// The exception for an engine error of a call that stored `stored` messages before it.
pub(crate) fn raised_after(py: Python<'_>, error: &Error, stored: usize) -> PyErr {
    let (class, mut facts) = match error {
        Error::Message(record) => of_record(record),
        other => of_store(other),
    };
    facts.push(("status", text(PutStatus::of(error).name())));
    if stored > 0 {
        facts.push(("stored", number(stored)));
    }
    made(py, OF_STORE, class, &error.to_string(), facts)
}

/// The exception for bytes of a peer, or for a command that cannot be written.
pub(crate) fn of_bytes(py: Python<'_>, error: &WireError) -> PyErr {
    let (class, facts) = of_wire(error);
    made(py, OF_WIRE, class, &error.to_string(), facts)
}

/// The exception for a request that access control refuses.
pub(crate) fn refused(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let facts = vec![("code", number(refusal.reason.code()))];
    made(py, OF_REFUSALS, "RefusedError", &refusal.to_string(), facts)
}

/// The exception for a row that cannot be sent.
pub(crate) fn of_row(py: Python<'_>, error: &RowError) -> PyErr {
    let facts = vec![("row", number(error.row)), ("why", text(&error.fault))];
    made(py, OF_WIRE, "RowError", &error.to_string(), facts)
}

/// The exception for a text that is no JSON of RocketMQ.
pub(crate) fn of_json(py: Python<'_>, error: &JsonError) -> PyErr {
    let facts = vec![
        ("position", number(error.position)),
        ("line", number(error.line)),
        ("column", number(error.column)),
        ("why", text(&error.why)),
    ];
    made(py, OF_WIRE, "JsonTextError", &error.to_string(), facts)
}

fn made(py: Python<'_>, module: &str, class: &str, message: &str, facts: Facts) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let kwargs = PyDict::new(py);
        for (name, fact) in facts {
            match fact {
                Fact::Text(value) => kwargs.set_item(name, value)?,
                Fact::Number(value) => kwargs.set_item(name, value)?,
                Fact::Truth(value) => kwargs.set_item(name, value)?,
            }
        }
        let class = py.import(module)?.getattr(class)?;
        Ok(PyErr::from_value(class.call((message,), Some(&kwargs))?))
    };
    // Without its own classes the extension still reports what failed.
    make().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}

#[expect(clippy::too_many_lines, reason = "one arm per error, and no wildcard")]
fn of_store(error: &Error) -> (&'static str, Facts) {
    match error {
        Error::Io {
            action,
            path,
            errno,
            message: _,
        } => (
            "StoreIOError",
            vec![
                ("action", text(action)),
                ("path", text(path.display())),
                ("errno", number(*errno)),
                ("is_no_space", Fact::Truth(error.is_no_space())),
            ],
        ),
        Error::Locked { path } => ("StoreLockedError", vec![("path", text(path.display()))]),
        Error::Config { key, value, why } => (
            "SettingError",
            vec![
                ("key", text(key)),
                ("value", text(value)),
                ("why", text(why)),
            ],
        ),
        Error::WrongFileSize {
            path,
            len_bytes,
            expected_bytes,
            key,
        } => (
            "FileSizeError",
            vec![
                ("path", text(path.display())),
                ("len_bytes", number(*len_bytes)),
                ("expected_bytes", number(*expected_bytes)),
                ("key", text(key)),
            ],
        ),
        Error::ForeignFile { path, why } => (
            "ForeignFileError",
            vec![("path", text(path.display())), ("why", text(why))],
        ),
        Error::Damaged {
            store,
            path,
            position,
            physical_offset,
            why,
            whole_records,
        } => (
            "DamagedError",
            vec![
                ("path", text(path.display())),
                ("position", number(*position)),
                ("physical_offset", number(*physical_offset)),
                ("why", text(why)),
                ("whole_records", number(*whole_records)),
                ("store", text(store.display())),
            ],
        ),
        Error::Poisoned { reason } => ("PoisonedError", vec![("why", text(reason))]),
        Error::NotWritable { reason } => ("NotWritableError", vec![("why", text(reason))]),
        Error::Closed => ("StoreClosedError", vec![]),
        Error::Forked { opener } => ("ForkedError", vec![("opener", number(*opener))]),
        Error::Message(record) => of_record(record),
        Error::NoSegment { reason } => ("NoSegmentError", vec![("why", text(reason))]),
        Error::PageCacheBusy { held_ms } => {
            ("PageCacheBusyError", vec![("held_ms", number(*held_ms))])
        }
        Error::Timeout { what, waited_ms } => (
            "StoreTimeoutError",
            vec![("what", text(what)), ("waited_ms", number(*waited_ms))],
        ),
        Error::NoRecord {
            physical_offset,
            why,
        } => (
            "NoRecordError",
            vec![
                ("physical_offset", number(*physical_offset)),
                ("why", text(why)),
            ],
        ),
        Error::Limit { what, limit } => (
            "LimitError",
            vec![("what", text(what)), ("limit", number(*limit))],
        ),
        Error::BadText { path, why } => (
            "BadTextError",
            vec![("path", text(path.display())), ("why", text(why))],
        ),
    }
}

fn of_record(error: &RecordError) -> (&'static str, Facts) {
    match error {
        RecordError::Truncated { need, have } => (
            "TruncatedRecordError",
            vec![("need_bytes", number(*need)), ("have_bytes", number(*have))],
        ),
        RecordError::BadMagic { magic } => ("BadMagicError", vec![("magic", number(*magic))]),
        RecordError::CrcMismatch { stored, computed } => (
            "CrcMismatchError",
            vec![
                ("stored_crc", number(*stored)),
                ("computed_crc", number(*computed)),
            ],
        ),
        RecordError::LengthMismatch { stored, computed } => (
            "LengthMismatchError",
            vec![
                ("stored_bytes", number(*stored)),
                ("computed_bytes", number(*computed)),
            ],
        ),
        RecordError::NegativeLength { field, len } => (
            "NegativeLengthError",
            vec![("field", text(field)), ("len_bytes", number(*len))],
        ),
        RecordError::BlankTooShort { len } => {
            ("BlankTooShortError", vec![("len_bytes", number(*len))])
        }
        RecordError::BodyTooLarge { len, max } => (
            "BodyTooLargeError",
            vec![("len_bytes", number(*len)), ("max_bytes", number(*max))],
        ),
        RecordError::PropertiesTooLong { len } => {
            ("PropertiesTooLongError", vec![("len_bytes", number(*len))])
        }
        RecordError::TopicTooLong { len, max } => (
            "TopicTooLongError",
            vec![("len_bytes", number(*len)), ("max_bytes", number(*max))],
        ),
        RecordError::TopicEmpty => ("TopicEmptyError", vec![]),
        RecordError::TopicIllegal { at, byte } => (
            "TopicIllegalError",
            vec![("at", number(*at)), ("byte", number(*byte))],
        ),
        RecordError::IllegalProperty { name, fault } => (
            "IllegalPropertyError",
            vec![("name", text(name)), ("fault", text(fault))],
        ),
        RecordError::RecordTooLarge { len, max } => (
            "RecordTooLargeError",
            vec![("len_bytes", number(*len)), ("max_bytes", number(*max))],
        ),
        RecordError::BadBatch {
            position,
            field,
            len,
            have,
        } => (
            "BadBatchError",
            vec![
                ("position", number(*position)),
                ("field", text(field)),
                ("len_bytes", number(*len)),
                ("have_bytes", number(*have)),
            ],
        ),
        RecordError::CrcPropertyMissing => ("CrcPropertyMissingError", vec![]),
        RecordError::BadOffsetId { text: shown } => {
            ("BadOffsetIdError", vec![("text", text(shown))])
        }
    }
}

fn of_wire(error: &WireError) -> (&'static str, Facts) {
    match error {
        WireError::FrameTooLarge { len, max } => (
            "FrameTooLargeError",
            vec![("len_bytes", number(*len)), ("max_bytes", number(*max))],
        ),
        WireError::FrameLength { len } => ("FrameLengthError", vec![("len_bytes", number(*len))]),
        WireError::HeaderLength { len, have } => (
            "HeaderLengthError",
            vec![("len_bytes", number(*len)), ("have_bytes", number(*have))],
        ),
        WireError::UnknownSerialization { kind } => {
            ("UnknownSerializationError", vec![("kind", number(*kind))])
        }
        WireError::BadJson { why, line, column } => (
            "JsonHeaderError",
            vec![
                ("why", text(why)),
                ("line", number(*line)),
                ("column", number(*column)),
            ],
        ),
        WireError::BadBinary { part, need, have } => (
            "BinaryHeaderError",
            vec![
                ("part", text(part)),
                ("need_bytes", number(*need)),
                ("have_bytes", number(*have)),
            ],
        ),
        WireError::NotUtf8 { part } => ("HeaderTextError", vec![("part", text(part))]),
        WireError::TooManyFields { max } => {
            ("TooManyFieldsError", vec![("max_fields", number(*max))])
        }
        WireError::TooLong { part, len, max } => (
            "CommandTooLongError",
            vec![
                ("part", text(part)),
                ("len_bytes", number(*len)),
                ("max_bytes", number(*max)),
            ],
        ),
        WireError::CodeTooLarge { code } => ("CodeTooLargeError", vec![("code", number(*code))]),
        WireError::UnknownCompression { kind } => (
            "CompressionError",
            vec![
                ("compression", Fact::Text(format!("type {kind}"))),
                ("why", text("no release knows it")),
            ],
        ),
        WireError::BadCompression { kind, why } => (
            "CompressionError",
            vec![("compression", text(kind)), ("why", text(why))],
        ),
        WireError::InflatedTooLarge { kind, max } => (
            "CompressionError",
            vec![
                ("compression", text(kind)),
                ("why", Fact::Text(format!("more than {max} bytes"))),
            ],
        ),
    }
}
