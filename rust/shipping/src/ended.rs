//! Links that have ended, with the reason, until their owner asks: a descriptor becomes readable for it.

use mqcore_engine::error::Result;
use mqcore_engine::lock::Mutex;
use mqcore_engine::progress::WakeDescriptor;

/// Ended links that are kept until they are asked for; who connects again and again is not listed
/// without end.
const ENDED_MAX: usize = 256;

/// A link that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Who was at the other end.
    pub address: String,
    /// Why it ended, for an operator.
    pub why: String,
    /// Where the log here must be cut before its master can be followed, where that is why.
    pub cut_at: Option<u64>,
}

/// The links that have ended.
#[derive(Debug)]
pub struct EndedLinks {
    waiting: Mutex<Vec<Ended>>,
    wake: WakeDescriptor,
}

impl EndedLinks {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            waiting: Mutex::default(),
            wake: WakeDescriptor::new()?,
        })
    }

    pub(crate) fn push(&self, address: &str, why: String) {
        self.push_cut(address, why, None);
    }

    /// As [`EndedLinks::push`], of a log that must be cut at `cut_at`.
    pub(crate) fn push_cut(&self, address: &str, why: String, cut_at: Option<u64>) {
        let address = address.to_owned();
        let mut waiting = self.waiting.lock();
        if waiting.len() < ENDED_MAX {
            waiting.push(Ended {
                address,
                why,
                cut_at,
            });
        }
        drop(waiting);
        self.wake.raise();
    }

    /// Makes the descriptor readable for something else that the owner is to ask for.
    pub(crate) fn raise(&self) {
        self.wake.raise();
    }

    /// Takes those that have ended since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<Ended> {
        self.wake.clear();
        std::mem::take(&mut *self.waiting.lock())
    }

    /// The descriptor that is readable while there are some.
    #[must_use]
    pub fn raw(&self) -> i32 {
        self.wake.raw()
    }
}
