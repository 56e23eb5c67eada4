//! Any header: order, repeated fields, empty and very long names, secrets and values beyond ASCII.

use mqcore_access::signature::Key;
use proptest::prelude::*;

use super::{Signed, access, user};

/// The signed text as the protocol's notes have it, without a care for time.
fn plain_text(fields: &[(String, String)], body: &[u8]) -> Vec<u8> {
    let mut last: Vec<&(String, String)> = Vec::new();
    for field in fields {
        last.retain(|(name, _)| *name != field.0);
        last.push(field);
    }
    last.retain(|(name, _)| name != "Signature");
    last.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<_>>());
    let mut text: Vec<u8> = last.iter().flat_map(|(_, value)| value.bytes()).collect();
    text.extend(body);
    text
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,2}",
        "[a-zA-Z_]{0,20}",
        "consumer(Group)?[a-c]?",
        "[\u{7f}\u{e9}\u{ff5e}\u{1f600}a]{1,3}",
        Just("Signature".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_header_is_signed_in_the_order_of_java(
        fields in prop::collection::vec((name(), ".{0,6}"), 0..14),
        body in prop::collection::vec(any::<u8>(), 0..40),
        secret in ".{0,80}",
    ) {
        let key = Key::of(&secret);
        let text = plain_text(&fields, &body);
        let one = [("x".to_owned(), String::new())];
        let expected = key.sign(&one, &text);
        prop_assert_eq!(&key.sign(&fields, &body), &expected);
        let mut sent = fields.clone();
        sent.insert(sent.len() / 2, ("Signature".to_owned(), "early".to_owned()));
        sent.push(("Signature".to_owned(), expected));
        prop_assert!(key.has_signed(&sent, &body, 409));
    }
}

#[test]
fn an_empty_and_a_very_long_name_are_refused_as_any_other() {
    let access = access(
        &[(10, "T(topic) Pub")],
        &[user("a", "Super", "enable")],
        &[],
        &[("authenticate", "true")],
    );
    let tables = access.tables();
    let long = "\u{e9}".repeat(512 << 10);
    for (name, text) in [
        ("", "username cannot be null."),
        (&*long, "check signature failed."),
    ] {
        let request = Signed::by(name, super::SECRET, 10, &[("topic", "t")]);
        let refused = request.check(&access, &tables, "1.2.3.4:5").unwrap_err();
        assert_eq!(refused.to_string(), text);
    }
}
