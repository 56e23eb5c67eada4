//! What a master has asked its controller of the sync-state set, and what may come of it yet: a twin of
//! `python/mqcore/broker/replication/set_requests.py`.

use mqcore_replica::Alteration;
use mqcore_replica::controller::View;

use super::letters::Purpose;

/// The requests of one reign.
#[derive(Debug, Default)]
pub(crate) struct SetRequests {
    pub(crate) wanted: Option<Alteration>,
    /// How many sets were asked for.
    pub(crate) count: u64,
    /// The epoch of the set that a request without an answer was to replace.
    doubtful: Option<i32>,
    /// The epoch of the set that a refused one was to replace, and which one was asked for last then.
    refused: Option<(i32, u64)>,
    /// Which one was asked for last when the controller was to refuse whatever was sent.
    fences: Option<u64>,
    /// The epoch of the set that the last request was to replace.
    sent: i32,
}

impl SetRequests {
    /// What is to be asked.
    pub(crate) fn purpose(&self) -> Option<Purpose> {
        match (self.fences, &self.wanted) {
            (Some(_), _) => Some(Purpose::Fence),
            (None, Some(_)) => Some(Purpose::Alter),
            (None, None) => None,
        }
    }

    /// The set that is asked for now, or of which every request is to be refused.
    pub(crate) fn asked(&mut self, purpose: Purpose, set_epoch: i32) -> Option<Alteration> {
        match purpose {
            Purpose::Alter => {
                let wanted = self.wanted.clone()?;
                self.sent = wanted.set_epoch;
                Some(wanted)
            }
            Purpose::Fence => Some(Alteration {
                members: Vec::new(),
                set_epoch: self.doubtful.unwrap_or(set_epoch),
            }),
            _ => None,
        }
    }

    pub(crate) fn alter(&mut self, wanted: Alteration) {
        self.wanted = Some(wanted);
        self.count += 1;
    }

    pub(crate) fn begin_reign(&mut self) {
        self.wanted = None;
        (self.doubtful, self.refused, self.fences) = (None, None, None);
    }

    /// A request has no answer.
    pub(crate) fn unheard(&mut self, purpose: Purpose) {
        if purpose == Purpose::Alter {
            self.doubtful = Some(self.sent);
        }
    }

    /// The set was refused; whether the group is to be looked at.
    pub(crate) fn hear_refusal(&mut self) -> bool {
        let Some(wanted) = self.wanted.take() else {
            return true;
        };
        if Some(wanted.set_epoch) == self.doubtful {
            self.fences = Some(self.count);
            return false;
        }
        self.refused = Some((wanted.set_epoch, self.count));
        true
    }

    /// Whether what was sent until now is refused from now on.
    pub(crate) fn hear_fenced(&mut self, is_done: bool) {
        let number = self.fences.take();
        let epoch = self.doubtful.take();
        if is_done {
            self.wanted = None;
        } else {
            self.refused = epoch.zip(number);
        }
    }

    /// Which set the controller has, behind a refusal; which request is to be given up.
    pub(crate) fn hear_set(&mut self, known: &View) -> Option<u64> {
        let (replaced, number) = self.refused.take()?;
        (known.set_epoch <= replaced && number == self.count).then_some(number)
    }

    /// A larger epoch: what was asked for of the set before is refused.
    pub(crate) fn hear_newer(&mut self) {
        (self.doubtful, self.fences) = (None, None);
    }
}
