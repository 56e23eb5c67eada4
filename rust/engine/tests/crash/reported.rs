//! The model: what was appended where, and what the store promised about it at which event. Knows
//! no disk and no store.

use mqcore_engine::commit_log::Appended;

use super::script::QueueKey;

/// Events are counted; stop point `n` is the moment after `n` of them.
pub(crate) type Stop = usize;

/// A message that was appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) queue_key: QueueKey,
    pub(crate) body: Vec<u8>,
    pub(crate) keys: &'static str,
    pub(crate) at: Appended,
    /// It may be on the disk from here on.
    pub(crate) since: Stop,
    /// A recovery did not find it: it must not come back from here on.
    pub(crate) gone: Option<Stop>,
}

/// A config file that was written, or is being.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) begun: Stop,
    pub(crate) done: Option<Stop>,
    pub(crate) value: u64,
}

/// Everything that was reported to a caller.
#[derive(Clone, Default)]
pub(crate) struct Reported {
    pub(crate) sent: Vec<Sent>,
    /// From this stop on everything below this offset survives power loss.
    pub(crate) power: Vec<(Stop, u64)>,
    /// The same for the end of the process.
    pub(crate) kill: Vec<(Stop, u64)>,
    /// From this stop on the log may begin here.
    pub(crate) starts: Vec<(Stop, u64)>,
    pub(crate) configs: Vec<Config>,
    /// A time for the clock after the crash.
    pub(crate) now_ms: i64,
}

fn highest(promises: &[(Stop, u64)], stop: Stop) -> u64 {
    let made = promises.iter().filter(|(since, _)| *since <= stop);
    made.map(|(_, value)| *value).max().unwrap_or(0)
}

impl Reported {
    /// For the reader of a case: one line per message, then the promises.
    pub(crate) fn describe(&self) -> String {
        let line = |sent: &Sent| {
            let Sent {
                queue_key,
                keys,
                at,
                since,
                gone,
                ..
            } = sent;
            format!("{queue_key:?} {keys:?} since {since} gone {gone:?}: {at:?}\n")
        };
        let lines: String = self.sent.iter().map(line).collect();
        let Self {
            power,
            kill,
            starts,
            configs,
            ..
        } = self;
        format!("{lines}power {power:?}\nkill {kill:?}\nstarts {starts:?}\nconfigs {configs:?}")
    }

    /// Everything below this must be there.
    pub(crate) fn required(&self, stop: Stop, is_killed: bool) -> u64 {
        let power = highest(&self.power, stop);
        if is_killed {
            power.max(highest(&self.kill, stop))
        } else {
            power
        }
    }

    /// The log begins no later than here.
    pub(crate) fn start_max(&self, stop: Stop) -> u64 {
        highest(&self.starts, stop)
    }

    /// What may be in the log, in its order.
    pub(crate) fn possible(&self, stop: Stop) -> Vec<&Sent> {
        let is_gone = |sent: &Sent| sent.gone.is_some_and(|gone| gone <= stop);
        let all = self.sent.iter();
        all.filter(|sent| sent.since <= stop && !is_gone(sent))
            .collect()
    }

    /// The values that the config file may have; 0 means none.
    pub(crate) fn configs(&self, stop: Stop) -> Vec<u64> {
        let is_done = |config: &&Config| config.done.is_some_and(|done| done <= stop);
        let last = self.configs.iter().rev().find(is_done);
        let mut values = vec![last.map_or(0, |config| config.value)];
        let begun = self
            .configs
            .iter()
            .filter(|config| config.begun <= stop && config.done.is_none_or(|done| done > stop));
        values.extend(begun.map(|config| config.value));
        values
    }

    /// Everything so far is durable, and the count of events starts anew.
    pub(crate) fn settle(&mut self) {
        self.sent.retain(|sent| sent.gone.is_none());
        for sent in &mut self.sent {
            sent.since = 0;
        }
        let end = self.sent.last().map_or(0, |sent| sent.at.end());
        let start = highest(&self.starts, Stop::MAX);
        self.power = vec![(0, end)];
        self.kill.clear();
        self.starts = vec![(0, start)];
        if let Some(mut last) = self.configs.pop() {
            last.begun = 0;
            last.done = Some(0);
            self.configs = vec![last];
        }
    }
}
