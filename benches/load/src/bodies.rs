//! What is sent: bodies of a size, or the lines of a file. Knows no socket.

use std::ops::Range;
use std::path::Path;

use crate::failure::{Failure, Outcome};

/// The bodies of a run, by number.
#[derive(Debug)]
pub(crate) enum Bodies {
    /// The same bytes each time.
    Same(Vec<u8>),
    /// A line each.
    Lines {
        text: Vec<u8>,
        ranges: Vec<Range<usize>>,
    },
}

impl Bodies {
    /// Bodies of `len` bytes that do not compress well.
    pub(crate) fn of_len(len: usize) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut body = Vec::with_capacity(len);
        while body.len() < len {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            body.push((state >> 56) as u8);
        }
        Self::Same(body)
    }

    /// The lines of a file behind its first `skip`, without empty ones.
    pub(crate) fn of_file(path: &Path, skip: usize) -> Outcome<Self> {
        let text = std::fs::read(path).map_err(|error| Failure::File {
            path: path.to_owned(),
            error,
        })?;
        Ok(Self::of_text(text, skip))
    }

    fn of_text(text: Vec<u8>, skip: usize) -> Self {
        let mut start = 0;
        let mut ranges = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let trimmed = line.trim_ascii_end();
            ranges.push(start..start + trimmed.len());
            start += line.len();
        }
        let ranges = ranges.into_iter().skip(skip);
        Self::Lines {
            ranges: ranges.filter(|range| !range.is_empty()).collect(),
            text,
        }
    }

    /// The body of a message; none beyond the last line.
    pub(crate) fn body(&self, number: u64) -> Option<&[u8]> {
        match self {
            Self::Same(body) => Some(body),
            Self::Lines { text, ranges } => {
                let range = ranges.get(usize::try_from(number).ok()?)?;
                text.get(range.clone())
            }
        }
    }

    /// Number of bodies; none where it is not bounded.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            Self::Same(_) => None,
            Self::Lines { ranges, .. } => Some(ranges.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bodies() {
        let bodies = Bodies::of_text(b"head\na,1\r\n\nb,2".to_vec(), 1);
        assert_eq!(bodies.count(), Some(2));
        assert_eq!(bodies.body(0), Some(&b"a,1"[..]));
        assert_eq!(bodies.body(1), Some(&b"b,2"[..]));
        assert_eq!(bodies.body(2), None);
    }

    #[test]
    fn a_size_is_kept() {
        let bodies = Bodies::of_len(1_000);
        assert_eq!(bodies.body(7).map(<[u8]>::len), Some(1_000));
        assert_eq!(bodies.count(), None);
    }
}
