//! Bad text into what names resources and addresses: a value or nothing, never a panic, and a value is read
//! again from what it is shown as.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../../engine/tests/fuzz/run.rs"]
mod run;

use mqcore_access::addresses::Addresses;
use mqcore_access::resource::{Actions, Kind, Pattern, Resource};
use mqcore_access::source::{Network, Source};
use run::{Target, target};

const TARGETS: [Target; 3] = [
    target("addresses", patterns, addresses),
    target("resource", resources, resource),
    target("source", sources, source),
];

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn patterns() -> Vec<Vec<u8>> {
    texts(&[
        "*",
        "10.0.0.1,10.0.0.2",
        "10.0.0.{1,5}",
        "10.0.*.*",
        "10.0.1-5.*",
        "fe80::1-ff:*",
        "fe80:0:0:1:*",
        "fe80::{1,5}",
    ])
}

fn addresses(bytes: &[u8], number: u64) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(found) = Addresses::parse(&text) {
        let bits = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let _has = found.has(Some(std::net::Ipv6Addr::from_bits(bits).into()));
    }
}

fn resources() -> Vec<Vec<u8>> {
    texts(&[
        "Topic:orders*",
        "Group:%RETRY%g",
        "Cluster:DefaultCluster",
        "*",
        "Any:*",
        "Pub",
        "Topic:",
    ])
}

fn resource(bytes: &[u8], _number: u64) {
    let text = String::from_utf8_lossy(bytes);
    let _resource = Resource::parse(&text);
    let _pattern = Pattern::parse(&text);
    let _words = (Kind::named(&text), Actions::named(&text));
}

fn sources() -> Vec<Vec<u8>> {
    texts(&[
        "10.0.0.0/8",
        "192.168.1.7",
        "::1",
        "fe80::/10",
        "127.0.0.1:10911",
        "[::1]:10911",
        "/10.0.0.1:1",
        "0.0.0.0/0",
    ])
}

fn source(bytes: &[u8], _number: u64) {
    let text = String::from_utf8_lossy(bytes);
    let _network = Network::parse(&text);
    let peer = Source::of(&text);
    assert_eq!(Source::of(peer.text()).text(), peer.text());
}

#[test]
fn a_sample_of_bad_bytes() {
    run::sample(&TARGETS);
}

#[test]
#[ignore = "minutes: make fuzz runs it"]
fn bad_bytes_for_minutes() {
    run::for_long(&TARGETS);
}
