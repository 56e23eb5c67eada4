//! What somebody copies of a log: its files are kept until that is done, as long as the disk has space.
//! Knows offsets, no file.

use std::collections::BTreeMap;

use crate::lock::Mutex;

/// The places from which on a log is held.
#[derive(Debug, Default)]
pub struct Holds {
    by_id: Mutex<(u64, BTreeMap<u64, u64>)>,
}

impl Holds {
    /// Holds the log from `from` on; the id of the hold.
    #[must_use]
    pub fn take(&self, from: u64) -> u64 {
        let (next_id, by_id) = &mut *self.by_id.lock();
        let id = *next_id;
        *next_id += 1;
        by_id.insert(id, from);
        id
    }

    /// Holds it from `from` on alone: what is before was copied.
    pub fn go_on(&self, id: u64, from: u64) {
        if let Some(held) = self.by_id.lock().1.get_mut(&id) {
            *held = from;
        }
    }

    /// Gives a hold back.
    pub fn give_back(&self, id: u64) {
        self.by_id.lock().1.remove(&id);
    }

    /// Whether a file that ends at `end` is held.
    #[must_use]
    pub fn keep(&self, end: u64) -> bool {
        self.by_id.lock().1.values().any(|from| *from < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_as_long_as_one_holds_it() {
        let holds = Holds::default();
        assert!(!holds.keep(u64::MAX));
        let (low, high) = (holds.take(100), holds.take(300));
        assert!(!holds.keep(100) && holds.keep(101));
        holds.go_on(low, 400);
        assert!(!holds.keep(300) && holds.keep(301));
        holds.give_back(high);
        assert!(!holds.keep(400) && holds.keep(401));
        holds.give_back(low);
        assert!(!holds.keep(u64::MAX));
    }
}
