//! Reading by key and time (`DefaultMessageStore.queryMessage`). Knows no queue.

use std::sync::Arc;

use mqcore_record::CrcCheck;

use super::answers::Queried;
use crate::clock::Clock;
use crate::commit_log::LogRecords;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::key_index::KeyIndex;

/// How often a query by key goes further back when it found nothing (`queryMessage`).
const QUERY_ROUNDS: usize = 3;

/// Finds records by key.
pub struct KeyReader<D: Disk, C: Clock> {
    records: Arc<LogRecords<D>>,
    /// `None` where it is switched off.
    index: Option<Arc<KeyIndex<D, C>>>,
}

impl<D: Disk, C: Clock> KeyReader<D, C> {
    pub(super) fn new(records: &Arc<LogRecords<D>>, index: Option<&Arc<KeyIndex<D, C>>>) -> Self {
        Self {
            records: Arc::clone(records),
            index: index.map(Arc::clone),
        }
    }

    /// Records by key and time range, at most `max` of the newest.
    ///
    /// # Errors
    /// [`Error::Io`].
    ///
    /// # Blocking
    /// Reads the index and the records.
    pub fn query(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin_ms: i64,
        end_ms: i64,
    ) -> Result<Queried<D>> {
        let mut out = Queried {
            records: Vec::new(),
            index_last_update_ms: 0,
            index_last_update_offset: 0,
        };
        let Some(index) = &self.index else {
            return Ok(out);
        };
        let mut end_ms = end_ms;
        for _ in 0..QUERY_ROUNDS {
            let answer = index.query(topic, key, max, begin_ms, end_ms)?;
            out.index_last_update_ms = answer.last_update_timestamp_ms;
            out.index_last_update_offset = answer.last_update_physical_offset;
            let mut physical_offsets = answer.physical_offsets;
            physical_offsets.sort_unstable();
            physical_offsets.dedup();
            for physical_offset in physical_offsets {
                match self.records.record_at(physical_offset) {
                    Ok(record) => {
                        if out.records.is_empty() {
                            end_ms = record.view(CrcCheck::Skip)?.store_timestamp_ms;
                        }
                        out.records.push(record);
                    }
                    // Gone by retention, or not readable yet.
                    Err(Error::NoRecord { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            if !out.records.is_empty() || end_ms < begin_ms {
                break;
            }
        }
        Ok(out)
    }
}
