//! Which of two entries decides: in the documented order, and in that of 5.3.3, whose comparison is not one.
//! Where they differ that is meant; the table is the list of differences.

use std::cmp::Ordering;
use std::net::IpAddr;

use mqcore_access::policies::{Draft, Entry, Tier};
use mqcore_access::resource::Pattern;
use mqcore_access::{Actions, Kind, Resource};

type Row = ([(&'static str, bool); 2], usize, usize);

/// Two entries that both match `Topic:orders-eu`, in the order in which they are listed, each with its
/// decision; who decides by the documents, and who in 5.3.3: the first or the second.
const TABLE: &[Row] = &[
    // Of a kind before any kind: in both.
    ([("Topic:*", false), ("*", true)], 0, 0),
    ([("*", true), ("Topic:*", false)], 1, 1),
    // Literal before prefix: in 5.3.3 whichever is listed last.
    ([("Topic:orders-eu", false), ("Topic:orders*", true)], 0, 1),
    ([("Topic:orders*", true), ("Topic:orders-eu", false)], 1, 1),
    ([("Topic:orders-eu", true), ("Topic:orders*", false)], 0, 1),
    // Literal before any name: in 5.3.3 by the decision, or by the list.
    ([("Topic:orders-eu", false), ("Topic:*", true)], 0, 1),
    ([("Topic:*", true), ("Topic:orders-eu", false)], 1, 1),
    ([("Topic:orders-eu", true), ("Topic:*", false)], 0, 0),
    ([("Topic:*", false), ("Topic:orders-eu", true)], 1, 1),
    // Prefix before any name: the same.
    ([("Topic:orders*", false), ("Topic:*", true)], 0, 1),
    ([("Topic:*", true), ("Topic:orders*", false)], 1, 1),
    // The longer prefix: in 5.3.3 the shorter one.
    ([("Topic:orders*", true), ("Topic:o*", false)], 0, 1),
    ([("Topic:o*", true), ("Topic:orders*", false)], 1, 0),
    // Deny before Allow for one resource: in 5.3.3 Allow.
    (
        [("Topic:orders-eu", true), ("Topic:orders-eu", false)],
        1,
        0,
    ),
    (
        [("Topic:orders-eu", false), ("Topic:orders-eu", true)],
        0,
        1,
    ),
    ([("*", true), ("*", false)], 1, 0),
];

/// `AclAuthorizationHandler.comparePolicyEntries` of 5.3.3, branch by branch.
fn compared_by_533(one: (&Pattern<'_>, bool), other: (&Pattern<'_>, bool)) -> Ordering {
    let is_any_kind = |pattern: &Pattern<'_>| matches!(pattern, Pattern::Everything);
    let rank = |pattern: &Pattern<'_>| match pattern {
        Pattern::Literal(..) => 0,
        Pattern::Prefix(..) => 1,
        Pattern::Any(_) | Pattern::Everything => 2,
    };
    let mut found = Ordering::Equal;
    if is_any_kind(one.0) != is_any_kind(other.0) {
        found = if is_any_kind(other.0) {
            Ordering::Less
        } else {
            Ordering::Greater
        };
    } else if let (Pattern::Prefix(_, one), Pattern::Prefix(_, other)) = (one.0, other.0) {
        found = one.len().cmp(&other.len());
    } else if rank(one.0) != rank(other.0) && rank(one.0) < 2 {
        // It looks at the first of the two alone.
        found = Ordering::Less;
    }
    let by_decision = match (one.1, other.1) {
        (false, _) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (true, true) => Ordering::Equal,
    };
    found.then(by_decision)
}

/// The first after Java's sort of two: they change places where the second is less.
fn first_by_533(pair: [(&Pattern<'_>, bool); 2]) -> usize {
    usize::from(compared_by_533(pair[1], pair[0]) == Ordering::Less)
}

#[test]
fn of_two_entries_that_match_the_documented_one_decides() {
    let asked = Resource {
        kind: Kind::Topic,
        name: "orders-eu",
    };
    for (pair, expected, by_533) in TABLE {
        let mut draft = Draft::default();
        let patterns = pair.map(|(text, _)| Pattern::parse(text).unwrap());
        for ((_, is_allow), pattern) in pair.iter().zip(&patterns) {
            let entry = Entry {
                actions: Actions::SUB,
                networks: Box::default(),
                is_allow: *is_allow,
            };
            draft.add(Tier::Custom, pattern, entry);
        }
        let policies = draft.finish();
        let deciding = policies.deciding(&asked, Actions::SUB, None).unwrap();
        assert_eq!(deciding.is_allow, pair[*expected].1, "{pair:?}");
        let first = policies.matching(asked, Actions::SUB, None).next().unwrap();
        assert_eq!(first.pattern, patterns[*expected], "{pair:?}");
        let official = [(&patterns[0], pair[0].1), (&patterns[1], pair[1].1)];
        assert_eq!(first_by_533(official), *by_533, "5.3.3: {pair:?}");
    }
}

#[test]
fn default_is_asked_where_no_custom_entry_matches() {
    let mut draft = Draft::default();
    let networks = |text: &str| [mqcore_access::source::Network::parse(text).unwrap()].into();
    for (tier, pattern, net, is_allow) in [
        (Tier::Custom, "*", "10.0.0.0/8", false),
        (Tier::Default, "Topic:a", "0.0.0.0/0", true),
    ] {
        let entry = Entry {
            actions: Actions::SUB,
            networks: networks(net),
            is_allow,
        };
        draft.add(tier, &Pattern::parse(pattern).unwrap(), entry);
    }
    let policies = draft.finish();
    let asked = Resource {
        kind: Kind::Topic,
        name: "a",
    };
    let of = |ip: &str, actions| {
        let ip: IpAddr = ip.parse().unwrap();
        policies
            .deciding(&asked, actions, Some(ip))
            .map(|entry| entry.is_allow)
    };
    assert_eq!(
        of("10.1.1.1", Actions::SUB),
        Some(false),
        "Custom, whatever it says"
    );
    assert_eq!(of("11.1.1.1", Actions::SUB), Some(true), "Default");
    assert_eq!(of("11.1.1.1", Actions::PUB), None);
    assert_eq!(of("::1", Actions::SUB), None, "0.0.0.0/0 is IPv4");
    let none = policies.deciding(&asked, Actions::SUB, None);
    assert_eq!(none, None, "an unknown address is in no range");
}
