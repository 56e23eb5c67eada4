//! What a header costs: a send read, its answer written, in both serializations; the list of fields
//! that the send's header becomes is part of it.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mqcore_wire::command::{FrameWriter, encode};
use mqcore_wire::header::RESPONSE;
use mqcore_wire::{CommandRef, FRAME_BYTES_MAX, Head, Serialization, Split, split};

const KINDS: [(&str, Serialization); 2] = [
    ("json", Serialization::Json),
    ("binary", Serialization::Binary),
];

/// A send as the Java client writes it, without its body.
fn send(serialization: Serialization) -> Vec<u8> {
    let head = Head {
        code: 310,
        version: 409,
        opaque: 123_456,
        serialization,
        ..Head::default()
    };
    let properties = "KEYS\u{1}N14228\u{2}UNIQ_KEY\u{1}7F0000010001000000000000000000FF\u{2}WAIT\u{1}true\u{2}TAGS\u{1}EWR";
    let fields = [
        ("a", "producer-group"),
        ("b", "flights"),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "3"),
        ("f", "0"),
        ("g", "1795249596000"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
        ("n", "broker-a"),
    ];
    encode(&head, fields, &[]).unwrap_or_default()
}

fn read(criterion: &mut Criterion) {
    for (name, serialization) in KINDS {
        let bytes = send(serialization);
        criterion.bench_function(&format!("wire/read a send/{name}"), |bencher| {
            bencher.iter(|| {
                let Ok(Split::Frame(frame)) = split(black_box(&bytes), FRAME_BYTES_MAX) else {
                    return 0;
                };
                CommandRef::decode(&frame).map_or(0, |command| command.fields.len())
            });
        });
    }
}

fn write(criterion: &mut Criterion) {
    for (name, serialization) in KINDS {
        let head = Head {
            version: 409,
            opaque: 123_456,
            flag: RESPONSE,
            serialization,
            ..Head::default()
        };
        let mut out = Vec::new();
        criterion.bench_function(&format!("wire/write its answer/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                let Ok(mut frame) = FrameWriter::begin(&mut out, black_box(&head)) else {
                    return 0;
                };
                let fields = frame
                    .text("msgId", "7F00000100002A9F0000000008A4D2E2")
                    .and_then(|()| frame.number("queueId", 3))
                    .and_then(|()| frame.number("queueOffset", 1_234_567))
                    .and_then(|()| frame.text("MSG_REGION", "DefaultRegion"))
                    .and_then(|()| frame.text("TRACE_ON", "true"));
                if fields.and_then(|()| frame.finish(&[])).is_err() {
                    return 0;
                }
                out.len()
            });
        });
    }
}

criterion_group!(benches, read, write);
criterion_main!(benches);
