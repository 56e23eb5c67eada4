//! A slave's end of one connection: what has come is taken apart, looked at, appended and made as durable
//! as the settings promise; then it is reported. Over any connection: a socket, or a simulated one. Knows no
//! thread and no poll: whoever owns it gives it what it has read.
//!
//! Under a controller the log ends behind a whole record at any time, so that its store can lead: what has
//! come of a record is kept until the rest has.

use std::io::Write;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::Mutex;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{Store, WholeRecords};
use mqcore_replica::refill::FROM_START;
use mqcore_replica::{
    AutoSwitchSlaveLink, EpochEntry, Followed, Introduction, LinkFault, Received, RecordWalk,
    SlaveLink, Timing,
};

use crate::end_comparison::{EndComparison, Seen, compared_from};
use crate::epochs::Epochs;

/// Bytes of a record that are kept until it is whole: none that a recovery looks at is longer.
const HELD_LEN_MAX_BYTES: usize = 128 * 1024 * 1024;

/// A walk that goes on where the log of a store ends that has just been opened: behind a whole record.
#[must_use]
pub fn walk_of<D: Disk, C: Clock>(store: &Store<D, C>) -> RecordWalk {
    let replica = store.replica();
    RecordWalk::new(replica.appended(), replica.extent().file_len_bytes)
}

/// What a slave under a controller follows by.
pub struct Joining<D: Disk> {
    /// The epochs of its log.
    pub epochs: Arc<Epochs<D>>,
    /// How it introduces itself.
    pub who: Introduction,
}

impl<D: Disk> Clone for Joining<D> {
    fn clone(&self) -> Self {
        Self {
            epochs: Arc::clone(&self.epochs),
            who: self.who,
        }
    }
}

/// The link in either dialect.
enum Link<D: Disk> {
    Classic(SlaveLink),
    AutoSwitch {
        link: Box<AutoSwitchSlaveLink>,
        joining: Joining<D>,
        is_introduced: bool,
        /// What has come of a record that is not whole.
        held: Vec<u8>,
        /// The confirm offset that readers of the store were let see.
        confirmed: u64,
        /// First byte of the log when epochs were last looked at.
        log_start: u64,
    },
}

/// Follows a master over one connection.
pub struct Follower<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    link: Link<D>,
    /// Where the log is between two records; kept from one connection to the next.
    walk: Arc<Mutex<RecordWalk>>,
    /// End of what is held as durably as the settings promise.
    held: u64,
    comparison: EndComparison,
    cut_at: Option<u64>,
    /// Whether the master is to be asked for all of its log, before the first report.
    asks_early: bool,
}

/// Where the log goes on, and the pieces that come there.
struct Pieces<'a> {
    all: Vec<&'a [u8]>,
    /// The walk behind them.
    after: RecordWalk,
}

impl<D: Disk, C: Clock> Follower<D, C> {
    /// Follows over a connection that has just been made. `walk` is [`walk_of`] the store, or what the
    /// connection before it has left.
    #[must_use]
    pub fn new(store: Arc<Store<D, C>>, walk: Arc<Mutex<RecordWalk>>, timing: Timing) -> Self {
        let replica = store.replica();
        let (end, extent) = (replica.appended(), replica.extent());
        let from = compared_from(extent.start, end, extent.file_len_bytes);
        let link = SlaveLink::new(from, end == 0, timing, replica.elapsed_ms());
        Self {
            link: Link::Classic(link),
            store,
            walk,
            held: 0,
            comparison: EndComparison::new(from, end),
            cut_at: None,
            asks_early: false,
        }
    }

    /// Asks a master that gives whole files for all of its log, where ours holds nothing.
    #[must_use]
    pub fn from_start(mut self) -> Self {
        self.asks_early = self.store.replica().appended() == 0;
        self
    }

    /// Makes a learner of it, in classic replication; under a controller it introduces itself as one.
    #[must_use]
    pub fn learning(mut self) -> Self {
        if let Link::Classic(link) = &mut self.link {
            link.learn();
        }
        self
    }

    /// Follows under a controller, over a connection that has just been made.
    #[must_use]
    pub fn of_member(store: Arc<Store<D, C>>, joining: Joining<D>, timing: Timing) -> Self {
        let replica = store.replica();
        let end = replica.appended();
        let link = AutoSwitchSlaveLink::new(end, end == 0, timing, replica.elapsed_ms());
        Self {
            link: Link::AutoSwitch {
                link: Box::new(link),
                joining,
                is_introduced: false,
                held: Vec::new(),
                confirmed: replica.confirmed(),
                log_start: 0,
            },
            walk: Arc::new(Mutex::new(walk_of(&store))),
            store,
            held: 0,
            // The epochs are compared.
            comparison: EndComparison::new(0, 0),
            cut_at: None,
            asks_early: false,
        }
    }

    /// Makes durable what the first reports will name; to be called before anything else.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    ///
    /// # Blocking
    /// As [`Follower::came`].
    pub fn begin(&mut self) -> Result<(), String> {
        // The first report may name the end of the log: masters of others take it for an acknowledgement.
        if self.make_durable()? {
            Ok(())
        } else {
            Err("the sync of the log here takes too long".to_owned())
        }
    }

    /// Reports where something is due; how long one may wait for bytes before the next call, ms.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    ///
    /// # Blocking
    /// Until `out` has taken a frame of sixteen bytes.
    pub fn due(&mut self, out: &mut impl Write) -> Result<u64, String> {
        let is_compared = self.comparison.is_done();
        let (now_ms, held) = (self.now_ms(), if is_compared { self.held } else { 0 });
        let wrote = |written: std::io::Result<()>| written.map_err(|error| error.to_string());
        match &mut self.link {
            Link::Classic(link) => {
                link.check(now_ms).map_err(|fault| fault.to_string())?;
                if let Some(report) = link.report(held, now_ms) {
                    if std::mem::take(&mut self.asks_early) {
                        wrote(out.write_all(&FROM_START))?;
                    }
                    wrote(out.write_all(&report))?;
                }
                Ok(link.wait_ms(now_ms))
            }
            Link::AutoSwitch {
                link,
                joining,
                is_introduced,
                ..
            } => {
                link.check(now_ms).map_err(|fault| fault.to_string())?;
                if !*is_introduced {
                    // In one piece: an official master reads the id as soon as it has the rest.
                    wrote(out.write_all(&joining.who.to_bytes()))?;
                    *is_introduced = true;
                }
                if let Some(report) = link.report(held, now_ms) {
                    wrote(out.write_all(&report))?;
                }
                Ok(link.wait_ms(now_ms))
            }
        }
    }

    /// Takes what has come: appends what is log, and waits until it is as durable as promised.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    ///
    /// # Blocking
    /// As [`mqcore_engine::store::Replica::append`], and for the sync under synchronous flush.
    pub fn came(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (before, now_ms) = (self.seen(), self.now_ms());
        match &mut self.link {
            Link::Classic(link) => link.read(now_ms),
            Link::AutoSwitch { link, .. } => link.read(now_ms),
        }
        let taken = self.take(bytes);
        self.confirm()?;
        taken?;
        let (now, now_ms) = (self.seen(), self.now_ms());
        let looked = self.comparison.look(before, now, now_ms);
        looked.map_err(|fault| fault.to_string())?;
        // What is late is not reported: the next bytes wait for it again.
        self.make_durable().map(|_is_in_time| ())
    }

    /// Where the log must be cut before the master can be followed, after [`Follower::came`] has failed for
    /// that.
    #[must_use]
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// End of what the master has announced.
    #[must_use]
    pub fn announced(&self) -> u64 {
        match &self.link {
            Link::Classic(link) => link.announced(),
            Link::AutoSwitch { link, .. } => link.announced(),
        }
    }

    /// What was reported last.
    #[must_use]
    pub fn reported(&self) -> Option<u64> {
        match &self.link {
            Link::Classic(link) => link.reported(),
            Link::AutoSwitch { link, .. } => link.reported(),
        }
    }

    /// The time of links, ms.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.store.replica().elapsed_ms()
    }

    /// Appends what has come: the bodies of many frames at once, as far as they are of one file.
    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let walk = Arc::clone(&self.walk);
        let mut walk = walk.lock();
        let file_len_bytes = self.store.replica().extent().file_len_bytes;
        let mut pieces = Pieces {
            all: Vec::new(),
            after: walk.clone(),
        };
        loop {
            match self.next(&mut bytes) {
                Ok(Some(Followed::Log(Received::Bytes { offset, bytes }))) => {
                    let bytes = self.comparison.take(&self.store, offset, bytes)?;
                    if bytes.is_empty() {
                        continue;
                    }
                    if pieces.after.at().is_multiple_of(file_len_bytes) {
                        self.append(&mut pieces, &mut walk)?;
                    }
                    if let Err(fault) = pieces.after.take(bytes) {
                        self.append(&mut pieces, &mut walk)?;
                        return Err(fault.to_string());
                    }
                    pieces.all.push(bytes);
                }
                Ok(Some(Followed::Log(Received::Begin(offset)))) => {
                    let begun = self.store.replica().begin_at(offset);
                    begun.map_err(|error| error.to_string())?;
                    pieces.after = RecordWalk::new(offset, file_len_bytes);
                    *walk = pieces.after.clone();
                }
                Ok(Some(followed)) => {
                    self.append(&mut pieces, &mut walk)?;
                    self.note_epoch(&followed)?;
                }
                Ok(None) => return self.append(&mut pieces, &mut walk),
                Err(fault) => {
                    self.append(&mut pieces, &mut walk)?;
                    let fault = fault.at_log_from(self.store.replica().extent().start);
                    if let LinkFault::CutNeeded { offset, .. } = fault {
                        self.cut_at = Some(offset);
                    }
                    return Err(fault.to_string());
                }
            }
        }
    }

    /// What has come by now. Under a controller nobody looks at heartbeats: epochs are compared.
    fn seen(&self) -> Seen {
        Seen {
            came_to: self.comparison.came_to(),
            announced: self.announced(),
            heartbeats: match &self.link {
                Link::Classic(link) => link.heartbeats(),
                Link::AutoSwitch { .. } => 0,
            },
        }
    }

    /// The next of what has come.
    fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Followed<'a>>, LinkFault> {
        match &mut self.link {
            Link::Classic(link) => Ok(link.feed(bytes)?.map(Followed::Log)),
            Link::AutoSwitch { link, joining, .. } => link.feed(bytes, &joining.epochs.table()),
        }
    }

    /// Writes down an epoch before its bytes are appended, or forgets those that the master has not.
    fn note_epoch(&self, followed: &Followed<'_>) -> Result<(), String> {
        let Link::AutoSwitch { joining, .. } = &self.link else {
            return Ok(());
        };
        let noted = match followed {
            Followed::Agreed(Some(epoch)) => joining.epochs.forget_behind_epoch(*epoch),
            Followed::Epoch(entry) if entry.start > self.store.replica().appended() => {
                let EpochEntry { epoch, start } = entry;
                return Err(format!("epoch {epoch} begins at {start}, in a record"));
            }
            Followed::Epoch(entry) => joining.epochs.append(*entry),
            Followed::Agreed(None) | Followed::Log(_) => Ok(()),
        };
        noted.map_err(|error| error.to_string())
    }

    /// Appends what was looked at; under a controller as far as records are whole.
    fn append(&mut self, pieces: &mut Pieces<'_>, walk: &mut RecordWalk) -> Result<(), String> {
        if pieces.all.is_empty() {
            return Ok(());
        }
        let replica = self.store.replica();
        let (all, after) = (&pieces.all, &pieces.after);
        let whole_records = WholeRecords {
            end: after.whole_end(),
            store_ms: after.whole_ms(),
        };
        match &mut self.link {
            Link::Classic(_) => replica.append(walk.at(), all, whole_records),
            Link::AutoSwitch { held, .. } => {
                let end = replica.appended();
                let whole = usize::try_from(after.whole_end().saturating_sub(end));
                let (front, rest) = split(held, all, whole.unwrap_or(0));
                let appended = if front.is_empty() {
                    Ok(())
                } else {
                    replica.append(end, &front, whole_records)
                };
                *held = rest.concat();
                if held.len() > HELD_LEN_MAX_BYTES {
                    return Err(format!(
                        "the record at {} has more than {HELD_LEN_MAX_BYTES} bytes",
                        after.whole_end()
                    ));
                }
                appended
            }
        }
        .map_err(|error| error.to_string())?;
        pieces.all.clear();
        *walk = after.clone();
        Ok(())
    }

    /// Lets readers of a member see what its master has confirmed, as far as the log has come; forgets epochs
    /// whose files are gone.
    fn confirm(&mut self) -> Result<(), String> {
        let replica = self.store.replica();
        let Link::AutoSwitch {
            link,
            joining,
            confirmed,
            log_start,
            ..
        } = &mut self.link
        else {
            return Ok(());
        };
        let confirm = link.confirm().min(replica.appended());
        if confirm > *confirmed {
            *confirmed = confirm;
            replica.confirm(Some(confirm));
        }
        let start = replica.extent().start;
        if start > *log_start {
            *log_start = start;
            let forgotten = joining.epochs.forget_before(start);
            forgotten.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Waits until what was appended is as durable as the settings promise; whether it is in time.
    fn make_durable(&mut self) -> Result<bool, String> {
        let end = self.store.replica().appended();
        if end > self.held {
            let settled = self.store.durability().settle(end);
            if settled.map_err(|error| error.to_string())? != PutStatus::PutOk {
                return Ok(false);
            }
            self.held = end;
        }
        Ok(true)
    }
}

/// The first `len` bytes of `held` and what follows it, and the rest.
fn split<'a>(held: &'a [u8], pieces: &[&'a [u8]], len: usize) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
    let (mut front, mut rest) = (Vec::with_capacity(pieces.len() + 1), Vec::new());
    let mut left = len;
    for piece in std::iter::once(held).chain(pieces.iter().copied()) {
        let (one, other) = piece.split_at(left.min(piece.len()));
        left -= one.len();
        for (into, part) in [(&mut front, one), (&mut rest, other)] {
            if !part.is_empty() {
                into.push(part);
            }
        }
    }
    (front, rest)
}
