//! The hand-over to reactors and to Python's loop under a model checker (loom): every order in which
//! threads may run, with at most [`PREEMPTIONS`] changes of thread that are not waits, and every value that
//! the memory model lets an atomic give. The code is that of the programs, [`HandOver`] and [`Wake`];
//! what the system gives them, a lock, a flag and an eventfd with an epoll, are models. Knows no socket.
//!
//! A wake-up that is lost leaves the loop waiting while nobody else can run: the checker calls that a
//! deadlock. So each test is one of safety (once, in order) and one of progress.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::sync::atomic::Ordering;

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use mqcore_engine::progress::{Counter, Flag, Wake};
use mqcore_reactor::changes::{HandOver, Listed, Wakes};

/// Changes of thread where the running one could go on: lost wake-ups of two parties need two.
const PREEMPTIONS: usize = 4;

/// A list behind a lock.
struct List<T>(Mutex<Vec<T>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> Listed for List<T> {
    type Item = T;

    fn with<R>(&self, act: impl FnOnce(&mut Vec<T>) -> R) -> R {
        act(&mut self.0.lock().unwrap())
    }
}

struct ModelFlag(AtomicBool);

impl Flag for ModelFlag {
    fn swap(&self, is_raised: bool, ordering: Ordering) -> bool {
        self.0.swap(is_raised, ordering)
    }
}

/// An eventfd in an epoll.
#[derive(Clone)]
struct Eventfd(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    count: u64,
    /// In the epoll's list of what is ready: each write puts it there.
    is_listed: bool,
}

impl Counter for Eventfd {
    fn add(&self) {
        let (state, written) = &*self.0;
        let mut state = state.lock().unwrap();
        state.count += 1;
        state.is_listed = true;
        written.notify_one();
    }

    fn reset(&self) {
        self.0.0.lock().unwrap().count = 0;
    }
}

impl Eventfd {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(State::default()), Condvar::new())))
    }

    /// Waits as a reactor does, for an edge: what is listed is announced once, and only if it is still
    /// readable.
    fn wait_for_edge(&self) {
        let (state, written) = &*self.0;
        let mut state = state.lock().unwrap();
        loop {
            if std::mem::take(&mut state.is_listed) && state.count > 0 {
                return;
            }
            state = written.wait(state).unwrap();
        }
    }

    /// Waits as Python's loop does, until it is readable.
    fn wait_until_readable(&self) {
        let (state, written) = &*self.0;
        let mut state = state.lock().unwrap();
        while state.count == 0 {
            state = written.wait(state).unwrap();
        }
    }

    fn is_readable(&self) -> bool {
        self.0.0.lock().unwrap().count > 0
    }
}

/// A loop's wake descriptor.
struct Descriptor {
    wake: Wake<Eventfd, ModelFlag>,
    eventfd: Eventfd,
}

impl Wakes for Descriptor {
    fn raise(&self) {
        self.wake.raise();
    }
}

type ToLoop<T> = HandOver<List<T>, Descriptor>;

fn descriptor() -> std::sync::Arc<Descriptor> {
    let eventfd = Eventfd::new();
    let flag = ModelFlag(AtomicBool::new(false));
    std::sync::Arc::new(Descriptor {
        wake: Wake::of(eventfd.clone(), flag),
        eventfd,
    })
}

fn to_loop<T>(descriptor: &std::sync::Arc<Descriptor>) -> Arc<ToLoop<T>> {
    Arc::new(HandOver::new(std::sync::Arc::clone(descriptor)))
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(model);
}

/// What is asked of the reactor: who asks, and the how manieth it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Change { thread: usize, number: usize },
    Stop,
}

fn asks(changes: &Arc<ToLoop<Asked>>, thread: usize, count: usize) -> thread::JoinHandle<()> {
    let changes = Arc::clone(changes);
    thread::spawn(move || {
        for number in 0..count {
            changes.push(Asked::Change { thread, number });
        }
    })
}

/// Turns of a reactor, until as many changes were taken or it is to stop.
fn turns(descriptor: &Descriptor, changes: &ToLoop<Asked>, until: usize) -> Vec<Asked> {
    let mut taken = Vec::new();
    loop {
        descriptor.wake.clear();
        taken.extend(changes.take());
        if taken.len() >= until || taken.contains(&Asked::Stop) {
            return taken;
        }
        descriptor.eventfd.wait_for_edge();
    }
}

/// The numbers of what a thread asked for are 0, 1, 2 ...; how many they are.
fn in_order(taken: &[Asked], of: usize) -> usize {
    let mut next = 0;
    for asked in taken {
        if let Asked::Change { thread, number } = *asked
            && thread == of
        {
            assert_eq!(number, next, "{taken:?}");
            next += 1;
        }
    }
    next
}

#[test]
fn changes_of_two_threads_are_taken_without_anything_else_happening() {
    check(|| {
        let descriptor = descriptor();
        let changes = to_loop(&descriptor);
        let threads = [asks(&changes, 0, 2), asks(&changes, 1, 1)];
        let taken = turns(&descriptor, &changes, 3);
        assert_eq!((in_order(&taken, 0), in_order(&taken, 1)), (2, 1));
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(changes.take().is_empty());
    });
}

#[test]
fn a_reactor_that_is_stopped_ends_whatever_else_is_asked() {
    check(|| {
        let descriptor = descriptor();
        let changes = to_loop(&descriptor);
        let asking = asks(&changes, 0, 2);
        let reactor = {
            let (descriptor, changes) = (std::sync::Arc::clone(&descriptor), Arc::clone(&changes));
            thread::spawn(move || turns(&descriptor, &changes, usize::MAX))
        };
        changes.push(Asked::Stop);
        let mut taken = reactor.join().unwrap();
        assert!(taken.contains(&Asked::Stop));
        asking.join().unwrap();
        taken.extend(changes.take());
        assert_eq!(in_order(&taken, 0), 2, "what came too late is still there");
    });
}

/// Python's loop: takes the reports of all reactors each time that its descriptor is readable.
fn reports_taken(
    descriptor: &Descriptor,
    reactors: &[Arc<ToLoop<usize>>],
    until: usize,
) -> Vec<Vec<usize>> {
    let mut taken = vec![Vec::new(); reactors.len()];
    while taken.iter().map(Vec::len).sum::<usize>() < until {
        descriptor.eventfd.wait_until_readable();
        descriptor.wake.clear();
        for (taken, reported) in taken.iter_mut().zip(reactors) {
            taken.extend(reported.take());
        }
    }
    taken
}

#[test]
fn reports_of_two_reactors_are_taken_once_in_order() {
    check(|| {
        let descriptor = descriptor();
        let reactors = [to_loop(&descriptor), to_loop(&descriptor)];
        let (one, other) = (Arc::clone(&reactors[0]), Arc::clone(&reactors[1]));
        let threads = [
            thread::spawn(move || {
                one.append(&mut vec![0, 1]);
                one.append(&mut vec![2]);
            }),
            thread::spawn(move || other.append(&mut vec![0])),
        ];
        let taken = reports_taken(&descriptor, &reactors, 4);
        assert_eq!(taken, [vec![0, 1, 2], vec![0]]);
        for thread in threads {
            thread.join().unwrap();
        }
        let left: usize = reactors.iter().map(|each| each.take().len()).sum();
        assert_eq!(left, 0, "nothing is taken twice");
    });
}

#[test]
fn reports_that_nobody_has_taken_keep_the_descriptor_readable() {
    check(|| {
        let descriptor = descriptor();
        let reported = to_loop::<usize>(&descriptor);
        let reactor = {
            let reported = Arc::clone(&reported);
            thread::spawn(move || {
                reported.append(&mut vec![0]);
                reported.append(&mut vec![1]);
            })
        };
        // One turn of the loop, at any time.
        descriptor.wake.clear();
        let taken = reported.take();
        reactor.join().unwrap();
        let is_readable = descriptor.eventfd.is_readable();
        let left = reported.take();
        assert!(left.is_empty() || is_readable, "{taken:?} {left:?}");
        assert_eq!([taken, left].concat(), [0, 1]);
    });
}

#[test]
fn an_answer_written_under_the_lock_is_seen_by_the_next_turn() {
    check(|| {
        let descriptor = descriptor();
        let changes = to_loop(&descriptor);
        let output: Arc<Mutex<Vec<usize>>> = Arc::new(Mutex::new(Vec::new()));
        let python = {
            let (descriptor, output) = (std::sync::Arc::clone(&descriptor), Arc::clone(&output));
            thread::spawn(move || {
                for number in 0..2 {
                    // As the bindings do: written and woken under the lock of the fast path.
                    let mut output = output.lock().unwrap();
                    output.push(number);
                    descriptor.raise();
                }
            })
        };
        let asking = asks(&changes, 0, 1);
        let (mut written, mut taken) = (Vec::new(), Vec::new());
        loop {
            {
                // A turn clears the descriptor and takes the output under one hold of the lock.
                let mut output = output.lock().unwrap();
                descriptor.wake.clear();
                written.append(&mut output);
            }
            taken.extend(changes.take());
            if written.len() == 2 && taken.len() == 1 {
                break;
            }
            descriptor.eventfd.wait_for_edge();
        }
        assert_eq!((written, in_order(&taken, 0)), (vec![0, 1], 1));
        python.join().unwrap();
        asking.join().unwrap();
    });
}

/// Set for the child alone.
const PLANTED: &str = "MQCORE_MODEL_PLANTED";

/// What the child does: a loop that takes first and clears then.
#[test]
fn planted() {
    if std::env::var(PLANTED).is_err() {
        return;
    }
    check(|| {
        let descriptor = descriptor();
        let changes = to_loop(&descriptor);
        let asking = asks(&changes, 0, 2);
        let mut taken = Vec::new();
        loop {
            taken.extend(changes.take());
            descriptor.wake.clear();
            if taken.len() == 2 {
                break;
            }
            descriptor.eventfd.wait_for_edge();
        }
        asking.join().unwrap();
    });
}

/// In a child: the checker ends the process when it finds a deadlock.
#[test]
fn a_loop_that_clears_after_it_has_taken_is_found() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "planted", "--nocapture", "--test-threads=1"])
        .env(PLANTED, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stderr);
    assert!(
        !child.status.success() && printed.contains("deadlock"),
        "{printed}"
    );
}
