//! Replication over TLS: the stream itself, and masters and slaves over it. The certificates in `papers` were
//! made for these tests, and are good for nothing else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod pairs;

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;

use mqcore_shipping::{Filling, Identity, Master, Protection, Slave, Stream};

use pairs::{Dir, HOW, equal_after_each_end, first_end, log_bytes, open, pair, put, until};

const AUTHORITY: &[u8] = include_bytes!("papers/authority.pem");
const MASTER: &[u8] = include_bytes!("papers/master.pem");
/// The same, with its key under the password `secret` (PBKDF2, AES-256).
const LOCKED_MASTER: &[u8] = include_bytes!("papers/master.locked.pem");
/// That of the slave under the password `other` (scrypt).
const LOCKED_SLAVE: &[u8] = include_bytes!("papers/slave.locked.pem");
/// A key under a password as OpenSSL wrote it before PKCS #8.
const OLD_LOCKED: &[u8] = include_bytes!("papers/old.key");
const SLAVE: &[u8] = include_bytes!("papers/slave.pem");
const STRANGER: &[u8] = include_bytes!("papers/stranger.pem");
const EXPIRED: &[u8] = include_bytes!("papers/expired.pem");
/// What the certificate of the master names.
const ADDRESS: &str = "127.0.0.1:10912";

/// A certificate and its key in one file.
fn in_one(pem: &[u8]) -> Identity<'_> {
    Identity {
        certificate: pem,
        key: pem,
        password: None,
    }
}

fn serving(own: &[u8]) -> Protection {
    Protection::serving(in_one(own), Some(AUTHORITY), false).unwrap()
}

fn asking(own: Option<&[u8]>) -> Protection {
    Protection::asking(AUTHORITY, own.map(in_one)).unwrap()
}

/// Two ends that have shaken hands: a master's, which does not wait, and a slave's, which does.
fn ends() -> (Stream, Stream) {
    let (near, far) = pair();
    far.set_nonblocking(true).unwrap();
    let mut master = Stream::new(far, "a slave", &serving(MASTER)).unwrap();
    let mut slave = Stream::new(near, ADDRESS, &asking(Some(SLAVE))).unwrap();
    std::thread::scope(|scope| {
        let shaking = scope.spawn(|| {
            slave.shake_hands().unwrap();
            slave.write_all(b"x").unwrap();
        });
        until("the first byte has come", || {
            match master.read(&mut [0; 9]) {
                Ok(len) => len == 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    false
                }
            }
        });
        shaking.join().unwrap();
    });
    (master, slave)
}

#[test]
fn a_read_that_is_not_filled_has_given_all_that_came() {
    let (mut master, mut slave) = ends();
    let sent: Vec<u8> = (0..500_000_u32).map(|at| (at % 251) as u8).collect();
    let mut came = Vec::new();
    let mut into = [0; 10_007];
    std::thread::scope(|scope| {
        scope.spawn(|| slave.write_all(&sent).unwrap());
        until("everything has come", || {
            match master.read(&mut into) {
                Ok(len) => {
                    came.extend_from_slice(&into[..len]);
                    assert!(len == into.len() || !master.has_buffered());
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            came.len() == sent.len()
        });
    });
    assert!(came == sent);
    // What the other end has read of the socket, and nobody of it, is seen without the socket.
    slave.write_all(&[7; 100]).unwrap();
    until("a part has come", || master.read(&mut [0; 30]).is_ok());
    assert!(master.has_buffered());
    assert_eq!(master.read(&mut into).unwrap(), 70);
    assert!(!master.has_buffered());
    drop(slave);
    until("the end is seen", || {
        matches!(master.read(&mut into), Ok(0))
    });
}

#[test]
fn what_was_taken_and_has_not_left_is_known_and_then_sent() {
    let (mut master, mut slave) = ends();
    let part = vec![3; 200_000];
    let mut taken = 0;
    loop {
        match master.write(&part) {
            Ok(len) => taken += len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(master.flush().unwrap_err().kind(), ErrorKind::WouldBlock);
    let mut came = 0;
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut into = vec![0; 64 * 1024];
            while came < taken {
                let len = slave.read(&mut into).unwrap();
                assert!(len > 0 && into[..len].iter().all(|byte| *byte == 3));
                came += len;
            }
        });
        until("everything has left", || master.flush().is_ok());
        reading.join().unwrap();
    });
    assert_eq!(came, taken);
}

#[test]
fn slaves_over_tls_become_equal_and_go_on_after_each_end() {
    equal_after_each_end("tls", 4, |master, number, slave| {
        let (near, far) = pair();
        let address = format!("slave {number}");
        let (theirs, ours) = (serving(MASTER), asking(Some(SLAVE)));
        master.add_who(&address, far.into(), true, &theirs).unwrap();
        slave
            .follow_protected(ADDRESS, near.into(), false, &ours)
            .unwrap();
    });
}

#[test]
fn whole_files_are_copied_over_tls() {
    let (one, two) = (Dir::new("tls-files-1"), Dir::new("tls-files-2"));
    let store = open(&one.0, "SYNC_FLUSH");
    while put(&store, 100) < (3 << 20) + 50_000 {}
    store.durability().flush().unwrap();
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let copy = open(&two.0, "ASYNC_FLUSH");
    let _slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    let filling = Filling::new(Arc::clone(&copy), None).unwrap();
    for _stream in 0..2 {
        let (near, far) = pair();
        let theirs = serving(MASTER);
        master
            .add_who("a fresh slave", far.into(), true, &theirs)
            .unwrap();
        let ours = asking(Some(SLAVE));
        filling.add_protected(ADDRESS, near.into(), &ours).unwrap();
    }
    let mut reasons = Vec::new();
    until("both connections have ended", || {
        reasons.extend(filling.ended().take().into_iter().map(|link| link.why));
        reasons.len() == 2
    });
    assert_eq!(reasons, ["", ""]);
    filling.stop().unwrap();
    assert_eq!(copy.replica().appended(), 3 << 20);
    assert!(log_bytes(&copy, 0, 3 << 20) == log_bytes(&store, 0, 3 << 20));
    master.stop();
    copy.close().unwrap();
    store.close().unwrap();
}

/// Who serves, who asks, by which address; why it ends at the slave, and at the master.
type Refusal = (
    Protection,
    Protection,
    &'static str,
    &'static str,
    &'static str,
);

fn refusals() -> [Refusal; 10] {
    let of_others = Protection::asking(STRANGER, Some(in_one(SLAVE))).unwrap();
    let open_to_all = Protection::serving(in_one(MASTER), None, false).unwrap();
    let ours = || asking(Some(SLAVE));
    let plain = Protection::plain;
    let (untrusted, not_trusted) = ("authority that is trusted here", "authority that it trusts");
    let (expired, we_expired) = ("it has expired", "our certificate has expired");
    let no_tls = "it speaks no TLS";
    let other_host = "127.0.0.2:10912";
    [
        (serving(EXPIRED), ours(), ADDRESS, expired, we_expired),
        (serving(STRANGER), ours(), ADDRESS, untrusted, not_trusted),
        (serving(MASTER), of_others, ADDRESS, untrusted, not_trusted),
        (
            serving(MASTER),
            ours(),
            other_host,
            "not name the host",
            "refuses us",
        ),
        (
            serving(MASTER),
            asking(None),
            ADDRESS,
            "showed none",
            "shows no certificate",
        ),
        (
            serving(MASTER),
            asking(Some(STRANGER)),
            ADDRESS,
            not_trusted,
            untrusted,
        ),
        (
            serving(MASTER),
            asking(Some(EXPIRED)),
            ADDRESS,
            we_expired,
            expired,
        ),
        (serving(MASTER), plain(), ADDRESS, "closed", no_tls),
        (
            plain(),
            ours(),
            ADDRESS,
            "closed the connection instead",
            "",
        ),
        (open_to_all, plain(), ADDRESS, "closed", no_tls),
    ]
}

#[test]
fn whoever_is_not_who_he_should_be_is_refused_in_words_and_acknowledges_nothing() {
    let (one, two) = (Dir::new("tls-refused-1"), Dir::new("tls-refused-2"));
    let store = open(&one.0, "ASYNC_FLUSH");
    put(&store, 100);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let copy = open(&two.0, "ASYNC_FLUSH");
    let slave = Slave::new(Arc::clone(&copy), HOW.timing).unwrap();
    for (theirs, ours, address, at_slave, at_master) in refusals() {
        let (near, far) = pair();
        master.add_who("slave", far.into(), true, &theirs).unwrap();
        slave
            .follow_protected(address, near.into(), false, &ours)
            .unwrap();
        let why = first_end(slave.ended());
        assert!(
            why.contains(at_slave) || why.contains("reset"),
            "{why} {at_slave}"
        );
        let why = first_end(master.ended());
        assert!(why.contains(at_master), "{why} {at_master}");
        assert_eq!(copy.replica().appended(), 0);
        until("nobody is left", || master.slaves().is_empty());
    }
    master.stop();
    copy.close().unwrap();
    store.close().unwrap();
}

#[test]
fn a_master_for_a_change_over_takes_both() {
    let (one, two, three) = (
        Dir::new("tls-both-1"),
        Dir::new("tls-both-2"),
        Dir::new("tls-both-3"),
    );
    let store = open(&one.0, "ASYNC_FLUSH");
    let end = put(&store, 500);
    let master = Master::start(Arc::clone(&store), HOW).unwrap();
    let both = Protection::serving(in_one(MASTER), Some(AUTHORITY), true).unwrap();
    let ends = [Protection::plain(), asking(Some(SLAVE))];
    let copies = [open(&two.0, "ASYNC_FLUSH"), open(&three.0, "ASYNC_FLUSH")];
    let mut slaves = Vec::new();
    for (copy, ours) in copies.iter().zip(&ends) {
        let (near, far) = pair();
        master.add_who("slave", far.into(), true, &both).unwrap();
        let slave = Slave::new(Arc::clone(copy), HOW.timing).unwrap();
        slave
            .follow_protected(ADDRESS, near.into(), false, ours)
            .unwrap();
        until("a slave has everything", || {
            copy.replica().appended() == end
        });
        slaves.push(slave);
    }
    for slave in slaves {
        slave.stop();
    }
    master.stop();
    for copy in copies {
        copy.close().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn files_that_are_no_papers_are_refused_in_words() {
    let refused = [
        Protection::serving(in_one(b"nothing"), None, false),
        Protection::serving(
            Identity {
                certificate: MASTER,
                key: AUTHORITY,
                password: None,
            },
            None,
            false,
        ),
        Protection::serving(
            Identity {
                certificate: MASTER,
                key: SLAVE,
                password: None,
            },
            None,
            false,
        ),
        Protection::serving(in_one(MASTER), Some(b""), false),
        Protection::asking(b"nothing", None),
    ];
    let words = refused.map(|each| each.err().unwrap());
    let expected = [
        "holds none in PEM",
        "no private key in PEM",
        "cannot be used with the key",
        "holds no certificate",
        "holds no certificate",
    ];
    for (why, expected) in words.iter().zip(expected) {
        assert!(why.contains(expected), "{why}");
    }
}

fn locked<'a>(pem: &'a [u8], password: Option<&'a str>) -> Identity<'a> {
    Identity {
        certificate: MASTER,
        key: pem,
        password,
    }
}

#[test]
fn keys_with_a_password_serve_as_those_without() {
    let (near, far) = pair();
    far.set_nonblocking(true).unwrap();
    let own = locked(LOCKED_MASTER, Some("secret"));
    let how = Protection::serving(own, Some(AUTHORITY), false).unwrap();
    let mut master = Stream::new(far, "a slave", &how).unwrap();
    let shown = Identity {
        certificate: LOCKED_SLAVE,
        ..locked(LOCKED_SLAVE, Some("other"))
    };
    let how = Protection::asking(AUTHORITY, Some(shown)).unwrap();
    let mut slave = Stream::new(near, ADDRESS, &how).unwrap();
    std::thread::scope(|scope| {
        let shaking = scope.spawn(|| {
            slave.shake_hands().unwrap();
            slave.write_all(b"x").unwrap();
        });
        until("the first byte has come", || {
            matches!(master.read(&mut [0; 9]), Ok(1))
        });
        shaking.join().unwrap();
    });
}

#[test]
fn a_key_whose_password_does_not_fit_is_refused_in_words() {
    for (key, password, expected) in [
        (LOCKED_MASTER, None, "has a password, and none is set"),
        (
            LOCKED_MASTER,
            Some("wrong"),
            "is the password the right one?",
        ),
        (
            OLD_LOCKED,
            Some("secret"),
            "openssl pkcs8 -topk8 -v2 aes-256-cbc",
        ),
    ] {
        let refused = Protection::serving(locked(key, password), None, false);
        let why = refused.err().unwrap();
        assert!(why.contains(expected), "{why}");
    }
    // A password that is not needed is no fault: both ends may have one setting.
    assert!(Protection::serving(locked(MASTER, Some("any")), None, false).is_ok());
}
