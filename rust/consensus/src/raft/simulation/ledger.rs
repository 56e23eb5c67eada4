//! What was agreed on, and the rules that nobody may break.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::node::Machine;

/// Why a history is wrong.
pub(super) type Checked = Result<(), String>;

/// What is known of a history from outside.
#[derive(Default)]
pub(super) struct Ledger {
    /// What the first who applied an entry found at each position.
    agreed: Vec<u64>,
    /// Who led, in which term.
    leaders: BTreeSet<(u64, u64)>,
    /// What somebody was promised without a position.
    promised: Vec<u64>,
    /// What was refused by somebody who does not lead.
    refused: BTreeSet<u64>,
    /// How many entries there are at least: the last position that was acknowledged or read.
    known: usize,
    /// The first rule that was broken.
    broken: Option<String>,
}

impl Ledger {
    /// A position has one entry for ever.
    fn applied(&mut self, node: u64, position: usize, entry: u64) {
        match self.agreed.get(position) {
            None if position == self.agreed.len() => self.agreed.push(entry),
            Some(known) if *known == entry => {}
            known => self.break_rule(format!(
                "controller {node} has entry {entry} at position {position}, where {known:?} was applied"
            )),
        }
    }

    /// Somebody leads. A term may have several leaders one after the other: with openraft a vote is a term and
    /// a number of a controller, and the higher one wins. That they agree is seen by what they apply.
    pub(super) fn leads(&mut self, term: u64, node: u64) {
        self.leaders.insert((term, node));
    }

    /// What was acknowledged is applied at the position that the answer names.
    pub(super) fn acknowledged(&mut self, entry: u64, position: usize) {
        if self.agreed.get(position) != Some(&entry) {
            self.break_rule(format!(
                "entry {entry} is acknowledged at position {position}"
            ));
        }
        self.known = self.known.max(position + 1);
    }

    /// What was acknowledged without a position is applied somewhere in the end.
    pub(super) fn promised(&mut self, entry: u64) {
        self.promised.push(entry);
    }

    /// Somebody does not lead, or leads no longer.
    pub(super) fn refused(&mut self, entry: u64) {
        self.refused.insert(entry);
    }

    /// What was refused by a leader that was deposed, and agreed on all the same: nobody may count on a refusal.
    pub(super) fn refused_and_applied(&self) -> usize {
        let found = self.agreed.iter();
        found.filter(|entry| self.refused.contains(entry)).count()
    }

    /// In the end all controllers have all entries, each of them once.
    pub(super) fn ended(&self) -> Checked {
        self.checked()?;
        let found: BTreeSet<u64> = self.agreed.iter().copied().collect();
        if found.len() != self.agreed.len() {
            return Err("an entry was applied at two places".to_owned());
        }
        match self.promised.iter().find(|entry| !found.contains(entry)) {
            Some(entry) => Err(format!("entry {entry} was acknowledged, and is nowhere")),
            None => Ok(()),
        }
    }

    /// What must be seen by who asks from now on.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// A confirmed read has everything that was acknowledged or read before it began.
    pub(super) fn read(&mut self, node: u64, known_before: usize, found: usize) {
        if found < known_before {
            self.break_rule(format!(
                "a confirmed read of {node} has {found} entries, and {known_before} were known before it"
            ));
        }
        self.known = self.known.max(found);
    }

    /// How many entries were applied by somebody.
    pub(super) fn agreed(&self) -> usize {
        self.agreed.len()
    }

    /// How many leaders there were.
    pub(super) fn reigns(&self) -> usize {
        self.leaders.len()
    }

    fn break_rule(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// The first rule that was broken.
    pub(super) fn checked(&self) -> Checked {
        self.broken.clone().map_or(Ok(()), Err)
    }
}

/// The ledger of a history, for whoever takes part in it.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<Ledger>>);

impl Shared {
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state of one controller: its entries, each of which the ledger sees.
pub(super) struct Entries {
    pub(super) node: u64,
    pub(super) shared: Shared,
    pub(super) list: Vec<u64>,
    /// A snapshot lacks the last entry: a flaw.
    pub(super) cuts_snapshots: bool,
}

impl Machine for Entries {
    type Answer = usize;

    fn apply(&mut self, entry: &[u8]) -> Result<usize, String> {
        let entry = <[u8; 8]>::try_from(entry).map_err(|error| error.to_string())?;
        let (entry, position) = (u64::from_le_bytes(entry), self.list.len());
        self.list.push(entry);
        self.shared.ledger().applied(self.node, position, entry);
        Ok(position)
    }

    fn snapshot(&self) -> Vec<u8> {
        let kept = self.list.len() - usize::from(self.cuts_snapshots && !self.list.is_empty());
        let list = &self.list[..kept];
        list.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (entries, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err("half an entry".to_owned());
        }
        self.list.clear();
        for entry in entries {
            self.apply(entry)?;
        }
        Ok(())
    }
}
