//! What access control costs: the signature of a send beside a bare HMAC of the same bytes, the check of the
//! whole request, a decision among 100,000 entries of 10,000 users, and the replacement of all of them.
#![expect(
    clippy::unwrap_used,
    reason = "a bench that cannot go on ends with the reason"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit, Mac};
use mqcore_access::settings::Settings;
use mqcore_access::signature::Key;
use mqcore_access::{
    Access, Actions, Allowed, Asked, Caller, Kind, PolicyRow, Resource, Rows, Source, UserRow,
};
use sha1::Sha1;

const SECRET: &str = "12345678";
const USERS: usize = 10_000;
/// Entries of each user: literals, and a tenth of them prefixes.
const ENTRIES_PER_USER: usize = 10;
const NOW_MS: i64 = 1_795_249_596_000;

/// A send as the Java client writes it, signed.
fn send(user: &str, body: &[u8]) -> Vec<(String, String)> {
    let properties =
        "KEYS\u{1}N14228\u{2}UNIQ_KEY\u{1}7F0000010001000000000000000000FF\u{2}WAIT\u{1}true";
    let fields = [
        ("a", "producer-group"),
        ("b", "topic-7"),
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
        ("AccessKey", user),
    ];
    let mut fields: Vec<_> = fields.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
    let signature = Key::of(SECRET).sign(&fields, body);
    fields.push(("Signature".to_owned(), signature));
    fields
}

fn signature(criterion: &mut Criterion) {
    let key = Key::of(SECRET);
    for len in [64, 1_024, 16_384] {
        let body = vec![7; len];
        let fields = send("user-7", &body);
        let mut sorted: Vec<_> = fields.iter().filter(|(n, _)| n != "Signature").collect();
        sorted.sort();
        let mut bytes: Vec<u8> = sorted.iter().flat_map(|(_, value)| value.bytes()).collect();
        bytes.extend(&body);
        let bare: Hmac<Sha1> = Hmac::new_from_slice(SECRET.as_bytes()).unwrap();
        criterion.bench_function(&format!("access/bare HMAC/{len}"), |bencher| {
            bencher.iter(|| bare.clone().chain_update(black_box(&bytes)).finalize());
        });
        criterion.bench_function(&format!("access/signature of a send/{len}"), |bencher| {
            bencher.iter(|| assert!(key.has_signed(black_box(&fields), black_box(&body), 409)));
        });
    }
}

/// Users and entries as their owner has them.
struct Owned {
    users: Vec<String>,
    subjects: Vec<String>,
    resources: Vec<String>,
}

impl Owned {
    fn new() -> Self {
        let users: Vec<_> = (0..USERS).map(|at| format!("user-{at}")).collect();
        let resource = |at: usize| {
            let star = if at.is_multiple_of(ENTRIES_PER_USER) {
                "*"
            } else {
                ""
            };
            format!("Topic:topic-{at}{star}")
        };
        Self {
            subjects: users.iter().map(|user| format!("User:{user}")).collect(),
            resources: (0..USERS * ENTRIES_PER_USER).map(resource).collect(),
            users,
        }
    }

    /// With one more entry for the first user where `is_changed`.
    fn replace(&self, access: &Access, is_changed: bool) {
        let users = self.users.iter().map(|name| UserRow {
            name,
            secret: SECRET,
            kind: "Normal",
            status: "enable",
        });
        let users: Vec<_> = users.collect();
        let row = |(at, resource): (usize, &'_ String)| (at / ENTRIES_PER_USER, resource.clone());
        let rows: Vec<_> = self.resources.iter().enumerate().map(row).collect();
        let mut policies: Vec<_> = rows
            .iter()
            .map(|(user, resource)| PolicyRow {
                subject: self.subjects.get(*user).unwrap(),
                policy: "Custom",
                resource,
                actions: vec!["Pub", "Sub"],
                sources: vec![],
                decision: "Allow",
            })
            .collect();
        if is_changed {
            policies.pop();
        }
        let on = [("authenticate", "true"), ("authorize", "true")];
        access
            .replace(
                Rows {
                    users: &users,
                    policies: &policies,
                    plain: None,
                },
                Settings::read(on).unwrap(),
            )
            .unwrap();
    }
}

fn decision(criterion: &mut Criterion) {
    let access = Access::new([(310, "T(b) Pub")]).unwrap();
    let owned = Owned::new();
    owned.replace(&access, false);
    let tables = access.tables();
    let user = tables.user("user-700").unwrap();
    for (name, topic) in [
        ("literal", "topic-7003"),
        ("prefix", "topic-7000-eu"),
        ("none", "other"),
    ] {
        let asked = Resource {
            kind: Kind::Topic,
            name: topic,
        };
        criterion.bench_function(
            &format!("access/decision among 100,000/{name}"),
            |bencher| {
                bencher.iter(|| {
                    user.policies
                        .deciding(black_box(&asked), Actions::PUB, None)
                        .map(|e| e.is_allow)
                });
            },
        );
    }
    let body = vec![7; 1_024];
    let fields = send("user-0", &body);
    let source = Source::of("10.1.1.1:4711");
    let mut allowed = Allowed::default();
    criterion.bench_function("access/check of a send/1024", |bencher| {
        bencher.iter(|| {
            let asked = Asked {
                code: 310,
                version: 409,
                fields: black_box(&fields),
                body: &body,
            };
            let caller = Caller {
                source: &source,
                is_tls: false,
                principal: "",
                now_ms: &|| NOW_MS,
            };
            access
                .check(&tables, asked, caller, &mut allowed)
                .unwrap()
                .needs_body
        });
    });
}

fn replacement(criterion: &mut Criterion) {
    let access = Access::new([]).unwrap();
    let owned = Owned::new();
    let mut group = criterion.benchmark_group("access/replace 100,000 entries of 10,000 users");
    group.sample_size(10);
    group.bench_function("all new", |bencher| {
        bencher.iter_batched(
            || Access::new([]).unwrap(),
            |access| owned.replace(&access, false),
            criterion::BatchSize::PerIteration,
        );
    });
    let mut is_changed = false;
    group.bench_function("one changed", |bencher| {
        bencher.iter(|| {
            is_changed = !is_changed;
            owned.replace(&access, is_changed);
        });
    });
    group.finish();
}

criterion_group!(benches, signature, decision, replacement);
criterion_main!(benches);
