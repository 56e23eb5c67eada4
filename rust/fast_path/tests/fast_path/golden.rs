//! Requests and answers byte by byte.

use mqcore_engine::config::FlushDiskType;

use crate::serving::{STAMP, START_MS, Serving, pull_with, request, send_with};

/// The header of the only frame.
fn header(bytes: &[u8]) -> &str {
    let len = u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize;
    assert_eq!(bytes.len(), len + 4, "one frame");
    let header_len = u32::from_be_bytes(*bytes[4..].first_chunk().unwrap()) as usize;
    std::str::from_utf8(&bytes[8..8 + header_len]).unwrap()
}

#[test]
fn the_answer_to_a_send_has_its_offsets() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.feed(&send_with(7, &[("e", "3")], b"hello"));
    assert_eq!(
        header(&serving.bytes()),
        "{\"code\":0,\"extFields\":{\"msgId\":\"7F00000100002A9F0000000000000000\",\
         \"queueId\":\"3\",\"queueOffset\":\"0\",\"MSG_REGION\":\"DefaultRegion\",\
         \"TRACE_ON\":\"true\"},\"flag\":1,\"language\":\"JAVA\",\"opaque\":7,\
         \"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}"
    );
}

#[test]
fn the_answer_to_a_pull_is_a_header_and_the_records_as_they_are_stored() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.feed(&send_with(
        1,
        &[("i", "TAGS\u{1}a\u{2}WAIT\u{1}true\u{2}")],
        b"hello",
    ));
    serving.bytes();
    serving.settle();
    serving.feed(&pull_with(8, &[]));
    let bytes = serving.bytes();
    assert!(
        header(&bytes[..]).starts_with(
            "{\"code\":0,\"extFields\":{\"suggestWhichBrokerId\":\"0\",\"nextBeginOffset\":\"1\",\
             \"minOffset\":\"0\",\"maxOffset\":\"1\"},"
        ),
        "{}",
        header(&bytes)
    );
    let record = serving.store.reader().record_at(0).unwrap();
    assert!(bytes.ends_with(record.as_bytes()));
    // total, magic, CRC, queue, flag, offsets, system flag, times and hosts, as the official
    // broker writes a record of version 1.
    let mut want = Vec::new();
    let properties = [b"TAGS\x01a\x02", STAMP].concat();
    let total = 91 + 5 + 1 + properties.len() as i32;
    want.extend(total.to_be_bytes());
    want.extend(0xDAA3_20A7_u32.to_be_bytes());
    want.extend(0x3610_A686_u32.to_be_bytes());
    want.extend([0; 4 + 4 + 8 + 8 + 4]);
    want.extend(1_700_000_000_000_i64.to_be_bytes());
    want.extend([1, 2, 3, 4, 0, 0, 0, 9]);
    want.extend(START_MS.to_be_bytes());
    want.extend([127, 0, 0, 1, 0, 0, 0x2A, 0x9F]);
    want.extend([0; 4 + 8]);
    want.extend([0, 0, 0, 5]);
    want.extend(b"hello");
    want.extend([1, b't']);
    want.extend((properties.len() as i16).to_be_bytes());
    want.extend(&properties);
    assert_eq!(record.as_bytes(), want);
}

#[test]
fn an_answer_to_an_offset_question_is_the_offset() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.feed(&request(30, -3, &[("topic", "t"), ("queueId", "0")], b""));
    assert_eq!(
        header(&serving.bytes()),
        "{\"code\":0,\"extFields\":{\"offset\":\"0\"},\"flag\":1,\"language\":\"JAVA\",\
         \"opaque\":-3,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":409}"
    );
}
