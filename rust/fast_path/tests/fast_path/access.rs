//! Access control in front of requests: who passes, what is read of records and bodies, what becomes of
//! held requests when rights are taken away.

use std::sync::Arc;

use mqcore_access::settings::Settings;
use mqcore_access::signature::Key;
use mqcore_access::{Access, PolicyRow, Rows, UserRow};
use mqcore_engine::config::FlushDiskType;
use mqcore_wire::{Command, CommandRef, FRAME_BYTES_MAX, Split, split};

use crate::serving::{Serving, pull_with, request, response, send_with};
use crate::transactions::{COMMIT, ending};

const SECRET: &str = "12345678";
const RULES: [(i32, &str); 7] = [
    (310, "T(b) Pub"),
    (11, "T(topic) Sub, G(consumerGroup) Sub"),
    (36, "G(group) Sub, body"),
    (37, "T(topic)? Pub, body"),
    (200_050, "T(topic) Sub, G(consumerGroup) Sub"),
    (200_151, "body"),
    (25, "C Update"),
];
const APP: &[(&str, &str)] = &[("Topic:t", "Pub"), ("Topic:t", "Sub"), ("Group:g", "Sub")];

struct Guarded {
    serving: Serving,
    access: Arc<Access>,
}

impl Guarded {
    /// `app` may send and read `t` as group `g`, others only read, each with the same secret.
    fn new() -> Self {
        let access = Arc::new(Access::new(RULES).unwrap());
        let mut serving = Serving::new(FlushDiskType::Async);
        serving.fast_path.set_access(Arc::clone(&access)).unwrap();
        let mut guarded = Self { serving, access };
        guarded.allow(APP);
        guarded
    }

    /// From now on `app` may do this.
    fn allow(&mut self, pairs: &[(&'static str, &'static str)]) {
        let user = |name| UserRow {
            name,
            secret: SECRET,
            kind: "Normal",
            status: "enable",
        };
        let row = |subject, (resource, action)| PolicyRow {
            subject,
            policy: "Custom",
            resource,
            actions: vec![action],
            sources: vec![],
            decision: "Allow",
        };
        let mut rows: Vec<_> = pairs.iter().map(|pair| row("User:app", *pair)).collect();
        rows.extend([("Topic:u", "All"), ("Group:g", "Sub")].map(|pair| row("User:other", pair)));
        rows.extend(APP.iter().map(|pair| row("User:same", *pair)));
        let on = [("authenticate", "true"), ("authorize", "true")];
        let users = ["app", "other", "same"].map(user);
        self.access
            .replace(
                Rows {
                    users: &users,
                    policies: &rows,
                    plain: None,
                },
                Settings::read(on).unwrap(),
            )
            .unwrap();
    }

    fn feed(&mut self, user: &str, frame: &[u8]) {
        let signed = signed(user, frame);
        self.serving.feed(&signed);
    }

    fn ask(&mut self, user: &str, frame: &[u8]) -> Command {
        let signed = signed(user, frame);
        self.serving.ask(&signed)
    }
}

/// The same request with the signature of a user.
fn signed(user: &str, frame: &[u8]) -> Vec<u8> {
    let Ok(Split::Frame(frame)) = split(frame, FRAME_BYTES_MAX) else {
        panic!("a frame");
    };
    let mut command = CommandRef::decode(&frame).unwrap().to_owned();
    command.ext.insert("AccessKey".into(), user.into());
    let fields: Vec<(String, String)> = command.ext.clone().into_iter().collect();
    let signature = Key::of(SECRET).sign(&fields, &command.body);
    command.ext.insert("Signature".into(), signature);
    command.encode().unwrap()
}

fn held_pull(opaque: i32) -> Vec<u8> {
    pull_with(
        opaque,
        &[("sysFlag", "2"), ("suspendTimeoutMillis", "20000")],
    )
}

#[test]
fn a_request_passes_with_a_signature_and_rights_and_not_without() {
    let mut guarded = Guarded::new();
    let send = send_with(1, &[], b"body");
    assert_eq!(guarded.ask("app", &send).code, 0);
    let unsigned = guarded.serving.ask(&send);
    assert_eq!(response(&unsigned), (16, "username cannot be null."));
    assert_eq!(unsigned.ext.len(), 0);
    let other = guarded.ask("other", &send);
    let text = "User:other has no permission to access Topic:t from 1.2.3.4, no matched policies.";
    assert_eq!(response(&other), (16, text));
    let stranger = guarded.ask("stranger", &send);
    assert_eq!(response(&stranger), (16, "check signature failed."));
    let mut changed = signed("app", &send);
    let last = changed.len() - 1;
    changed[last] ^= 1;
    let changed = guarded.serving.ask(&changed);
    assert_eq!(response(&changed), (16, "check signature failed."));
    guarded.serving.settle();
    let queues = guarded.serving.store.topics();
    assert_eq!(
        queues.bounds(b"t", 0).unwrap().unwrap().max,
        1,
        "one is stored"
    );
    assert_eq!(guarded.serving.number("refused_permission"), 4);
    assert_eq!(guarded.access.refusals.take().0.len(), 4);
}

#[test]
fn a_request_for_python_brings_its_user_and_a_refused_one_does_not_come() {
    let mut guarded = Guarded::new();
    guarded.feed("app", &request(34, 1, &[], b"{}"));
    guarded.feed("app", &request(25, 2, &[], b""));
    guarded.serving.feed(&request(34, 3, &[], b"{}"));
    let escalated = guarded.serving.fast_path.take_escalated();
    let seen: Vec<_> = escalated
        .iter()
        .map(|e| (e.command.opaque, &*e.user))
        .collect();
    assert_eq!(seen, [(1, "app")]);
    let answers = guarded.serving.answers();
    let refused: Vec<_> = answers
        .iter()
        .map(|answer| (answer.opaque, answer.code))
        .collect();
    assert_eq!(refused, [(2, 16), (3, 16)]);
}

#[test]
fn a_held_pull_is_let_go_when_its_user_loses_a_right_and_not_for_others() {
    let mut guarded = Guarded::new();
    let elsewhere = guarded
        .serving
        .fast_path
        .open(crate::serving::host(8), "1.2.3.4:8");
    guarded.feed("app", &held_pull(1));
    let same = signed("same", &held_pull(2));
    guarded.serving.fast_path.feed(elsewhere, &same, 0).unwrap();
    guarded.serving.settle();
    assert_eq!(guarded.serving.answers(), []);
    guarded.allow(APP);
    guarded.serving.settle();
    assert_eq!(guarded.serving.answers(), [], "the rights are the same");
    guarded.allow(&APP[..1]);
    guarded.serving.settle();
    let answers = guarded.serving.answers();
    let empty: Vec<_> = answers
        .iter()
        .map(|answer| (answer.opaque, answer.code))
        .collect();
    assert_eq!(empty, [(1, 19)], "as at a time-out");
    assert_eq!(guarded.serving.number("held"), 1);
    let again = guarded.ask("app", &held_pull(3));
    assert_eq!(again.code, 16);
}

#[test]
fn an_end_is_decided_by_the_topic_of_its_half_message() {
    let mut guarded = Guarded::new();
    let properties = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}UNIQ_KEY\u{1}u1\u{2}";
    let sent = guarded.ask(
        "app",
        &send_with(1, &[("f", "4"), ("i", properties)], b"body"),
    );
    let id = &sent.ext["msgId"];
    let half = crate::transactions::Half {
        offset: sent.ext["queueOffset"].parse().unwrap(),
        physical: u64::from_str_radix(&id[id.len() - 16..], 16).unwrap(),
    };
    guarded.serving.settle();
    for lie in [&[][..], &[("topic", "u")]] {
        let refused = guarded.ask("other", &ending(half, COMMIT, lie));
        assert_eq!(refused.code, 16);
        assert!(refused.remark.unwrap().contains("access Topic:t from"));
    }
    assert_eq!(guarded.ask("app", &ending(half, COMMIT, &[])).code, 0);
}

#[test]
fn a_message_is_sent_back_by_who_may_read_its_topic() {
    let mut guarded = Guarded::new();
    let sent = guarded.ask("app", &send_with(1, &[], b"body"));
    guarded.serving.settle();
    let id = &sent.ext["msgId"];
    let offset = u64::from_str_radix(&id[id.len() - 16..], 16)
        .unwrap()
        .to_string();
    let back = request(
        36,
        2,
        &[("offset", &offset), ("group", "g"), ("delayLevel", "0")],
        b"",
    );
    let refused = guarded.ask("other", &back);
    assert_eq!(refused.code, 16);
    assert!(refused.remark.unwrap().contains("access Topic:t from"));
    assert_eq!(guarded.ask("app", &back).code, 0);
}

#[test]
fn acknowledgements_in_a_body_are_asked_for_one_by_one() {
    let mut guarded = Guarded::new();
    let ack = |topic: &str| {
        let body = format!(
            r#"{{"brokerName":"","acks":[{{"c":"g","t":"{topic}","r":"0","q":0,"rq":0,"so":0,"pt":1,"it":1,"b":"AQ=="}}]}}"#
        );
        request(200_151, 1, &[], body.as_bytes())
    };
    let refused = guarded.ask("other", &ack("t"));
    assert_eq!(refused.code, 16);
    assert!(refused.remark.unwrap().contains("access Topic:t from"));
    assert_ne!(guarded.ask("app", &ack("t")).code, 16);
}

#[test]
fn a_rule_that_nobody_could_follow_here_is_refused() {
    let access = Arc::new(Access::new([(310, "T(b) Pub, body")]).unwrap());
    let mut serving = Serving::new(FlushDiskType::Async);
    assert_eq!(serving.fast_path.set_access(access), Err(310));
}
