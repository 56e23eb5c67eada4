//! Bad text into what names resources and addresses: a value or nothing, never a panic, and a value is read
//! again from what it is shown as.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "../../../engine/tests/fuzz/mutate.rs"]
mod mutate;
#[path = "../../../engine/tests/fuzz/run.rs"]
mod run;

use mqcore_access::resource::{Actions, Kind, Pattern, Resource};
use mqcore_access::source::{Network, Source};
use run::{Target, target};

const TARGETS: [Target; 2] = [
    target("resource", resources, resource),
    target("source", sources, source),
];

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
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
