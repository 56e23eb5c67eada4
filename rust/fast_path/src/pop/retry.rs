//! A message that comes again: stored in the retry topic of its group
//! (`PopReviveService.reviveRetry`). Knows no check point.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::error::{Error, Result};
use mqcore_engine::store::Store;
use mqcore_record::batch::{items, join_properties};
use mqcore_record::properties::{INNER_BASE, INNER_NUM, UNIQ_KEY, lookup};
use mqcore_record::sys_flag::{INNER_BATCH, NEED_UNWRAP};
use mqcore_record::{Host, Message, RecordView};

use super::revived::Revived;
use crate::moved::moved;
use crate::pop_run::names::RETRY_QUEUE;
use crate::properties;

/// When a message was popped first (`PROPERTY_FIRST_POP_TIME`).
const FIRST_POP_TIME: &str = "1ST_POP_TIME";
/// Properties of a batch that none of its messages has.
const OF_A_BATCH: [&str; 3] = [INNER_BASE, INNER_NUM, UNIQ_KEY];

/// Where messages of a check point are stored for another try.
pub(super) struct Retry<'a> {
    pub(super) topic: &'a str,
    pub(super) store_host: Host,
    pub(super) pop_time_ms: i64,
}

impl Retry<'_> {
    /// Stores a message (`reviveRetry`). A batch that is one record is taken apart: retry topics have
    /// plain queues, where the official broker cannot store it at all.
    pub(super) fn put<D: Disk, C: Clock>(
        &self,
        store: &Store<D, C>,
        view: &RecordView<'_>,
        done: &mut Revived,
    ) -> Result<()> {
        let first = self.pop_time_ms.to_string();
        let was_never = lookup(view.properties, FIRST_POP_TIME).is_none();
        let adds = [(FIRST_POP_TIME, first.as_bytes())];
        let adds = if view.reconsume_times == 0 || was_never {
            &adds[..]
        } else {
            &[]
        };
        let mut text = Vec::new();
        if view.sys_flag & INNER_BATCH == 0 {
            properties::rewrite(view.properties, &[], adds, &mut text);
            let message = moved(view, self.topic, RETRY_QUEUE, &text);
            return self.append(store, message, done);
        }
        properties::rewrite(view.properties, &OF_A_BATCH, adds, &mut text);
        let mut own = Vec::new();
        for item in items(view.body) {
            let Ok(item) = item else {
                done.skipped += 1;
                break;
            };
            if join_properties(item.properties, &text, &mut own).is_err() {
                done.skipped += 1;
                continue;
            }
            let message = Message {
                flag: item.flag,
                sys_flag: view.sys_flag & !(INNER_BATCH | NEED_UNWRAP),
                body: item.body,
                ..moved(view, self.topic, RETRY_QUEUE, &own)
            };
            self.append(store, message, done)?;
        }
        Ok(())
    }

    fn append<D: Disk, C: Clock>(
        &self,
        store: &Store<D, C>,
        message: Message<'_>,
        done: &mut Revived,
    ) -> Result<()> {
        let appended = store.writer().append(&Message {
            born_host: self.store_host,
            store_host: self.store_host,
            reconsume_times: message.reconsume_times.saturating_add(1),
            ..message
        });
        match appended {
            Ok(appended) => {
                done.end = appended.end();
                done.revived += 1;
                Ok(())
            }
            // It fits no record any more, or its topic has no name: it would block the queue
            // for ever.
            Err(Error::Message(_)) => {
                done.skipped += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
