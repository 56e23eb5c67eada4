//! What brokers and controllers write to each other. Each letter is on its way for some time, may be lost, and
//! may overtake another one; two parties may be cut off from each other in one direction or in both.

use std::collections::BTreeMap;

use mqcore_replica::Alteration;
use mqcore_replica::controller::{Code, View};

use super::liveness::Beat;

/// A broker or a controller, all of them in one row: brokers first.
pub(crate) type Party = usize;

/// What a request is about; the numbers are the official ones of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Who is in sync and alive (1006).
    Sets,
    /// An id (1012 and 1013 in one).
    NewId,
    /// It is there (1003).
    Register,
    /// A master is wanted (1002).
    Elect,
    /// Who is master (1004).
    Replicas,
    /// Another sync-state set (1001).
    Alter,
    /// Every request for another one that was sent is to be refused (our own, `FENCE_SET`).
    Fence,
}

/// A request of a broker.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) purpose: Purpose,
    pub(crate) id: i64,
    /// The epoch of the reign and the set, where another set is wanted.
    pub(crate) wanted: Option<(i32, Alteration)>,
}

/// What a controller answers.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Another one leads, or none.
    NotLeader(Option<usize>),
    Done {
        code: Code,
        view: Option<View>,
        alive: Vec<i64>,
        new_id: i64,
    },
}

/// What is on its way.
#[derive(Debug, Clone)]
pub(crate) enum Letter {
    Ask {
        /// The process that waits for the answer.
        from: (usize, u32),
        number: u64,
        controller: usize,
        ask: Ask,
    },
    Beat {
        controller: usize,
        beat: Beat,
    },
    /// The connection of a process to a controller has ended.
    Closed {
        controller: usize,
        channel: (usize, u32),
    },
    Answer {
        to: (usize, u32),
        number: u64,
        controller: usize,
        answer: Answer,
    },
    /// Who is master (1008).
    Notice {
        broker: usize,
        view: View,
    },
}

/// The letters under way, and who is cut off from whom.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    under_way: BTreeMap<u64, Letter>,
    next: u64,
    /// From whom to whom nothing comes until when.
    cut: BTreeMap<(Party, Party), u64>,
}

impl Letters {
    pub(crate) fn put(&mut self, letter: Letter) -> u64 {
        self.next += 1;
        self.under_way.insert(self.next, letter);
        self.next
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<Letter> {
        self.under_way.remove(&number)
    }

    /// Lets nothing come from one to the other.
    pub(crate) fn cut(&mut self, from: Party, to: Party, until_ms: u64) {
        let until = self.cut.entry((from, to)).or_default();
        *until = (*until).max(until_ms);
    }

    pub(crate) fn is_cut(&self, from: Party, to: Party, now_ms: u64) -> bool {
        self.cut
            .get(&(from, to))
            .is_some_and(|until_ms| *until_ms > now_ms)
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }
}
