//! How much of its messages the answer to a pull brings: a field of ours, which official brokers pass
//! over, and the bodies of the answers that bring less than all.

use mqcore_engine::disk::Disk;
use mqcore_engine::store::{Got, RecordOffsets};
use mqcore_record::encode::{Limits, Message, Prepared};
use mqcore_record::{Host, RecordError, write_bodiless};

/// The field.
pub(crate) const FIELD: &str = "mqcoreBulk";
/// Who has sent or stored a message of which only the offsets are given.
const NOBODY: Host = Host::V4 {
    address: [0; 4],
    port: 0,
};

/// How much of its messages an answer brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// All, as many messages as official brokers give.
    #[default]
    Official,
    /// All, and as many messages as the client asks for.
    Bulk,
    /// As many, each without its body.
    Bodiless,
    /// As many, each as a record that has its topic, queue and offsets alone. A pull with a filter is
    /// answered as by [`Shape::Bodiless`].
    Offsets,
}

impl Shape {
    /// The shape that the field asks for.
    #[must_use]
    pub fn of(field: Option<&str>) -> Self {
        match field {
            Some("true") => Self::Bulk,
            Some("bodiless") => Self::Bodiless,
            Some("places") => Self::Offsets,
            _ => Self::Official,
        }
    }

    /// Whether the official limits of one answer do not count.
    #[must_use]
    pub const fn is_bulk(self) -> bool {
        !matches!(self, Self::Official)
    }

    /// Whether messages come without their bodies.
    #[must_use]
    pub const fn is_bodiless(self) -> bool {
        matches!(self, Self::Bodiless | Self::Offsets)
    }
}

/// The body of an answer without bodies of messages.
///
/// # Errors
/// No record has such a topic.
pub(crate) fn bodiless<D: Disk>(
    topic: &str,
    queue_id: i32,
    got: &Got<D>,
) -> Result<Vec<u8>, RecordError> {
    let mut out = Vec::new();
    if !got.offsets.is_empty() {
        write_offsets(topic, queue_id, &got.offsets, &mut out)?;
    }
    for record in &got.records {
        write_bodiless(record.as_bytes(), &mut out);
    }
    Ok(out)
}

/// Offsets that an answer of so many bytes holds at the most; it always holds one.
pub(crate) fn offsets_max(topic: &str, bytes_max: u64) -> usize {
    let offset_bytes = bare(topic, 0).map_or(1, |record| record.total_len() as u64);
    usize::try_from(bytes_max / offset_bytes).map_or(usize::MAX, |count| count.max(1))
}

fn write_offsets(
    topic: &str,
    queue_id: i32,
    offsets: &[RecordOffsets],
    out: &mut Vec<u8>,
) -> Result<(), RecordError> {
    let mut record = bare(topic, queue_id)?;
    let len = record.total_len();
    out.resize(len * offsets.len(), 0);
    for (at, bytes) in offsets.iter().zip(out.chunks_exact_mut(len)) {
        let queue_offset = at.queue_offset.cast_signed();
        record.stamp(queue_offset, at.physical_offset.cast_signed(), 0);
        record.write_to(bytes);
    }
    Ok(())
}

/// A record that has nothing but its topic and queue.
fn bare(topic: &str, queue_id: i32) -> Result<Prepared<'_>, RecordError> {
    let message = Message::of(topic, queue_id, &[], NOBODY);
    Prepared::new(&message, &Limits { body_len_max: 0 })
}
