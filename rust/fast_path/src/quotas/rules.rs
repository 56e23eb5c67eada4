//! The rules of quotas as a person writes them: whose, and how much a second. Pure; knows no bucket.
//!
//! ```text
//! user:shop=producer_byte_rate:1048576,consumer_byte_rate:4194304;topic:orders*=producer_message_rate:1000
//! ```
//!
//! | part | |
//! |---|---|
//! | `user`, `topic`, `group` | who has sent or reads; a group of producers, or of consumers |
//! | a name, or what it begins with and `*` | each name has what the rule gives for itself; a whole name counts before a beginning, a longer beginning before a shorter one |
//! | `producer_message_rate` ... | how much, at least 1 (the names of Kafka's quotas) |

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

/// Rules at the most: each is a line in reports and metrics.
pub const RULES_MAX: usize = 1_000;
/// The largest rate: beyond it nothing is held back.
const RATE_MAX: u64 = 1_000_000_000_000;

/// Whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// A user's, where access control is on.
    User,
    /// A topic's.
    Topic,
    /// A group's, of producers or of consumers.
    Group,
}

impl Who {
    /// All.
    pub const ALL: [Self; 3] = [Self::User, Self::Topic, Self::Group];

    /// As rules name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Topic => "topic",
            Self::Group => "group",
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::User => 0,
            Self::Topic => 1,
            Self::Group => 2,
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Messages sent.
    ProducerMessages,
    /// Bytes of bodies and properties sent.
    ProducerBytes,
    /// Messages read.
    ConsumerMessages,
    /// Bytes of records read.
    ConsumerBytes,
}

/// How many limits a rule may have.
pub const LIMITS: usize = 4;

impl Limit {
    /// All.
    pub const ALL: [Self; LIMITS] = [
        Self::ProducerMessages,
        Self::ProducerBytes,
        Self::ConsumerMessages,
        Self::ConsumerBytes,
    ];

    /// As rules name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::ProducerMessages => "producer_message_rate",
            Self::ProducerBytes => "producer_byte_rate",
            Self::ConsumerMessages => "consumer_message_rate",
            Self::ConsumerBytes => "consumer_byte_rate",
        }
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::ProducerMessages => 0,
            Self::ProducerBytes => 1,
            Self::ConsumerMessages => 2,
            Self::ConsumerBytes => 3,
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whose it is, as it is written: `topic:orders*`.
    pub text: Arc<str>,
    /// A rate per limit, a second; 0 for none.
    rates: [u64; LIMITS],
}

impl Rule {
    /// The rate of a limit, where it has one.
    #[inline]
    #[must_use]
    pub fn rate(&self, limit: Limit) -> Option<u64> {
        self.rates
            .get(limit.index())
            .copied()
            .filter(|rate| *rate > 0)
    }
}

#[derive(Debug, Clone, Default)]
struct OfKind {
    literals: HashMap<Box<str>, usize>,
    /// Longest first.
    prefixes: Vec<(Box<str>, usize)>,
}

/// All rules.
#[derive(Clone, Default)]
pub struct Rules {
    text: Box<str>,
    rules: Vec<Rule>,
    of_kinds: [OfKind; Who::ALL.len()],
}

impl fmt::Debug for Rules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Rules({})", self.text)
    }
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rules {}

impl Rules {
    /// Reads rules; an empty text has none.
    ///
    /// # Errors
    /// What is wrong, and with which rule.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut rules = Self {
            text: text.into(),
            ..Self::default()
        };
        for part in text.split(';').map(str::trim).filter(|p| !p.is_empty()) {
            rules
                .add(part)
                .map_err(|why| format!("the rule {part:?}: {why}"))?;
        }
        for of_kind in &mut rules.of_kinds {
            of_kind
                .prefixes
                .sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
        Ok(rules)
    }

    fn add(&mut self, part: &str) -> Result<(), String> {
        let (subject, limits) = part.split_once('=').ok_or("no = behind whose it is")?;
        let subject = subject.trim();
        let (kind, name) = subject
            .split_once(':')
            .ok_or("neither user:, topic: nor group:")?;
        let mut kinds = Who::ALL.into_iter();
        let who = kinds
            .find(|who| who.word() == kind)
            .ok_or("neither user:, topic: nor group:")?;
        if name.is_empty() {
            return Err("no name, and no *".to_owned());
        }
        let mut rates = [0; LIMITS];
        for limit in limits.split(',').map(str::trim) {
            let (word, number) = limit.split_once(':').ok_or_else(|| {
                let words = Limit::ALL.map(Limit::word).join(", ");
                format!("{limit:?} is no limit: one of {words}, then : and a number")
            })?;
            let mut all = Limit::ALL.into_iter();
            let known = all
                .find(|known| known.word() == word.trim())
                .ok_or_else(|| {
                    let words = Limit::ALL.map(Limit::word).join(", ");
                    format!("{word:?} is none of {words}")
                })?;
            let rate = number.trim().parse().ok();
            let rate = rate.filter(|rate| (1..=RATE_MAX).contains(rate)).ok_or_else(|| {
                format!("{word}:{number} is no number from 1 to {RATE_MAX}; to forbid is what access control is for")
            })?;
            if let Some(slot) = rates.get_mut(known.index())
                && std::mem::replace(slot, rate) != 0
            {
                return Err(format!("{word} is there twice"));
            }
        }
        if self.rules.len() >= RULES_MAX {
            return Err(format!("there are {RULES_MAX} already"));
        }
        self.file(who, name)?;
        self.rules.push(Rule {
            text: subject.into(),
            rates,
        });
        Ok(())
    }

    /// Notes under which name the next rule is found.
    fn file(&mut self, who: Who, name: &str) -> Result<(), String> {
        let next = self.rules.len();
        let Some(of_kind) = self.of_kinds.get_mut(who.index()) else {
            return Ok(());
        };
        let is_new = if let Some(prefix) = name.strip_suffix('*') {
            let is_known = of_kind.prefixes.iter().any(|(known, _)| **known == *prefix);
            of_kind.prefixes.push((prefix.into(), next));
            !is_known
        } else {
            of_kind.literals.insert(name.into(), next).is_none()
        };
        if is_new {
            Ok(())
        } else {
            Err("there is one for that already".to_owned())
        }
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules in their order.
    #[must_use]
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether there are some of a kind.
    pub(crate) fn has(&self, who: Who) -> bool {
        self.of_kinds
            .get(who.index())
            .is_some_and(|of| !of.literals.is_empty() || !of.prefixes.is_empty())
    }

    /// The index of the rule for a name.
    pub(crate) fn of(&self, who: Who, name: &str) -> Option<usize> {
        let of_kind = self.of_kinds.get(who.index())?;
        of_kind.literals.get(name).copied().or_else(|| {
            let mut prefixes = of_kind.prefixes.iter();
            let found = prefixes.find(|(prefix, _)| name.starts_with(&**prefix));
            found.map(|(_, index)| *index)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(rules: &Rules, who: Who, name: &str) -> Option<String> {
        let index = rules.of(who, name)?;
        Some(rules.all()[index].text.to_string())
    }

    #[test]
    fn a_whole_name_counts_before_a_beginning_and_a_longer_one_before_a_shorter() {
        let text = "topic:*=producer_byte_rate:1; topic:orders*=producer_byte_rate:2,\
                    consumer_message_rate:7;topic:orders-eu=producer_byte_rate:3;\
                    user:a:b=consumer_byte_rate:4;";
        let rules = Rules::read(text).unwrap();
        let topic = |name| text_of(&rules, Who::Topic, name);
        assert_eq!(topic("orders-eu").as_deref(), Some("topic:orders-eu"));
        assert_eq!(topic("orders-us").as_deref(), Some("topic:orders*"));
        assert_eq!(topic("x").as_deref(), Some("topic:*"));
        assert_eq!(
            text_of(&rules, Who::User, "a:b").as_deref(),
            Some("user:a:b")
        );
        assert_eq!(text_of(&rules, Who::User, "c"), None);
        assert!(!rules.has(Who::Group));
        let rule = &rules.all()[1];
        assert_eq!(rule.rate(Limit::ProducerBytes), Some(2));
        assert_eq!(rule.rate(Limit::ConsumerMessages), Some(7));
        assert_eq!(rule.rate(Limit::ConsumerBytes), None);
        assert!(Rules::read(" ").unwrap().is_empty());
    }

    #[test]
    fn a_bad_rule_is_refused_in_words_that_name_it() {
        for (text, why) in [
            ("topic:a", "no ="),
            ("queue:a=producer_byte_rate:1", "neither user:"),
            ("topic=producer_byte_rate:1", "neither user:"),
            ("topic:=producer_byte_rate:1", "no name"),
            ("topic:a=producer_byte_rate", "is no limit"),
            ("topic:a=", "is no limit"),
            ("topic:a=bytes:1", "\"bytes\" is none of"),
            ("topic:a=producer_byte_rate:0", "no number from 1"),
            ("topic:a=producer_byte_rate:1k", "no number from 1"),
            (
                "topic:a=producer_byte_rate:1000000000001",
                "no number from 1",
            ),
            ("topic:a=producer_byte_rate:1,producer_byte_rate:2", "twice"),
            (
                "topic:a=producer_byte_rate:1;topic:a=producer_byte_rate:1",
                "already",
            ),
            (
                "group:*=producer_byte_rate:1;group:*=producer_byte_rate:1",
                "already",
            ),
        ] {
            let fault = Rules::read(text).unwrap_err();
            assert!(
                fault.starts_with("the rule \"") && fault.contains(why),
                "{fault}"
            );
        }
        let many: String = (0..=RULES_MAX)
            .map(|at| format!("topic:t{at}=producer_byte_rate:1;"))
            .collect();
        assert!(Rules::read(&many).unwrap_err().contains("1000 already"));
    }
}
