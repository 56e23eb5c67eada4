//! What a small history is: the settings, what lay there before, and the steps, all from a seed.
//! Knows no store.

use super::dice::Dice;

/// How the store flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Async,
    Sync,
    AsyncPool,
    SyncPool,
}

impl Mode {
    pub(crate) fn is_sync(self) -> bool {
        matches!(self, Self::Sync | Self::SyncPool)
    }

    pub(crate) fn has_pool(self) -> bool {
        matches!(self, Self::AsyncPool | Self::SyncPool)
    }
}

/// A queue: its topic and number.
pub(crate) type QueueKey = (&'static str, i32);

pub(crate) const QUEUE_KEYS: [QueueKey; 3] = [("T", 0), ("T", 1), ("Unlike", 0)];
/// Property KEYS of a message: none, one, two, and one twice.
pub(crate) const KEYS: [&str; 5] = ["", "a", "b", "a b", "b b"];
/// Bodies: of a few sectors, of a part of one, of nearly a page.
const BODIES: [usize; 5] = [0, 24, 200, 1_300, 3_900];

/// One of so many histories is of a store whose queues have extensions.
const EXTENDED_ONE_OF: u64 = 4;

/// One thing that happens. What the threads of a store do beside one another comes one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Append {
        queue_key: QueueKey,
        body_len: usize,
        keys: &'static str,
    },
    /// Messages of one queue at once.
    Batch {
        queue_key: QueueKey,
        count: usize,
    },
    /// Large messages until this many bytes of the log file are left.
    Fill {
        left: u64,
    },
    /// Waits for the acknowledgement of all that was appended.
    Settle,
    /// The same by ticket: parked, flushed, drained.
    Tickets,
    Flush,
    Prepare,
    Dispatch,
    SyncQueues,
    Checkpoint,
    Config,
    /// Removes the oldest files.
    Remove {
        files: usize,
    },
    /// A clean stop, and the next start.
    Close,
    /// kill -9, and the next start.
    Kill,
    /// Time goes by, or steps (the wall clock alone).
    Pass {
        ms: u64,
    },
    WallMoved {
        ms: i64,
    },
}

/// A history to be made.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) mode: Mode,
    /// Whether body checksums are looked at while recovering, as they are by default.
    pub(crate) checks_crc: bool,
    /// Consumers may read what is not flushed: never so but for a seeded bug.
    pub(crate) reads_unflushed: bool,
    /// Whether queues have extensions.
    pub(crate) extends_queues: bool,
    /// What lies there, durable, before the history begins.
    pub(crate) before: Vec<Step>,
    pub(crate) steps: Vec<Step>,
    /// What a recovered store goes on with; `None`: drawn from its seed.
    pub(crate) sequel: Option<Vec<Step>>,
}

impl Script {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::of(seed);
        let mode = dice.pick(&[
            Mode::Sync,
            Mode::Async,
            Mode::Sync,
            Mode::Async,
            Mode::SyncPool,
            Mode::AsyncPool,
        ]);
        Self {
            seed,
            mode,
            checks_crc: true,
            reads_unflushed: false,
            extends_queues: extends(seed),
            before: before(&mut dice),
            steps: steps(&mut dice),
            sequel: None,
        }
    }

    /// What a recovered store goes on with, to crash again.
    pub(crate) fn sequel(seed: u64, mode: Mode) -> Self {
        let mut dice = Dice::of(seed ^ 0x5e0);
        let mut steps = vec![append(&mut dice)];
        for _ in 0..2 + dice.below(3) {
            steps.push(other(&mut dice));
        }
        steps.push(append(&mut dice));
        steps.push(dice.pick(&[Step::Settle, Step::Flush, Step::Close, Step::Tickets]));
        Self {
            seed,
            mode,
            checks_crc: true,
            reads_unflushed: false,
            extends_queues: extends(seed),
            before: Vec::new(),
            steps,
            sequel: None,
        }
    }
}

/// Of a seed alone, so that the rest of its history is what it was without.
fn extends(seed: u64) -> bool {
    seed % EXTENDED_ONE_OF == 1
}

fn append(dice: &mut Dice) -> Step {
    Step::Append {
        queue_key: dice.pick(&QUEUE_KEYS),
        body_len: dice.pick(&BODIES),
        keys: dice.pick(&KEYS),
    }
}

fn before(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    let kind = dice.below(5);
    if kind == 0 {
        return steps;
    }
    let files = if kind == 4 {
        2 + dice.below(2)
    } else {
        kind / 2
    };
    for _ in 0..files {
        for _ in 0..dice.below(3) {
            steps.push(append(dice));
        }
        // So that a message or two of the history reach the end of the file, or go beyond it.
        let left = dice.pick(&[8, 60, 300, 1_000, 5_000]);
        steps.push(Step::Fill { left });
    }
    for _ in 0..dice.below(4) {
        steps.push(append(dice));
    }
    steps.push(Step::Flush);
    if dice.once_in(2) {
        steps.push(Step::Dispatch);
        steps.push(Step::SyncQueues);
    }
    if dice.once_in(2) {
        steps.push(Step::Config);
    }
    // Far enough from the checkpoint that recovery does not begin at the start.
    steps.push(Step::Pass {
        ms: dice.pick(&[0, 1, 2_999, 3_001, 10_000]),
    });
    if dice.once_in(2) {
        steps.push(Step::Checkpoint);
    }
    // How it ended: the history begins with the opening.
    steps.push(dice.pick(&[Step::Close, Step::Kill]));
    steps
}

fn steps(dice: &mut Dice) -> Vec<Step> {
    let mut steps = Vec::new();
    let appends = 2 + dice.below(3);
    for _ in 0..appends {
        if dice.once_in(6) {
            let queue_key = dice.pick(&QUEUE_KEYS);
            steps.push(Step::Batch {
                queue_key,
                count: 2,
            });
        } else {
            steps.push(append(dice));
        }
        for _ in 0..dice.below(4) {
            steps.push(other(dice));
        }
    }
    if dice.once_in(3) {
        steps.push(Step::Close);
        steps.push(append(dice));
    }
    steps
}

fn other(dice: &mut Dice) -> Step {
    match dice.below(24) {
        0..=3 => Step::Settle,
        4 => Step::Tickets,
        5..=7 => Step::Flush,
        8 => Step::Prepare,
        9..=11 => Step::Dispatch,
        12..=14 => Step::SyncQueues,
        15 | 16 => Step::Checkpoint,
        17 => Step::Config,
        18 | 19 => Step::Remove {
            files: 1 + dice.below(2) as usize,
        },
        20 | 21 => Step::Pass {
            ms: dice.pick(&[1, 150, 3_500]),
        },
        22 => Step::Kill,
        _ => Step::WallMoved {
            ms: dice.pick(&[-5_000, 5_000]),
        },
    }
}
