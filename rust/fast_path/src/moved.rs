//! A message that is stored again at another offset: what waited for its level, its time, the end
//! of its transaction or an acknowledgement; or that is given back as if it were there.

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::RecordBytes;
use mqcore_engine::consume_queue::Unit;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::Store;
use mqcore_record::encode::{Limits, Prepared};
use mqcore_record::{Message, RecordView};

/// The same message under another topic and queue, with these properties.
pub(crate) fn moved<'a>(
    view: &RecordView<'a>,
    topic: &'a str,
    queue_id: i32,
    properties: &'a [u8],
) -> Message<'a> {
    Message {
        topic,
        queue_id,
        flag: view.flag,
        sys_flag: view.sys_flag,
        born_timestamp_ms: view.born_timestamp_ms,
        born_host: view.born_host,
        store_host: view.store_host,
        reconsume_times: view.reconsume_times,
        prepared_transaction_offset: 0,
        body: view.body,
        properties,
        version: None,
    }
}

/// The record of a message that was stored at a queue offset and a physical offset; `None` when it
/// cannot be one, which only its topic can bring about where the parts are those of a record.
pub(crate) fn record_at(
    message: &Message<'_>,
    (queue_offset, physical_offset): (i64, i64),
    store_timestamp_ms: i64,
) -> Option<Vec<u8>> {
    let limits = Limits {
        body_len_max: message.body.len(),
    };
    let mut prepared = Prepared::new(message, &limits).ok()?;
    prepared.stamp(queue_offset, physical_offset, store_timestamp_ms);
    let mut record = vec![0; prepared.total_len()];
    prepared.write_to(&mut record);
    Some(record)
}

/// The record of a unit; `None` when it is not there any more.
pub(crate) fn record_of<D: Disk, C: Clock>(
    store: &Store<D, C>,
    unit: &Unit,
) -> Result<Option<RecordBytes<D>>> {
    if unit.is_blank() {
        return Ok(None);
    }
    match store
        .reader()
        .record_at(unit.physical_offset.cast_unsigned())
    {
        Ok(record) => Ok(Some(record)),
        Err(Error::NoRecord { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
