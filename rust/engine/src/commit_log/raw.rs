//! Appending bytes of another log at their own places: what a slave gets from its master, in any pieces, or
//! as whole files that it has looked at. No record is looked at here, no queue offset given: both come with the
//! bytes (`CommitLog.appendData`).
//!
//! Locks: as [`super::log`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::log::{CommitLog, Guarded};
use super::roll::{Sink, Tail};
use crate::clock::Clock;
use crate::disk::{Disk, Open, Region};
use crate::error::{Error, Result};
use crate::segment::{LogFiles, Segment};
use crate::units::offset_file_name;

/// The last record of a log that is whole with bytes that are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeRecords {
    /// Where it ends: no higher than the bytes do.
    pub end: u64,
    /// Its store time, Unix ms; `None` where it is not known.
    pub store_ms: Option<i64>,
}

impl<D: Disk, C: Clock> CommitLog<D, C> {
    /// Appends bytes of another log, in any pieces, whose place is `offset`: the end of this log. `whole` is
    /// the last record that is whole with them.
    ///
    /// # Durability
    /// As [`CommitLog::append`].
    ///
    /// # Blocking
    /// For the append lock, and at most `segmentWaitMs` for the next log file.
    ///
    /// # Errors
    /// [`Error::NotWritable`] when the log ends elsewhere, or the bytes go beyond the end of a file;
    /// [`Error::Poisoned`], [`Error::NoSegment`].
    pub fn append_raw(&self, offset: u64, pieces: &[&[u8]], whole: WholeRecords) -> Result<()> {
        loop {
            self.files.poison.check()?;
            let pushed = {
                let mut guarded = self.guarded.lock();
                self.push_raw(&mut guarded, offset, pieces, whole)
            };
            let Some(base) = pushed? else {
                self.files.signals.appended(self.wakes_flush);
                return Ok(());
            };
            self.files.signals.prepare.notify();
            self.files.preparer.wait(base, self.segment_wait)?;
        }
    }

    /// Appends under the lock, or returns which file it needs first.
    fn push_raw(
        &self,
        Guarded { tail, .. }: &mut Guarded<D>,
        offset: u64,
        pieces: &[&[u8]],
        whole: WholeRecords,
    ) -> Result<Option<u64>> {
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        if tail.position != offset {
            let reason = format!(
                "bytes of another log for {offset}, and this log ends at {}",
                tail.position
            );
            return Err(Error::NotWritable { reason });
        }
        if let Some(base) = self.roll.make_raw_space(tail, len as u64)? {
            return Ok(Some(base));
        }
        let Some(segment) = &tail.segment else {
            return Err(Error::Closed);
        };
        let position = offset - segment.base();
        if offset + len as u64 > segment.end() {
            let reason = format!(
                "{len} bytes of another log for {offset} go beyond the end of a file at {}: the files \
                 of the two logs differ in length",
                segment.end()
            );
            return Err(Error::NotWritable { reason });
        }
        let written = match &tail.sink {
            Sink::Mapped(region) => region.reserve(position, len).map(|mut reservation| {
                copy_pieces(&mut reservation, pieces);
                region.publish(reservation);
            }),
            Sink::Pooled(buffer) => buffer.reserve(position, len).map(|mut reservation| {
                copy_pieces(&mut reservation, pieces);
                reservation.publish();
            }),
            Sink::None => None,
        };
        if written.is_none() {
            let path = segment.path().display();
            self.files
                .fail(format!("{path}: position {position} was refused"));
            return Err(self.files.poison.check().err().unwrap_or(Error::Closed));
        }
        tail.position += len as u64;
        if let Some(store_ms) = whole.store_ms {
            tail.last_store_ms = tail.last_store_ms.max(store_ms);
            self.files
                .last_store_ms
                .store(tail.last_store_ms, Ordering::Relaxed);
        }
        // Before the bytes are: what is synced with them ends no earlier.
        let records_end = whole.end.min(tail.position);
        self.files.records_end.store(records_end, Ordering::Release);
        self.files.positions.appended.publish(tail.position);
        Ok(None)
    }

    /// Lets a log that holds nothing begin at `offset`, the begin of a file, and makes that file.
    ///
    /// # Durability
    /// The file is there after a crash, or the log is empty.
    ///
    /// # Blocking
    /// As [`CommitLog::append_raw`], and for the removal of a file that was made ahead.
    ///
    /// # Errors
    /// [`Error::NotWritable`] when the log holds something, or no file begins there; [`Error::Io`],
    /// [`Error::NoSegment`].
    pub fn begin_at(&self, offset: u64) -> Result<()> {
        let files = &*self.files;
        let file_len = files.chain.segment_len_bytes();
        if !offset.is_multiple_of(file_len) {
            let reason = format!("no file of {file_len} bytes begins at {offset}");
            return Err(Error::NotWritable { reason });
        }
        let is_being_made = files.chain.is_empty() && files.preparer.has_thread();
        if is_being_made && files.preparer.peek().is_none() {
            files.preparer.wait(0, self.segment_wait)?;
        }
        {
            let Guarded { tail, .. } = &mut *self.guarded.lock();
            if tail.position != 0 {
                let reason = format!("the log holds {} bytes already", tail.position);
                return Err(Error::NotWritable { reason });
            }
            // The other name goes first: with both a start would miss the files between them.
            files.preparer.remove_unused()?;
            clear_from(files, tail, 0)?;
            skip_to(files, tail, offset);
        }
        let whole = WholeRecords {
            end: offset,
            store_ms: None,
        };
        self.append_raw(offset, &[], whole)
    }

    /// Takes the file `staged`, which is on the disk, as that of the log from `base` on: where the log
    /// ends, or anywhere while it holds nothing. `store_ms` is the time of its last record, Unix ms.
    ///
    /// # Durability
    /// On return the file is the log's after power loss, too. A crash before leaves it where it was, or in the
    /// log: both are whole.
    ///
    /// # Blocking
    /// For the append lock, the file that is being made ahead, and two syncs of a directory.
    ///
    /// # Errors
    /// [`Error::NotWritable`] when the log ends elsewhere; [`Error::WrongFileSize`]; [`Error::Io`], after which
    /// the store is poisoned where nothing is known of the name; [`Error::Poisoned`].
    pub fn adopt(&self, base: u64, staged: &Path, store_ms: Option<i64>) -> Result<()> {
        let files = &*self.files;
        files.poison.check()?;
        let expected_bytes = files.chain.segment_len_bytes();
        let len_bytes = files.disk.stat(staged)?.map_or(0, |stat| stat.len_bytes);
        if len_bytes != expected_bytes {
            return Err(Error::WrongFileSize {
                path: staged.to_owned(),
                len_bytes,
                expected_bytes,
                key: "mappedFileSizeCommitLog",
            });
        }
        {
            let Guarded { tail, .. } = &mut *self.guarded.lock();
            let is_next = tail.position == base || tail.position == 0;
            if !is_next || !base.is_multiple_of(expected_bytes) {
                let reason = format!(
                    "a file of another log for {base}, and this log ends at {}",
                    tail.position
                );
                return Err(Error::NotWritable { reason });
            }
            // Names go before the new one comes: with both a start would miss the files between them.
            let _nothing_is_made = files.preparer.quiet()?;
            let end = tail.position;
            clear_from(files, tail, end)?;
            let segment = take_name(files, base, staged)?;
            if tail.position != base {
                skip_to(files, tail, base);
            }
            let end = segment.end();
            files.chain.push(Arc::new(segment));
            (tail.position, tail.ring_at, tail.claimed_to) = (end, end, end);
            tail.last_store_ms = tail.last_store_ms.max(store_ms.unwrap_or(0));
            files
                .last_store_ms
                .store(tail.last_store_ms, Ordering::Relaxed);
            files.records_end.store(end, Ordering::Release);
            files.positions.appended.publish(end);
        }
        files.signals.appended(self.wakes_flush);
        Ok(())
    }
}

/// Gives a file of another log its name in this one.
fn take_name<D: Disk>(files: &LogFiles<D>, base: u64, staged: &Path) -> Result<Segment<D>> {
    let dir = files.chain.dir();
    files.disk.create_dir_all(dir)?;
    let path = dir.join(offset_file_name(base));
    files.disk.rename(staged, &path)?;
    let synced = files.disk.sync_dir(dir).and_then(|()| {
        // Between two directories: the new name, then that it is the only one.
        staged
            .parent()
            .map_or(Ok(()), |from| files.disk.sync_dir(from))
    });
    if let Err(error) = synced {
        files.fail(error.to_string());
        return Err(error);
    }
    let len_bytes = files.chain.segment_len_bytes();
    Segment::open(&files.disk, path, base, len_bytes, Open::Write)
}

/// Removes the files that begin at `offset` or behind it: nothing was appended to them.
fn clear_from<D: Disk>(files: &LogFiles<D>, tail: &mut Tail<D>, offset: u64) -> Result<()> {
    (tail.segment, tail.sink) = (None, Sink::None);
    for segment in files.chain.pop_from(offset) {
        files.reclaimer.remove(&files.disk, segment)?;
        files.disk.sync_dir(files.chain.dir())?;
    }
    Ok(())
}

/// Lets a log that holds nothing go on at `offset`.
fn skip_to<D: Disk>(files: &LogFiles<D>, tail: &mut Tail<D>, offset: u64) {
    (tail.position, tail.ring_at, tail.claimed_to) = (offset, offset, offset);
    let positions = &files.positions;
    // Nothing is behind before there is something.
    for mark in [
        &positions.flushed,
        &positions.committed,
        &positions.dispatched,
    ] {
        mark.raise(offset);
    }
    files.records_flushed.store(offset, Ordering::Release);
    positions.appended.publish(offset);
}

/// Copies pieces behind one another; `into` is as long as they are together.
fn copy_pieces(into: &mut [u8], pieces: &[&[u8]]) {
    let mut rest = into;
    for piece in pieces {
        let Some((front, behind)) = rest.split_at_mut_checked(piece.len()) else {
            return;
        };
        front.copy_from_slice(piece);
        rest = behind;
    }
}
