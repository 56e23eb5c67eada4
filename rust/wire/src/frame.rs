//! Where a frame begins and ends.
//!
//! ```text
//! 4  length of what follows          i32, big-endian; does not count itself
//! 4  serialization type and header   top 8 bits: type; low 24 bits: length of the header
//! n  header                          JSON or binary
//! m  body                            the rest
//! ```
//!
//! The length is checked against the cap before anything is kept for it.

use crate::error::WireError;

/// Longest frame with its length word: what the original accepts
/// (`com.rocketmq.remoting.frameMaxLength`).
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the length word.
pub(crate) const LEN_BYTES: usize = 4;
/// Bytes before the header.
pub(crate) const HEAD_BYTES: usize = 8;
/// Longest header: its length has 24 bits.
pub(crate) const HEADER_BYTES_MAX: usize = (1 << 24) - 1;

/// How a header is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Serialization {
    /// As JSON: the default of every client.
    #[default]
    Json,
    /// As fixed numbers and lengths (`RocketMQSerializable`).
    Binary,
}

impl Serialization {
    /// The type byte.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::Binary => 1,
        }
    }

    /// The serialization of a type byte.
    ///
    /// # Errors
    /// [`WireError::UnknownSerialization`].
    pub const fn numbered(kind: u8) -> Result<Self, WireError> {
        match kind {
            0 => Ok(Self::Json),
            1 => Ok(Self::Binary),
            _ => Err(WireError::UnknownSerialization { kind }),
        }
    }
}

/// A whole frame, as it lies in the receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// How the header is written.
    pub serialization: Serialization,
    /// The header.
    pub header: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// Length with the length word: where the next frame begins.
    pub len_bytes: usize,
}

/// What is at the front of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split<'a> {
    /// A frame begins and does not end here.
    NeedsMore {
        /// Length of the frame, once its length word is there.
        len_bytes: Option<usize>,
    },
    /// A whole frame.
    Frame(Frame<'a>),
}

/// Takes the first frame off `bytes`, of at most `max` bytes.
///
/// # Errors
/// [`WireError::FrameTooLarge`], [`WireError::FrameLength`], [`WireError::HeaderLength`],
/// [`WireError::UnknownSerialization`]: the connection is lost, for nobody knows where the next
/// frame begins.
#[inline]
pub fn split(bytes: &[u8], max: usize) -> Result<Split<'_>, WireError> {
    let Some((len, rest)) = bytes.split_first_chunk::<LEN_BYTES>() else {
        return Ok(Split::NeedsMore { len_bytes: None });
    };
    let len = i32::from_be_bytes(*len);
    let Some(after_len) = usize::try_from(len)
        .ok()
        .filter(|after| *after >= LEN_BYTES)
    else {
        return Err(WireError::FrameLength { len });
    };
    let len_bytes = LEN_BYTES + after_len;
    if len_bytes > max {
        let len = len_bytes as u64;
        return Err(WireError::FrameTooLarge { len, max });
    }
    let Some((mark, after_mark)) = rest.split_first_chunk::<4>() else {
        let len_bytes = Some(len_bytes);
        return Ok(Split::NeedsMore { len_bytes });
    };
    // The marks are checked as soon as they are there: nothing is collected for a frame that is
    // refused in the end.
    let serialization = Serialization::numbered(mark[0])?;
    let header_len = usize::from(mark[1]) << 16 | usize::from(mark[2]) << 8 | usize::from(mark[3]);
    let have = after_len - 4;
    if header_len > have {
        let len = header_len;
        return Err(WireError::HeaderLength { len, have });
    }
    let Some((header, body)) = after_mark
        .get(..have)
        .map(|whole| whole.split_at(header_len))
    else {
        let len_bytes = Some(len_bytes);
        return Ok(Split::NeedsMore { len_bytes });
    };
    Ok(Split::Frame(Frame {
        serialization,
        header,
        body,
        len_bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked_before_anything_is_collected() {
        let refused = |bytes: &[u8]| split(bytes, FRAME_BYTES_MAX).unwrap_err();
        assert_eq!(
            refused(&[0x7f, 0xff, 0xff, 0xff]),
            WireError::FrameTooLarge {
                len: 0x8000_0003,
                max: FRAME_BYTES_MAX
            }
        );
        let too_large = (FRAME_BYTES_MAX as u32 - 3).to_be_bytes();
        assert!(matches!(
            refused(&too_large),
            WireError::FrameTooLarge { .. }
        ));
        assert_eq!(refused(&[0xff; 4]), WireError::FrameLength { len: -1 });
        assert_eq!(refused(&[0, 0, 0, 3]), WireError::FrameLength { len: 3 });
        assert_eq!(
            refused(&[0, 0, 0, 9, 0, 0, 0, 6]),
            WireError::HeaderLength { len: 6, have: 5 }
        );
        assert_eq!(
            refused(&[0, 0, 0, 9, 2, 0, 0, 5]),
            WireError::UnknownSerialization { kind: 2 }
        );
    }

    #[test]
    fn a_frame_of_the_longest_length_is_taken() {
        let largest = (FRAME_BYTES_MAX as u32 - 4).to_be_bytes();
        assert_eq!(
            split(&largest, FRAME_BYTES_MAX),
            Ok(Split::NeedsMore {
                len_bytes: Some(FRAME_BYTES_MAX)
            })
        );
    }

    #[test]
    fn header_and_body_are_found_and_the_next_frame_is_left() {
        let bytes = b"\0\0\0\x09\x01\0\0\x02hhbbb\0\0";
        let Ok(Split::Frame(frame)) = split(bytes, FRAME_BYTES_MAX) else {
            panic!("a whole frame");
        };
        assert_eq!((frame.header, frame.body), (&b"hh"[..], &b"bbb"[..]));
        assert_eq!(frame.serialization, Serialization::Binary);
        assert_eq!(frame.len_bytes, 13);
        for cut in 0..13 {
            let Ok(Split::NeedsMore { len_bytes }) = split(&bytes[..cut], FRAME_BYTES_MAX) else {
                panic!("half a frame");
            };
            assert_eq!(len_bytes, (cut >= 4).then_some(13));
        }
    }
}
