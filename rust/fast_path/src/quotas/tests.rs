//! Quotas of several names and rules: who is held back by what, and how many names there may be.

use super::elsewhere::Wait;
use super::*;

const START_MS: u64 = 10_000;

fn quotas(text: &str) -> Quotas {
    let quotas = Quotas::default();
    quotas.decide(&Arc::new(Rules::read(text).unwrap()));
    quotas
}

fn asked<'a>(user: &'a str, topic: &'a str, group: &'a str) -> Asked<'a> {
    Asked { user, group, topic }
}

fn one(bytes: u64) -> Amount {
    Amount { messages: 1, bytes }
}

fn wait_ms(decision: &Decision, now_ms: u64) -> u64 {
    match decision {
        Decision::Now => 0,
        Decision::At(at_ms, _) => at_ms - now_ms,
        Decision::TooMuch(wait_ms, _) => *wait_ms,
    }
}

fn rule_of(decision: Decision) -> String {
    match decision {
        Decision::Now => String::new(),
        Decision::At(_, held) | Decision::TooMuch(_, held) => held.rule.to_string(),
    }
}

#[test]
fn each_name_has_what_its_rule_gives_and_others_have_no_bound() {
    let quotas = quotas("topic:a*=producer_message_rate:2;user:u=producer_byte_rate:100");
    for topic in ["a1", "a2"] {
        for _ in 0..2 {
            let sent = quotas.ask_to_send(asked("", topic, "g"), one(10), START_MS);
            assert_eq!(sent, Decision::Now);
        }
        let third = quotas.ask_to_send(asked("", topic, "g"), one(10), START_MS);
        assert_eq!(wait_ms(&third, START_MS), 500);
        let fourth = quotas.ask_to_send(asked("", topic, "g"), one(10), START_MS);
        assert_eq!(rule_of(fourth.clone()), "topic:a*");
        assert!(matches!(fourth, Decision::TooMuch(1_000, _)), "{fourth:?}");
    }
    for _ in 0..1_000 {
        let free = quotas.ask_to_send(asked("", "b", "g"), one(10), START_MS);
        assert_eq!(free, Decision::Now);
    }
}

#[test]
fn what_is_refused_is_not_counted() {
    let quotas = quotas("group:g=producer_message_rate:1");
    let send = |now_ms| quotas.ask_to_send(asked("", "t", "g"), one(1), now_ms);
    assert_eq!(send(START_MS), Decision::Now);
    for _ in 0..100 {
        assert!(matches!(send(START_MS), Decision::TooMuch(1_000, _)));
    }
    assert_eq!(send(START_MS + 1_000), Decision::Now);
}

#[test]
fn the_narrowest_of_several_rules_counts_and_is_named() {
    let text = "user:u=producer_byte_rate:1000;topic:t=producer_message_rate:4;group:g=producer_byte_rate:10000";
    let quotas = quotas(text);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(rule_of(quotas.ask_to_send(
            asked("u", "t", "g"),
            one(200),
            START_MS,
        )));
    }
    assert_eq!(held, ["", "", "", "", "topic:t", "topic:t"]);
    let other = quotas.ask_to_send(asked("u", "other", "g"), one(200), START_MS);
    assert_eq!(rule_of(other), "user:u");
}

#[test]
fn a_read_goes_while_nothing_is_owed_and_is_counted_afterwards() {
    let quotas = quotas("group:g=consumer_message_rate:10,consumer_byte_rate:1000000");
    let who = asked("", "t", "g");
    assert_eq!(quotas.ask_to_read(who, START_MS), Decision::Now);
    let amount = Amount {
        messages: 32,
        bytes: 32_000,
    };
    quotas.have_read(who, amount, START_MS);
    let next = quotas.ask_to_read(who, START_MS);
    assert_eq!(wait_ms(&next, START_MS), 2_200);
    assert!(
        matches!(next, Decision::At(..)),
        "a read is not refused here"
    );
    assert_eq!(quotas.ask_to_read(who, START_MS + 2_200), Decision::Now);
    let sent = quotas.ask_to_send(who, one(1), START_MS);
    assert_eq!(sent, Decision::Now, "sends have no limit here");
}

#[test]
fn two_users_of_one_topic_have_about_as_much_of_it() {
    let quotas = quotas("topic:t=producer_message_rate:100");
    let mut sent = [0_u32; 2];
    // Each asks again when its send is done, or refused and held for as long as that may take.
    let mut next_ms = [START_MS, START_MS];
    while let Some(at) = (0..2).min_by_key(|at| next_ms[*at]) {
        let now_ms = next_ms[at];
        if now_ms > START_MS + 20_000 {
            break;
        }
        match quotas.ask_to_send(asked(["u", "v"][at], "t", "g"), one(1), now_ms) {
            Decision::TooMuch(..) => next_ms[at] = now_ms + SEND_HELD_MS_MAX,
            decision => {
                next_ms[at] = now_ms + wait_ms(&decision, now_ms).max(1);
                sent[at] += 1;
            }
        }
    }
    let all = sent[0] + sent[1];
    assert!((2_000..=2_110).contains(&all), "{sent:?}");
    assert!(sent[0].abs_diff(sent[1]) <= all / 10, "{sent:?}");
}

#[test]
fn names_are_bounded_and_those_beyond_share_what_their_rule_gives() {
    let quotas = quotas("group:*=producer_message_rate:1");
    for at in 0..NAMES_MAX {
        let group = format!("g{at}");
        assert_eq!(
            quotas.ask_to_send(asked("", "t", &group), one(1), START_MS),
            Decision::Now
        );
    }
    let more = |name, now_ms| quotas.ask_to_send(asked("", "t", name), one(1), now_ms);
    assert_eq!(more("more", START_MS), Decision::Now);
    assert!(matches!(more("others", START_MS), Decision::TooMuch(..)));
    assert_eq!(quotas.rows(START_MS)[0].names, NAMES_MAX);
    // All of them have their second again, so that there is place for new names.
    assert_eq!(more("more", START_MS + 1_001), Decision::Now);
    assert_eq!(more("others", START_MS + 1_001), Decision::Now);
    assert_eq!(quotas.rows(START_MS + 1_001)[0].names, 2);
}

#[test]
fn other_rules_begin_anew_and_keep_what_was_counted() {
    let quotas = quotas("topic:t=producer_message_rate:1;topic:u=producer_message_rate:1");
    let send = || quotas.ask_to_send(asked("", "t", "g"), one(1), START_MS);
    assert_eq!(send(), Decision::Now);
    quotas.count("topic:t", |counts| counts.held += 1);
    quotas.decide(&Arc::new(
        Rules::read("topic:t=producer_message_rate:2").unwrap(),
    ));
    assert_eq!((send(), send()), (Decision::Now, Decision::Now));
    let rows = quotas.rows(START_MS);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].counts.held, rows[0].rates), (1, [2, 0, 0, 0]));
    assert_eq!(rows[0].owing, []);
    assert!(matches!(send(), Decision::At(..)));
    assert_eq!(quotas.rows(START_MS)[0].owing, [("t".to_owned(), 500)]);
    quotas.decide(&Arc::default());
    assert_eq!((send(), quotas.rows(START_MS)), (Decision::Now, vec![]));
}

#[test]
fn a_send_that_is_executed_elsewhere_waits_there_and_is_counted() {
    let quotas = quotas("topic:t=producer_message_rate:10");
    let many = |messages| Amount { messages, bytes: 1 };
    let admit = |messages| quotas.admit_send(asked("", "t", "g"), many(messages), START_MS);
    assert_eq!(admit(10), Wait::default());
    let waits = admit(1);
    assert_eq!((waits.wait_ms, waits.refusal), (100, None));
    let refused = admit(10);
    assert_eq!(refused.wait_ms, SEND_HELD_MS_MAX);
    assert!(refused.refusal.unwrap().starts_with("[QUOTA]topic:t has"));
    let counts = quotas.rows(START_MS)[0].counts;
    assert_eq!((counts.held, counts.refused, counts.held_ms), (1, 1, 600));
}

#[test]
fn a_read_that_is_executed_elsewhere_waits_while_something_is_owed() {
    let quotas = quotas("user:u=consumer_byte_rate:1000");
    let reader = asked("u", "t", "");
    assert_eq!(quotas.admit_read(reader, START_MS), Wait::default());
    quotas.have_read(reader, one(1_200), START_MS);
    assert_eq!(quotas.admit_read(reader, START_MS).wait_ms, 200);
    quotas.have_read(reader, one(1_000), START_MS);
    let refused = quotas.admit_read(reader, START_MS);
    assert_eq!(refused.wait_ms, 500);
    assert!(
        refused
            .refusal
            .unwrap()
            .contains("the next read may come in 1200 ms")
    );
    assert_eq!(quotas.admit_read(reader, START_MS + 1_200), Wait::default());
    assert_eq!(
        quotas.admit_read(asked("v", "t", ""), START_MS),
        Wait::default()
    );
}
