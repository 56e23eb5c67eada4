//! The bytes of one file of the twin: pages that images share until one of them writes. Knows no
//! name, no event and no lock.

use std::sync::Arc;

/// What the page cache and the device trade in.
pub(super) const PAGE_BYTES: usize = 4096;
/// The longest file: a bound for the table of pages, far above what a test writes.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 36;

pub(super) type Page = [u8; PAGE_BYTES];

static ZEROS: Page = [0; PAGE_BYTES];

/// A file's bytes and what `stat` returns of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) len_bytes: u64,
    /// `None` is a page that was never written: it reads as zeros.
    pub(super) pages: Vec<Option<Arc<Page>>>,
    /// Everything below was allocated, written or not.
    pub(super) allocated_to: u64,
    pub(super) modified_ms: i64,
    pub(super) mark: u64,
}

impl Content {
    /// The page, zeros where there is none.
    pub(super) fn page(&self, number: usize) -> &Page {
        match self.pages.get(number) {
            Some(Some(page)) => page,
            _ => &ZEROS,
        }
    }

    /// Puts a page in its place.
    pub(super) fn put(&mut self, number: usize, page: Arc<Page>) {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        if let Some(slot) = self.pages.get_mut(number) {
            *slot = Some(page);
        }
    }

    /// Copies what there is from `position`; gives the number of bytes.
    pub(super) fn read(&self, into: &mut [u8], position: u64) -> usize {
        let left = self.len_bytes.saturating_sub(position);
        let len = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if let Some(into) = into.get_mut(..len) {
            for part in parts(position, len) {
                let page = self.page(part.page);
                into[part.at_source..part.at_source + part.len]
                    .copy_from_slice(&page[part.at_page..part.at_page + part.len]);
            }
        }
        len
    }

    /// Writes all of `bytes`; the file grows as needed.
    pub(super) fn write(&mut self, bytes: &[u8], position: u64) {
        for part in parts(position, bytes.len()) {
            if self.pages.len() <= part.page {
                self.pages.resize(part.page + 1, None);
            }
            if let Some(slot) = self.pages.get_mut(part.page) {
                let page = slot.get_or_insert_with(|| Arc::new(ZEROS));
                let from = &bytes[part.at_source..part.at_source + part.len];
                Arc::make_mut(page)[part.at_page..part.at_page + part.len].copy_from_slice(from);
            }
        }
        self.len_bytes = self.len_bytes.max(position + bytes.len() as u64);
    }

    /// Sets the length; what is cut off reads as zeros when the file grows again. True when bytes
    /// other than zeros were cut.
    pub(super) fn set_len(&mut self, len_bytes: u64) -> bool {
        self.len_bytes = len_bytes;
        self.allocated_to = self.allocated_to.min(len_bytes);
        let whole = (len_bytes / PAGE_BYTES as u64) as usize;
        let rest = (len_bytes % PAGE_BYTES as u64) as usize;
        let kept = whole + usize::from(rest > 0);
        let mut changed = false;
        if self.pages.len() > kept {
            changed = self.pages[kept..].iter().any(Option::is_some);
            self.pages.truncate(kept);
        }
        if rest > 0
            && let Some(Some(page)) = self.pages.get_mut(whole)
            && page[rest..].iter().any(|byte| *byte != 0)
        {
            Arc::make_mut(page)[rest..].fill(0);
            changed = true;
        }
        changed
    }

    /// Pages of the range that have no space on the device yet.
    pub(super) fn pages_missing(&self, position: u64, len_bytes: u64) -> u64 {
        let page = PAGE_BYTES as u64;
        let first = position.max(self.allocated_to.next_multiple_of(page)) / page;
        let end = (position + len_bytes).div_ceil(page);
        let held = |number: &u64| matches!(self.pages.get(*number as usize), Some(Some(_)));
        let pages_end = (self.pages.len() as u64).clamp(first, end.max(first));
        let holes = (first..pages_end).filter(|number| !held(number)).count() as u64;
        holes + end.saturating_sub(pages_end)
    }

    /// Pages that have space on the device.
    pub(super) fn pages_held(&self) -> u64 {
        let below = self.allocated_to.div_ceil(PAGE_BYTES as u64);
        let above = self.pages.iter().skip(below as usize);
        below + above.filter(|page| page.is_some()).count() as u64
    }
}

/// The part of a range that lies in one page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) page: usize,
    pub(super) at_page: usize,
    pub(super) at_source: usize,
    pub(super) len: usize,
}

/// A range, page by page.
pub(super) fn parts(position: u64, len: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = position + done as u64;
        let at_page = (at % PAGE_BYTES as u64) as usize;
        let part = Part {
            page: (at / PAGE_BYTES as u64) as usize,
            at_page,
            at_source: done,
            len: (PAGE_BYTES - at_page).min(len - done),
        };
        done += part.len;
        Some(part)
    })
}

/// What a page adds to the hash of its file; a page of zeros adds nothing, written or not.
pub(super) fn page_term(number: usize, page: &Page) -> u128 {
    if page == &ZEROS {
        return 0;
    }
    hash_bytes(page, number as u64)
}

/// A 128-bit hash that distinguishes images; not one to keep on a disk.
pub(super) fn hash_bytes(bytes: &[u8], seed: u64) -> u128 {
    const A: u64 = 0x9e37_79b9_7f4a_7c15;
    const B: u64 = 0xd6e8_feb8_6659_fd93;
    let mut low = mix(seed ^ A);
    let mut high = mix(seed ^ B);
    let mut step = |word: u64| {
        low = (low ^ word).wrapping_mul(A).rotate_left(29);
        high = (high.rotate_left(23) ^ word).wrapping_mul(B);
        high ^= high >> 32;
    };
    let mut words = bytes.chunks_exact(8);
    for word in words.by_ref() {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        step(u64::from_le_bytes(eight));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(words.remainder()) {
        *to = *from;
    }
    step(u64::from_le_bytes(last));
    step(bytes.len() as u64);
    (u128::from(mix(high)) << 64) | u128::from(mix(low))
}

/// Spreads every bit of `value` over all of them (the finisher of splitmix64).
pub(super) fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_cut_is_gone() {
        let mut content = Content::default();
        content.write(b"abcdef", 4093);
        assert_eq!(content.len_bytes, 4099);
        let mut into = [9; 8];
        assert_eq!(content.read(&mut into, 4092), 7);
        assert_eq!(&into, b"\0abcdef\x09");
        assert!(content.set_len(4094));
        assert!(!content.set_len(8000));
        assert_eq!(content.read(&mut into, 4092), 8);
        assert_eq!(&into, b"\0a\0\0\0\0\0\0");
    }

    #[test]
    fn space_is_counted_by_page() {
        let mut content = Content::default();
        assert_eq!(content.pages_missing(4000, 200), 2);
        content.write(&[1], 4096);
        assert_eq!(content.pages_missing(0, 8192), 1);
        assert_eq!(content.pages_held(), 1);
        content.allocated_to = 5000;
        assert_eq!(content.pages_missing(0, 8193), 1);
        assert_eq!(content.pages_held(), 2);
    }
}
