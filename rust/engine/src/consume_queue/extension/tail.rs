//! What is kept in memory of the extension of one queue, and where its next unit goes. Knows no
//! file; the modules beside it move the bytes there.
//!
//! Bytes `[0, written)` are in files, `[written, end)` are in `bytes`. A queue that has no
//! extension has none of this.

use super::unit::{
    END_BLANK_LEN, END_MARK, EXT_OFFSET_MAX, Extended, UNIT_LEN_MAX, ext_address_of,
};

/// How much is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::consume_queue) enum Ready {
    /// Nobody has looked where it ends.
    #[default]
    Unknown,
    /// Units can be put.
    Yes,
    /// It cannot be used until the store is opened again: its queue gets tags codes.
    Never,
}

/// The extension of one queue. See the head of this file.
#[derive(Debug, Default)]
pub struct Tail {
    pub(in crate::consume_queue) ready: Ready,
    pub(super) written: u64,
    pub(super) end: u64,
    /// One after the last byte of the newest file; 0 when there is none.
    pub(super) files_end: u64,
    /// Whether there is a file.
    pub(super) has_files: bool,
    pub(super) bytes: Vec<u8>,
}

impl Tail {
    /// Puts a unit behind the others; the code that names it. `None` where it does not fit into
    /// a file or has no offset that a code can name (`ConsumeQueueExt.put` fails for it).
    pub(super) fn put(&mut self, unit: &Extended<'_>, file_len_bytes: u64) -> Option<i64> {
        let len = unit.len();
        let needed = len as u64 + END_BLANK_LEN;
        if len > UNIT_LEN_MAX || needed > file_len_bytes || self.end > EXT_OFFSET_MAX - needed * 2 {
            return None;
        }
        let left = file_len_bytes - self.end % file_len_bytes;
        if needed > left {
            // Never more than a unit and the blank at the end.
            let padded = self.bytes.len() + left as usize;
            self.bytes.extend_from_slice(&END_MARK);
            self.bytes.resize(padded, 0);
            self.end += left;
        }
        let ext_offset = self.end;
        unit.encode_into(&mut self.bytes);
        self.end += len as u64;
        Some(ext_address_of(ext_offset))
    }

    /// The bytes from a place on, up to so many, when they are not in a file.
    pub(super) fn bytes_from(&self, ext_offset: u64, len_max: usize) -> Option<&[u8]> {
        if self.ready != Ready::Yes {
            return None;
        }
        let from = usize::try_from(ext_offset.checked_sub(self.written)?).ok()?;
        let rest = self.bytes.get(from..).unwrap_or_default();
        Some(rest.get(..len_max).unwrap_or(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::super::unit::ext_offset_of;
    use super::*;

    const FILE: u64 = 100;

    fn ready() -> Tail {
        Tail {
            ready: Ready::Yes,
            ..Tail::default()
        }
    }

    fn unit(bits: &[u8]) -> Extended<'_> {
        Extended {
            tags_code: 1,
            store_timestamp_ms: 2,
            bits,
        }
    }

    #[test]
    fn units_follow_one_another_and_never_cross_a_file() {
        let mut tail = ready();
        let ext_offsets: Vec<u64> = (0..10u8)
            .map(|n| {
                let bits = [n; 10];
                ext_offset_of(tail.put(&unit(&bits), FILE).unwrap()).unwrap()
            })
            .collect();
        // 30 bytes each, four stay free: three in a file, and ten bytes left.
        assert_eq!(ext_offsets, [0, 30, 60, 100, 130, 160, 200, 230, 260, 300]);
        assert_eq!(tail.bytes[90..100], [0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((tail.end, tail.bytes.len()), (330, 330));
        for (n, ext_offset) in ext_offsets.iter().enumerate() {
            let found = Extended::decode(tail.bytes_from(*ext_offset, 30).unwrap()).unwrap();
            assert_eq!(found.bits, [n as u8; 10]);
        }
        assert_eq!(tail.bytes_from(330, 30), Some(&[][..]));
    }

    #[test]
    fn a_unit_that_just_leaves_the_blank_fits() {
        let mut tail = ready();
        let (fits, too_long) = ([0; 76], [0; 77]);
        assert_eq!(tail.put(&unit(&too_long), FILE), None);
        assert_eq!(tail.put(&unit(&fits), FILE), Some(i64::MIN));
        assert_eq!(tail.end, 96);
        assert_eq!(tail.put(&unit(&fits), FILE), Some(i64::MIN + 100));
    }

    #[test]
    fn offsets_end_where_codes_would_be_hashes() {
        let mut tail = ready();
        tail.end = EXT_OFFSET_MAX - 30;
        assert_eq!(tail.put(&unit(&[]), 48 << 20), None);
    }
}
