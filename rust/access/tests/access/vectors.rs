//! Requests that official clients have signed (`vectors.txt`).

use mqcore_access::signature::Key;

#[derive(Debug, Default, Clone)]
struct Vector {
    title: String,
    version: i32,
    secret: String,
    body: Vec<u8>,
    fields: Vec<(String, String)>,
}

impl Vector {
    fn is_good(&self) -> bool {
        Key::of(&self.secret).has_signed(&self.fields, &self.body, self.version)
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

fn vectors() -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in include_str!("vectors.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let mut parts = line.splitn(3, '\t');
        let (kind, first) = (parts.next().unwrap(), parts.next().unwrap_or_default());
        if let Some(title) = kind.strip_prefix("= ") {
            vectors.push(Vector {
                title: title.to_owned(),
                ..Vector::default()
            });
            continue;
        }
        let vector = vectors.last_mut().unwrap();
        match kind {
            "version" => vector.version = first.parse().unwrap(),
            "secret" => vector.secret = first.to_owned(),
            "body" => vector.body = bytes(first),
            "field" => {
                let value = parts.next().unwrap_or_default();
                let value = value.replace("^A", "\u{1}").replace("^B", "\u{2}");
                vector.fields.push((first.to_owned(), value));
            }
            other => panic!("{other}"),
        }
    }
    vectors
}

#[test]
fn requests_of_official_clients_are_accepted() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 20);
    for vector in &vectors {
        assert!(vector.is_good(), "{}", vector.title);
        let mut turned = vector.clone();
        turned.fields.reverse();
        assert!(
            turned.is_good(),
            "the order of fields does not count: {}",
            vector.title
        );
    }
}

#[test]
fn a_change_of_anything_that_was_signed_is_seen() {
    let is_free = |vector: &Vector, name: &str| {
        name.starts_with("__ZONE_") || name == "_UNIQUE_KEY_QUERY" && vector.version <= 399
    };
    for vector in vectors() {
        for at in 0..vector.fields.len() {
            let mut changed = vector.clone();
            let (name, value) = &mut changed.fields[at];
            value.push('x');
            let is_good = is_free(&vector, name);
            assert_eq!(
                changed.is_good(),
                is_good,
                "{}: {}",
                vector.title,
                vector.fields[at].0
            );
        }
        let mut changed = vector.clone();
        changed.body.push(b'x');
        assert!(!changed.is_good(), "{}", vector.title);
    }
}
