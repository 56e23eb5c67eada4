//! Rolling over: the blank end of a full file, and going on to the next one, with a pool buffer where
//! there is a pool. Who holds the append lock passes the [`Tail`].

use std::sync::Arc;

use mqcore_record::layout::BLANK_LEN_BYTES;
use mqcore_record::write_blank;

use crate::disk::{Disk, Region, SharedRegion};
use crate::error::{Error, Result};
use crate::segment::{LogFiles, Pool, PoolBuffer, Segment};

/// Where the bytes of the newest file go.
pub(super) enum Sink<D: Disk> {
    None,
    Mapped(SharedRegion<D>),
    Pooled(Arc<PoolBuffer>),
}

/// The end of the log: who holds the lock on it appends.
pub(super) struct Tail<D: Disk> {
    pub(super) segment: Option<Arc<Segment<D>>>,
    pub(super) sink: Sink<D>,
    pub(super) position: u64,
    pub(super) last_store_ms: i64,
    pub(super) ring_at: u64,
    /// Below this the append writes without asking the window of populated pages.
    pub(super) claimed_to: u64,
}

/// Makes space at the end of a log.
pub(super) struct Rollover<D: Disk> {
    files: Arc<LogFiles<D>>,
    /// Whether an append fails where no pool buffer is free.
    fails_fast: bool,
}

impl<D: Disk> Rollover<D> {
    pub(super) fn new(files: &Arc<LogFiles<D>>, fails_fast: bool) -> Self {
        Self {
            files: Arc::clone(files),
            fails_fast,
        }
    }

    /// Makes sure that `space` bytes and a blank marker fit the file at the end; rolls when they do
    /// not. `Some(base)`: the file that starts there must be prepared first.
    pub(super) fn make_space(&self, tail: &mut Tail<D>, space: u64) -> Result<Option<u64>> {
        loop {
            if let Some(segment) = &tail.segment {
                let remaining = segment.end() - tail.position;
                let needed = space + BLANK_LEN_BYTES as u64;
                // Also what a blank end is written to, and all behind it.
                let end = tail.position + needed.min(remaining);
                if end > tail.claimed_to {
                    tail.claimed_to = self.files.window.claim(segment, end);
                }
                if needed <= remaining {
                    return Ok(None);
                }
                if remaining > 0 {
                    Self::end_file(segment, &tail.sink, tail.position, remaining);
                    tail.position = segment.end();
                    self.files.positions.appended.publish(tail.position);
                }
            }
            if let Some(base) = self.next_file(tail)? {
                return Ok(Some(base));
            }
        }
    }

    /// Makes sure that the file at the end is the one that holds the end, for bytes that bring their own
    /// blank marker. `Some(base)`: the file that starts there must be prepared first.
    pub(super) fn make_raw_space(&self, tail: &mut Tail<D>, space: u64) -> Result<Option<u64>> {
        loop {
            if let Some(segment) = &tail.segment
                && tail.position < segment.end()
            {
                let end = (tail.position + space).min(segment.end());
                if end > tail.claimed_to {
                    tail.claimed_to = self.files.window.claim(segment, end);
                }
                return Ok(None);
            }
            if let Some(base) = self.next_file(tail)? {
                return Ok(Some(base));
            }
        }
    }

    /// Writes the blank marker (store format 2.2): the file is full.
    fn end_file(segment: &Segment<D>, sink: &Sink<D>, at: u64, remaining: u64) {
        let position = at - segment.base();
        let blank_len = i32::try_from(remaining).unwrap_or(i32::MAX);
        segment.set_content_end(position + BLANK_LEN_BYTES as u64);
        match sink {
            Sink::Mapped(region) => {
                if let Some(mut reservation) = region.reserve(position, BLANK_LEN_BYTES) {
                    write_blank(&mut reservation, blank_len);
                    region.publish(reservation);
                }
                region.publish_through(region.len_bytes());
            }
            Sink::Pooled(buffer) => {
                if let Some(mut reservation) = buffer.reserve(position, BLANK_LEN_BYTES) {
                    write_blank(&mut reservation, blank_len);
                    reservation.publish();
                }
                buffer.publish_through(buffer.len_bytes());
            }
            Sink::None => {}
        }
    }

    /// Goes on to the file that holds the end of the log: the last one of the chain after an open,
    /// else the prepared next one.
    fn next_file(&self, tail: &mut Tail<D>) -> Result<Option<u64>> {
        let files = &*self.files;
        tail.sink = Sink::None;
        let buffer = match &files.pool {
            None => None,
            Some(pool) => Some(self.pool_buffer(pool)?),
        };
        let existing = files
            .chain
            .find(tail.position)
            .filter(|_| tail.segment.is_none());
        let segment = match existing {
            Some(segment) => segment,
            None => match self.prepared(tail.position)? {
                Ok(segment) => segment,
                Err(base) => {
                    if let (Some(pool), Some(buffer)) = (&files.pool, buffer) {
                        pool.give_back(Arc::new(buffer));
                    }
                    return Ok(Some(base));
                }
            },
        };
        let position = tail.position - segment.base();
        let region = segment.map(position)?;
        tail.sink = match buffer {
            None => Sink::Mapped(region),
            Some(buffer) => {
                buffer.publish_through(position);
                let buffer = Arc::new(buffer);
                segment.set_buffer(Some(Arc::clone(&buffer)));
                Sink::Pooled(buffer)
            }
        };
        files.preparer.want(segment.end());
        if files.chain.find(segment.base()).is_none() {
            files.chain.push(Arc::clone(&segment));
        }
        tail.ring_at = tail.position;
        tail.segment = Some(segment);
        Ok(None)
    }

    /// The prepared file that starts the segment of `position`; `Ok(Err(base))` when a thread is at
    /// it.
    fn prepared(&self, position: u64) -> Result<std::result::Result<Arc<Segment<D>>, u64>> {
        let files = &*self.files;
        // A log whose first files were lost keeps its offsets: it may start anywhere.
        let base = position - position % files.chain.segment_len_bytes();
        if let Some(segment) = files.preparer.take(base) {
            return Ok(Ok(segment));
        }
        files.preparer.want(base);
        if files.preparer.has_thread() {
            return Ok(Err(base));
        }
        files.preparer.step().map_err(|error| Error::NoSegment {
            reason: error.to_string(),
        })?;
        let none = || Error::NoSegment {
            reason: format!("none was made for {base}"),
        };
        files.preparer.take(base).map(Ok).ok_or_else(none)
    }

    /// A free buffer; where there is none, what is in the others is committed first.
    fn pool_buffer(&self, pool: &Pool) -> Result<PoolBuffer> {
        if let Some(buffer) = pool.take() {
            return Ok(buffer);
        }
        if self.fails_fast {
            let reason = "the transient store pool has no buffer left".to_owned();
            return Err(Error::NotWritable { reason });
        }
        self.files
            .commit_to(self.files.positions.appended.position())?;
        pool.take().ok_or_else(|| Error::NoSegment {
            reason: "no pool buffer is free".to_owned(),
        })
    }
}
