//! The window of a shard: marks of what was stored lately, with its place in the log, oldest first.
//!
//! A ring keeps the marks in the order they came, a table of slots finds them. The memory of both
//! is fixed when the window is made; where it is full, the oldest mark goes before its time. Pure
//! state over passed-in times; knows no message, and no file. Nothing here decides that two
//! messages are the same: a mark is a hash, and its owner compares what is at the physical offset.
//!
//! ```text
//! slots   [ tag | at+1 ][ 0 ][ tag | at+1 ] ...    open addressing, linear, two thirds full
//! ring    [ mark, offset ][ mark, offset ] ...     at = number of the entry modulo the capacity
//! times   (number of the first entry, its time) ...
//! ```

use std::collections::VecDeque;

use crate::mark::Mark;

/// Bytes of an entry of the ring.
const ENTRY_BYTES: usize = size_of::<Entry>();
/// Bytes of a slot.
const SLOT_BYTES: usize = size_of::<u64>();
/// Bytes of a mark: an entry, and one and a half slots. At two thirds a look for what is not there
/// passes five slots, nearly always of one or two cache lines.
const MARK_BYTES: usize = ENTRY_BYTES + SLOT_BYTES + SLOT_BYTES / 2;
/// Entries whose time has passed that leave with each new one: more than one, so that they do
/// leave; few, so that no send pays for thousands.
const LEAVING_AT_ONCE: usize = 4;
/// Parts of the window's length by which times are distinguished: what is older than the window by
/// less than this is kept on. A window of any length keeps its times in 24 KiB so, beside its memory.
const TIMES: i64 = 1_024;
/// The most entries that a slot can name.
const ENTRIES_MAX: usize = u32::MAX as usize - 1;

const _: () = assert!(ENTRY_BYTES == 24);

#[derive(Debug, Clone, Copy)]
struct Entry {
    mark: Mark,
    physical_offset: u64,
}

/// The window.
#[derive(Debug)]
pub struct Window {
    ring: Vec<Entry>,
    capacity: usize,
    /// Number of the oldest entry in the ring, and of the next to come.
    first: u64,
    next: u64,
    /// Entries before this one are older than the window.
    expired: u64,
    slots: Vec<u64>,
    used: usize,
    times: VecDeque<(u64, i64)>,
    length_ms: i64,
    grain_ms: i64,
    now_ms: i64,
    displaced: u64,
}

impl Window {
    /// A window of this length in so many bytes at the most.
    #[must_use]
    pub fn new(length_ms: i64, memory_bytes: usize) -> Self {
        let capacity = (memory_bytes / MARK_BYTES).clamp(1, ENTRIES_MAX);
        let slots = capacity + capacity / 2 + 1;
        let length_ms = length_ms.max(1);
        Self {
            ring: Vec::new(),
            capacity,
            first: 0,
            next: 0,
            expired: 0,
            slots: vec![0; slots],
            used: 0,
            times: VecDeque::new(),
            length_ms,
            grain_ms: (length_ms / TIMES).max(1),
            now_ms: i64::MIN,
            displaced: 0,
        }
    }

    /// Remembers a mark with its physical offset, at a time (ms); one that is there already moves.
    pub fn insert(&mut self, mark: Mark, physical_offset: u64, now_ms: i64) {
        self.pass(now_ms);
        for _ in 0..LEAVING_AT_ONCE {
            if self.first >= self.expired {
                break;
            }
            self.leave();
        }
        if self.entries() == self.capacity {
            let is_early = self.first >= self.expired;
            let was_used = self.used;
            self.leave();
            if is_early && self.used < was_used {
                self.displaced += 1;
            }
        }
        let is_new_time = self
            .times
            .back()
            .is_none_or(|(_first, time_ms)| self.now_ms >= time_ms.saturating_add(self.grain_ms));
        if is_new_time {
            self.times.push_back((self.next, self.now_ms));
        }
        let at = self.at(self.next);
        let entry = Entry {
            mark,
            physical_offset,
        };
        match self.ring.get_mut(at) {
            Some(old) => *old = entry,
            None => self.ring.push(entry),
        }
        self.next += 1;
        let slot = self.slot_of(mark);
        let (is_free, at) = match slot {
            Ok(found) => (false, found),
            Err(free) => (true, free),
        };
        if let Some(physical_offset) = self.slots.get_mut(at) {
            *physical_offset = packed(mark, (self.next - 1) % self.capacity as u64);
        }
        self.used += usize::from(is_free);
    }

    /// The place that goes with a mark that came within the window.
    pub fn find(&mut self, mark: Mark, now_ms: i64) -> Option<u64> {
        self.pass(now_ms);
        let slot = self.slot_of(mark).ok()?;
        let at = index_of(*self.slots.get(slot)?)?;
        (self.number(at) >= self.expired)
            .then(|| self.ring.get(at).map(|entry| entry.physical_offset))?
    }

    /// Forgets a mark.
    pub fn forget(&mut self, mark: Mark) {
        if let Ok(slot) = self.slot_of(mark) {
            self.free(slot);
        }
    }

    /// Marks that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    fn entries(&self) -> usize {
        (self.next - self.first) as usize
    }

    /// Marks that the memory is enough for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Marks that left before their time, because the memory was full.
    #[must_use]
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// How far back the window reaches now, ms: less than its length once marks had to leave before
    /// their time, until those that are left are older.
    #[must_use]
    pub fn reach_ms(&self, now_ms: i64) -> i64 {
        // Only a full ring may have lost something that was younger than the window.
        if self.entries() < self.capacity {
            return self.length_ms;
        }
        let first = self.times.front();
        // Where in its grain the first one came is not known.
        let since_ms = first.map_or(now_ms, |(_number, time_ms)| time_ms + self.grain_ms);
        now_ms.saturating_sub(since_ms).clamp(0, self.length_ms)
    }

    /// Lets time pass: what is older than the window counts no more.
    fn pass(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
        while let Some((_number, time_ms)) = self.times.front() {
            let last_ms = time_ms.saturating_add(self.grain_ms);
            if last_ms.saturating_add(self.length_ms) > self.now_ms {
                break;
            }
            self.times.pop_front();
            self.expired = self.times.front().map_or(self.next, |(number, _)| *number);
        }
    }

    /// Takes the oldest entry out.
    fn leave(&mut self) {
        let at = self.at(self.first);
        if let Some(entry) = self.ring.get(at).copied() {
            // A mark that came again has its slot for the newer entry.
            if let Ok(slot) = self.slot_of(entry.mark)
                && self.slots.get(slot).copied().and_then(index_of) == Some(at)
            {
                self.free(slot);
            }
        }
        self.first += 1;
        self.expired = self.expired.max(self.first);
        // The first time is that of the oldest entry that is left.
        while self
            .times
            .get(1)
            .is_some_and(|(number, _)| *number <= self.first)
        {
            self.times.pop_front();
        }
    }

    fn at(&self, number: u64) -> usize {
        (number % self.capacity as u64) as usize
    }

    /// The number of the entry that lies at a slot of the ring.
    fn number(&self, at: usize) -> u64 {
        let capacity = self.capacity as u64;
        let behind = (at as u64 + capacity - self.first % capacity) % capacity;
        self.first + behind
    }

    /// The slot where a tag's marks begin.
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() {
            0
        } else {
            slot + 1
        }
    }

    /// Slots from one to another, forward.
    fn ahead(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots.len() - from
        }
    }

    /// The slot of a mark, or the free one where it would go.
    fn slot_of(&self, mark: Mark) -> Result<usize, usize> {
        let mut slot = self.home(mark.tag());
        // A third of the slots is free.
        loop {
            let packed = self.slots.get(slot).copied().unwrap_or(0);
            let Some(at) = index_of(packed) else {
                return Err(slot);
            };
            if tag_of(packed) == mark.tag() && self.ring.get(at).is_some_and(|e| e.mark == mark) {
                return Ok(slot);
            }
            slot = self.after(slot);
        }
    }

    /// Empties a slot; those behind it move up, so that each is found from its home on.
    fn free(&mut self, slot: usize) {
        let mut hole = slot;
        let mut next = self.after(hole);
        while let Some(packed) = self.slots.get(next).copied().filter(|packed| *packed != 0) {
            let home = self.home(tag_of(packed));
            // It may move unless its home lies behind the hole.
            if self.ahead(home, next) >= self.ahead(hole, next) {
                if let Some(free) = self.slots.get_mut(hole) {
                    *free = packed;
                }
                hole = next;
            }
            next = self.after(next);
        }
        if let Some(free) = self.slots.get_mut(hole) {
            *free = 0;
        }
        self.used -= 1;
    }
}

fn packed(mark: Mark, at: u64) -> u64 {
    u64::from(mark.tag()) << 32 | (at + 1)
}

/// The entry in the ring that a slot names; `None` for a free one.
fn index_of(packed: u64) -> Option<usize> {
    ((packed & u64::from(u32::MAX)) as usize).checked_sub(1)
}

fn tag_of(packed: u64) -> u32 {
    (packed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Few tags, so that many marks share a home, and some their whole tag.
    fn mark(key: u8) -> Mark {
        Mark {
            low: u64::from(key % 5) << 40 | u64::from(u32::from(key % 7) * 0x2492_4924),
            high: u64::from(key),
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8),
        Find(u8),
        Forget(u8),
        Pass(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => (0_u8..24).prop_map(Step::Insert),
            5 => (0_u8..24).prop_map(Step::Find),
            1 => (0_u8..24).prop_map(Step::Forget),
            2 => (-50_i64..2_500).prop_map(Step::Pass),
        ]
    }

    /// What was inserted, naively.
    #[derive(Default)]
    struct Model {
        all: Vec<(u8, u64, i64)>,
        forgotten: Vec<usize>,
        now_ms: i64,
    }

    impl Model {
        /// The newest entry of a key, with its time, unless the memory was not enough for it.
        fn newest(&self, key: u8, capacity: usize) -> Option<(u64, i64)> {
            let kept_from = self.all.len().saturating_sub(capacity);
            let newest = self.all.iter().rposition(|each| each.0 == key)?;
            let is_kept = newest >= kept_from && !self.forgotten.contains(&newest);
            is_kept.then(|| (self.all[newest].1, self.all[newest].2))
        }
    }

    proptest! {
        #[test]
        fn the_window_knows_what_a_list_of_everything_knows(
            memory_bytes in 0_usize..900,
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let length_ms = 5_000;
            let mut window = Window::new(length_ms, memory_bytes);
            let capacity = window.capacity();
            let mut model = Model::default();
            for (at, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(key) => {
                        let physical_offset = at as u64 * 100;
                        window.insert(mark(key), physical_offset, model.now_ms);
                        model.all.push((key, physical_offset, window.now_ms));
                    }
                    Step::Forget(key) => {
                        window.forget(mark(key));
                        if let Some(newest) = model.all.iter().rposition(|each| each.0 == key) {
                            model.forgotten.push(newest);
                        }
                    }
                    Step::Pass(by_ms) => model.now_ms += by_ms,
                    Step::Find(key) => {
                        let found = window.find(mark(key), model.now_ms);
                        let now_ms = window.now_ms;
                        match model.newest(key, capacity) {
                            None => prop_assert_eq!(found, None),
                            Some((physical_offset, time_ms)) if time_ms + length_ms > now_ms => {
                                prop_assert_eq!(found, Some(physical_offset));
                            }
                            Some((_, time_ms))
                                if time_ms + length_ms + window.grain_ms <= now_ms =>
                            {
                                prop_assert_eq!(found, None);
                            }
                            Some((physical_offset, _)) => prop_assert!(found.is_none_or(|is| is == physical_offset)),
                        }
                    }
                }
                prop_assert!(window.len() <= capacity);
                prop_assert!(window.used <= window.entries());
                let used = window.slots.iter().filter(|slot| **slot != 0).count();
                prop_assert_eq!(window.used, used);
                prop_assert!((0..=length_ms).contains(&window.reach_ms(model.now_ms)));
            }
        }
    }

    #[test]
    fn where_memory_is_short_the_window_shortens_and_reports_it() {
        let mut window = Window::new(60_000, 64 * 32);
        let capacity = window.capacity() as u64;
        let mark = |at: u64| Mark { low: at, high: !at };
        for at in 0..capacity {
            window.insert(mark(at), at, at as i64 * 10);
        }
        let now_ms = capacity as i64 * 10;
        assert_eq!(window.displaced(), 0);
        for at in capacity..capacity * 2 {
            window.insert(mark(at), at, at as i64 * 10);
        }
        assert_eq!(window.displaced(), capacity);
        let now_ms = now_ms * 2;
        assert_eq!(window.find(mark(0), now_ms), None);
        assert_eq!(window.find(mark(capacity), now_ms), Some(capacity));
        assert!(window.reach_ms(now_ms) <= capacity as i64 * 10);
        let much_later_ms = now_ms + 61_000;
        window.insert(mark(7), 7, much_later_ms);
        assert_eq!(window.displaced(), capacity, "those had had their time");
        assert_eq!(window.reach_ms(much_later_ms), 60_000);
    }

    #[test]
    fn the_memory_is_what_was_asked_for() {
        for bytes in [1 << 20, 64 << 20, 100_000_000] {
            let window = Window::new(1, bytes);
            let needed = window.capacity() * ENTRY_BYTES + window.slots.len() * SLOT_BYTES;
            assert!(needed <= bytes + SLOT_BYTES, "{needed} of {bytes}");
            assert_eq!(window.capacity(), bytes / 36);
            assert!(window.capacity() * 3 <= window.slots.len() * 2);
        }
    }
}
