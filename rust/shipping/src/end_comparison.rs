//! Whether the end of a slave's log is that of its master's. A master asks for no proof, and official slaves
//! give none: where its log has lost its end, and has grown beyond theirs since, the two differ from there
//! on in silence. So a slave asks for its last bytes once more when a connection is made, and acknowledges
//! nothing before it has compared them. Under a controller epochs are compared instead.

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::Disk;
use mqcore_engine::store::Store;
use mqcore_replica::LinkFault;

/// Bytes at the end of our log that a master sends once more: two logs that differ do so within a record, as
/// each has its time.
const COMPARED_BYTES: u64 = 64 * 1024;

/// With fewer bytes of a file those of the file before it are compared, too: these hold the time of a record.
const COMPARED_MIN_BYTES: u64 = 256;

/// A master that has something to send sends some of it within so long: two seconds of its flow control.
const ENDS_BEFORE_MS: u64 = 2_000;

/// What a link has seen of its master.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    /// Behind the last byte that has come.
    pub came_to: u64,
    /// End of what was announced.
    pub announced: u64,
    /// Frames without a body.
    pub heartbeats: u64,
}

/// What is compared over one connection.
pub(crate) struct EndComparison {
    /// Where the log ended when the connection was made: below it the master's bytes are compared with ours.
    to: u64,
    /// Behind the last byte that has come.
    came_to: u64,
    /// Since when the master has sent nothing but that it goes on there, before our log ends.
    ends_before_since_ms: Option<u64>,
}

impl EndComparison {
    /// Of a log that ends at `end`, of which the master sends what is behind `from`.
    pub(crate) fn new(from: u64, end: u64) -> Self {
        Self {
            to: end,
            came_to: from,
            ends_before_since_ms: None,
        }
    }

    /// Behind the last byte that has come.
    pub(crate) fn came_to(&self) -> u64 {
        self.came_to
    }

    /// Whether all is compared. Logs that differ begin their next record alike, and a report counts for
    /// everything below it.
    pub(crate) fn is_done(&self) -> bool {
        self.came_to >= self.to
    }

    /// Compares bytes of the master with what we hold of them; what is behind it.
    pub(crate) fn take<'a, D: Disk, C: Clock>(
        &mut self,
        store: &Store<D, C>,
        offset: u64,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], String> {
        self.came_to = offset + bytes.len() as u64;
        let held = self.to.saturating_sub(offset);
        let held = usize::try_from(held).unwrap_or(usize::MAX).min(bytes.len());
        let (mut theirs, behind) = bytes.split_at(held);
        let mut at = offset;
        while !theirs.is_empty() {
            let read = store.replica().range(at, theirs.len());
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

    /// Looks whether the master's log ends before ours: then it goes on sending that it goes on there, and
    /// nothing else, also when a second has new bytes to send. A part of a frame shows nothing: the rest may
    /// announce bytes.
    pub(crate) fn look(&mut self, before: Seen, now: Seen, now_ms: u64) -> Result<(), LinkFault> {
        let is_between = now.came_to == before.came_to && now.announced == now.came_to;
        if !is_between || self.is_done() {
            self.ends_before_since_ms = None;
            return Ok(());
        }
        if now.heartbeats == before.heartbeats {
            return Ok(());
        }
        let since_ms = *self.ends_before_since_ms.get_or_insert(now_ms);
        if now_ms.saturating_sub(since_ms) <= ENDS_BEFORE_MS {
            return Ok(());
        }
        Err(LinkFault::EndsBefore {
            offset: self.came_to,
            end: self.to,
        })
    }
}

/// Where the master is to begin, for a log from `start` to `end`. In the last file where that has enough:
/// the master may have removed the one before it.
pub(crate) fn compared_from(start: u64, end: u64, file_len_bytes: u64) -> u64 {
    let in_file = end % file_len_bytes;
    let from = if in_file < COMPARED_MIN_BYTES {
        COMPARED_BYTES
    } else {
        COMPARED_BYTES.min(in_file)
    };
    // To ask for 0 is to ask for the last file, as who holds nothing does.
    end.saturating_sub(from).max(start).max(1).min(end)
}
