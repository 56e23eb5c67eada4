//! Frames out of bytes that arrive in any pieces.
//!
//! Whole frames are read where they lie; only a frame that has not ended yet is kept, and never
//! more of it than was received.

use crate::error::WireError;
use crate::frame::{FRAME_BYTES_MAX, Frame, Split, split};

/// Collects what was received of one connection.
#[derive(Debug)]
pub struct FrameReader {
    max: usize,
    kept: Vec<u8>,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new(FRAME_BYTES_MAX)
    }
}

impl FrameReader {
    /// A reader of frames of at most `max` bytes, which the protocol bounds itself.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max: max.min(FRAME_BYTES_MAX),
            kept: Vec::new(),
        }
    }

    /// Bytes kept of a frame that has not ended yet.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept.len()
    }

    /// Takes `bytes` in and gives each frame that is whole now to `take`.
    ///
    /// # Errors
    /// The first error of the bytes or of `take`: the connection is lost, and the reader is empty.
    pub fn feed<E: From<WireError>>(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&Frame<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = bytes;
        if !self.kept.is_empty() {
            let Some(rest) = self.complete(from)? else {
                return Ok(());
            };
            from = rest;
            let kept = std::mem::take(&mut self.kept);
            if let Split::Frame(frame) = split(&kept, self.max)? {
                take(&frame)?;
            }
        }
        loop {
            match split(from, self.max)? {
                Split::Frame(frame) => {
                    take(&frame)?;
                    from = from.get(frame.len_bytes..).unwrap_or_default();
                }
                Split::NeedsMore { .. } => {
                    self.kept.extend_from_slice(from);
                    return Ok(());
                }
            }
        }
    }

    /// Adds of `bytes` what the kept frame lacks; returns the rest once it is whole.
    fn complete<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, WireError> {
        let mut from = bytes;
        loop {
            let have = self.kept.len();
            // Up to the marks first: they give the frame's length, or show that it is none.
            let want = match split(&self.kept, self.max) {
                Ok(Split::Frame(_)) => return Ok(Some(from)),
                Ok(Split::NeedsMore { len_bytes: None }) => 4,
                Ok(Split::NeedsMore {
                    len_bytes: Some(len),
                }) if have < 8 => len.min(8),
                Ok(Split::NeedsMore {
                    len_bytes: Some(len),
                }) => len,
                Err(error) => {
                    self.kept = Vec::new();
                    return Err(error);
                }
            };
            if from.is_empty() {
                return Ok(None);
            }
            let (taken, rest) = from.split_at(from.len().min(want - have));
            self.kept.extend_from_slice(taken);
            from = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let one = b"\0\0\0\x09\x01\0\0\x02hhbbb";
        let stream = [&one[..], b"\0\0\0\x04\0\0\0\0", one].concat();
        for piece in 1..=stream.len() {
            let mut reader = FrameReader::default();
            let mut seen = Vec::new();
            for bytes in stream.chunks(piece) {
                reader
                    .feed::<WireError>(bytes, |frame| {
                        seen.push((frame.header.to_vec(), frame.body.to_vec()));
                        Ok(())
                    })
                    .unwrap();
            }
            let whole = (b"hh".to_vec(), b"bbb".to_vec());
            assert_eq!(seen, [whole.clone(), (vec![], vec![]), whole]);
            assert_eq!(reader.kept_bytes(), 0);
        }
    }

    #[test]
    fn a_bad_frame_is_refused_before_it_is_collected() {
        let mut reader = FrameReader::new(1_000);
        let error = reader
            .feed::<WireError>(&[0, 0, 4, 0], |_| Ok(()))
            .unwrap_err();
        assert_eq!(
            error,
            WireError::FrameTooLarge {
                len: 1_028,
                max: 1_000
            }
        );
        assert_eq!(reader.kept_bytes(), 0);
        reader.feed::<WireError>(&[0, 0, 2], |_| Ok(())).unwrap();
        assert_eq!(reader.kept_bytes(), 3);
        let error = reader
            .feed::<WireError>(&[0, 9, 0, 0, 0], |_| Ok(()))
            .unwrap_err();
        assert_eq!(error, WireError::UnknownSerialization { kind: 9 });
        assert_eq!(reader.kept_bytes(), 0);
    }

    #[test]
    fn memory_follows_what_arrived_and_not_what_was_claimed() {
        let mut reader = FrameReader::default();
        reader
            .feed::<WireError>(&[0, 0xff, 0xff, 0xf0, 0, 0, 0, 1, b'x'], |_| Ok(()))
            .unwrap();
        assert_eq!(reader.kept_bytes(), 9);
        assert!(reader.kept.capacity() < 1_000);
    }
}
