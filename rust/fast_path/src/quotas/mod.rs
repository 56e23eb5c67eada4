//! Quotas: how much users, topics and groups may send and read a second, of all loops together. Gives when a
//! request may go; holds none. Pure; times are passed in.
//!
//! A send is counted before it is stored, and waits for its time in the order in which it came. How much a
//! read brings is known afterwards: it goes while nothing is owed, and what it brought is counted then.
//!
//! Of each name there are buckets only while it uses them ([`NAMES_MAX`]); names beyond share those of their
//! rule.

pub mod bucket;
pub mod elsewhere;
pub mod rules;

use std::sync::Arc;

use hashbrown::HashMap;
use mqcore_engine::lock::Mutex;

use self::bucket::Bucket;
pub use self::rules::{LIMITS, Limit, Rule, Rules, Who};

/// Names with buckets of their own, of each kind: some 2 MB. A bucket that is full is as good as none, so
/// that only names count which have sent or read within seconds.
pub const NAMES_MAX: usize = 10_000;
/// How long a send may be held back, ms: then it is refused. Below what any client waits for an answer.
pub const SEND_HELD_MS_MAX: u64 = 500;
/// Between two looks for names that need no buckets.
const SWEEP_NS: u64 = 1_000_000_000;
/// Names of a rule that a report has: those that owe most.
const NAMES_SHOWN_MAX: usize = 10;
const NS_PER_MS: u64 = 1_000_000;

/// Who asks, of what; empty for nobody.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The user.
    pub user: &'a str,
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
}

impl<'a> Asked<'a> {
    fn names(&self) -> [(Who, &'a str); 3] {
        [
            (Who::User, self.user),
            (Who::Topic, self.topic),
            (Who::Group, self.group),
        ]
    }
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
}

/// When a request may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// At once.
    Now,
    /// At this time, ms; by this rule.
    At(u64, Held),
    /// It is a send, and would have to wait for so long, ms; by this rule.
    TooMuch(u64, Held),
}

impl Decision {
    /// When a read goes that does not go at once, ms, and what holds it back.
    pub(crate) fn later(self) -> Option<(u64, Held)> {
        match self {
            Self::Now => None,
            Self::At(at_ms, held) | Self::TooMuch(at_ms, held) => Some((at_ms, held)),
        }
    }
}

/// What holds a request back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The rule.
    pub rule: Arc<str>,
    /// The limit of it.
    pub limit: Limit,
    /// Its rate.
    pub rate: u64,
}

impl Held {
    /// Why a send is refused that would have to wait for so long, ms.
    pub fn too_much(&self, wait_ms: u64) -> String {
        self.words("message", wait_ms)
    }

    /// Why a read is refused whose time to be held is over; it may come in so long, ms.
    pub fn owes(&self, wait_ms: u64) -> String {
        self.words("read", wait_ms)
    }

    fn words(&self, what: &str, wait_ms: u64) -> String {
        let Self { rule, limit, rate } = self;
        let word = limit.word();
        format!("[QUOTA]{rule} has used up {word}:{rate}, the next {what} may come in {wait_ms} ms")
    }
}

/// What a rule did since it was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were held back.
    pub held: u64,
    /// For how long in all, ms.
    pub held_ms: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests that are held back now.
    pub waiting: u64,
}

/// A rule as it is now, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Whose.
    pub rule: Arc<str>,
    /// The rates of its limits, 0 for none.
    pub rates: [u64; LIMITS],
    /// What it did.
    pub counts: Counts,
    /// Names that use it.
    pub names: usize,
    /// Those that owe most, with the time until they owe nothing, ms.
    pub owing: Vec<(String, u64)>,
}

type Buckets = [Bucket; LIMITS];

/// The buckets of one name.
#[derive(Debug, Clone, Copy)]
struct Named {
    rule: usize,
    buckets: Buckets,
}

#[derive(Debug, Default)]
struct Table {
    rules: Arc<Rules>,
    of_kinds: [HashMap<Box<str>, Named>; Who::ALL.len()],
    /// Of names that have none of their own, by rule.
    shared: Vec<Buckets>,
    counts: HashMap<Arc<str>, Counts>,
    swept_ns: u64,
}

/// The quotas of a broker.
#[derive(Debug, Default)]
pub struct Quotas(Mutex<Table>);

impl Quotas {
    /// Goes by these rules from now on: buckets begin full; what rules that stay have counted stays.
    pub fn decide(&self, rules: &Arc<Rules>) {
        let mut table = self.0.lock();
        if table.rules == *rules {
            return;
        }
        let mut before = std::mem::take(&mut table.counts);
        let counted = |rule: &Rule| {
            let counts = before.remove(&rule.text).unwrap_or_default();
            (Arc::clone(&rule.text), counts)
        };
        let counts = rules.all().iter().map(counted).collect();
        *table = Table {
            rules: Arc::clone(rules),
            shared: vec![Buckets::default(); rules.all().len()],
            counts,
            ..Table::default()
        };
    }

    /// When a send may go; its time is taken then.
    pub fn ask_to_send(&self, asked: Asked<'_>, amount: Amount, now_ms: u64) -> Decision {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        let counted = [
            (Limit::ProducerMessages, amount.messages),
            (Limit::ProducerBytes, amount.bytes),
        ];
        let mut table = self.0.lock();
        let decision = table.decision(asked, counted, now_ns);
        if !matches!(decision, Decision::TooMuch(..)) {
            table.take(asked, counted, now_ns);
        }
        decision
    }

    /// When a read may go: while nothing is owed.
    pub fn ask_to_read(&self, asked: Asked<'_>, now_ms: u64) -> Decision {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        let counted = [(Limit::ConsumerMessages, 0), (Limit::ConsumerBytes, 0)];
        let decision = self.0.lock().decision(asked, counted, now_ns);
        match decision {
            // How long a read may wait is the affair of whoever holds it.
            Decision::TooMuch(wait_ms, held) => Decision::At(now_ms.saturating_add(wait_ms), held),
            other => other,
        }
    }

    /// Counts what a read has brought.
    pub fn have_read(&self, asked: Asked<'_>, amount: Amount, now_ms: u64) {
        let counted = [
            (Limit::ConsumerMessages, amount.messages),
            (Limit::ConsumerBytes, amount.bytes),
        ];
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        self.0.lock().take(asked, counted, now_ns);
    }

    /// Changes what a rule has counted; nothing where it is not there any more.
    pub(crate) fn count(&self, rule: &str, change: impl FnOnce(&mut Counts)) {
        if let Some(counts) = self.0.lock().counts.get_mut(rule) {
            change(counts);
        }
    }

    /// The rules as they are now.
    pub fn rows(&self, now_ms: u64) -> Vec<Row> {
        let now_ns = now_ms.saturating_mul(NS_PER_MS);
        let table = self.0.lock();
        let rows = table.rules.all().iter().map(|rule| Row {
            rule: Arc::clone(&rule.text),
            rates: Limit::ALL.map(|limit| rule.rate(limit).unwrap_or(0)),
            counts: table.counts.get(&rule.text).copied().unwrap_or_default(),
            names: 0,
            owing: Vec::new(),
        });
        let mut rows: Vec<Row> = rows.collect();
        for (name, named) in table.of_kinds.iter().flatten() {
            let Some(row) = rows.get_mut(named.rule) else {
                continue;
            };
            row.names += usize::from(named.is_used(now_ns));
            let owes_ns = named.buckets.iter().map(|each| each.owes_ns(now_ns)).max();
            let owes_ms = owes_ns.unwrap_or(0).div_ceil(NS_PER_MS);
            if owes_ms > 0 {
                row.owing.push((name.to_string(), owes_ms));
            }
        }
        drop(table);
        for row in &mut rows {
            row.owing
                .sort_unstable_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
            row.owing.truncate(NAMES_SHOWN_MAX);
        }
        rows
    }
}

impl Named {
    fn is_used(&self, now_ns: u64) -> bool {
        !self.buckets.iter().all(|bucket| bucket.is_full(now_ns))
    }
}

impl Table {
    fn decision(&mut self, asked: Asked<'_>, counted: [(Limit, u64); 2], now_ns: u64) -> Decision {
        let rules = Arc::clone(&self.rules);
        let (mut at_ns, mut held_by) = (now_ns, None);
        for (who, name) in asked.names() {
            let Some((rule, buckets)) = self.found(&rules, (who, name), now_ns) else {
                continue;
            };
            for (limit, amount) in counted {
                let (Some(rate), Some(bucket)) = (rule.rate(limit), buckets.get(limit.index()))
                else {
                    continue;
                };
                let earliest_ns = bucket.earliest_ns(amount, rate, now_ns);
                if earliest_ns > at_ns {
                    at_ns = earliest_ns;
                    held_by = Some((rule, limit, rate));
                }
            }
        }
        let Some((rule, limit, rate)) = held_by else {
            return Decision::Now;
        };
        let held = Held {
            rule: Arc::clone(&rule.text),
            limit,
            rate,
        };
        let at_ms = at_ns.div_ceil(NS_PER_MS);
        let wait_ms = at_ms.saturating_sub(now_ns / NS_PER_MS);
        if wait_ms > SEND_HELD_MS_MAX {
            Decision::TooMuch(wait_ms, held)
        } else {
            Decision::At(at_ms, held)
        }
    }

    fn take(&mut self, asked: Asked<'_>, counted: [(Limit, u64); 2], now_ns: u64) {
        let rules = Arc::clone(&self.rules);
        for (who, name) in asked.names() {
            let Some((rule, buckets)) = self.found(&rules, (who, name), now_ns) else {
                continue;
            };
            for (limit, amount) in counted {
                if let (Some(rate), Some(bucket)) =
                    (rule.rate(limit), buckets.get_mut(limit.index()))
                {
                    bucket.take(amount, rate, now_ns);
                }
            }
        }
    }

    /// The rule of a name and its buckets, which are made where there are none.
    fn found<'r>(
        &mut self,
        rules: &'r Rules,
        (who, name): (Who, &str),
        now_ns: u64,
    ) -> Option<(&'r Rule, &mut Buckets)> {
        if name.is_empty() || !rules.has(who) {
            return None;
        }
        let names = self.of_kinds.get_mut(who.index())?;
        let known = names.get(name).map(|named| named.rule);
        let index = known.or_else(|| rules.of(who, name))?;
        let rule = rules.all().get(index)?;
        if known.is_none() {
            if names.len() >= NAMES_MAX && now_ns.saturating_sub(self.swept_ns) >= SWEEP_NS {
                self.swept_ns = now_ns;
                names.retain(|_, named| named.is_used(now_ns));
            }
            if names.len() >= NAMES_MAX {
                return Some((rule, self.shared.get_mut(index)?));
            }
            let named = Named {
                rule: index,
                buckets: Buckets::default(),
            };
            names.insert(name.into(), named);
        }
        let named = names.get_mut(name)?;
        Some((rule, &mut named.buckets))
    }
}

#[cfg(test)]
mod tests;
