//! Bytes in any pieces, and bytes that are none: the same answers, or a fault of this connection.

use mqcore_engine::config::FlushDiskType;
use mqcore_fast_path::feed::Fault;
use mqcore_wire::WireError;
use proptest::prelude::*;

use crate::serving::{Serving, host, pull_with, request, send_with};

/// Sends, pulls, questions and requests for others, one behind the other.
fn conversation(kinds: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let opaque = at as i32;
        bytes.extend(match kind % 5 {
            0 => send_with(opaque, &[], &vec![*kind; usize::from(*kind) * 40]),
            1 => pull_with(opaque, &[]),
            2 => request(30, opaque, &[("topic", "t"), ("queueId", "0")], b""),
            3 => request(105, opaque, &[("topic", "t")], b"not ours"),
            _ => send_with(opaque, &[("b", "../x")], b"x"),
        });
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cuts_of_input_and_output_give_the_same_bytes(
        kinds in proptest::collection::vec(any::<u8>(), 1..24),
        cuts in proptest::collection::vec(1..4_000_usize, 1..40),
        sent in proptest::collection::vec(1..9_000_usize, 1..40),
    ) {
        let bytes = conversation(&kinds);
        let mut whole = Serving::new(FlushDiskType::Async);
        whole.feed(&bytes);
        let want = whole.bytes();
        let mut cut = Serving::new(FlushDiskType::Async);
        let (mut rest, mut got) = (&bytes[..], Vec::new());
        let mut short = sent.iter().cycle();
        for len in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (part, after) = rest.split_at((*len).min(rest.len()));
            cut.feed(part);
            rest = after;
            // A socket that takes some of it now.
            let taken = cut.fast_path.connections.change_output(cut.client, |output| {
                let mut slices = Vec::new();
                output.slices(3, &mut slices);
                let mut seen: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                seen.truncate(*short.next().unwrap());
                output.sent(seen.len());
                seen
            });
            got.extend(taken.unwrap());
        }
        got.extend(cut.bytes());
        prop_assert_eq!(got, want);
        let escalated = |serving: &mut Serving| {
            let all = serving.fast_path.take_escalated();
            all.into_iter().map(|each| each.command.opaque).collect::<Vec<_>>()
        };
        prop_assert_eq!(escalated(&mut cut), escalated(&mut whole));
        prop_assert_eq!(cut.number("half_frames_bytes"), 0);
        prop_assert_eq!(cut.number("queued_bytes"), 0);
    }

    #[test]
    fn any_bytes_are_executed_or_end_their_connection_alone(
        kinds in proptest::collection::vec(any::<u8>(), 1..6),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        noise in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = conversation(&kinds);
        for (at, value) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        bytes.extend(noise);
        let mut serving = Serving::new(FlushDiskType::Async);
        let other = serving.fast_path.open(host(10), "1.2.3.4:10");
        let _executed_or_not = serving.fast_path.feed(serving.client, &bytes, 0);
        prop_assert!(serving.number("half_frames_bytes") <= bytes.len() as u64);
        serving.fast_path.close(serving.client);
        serving.client = other;
        let answer = serving.ask(&request(30, 1, &[("topic", "t"), ("queueId", "1")], b""));
        prop_assert_eq!(answer.code, 0);
        prop_assert_eq!(serving.number("half_frames_bytes"), 0);
        prop_assert_eq!(serving.number("queued_bytes"), 0);
    }
}

#[test]
fn a_frame_of_two_gigabytes_is_refused_before_anything_is_kept() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.feed(&send_with(1, &[], b"x"));
    let fault = serving
        .fast_path
        .feed(serving.client, b"\x7f\xff\xff\xff", 0);
    assert!(matches!(
        fault,
        Err(Fault::Wire(WireError::FrameTooLarge { .. }))
    ));
    assert_eq!(
        serving.answers().len(),
        1,
        "what came before it was executed"
    );
    assert_eq!(serving.number("half_frames_bytes"), 0);
    assert_eq!(serving.number("closed_bad_bytes"), 1);
}

#[test]
fn half_a_frame_is_dated_by_its_first_byte() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let frame = send_with(1, &[], b"slowly");
    for (at, byte) in frame.iter().enumerate() {
        let since = serving
            .fast_path
            .connections
            .connection(serving.client)
            .unwrap()
            .half_since_ms;
        assert_eq!(since, (at > 0).then_some(0), "byte {at}");
        serving.feed(&[*byte]);
        serving.now_ms += 1;
    }
    assert_eq!(
        serving
            .fast_path
            .connections
            .connection(serving.client)
            .unwrap()
            .half_since_ms,
        None
    );
    assert_eq!(serving.answers().remove(0).code, 0);
}
