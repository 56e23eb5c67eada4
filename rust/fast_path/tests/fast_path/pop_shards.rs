//! Pops of many groups, of the same and of different shards, on two loops over one store: what goes through
//! all shards finds every group once. There are more groups than shards, so that some share one.

use std::thread;

use mqcore_fast_path::pop::orders::Order;

use crate::beside::{Loop, answered_elsewhere, held_pop};
use crate::popping::{Got, Popped, one_revive_queue};
use crate::serving::{GROUP, request, response};

const GROUPS: usize = 40;

fn group_of(number: usize) -> String {
    format!("group_{number}")
}

/// A broker that knows the groups, with two messages in a queue.
fn with_groups() -> (Popped, Loop) {
    let mut popped = Popped::new(one_revive_queue());
    for number in 0..GROUPS {
        let groups = &mut popped.serving.fast_path.policy.groups;
        groups.insert(group_of(number).as_str().into(), GROUP);
    }
    let other = popped.serving.another_loop();
    for body in ["0", "1"] {
        popped.send(0, body);
    }
    popped.serving.settle();
    (popped, other)
}

/// What each group gets of the queue.
fn pop_all(popped: &mut Popped, more: &[(&str, &str)]) -> Vec<Vec<Got>> {
    let each = (0..GROUPS).map(|number| {
        let group = group_of(number);
        let mut fields = vec![("consumerGroup", group.as_str()), ("queueId", "0")];
        fields.extend(more);
        popped.pop(&fields)
    });
    each.collect()
}

fn committed(popped: &Popped) -> Vec<Option<i64>> {
    let offsets = &popped.serving.fast_path.shared.offsets;
    let each = (0..GROUPS).map(|number| offsets.find(&group_of(number), "t", 0));
    each.collect()
}

/// An acknowledgement of both messages of each group.
fn batch_of(all: &[Vec<Got>]) -> Vec<u8> {
    let acks = all.iter().enumerate().map(|(number, got)| {
        let handle: Vec<&str> = got[0].handle.split(' ').collect();
        let (start, time, invisible, revive) = (handle[0], handle[1], handle[2], handle[3]);
        let group = group_of(number);
        format!(
            r#"{{"b":"Aw==","c":"{group}","it":{invisible},"pt":{time},"q":0,"r":"0","rq":{revive},"so":{start},"t":"t"}}"#
        )
    });
    let acks: Vec<String> = acks.collect();
    let body = format!(r#"{{"acks":[{}],"brokerName":"broker-a"}}"#, acks.join(","));
    request(200_151, 1, &[], body.as_bytes())
}

#[test]
fn a_batch_of_acknowledgements_goes_to_all_shards_from_another_loop() {
    let (mut popped, mut other) = with_groups();
    let all = pop_all(&mut popped, &[]);
    assert!(all.iter().all(|got| got.len() == 2));
    assert_eq!(popped.serving.number("pops_open"), GROUPS as u64);
    popped.serving.change_loop(&mut other);
    assert!(pop_all(&mut popped, &[]).iter().all(Vec::is_empty));
    let answer = popped.serving.ask(&batch_of(&all));
    assert_eq!(response(&answer), (0, ""));
    assert_eq!(popped.serving.number("pops_open"), 0);
    assert_eq!(committed(&popped), [Some(2); GROUPS]);
    assert_eq!(
        popped.serving.number("pop_records"),
        0,
        "nothing was stored"
    );
}

#[test]
fn what_is_due_is_stored_whatever_its_shard() {
    let (mut popped, mut other) = with_groups();
    pop_all(&mut popped, &[]);
    popped.serving.change_loop(&mut other);
    assert!(popped.serving.fast_path.next_deadline_ms().is_some());
    popped.pass(61_000);
    assert_eq!(popped.serving.number("pops_open"), 0);
    assert_eq!(popped.serving.number("pop_records"), GROUPS as u64);
    assert_eq!(committed(&popped), [Some(2); GROUPS]);
}

#[test]
fn a_stop_stores_the_pops_of_all_shards() {
    let (mut popped, _other) = with_groups();
    pop_all(&mut popped, &[]);
    assert!(popped.serving.fast_path.store_pops());
    assert_eq!(popped.serving.number("pops_open"), 0);
    assert_eq!(popped.serving.fast_path.shared.pops_stored(), GROUPS as u64);
}

#[test]
fn ordered_pops_are_written_and_read_back_into_their_shards() {
    let (mut popped, other) = with_groups();
    pop_all(&mut popped, &[("order", "true")]);
    let saved = |popped: &Popped| {
        let mut rows: Vec<(String, i32, Order)> = Vec::new();
        let shared = &popped.serving.fast_path.shared;
        shared.each_order(|key, queue_id, order| {
            rows.push((key.to_owned(), queue_id, order.clone()));
        });
        rows.sort_by(|one, other| one.0.cmp(&other.0));
        rows
    };
    let rows = saved(&popped);
    assert_eq!(rows.len(), GROUPS);
    let before = popped.serving.fast_path.shared.order_changes();
    let shared = &popped.serving.fast_path.shared;
    shared.load_orders(Vec::new());
    assert!(shared.order_changes() > before);
    assert_eq!(saved(&popped), []);
    other.fast_path.shared.load_orders(rows.clone());
    assert_eq!(saved(&popped), rows);
    let again = pop_all(&mut popped, &[("order", "true")]);
    assert!(again.iter().all(Vec::is_empty), "each queue is blocked");
}

#[test]
fn a_line_of_any_shard_is_woken_on_another_loop() {
    for number in 0..GROUPS {
        let (mut popped, mut other) = with_groups();
        let group = group_of(number);
        let order = [
            ("consumerGroup", group.as_str()),
            ("queueId", "0"),
            ("order", "true"),
        ];
        let first = popped.pop(&[&order[..], &[("maxMsgNums", "1")]].concat());
        popped.serving.change_loop(&mut other);
        popped.serving.drain();
        let request = held_pop(&mut popped, &order);
        popped.serving.feed(&request);
        assert_eq!(popped.serving.number("pops_held"), 1);
        popped.serving.change_loop(&mut other);
        popped.serving.drain();
        let fields = Popped::ack_fields(&first[0]);
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let ack = popped.request(200_051, &fields, &order[..1]);
        assert_eq!(response(&popped.serving.ask(&ack)), (0, ""));
        let answers = answered_elsewhere(&mut popped, &mut other);
        assert_eq!((answers.len(), answers[0].0), (1, 0), "{group}");
    }
}

#[test]
fn groups_pop_and_acknowledge_on_two_loops_at_the_same_time() {
    let (mut popped, mut other) = with_groups();
    let all = pop_all(&mut popped, &[]);
    let (even, odd): (Vec<_>, Vec<_>) = (0..GROUPS).partition(|number| number % 2 == 0);
    let mut ack_of = |number: usize, at: usize| {
        let fields = Popped::ack_fields(&all[number][at]);
        let fields = fields
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let group = group_of(number);
        popped.request(200_051, &fields, &[("consumerGroup", group.as_str())])
    };
    // Each loop acknowledges one message of each group, in another order.
    let acks = [
        [&even[..], &odd[..]]
            .concat()
            .iter()
            .map(|it| ack_of(*it, 0))
            .collect::<Vec<_>>(),
        [&odd[..], &even[..]]
            .concat()
            .iter()
            .map(|it| ack_of(*it, 1))
            .collect::<Vec<_>>(),
    ];
    let serving = &mut popped.serving;
    thread::scope(|scope| {
        let loops = [
            (&mut serving.fast_path, serving.client),
            (&mut other.fast_path, other.client),
        ];
        for ((fast_path, client), requests) in loops.into_iter().zip(&acks) {
            scope.spawn(move || {
                for request in requests {
                    fast_path.feed(client, request, 0).unwrap();
                }
            });
        }
    });
    assert_eq!(popped.serving.number("pops_open"), 0);
    assert_eq!(committed(&popped), [Some(2); GROUPS]);
}
