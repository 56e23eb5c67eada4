//! Values out of Arrow's buffers: validity bits, 32-bit offsets, data, little-endian.
//!
//! Lengths and offsets are checked once, when a column is made; reading a value never panics.
#![deny(clippy::indexing_slicing)]

use crate::error::ColumnFault;

const OFFSET_BYTES: usize = 4;

fn fault(name: &str, why: &'static str) -> ColumnFault {
    ColumnFault {
        name: name.to_owned(),
        why,
    }
}

/// Which values are there.
#[derive(Debug, Clone, Copy)]
struct Valid<'a>(Option<&'a [u8]>);

impl<'a> Valid<'a> {
    fn new(name: &str, bits: Option<&'a [u8]>, end: usize) -> Result<Self, ColumnFault> {
        match bits {
            Some(bits) if bits.len() < end.div_ceil(8) => {
                Err(fault(name, "validity bits are missing"))
            }
            _ => Ok(Self(bits)),
        }
    }

    #[inline]
    fn at(self, index: usize) -> bool {
        let Some(bits) = self.0 else { return true };
        bits.get(index / 8)
            .is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

/// Offsets that rise, and end within what they point into.
#[derive(Debug, Clone, Copy)]
struct Offsets<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Offsets<'a> {
    fn new(
        name: &str,
        bytes: &'a [u8],
        at: usize,
        len: usize,
        bound: usize,
    ) -> Result<Self, ColumnFault> {
        let made = Self { bytes, at };
        if len == 0 {
            return Ok(made);
        }
        let mut before = 0;
        for row in 0..=len {
            let next = made
                .offset(row)
                .ok_or_else(|| fault(name, "offsets are missing"))?;
            if next < before {
                return Err(fault(name, "offsets do not rise"));
            }
            before = next;
        }
        if before > bound {
            return Err(fault(name, "offsets end behind the data"));
        }
        Ok(made)
    }

    #[inline]
    fn offset(&self, row: usize) -> Option<usize> {
        let at = (self.at + row) * OFFSET_BYTES;
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        usize::try_from(i32::from_le_bytes(*bytes)).ok()
    }

    #[inline]
    fn range(&self, row: usize) -> Option<(usize, usize)> {
        Some((self.offset(row)?, self.offset(row + 1)?))
    }
}

/// A column of texts or bytes.
#[derive(Debug, Clone, Copy)]
pub struct Strings<'a> {
    valid: Valid<'a>,
    offsets: Offsets<'a>,
    data: &'a [u8],
    len: usize,
}

impl<'a> Strings<'a> {
    /// A column of `len` values from the one numbered `at` on.
    ///
    /// # Errors
    /// [`ColumnFault`] where the buffers do not hold that many, or offsets lead out of the data.
    pub fn new(
        name: &str,
        valid: Option<&'a [u8]>,
        offsets: &'a [u8],
        data: &'a [u8],
        at: usize,
        len: usize,
    ) -> Result<Self, ColumnFault> {
        Ok(Self {
            valid: Valid::new(name, valid, at + len)?,
            offsets: Offsets::new(name, offsets, at, len, data.len())?,
            data,
            len,
        })
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A value; none where it is null.
    #[inline]
    #[must_use]
    pub fn value(&self, row: usize) -> Option<&'a [u8]> {
        if !self.valid.at(self.offsets.at + row) {
            return None;
        }
        let (start, end) = self.offsets.range(row)?;
        self.data.get(start..end)
    }
}

/// A column of whole numbers, 4 or 8 bytes each.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    valid: Valid<'a>,
    data: &'a [u8],
    width_bytes: usize,
    at: usize,
}

impl<'a> Numbers<'a> {
    /// A column of `len` numbers from the one numbered `at` on.
    ///
    /// # Errors
    /// [`ColumnFault`] for another width, and where the buffers do not hold that many.
    pub fn new(
        name: &str,
        valid: Option<&'a [u8]>,
        data: &'a [u8],
        width_bytes: usize,
        at: usize,
        len: usize,
    ) -> Result<Self, ColumnFault> {
        if !matches!(width_bytes, 4 | 8) {
            return Err(fault(name, "numbers of 4 or 8 bytes are expected"));
        }
        if data.len() < (at + len) * width_bytes {
            return Err(fault(name, "numbers are missing"));
        }
        Ok(Self {
            valid: Valid::new(name, valid, at + len)?,
            data,
            width_bytes,
            at,
        })
    }

    /// A value; none where it is null.
    #[inline]
    #[must_use]
    pub fn value(&self, row: usize) -> Option<i64> {
        let index = self.at + row;
        if !self.valid.at(index) {
            return None;
        }
        let bytes = self.data.get(index * self.width_bytes..)?;
        if self.width_bytes == 4 {
            bytes
                .first_chunk()
                .map(|bytes| i32::from_le_bytes(*bytes).into())
        } else {
            bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes))
        }
    }
}

/// A column of maps from text to text.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    valid: Valid<'a>,
    offsets: Offsets<'a>,
    names: Strings<'a>,
    values: Strings<'a>,
}

impl<'a> Pairs<'a> {
    /// A column of `len` maps from the one numbered `at` on, over all their names and values.
    ///
    /// # Errors
    /// [`ColumnFault`] where the buffers do not hold that many, or offsets lead out of the pairs.
    pub fn new(
        name: &str,
        valid: Option<&'a [u8]>,
        offsets: &'a [u8],
        (names, values): (Strings<'a>, Strings<'a>),
        at: usize,
        len: usize,
    ) -> Result<Self, ColumnFault> {
        let bound = names.len().min(values.len());
        Ok(Self {
            valid: Valid::new(name, valid, at + len)?,
            offsets: Offsets::new(name, offsets, at, len, bound)?,
            names,
            values,
        })
    }

    /// The pairs of a row whose value is not null; none of a row that is null.
    #[inline]
    pub fn of(&self, row: usize) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + '_ {
        let range = if self.valid.at(self.offsets.at + row) {
            self.offsets.range(row)
        } else {
            None
        };
        let (start, end) = range.unwrap_or_default();
        (start..end).filter_map(|index| Some((self.names.value(index)?, self.values.value(index)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(list: &[i32]) -> Vec<u8> {
        list.iter()
            .flat_map(|offset| offset.to_le_bytes())
            .collect()
    }

    #[test]
    fn texts_are_read_from_where_the_column_begins() {
        let ends = offsets(&[0, 1, 3, 3, 6]);
        let column = Strings::new("c", Some(&[0b1011]), &ends, b"abbddd", 1, 3).unwrap();
        let read: Vec<_> = (0..3).map(|row| column.value(row)).collect();
        assert_eq!(read, [Some(&b"bb"[..]), None, Some(&b"ddd"[..])]);
        let all = Strings::new("c", None, &ends, b"abbddd", 0, 4).unwrap();
        assert_eq!(all.value(2), Some(&b""[..]));
        assert_eq!(all.value(9), None);
    }

    #[test]
    fn buffers_that_do_not_fit_are_refused() {
        let why = |valid, ends: &[i32], data: &[u8], at, len| {
            let ends = offsets(ends);
            Strings::new("c", valid, &ends, data, at, len)
                .unwrap_err()
                .why
        };
        assert_eq!(why(None, &[0, 1], b"a", 1, 1), "offsets are missing");
        assert_eq!(why(None, &[0, -1], b"a", 0, 1), "offsets are missing");
        assert_eq!(why(None, &[0, 2, 1], b"ab", 0, 2), "offsets do not rise");
        assert_eq!(
            why(None, &[0, 2], b"a", 0, 1),
            "offsets end behind the data"
        );
        assert_eq!(
            why(Some(&[]), &[0, 0], b"", 0, 1),
            "validity bits are missing"
        );
        assert!(Strings::new("c", None, &[], b"", 0, 0).unwrap().is_empty());
        let why = |data: &[u8], width, len| {
            Numbers::new("n", None, data, width, 0, len)
                .unwrap_err()
                .why
        };
        assert_eq!(why(&[0; 7], 8, 1), "numbers are missing");
        assert_eq!(why(&[0; 8], 2, 1), "numbers of 4 or 8 bytes are expected");
    }

    #[test]
    fn numbers_have_two_widths() {
        let short: Vec<u8> = [-5_i32, 7].iter().flat_map(|n| n.to_le_bytes()).collect();
        let column = Numbers::new("n", Some(&[0b10]), &short, 4, 0, 2).unwrap();
        assert_eq!((column.value(0), column.value(1)), (None, Some(7)));
        let long = (1_i64 << 40).to_le_bytes();
        let column = Numbers::new("n", None, &long, 8, 0, 1).unwrap();
        assert_eq!(column.value(0), Some(1 << 40));
    }

    #[test]
    fn maps_give_the_pairs_of_a_row_without_nulls() {
        let (name_ends, value_ends) = (offsets(&[0, 1, 2, 3]), offsets(&[0, 1, 1, 2]));
        let names = Strings::new("k", None, &name_ends, b"abc", 0, 3).unwrap();
        let values = Strings::new("v", Some(&[0b101]), &value_ends, b"13", 0, 3).unwrap();
        let ends = offsets(&[0, 2, 3]);
        let maps = Pairs::new("m", None, &ends, (names, values), 0, 2).unwrap();
        let pairs: Vec<_> = maps.of(0).collect();
        assert_eq!(pairs, [(&b"a"[..], &b"1"[..])]);
        assert_eq!(maps.of(1).count(), 1);
        let null = Pairs::new("m", Some(&[0]), &ends, (names, values), 0, 2).unwrap();
        assert_eq!(null.of(0).count(), 0);
        let beyond = offsets(&[0, 4]);
        assert!(Pairs::new("m", None, &beyond, (names, values), 0, 1).is_err());
    }
}
