//! What a range of a map will be used for, in the kernel's words. Knows no map.

use memmap2::Advice;

/// What a range of a map will be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Soon, all of it.
    WillNeed,
    /// Front to back, once.
    Sequential,
    /// Here and there: read-ahead would be a waste.
    Random,
    /// No special use.
    Normal,
    /// Not in forked children.
    DontFork,
    /// With huge pages where the file system has them.
    HugePages,
}

impl Use {
    /// The word of the kernel.
    pub(super) fn advice(self) -> Advice {
        match self {
            Self::WillNeed => Advice::WillNeed,
            Self::Sequential => Advice::Sequential,
            Self::Random => Advice::Random,
            Self::Normal => Advice::Normal,
            Self::DontFork => Advice::DontFork,
            Self::HugePages => Advice::HugePage,
        }
    }
}
