//! A half message that was given up waits for its end again
//! (`AdminBrokerProcessor.resumeCheckHalfMessage`).
//!
//! Only what was given up: a half message that is still asked about would be there twice then, and
//! be delivered twice. The official broker takes any message.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::Store;
use mqcore_record::CrcCheck;

use super::half;
use crate::half_counts::Counts;
use crate::names::CHECK_MAX_TIME_TOPIC;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// It is stored as a half message anew.
    Stored {
        /// End of its record in the log.
        end: u64,
    },
    /// No message begins there, or its properties leave no space for one more.
    Unfit,
    /// The message there was not given up: it is of this topic.
    NotGivenUp(String),
}

/// Stores the message at a place of the log as a half message that nobody was asked about yet, and
/// counts it as one that waits.
///
/// # Durability
/// That of an append.
///
/// # Errors
/// It could not be read or stored.
///
/// # Blocking
/// For the disk, where the message is cold.
pub fn resume<D: Disk, C: Clock>(
    store: &Store<D, C>,
    counts: &Counts,
    physical_offset: u64,
) -> Result<Resumed> {
    let record = match store.reader().record_at(physical_offset) {
        Ok(record) => record,
        Err(Error::NoRecord { .. }) => return Ok(Resumed::Unfit),
        Err(error) => return Err(error),
    };
    let view = record.view(CrcCheck::Verify)?;
    let topic = String::from_utf8_lossy(view.topic).into_owned();
    if topic != CHECK_MAX_TIME_TOPIC {
        return Ok(Resumed::NotGivenUp(topic));
    }
    let target = half::meant_for(&view).map(|(topic, _queue_id)| topic.to_owned());
    let Some(meant_for) = target.filter(|_| half::has_space_to_renew(&view)) else {
        return Ok(Resumed::Unfit);
    };
    let mut text = Vec::new();
    half::resumed_properties(&view, &mut text);
    let appended = store.writer().append(&half::resumed(&view, &text))?;
    counts.change(&meant_for, |count| count.waiting += 1);
    Ok(Resumed::Stored {
        end: appended.end(),
    })
}
