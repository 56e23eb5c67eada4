//! Fast paths of several loops over one store: what is popped, ended or remembered on one connection is
//! known on all.

use mqcore_engine::config::FlushDiskType;
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_fast_path::{ConnectionId, FastPath};

use crate::popping::{Popped, one_revive_queue};
use crate::serving::{Serving, commands, host, response, send_with};
use crate::transactions::{COMMIT, NOTES, ROLLBACK};

/// Loops that send at the same time, and keys that each of them sends.
const LOOPS: usize = 4;
const KEYS: usize = 300;

type Path = FastPath<TwinDisk, mqcore_engine::clock::ManualClock>;

/// Another loop: its fast path and a client of it.
struct Loop {
    fast_path: Path,
    client: ConnectionId,
}

impl Serving {
    fn another_loop(&self) -> Loop {
        let mut fast_path = self.fast_path.beside(0);
        fast_path.policy = self.fast_path.policy.clone();
        fast_path.decide_broker(self.fast_path.policy.broker.as_ref().clone());
        let client = fast_path.open(host(10), "1.2.3.4:10");
        Loop { fast_path, client }
    }

    /// Goes on as a client of the other loop.
    fn change_loop(&mut self, other: &mut Loop) {
        std::mem::swap(&mut self.fast_path, &mut other.fast_path);
        std::mem::swap(&mut self.client, &mut other.client);
    }
}

#[test]
fn a_pop_is_acknowledged_on_another_loop() {
    let mut popped = Popped::new(one_revive_queue());
    let mut other = popped.serving.another_loop();
    for at in 0..6 {
        popped.send(at % 2, &at.to_string());
    }
    popped.serving.settle();
    let got = popped.pop(&[("maxMsgNums", "4")]);
    assert_eq!(got.len(), 4);
    popped.serving.change_loop(&mut other);
    let rest = popped.pop(&[]);
    assert_eq!(rest.len(), 2, "what the first loop gave is nobody else's");
    for each in got.iter().chain(&rest) {
        assert_eq!(response(&popped.ack(each)), (0, ""));
    }
    assert_eq!(popped.serving.number("pops_open"), 0);
    popped.serving.change_loop(&mut other);
    popped.pass(70_000);
    assert!(popped.pop(&[]).is_empty(), "all are settled");
}

#[test]
fn a_transaction_ends_once_whichever_loop_is_asked() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.another_loop();
    let half = serving.half(1, "");
    serving.change_loop(&mut other);
    assert_eq!(response(&serving.end(half, COMMIT, &[])), (0, ""));
    serving.change_loop(&mut other);
    let _refused_or_repeated = serving.end(half, ROLLBACK, &[]);
    let _repeated = serving.end(half, COMMIT, &[]);
    assert_eq!(serving.bodies(b"t", 2), ["body"]);
    assert_eq!(serving.bodies(NOTES, 0).len(), 1);
}

#[test]
fn offsets_of_one_loop_are_those_of_all() {
    let mut serving = Serving::new(FlushDiskType::Async);
    let mut other = serving.another_loop();
    assert!(serving.fast_path.commit_offset("g", "t", 0, 7));
    serving.change_loop(&mut other);
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), Some(7));
    assert_eq!(serving.fast_path.remove_offsets(Some("g"), None), 1);
    serving.change_loop(&mut other);
    assert_eq!(serving.fast_path.shared.offsets.find("g", "t", 0), None);
}

#[test]
fn of_copies_on_several_loops_at_the_same_time_one_is_stored() {
    let mut serving = Serving::new(FlushDiskType::Async);
    serving.remember();
    let mut loops: Vec<Loop> = (0..LOOPS).map(|_loop| serving.another_loop()).collect();
    let send_all = |one: &mut Loop| -> Vec<(String, String)> {
        let each = (0..KEYS).map(|key| {
            let properties = format!("UNIQ_KEY\u{1}K{key}\u{2}");
            let request = send_with(1, &[("i", &properties)], b"body");
            one.fast_path.feed(one.client, &request, 0).unwrap();
            let connections = &mut one.fast_path.connections;
            let bytes = connections.change_output(one.client, |output| output.take(usize::MAX));
            let answers = commands(&bytes.unwrap());
            assert_eq!((answers.len(), answers[0].code), (1, 0));
            let ext = &answers[0].ext;
            (ext["msgId"].clone(), ext["queueOffset"].clone())
        });
        each.collect()
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = loops
            .iter_mut()
            .map(|one| scope.spawn(|| send_all(one)))
            .collect();
        started
            .into_iter()
            .map(|each| each.join().unwrap())
            .collect()
    });
    assert!(answers.iter().all(|each| *each == answers[0]));
    while serving.store.dispatching().step().unwrap_or(false) {}
    assert_eq!(serving.stored(b"t"), KEYS);
    assert_eq!(serving.number("repeats"), ((LOOPS - 1) * KEYS) as u64);
}
