//! What happened, in order: a mark of everything, by which two runs are compared, and lines for a reader where
//! they are wanted.

use std::fmt::Debug;

/// The trace of a history.
#[derive(Debug)]
pub(crate) struct Trace {
    mark: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keeps_lines: bool) -> Self {
        Self {
            mark: 0xcbf2_9ce4_8422_2325,
            lines: keeps_lines.then(Vec::new),
        }
    }

    /// Notes a number of a step.
    pub(crate) fn note(&mut self, number: u64) {
        self.mark = (self.mark ^ number).wrapping_mul(0x0100_0000_01b3);
        self.mark ^= self.mark >> 29;
    }

    /// Notes an event at a time.
    pub(crate) fn event(&mut self, now_ms: u64, event: impl Debug) {
        self.note(now_ms);
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now_ms:>8} {event:?}"));
        }
    }

    /// Notes what came of it.
    pub(crate) fn line(&mut self, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("             {}", text()));
        }
    }

    /// The same for runs in which the same happened.
    pub(crate) fn mark(&self) -> u64 {
        self.mark
    }

    /// The lines, where they were kept.
    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
