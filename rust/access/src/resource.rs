//! Resources, patterns of them, and actions (`Resource`, `ResourcePattern`, `Action`). Knows no user.

use std::fmt;

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The cluster of the server.
    Cluster,
    /// A namespace.
    Namespace,
    /// A topic.
    Topic,
    /// A consumer group.
    Group,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cluster, Self::Namespace, Self::Topic, Self::Group];

    /// The official name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Namespace => "Namespace",
            Self::Topic => "Topic",
            Self::Group => "Group",
        }
    }

    /// The kind of a name, in any case of letters as officially.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Cluster => 0,
            Self::Namespace => 1,
            Self::Topic => 2,
            Self::Group => 3,
        }
    }
}

/// One resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resource<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its name.
    pub name: &'a str,
}

/// Characters of a name that a text repeats: the longest legal topic has 127.
const SHOWN_CHARS: usize = 255;

/// A name as texts repeat it: as it came, cut where no legal name is so long.
pub(crate) fn shown(name: &str) -> &str {
    match name.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => name.get(..end).unwrap_or_default(),
        None => name,
    }
}

/// What the name of a group's retry topic begins with.
const RETRY_PREFIX: &str = "%RETRY%";
/// What the name of a group's dead letter topic begins with.
const DEAD_LETTER_PREFIX: &str = "%DLQ%";
/// Between group and topic in the name of a retry topic of pops (V2); no name of a group has it.
const RETRY_V2_SEPARATOR: char = '+';

impl<'a> Resource<'a> {
    /// A resource as `Topic:orders` names it.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        Some(Self {
            kind: Kind::named(kind)?,
            name,
        })
    }

    /// A group; the name of its retry topic names it too (`Resource.ofGroup`).
    #[must_use]
    pub fn group(name: &'a str) -> Self {
        Self {
            kind: Kind::Group,
            name: group_of_topic(name).unwrap_or(name),
        }
    }

    /// A topic, and what is to be done with it; the retry and dead letter topics of a group are the
    /// group's, and who writes to them is one of its consumers.
    #[must_use]
    pub fn topic(name: &'a str, actions: Actions) -> (Self, Actions) {
        let kind = Kind::Topic;
        match group_of_topic(name) {
            Some(group) => (Self::group(group), actions.of_consumer()),
            None => (Self { kind, name }, actions),
        }
    }

    /// The resource as entries name it: retry and dead letter topics are their group's.
    #[must_use]
    pub fn meant(self, actions: Actions) -> (Self, Actions) {
        match self.kind {
            Kind::Topic => Self::topic(self.name, actions),
            Kind::Group => (Self::group(self.name), actions),
            Kind::Cluster | Kind::Namespace => (self, actions),
        }
    }
}

impl fmt::Display for Resource<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.kind.name(), shown(self.name))
    }
}

/// The group that a retry or dead letter topic belongs to.
fn group_of_topic(name: &str) -> Option<&str> {
    let dead = name.strip_prefix(DEAD_LETTER_PREFIX);
    if dead.is_some() {
        return dead;
    }
    let group = name.strip_prefix(RETRY_PREFIX)?;
    Some(
        group
            .split_once(RETRY_V2_SEPARATOR)
            .map_or(group, |(group, _topic)| group),
    )
}

/// A set of actions, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Actions(pub u8);

impl Actions {
    /// To send.
    pub const PUB: Self = Self(1);
    /// To consume.
    pub const SUB: Self = Self(2);
    /// To create.
    pub const CREATE: Self = Self(4);
    /// To change.
    pub const UPDATE: Self = Self(8);
    /// To delete.
    pub const DELETE: Self = Self(16);
    /// To look at.
    pub const GET: Self = Self(32);
    /// To list.
    pub const LIST: Self = Self(64);
    /// Whatever there is.
    pub const ALL: Self = Self(u8::MAX);

    const NAMES: [(&'static str, Self); 8] = [
        ("Pub", Self::PUB),
        ("Sub", Self::SUB),
        ("Create", Self::CREATE),
        ("Update", Self::UPDATE),
        ("Delete", Self::DELETE),
        ("Get", Self::GET),
        ("List", Self::LIST),
        ("All", Self::ALL),
    ];

    /// An action by its official name, in any case of letters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.into_iter();
        let found = names.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, actions)| actions)
    }

    /// Both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of the asked actions is in the set: any of them is enough, as officially.
    #[must_use]
    pub const fn has_any(self, asked: Self) -> bool {
        self.0 & asked.0 != 0
    }

    /// What a consumer does where others send: of its own retry topic.
    const fn of_consumer(self) -> Self {
        if self.0 & Self::PUB.0 == 0 {
            self
        } else {
            Self(self.0 & !Self::PUB.0 | Self::SUB.0)
        }
    }

    /// The official names.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        if self == Self::ALL {
            return vec!["All"];
        }
        let names = Self::NAMES
            .iter()
            .filter(|(_, one)| one.0.count_ones() == 1);
        names
            .filter(|(_, one)| self.has_any(*one))
            .map(|(name, _)| *name)
            .collect()
    }
}

/// Which resources an entry is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern<'a> {
    /// All of any kind: `*`.
    Everything,
    /// All of a kind: `Topic:*`.
    Any(Kind),
    /// Those of a kind whose name begins so: `Topic:orders*`.
    Prefix(Kind, &'a str),
    /// One: `Topic:orders`.
    Literal(Kind, &'a str),
}

impl<'a> Pattern<'a> {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text == "*" {
            return Ok(Self::Everything);
        }
        let (kind, name) = text.split_once(':').ok_or("no kind before a colon")?;
        let kind = Kind::named(kind).ok_or("no such kind of resource")?;
        match (name, name.strip_suffix('*')) {
            ("", _) => Err("no name"),
            ("*", _) => Ok(Self::Any(kind)),
            // 5.3 cuts at the first one without a word, and gives more than was meant.
            (_, Some(prefix)) if prefix.contains('*') => Err("more than one asterisk"),
            (_, Some(prefix)) => Ok(Self::Prefix(kind, prefix)),
            (_, None) => Ok(Self::Literal(kind, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_as_the_official_broker_reads_them() {
        let parse = Pattern::parse;
        assert_eq!(parse("*"), Ok(Pattern::Everything));
        assert_eq!(parse("Topic:*"), Ok(Pattern::Any(Kind::Topic)));
        assert_eq!(parse("group:g*"), Ok(Pattern::Prefix(Kind::Group, "g")));
        assert_eq!(parse("Topic:a:b"), Ok(Pattern::Literal(Kind::Topic, "a:b")));
        assert_eq!(parse("Topic:a*b"), Ok(Pattern::Literal(Kind::Topic, "a*b")));
        for bad in ["", "orders", "Topic:", "Queue:a", "Any:*", "Topic:a*b*"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn retry_and_dead_letter_topics_are_those_of_their_group() {
        let sub = (Resource::group("g"), Actions::SUB);
        assert_eq!(Resource::topic("%RETRY%g", Actions::PUB), sub);
        assert_eq!(Resource::topic("%DLQ%g", Actions::SUB), sub);
        assert_eq!(Resource::topic("%RETRY%g+t", Actions::SUB), sub);
        assert_eq!(Resource::topic("%RETRY%g", Actions::GET).1, Actions::GET);
        assert_eq!(Resource::group("%RETRY%g"), Resource::group("g"));
        let plain = Resource::topic("%OTHER%g", Actions::PUB);
        assert_eq!(plain.0.kind, Kind::Topic);
    }

    #[test]
    fn actions_have_their_official_names() {
        let both = Actions::SUB.and(Actions::GET);
        assert_eq!(both.names(), ["Sub", "Get"]);
        assert_eq!(Actions::ALL.names(), ["All"]);
        assert_eq!(Actions::named("sub"), Some(Actions::SUB));
        assert_eq!(Actions::named("Any"), None, "not for entries");
        assert!(Actions::ALL.has_any(Actions::LIST));
        assert!(!both.has_any(Actions::PUB));
    }
}
