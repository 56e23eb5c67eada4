//! Compiled entries decide as a plain reading of the rule does: all that match, sorted.

use std::net::{IpAddr, Ipv4Addr};

use mqcore_access::policies::{Draft, Entry, Tier};
use mqcore_access::resource::Pattern;
use mqcore_access::source::Network;
use mqcore_access::{Actions, Kind, Resource};
use proptest::prelude::*;

#[derive(Debug, Clone)]
struct Row {
    tier: Tier,
    pattern: String,
    actions: u8,
    network: Option<&'static str>,
    is_allow: bool,
}

fn row() -> impl Strategy<Value = Row> {
    let tier = prop_oneof![Just(Tier::Custom), Just(Tier::Default)];
    let kind = prop_oneof![Just("Topic"), Just("Group")];
    let pattern = prop_oneof![
        1 => Just("*".to_owned()),
        9 => (kind, "[ab\u{e9}]{0,4}", any::<bool>()).prop_map(|(kind, name, is_prefix)| {
            let star = if is_prefix || name.is_empty() { "*" } else { "" };
            format!("{kind}:{name}{star}")
        }),
    ];
    let network = prop_oneof![
        3 => Just(None),
        1 => Just(Some("10.0.0.0/8")),
        1 => Just(Some("10.0.0.1")),
        1 => Just(Some("::/0")),
    ];
    (tier, pattern, 1..8_u8, network, any::<bool>()).prop_map(
        |(tier, pattern, actions, network, is_allow)| Row {
            tier,
            pattern,
            actions,
            network,
            is_allow,
        },
    )
}

/// The place of a row among those that match: the least decides.
fn precedence(row: &Row) -> (Tier, usize, usize, bool) {
    let (rank, len) = match Pattern::parse(&row.pattern).unwrap() {
        Pattern::Literal(..) => (0, 0),
        Pattern::Prefix(_, text) => (1, text.len()),
        Pattern::Any(_) => (2, 0),
        Pattern::Everything => (3, 0),
    };
    (row.tier, rank, usize::MAX - len, row.is_allow)
}

fn matches(row: &Row, asked: &Resource<'_>, actions: u8, ip: Option<IpAddr>) -> bool {
    let has_resource = match Pattern::parse(&row.pattern).unwrap() {
        Pattern::Everything => true,
        Pattern::Any(kind) => kind == asked.kind,
        Pattern::Prefix(kind, text) => kind == asked.kind && asked.name.starts_with(text),
        Pattern::Literal(kind, name) => kind == asked.kind && asked.name == name,
    };
    let is_from = match (row.network, ip) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some("10.0.0.0/8"), Some(IpAddr::V4(ip))) => ip.octets()[0] == 10,
        (Some("10.0.0.1"), Some(ip)) => ip == IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        (Some(all), Some(_)) => all == "::/0",
    };
    has_resource && is_from && row.actions & actions != 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn compiled_entries_decide_as_all_entries_sorted_do(
        rows in prop::collection::vec(row(), 0..12),
        names in prop::collection::vec("[ab\u{e9}]{1,5}", 1..6),
        actions in 1..8_u8,
        ip in prop_oneof![
            Just(None),
            Just(Some("10.0.0.1")),
            Just(Some("10.2.0.1")),
            Just(Some("11.0.0.1")),
            Just(Some("2001:db8::1")),
        ],
    ) {
        let ip: Option<IpAddr> = ip.map(|ip| ip.parse().unwrap());
        let mut draft = Draft::default();
        for row in &rows {
            let networks = row.network.iter().map(|text| Network::parse(text).unwrap());
            let entry = Entry {
                actions: Actions(row.actions),
                networks: networks.collect(),
                is_allow: row.is_allow,
            };
            draft.add(row.tier, &Pattern::parse(&row.pattern).unwrap(), entry);
        }
        let policies = draft.finish();
        for name in &names {
            for kind in [Kind::Topic, Kind::Group, Kind::Cluster] {
                let asked = Resource { kind, name };
                let mut matching: Vec<_> =
                    rows.iter().filter(|row| matches(row, &asked, actions, ip)).collect();
                matching.sort_by_key(|row| precedence(row));
                let expected = matching.first().map(|row| row.is_allow);
                let deciding = policies.deciding(&asked, Actions(actions), ip);
                prop_assert_eq!(deciding.map(|entry| entry.is_allow), expected, "{} {:?}", name, rows);
                let all: Vec<_> = policies.matching(asked, Actions(actions), ip).collect();
                prop_assert_eq!(all.len(), matching.len());
                for (found, row) in all.iter().zip(&matching) {
                    let pattern = Pattern::parse(&row.pattern).unwrap();
                    prop_assert_eq!((found.tier, &found.pattern), (row.tier, &pattern));
                    prop_assert_eq!(found.entry.is_allow, row.is_allow);
                }
            }
        }
    }
}
