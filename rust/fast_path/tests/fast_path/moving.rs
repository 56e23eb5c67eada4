//! When a connection may be taken to another loop: not before everything that it asked is answered and
//! written, whatever it waits for meanwhile.

use mqcore_engine::config::FlushDiskType;

use crate::popping::{Popped, one_revive_queue};
use crate::serving::{Serving, pull_with, request, response, send_with};

impl Serving {
    fn is_idle(&self) -> bool {
        self.fast_path.connections.is_idle(self.client)
    }
}

const HELD: [(&str, &str); 2] = [("sysFlag", "2"), ("suspendTimeoutMillis", "20000")];

#[test]
fn a_connection_is_idle_when_its_answers_are_written() {
    let mut serving = Serving::new(FlushDiskType::Async);
    assert!(serving.is_idle());
    serving.feed(&send_with(1, &[], b"x"));
    assert!(!serving.is_idle(), "its answer waits to be written");
    serving.bytes();
    assert!(serving.is_idle());
    let two = [send_with(2, &[], b"x"), pull_with(3, &[])].concat();
    serving.feed(&two);
    serving.settle();
    serving.bytes();
    assert!(serving.is_idle());
    // Refused, and not understood.
    serving.feed(&send_with(4, &[("e", "99")], b"x"));
    serving.feed(&request(310, 5, &[("b", "t")], b"x"));
    serving.bytes();
    assert!(serving.is_idle());
}

#[test]
fn a_part_of_a_frame_keeps_its_connection() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let frame = send_with(1, &[], b"x");
    let (first, rest) = frame.split_at(20);
    serving.feed(first);
    assert!(!serving.is_idle());
    serving.feed(rest);
    serving.bytes();
    assert!(serving.is_idle());
}

#[test]
fn what_waits_keeps_its_connection_until_it_is_answered() {
    let mut serving = Serving::new(FlushDiskType::Sync);
    serving.feed(&send_with(1, &[], b"x"));
    assert!(!serving.is_idle(), "it waits for its sync");
    serving.store.durability().flush().unwrap();
    serving.settle();
    assert_eq!(serving.answers().len(), 1);
    assert!(serving.is_idle());
    let held = [("queueOffset", "1"), HELD[0], HELD[1]];
    serving.feed(&pull_with(2, &held));
    assert!(!serving.is_idle(), "a held pull");
    serving.pass(30_000);
    assert_eq!(serving.answers().len(), 1);
    assert!(serving.is_idle());
    // Read by a thread.
    let fields = [("topic", "t"), ("queueId", "0"), ("timestamp", "1")];
    serving.feed(&request(29, 3, &fields, b""));
    assert!(!serving.is_idle());
    serving.drain();
    assert_eq!(serving.answers().len(), 1);
    assert!(serving.is_idle());
}

#[test]
fn held_and_acknowledged_pops_are_counted_too() {
    let mut popped = Popped::new(one_revive_queue());
    popped.send(0, "x");
    popped.serving.settle();
    let got = popped.pop(&[]);
    assert_eq!(response(&popped.ack(&got[0])), (0, ""));
    assert!(popped.serving.is_idle());
    let now = popped.serving.store.wall_ms().to_string();
    let request = popped.pop_request(&[("pollTime", "15000"), ("bornTime", now.as_str())]);
    popped.serving.feed(&request);
    assert!(!popped.serving.is_idle());
    popped.pass(20_000);
    assert_eq!(popped.serving.answers().len(), 1);
    assert!(popped.serving.is_idle());
}

#[test]
fn what_python_decides_is_counted_there_and_what_it_executes_here() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.feed(&send_with(1, &[("b", "unknown")], b"x"));
    let escalated = serving.fast_path.take_escalated();
    assert_eq!(escalated.len(), 1);
    assert!(serving.is_idle());
    let client = serving.client;
    for each in escalated {
        assert!(serving.fast_path.execute(client, each.command, 0));
    }
    assert!(!serving.is_idle(), "its refusal waits to be written");
    serving.bytes();
    assert!(serving.is_idle());
}

#[test]
fn an_idle_connection_is_taken_in_by_another_loop_as_it_was() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.fast_path.beside(0).unwrap();
    other.policy = serving.fast_path.policy.clone();
    serving.feed(&send_with(1, &[], b"x"));
    let client = serving.client;
    assert!(serving.fast_path.connections.take_out(client).is_none());
    serving.bytes();
    let taken = serving.fast_path.connections.take_out(client).unwrap();
    assert!(serving.fast_path.connections.is_empty());
    let id = other.connections.take_in(&taken);
    let there = other.connections.connection(id).unwrap();
    assert_eq!(
        (there.moved_bytes, there.has_asked),
        (taken.moved_bytes, true)
    );
    assert_eq!(
        (&there.peer, there.born_host),
        (&taken.peer, taken.born_host)
    );
    other.feed(id, &send_with(2, &[], b"y"), 0).unwrap();
    while serving.store.dispatching().step().unwrap_or(false) {}
    assert!(!other.connections.is_idle(id));
}
