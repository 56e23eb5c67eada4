//! What one page may hold after a crash: its durable bytes, or any prefix of the open writes on it,
//! the last of them torn. Knows one page and nothing else.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::content::{Page, page_term};
use super::replay::{OpenWrite, compose};

/// What a device writes whole or not at all.
const SECTOR_BYTES: usize = 512;
/// What the processor writes whole: write-back may take a page in the middle of a copy into it.
const WORD_BYTES: usize = 8;

/// How the last write on a page may be torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tear {
    /// Not at all.
    Whole,
    /// At sectors: the front of it came through, or the back.
    Sectors,
    /// As with sectors, and the front of it up to any 8 bytes.
    #[default]
    Words,
}

impl Tear {
    pub(super) fn letter(self) -> char {
        match self {
            Self::Whole => 'p',
            Self::Sectors => 's',
            Self::Words => 'w',
        }
    }

    pub(super) fn of_letter(letter: &str) -> Option<Self> {
        match letter {
            "p" => Some(Self::Whole),
            "s" => Some(Self::Sectors),
            "w" => Some(Self::Words),
            _ => None,
        }
    }
}

/// Where a write was torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Torn {
    /// The bytes of the page before this came through.
    Front(usize),
    /// The bytes from here on came through.
    Back(usize),
}

/// One content that a page may have.
pub(super) struct Variant {
    /// Writes kept, the last one torn if `torn` is set. 0 is the durable page.
    kept: usize,
    torn: Option<Torn>,
    made: OnceLock<(Arc<Page>, u128)>,
}

impl fmt::Debug for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Variant({}, {:?})", self.kept, self.torn)
    }
}

/// All contents that a page may have, in the order of their writes; the last is everything.
#[derive(Debug)]
pub(super) struct Variants {
    pub(super) number: usize,
    base: Arc<Page>,
    pub(super) all: Vec<Variant>,
}

impl Variants {
    pub(super) fn of(number: usize, base: &Page, writes: &[OpenWrite], tear: Tear) -> Self {
        let base = Arc::new(*base);
        let mut all = vec![Variant::new(0, None)];
        let mut before = &base;
        for (index, write) in writes.iter().enumerate() {
            for torn in tears(before, write, tear) {
                all.push(Variant::new(index + 1, Some(torn)));
            }
            all.push(Variant::new(index + 1, None));
            before = &write.after;
        }
        Self { number, base, all }
    }

    /// The content of a choice, and what it adds to the hash of the file.
    pub(super) fn page(&self, choice: usize, writes: &[OpenWrite]) -> (Arc<Page>, u128) {
        let Some(variant) = self.all.get(choice) else {
            return (Arc::clone(&self.base), 0);
        };
        let make = || {
            let page = variant.make(&self.base, writes);
            let term = page_term(self.number, &page);
            (page, term)
        };
        variant.made.get_or_init(make).clone()
    }

    /// The same where cuts of the file were kept: they came between the writes.
    pub(super) fn page_with_cuts(
        &self,
        choice: usize,
        writes: &[OpenWrite],
        cuts: &[(u64, u64)],
    ) -> Page {
        let (kept, torn) = self.all.get(choice).map_or((0, None), |v| (v.kept, v.torn));
        let kept = writes.get(..kept).unwrap_or_default();
        let whole = compose(self.number, &self.base, kept, cuts);
        match (torn, kept.split_last()) {
            (Some(torn), Some((last, earlier))) => {
                let before = compose(self.number, &self.base, earlier, cuts);
                tear_page(&before, &whole, last, torn)
            }
            _ => whole,
        }
    }

    /// The choice that keeps everything up to an event, whole.
    pub(super) fn up_to(&self, event: u64, writes: &[OpenWrite]) -> usize {
        let kept = writes.iter().take_while(|w| w.event <= event).count();
        let is_it = |variant: &Variant| variant.kept == kept && variant.torn.is_none();
        self.all.iter().position(is_it).unwrap_or(0)
    }

    /// The first choice that has something of an event.
    pub(super) fn first_with(&self, event: u64, writes: &[OpenWrite]) -> Option<usize> {
        let kept = writes.iter().position(|write| write.event == event)? + 1;
        self.all.iter().position(|variant| variant.kept == kept)
    }
}

impl Variant {
    fn new(kept: usize, torn: Option<Torn>) -> Self {
        let made = OnceLock::new();
        Self { kept, torn, made }
    }

    fn make(&self, base: &Arc<Page>, writes: &[OpenWrite]) -> Arc<Page> {
        let page_after = |kept: usize| match kept.checked_sub(1) {
            Some(index) => writes.get(index).map_or(base, |write| &write.after),
            None => base,
        };
        let whole = page_after(self.kept);
        match (self.torn, writes.get(self.kept.wrapping_sub(1))) {
            (Some(torn), Some(write)) => {
                let before = page_after(self.kept - 1);
                Arc::new(tear_page(before, whole, write, torn))
            }
            _ => Arc::clone(whole),
        }
    }
}

fn tear_page(before: &Page, whole: &Page, write: &OpenWrite, torn: Torn) -> Page {
    let mut page = *before;
    let came = match torn {
        Torn::Front(end) => write.at..end,
        Torn::Back(start) => start..write.at + write.len,
    };
    page[came.clone()].copy_from_slice(&whole[came]);
    page
}

/// Every way to tear a write that gives bytes which no other way gives.
fn tears(before: &Page, write: &OpenWrite, tear: Tear) -> Vec<Torn> {
    let after = &*write.after;
    let end = write.at + write.len;
    let differs = |from: usize, to: usize| before.get(from..to) != after.get(from..to);
    let mut found = Vec::new();
    let step = match tear {
        Tear::Whole => return found,
        Tear::Sectors => SECTOR_BYTES,
        Tear::Words => WORD_BYTES,
    };
    let cuts = |step: usize| ((write.at / step + 1) * step..end).step_by(step);
    let mut last = write.at;
    for cut in cuts(step) {
        if differs(last, cut) && differs(cut, end) {
            found.push(Torn::Front(cut));
            last = cut;
        }
    }
    last = write.at;
    for cut in cuts(SECTOR_BYTES) {
        if differs(last, cut) && differs(cut, end) {
            found.push(Torn::Back(cut));
            last = cut;
        }
    }
    found
}
