//! The entries of one user, compiled, and which of them decides (`AclAuthorizationHandler`). Knows no
//! request.
//!
//! The order is the documented one; 5.3.3 sorts otherwise (`tests/order`):
//!
//! | first | then |
//! |---|---|
//! | Custom | Default, where no Custom entry matches |
//! | of a kind | of any kind (`*`) |
//! | literal | prefix, then any name |
//! | the longer prefix | the shorter one |
//! | Deny | Allow |
//!
//! An entry matches when its resource, its source addresses and any of the asked actions do.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::resource::{Actions, Kind, Pattern, Resource};
use crate::source::Network;

/// An entry of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is about.
    pub actions: Actions,
    /// From where; empty: from anywhere.
    pub networks: Box<[Network]>,
    /// Whether it allows or denies.
    pub is_allow: bool,
}

impl Entry {
    fn matches(&self, actions: Actions, ip: Option<IpAddr>) -> bool {
        let is_from_there = || ip.is_some_and(|ip| self.networks.iter().any(|net| net.has(ip)));
        self.actions.has_any(actions) && (self.networks.is_empty() || is_from_there())
    }
}

/// Entries for one resource or pattern, those that deny first: one for almost all of them.
#[derive(Debug, Clone, Default)]
struct Entries(SmallVec<[Entry; 1]>);

impl Entries {
    fn push(&mut self, entry: Entry) {
        let at = if entry.is_allow {
            self.0.len()
        } else {
            self.0.iter().take_while(|known| !known.is_allow).count()
        };
        self.0.insert(at, entry);
    }

    fn matching(&self, actions: Actions, ip: Option<IpAddr>) -> impl Iterator<Item = &Entry> {
        self.0
            .iter()
            .filter(move |entry| entry.matches(actions, ip))
    }

    #[inline]
    fn first(&self, actions: Actions, ip: Option<IpAddr>) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.matches(actions, ip))
    }
}

/// Entries for names that begin alike.
#[derive(Debug, Clone)]
struct Prefix {
    text: Box<str>,
    /// The longest other prefix that this one begins with.
    shorter: Option<usize>,
    entries: Entries,
}

/// The entries of a kind of resources.
#[derive(Debug, Clone, Default)]
struct OfKind {
    literals: HashMap<Box<str>, Entries>,
    /// By text: that of a name is found by a search, the shorter ones along their links.
    prefixes: Vec<Prefix>,
    any: Entries,
}

impl OfKind {
    /// The prefixes of a name, longest first.
    #[inline]
    fn prefixes_of(&self, name: &str) -> impl Iterator<Item = &Prefix> {
        let before = self
            .prefixes
            .partition_point(|prefix| *prefix.text <= *name);
        let mut next = before.checked_sub(1);
        // All prefixes of a name that are not behind it in the order are on the way of the last one before
        // it: whatever lies between a prefix and the name begins with that prefix.
        let way = std::iter::from_fn(move || {
            let prefix = self.prefixes.get(next?)?;
            next = prefix.shorter;
            Some(prefix)
        });
        way.filter(move |prefix| name.starts_with(&*prefix.text))
    }
}

/// The entries of a policy: Custom or Default.
#[derive(Debug, Clone, Default)]
struct Policy {
    of_kinds: [OfKind; Kind::ALL.len()],
    everything: Entries,
}

impl Policy {
    /// The entries that match, in the order of precedence, each with its pattern.
    fn matching<'a>(
        &'a self,
        Resource { kind, name }: Resource<'a>,
        actions: Actions,
        ip: Option<IpAddr>,
    ) -> impl Iterator<Item = (Pattern<'a>, &'a Entry)> {
        let of_kind = self.of_kinds.get(kind.index());
        let literal = of_kind.and_then(|of| of.literals.get(name));
        let literal = literal.map(|entries| (Pattern::Literal(kind, name), entries));
        let prefixes = of_kind.into_iter().flat_map(move |of| of.prefixes_of(name));
        let prefixes = prefixes.map(move |p| (Pattern::Prefix(kind, &p.text), &p.entries));
        let any = of_kind.map(|of| (Pattern::Any(kind), &of.any));
        let everything = [(Pattern::Everything, &self.everything)];
        let all = literal
            .into_iter()
            .chain(prefixes)
            .chain(any)
            .chain(everything);
        all.flat_map(move |(pattern, entries)| {
            let matching = entries.matching(actions, ip);
            matching.map(move |entry| (pattern.clone(), entry))
        })
    }
}

/// The policies of a user.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    custom: Option<Box<Policy>>,
    default: Option<Box<Policy>>,
}

/// Which policy of a user has an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Asked first.
    Custom,
    /// Asked where no entry of the first matches.
    Default,
}

/// An entry that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched<'a> {
    /// The policy that has it.
    pub tier: Tier,
    /// Which resources it is for.
    pub pattern: Pattern<'a>,
    /// The entry.
    pub entry: &'a Entry,
}

impl Policies {
    /// The entry that decides.
    #[inline]
    #[must_use]
    pub fn deciding(
        &self,
        asked: &Resource<'_>,
        actions: Actions,
        ip: Option<IpAddr>,
    ) -> Option<&Entry> {
        let mut policies = [&self.custom, &self.default].into_iter().flatten();
        policies.find_map(|policy| policy.first(asked, actions, ip))
    }

    /// All entries that match, in the order of precedence: the first decides.
    pub fn matching<'a>(
        &'a self,
        asked: Resource<'a>,
        actions: Actions,
        ip: Option<IpAddr>,
    ) -> impl Iterator<Item = Matched<'a>> {
        let tiers = [(Tier::Custom, &self.custom), (Tier::Default, &self.default)];
        tiers.into_iter().flat_map(move |(tier, policy)| {
            let matching = policy
                .iter()
                .flat_map(move |p| p.matching(asked, actions, ip));
            matching.map(move |(pattern, entry)| Matched {
                tier,
                pattern,
                entry,
            })
        })
    }
}

/// Policies while they are put together.
#[derive(Debug, Default)]
pub struct Draft {
    policies: Policies,
    prefixes: BTreeMap<(Tier, Kind, Box<str>), Entries>,
    /// How many entries there will be.
    expected: usize,
}

/// Names that a table has place for from the beginning: growing costs more than the place.
const RESERVED_MAX: usize = 64;

impl Draft {
    /// Policies of so many entries.
    #[must_use]
    pub fn of(expected: usize) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// Adds an entry.
    pub fn add(&mut self, tier: Tier, pattern: &Pattern<'_>, entry: Entry) {
        let expected = self.expected.min(RESERVED_MAX);
        let policy = self.policies.of_mut(tier);
        let entries = match pattern {
            Pattern::Everything => &mut policy.everything,
            Pattern::Any(kind) => match policy.of_kinds.get_mut(kind.index()) {
                Some(of) => &mut of.any,
                None => return,
            },
            Pattern::Literal(kind, name) => match policy.of_kinds.get_mut(kind.index()) {
                Some(of) => {
                    if of.literals.is_empty() {
                        of.literals.reserve(expected);
                    }
                    of.literals.entry(Box::from(*name)).or_default()
                }
                None => return,
            },
            Pattern::Prefix(kind, text) => {
                let key = (tier, *kind, Box::from(*text));
                self.prefixes.entry(key).or_default()
            }
        };
        entries.push(entry);
    }

    /// The policies.
    #[must_use]
    pub fn finish(self) -> Policies {
        let mut policies = self.policies;
        // In the order of their texts, and so each behind those that it begins with.
        for ((tier, kind, text), entries) in self.prefixes {
            if let Some(of) = policies.of_mut(tier).of_kinds.get_mut(kind.index()) {
                of.add_prefix(text, entries);
            }
        }
        policies
    }
}

impl Policies {
    fn of_mut(&mut self, tier: Tier) -> &mut Policy {
        match tier {
            Tier::Custom => self.custom.get_or_insert_default(),
            Tier::Default => self.default.get_or_insert_default(),
        }
    }
}

impl Policy {
    /// The entry that decides.
    #[inline]
    fn first<'a>(
        &'a self,
        asked: &Resource<'_>,
        actions: Actions,
        ip: Option<IpAddr>,
    ) -> Option<&'a Entry> {
        let of = self.of_kinds.get(asked.kind.index())?;
        let literal = of.literals.get(asked.name);
        let literal = literal.and_then(|entries| entries.first(actions, ip));
        let of_prefix = |prefix: &'a Prefix| prefix.entries.first(actions, ip);
        literal
            .or_else(|| of.prefixes_of(asked.name).find_map(of_prefix))
            .or_else(|| of.any.first(actions, ip))
            .or_else(|| self.everything.first(actions, ip))
    }
}

impl OfKind {
    /// Adds a prefix behind all those before it in the order.
    fn add_prefix(&mut self, text: Box<str>, entries: Entries) {
        let mut shorter = self.prefixes.len().checked_sub(1);
        while let Some(prefix) = shorter.and_then(|at| self.prefixes.get(at)) {
            if text.starts_with(&*prefix.text) {
                break;
            }
            shorter = prefix.shorter;
        }
        self.prefixes.push(Prefix {
            text,
            shorter,
            entries,
        });
    }
}
