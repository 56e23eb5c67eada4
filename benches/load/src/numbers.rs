//! Which messages of a run have the next turn: those that were never sent, and those that are sent
//! again. Knows no socket.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

/// The messages that are to be sent, by number.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The next message that was never sent.
    next: u64,
    end: u64,
    /// Messages per request.
    batch: u64,
    again: VecDeque<Range<u64>>,
    refused: VecDeque<(Instant, Range<u64>)>,
}

impl Numbers {
    /// Messages up to `end`, so many in a request.
    pub(crate) fn new(end: u64, batch: u32) -> Self {
        Self {
            next: 0,
            end,
            batch: u64::from(batch),
            again: VecDeque::new(),
            refused: VecDeque::new(),
        }
    }

    /// Takes the messages of the next request.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Range<u64>> {
        if let Some((at, _)) = self.refused.front()
            && *at <= now
            && let Some((_, numbers)) = self.refused.pop_front()
        {
            return Some(numbers);
        }
        if let Some(numbers) = self.again.pop_front() {
            return Some(numbers);
        }
        if self.next >= self.end {
            return None;
        }
        let first = self.next;
        self.next = self.end.min(first.saturating_add(self.batch));
        Some(first..self.next)
    }

    /// Their connection has ended: they are sent again at once.
    pub(crate) fn lost(&mut self, numbers: Range<u64>) {
        self.again.push_back(numbers);
    }

    /// They were refused: they are sent again at that time.
    pub(crate) fn refused(&mut self, at: Instant, numbers: Range<u64>) {
        self.refused.push_back((at, numbers));
    }

    /// When the first that was refused is sent again.
    pub(crate) fn next_refused(&self) -> Option<Instant> {
        self.refused.front().map(|(at, _)| *at)
    }

    /// Whether none is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.next >= self.end && self.again.is_empty() && self.refused.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_sent_again_comes_before_what_was_never_sent() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut numbers = Numbers::new(5, 2);
        assert_eq!(numbers.take(now), Some(0..2));
        numbers.refused(later, 0..2);
        assert_eq!(numbers.next_refused(), Some(later));
        assert_eq!(numbers.take(now), Some(2..4));
        numbers.lost(2..4);
        assert_eq!(numbers.take(now), Some(2..4));
        assert_eq!(numbers.take(now), Some(4..5));
        assert_eq!(numbers.take(now), None);
        assert!(!numbers.is_empty());
        assert_eq!(numbers.take(later), Some(0..2));
        assert!(numbers.is_empty());
    }
}
