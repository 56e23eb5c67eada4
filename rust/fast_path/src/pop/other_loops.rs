//! Pops that wait on the loops over one store, as the others see them: which loops have some, and the
//! lines that were woken for them there. An acknowledgement comes on any connection, and the pop that
//! it lets go on may be held by another loop. Knows no pop and no store.
//!
//! Each shard of the pops has one, as part of what its lock protects: a pop is held, and a line is woken,
//! under that lock, so that none is missed in between.

use std::sync::{Arc, Weak};

use mqcore_engine::store::LoopEvents;

/// Lines that wait for a loop to take them: beyond it a loop is behind, and its check finds the others.
const LINES_MAX: usize = 4_096;

/// Topic, group and queue asked for; below zero: any.
pub(super) type Line<'a> = (&'a str, &'a str, i32);

/// A line that outlives its request.
pub(super) type OwnedLine = (Box<str>, Box<str>, i32);

/// The number of a loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LoopNumber(usize);

/// What is known of one loop.
#[derive(Debug, Default)]
struct WaitingLoop {
    events: Weak<LoopEvents>,
    /// Pops that it holds, those of other shards included; 0 for none.
    held: usize,
    /// Lines to wake there.
    lines: Vec<OwnedLine>,
}

/// The loops over one store.
#[derive(Debug, Default)]
pub(super) struct OtherLoops {
    loops: Vec<WaitingLoop>,
    /// Loops that have lines to take since the last call of [`OtherLoops::take_woken`].
    woken: Vec<Arc<LoopEvents>>,
    /// Loops that have lines to take.
    with_lines: usize,
}

impl OtherLoops {
    /// Takes a loop in; one that is gone leaves its number to it.
    pub(super) fn join(&mut self, events: &Arc<LoopEvents>) -> LoopNumber {
        let mut loops = self.loops.iter();
        let free = loops.position(|it| it.events.strong_count() == 0);
        let number = LoopNumber(free.unwrap_or(self.loops.len()));
        self.join_as(number, events);
        number
    }

    /// Takes a loop in under the number that it has elsewhere.
    pub(super) fn join_as(&mut self, number: LoopNumber, events: &Arc<LoopEvents>) {
        if self.loops.len() <= number.0 {
            self.loops.resize_with(number.0 + 1, WaitingLoop::default);
        }
        if let Some(gone) = self.loops.get_mut(number.0) {
            self.with_lines -= usize::from(!gone.lines.is_empty());
            *gone = WaitingLoop {
                events: Arc::downgrade(events),
                ..WaitingLoop::default()
            };
        }
    }

    /// Whether there are lines to take.
    pub(super) fn has_lines(&self) -> bool {
        self.with_lines > 0
    }

    /// Sets how many pops a loop holds.
    pub(super) fn set_held(&mut self, number: LoopNumber, held: usize) {
        if let Some(of_loop) = self.loops.get_mut(number.0) {
            of_loop.held = held;
        }
    }

    /// Lets the other loops wake one of a line, those that hold any pop.
    pub(super) fn wake(&mut self, but: LoopNumber, line: Line<'_>) {
        let others = self.loops.iter_mut().enumerate();
        let others = others.filter(|(number, it)| *number != but.0 && it.held > 0);
        for (_, of_loop) in others {
            let is_known = of_loop
                .lines
                .iter()
                .any(|(topic, group, queue_id)| (&**topic, &**group, *queue_id) == line);
            if is_known || of_loop.lines.len() == LINES_MAX {
                continue;
            }
            if of_loop.lines.is_empty() {
                self.with_lines += 1;
                self.woken.extend(of_loop.events.upgrade());
            }
            let (topic, group, queue_id) = line;
            of_loop.lines.push((topic.into(), group.into(), queue_id));
        }
    }

    /// Takes the lines that others have woken for a loop.
    pub(super) fn take_lines(&mut self, number: LoopNumber) -> Vec<OwnedLine> {
        let of_loop = self.loops.get_mut(number.0);
        let lines = of_loop.map_or_else(Vec::new, |it| std::mem::take(&mut it.lines));
        self.with_lines -= usize::from(!lines.is_empty());
        lines
    }

    /// Takes the loops whose descriptor is to be raised, once the lock is released.
    pub(super) fn take_woken(&mut self) -> Vec<Arc<LoopEvents>> {
        std::mem::take(&mut self.woken)
    }
}
