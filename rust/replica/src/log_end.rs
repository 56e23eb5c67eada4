//! Whether a log has all that another one had, or it itself at another time: by the epoch of that one's last byte.
//! Knows no file.

use crate::epochs::{EpochTable, NO_EPOCH};

/// Where a log ended, by the master that has written its last byte. A log that has this end anywhere has the
/// same bytes before it: masters of two epochs may have written other bytes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The epoch of the last byte; [`NO_EPOCH`] where it has none.
    pub epoch: i32,
    /// Physical offset of the end.
    pub offset: u64,
}

impl EpochTable {
    /// The end of a log that ends, or has ended, at `offset`.
    #[must_use]
    pub fn end_at(&self, offset: u64) -> LogEnd {
        let last = offset.checked_sub(1).and_then(|last| self.at(last));
        let epoch = last.map_or(NO_EPOCH, |(entry, _end)| entry.epoch);
        LogEnd { epoch, offset }
    }

    /// Whether a log that ends at `log_end` has what a log with the end `end` had. Of an epoch that is forgotten
    /// with its files the log has what lies before the first epoch left; what has no epoch was written before
    /// a controller was there, and nobody has cut it.
    #[must_use]
    pub fn has(&self, end: LogEnd, log_end: u64) -> bool {
        if end.epoch == NO_EPOCH {
            return end.offset <= log_end;
        }
        let at = self
            .entries()
            .partition_point(|entry| entry.epoch < end.epoch);
        let part_end = match self.entries().get(at) {
            Some(entry) if entry.epoch == end.epoch => self.end_of(end.epoch, log_end),
            Some(first) if at == 0 => first.start,
            _ => return false,
        };
        end.offset <= part_end.min(log_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epochs::tests::table;

    #[test]
    fn a_log_has_an_end_whose_epoch_reaches_so_far() {
        let log = table(&[(1, 0), (2, 100), (3, 100), (5, 300)]);
        let end = |epoch, offset| LogEnd { epoch, offset };
        assert_eq!(log.end_at(0), end(NO_EPOCH, 0));
        assert_eq!(log.end_at(100), end(1, 100));
        assert_eq!(log.end_at(101), end(3, 101));
        assert_eq!(log.end_at(400), end(5, 400));
        for (one, has) in [
            (end(1, 100), true),
            (end(1, 101), false),
            (end(2, 101), false),
            (end(3, 300), true),
            (end(4, 301), false),
            (end(5, 400), true),
            (end(5, 401), false),
            (end(6, 301), false),
            (end(NO_EPOCH, 400), true),
            (end(NO_EPOCH, 401), false),
        ] {
            assert_eq!(log.has(one, 400), has, "{one:?}");
        }
        // Epochs whose files are gone, and a log without any.
        let later = table(&[(3, 100), (5, 300)]);
        assert!(later.has(end(1, 100), 400) && !later.has(end(1, 101), 400));
        assert!(!EpochTable::default().has(end(0, 1), 400));
    }
}
