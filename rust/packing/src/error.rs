//! What can be wrong with a row, and with the columns that it is in.

use arrow_schema::DataType;
use mqcore_record::RecordError;
use mqcore_wire::WireError;
use thiserror::Error;

/// A column that rows do not have, or not of this type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("column {name} cannot be packed: it is {found}")]
pub struct ColumnFault {
    /// The column.
    pub name: String,
    /// Its type.
    pub found: DataType,
}

/// Why a row cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RowFault {
    /// Neither the row nor an option names a topic.
    #[error("its topic is null")]
    NoTopic,
    /// A topic that was not registered before.
    #[error("nobody looked up its topic {topic:?}")]
    UnknownTopic {
        /// The name.
        topic: String,
    },
    /// The body is null.
    #[error("its body is null")]
    NoBody,
    /// The body has no byte: no client sends such a message.
    #[error("its body is empty")]
    EmptyBody,
    /// The body is longer than a message may be.
    #[error("its body has {len} bytes, of {max} that a message may have")]
    BodyTooLarge {
        /// Its length.
        len: usize,
        /// The bound.
        max: usize,
    },
    /// Tags, keys and properties are longer than a record can hold.
    #[error("its tags, keys and properties have {len} bytes together, of {max} that fit")]
    PropertiesTooLong {
        /// Their length.
        len: usize,
        /// The bound.
        max: usize,
    },
    /// A name or a value that a record cannot carry.
    #[error("property {name:?}: {why}")]
    BadProperty {
        /// The name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The topic has no such queue.
    #[error("topic {topic} has no queue {queue} to write")]
    NoQueue {
        /// The topic.
        topic: String,
        /// The queue, with its broker where the row names one.
        queue: String,
    },
    /// A level of delay below zero.
    #[error("its delay level is {level}")]
    BadDelay {
        /// The level.
        level: i64,
    },
    /// A level of delay and a time of delivery.
    #[error("it has a delay level and a time of delivery: one of them may be given")]
    TwoDelays,
    /// The body could not be made small.
    #[error("its body: {0}")]
    Compression(WireError),
    /// The record could not be written.
    #[error("{0}")]
    Record(RecordError),
}

/// A row that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("row {row}: {fault}")]
pub struct RowError {
    /// Its number among all rows of the packer, from 0.
    pub row: u64,
    /// Why.
    pub fault: RowFault,
}
