//! Numbers and texts as bytes, big-endian and within bounds. What is read is never trusted: a length is
//! compared with what is left before anything is allocated.

use std::collections::BTreeSet;

/// Bytes of a name, an address or a check code; official ones have some tens.
pub(super) const TEXT_BYTES_MAX: usize = 1024;

/// Why bytes are no event, no answer or no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ByteFault {
    /// They end too early.
    #[error("they end in the middle of {what}")]
    TooShort {
        /// What was being read.
        what: &'static str,
    },
    /// There is more than belongs there.
    #[error("{left} bytes follow their end")]
    TooLong {
        /// How many.
        left: usize,
    },
    /// A number has no meaning there.
    #[error("{what} is {value}, which has no meaning")]
    BadNumber {
        /// What was being read.
        what: &'static str,
        /// The number.
        value: i64,
    },
    /// A text is none.
    #[error("{what} is no UTF-8 text of at most {TEXT_BYTES_MAX} bytes")]
    BadText {
        /// What was being read.
        what: &'static str,
    },
    /// What is there twice may be there once.
    #[error("{what} is there twice, or out of order")]
    Disorder {
        /// What was being read.
        what: &'static str,
    },
}

/// Bytes that grow.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn byte(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn int(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn long(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn number(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn count(&mut self, value: usize) {
        // Counts and lengths are bounded far below it.
        self.number(u32::try_from(value).unwrap_or(u32::MAX));
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.byte(u8::from(value));
    }

    /// A text, cut at a whole character where it is longer than any may be.
    pub(super) fn text(&mut self, value: &str) {
        let cut = cut(value);
        self.count(cut.len());
        self.bytes.extend_from_slice(cut.as_bytes());
    }

    pub(super) fn ids<'a>(&mut self, ids: impl ExactSizeIterator<Item = &'a i64>) {
        self.count(ids.len());
        ids.for_each(|id| self.long(*id));
    }
}

/// The longest part of a text that has no more bytes, at the end of a character.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Bytes that are read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    fn take<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ByteFault> {
        let (first, rest) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or(ByteFault::TooShort { what })?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, ByteFault> {
        Ok(u8::from_be_bytes(self.take(what)?))
    }

    pub(super) fn int(&mut self, what: &'static str) -> Result<i32, ByteFault> {
        Ok(i32::from_be_bytes(self.take(what)?))
    }

    pub(super) fn long(&mut self, what: &'static str) -> Result<i64, ByteFault> {
        Ok(i64::from_be_bytes(self.take(what)?))
    }

    pub(super) fn number(&mut self, what: &'static str) -> Result<u32, ByteFault> {
        Ok(u32::from_be_bytes(self.take(what)?))
    }

    pub(super) fn flag(&mut self, what: &'static str) -> Result<bool, ByteFault> {
        match self.byte(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(ByteFault::BadNumber {
                what,
                value: other.into(),
            }),
        }
    }

    /// How many of something follow, each of at least `least_bytes`.
    pub(super) fn count(
        &mut self,
        what: &'static str,
        least_bytes: usize,
    ) -> Result<usize, ByteFault> {
        let number = self.number(what)?;
        let count = usize::try_from(number).unwrap_or(usize::MAX);
        if count.saturating_mul(least_bytes) > self.bytes.len() {
            return Err(ByteFault::TooShort { what });
        }
        Ok(count)
    }

    pub(super) fn text(&mut self, what: &'static str) -> Result<String, ByteFault> {
        let len = self.count(what, 1)?;
        let (text, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or(ByteFault::TooShort { what })?;
        if len > TEXT_BYTES_MAX {
            return Err(ByteFault::BadText { what });
        }
        self.bytes = rest;
        let text = std::str::from_utf8(text).map_err(|_| ByteFault::BadText { what })?;
        Ok(text.to_owned())
    }

    /// Ids in ascending order.
    pub(super) fn ids(&mut self, what: &'static str) -> Result<BTreeSet<i64>, ByteFault> {
        let mut ids = BTreeSet::new();
        for _ in 0..self.count(what, size_of::<i64>())? {
            let id = self.long(what)?;
            if ids.last().is_some_and(|last| *last >= id) {
                return Err(ByteFault::Disorder { what });
            }
            ids.insert(id);
        }
        Ok(ids)
    }

    pub(super) fn end(self) -> Result<(), ByteFault> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(ByteFault::TooLong { left }),
        }
    }
}
