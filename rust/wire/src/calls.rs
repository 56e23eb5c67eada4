//! Our requests on one connection that wait for their answer, and their frames that are not sent
//! yet. Knows no socket and no clock: who owns it sends the frames and passes the time in.

use std::collections::HashMap;

/// Space for unsent frames that is kept between two writes. A turn of 256 messages of 1 KB has a
/// third of it, and space grows by doubling.
const UNSENT_BYTES_KEPT: usize = 1024 * 1024;

/// A request that waits.
#[derive(Debug)]
struct Call<W> {
    waiter: W,
    /// The last moment at which its answer is in time.
    deadline_s: f64,
    /// How many requests began before it.
    position: u64,
}

/// The requests of one connection that wait, by their number.
#[derive(Debug)]
pub struct Calls<W> {
    waiting: HashMap<i32, Call<W>>,
    begun: u64,
    unsent: Vec<u8>,
}

impl<W> Default for Calls<W> {
    fn default() -> Self {
        Self {
            waiting: HashMap::new(),
            begun: 0,
            unsent: Vec::new(),
        }
    }
}

impl<W> Calls<W> {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether one of them has a deadline.
    #[must_use]
    pub fn has_deadlines(&self) -> bool {
        let mut calls = self.waiting.values();
        calls.any(|call| call.deadline_s.is_finite())
    }

    /// Everybody who waits, in no order.
    pub fn waiters(&self) -> impl Iterator<Item = &W> {
        self.waiting.values().map(|call| &call.waiter)
    }

    /// Lets `waiter` wait for the answer to request `opaque`; returns who waited for that number
    /// before and will hear nothing.
    pub fn begin(&mut self, opaque: i32, deadline_s: f64, waiter: W) -> Option<W> {
        let position = self.begun;
        self.begun += 1;
        let call = Call {
            waiter,
            deadline_s,
            position,
        };
        self.waiting
            .insert(opaque, call)
            .map(|before| before.waiter)
    }

    /// Takes out who waits for the answer to a request: it is there, or nobody wants it any more.
    pub fn end(&mut self, opaque: i32) -> Option<W> {
        self.waiting.remove(&opaque).map(|call| call.waiter)
    }

    /// Takes out those whose deadline is `now_s` or before, in the order in which they began.
    pub fn take_late(&mut self, now_s: f64) -> Vec<W> {
        let is_late = |call: &Call<W>| call.deadline_s <= now_s;
        let calls = self.waiting.iter().filter(|(_, call)| is_late(call));
        let late: Vec<i32> = calls.map(|(opaque, _)| *opaque).collect();
        let calls = late.iter().filter_map(|opaque| self.waiting.remove(opaque));
        in_order(calls.collect())
    }

    /// Takes out all of them, in the order in which they began: no answer will come.
    pub fn take_all(&mut self) -> Vec<W> {
        let waiting = std::mem::take(&mut self.waiting);
        in_order(waiting.into_values().collect())
    }

    /// The frames that are not sent yet, for a writer that gives them back by [`Self::put_unsent`].
    pub fn lend_unsent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.unsent)
    }

    /// Takes the frames back; what was added meanwhile comes behind them.
    pub fn put_unsent(&mut self, frames: Vec<u8>) {
        let meanwhile = std::mem::replace(&mut self.unsent, frames);
        self.unsent.extend_from_slice(&meanwhile);
    }

    /// Gives the space of frames that were sent back, unless it is large.
    pub fn reuse(&mut self, mut sent: Vec<u8>) {
        if self.unsent.is_empty() && sent.capacity() <= UNSENT_BYTES_KEPT {
            sent.clear();
            self.unsent = sent;
        }
    }
}

fn in_order<W>(mut calls: Vec<Call<W>>) -> Vec<W> {
    calls.sort_unstable_by_key(|call| call.position);
    calls.into_iter().map(|call| call.waiter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn whoever_waits_is_found_once() {
        let mut calls = Calls::default();
        assert_eq!(calls.begin(-1, 5.0, "a"), None);
        assert_eq!(calls.begin(7, 5.0, "b"), None);
        assert_eq!(calls.len(), 2);
        assert_eq!(calls.end(8), None);
        assert_eq!(calls.end(-1), Some("a"));
        assert_eq!(calls.end(-1), None);
        assert_eq!(calls.begin(7, 5.0, "c"), Some("b"));
        assert!(calls.has_deadlines());
        assert_eq!(calls.take_all(), ["c"]);
        assert!(calls.is_empty());
        calls.begin(8, f64::INFINITY, "d");
        assert!(!calls.has_deadlines());
        assert!(calls.take_late(f64::MAX).is_empty());
    }

    #[test]
    fn what_is_written_while_the_frames_are_lent_comes_behind_them() {
        let mut calls = Calls::<()>::default();
        calls.put_unsent(b"one".to_vec());
        let mut lent = calls.lend_unsent();
        lent.extend_from_slice(b"two");
        calls.put_unsent(b"three".to_vec());
        calls.put_unsent(lent);
        assert_eq!(calls.lend_unsent(), b"onetwothree");
    }

    #[test]
    fn large_space_is_not_kept() {
        let mut calls = Calls::<()>::default();
        calls.reuse(Vec::with_capacity(UNSENT_BYTES_KEPT + 1));
        assert_eq!(calls.lend_unsent().capacity(), 0);
        calls.reuse(vec![1; 100]);
        let lent = calls.lend_unsent();
        assert!(lent.is_empty() && lent.capacity() >= 100);
        calls.put_unsent(b"new".to_vec());
        calls.reuse(lent);
        assert_eq!(calls.lend_unsent(), b"new");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Begin(i32, u8),
        End(i32),
        Late(u8),
        All,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let opaque = -3..4_i32;
        let step = prop_oneof![
            4 => (opaque.clone(), 0..20_u8).prop_map(|(opaque, at)| Step::Begin(opaque, at)),
            2 => opaque.prop_map(Step::End),
            1 => (0..20_u8).prop_map(Step::Late),
            1 => Just(Step::All),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        /// As a list of (begin, number, deadline) that is searched from end to end.
        #[test]
        fn it_agrees_with_a_naive_list(steps in steps()) {
            let mut calls = Calls::default();
            let mut naive = BTreeMap::<usize, (i32, u8)>::new();
            for (at, step) in steps.into_iter().enumerate() {
                let found: Vec<usize> = match step {
                    Step::Begin(opaque, deadline) => {
                        let before = calls.begin(opaque, f64::from(deadline), at);
                        let known = naive.iter().find(|(_, call)| call.0 == opaque);
                        let known = known.map(|(at, _)| *at);
                        known.map(|at| naive.remove(&at));
                        naive.insert(at, (opaque, deadline));
                        prop_assert_eq!(before, known);
                        continue;
                    }
                    Step::End(opaque) => {
                        let ended: Vec<usize> = calls.end(opaque).into_iter().collect();
                        let mine = naive.iter().filter(|(_, call)| call.0 == opaque);
                        prop_assert_eq!(&ended, &mine.map(|(at, _)| *at).collect::<Vec<_>>());
                        ended
                    }
                    Step::Late(now) => {
                        let late = calls.take_late(f64::from(now));
                        let mine = naive.iter().filter(|(_, call)| call.1 <= now);
                        prop_assert_eq!(&late, &mine.map(|(at, _)| *at).collect::<Vec<_>>());
                        late
                    }
                    Step::All => {
                        let all = calls.take_all();
                        prop_assert_eq!(&all, &naive.keys().copied().collect::<Vec<_>>());
                        all
                    }
                };
                for at in found {
                    naive.remove(&at);
                }
                prop_assert_eq!(calls.len(), naive.len());
            }
        }
    }
}
