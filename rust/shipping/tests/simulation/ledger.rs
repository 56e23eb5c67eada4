//! The model: what the master's log held byte for byte, what was sent, acknowledged and reported, and what
//! each replica has promised by that. Knows no store and no network; every rule gives the reason in words.

use std::collections::BTreeMap;

use mqcore_engine::flush::Ticket;
use mqcore_engine::status::PutStatus;

use super::network::Pair;

pub(crate) type Checked<T = ()> = Result<T, String>;

/// Fails with a text where something does not hold.
macro_rules! demand {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use demand;

/// A topic and a queue.
pub(crate) type QueueKey = (&'static str, i32);

/// A message in the master's log.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) queue_key: QueueKey,
    pub(crate) queue_offset: u64,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Where it waits, until it is answered.
    pub(crate) ticket: Option<Ticket>,
    /// Whether it waits for replicas.
    pub(crate) needs_replica: bool,
    pub(crate) status: Option<PutStatus>,
}

/// What a replica has promised, and what it was seen to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promise {
    /// Where its log begins.
    pub(crate) start: u64,
    /// Where it began when it was empty. What retention has removed since it had, and what it reported of that
    /// was true; what is before this it never got.
    begun_at: u64,
    /// Its log is the master's up to here.
    pub(crate) agrees_to: u64,
    /// Its log ends here.
    pub(crate) end: u64,
    /// What it has reported last over each connection that its master has open, as far as that was true.
    reports: BTreeMap<Pair, u64>,
    /// Messages up to here survive the process, and the loss of power.
    pub(crate) kill: u64,
    pub(crate) power: u64,
    /// Where the model and its log ended, and up to where it was synced, when these two were looked at last.
    noted: Option<(u64, u64, u64)>,
}

impl Promise {
    /// Whether it holds what its master does not.
    pub(crate) fn has_diverged(&self) -> bool {
        self.end > self.agrees_to
    }

    /// What it has reported, over whatever connection.
    pub(crate) fn reported(&self) -> u64 {
        self.reports.values().copied().max().unwrap_or(0)
    }
}

/// How many copies an acknowledgement means, the master's among them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    pub(crate) copies: usize,
    /// The master syncs before it acknowledges.
    pub(crate) is_synced: bool,
}

/// The model.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The master's log, from 0 on.
    pub(crate) history: Vec<u8>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) rule: Rule,
    pub(crate) promises: Vec<Promise>,
    /// The replicated mark of this start of the master.
    pub(crate) replicated: u64,
    offsets_of_queues: BTreeMap<(QueueKey, u64), u64>,
    /// What the master's log was before each loss of a tail.
    lost: Vec<Vec<u8>>,
}

impl Ledger {
    /// A model of a master, which is replica 0, and slaves.
    pub(crate) fn new(replicas: usize, rule: Rule) -> Self {
        Self {
            history: Vec::new(),
            sent: Vec::new(),
            rule,
            promises: vec![Promise::default(); replicas],
            replicated: 0,
            offsets_of_queues: BTreeMap::new(),
            lost: Vec::new(),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.history.len() as u64
    }

    /// The master's bytes; `None` where it has none.
    pub(crate) fn bytes(&self, from: u64, to: u64) -> Option<&[u8]> {
        self.history.get(from as usize..to as usize)
    }

    /// The last end of a message that is no higher.
    pub(crate) fn whole_below(&self, offset: u64) -> u64 {
        let behind = self.sent.partition_point(|sent| sent.end <= offset);
        behind.checked_sub(1).map_or(0, |at| self.sent[at].end)
    }

    /// A message was appended.
    pub(crate) fn appended(&mut self, bytes: &[u8], sent: Sent) -> Checked {
        let slot = (sent.queue_key, sent.queue_offset);
        self.history.extend_from_slice(bytes);
        demand!(
            self.history.len() as u64 == sent.end,
            "the log ends at {}, and the last message at {}",
            self.history.len(),
            sent.end
        );
        let before = self.offsets_of_queues.insert(slot, sent.begin);
        demand!(
            before.is_none(),
            "{slot:?} was given to the message at {before:?}, and is given to one at {}",
            sent.begin
        );
        self.sent.push(sent);
        let end = self.end();
        self.promises[0].agrees_to = end;
        self.promises[0].end = end;
        Ok(())
    }

    /// Where the message of a queue lies that readers see at an offset.
    pub(crate) fn physical_offset(&self, queue_key: QueueKey, queue_offset: u64) -> Option<u64> {
        self.offsets_of_queues
            .get(&(queue_key, queue_offset))
            .copied()
    }

    /// The master has lost what is behind `end`: the power was gone, and nothing was promised about it.
    pub(crate) fn cut(&mut self, end: u64) {
        if end < self.end() {
            self.lost.push(self.history.clone());
        }
        self.history.truncate(end as usize);
        while let Some(last) = self.sent.pop_if(|last| last.end > end) {
            self.offsets_of_queues
                .remove(&(last.queue_key, last.queue_offset));
        }
        for promise in &mut self.promises {
            promise.agrees_to = promise.agrees_to.min(end);
            // Whoever was connected was so to a process that is gone.
            promise.reports.clear();
            promise.kill = promise.kill.min(end);
            promise.power = promise.power.min(end);
            promise.noted = None;
        }
    }

    /// How many slaves hold the master's log up to `end`, by what they have reported, from `begin` on.
    fn holders(&self, begin: u64, end: u64) -> usize {
        let slaves = self.promises.iter().skip(1);
        slaves
            .filter(|slave| slave.reported() >= end && slave.begun_at <= begin)
            .count()
    }

    /// The mark of what is replicated has risen.
    pub(crate) fn note_replicated(&mut self, mark: u64) -> Checked {
        demand!(
            mark >= self.replicated,
            "the replicated mark falls from {} to {mark}",
            self.replicated
        );
        if mark == self.replicated {
            return Ok(());
        }
        self.replicated = mark;
        let holders = self.holders(u64::MAX, mark);
        demand!(
            holders + 1 >= self.rule.copies,
            "the replicated mark is {mark}, and {holders} slaves have reported it in truth: {:?}",
            self.promises
        );
        let waits = |sent: &&Sent| sent.ticket.is_some() && sent.needs_replica;
        for sent in self
            .sent
            .iter()
            .filter(waits)
            .filter(|sent| sent.end <= mark)
        {
            let holders = self.holders(sent.begin, sent.end);
            demand!(
                holders + 1 >= self.rule.copies,
                "the message at {} to {} counts as replicated, and {holders} slaves hold it: {:?}",
                sent.begin,
                sent.end,
                self.promises
            );
        }
        Ok(())
    }

    /// A send is answered.
    pub(crate) fn answered(&mut self, at: usize, status: PutStatus, flushed: u64) -> Checked {
        let sent = &mut self.sent[at];
        sent.ticket = None;
        sent.status = Some(status);
        if status != PutStatus::PutOk {
            return Ok(());
        }
        let (begin, end) = (sent.begin, sent.end);
        demand!(
            !sent.needs_replica || end <= self.replicated,
            "the message at {begin} to {end} is acknowledged, and the replicated mark is {}",
            self.replicated
        );
        let master = &mut self.promises[0];
        master.kill = master.kill.max(end);
        if self.rule.is_synced {
            demand!(
                flushed >= end,
                "the message at {begin} to {end} is acknowledged, and the disk has {flushed}"
            );
        }
        Ok(())
    }

    /// A slave reports; it has appended and synced so much.
    pub(crate) fn note_report(
        &mut self,
        slave: usize,
        (pair, report): (Pair, u64),
        appended: u64,
        durable: Option<u64>,
    ) -> Checked {
        demand!(
            report <= appended,
            "slave {slave} reports {report}, and its log ends at {appended}"
        );
        if let Some(durable) = durable {
            demand!(
                report <= durable,
                "slave {slave} reports {report}, and its disk has {durable}"
            );
        }
        let promise = &mut self.promises[slave];
        let report = report.min(promise.agrees_to);
        promise.reports.insert(pair, report);
        Ok(())
    }

    /// A replica has appended everything up to its end, and synced up to `flushed`.
    pub(crate) fn note_marks(&mut self, replica: usize, flushed: u64) {
        let model_end = self.end();
        let promise = &mut self.promises[replica];
        let (start, agrees_to) = (promise.start, promise.agrees_to);
        let now = Some((model_end, agrees_to, flushed));
        if promise.noted == now {
            return;
        }
        promise.noted = now;
        let kill = self.whole_below(agrees_to);
        let power = self.whole_below(flushed.min(agrees_to));
        let promise = &mut self.promises[replica];
        for (promised, now) in [(&mut promise.kill, kill), (&mut promise.power, power)] {
            if now > start {
                *promised = (*promised).max(now);
            }
        }
    }

    /// A slave whose master has lost a tail may agree by a few bytes more than was left: its log is `bytes`.
    pub(crate) fn compared(&mut self, slave: usize, bytes: &[u8]) {
        let start = self.promises[slave].start;
        self.promises[slave].agrees_to = start + self.same(start, bytes);
    }

    /// How many of these bytes are the master's from `start` on.
    fn same(&self, start: u64, bytes: &[u8]) -> u64 {
        let history = self.history.get(start as usize..).unwrap_or_default();
        if history.get(..bytes.len()) == Some(bytes) {
            return bytes.len() as u64;
        }
        let both = history.iter().zip(bytes);
        both.take_while(|(one, other)| one == other).count() as u64
    }

    /// A slave's log was emptied by its operator.
    pub(crate) fn emptied(&mut self, slave: usize) {
        let reports = std::mem::take(&mut self.promises[slave].reports);
        self.promises[slave] = Promise {
            reports,
            ..Promise::default()
        };
    }

    /// The master has closed a connection.
    pub(crate) fn closed(&mut self, slave: usize, pair: Pair) {
        self.promises[slave].reports.remove(&pair);
    }

    /// A slave's empty log begins at `start`.
    pub(crate) fn begun(&mut self, slave: usize, start: u64) -> Checked {
        demand!(
            start <= self.end(),
            "slave {slave} begins at {start}, and the master's log ends at {}",
            self.end()
        );
        let promise = &mut self.promises[slave];
        promise.start = start;
        promise.begun_at = start;
        promise.end = start;
        promise.agrees_to = start;
        promise.noted = None;
        Ok(())
    }

    /// A slave's log has grown by `bytes`, up to `end`; `is_old`: over a connection to a master that has been
    /// started anew since, of which something may still have been on its way.
    pub(crate) fn grown(&mut self, slave: usize, bytes: &[u8], end: u64, is_old: bool) -> Checked {
        let from = end - bytes.len() as u64;
        let is_of = |lost: &Vec<u8>| lost.get(from as usize..end as usize) == Some(bytes);
        if is_old && self.bytes(from, end) != Some(bytes) && self.lost.iter().any(is_of) {
            self.promises[slave].end = end;
            return Ok(());
        }
        let promise = &self.promises[slave];
        demand!(
            !promise.has_diverged(),
            "slave {slave} has copied {from} to {end}, and its log is the master's up to {} alone",
            promise.agrees_to
        );
        demand!(
            self.bytes(from, end) == Some(bytes),
            "slave {slave} has copied other bytes than its master's to {from}, up to {end}"
        );
        let promise = &mut self.promises[slave];
        promise.agrees_to = end;
        promise.end = end;
        Ok(())
    }

    /// A replica was opened again: its log has these bytes from `start` on. `has_lost`: the power was gone.
    pub(crate) fn reopened(
        &mut self,
        replica: usize,
        start: u64,
        bytes: &[u8],
        has_lost: bool,
    ) -> Checked {
        let end = start + bytes.len() as u64;
        let agrees_to = start + self.same(start, bytes);
        let is_of = |history: &Vec<u8>| history.get(start as usize..end as usize) == Some(bytes);
        demand!(
            agrees_to == end || (replica > 0 && self.lost.iter().any(is_of)),
            "replica {replica} was opened again, and its log from {start} to {end} is the master's up              to {agrees_to} alone, and none that the master ever had"
        );
        let promise = &mut self.promises[replica];
        let required = if has_lost {
            promise.power
        } else {
            promise.kill
        };
        demand!(
            agrees_to >= required,
            "replica {replica} was opened again with the master's log from {start} to {agrees_to},              and has promised {promise:?}{}",
            if has_lost { ": the power was gone" } else { "" }
        );
        // It died before it was seen that its empty log had begun.
        let is_begun = promise.end == 0;
        let before = if is_begun { start } else { promise.begun_at };
        promise.begun_at = before.min(start);
        promise.start = start;
        promise.agrees_to = agrees_to;
        promise.end = end;
        promise.kill = promise.kill.min(agrees_to);
        promise.power = promise.power.min(agrees_to);
        promise.noted = None;
        Ok(())
    }
}
