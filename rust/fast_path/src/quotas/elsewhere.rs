//! Quotas of requests that are executed elsewhere: how long each of them waits there, and whether it is refused
//! then. Executes nothing, and keeps none of them.

use super::{Amount, Asked, Decision, Held, Quotas, SEND_HELD_MS_MAX};

/// How long a read waits at the most, ms: its client waits for an answer, and does not hold it.
const READ_HELD_MS_MAX: u64 = SEND_HELD_MS_MAX;

/// What becomes of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wait {
    /// It waits for so long, ms; 0 for not at all.
    pub wait_ms: u64,
    /// It is refused then, with these words: whoever hears it at once comes again at once.
    pub refusal: Option<String>,
}

impl Quotas {
    /// Takes the time of a send.
    pub fn admit_send(&self, asked: Asked<'_>, amount: Amount, now_ms: u64) -> Wait {
        match self.ask_to_send(asked, amount, now_ms) {
            Decision::Now => Wait::default(),
            Decision::At(at_ms, held) => self.waits(&held, at_ms.saturating_sub(now_ms), None),
            Decision::TooMuch(wait_ms, held) => {
                self.waits(&held, SEND_HELD_MS_MAX, Some(held.too_much(wait_ms)))
            }
        }
    }

    /// A read goes when nothing is owed; what it brings is counted by [`Quotas::have_read`].
    pub fn admit_read(&self, asked: Asked<'_>, now_ms: u64) -> Wait {
        let Some((at_ms, held)) = self.ask_to_read(asked, now_ms).later() else {
            return Wait::default();
        };
        let wait_ms = at_ms.saturating_sub(now_ms);
        if wait_ms <= READ_HELD_MS_MAX {
            self.waits(&held, wait_ms, None)
        } else {
            self.waits(&held, READ_HELD_MS_MAX, Some(held.owes(wait_ms)))
        }
    }

    fn waits(&self, held: &Held, wait_ms: u64, refusal: Option<String>) -> Wait {
        self.count(&held.rule, |counts| {
            counts.held += u64::from(refusal.is_none());
            counts.held_ms += wait_ms;
            counts.refused += u64::from(refusal.is_some());
        });
        Wait { wait_ms, refusal }
    }
}
