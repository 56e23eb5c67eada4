//! A slave's end of one connection: what has come is taken apart, looked at, appended and made as durable
//! as the settings promise; then it is reported. Over any connection: a socket, or a simulated one. Knows no
//! thread and no poll: whoever owns it gives it what it has read.

use std::io::Write;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::lock::Mutex;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{Store, WholeRecords};
use mqcore_replica::{LinkFault, Received, RecordWalk, SlaveLink, Timing};

/// A walk that goes on where the log of a store ends that has just been opened: behind a whole record.
#[must_use]
pub fn walk_of<D: Disk, C: Clock>(store: &Store<D, C>) -> RecordWalk {
    let replica = store.replica();
    RecordWalk::new(replica.appended(), replica.extent().file_len_bytes)
}

/// Bytes at the end of our log that a master sends once more when a connection is made: where its log has
/// lost its end, and has grown beyond ours since, they differ, as each record has its time. A master asks for
/// no proof, and official slaves give none: their logs and their master's differ from there on in silence.
const COMPARED_BYTES: u64 = 64 * 1024;

/// With fewer bytes of a file those of the file before it are compared, too: these hold the time of a record.
const COMPARED_MIN_BYTES: u64 = 256;

/// A master that has something to send sends some of it within so long: two seconds of its flow control.
const ENDS_BEFORE_MS: u64 = 2_000;

/// Where the master is to begin, for a log from `start` to `end`. In the last file where that has enough:
/// the master may have removed the one before it.
fn compared_from(start: u64, end: u64, file_len_bytes: u64) -> u64 {
    let in_file = end % file_len_bytes;
    let from = if in_file < COMPARED_MIN_BYTES {
        COMPARED_BYTES
    } else {
        COMPARED_BYTES.min(in_file)
    };
    // To ask for 0 is to ask for the last file, as who holds nothing does.
    end.saturating_sub(from).max(start).max(1).min(end)
}

/// Follows a master over one connection.
pub struct Follower<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    link: SlaveLink,
    /// Where the log is between two records; kept from one connection to the next.
    walk: Arc<Mutex<RecordWalk>>,
    /// End of what is held as durably as the settings promise.
    held: u64,
    /// Where the log ended when the connection was made: below it the master's bytes are compared with ours.
    compared_to: u64,
    /// Behind the last byte that has come.
    came_to: u64,
    /// Since when the master has sent nothing but that it goes on there, before our log ends.
    ends_before_since_ms: Option<u64>,
}

impl<D: Disk, C: Clock> Follower<D, C> {
    /// Follows over a connection that has just been made. `walk` is [`walk_of`] the store, or what the
    /// connection before it has left.
    #[must_use]
    pub fn new(store: Arc<Store<D, C>>, walk: Arc<Mutex<RecordWalk>>, timing: Timing) -> Self {
        let replica = store.replica();
        let end = replica.appended();
        let extent = replica.extent();
        let from = compared_from(extent.start, end, extent.file_len_bytes);
        let link = SlaveLink::new(from, end == 0, timing, replica.elapsed_ms());
        Self {
            store,
            link,
            walk,
            held: 0,
            compared_to: end,
            came_to: from,
            ends_before_since_ms: None,
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
        // Where nothing is compared the first report names the end of the log, and masters of others take it
        // for an acknowledgement.
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
    /// Until `out` has taken a report of eight bytes.
    pub fn due(&mut self, out: &mut impl Write) -> Result<u64, String> {
        let now_ms = self.now_ms();
        self.link.check(now_ms).map_err(|fault| fault.to_string())?;
        if let Some(report) = self.link.report(self.held, now_ms) {
            out.write_all(&report).map_err(|error| error.to_string())?;
        }
        Ok(self.link.wait_ms(now_ms))
    }

    /// Takes what has come: appends what is log, and waits until it is as durable as promised.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    ///
    /// # Blocking
    /// As [`mqcore_engine::store::Replica::append`], and for the sync under synchronous flush.
    pub fn came(&mut self, bytes: &[u8]) -> Result<(), String> {
        let came_to = self.came_to;
        self.link.read(self.now_ms());
        self.take(bytes)?;
        self.look_at_end(came_to)?;
        // What is late is not reported: the next bytes wait for it again.
        self.make_durable().map(|_is_in_time| ())
    }

    /// End of what the master has announced.
    #[must_use]
    pub fn announced(&self) -> u64 {
        self.link.announced()
    }

    /// What was reported last.
    #[must_use]
    pub fn reported(&self) -> Option<u64> {
        self.link.reported()
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
        let mut pieces: Vec<&[u8]> = Vec::new();
        let mut after = walk.clone();
        loop {
            let received = self.link.feed(&mut bytes);
            match received {
                Ok(Some(Received::Bytes { offset, bytes })) => {
                    self.came_to = offset + bytes.len() as u64;
                    let bytes = self.compare(offset, bytes)?;
                    if bytes.is_empty() {
                        continue;
                    }
                    if after.at().is_multiple_of(file_len_bytes) {
                        self.append(&mut pieces, &mut walk, &after)?;
                    }
                    if let Err(fault) = after.take(bytes) {
                        self.append(&mut pieces, &mut walk, &after)?;
                        return Err(fault.to_string());
                    }
                    pieces.push(bytes);
                }
                Ok(Some(Received::Begin(offset))) => {
                    let begun = self.store.replica().begin_at(offset);
                    begun.map_err(|error| error.to_string())?;
                    after = RecordWalk::new(offset, file_len_bytes);
                    *walk = after.clone();
                }
                Ok(None) => return self.append(&mut pieces, &mut walk, &after),
                Err(fault) => {
                    self.append(&mut pieces, &mut walk, &after)?;
                    return Err(fault.to_string());
                }
            }
        }
    }

    /// Looks whether the master's log ends before ours: then it goes on sending that it goes on there, and
    /// nothing else, also when a second has new bytes to send.
    fn look_at_end(&mut self, came_to: u64) -> Result<(), String> {
        let is_between = self.came_to == came_to && self.link.announced() == came_to;
        if !is_between || came_to >= self.compared_to {
            self.ends_before_since_ms = None;
            return Ok(());
        }
        let now_ms = self.now_ms();
        let since_ms = *self.ends_before_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) <= ENDS_BEFORE_MS {
            return Ok(());
        }
        let fault = LinkFault::EndsBefore {
            offset: came_to,
            end: self.compared_to,
        };
        Err(fault.to_string())
    }

    /// Compares what the master sends of what we hold with that; what is behind it.
    fn compare<'a>(&self, offset: u64, bytes: &'a [u8]) -> Result<&'a [u8], String> {
        let held = self.compared_to.saturating_sub(offset);
        let held = usize::try_from(held).unwrap_or(usize::MAX).min(bytes.len());
        let (mut theirs, behind) = bytes.split_at(held);
        let mut at = offset;
        while !theirs.is_empty() {
            let read = self.store.replica().range(at, theirs.len());
            let chunk = read.map_err(|error| error.to_string())?;
            let chunk = chunk.ok_or_else(|| format!("our log has nothing at {at} any more"))?;
            let ours = chunk.bytes.as_bytes();
            let (front, rest) = theirs.split_at(ours.len().min(theirs.len()));
            if front != ours {
                return Err(LinkFault::OtherBytes { offset: at }.to_string());
            }
            at += front.len() as u64;
            theirs = rest;
        }
        Ok(behind)
    }

    /// Appends what was looked at; `after` is the walk behind it.
    fn append(
        &self,
        pieces: &mut Vec<&[u8]>,
        walk: &mut RecordWalk,
        after: &RecordWalk,
    ) -> Result<(), String> {
        if pieces.is_empty() {
            return Ok(());
        }
        let replica = self.store.replica();
        let whole = WholeRecords {
            end: after.whole_end(),
            store_ms: after.whole_ms(),
        };
        let appended = replica.append(walk.at(), pieces, whole);
        appended.map_err(|error| error.to_string())?;
        pieces.clear();
        *walk = after.clone();
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
