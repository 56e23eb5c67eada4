//! Any bytes give a value or a typed error, and what is written is what is read.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use mqcore_wire::command::encode;
use mqcore_wire::fields::FIELDS_MAX;
use mqcore_wire::{
    Command, CommandRef, FRAME_BYTES_MAX, Frame, FrameReader, Language, Serialization, Split,
    WireError, split,
};
use proptest::prelude::*;

fn serializations() -> impl Strategy<Value = Serialization> {
    prop_oneof![Just(Serialization::Json), Just(Serialization::Binary)]
}

fn commands() -> impl Strategy<Value = Command> {
    let numbers = (
        any::<i16>(),
        0..14_u8,
        any::<i16>(),
        any::<i32>(),
        any::<i32>(),
    );
    let remark = proptest::option::of("\\PC{1,20}|[\u{1}\"\\\\\n\u{7f}ä]{1,5}");
    let texts = "[a-z]{0,4}|\\PC{0,9}|[\u{0}-\u{1f}\"\\\\]{0,5}";
    let ext = proptest::collection::btree_map(texts, texts, 0..20);
    let body = proptest::collection::vec(any::<u8>(), 0..60);
    (numbers, remark, ext, body, serializations()).prop_map(
        |((code, language, version, opaque, flag), remark, ext, body, serialization)| Command {
            code: i32::from(code),
            language: Language(language),
            version: i32::from(version),
            opaque,
            flag,
            remark,
            ext,
            body,
            serialization,
        },
    )
}

fn decoded(bytes: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    FrameReader::default()
        .feed::<WireError>(bytes, |frame| {
            commands.push(CommandRef::decode(frame)?.to_owned());
            Ok(())
        })
        .unwrap();
    commands
}

proptest! {
    #[test]
    fn any_bytes_are_split_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(Split::Frame(frame)) = split(&bytes, FRAME_BYTES_MAX) {
            prop_assert!(frame.len_bytes <= bytes.len());
            prop_assert_eq!(frame.header.len() + frame.body.len() + 8, frame.len_bytes);
        }
    }

    #[test]
    fn any_header_is_read_or_refused(
        header in proptest::collection::vec(any::<u8>(), 0..200),
        serialization in serializations(),
    ) {
        let len_bytes = header.len() + 8;
        let frame = Frame { serialization, header: &header, body: b"", len_bytes };
        if let Ok(command) = CommandRef::decode(&frame) {
            prop_assert!(command.fields.len() <= FIELDS_MAX);
        }
    }

    #[test]
    fn headers_that_look_like_json_are_read_as_a_json_parser_reads_them(
        header in "\\{(\"(code|flag|opaque|x|remark|extFields)\":(-?[0-9]{1,4}|\"a\"|null|\\{(\"[a-c]\":(\"\\\\?[nu]?\"|[0-9]|true))?\\}|\\[\\]),?){0,4}\\}[ x]?"
    ) {
        let len_bytes = header.len() + 8;
        let serialization = Serialization::Json;
        let frame = Frame { serialization, header: header.as_bytes(), body: b"", len_bytes };
        let read = CommandRef::decode(&frame);
        let model = serde_json::from_str::<serde_json::Value>(&header);
        match (read, model) {
            (Ok(command), Ok(model)) => {
                let code = model.get("code").and_then(serde_json::Value::as_i64).unwrap_or(0);
                prop_assert_eq!(i64::from(command.code), code);
                for (name, value) in command.to_owned().ext {
                    let field = &model["extFields"][&name];
                    let text = field.as_str().map_or_else(|| field.to_string(), str::to_owned);
                    prop_assert_eq!(value, text);
                }
            }
            (Ok(_), Err(error)) => prop_assert!(false, "{} was read: {}", header, error),
            // What is good JSON may still have a member of an impossible type.
            (Err(WireError::BadJson { .. }), _) => {}
            (Err(error), _) => prop_assert!(false, "{}: {}", header, error),
        }
    }

    #[test]
    fn what_is_written_is_read(command in commands()) {
        let bytes = command.encode().unwrap();
        prop_assert_eq!(decoded(&bytes), vec![command]);
    }

    #[test]
    fn borrowed_and_owned_are_written_alike(command in commands()) {
        let bytes = command.encode().unwrap();
        let Ok(Split::Frame(frame)) = split(&bytes, FRAME_BYTES_MAX) else {
            return Err(TestCaseError::fail("no frame"));
        };
        let borrowed = CommandRef::decode(&frame).unwrap();
        let again = encode(&command.head(), borrowed.fields.iter(), borrowed.body).unwrap();
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn the_pieces_make_no_difference(
        stream in proptest::collection::vec(commands(), 1..4),
        cuts in proptest::collection::vec(1..80_usize, 1..60),
    ) {
        let bytes: Vec<u8> = stream.iter().flat_map(|command| command.encode().unwrap()).collect();
        let mut reader = FrameReader::default();
        let mut seen = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            reader
                .feed::<WireError>(piece, |frame| {
                    seen.push(CommandRef::decode(frame)?.to_owned());
                    Ok(())
                })
                .unwrap();
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen, stream);
        prop_assert_eq!(reader.kept_bytes(), 0);
    }
}
