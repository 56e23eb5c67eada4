//! Marks: hashes of what names a message, by which a send that comes again is found. Data alone.

/// The hash of what names a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// One half; its lower bits choose the slot.
    pub low: u64,
    /// The other half.
    pub high: u64,
}

impl Mark {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    /// The part that a slot keeps.
    pub(crate) fn tag(self) -> u32 {
        self.low as u32
    }
}
