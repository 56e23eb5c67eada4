//! Frames that the original encoders wrote, byte for byte, and the tolerance that old clients need.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;

use mqcore_wire::{
    Command, CommandRef, FRAME_BYTES_MAX, Frame, Language, Serialization, Split, WireError, split,
};

const ROUTE_JSON: &str = r#"{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}"#;
const REMARK_JSON: &str = r#"{"code":17,"flag":1,"language":"JAVA","opaque":7,"remark":"no","serializeTypeCurrentRPC":"JSON","version":409}"#;
const ROUTE_BINARY: &str = concat!(
    "00000025010000210069000199000000070000000000000000",
    "0000000c0005746f7069630000000154"
);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|c| c.to_digit(16).unwrap()).collect();
    digits
        .chunks(2)
        .map(|two| (two[0] << 4 | two[1]) as u8)
        .collect()
}

fn framed(len: u32, header_len: u32, header: &str) -> Vec<u8> {
    [
        &len.to_be_bytes()[..],
        &header_len.to_be_bytes(),
        header.as_bytes(),
    ]
    .concat()
}

fn frame(bytes: &[u8]) -> Frame<'_> {
    match split(bytes, FRAME_BYTES_MAX).unwrap() {
        Split::Frame(frame) if frame.len_bytes == bytes.len() => frame,
        other => panic!("not one frame: {other:?}"),
    }
}

fn decoded(header: &str) -> Result<Command, WireError> {
    let len = header.len() as u32;
    let bytes = framed(len + 4, len, header);
    CommandRef::decode(&frame(&bytes)).map(|command| command.to_owned())
}

fn route(serialization: Serialization) -> Command {
    Command {
        code: 105,
        version: 409,
        opaque: 7,
        ext: BTreeMap::from([("topic".to_owned(), "T".to_owned())]),
        serialization,
        ..Command::default()
    }
}

#[test]
fn a_route_request_in_json() {
    let bytes = framed(0x7f, 0x7b, ROUTE_JSON);
    let command = route(Serialization::Json);
    assert_eq!(command.encode().unwrap(), bytes);
    assert_eq!(
        CommandRef::decode(&frame(&bytes)).unwrap().to_owned(),
        command
    );
}

#[test]
fn a_route_request_in_binary() {
    let bytes = hex(ROUTE_BINARY);
    let command = route(Serialization::Binary);
    assert_eq!(command.encode().unwrap(), bytes);
    assert_eq!(
        CommandRef::decode(&frame(&bytes)).unwrap().to_owned(),
        command
    );
}

#[test]
fn a_response_with_a_remark() {
    let bytes = framed(0x72, 0x6e, REMARK_JSON);
    let command = Command {
        code: 17,
        version: 409,
        opaque: 7,
        flag: 1,
        remark: Some("no".to_owned()),
        ..Command::default()
    };
    assert_eq!(command.encode().unwrap(), bytes);
    let read = CommandRef::decode(&frame(&bytes)).unwrap();
    assert!(read.is_response() && !read.is_oneway());
    assert_eq!(read.to_owned(), command);
}

#[test]
fn a_body_follows_the_header() {
    for serialization in [Serialization::Json, Serialization::Binary] {
        let mut command = route(serialization);
        command.body = b"{\"a\":1}".to_vec();
        let bytes = command.encode().unwrap();
        assert!(bytes.ends_with(b"{\"a\":1}"));
        let read = CommandRef::decode(&frame(&bytes)).unwrap();
        assert_eq!(read.to_owned(), command);
    }
}

#[test]
fn numbers_and_booleans_as_values_become_text() {
    let header = r#"{"code":310,"extFields":{"queueId":3,"big":-9007199254740993,"d":1.5,
        "unitMode":false,"k":true,"none":null,"s":"x"},"language":1,"opaque":-5,"x":{"y":[1,{}]}}
        "#;
    let command = decoded(header).unwrap();
    let ext: Vec<(&str, &str)> = command
        .ext
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("big", "-9007199254740993"),
        ("d", "1.5"),
        ("k", "true"),
        ("queueId", "3"),
        ("s", "x"),
        ("unitMode", "false"),
    ];
    assert_eq!(ext, expected);
    assert_eq!((command.language, command.opaque), (Language(1), -5));
    assert_eq!(
        (command.version, command.flag, command.remark),
        (0, 0, None)
    );
}

#[test]
fn missing_members_and_nulls_have_their_defaults() {
    assert_eq!(decoded("{}\n").unwrap(), Command::default());
    let nulls = r#" {"code":null,"extFields":null,"remark":null,"language":null,"flag":"2"} "#;
    let expected = Command {
        flag: 2,
        ..Command::default()
    };
    assert_eq!(decoded(nulls).unwrap(), expected);
}

#[test]
fn the_last_of_two_equal_names_counts() {
    let header = r#"{"extFields":{"a":"1","a":"2"},"code":1,"code":2}"#;
    let len = header.len() as u32;
    let bytes = framed(len + 4, len, header);
    let read = CommandRef::decode(&frame(&bytes)).unwrap();
    assert_eq!(read.fields.value("a"), Some("2"));
    assert_eq!(read.fields.value("b"), None);
    assert_eq!(read.to_owned().ext["a"], "2");
    assert_eq!(read.code, 2);
}

#[test]
fn escapes_are_read_and_written() {
    let header = r#"{"extFields":{"i":"TAGS\u0001A\u0002","\"":"\\ä\/"},"remark":"a\n\u00e4"}"#;
    let command = decoded(header).unwrap();
    assert_eq!(command.ext["i"], "TAGS\u{1}A\u{2}");
    assert_eq!(command.ext["\""], "\\ä/");
    assert_eq!(command.remark.as_deref(), Some("a\nä"));
    let bytes = command.encode().unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(
        text.contains(r#"{"\"":"\\ä/","i":"TAGS\u0001A\u0002"}"#),
        "{text}"
    );
    assert_eq!(
        CommandRef::decode(&frame(&bytes)).unwrap().to_owned(),
        command
    );
}

#[test]
fn wrong_types_are_named() {
    for header in [
        r#"[]"#,
        r#""x""#,
        r#"{"code":[]}"#,
        r#"{"code":1.5}"#,
        r#"{"code":2147483648}"#,
        r#"{"code":"ten"}"#,
        r#"{"extFields":[]}"#,
        r#"{"extFields":{"a":{}}}"#,
        r#"{"remark":{}}"#,
        r#"{"code":1} x"#,
        r#"{"code":1"#,
        "",
    ] {
        let refused = decoded(header).unwrap_err();
        assert!(
            matches!(refused, WireError::BadJson { .. }),
            "{header}: {refused}"
        );
    }
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert!(matches!(decoded(&deep), Err(WireError::BadJson { .. })));
}

#[test]
fn a_header_with_too_many_fields_is_refused() {
    let field = |at: usize| format!("\"k{at}\":1");
    let fields: Vec<String> = (0..=1024).map(field).collect();
    let header = format!("{{\"extFields\":{{{}}}}}", fields.join(","));
    assert_eq!(
        decoded(&header),
        Err(WireError::TooManyFields { max: 1024 })
    );
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut command = route(Serialization::Binary);
    command.code = 200_050;
    assert_eq!(
        command.encode(),
        Err(WireError::CodeTooLarge { code: 200_050 })
    );
    let mut command = route(Serialization::Binary);
    command.ext.insert("k".repeat(40_000), String::new());
    assert!(matches!(command.encode(), Err(WireError::TooLong { .. })));
    let mut command = route(Serialization::Json);
    command.body = vec![0; FRAME_BYTES_MAX];
    assert!(matches!(command.encode(), Err(WireError::TooLong { .. })));
}

#[test]
fn a_binary_header_that_does_not_fit_together_is_named() {
    let whole = hex(ROUTE_BINARY);
    // Lengths of remark, of the fields, of a name and of a value, made too long and negative.
    for (at, width) in [(21, 4), (25, 4), (29, 2), (36, 4)] {
        for fill in [0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[at..at + width].fill(fill);
            let refused = CommandRef::decode(&frame(&bytes)).unwrap_err();
            assert!(matches!(refused, WireError::BadBinary { .. }), "{refused}");
        }
    }
}
