//! Values in numbered places: found by their number, walked over by it, and given up in any order.
//! A place is used again, so that numbers stay small. Knows no value.

/// Places kept when all are empty; more of them are given back.
const KEPT_EMPTY_MAX: usize = 1_024;

/// The places.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    /// In boxes: a list that grows moves all that it holds in one go.
    entries: Vec<Option<Box<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// Puts a value into a place; its number.
    pub(crate) fn insert(&mut self, value: T) -> usize {
        if let Some(at) = self.free.pop()
            && let Some(slot) = self.entries.get_mut(at)
        {
            *slot = Some(Box::new(value));
            return at;
        }
        self.entries.push(Some(Box::new(value)));
        self.entries.len() - 1
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.entries.get(at)?.as_deref()
    }

    pub(crate) fn at_mut(&mut self, at: usize) -> Option<&mut T> {
        self.entries.get_mut(at)?.as_deref_mut()
    }

    /// Gives a place up.
    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let value = self.entries.get_mut(at)?.take()?;
        self.free.push(at);
        if self.free.len() == self.entries.len() {
            self.entries.clear();
            self.free.clear();
            self.entries.shrink_to(KEPT_EMPTY_MAX);
            self.free.shrink_to(KEPT_EMPTY_MAX);
        }
        Some(*value)
    }

    /// All numbers in use are below this.
    pub(crate) fn end(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        assert_eq!(slots.remove(a), Some('a'));
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.insert('c'), a);
        assert_eq!((slots.get(a), slots.get(b)), (Some(&'c'), Some(&'b')));
        slots.remove(a);
        slots.remove(b);
        assert_eq!(slots.end(), 0);
    }
}
