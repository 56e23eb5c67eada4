//! What the store reports to its owner: a bounded list that the owner drains. No Rust thread ever
//! calls the owner; when nobody drains, the oldest notices are dropped and counted.

use std::collections::VecDeque;

use crate::lock::Mutex;

/// Notices kept until drained. At a few per second in the worst case this is minutes of history;
/// more would only repeat itself.
const NOTICES_MAX: usize = 1024;

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Works, but something should be changed.
    Warning,
    /// Something is refused or lost.
    Error,
}

/// One notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// Whole sentences.
    pub text: String,
}

/// The bounded list of notices.
#[derive(Debug, Default)]
pub struct Notices {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    list: VecDeque<Notice>,
    dropped: u64,
}

impl Notices {
    /// Adds one; the oldest is dropped at the bound.
    pub fn push(&self, level: Level, text: impl Into<String>) {
        let mut kept = self.kept.lock();
        if kept.list.len() == NOTICES_MAX {
            kept.list.pop_front();
            kept.dropped += 1;
        }
        kept.list.push_back(Notice {
            level,
            text: text.into(),
        });
    }

    /// Something worth knowing.
    pub fn info(&self, text: impl Into<String>) {
        self.push(Level::Info, text);
    }

    /// Something that should be changed.
    pub fn warn(&self, text: impl Into<String>) {
        self.push(Level::Warning, text);
    }

    /// Something refused or lost.
    pub fn error(&self, text: impl Into<String>) {
        self.push(Level::Error, text);
    }

    /// Takes all, oldest first; with how many were dropped before.
    #[must_use]
    pub fn drain(&self) -> Vec<Notice> {
        let mut kept = self.kept.lock();
        let mut out: Vec<Notice> = kept.list.drain(..).collect();
        if kept.dropped > 0 {
            let text = format!("{} older notices were dropped unread", kept.dropped);
            out.insert(
                0,
                Notice {
                    level: Level::Warning,
                    text,
                },
            );
            kept.dropped = 0;
        }
        out
    }
}
