//! What goes wrong on demand: errors, the stop of everything at a call, slow calls. Knows calls and
//! paths; knows no content.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::event::CallKind;

/// How often a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// At the `nth` call alone.
    Once,
    /// At the `nth` call and every later one.
    Always,
}

/// An error that a call will give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of call. A failing [`CallKind::Write`] has written the first half of its bytes; a
    /// failing [`CallKind::Sync`] leaves its bytes uncertain for ever. [`CallKind::Publish`] and
    /// [`CallKind::StoreCell`] cannot fail.
    pub call: CallKind,
    /// Only calls on paths that contain this.
    pub path_contains: Option<String>,
    /// The nth such call from now on; 1 is the next one.
    pub nth: u64,
    /// The error number.
    pub errno: i32,
    /// Once or from then on.
    pub times: Times,
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    seen: u64,
}

/// How long calls of a kind take.
#[derive(Debug, Clone, Copy, Default)]
struct Delay {
    each: Duration,
    calls: u64,
    sleeps: bool,
}

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Goes,
    Fails(i32),
    /// The process is thought dead: nothing happens any more.
    Stopped,
}

/// Everything that was ordered to go wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Armed>,
    delays: BTreeMap<CallKind, Delay>,
    calls: u64,
    stop_at: Option<u64>,
}

impl Faults {
    /// Counts a call and returns what it meets.
    pub(super) fn meet(&mut self, call: CallKind, path: &Path) -> Fate {
        self.calls += 1;
        if self.stop_at.is_some_and(|at| self.calls >= at) {
            return Fate::Stopped;
        }
        let mut fate = Fate::Goes;
        for armed in &mut self.armed {
            let fault = &armed.fault;
            let fits = |part: &String| path.to_string_lossy().contains(part.as_str());
            if fault.call != call || !fault.path_contains.as_ref().is_none_or(fits) {
                continue;
            }
            armed.seen += 1;
            let strikes = match fault.times {
                Times::Once => armed.seen == fault.nth,
                Times::Always => armed.seen >= fault.nth,
            };
            if strikes && fate == Fate::Goes {
                fate = Fate::Fails(fault.errno);
            }
        }
        fate
    }

    /// How long to sleep before the call; counts it.
    pub(super) fn delay(&mut self, call: CallKind) -> Option<Duration> {
        if self.delays.is_empty() {
            return None;
        }
        let delay = self.delays.get_mut(&call)?;
        delay.calls += 1;
        delay.sleeps.then_some(delay.each)
    }

    pub(super) fn arm(&mut self, fault: Fault) {
        self.armed.push(Armed { fault, seen: 0 });
    }

    /// No fault, no stop, no delay from now on.
    pub(super) fn heal(&mut self) {
        self.armed.clear();
        self.delays.clear();
        self.stop_at = None;
    }

    pub(super) fn stop_at(&mut self, call_number: u64) {
        self.stop_at = Some(call_number);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop_at.is_some_and(|at| self.calls >= at)
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    pub(super) fn set_delay(&mut self, call: CallKind, each: Duration, sleeps: bool) {
        let calls = 0;
        self.delays.insert(
            call,
            Delay {
                each,
                calls,
                sleeps,
            },
        );
    }

    /// Time that the delayed calls took, or would have taken.
    pub(super) fn delayed(&self, call: CallKind) -> Duration {
        self.delays.get(&call).map_or(Duration::ZERO, |delay| {
            delay.each * u32::try_from(delay.calls).unwrap_or(u32::MAX)
        })
    }
}
