//! What the lane does about a send that may be a repeat: compares it with the first, answers it
//! with the first's place, or lets it go on.

use mqcore_engine::clock::Clock;
use mqcore_engine::commit_log::Appended;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_record::batch::items;

use super::identity::Identity;
use super::window::Mark;
use super::{Claim, Doubt, First, Looked, Patience, Repeats, look};
use crate::asker::{Asker, ConnectionId};
use crate::codes;
use crate::inner_batch::is_inner_batch;
use crate::lane::{How, Lane, Outcome};
use crate::parked::{Kind, Stored};
use crate::properties::{self, Seen};
use crate::readers::Job;
use crate::recall::handle_of;
use crate::requests::{Request, Send};

/// Bytes of sends whose firsts are read from the disk at the most: as many as may wait for the next
/// log file.
const LOOKING_BYTES_MAX: usize = 64 << 20;

impl<D: Disk, C: Clock> Lane<D, C> {
    /// Remembers sends from now on; `None` does not, and forgets.
    pub fn remember(&mut self, repeats: Option<Repeats>) {
        self.repeats = repeats;
    }

    /// The mark of a single message; `None` when it does not count, or nothing is remembered.
    pub(crate) fn mark_of(&self, send: &Send<'_>, seen: &Seen<'_>) -> Option<Mark> {
        let repeats = self.repeats.as_ref()?;
        let identity = Identity::of_send(send.topic, seen, send.properties.as_bytes())?;
        Some(repeats.mark(&identity))
    }

    /// The mark of the first message of a batch.
    pub(crate) fn mark_of_batch(&self, request: &Request<'_>, send: &Send<'_>) -> Option<Mark> {
        let repeats = self.repeats.as_ref()?;
        let first = items(request.body).next()?.ok()?;
        let identity = Identity::of_part(send.topic, first.properties)?;
        Some(repeats.mark(&identity))
    }

    /// Answers a send with the place of the same one that came before; `None` when there is none,
    /// so that it is to be stored.
    pub(crate) fn answer_repeat(
        &mut self,
        mark: Option<Mark>,
        request: &Request<'_>,
        send: &Send<'_>,
        seen: &Seen<'_>,
    ) -> Option<Outcome> {
        let mark = mark?;
        let repeats = self.repeats.as_mut()?;
        let now_ms = self.store.wall_ms();
        let place = repeats.window.find(mark, now_ms)?;
        let claims = claims(&self.store, request, send, seen);
        match look(&self.store, place, &claims, Patience::None) {
            Looked::Same(first) => {
                self.answer_first(request.asker, first, send, seen);
                Some(Outcome::Done)
            }
            Looked::Other => {
                repeats.told_apart += 1;
                None
            }
            Looked::Cold => Some(Outcome::Doubt(mark, place)),
        }
    }

    fn answer_first(&mut self, asker: Asker, first: First, send: &Send<'_>, seen: &Seen<'_>) {
        if let Some(repeats) = &mut self.repeats {
            repeats.answered += 1;
        }
        let key = seen.uniq_key.and_then(|key| std::str::from_utf8(key).ok());
        let name = &self.policy.broker.name;
        let recall = first.slot_ms.zip(key);
        let recall = recall.map(|(slot_ms, key)| handle_of(send.topic, name, slot_ms, key));
        let batch_key = key.filter(|_| is_inner_batch(&self.store, send, seen));
        let stored = Stored {
            asker,
            kind: Kind::Send,
            queue_id: first.queue_id,
            queue_offset: first.queue_offset,
            physical_offset: first.physical_offset,
            others: first.others,
            recall: recall.map(String::into_boxed_str),
            batch_key: batch_key.map(Box::from),
        };
        // As durable as the first was promised to be: both wait for the same watermark.
        self.settle(stored, first.end, seen.waits);
    }

    /// Notes that a message was stored.
    pub(crate) fn note_stored(&mut self, mark: Option<Mark>, place: &Appended) {
        if let (Some(repeats), Some(mark)) = (&mut self.repeats, mark) {
            let now_ms = self.store.wall_ms();
            repeats.window.insert(mark, place.physical_offset, now_ms);
        }
    }

    /// Notes that the messages of a batch were stored.
    pub(crate) fn note_batch(&mut self, request: &Request<'_>, topic: &str, places: &[Appended]) {
        let Some(repeats) = &mut self.repeats else {
            return;
        };
        let now_ms = self.store.wall_ms();
        for (item, place) in items(request.body).zip(places) {
            let identity = item.ok().map(|item| item.properties);
            if let Some(identity) = identity.and_then(|text| Identity::of_part(topic, text)) {
                let mark = repeats.mark(&identity);
                repeats.window.insert(mark, place.physical_offset, now_ms);
            }
        }
    }

    /// Has the first of a send read from the disk.
    pub(crate) fn have_read(&mut self, doubt: Doubt, bytes: usize) {
        let asker = Request::of_command(doubt.connection, &doubt.command).asker;
        let is_taken = match &mut self.repeats {
            Some(repeats) if repeats.looking_bytes + bytes <= LOOKING_BYTES_MAX => {
                repeats.looking_bytes += bytes;
                let is_taken = self.readers.submit(Job::First(Box::new(doubt), bytes));
                if !is_taken {
                    repeats.looking_bytes -= bytes;
                }
                is_taken
            }
            _ => false,
        };
        if !is_taken {
            self.refuse_send(&asker, codes::SYSTEM_BUSY, codes::OVERLOAD);
        }
    }

    /// Goes on with a send whose first was read: answers it, or gives back what is to be executed.
    pub(crate) fn first_read(
        &mut self,
        doubt: Doubt,
        bytes: usize,
        looked: Looked,
    ) -> Option<Doubt> {
        if let Some(repeats) = &mut self.repeats {
            repeats.looking_bytes = repeats.looking_bytes.saturating_sub(bytes);
        }
        // Nobody waits any more; its client sends again where it wants to.
        self.desk.connection(doubt.connection)?;
        let request = Request::of_command(doubt.connection, &doubt.command);
        if let Looked::Same(first) = looked
            && let Some(send) = read_again(&request)
        {
            let seen = properties::see(send.properties.as_bytes());
            self.answer_first(request.asker, first, &send, &seen);
            return None;
        }
        if let Some(repeats) = &mut self.repeats {
            repeats.told_apart += 1;
            if repeats.window.find(doubt.mark, i64::MIN) == Some(doubt.place) {
                repeats.window.forget(doubt.mark);
            }
        }
        Some(doubt)
    }
}

/// Compares a send with what the disk has; for the threads that may wait for it.
pub(crate) fn look_patiently<D: Disk, C: Clock>(store: &Store<D, C>, doubt: &Doubt) -> Looked {
    let request = Request::of_command(ConnectionId(0), &doubt.command);
    let Some(send) = read_again(&request) else {
        return Looked::Other;
    };
    let seen = properties::see(send.properties.as_bytes());
    let claims = claims(store, &request, &send, &seen);
    look(store, doubt.place, &claims, Patience::Disk)
}

/// The fields of a send that were read once without a fault.
fn read_again<'a>(request: &Request<'a>) -> Option<Send<'a>> {
    Send::read(request, request.code != codes::SEND_MESSAGE).ok()
}

/// What is compared of a send; nothing where a part of a batch has no name.
fn claims<'a, D: Disk, C: Clock>(
    store: &Store<D, C>,
    request: &Request<'a>,
    send: &Send<'a>,
    seen: &Seen<'a>,
) -> Vec<Claim<'a>> {
    if !send.is_batch || is_inner_batch(store, send, seen) {
        let identity = Identity::of_send(send.topic, seen, send.properties.as_bytes());
        let body = request.body;
        return identity
            .map(|identity| Claim { identity, body })
            .into_iter()
            .collect();
    }
    let parts = items(request.body).map(|item| {
        let item = item.ok()?;
        let identity = Identity::of_part(send.topic, item.properties)?;
        let body = item.body;
        Some(Claim { identity, body })
    });
    parts.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// What a send in doubt does next.
impl Doubt {
    pub(crate) fn new(
        connection: ConnectionId,
        command: mqcore_wire::Command,
        how: How,
        (mark, place): (Mark, u64),
    ) -> Self {
        Self {
            connection,
            command,
            how,
            mark,
            place,
        }
    }
}
