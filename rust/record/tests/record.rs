//! What is encoded is read back, and what is damaged is noticed: records, blanks, limits.
//! Knows the format only through the crate's public face and its byte table.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails here")]

use mqcore_record::layout::{
    self, BODY_CRC_AT, BODY_LEN_AT, HEAD_LEN_MIN, MAGIC_V1, MAGIC_V2, RECORD_LEN_MIN, SYS_FLAG_AT,
};
use mqcore_record::sys_flag::{BORN_HOST_V6, PREPARED, STORE_HOST_V6};
use mqcore_record::{
    CrcCheck, Field, Found, Host, Limits, Message, Prepared, RecordError, RecordView, Transaction,
    Version, batch, body_crc, check, crc_property, head, peek_store_timestamp_ms, peek_total_len,
    properties, scan_wanted, write_blank,
};
use proptest::prelude::*;

const LIMITS: Limits = Limits { body_len_max: 4096 };
const V4: Host = Host::V4 {
    address: [10, 1, 2, 3],
    port: 10911,
};
const V6: Host = Host::V6 {
    address: [0xFE; 16],
    port: -7,
};

fn message() -> Message<'static> {
    Message {
        topic: "Orders",
        queue_id: 3,
        flag: -5,
        sys_flag: 0,
        born_timestamp_ms: 1_700_000_000_000,
        born_host: V4,
        store_host: V4,
        reconsume_times: 2,
        prepared_transaction_offset: 77,
        body: b"a body of some bytes",
        properties: b"TAGS\x01TagA\x02KEYS\x01k1 k2\x02",
        version: None,
    }
}

fn encode(message: &Message<'_>) -> Vec<u8> {
    let mut prepared = Prepared::new(message, &LIMITS).unwrap();
    prepared.stamp(11, 222, 3333);
    let mut out = vec![0xEE; prepared.total_len()];
    prepared.write_to(&mut out);
    out
}

fn record(bytes: &[u8]) -> RecordView<'_> {
    match check(bytes, CrcCheck::Verify).unwrap() {
        Found::Record(record) => record,
        Found::Blank { .. } => panic!("a blank"),
    }
}

fn refused(change: impl FnOnce(&mut Message<'static>)) -> RecordError {
    let mut changed = message();
    change(&mut changed);
    Prepared::new(&changed, &LIMITS).unwrap_err()
}

fn with_i32(bytes: &[u8], at: usize, value: i32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    bytes
}

#[test]
fn every_field_reads_back_with_every_kind_of_host() {
    for (born_host, store_host) in [(V4, V4), (V6, V4), (V4, V6), (V6, V6)] {
        // The flag contradicts the hosts: the hosts count.
        let sys_flag = 0x301 | if born_host.is_v6() { 0 } else { BORN_HOST_V6 };
        let sent = Message {
            born_host,
            store_host,
            sys_flag,
            ..message()
        };
        let bytes = encode(&sent);
        let read = record(&bytes);
        let v6_bits = if born_host.is_v6() { BORN_HOST_V6 } else { 0 }
            | if store_host.is_v6() { STORE_HOST_V6 } else { 0 };
        let expected = RecordView {
            total_len_bytes: bytes.len(),
            version: Version::V1,
            body_crc: body_crc(sent.body),
            queue_id: 3,
            flag: -5,
            queue_offset: 11,
            physical_offset: 222,
            sys_flag: 0x301 | v6_bits,
            born_timestamp_ms: 1_700_000_000_000,
            born_host,
            store_timestamp_ms: 3333,
            store_host,
            reconsume_times: 2,
            prepared_transaction_offset: 77,
            body: sent.body,
            topic: b"Orders",
            properties: sent.properties,
        };
        assert_eq!(read, expected);
        assert_eq!(peek_total_len(&bytes), Some(bytes.len()));
        assert_eq!(peek_store_timestamp_ms(&bytes), Some(3333));
    }
}

#[test]
fn a_record_may_be_stamped_again() {
    let mut prepared = Prepared::new(&message(), &LIMITS).unwrap();
    let mut out = vec![0; prepared.total_len()];
    prepared.stamp(1, 2, 3);
    prepared.write_to(&mut out);
    prepared.stamp(i64::MAX, -1, i64::MIN);
    prepared.write_to(&mut out);
    let read = record(&out);
    let stamps = (
        read.queue_offset,
        read.physical_offset,
        read.store_timestamp_ms,
    );
    assert_eq!(stamps, (i64::MAX, -1, i64::MIN));
}

#[test]
fn what_the_lock_holder_needs_is_at_hand() {
    let sent = Message {
        sys_flag: PREPARED,
        store_host: V6,
        ..message()
    };
    let prepared = Prepared::new(&sent, &LIMITS).unwrap();
    assert_eq!(prepared.topic(), b"Orders");
    assert_eq!(prepared.queue_id(), 3);
    assert_eq!(prepared.transaction(), Transaction::Prepared);
    assert_eq!(prepared.sys_flag(), PREPARED | STORE_HOST_V6);
    assert_eq!(prepared.properties(), sent.properties);
}

#[test]
fn the_version_follows_the_topic() {
    let long = "t".repeat(128);
    for (topic, version, magic) in [
        (&long[..127], Version::V1, MAGIC_V1),
        (&long[..], Version::V2, MAGIC_V2),
    ] {
        let bytes = encode(&Message { topic, ..message() });
        assert_eq!(record(&bytes).version, version);
        assert_eq!(bytes[4..8], magic.to_be_bytes());
        assert_eq!(record(&bytes).topic, topic.as_bytes());
    }
    let asked = encode(&Message {
        version: Some(Version::V2),
        ..message()
    });
    assert_eq!(record(&asked).topic, b"Orders");
    assert_eq!(asked.len(), encode(&message()).len() + 1);
}

#[test]
fn the_shortest_record_has_ninety_one_bytes_and_a_topic() {
    let bytes = encode(&Message {
        topic: "t",
        body: b"",
        properties: b"",
        ..message()
    });
    assert_eq!(bytes.len(), RECORD_LEN_MIN + 1);
    let read = record(&bytes);
    assert_eq!(
        (read.body_crc, read.body, read.properties),
        (0, &b""[..], &b""[..])
    );
    // The CRC of an empty body is never compared.
    record(&with_i32(&bytes, BODY_CRC_AT, 99));
}

#[test]
fn limits_are_exact() {
    static LONG: [u8; 70_000] = [b'x'; 70_000];
    let topic = std::str::from_utf8(&LONG).unwrap();
    encode(&Message {
        body: &LONG[..4096],
        properties: &LONG[..32_767],
        ..message()
    });
    assert_eq!(
        refused(|m| m.body = &LONG[..4097]),
        RecordError::BodyTooLarge {
            len: 4097,
            max: 4096
        }
    );
    assert_eq!(
        refused(|m| m.properties = &LONG[..32_768]),
        RecordError::PropertiesTooLong { len: 32_768 }
    );
    assert_eq!(refused(|m| m.topic = ""), RecordError::TopicEmpty);
    assert_eq!(
        refused(|m| m.topic = &topic[..32_768]),
        RecordError::TopicTooLong {
            len: 32_768,
            max: 32_767
        }
    );
    assert_eq!(
        refused(|m| (m.topic, m.version) = (&topic[..128], Some(Version::V1))),
        RecordError::TopicTooLong { len: 128, max: 127 }
    );
    let full = |m: &mut Message<'static>| {
        (m.topic, m.properties, m.body) = (&topic[..32_767], &LONG[..32_767], &LONG[..4096]);
    };
    assert_eq!(
        refused(full),
        RecordError::RecordTooLarge {
            len: 69_722,
            max: 69_632
        }
    );
}

#[test]
#[should_panic(expected = "as long as the record")]
fn a_buffer_of_another_length_is_a_mistake_of_the_caller() {
    let prepared = Prepared::new(&message(), &LIMITS).unwrap();
    prepared.write_to(&mut vec![0; prepared.total_len() + 1]);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = encode(&message());
    for len in 0..bytes.len() {
        let need = if len < 8 { 8 } else { bytes.len() };
        let truncated = Err(RecordError::Truncated { need, have: len });
        assert_eq!(check(&bytes[..len], CrcCheck::Verify), truncated);
        assert_eq!(head(&bytes[..len]), truncated);
    }
}

#[test]
fn every_shorter_claim_is_an_error() {
    let bytes = encode(&message());
    for len in 0..bytes.len() {
        let claims = with_i32(&bytes, 0, len as i32);
        let error = head(&claims).unwrap_err();
        let RecordError::LengthMismatch { stored, computed } = error else {
            panic!("{len}: {error}");
        };
        assert_eq!(stored, len);
        assert!(
            computed > len && computed <= bytes.len(),
            "{len}: {computed}"
        );
        assert_eq!(error.claimed_len(), (len > 0).then_some(len));
    }
}

#[test]
fn a_longer_claim_is_an_error_with_the_length_to_skip() {
    let mut bytes = encode(&message());
    let computed = bytes.len();
    let stored = computed + 5;
    bytes.resize(stored, 0);
    let error = check(&with_i32(&bytes, 0, stored as i32), CrcCheck::Verify).unwrap_err();
    assert_eq!(error, RecordError::LengthMismatch { stored, computed });
    assert_eq!(error.claimed_len(), Some(stored));
}

#[test]
fn every_flipped_bit_of_a_body_is_noticed() {
    let bytes = encode(&message());
    for bit in 0..message().body.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[HEAD_LEN_MIN + bit / 8] ^= 1 << (bit % 8);
        let error = check(&flipped, CrcCheck::Verify).unwrap_err();
        assert!(matches!(error, RecordError::CrcMismatch { .. }), "{error}");
        assert_eq!(error.claimed_len(), None);
        assert!(check(&flipped, CrcCheck::Skip).is_ok());
    }
}

#[test]
fn negative_lengths_are_errors() {
    let bytes = encode(&message());
    let negative = |field, len| Err(RecordError::NegativeLength { field, len });
    assert_eq!(head(&with_i32(&bytes, 0, -1)), negative(Field::Total, -1));
    assert_eq!(head(&with_i32(&bytes, BODY_LEN_AT, i32::MIN)), {
        negative(Field::Body, i64::from(i32::MIN))
    });
    let topic_len_at = HEAD_LEN_MIN + message().body.len();
    let mut topic = bytes.clone();
    topic[topic_len_at] = 0x80;
    assert_eq!(head(&topic), negative(Field::Topic, -128));
    let mut properties = bytes;
    properties[topic_len_at + 1 + "Orders".len()] = 0xFF;
    let RecordError::NegativeLength {
        field: Field::Properties,
        ..
    } = head(&properties).unwrap_err()
    else {
        panic!("a negative properties length was accepted");
    };
}

#[test]
fn a_blank_ends_a_file() {
    let mut bytes = [0xAB; 40];
    write_blank(&mut bytes, 40);
    assert_eq!(
        check(&bytes, CrcCheck::Verify),
        Ok(Found::Blank { len_bytes: 40 })
    );
    assert_eq!(bytes[8..], [0xAB; 32]);
    assert_eq!(peek_total_len(&bytes), None);
    assert_eq!(
        head(&bytes[..39]),
        Err(RecordError::Truncated { need: 40, have: 39 })
    );
    write_blank(&mut bytes, 7);
    assert_eq!(head(&bytes), Err(RecordError::BlankTooShort { len: 7 }));
    write_blank(&mut bytes, -40);
    assert_eq!(
        head(&bytes),
        Err(RecordError::NegativeLength {
            field: Field::Total,
            len: -40
        })
    );
}

#[test]
fn a_record_with_a_crc_property_is_verified_as_a_whole() {
    let mut text = message().properties.to_vec();
    crc_property::reserve(&mut text);
    let mut bytes = encode(&Message {
        properties: &text,
        ..message()
    });
    assert_eq!(
        crc_property::verify(&bytes, &text),
        Err(RecordError::CrcMismatch {
            stored: 0,
            computed: body_crc(&bytes[..bytes.len() - crc_property::CRC_PROPERTY_LEN_BYTES])
        })
    );
    crc_property::fill(&mut bytes).unwrap();
    let read = record(&bytes);
    assert_eq!(crc_property::verify(&bytes, read.properties), Ok(()));
    for at in 0..bytes.len() - crc_property::CRC_PROPERTY_LEN_BYTES {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        let result = crc_property::verify(&changed, read.properties);
        assert!(
            matches!(result, Err(RecordError::CrcMismatch { .. })),
            "byte {at}"
        );
    }
}

fn hosts() -> impl Strategy<Value = Host> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<i32>()).prop_map(|(address, port)| Host::V4 { address, port }),
        (any::<[u8; 16]>(), any::<i32>()).prop_map(|(address, port)| Host::V6 { address, port }),
    ]
}

fn bytes_up_to(len: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..len)
}

proptest! {
    #[test]
    fn what_is_encoded_is_read_back(
        topic in "[%a-zA-Z0-9_|-]{1,200}|.{1,40}",
        (body, text) in (bytes_up_to(300), bytes_up_to(300)),
        (born_host, store_host) in (hosts(), hosts()),
        (queue_id, flag, sys_flag) in any::<(i32, i32, i32)>(),
        (born, store, queue_offset, physical_offset) in any::<(i64, i64, i64, i64)>(),
        after in bytes_up_to(20),
    ) {
        let sent = Message {
            topic: &topic, queue_id, flag, sys_flag, born_timestamp_ms: born, born_host, store_host,
            reconsume_times: flag, prepared_transaction_offset: store, body: &body,
            properties: &text, version: None,
        };
        let mut prepared = Prepared::new(&sent, &LIMITS).unwrap();
        prepared.stamp(queue_offset, physical_offset, store);
        let mut bytes = vec![0; prepared.total_len()];
        prepared.write_to(&mut bytes);
        bytes.extend(&after);
        let read = record(&bytes);
        prop_assert_eq!(read.total_len_bytes, prepared.total_len());
        prop_assert_eq!((read.topic, read.body), (topic.as_bytes(), &body[..]));
        prop_assert_eq!(read.properties, &text[..]);
        prop_assert_eq!((read.born_host, read.store_host), (born_host, store_host));
        prop_assert_eq!((read.queue_id, read.flag, read.reconsume_times), (queue_id, flag, flag));
        prop_assert_eq!(read.sys_flag | 0x30, sys_flag | 0x30);
        prop_assert_eq!((read.born_timestamp_ms, read.store_timestamp_ms), (born, store));
        prop_assert_eq!(read.queue_offset, queue_offset);
        prop_assert_eq!(read.physical_offset, physical_offset);
        prop_assert_eq!(read.prepared_transaction_offset, store);
    }

    #[test]
    fn any_bytes_give_a_result(mut bytes in bytes_up_to(200), start in 0..4_u8) {
        // Three of four start as a record or a blank does, or the walk would end at the magic.
        let magic = match start {
            0 => None,
            1 => Some(MAGIC_V1),
            2 => Some(MAGIC_V2),
            _ => Some(layout::MAGIC_BLANK),
        };
        if let (Some(magic), true) = (magic, bytes.len() >= 8) {
            let len = bytes.len() as i32;
            bytes[..4].copy_from_slice(&len.to_be_bytes());
            bytes[4..8].copy_from_slice(&magic.to_be_bytes());
        }
        let _ = check(&bytes, CrcCheck::Verify);
        let _ = (peek_total_len(&bytes), peek_store_timestamp_ms(&bytes));
        if let Ok(Found::Record(read)) = head(&bytes) {
            let _ = (read.offset_id(), read.topic_str(), read.tags(), read.transaction());
        }
        prop_assert!(properties::pairs(&bytes).count() <= bytes.len());
        let _ = (scan_wanted(&bytes), crc_property::verify(&bytes, &bytes));
        prop_assert!(batch::items(&bytes).count() <= bytes.len());
    }

    #[test]
    fn any_change_of_a_record_gives_a_result(at in 0..300_usize, to in any::<[u8; 4]>()) {
        let mut bytes = encode(&message());
        let at = at % (bytes.len() - 4);
        bytes[at..at + 4].copy_from_slice(&to);
        let checked = check(&bytes, CrcCheck::Verify);
        // Only the body is covered by the CRC, only the lengths by the sum.
        let outside = at + 4 <= HEAD_LEN_MIN && at >= SYS_FLAG_AT + 4 && at + 4 <= BODY_LEN_AT;
        prop_assert!(!outside || checked.is_ok());
    }
}
