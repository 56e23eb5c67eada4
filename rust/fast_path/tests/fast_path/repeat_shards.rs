//! Repeated sends whose marks are in all shards, on two loops over one store: a batch remembers its messages
//! wherever they belong, and what goes over all shards counts every message once. There are more messages
//! than shards.

use std::thread;

use mqcore_engine::config::FlushDiskType;

use crate::beside::Loop;
use crate::repeats::{batch, text};
use crate::serving::{Serving, commands, send_with};

/// Messages of a batch.
const PARTS: usize = 60;
/// As many that all messages, stored twice, are read in one go.
const BATCHES: usize = 8;

fn serving() -> (Serving, Loop) {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.remember();
    let other = serving.another_loop();
    (serving, other)
}

fn key_of(number: usize, part: usize) -> String {
    format!("K{number}_{part}")
}

/// A request with a batch.
fn batch_of(number: usize) -> Vec<u8> {
    let keys: Vec<String> = (0..PARTS).map(|part| key_of(number, part)).collect();
    let parts: Vec<(&str, &[u8])> = keys.iter().map(|key| (key.as_str(), &b"x"[..])).collect();
    send_with(1, &[("i", ""), ("m", "true")], &batch(&parts))
}

/// A request with a message of a batch alone.
fn single_of(number: usize, part: usize) -> Vec<u8> {
    send_with(1, &[("i", &text(&key_of(number, part)))], b"x")
}

/// Feeds one loop, and gives the ids in the answers.
fn ids(one: &mut Loop, requests: &[Vec<u8>]) -> Vec<String> {
    for request in requests {
        one.fast_path.feed(one.client, request, 0).unwrap();
    }
    let connections = &mut one.fast_path.connections;
    let bytes = connections.change_output(one.client, |output| output.take(usize::MAX));
    let answers = commands(&bytes.unwrap());
    assert!(answers.iter().all(|answer| answer.code == 0));
    answers
        .iter()
        .map(|answer| answer.ext["msgId"].clone())
        .collect()
}

/// The same on two loops at the same time.
fn ids_of_both(loops: [&mut Loop; 2], requests: [&[Vec<u8>]; 2]) -> [Vec<String>; 2] {
    let ([one, other], [of_one, of_other]) = (loops, requests);
    thread::scope(|scope| {
        let started = [
            scope.spawn(|| ids(one, of_one)),
            scope.spawn(|| ids(other, of_other)),
        ];
        started.map(|each| each.join().unwrap())
    })
}

#[test]
fn a_batch_remembers_its_messages_in_all_shards() {
    let (mut serving, mut other) = serving();
    let batches: Vec<Vec<u8>> = (0..BATCHES).map(batch_of).collect();
    let mut one = serving.another_loop();
    let [first, second] = ids_of_both([&mut one, &mut other], [&batches, &batches]);
    assert_eq!(first, second, "of two copies one is stored");
    serving.settle();
    assert_eq!(serving.stored(b"t"), BATCHES * PARTS);
    assert_eq!(serving.number("repeats"), BATCHES as u64);
    assert_eq!(serving.number("repeat_keys"), (BATCHES * PARTS) as u64);
    for (number, of_batch) in first.iter().enumerate() {
        let singles: Vec<_> = (0..PARTS).map(|part| single_of(number, part)).collect();
        assert_eq!(ids(&mut other, &singles).join(","), *of_batch);
    }
    assert_eq!(
        serving.number("repeats"),
        (BATCHES + BATCHES * PARTS) as u64
    );
    assert_eq!(serving.number("repeats_told_apart"), 0);
}

#[test]
fn batches_and_their_messages_alone_on_two_loops_at_the_same_time() {
    let (mut serving, mut other) = serving();
    let mut one = serving.another_loop();
    let batches: Vec<Vec<u8>> = (0..BATCHES).map(batch_of).collect();
    // The last messages of each batch, so that none is what the batch is found by.
    let all = (0..BATCHES).flat_map(|number| (1..PARTS).rev().map(move |part| (number, part)));
    let singles: Vec<_> = all.map(|(number, part)| single_of(number, part)).collect();
    let [batched, alone] = ids_of_both([&mut one, &mut other], [&batches, &singles]);
    let of_batches: Vec<&str> = batched.iter().flat_map(|ids| ids.split(',')).collect();
    assert_eq!(of_batches.len(), BATCHES * PARTS);
    // Alone and before the batch it is a message of its own, behind it the one of the batch.
    let before = alone.iter().filter(|id| !of_batches.contains(&id.as_str()));
    let before = before.count();
    serving.settle();
    assert_eq!(serving.stored(b"t"), BATCHES * PARTS + before);
    let answered = singles.len() - before;
    assert_eq!(serving.number("repeats"), answered as u64);
    // Once both are done all are known.
    let again = ids(&mut one, &singles);
    serving.settle();
    assert_eq!(serving.stored(b"t"), BATCHES * PARTS + before);
    let known: Vec<&str> = of_batches
        .iter()
        .copied()
        .chain(alone.iter().map(String::as_str))
        .collect();
    assert!(again.iter().all(|id| known.contains(&id.as_str())));
}

#[test]
fn what_is_remembered_in_all_shards_is_there_after_a_restart_and_can_be_forgotten() {
    let (mut serving, other) = serving();
    let keys: Vec<String> = (0..PARTS).map(|part| key_of(0, part)).collect();
    let first: Vec<_> = keys
        .iter()
        .map(|key| serving.keyed(key, &[], b"x"))
        .collect();
    serving.settle();
    drop(other);
    let found = serving.reopened(true);
    assert_eq!(found.marks, PARTS as u64);
    assert_eq!(serving.number("repeat_keys"), PARTS as u64);
    let again: Vec<_> = keys
        .iter()
        .map(|key| serving.keyed(key, &[], b"x"))
        .collect();
    assert_eq!(again, first);
    let mut other = serving.another_loop();
    serving.fast_path.remember(None);
    serving.change_loop(&mut other);
    let anew: Vec<_> = keys
        .iter()
        .map(|key| serving.keyed(key, &[], b"x"))
        .collect();
    assert!(
        anew.iter().all(|sent| !first.contains(sent)),
        "also on the other loop"
    );
    serving.settle();
    assert_eq!(serving.stored(b"t"), 2 * PARTS);
}
