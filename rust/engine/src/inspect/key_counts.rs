//! How many keys the index must have, counted while records are walked.

use std::path::PathBuf;

use mqcore_record::{RecordView, Transaction, Wanted};

use crate::key_index::IndexHeader;

/// Keys of the records that the index ranges over, and of those behind it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyCounts {
    pub(super) range: Option<(u64, u64)>,
    pub(super) in_range: u64,
    pub(super) behind: u64,
}

impl KeyCounts {
    /// Counts for the files of a store: what they range over is in their headers.
    pub(super) fn of(headers: &[(PathBuf, IndexHeader)]) -> Self {
        let mut range: Option<(u64, u64)> = None;
        for (_, header) in headers {
            if header.next_number <= 1 {
                continue;
            }
            let begin = header.begin_physical_offset.cast_unsigned();
            let end = header.end_physical_offset.cast_unsigned();
            let (first, last) = range.unwrap_or((begin, end));
            range = Some((first.min(begin), last.max(end)));
        }
        Self {
            range,
            in_range: 0,
            behind: 0,
        }
    }

    /// Counts the keys of a record.
    pub(super) fn add(
        &mut self,
        record: &RecordView<'_>,
        wanted: &Wanted<'_>,
        physical_offset: u64,
    ) {
        let Some((first, last)) = self.range else {
            return;
        };
        if record.transaction() == Transaction::Rollback {
            return;
        }
        let keys = wanted.keys.unwrap_or_default().split(|byte| *byte == b' ');
        let count = keys.filter(|key| !key.is_empty()).count() as u64
            + u64::from(wanted.uniq_key.is_some());
        if physical_offset > last {
            self.behind += count;
        } else if physical_offset >= first {
            self.in_range += count;
        }
    }
}
