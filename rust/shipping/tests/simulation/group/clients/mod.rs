//! Clients beside the plain load: producers of transactions, consumers that pop, consumers that commit where they
//! are. Their requests are executed by the fast path of production over the store of whoever takes itself for
//! the master. What is Python there has small twins: the file of offsets and how slaves get them (`tables`), the
//! rounds of half messages (`halves`) and of check points (`revives`). What is looked at in offsets when a broker
//! begins to lead is in `kept`.
//!
//! Not in every history, and drawn from dice of their own: a history without them is what it was before.

pub(crate) mod consuming;
pub(crate) mod halves;
pub(crate) mod kept;
pub(crate) mod popping;
pub(crate) mod producing;
pub(crate) mod revives;
pub(crate) mod serving;
pub(crate) mod tables;

use std::collections::BTreeMap;

use self::consuming::Consumer;
use self::kept::LeastKept;
use self::popping::Popper;
use self::producing::{Producer, Todo};
use super::flaw::Flaw;
use super::options::Options;
use super::world::{Event, World};
use crate::dice::Dice;
use crate::ledger::Checked;

/// Each kind of client is in one history of so many; pops need timers, too.
const TRANSACTIONS_ONCE_IN: u64 = 3;
const POPS_ONCE_IN: u64 = 2;
const COMMITS_ONCE_IN: u64 = 3;
/// So often it is looked whether clients have all that there is, ms.
const DONE_LOOK_MS: u64 = 200;

/// Which clients a history has, and what is set for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wants {
    pub(crate) transactions: bool,
    pub(crate) pops: bool,
    pub(crate) commits: bool,
    /// Whether brokers answer as 5.x do, with many ends in one op message.
    pub(crate) is_batched: bool,
    /// `transactionOpBatchInterval`.
    pub(crate) op_interval_ms: u64,
    /// `transactionCheckInterval`.
    pub(crate) check_ms: u64,
    /// `popCkStayBufferTime`.
    pub(crate) stay_ms: u64,
    /// `flushConsumerOffsetInterval`.
    pub(crate) save_ms: u64,
    /// How often clients do something.
    pub(crate) every_ms: u64,
}

impl Wants {
    fn of(dice: &mut Dice, options: &Options, flaw: Option<Flaw>) -> Self {
        let mut wants = Self {
            transactions: dice.once_in(TRANSACTIONS_ONCE_IN),
            pops: dice.once_in(POPS_ONCE_IN) && options.has_timers,
            commits: dice.once_in(COMMITS_ONCE_IN),
            is_batched: dice.once_in(2),
            op_interval_ms: dice.pick(&[0, 300, 3_000]),
            check_ms: dice.pick(&[200, 1_000]),
            stay_ms: dice.pick(&[100, 1_000, 10_000]),
            save_ms: dice.pick(&[100, 500, 2_000]),
            every_ms: dice.pick(&[30, 200]),
        };
        match flaw {
            Some(Flaw::HalfOffsetsUnsettled) => wants.transactions = true,
            Some(Flaw::OffsetsBeforeLog | Flaw::PopOffsetsUnsettled) => wants.pops = true,
            Some(Flaw::OffsetsNotFollowed) => wants.commits = true,
            Some(Flaw::OffsetsNotClipped) => {
                wants.commits = true;
                wants.save_ms = 100;
            }
            _ => {}
        }
        if options.removes_files {
            wants.transactions = false;
            wants.pops = false;
            wants.commits = false;
        }
        wants
    }
}

/// The clients of a history.
pub(crate) struct Clients {
    pub(crate) dice: Dice,
    pub(crate) wants: Wants,
    pub(crate) producer: Producer,
    pub(crate) popper: Popper,
    pub(crate) consumer: Consumer,
    pub(crate) least_kept: LeastKept,
    /// What producers are going to do, by number.
    pub(crate) todo: BTreeMap<u64, Todo>,
    pub(crate) next_todo: u64,
    looked_ms: u64,
}

impl Clients {
    /// The clients of a seed; `None` for a history without any.
    pub(crate) fn of(seed: u64, options: &Options, flaw: Option<Flaw>) -> Option<Box<Self>> {
        let mut dice = Dice::of(seed ^ 0x0063_6c69_656e_7473);
        let wants = Wants::of(&mut dice, options, flaw);
        (wants.transactions || wants.pops || wants.commits).then(|| {
            Box::new(Self {
                dice,
                wants,
                producer: Producer::default(),
                popper: Popper::default(),
                consumer: Consumer::default(),
                least_kept: LeastKept::default(),
                todo: BTreeMap::new(),
                next_todo: 0,
                looked_ms: 0,
            })
        })
    }
}

impl World {
    pub(crate) fn wants(&self) -> Option<Wants> {
        self.clients.as_ref().map(|clients| clients.wants)
    }

    /// Draws for the clients.
    pub(crate) fn draw<T>(&mut self, draw: impl FnOnce(&mut Dice) -> T) -> Option<T> {
        self.clients.as_mut().map(|clients| draw(&mut clients.dice))
    }

    /// The clients do something at every broker that takes itself for the master.
    pub(crate) fn act(&mut self) -> Checked {
        let Some(wants) = self.wants() else {
            return Ok(());
        };
        let in_ms = self.draw(|dice| dice.between(1, 2 * wants.every_ms));
        self.plan(in_ms.unwrap_or(1), Event::Act);
        for broker in 0..self.nodes.len() {
            if !self.is_reached(broker) {
                continue;
            }
            if wants.transactions
                && self.is_loaded
                && self.draw(|dice| dice.once_in(3)) == Some(true)
            {
                self.send_half(broker)?;
            }
            if wants.pops {
                self.pop_and_acknowledge(broker)?;
            }
            if wants.commits {
                self.consume(broker)?;
            }
            if self.has_met_stop(broker) {
                self.die_inside(broker)?;
            }
        }
        Ok(())
    }

    /// Whether requests of clients reach a broker that takes itself for the master; its clock goes on.
    pub(crate) fn is_reached(&mut self, broker: usize) -> bool {
        let now_ms = self.now_ms;
        let known = &mut self.nodes[broker];
        let is_reached = known.is_master()
            && known.paused_until_ms <= now_ms
            && !known.twin.is_stopped()
            && known.opened().is_some_and(|opened| opened.served.is_some());
        if is_reached {
            known.time.pass_to(now_ms);
        }
        is_reached
    }

    /// A broker takes over: what it goes on from must be as promised.
    pub(crate) fn check_offsets_of_leader(&mut self, broker: usize) -> Checked {
        if self.clients.is_none() {
            return Ok(());
        }
        self.check_within_queues(broker)?;
        self.check_consumed(broker)?;
        self.check_least_kept(broker)
    }

    /// Whether clients have everything that there is.
    pub(crate) fn are_clients_done(&mut self, master: usize) -> Checked<bool> {
        let now_ms = self.now_ms;
        let Some(clients) = &mut self.clients else {
            return Ok(true);
        };
        if now_ms < clients.looked_ms + DONE_LOOK_MS {
            return Ok(false);
        }
        clients.looked_ms = now_ms;
        let wants = clients.wants;
        Ok((!wants.transactions || self.are_halves_ended(master)?)
            && (!wants.pops || self.are_all_popped(master)?)
            && (!wants.commits || self.are_all_consumed(master)?)
            && (!wants.commits || self.not_followed(master).is_empty()))
    }

    /// What is left open by the clients, in words.
    pub(crate) fn left_open(&mut self) -> String {
        let master = self.nodes.iter().position(|node| node.is_master());
        let Some((master, wants)) = master.zip(self.wants()) else {
            return String::new();
        };
        let halves = wants.transactions.then(|| self.open_halves(master));
        let popped = wants.pops.then(|| self.not_acknowledged(master));
        let consumed = wants.commits.then(|| self.not_consumed(master));
        let behind = wants.commits.then(|| self.not_followed(master));
        format!(
            "half messages {halves:?}, not acknowledged {popped:?}, not consumed {consumed:?}, without the offsets \
             {behind:?}"
        )
    }

    /// Looks at what has become of all that clients did.
    pub(crate) fn compare_clients(&mut self) -> Checked {
        let Some(wants) = self.wants() else {
            return Ok(());
        };
        if wants.transactions {
            self.compare_transactions()?;
        }
        if wants.pops {
            let missing = self.not_acknowledged(0);
            crate::ledger::demand!(missing.is_empty(), "{missing:?} never came to who pops");
        }
        if wants.commits {
            let missing = self.not_consumed(0);
            crate::ledger::demand!(missing.is_empty(), "{missing:?} never came to who consumes");
        }
        Ok(())
    }
}
