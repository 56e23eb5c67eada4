//! The model of a group: what each broker's log holds byte for byte, which part of it is promised for ever,
//! and who must hold that. Something is promised once a send was acknowledged or readers may see it: from then
//! on everybody who may be elected has it, and no place of it ever holds anything else. Knows no store and no
//! network; every rule gives the reason in words.

use std::collections::{BTreeMap, BTreeSet};

use mqcore_record::properties::lookup;
use mqcore_record::{Found, head};

use super::sends::TIMED_TOPIC;
use crate::ledger::{Checked, QueueKey, demand};
use crate::options::SEGMENT_BYTES;

/// What one broker holds, as it was seen, and what it has promised to keep.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copy {
    pub(crate) log: Vec<u8>,
    /// Where its log began when it was empty. What is before that it has not, nor has its master: the model
    /// has what was promised there.
    begun_at: u64,
    /// Where its records and the blank ends of its files end.
    ends: Vec<u64>,
    /// Its log is what is promised up to here.
    pub(crate) agrees: u64,
    /// Records up to here survive the process, and the loss of power.
    kill: u64,
    power: u64,
    /// Where its log ended, and up to where it was synced, when these two were looked at last.
    noted: Option<(u64, u64)>,
    /// Where its log is going to be cut: what is behind may be gone at any crash until it is opened, though it is
    /// there, and though a sync or a look comes before its store is closed.
    cut_at: Option<u64>,
    /// Whether power loss may have taken from it what it had promised as a member.
    pub(crate) may_lack: bool,
    /// What it has reported at the most.
    reported: u64,
    /// The same at the last loss of power: a master may count it until the broker has so much again.
    pub(crate) owed: u64,
    /// From where on it holds what was promised once and was given up since: until its log is cut, or it
    /// leads. What is promised there now may be the same by chance: the blank end of a file is.
    forgiven_from: Option<u64>,
}

impl Copy {
    pub(crate) fn end(&self) -> u64 {
        self.log.len() as u64
    }

    fn whole_below(&self, offset: u64) -> u64 {
        let behind = self.ends.partition_point(|end| *end <= offset);
        behind.checked_sub(1).map_or(0, |at| self.ends[at])
    }

    /// Notes where the records end behind the last one that is known.
    fn walk(&mut self) -> Checked {
        let mut at = self.ends.last().copied().unwrap_or(0) as usize;
        while at < self.log.len() {
            let found = head(&self.log[at..]);
            let found = found.map_err(|error| format!("at {at} is no record: {error}"))?;
            at += match found {
                Found::Record(record) => record.total_len_bytes,
                Found::Blank { len_bytes } => len_bytes,
            };
            if at > self.log.len() {
                return Err(format!("the log ends at {}, in a record", self.log.len()));
            }
            self.ends.push(at as u64);
        }
        Ok(())
    }

    fn truncate(&mut self, end: u64) {
        self.log.truncate(end as usize);
        let kept = self.ends.partition_point(|one| *one <= end);
        self.ends.truncate(kept);
        self.agrees = self.agrees.min(end);
        self.kill = self.kill.min(end);
        self.power = self.power.min(end);
        self.noted = None;
    }
}

/// A send that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Acked {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) body: String,
    /// Whether it is delivered later.
    pub(crate) is_delayed: bool,
    /// When it is to be delivered, by the clock of who took it; `None` for at once.
    pub(crate) due_ms: Option<i64>,
}

/// The model.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) copies: Vec<Copy>,
    /// The log as it is promised.
    pub(crate) promised: Vec<u8>,
    pub(crate) acked: Vec<Acked>,
    /// Where the message of a queue lies, once somebody could see it.
    offsets: BTreeMap<(QueueKey, u64), u64>,
    /// Who led each epoch.
    led: BTreeMap<i32, usize>,
    /// Who must hold what is promised: the set, and who is eligible beside it.
    pub(crate) holders: BTreeSet<usize>,
}

impl Ledger {
    pub(crate) fn new(brokers: usize) -> Self {
        Self {
            copies: vec![Copy::default(); brokers],
            ..Self::default()
        }
    }

    pub(crate) fn promised_end(&self) -> u64 {
        self.promised.len() as u64
    }

    /// A log has grown by `bytes`.
    pub(crate) fn grown(&mut self, broker: usize, bytes: &[u8]) -> Checked {
        let copy = &mut self.copies[broker];
        let from = copy.end();
        copy.log.extend_from_slice(bytes);
        copy.walk()
            .map_err(|why| format!("broker {broker}: {why}"))?;
        if copy.agrees == from {
            copy.agrees += same(&self.promised, &copy.log, from);
        }
        Ok(())
    }

    /// Everything before `end` of a broker's log is promised from now on.
    pub(crate) fn promise(&mut self, broker: usize, end: u64, why: &str) -> Checked {
        let copy = &self.copies[broker];
        if copy.forgiven_from.is_some() {
            return Ok(());
        }
        let known = self.promised_end();
        demand!(
            copy.end() >= end,
            "broker {broker} {why} up to {end}, and its log ends at {}",
            copy.end()
        );
        demand!(
            copy.agrees >= end.min(known),
            "broker {broker} {why} up to {end}, and its log is what was promised up to {} alone, of {known}",
            copy.agrees
        );
        if end <= known {
            return Ok(());
        }
        let more = copy.log[known as usize..end as usize].to_vec();
        self.promised.extend(more);
        for copy in &mut self.copies {
            if copy.agrees == known {
                copy.agrees += same(&self.promised, &copy.log, known);
            }
        }
        let why = format!("broker {broker} {why} up to {end}");
        self.check_holders(&why)
    }

    /// Everybody who may be elected holds what is promised.
    pub(crate) fn check_holders(&mut self, why: &str) -> Checked {
        let end = self.promised_end();
        for broker in &self.holders {
            let copy = &mut self.copies[*broker];
            copy.may_lack &= copy.agrees < end.max(copy.owed);
            demand!(
                copy.agrees >= end || copy.may_lack,
                "{why}: broker {broker} may be elected, and of the {end} bytes that were promised it holds \
                 {} (its log ends at {})",
                copy.agrees,
                copy.end()
            );
        }
        Ok(())
    }

    /// A broker leads an epoch.
    ///
    /// What was given up for another one is promised again with it: who led meanwhile may lack it. Not with
    /// somebody who comes late to an epoch that is over.
    pub(crate) fn leads(&mut self, broker: usize, epoch: i32) -> Checked<bool> {
        let is_newest = self
            .led
            .keys()
            .next_back()
            .is_none_or(|last| *last <= epoch);
        let is_back = is_newest && self.copies[broker].forgiven_from.take().is_some();
        for copy in &mut self.copies {
            copy.may_lack |= is_back;
        }
        self.copies[broker].may_lack &= !is_back;
        let before = *self.led.entry(epoch).or_insert(broker);
        demand!(
            before == broker,
            "broker {broker} leads epoch {epoch}, which broker {before} has led"
        );
        Ok(is_back)
    }

    /// An empty log begins at `start`, where the master's does.
    pub(crate) fn begun(&mut self, broker: usize, start: u64) -> Checked {
        demand!(
            start <= self.promised_end(),
            "the log of broker {broker} begins at {start}, and {} bytes are promised",
            self.promised_end()
        );
        let before = self.promised[..start as usize].to_vec();
        self.copies[broker].begun_at = start;
        self.grown(broker, &before)
    }

    /// What a broker's log holds before `start`, by the model: its files are gone.
    pub(crate) fn before(&self, broker: usize, start: u64) -> Vec<u8> {
        let log = &self.copies[broker].log;
        let known = if log.is_empty() { &self.promised } else { log };
        known[..known.len().min(start as usize)].to_vec()
    }

    /// A broker has lost its disk.
    pub(crate) fn lost(&mut self, broker: usize) -> Checked {
        self.copies[broker] = Copy::default();
        self.check_holders(&format!("broker {broker} has lost its disk"))
    }

    /// A person has emptied the store of a broker, whose id was set aside: what was promised in it is with
    /// another one.
    pub(crate) fn emptied(&mut self, broker: usize) -> Checked {
        let agrees = self.copies[broker].agrees;
        let others = self.copies.iter().enumerate();
        let others = others.filter(|(other, _)| *other != broker);
        let elsewhere = others.map(|(_, copy)| copy.agrees).max().unwrap_or(0);
        demand!(
            agrees <= elsewhere && !self.holders.contains(&broker),
            "the store of broker {broker} is to be emptied, and has promised {agrees}; others have {elsewhere}"
        );
        self.copies[broker] = Copy::default();
        Ok(())
    }

    /// A send was acknowledged by a broker. By one whose end is given up it is no more than that end.
    pub(crate) fn acknowledged(&mut self, broker: usize, acked: Acked) -> Checked {
        if self.copies[broker].forgiven_from.is_some() {
            return Ok(());
        }
        self.promise(broker, acked.end, "has acknowledged a message")?;
        self.acked.push(acked);
        Ok(())
    }

    /// Power loss may have taken what a broker had promised by being a member: until it has given up its id,
    /// leads, or has what is promised and what it had reported.
    pub(crate) fn may_have_lost(&mut self, broker: usize) {
        let copy = &mut self.copies[broker];
        copy.may_lack = true;
        copy.owed = copy.reported;
    }

    /// A reader has seen a message at a place.
    pub(crate) fn seen(&mut self, broker: usize, slot: (QueueKey, u64), at: u64) -> Checked {
        if self.copies[broker].forgiven_from.is_some() {
            return Ok(());
        }
        let before = *self.offsets.entry(slot).or_insert(at);
        demand!(
            before == at,
            "{slot:?} is the message at {at} on broker {broker}, and was the one at {before}"
        );
        demand!(
            at < self.promised_end(),
            "readers of broker {broker} see {slot:?} at {at}, and {} bytes are promised",
            self.promised_end()
        );
        Ok(())
    }

    /// A broker reports to its master.
    pub(crate) fn reported(&mut self, broker: usize, report: u64, durable: Option<u64>) -> Checked {
        let copy = &mut self.copies[broker];
        copy.reported = copy.reported.max(report);
        let end = copy.end();
        demand!(
            report <= end,
            "broker {broker} reports {report}, and its log ends at {end}"
        );
        let durable = durable.unwrap_or(u64::MAX);
        demand!(
            report <= durable,
            "broker {broker} reports {report}, and its disk has {durable}"
        );
        Ok(())
    }

    /// What a broker has appended survives its process, and what it has synced the loss of power.
    pub(crate) fn note_marks(&mut self, broker: usize, flushed: u64) {
        let copy = &mut self.copies[broker];
        let end = copy.end();
        if copy.noted == Some((end, flushed)) {
            return;
        }
        copy.noted = Some((end, flushed));
        let end = end.min(copy.cut_at.unwrap_or(end));
        let (kill, power) = (copy.whole_below(end), copy.whole_below(flushed.min(end)));
        for (promised, now) in [(&mut copy.kill, kill), (&mut copy.power, power)] {
            if now > copy.begun_at {
                *promised = (*promised).max(now);
            }
        }
    }

    /// A log is going to be cut to be a copy of its master's; its readers see what is before `confirmed`. What
    /// nobody has promised of it may be the same by chance: two masters deliver one delayed message at one time.
    pub(crate) fn cut(&mut self, broker: usize, end: u64, confirmed: u64) -> Checked {
        let copy = &self.copies[broker];
        let is_holder = self.holders.contains(&broker);
        let must_keep = if is_holder { u64::MAX } else { confirmed };
        let must_keep = must_keep.min(copy.forgiven_from.unwrap_or(u64::MAX));
        let must_keep = copy.whole_below(copy.agrees.min(must_keep));
        demand!(
            end >= must_keep,
            "the log of broker {broker} is to be cut at {end}, and has promised {must_keep}"
        );
        let copy = &mut self.copies[broker];
        copy.cut_at = Some(end);
        copy.kill = copy.kill.min(end);
        copy.power = copy.power.min(end);
        copy.reported = copy.reported.min(end);
        copy.noted = None;
        Ok(())
    }

    /// A broker was opened, and its log is `log`. `has_lost`: the power was gone; `had_more`: it died while it
    /// did something; `cut`: where it was to be cut.
    pub(crate) fn opened(
        &mut self,
        broker: usize,
        log: Vec<u8>,
        (has_lost, had_more): (bool, bool),
        cut: Option<u64>,
    ) -> Checked {
        let copy = &mut self.copies[broker];
        let before = copy.log.len();
        let common = same(&copy.log, &log, 0) as usize;
        demand!(
            common == log.len() || common == before,
            "broker {broker} was opened with a log of {} bytes that is the one before, of {before} bytes, up \
             to {common} alone",
            log.len()
        );
        demand!(
            had_more || log.len() <= before,
            "broker {broker} was opened with a log of {} bytes, and nobody has added anything to {before}",
            log.len()
        );
        let required = if has_lost { copy.power } else { copy.kill };
        demand!(
            log.len() as u64 >= required,
            "broker {broker} was opened with a log of {} bytes, and had promised {required}{}",
            log.len(),
            if has_lost {
                " (the power was gone)"
            } else {
                ""
            }
        );
        if let Some(cut) = cut {
            demand!(
                log.len() as u64 <= cut,
                "the log of broker {broker} was to be cut at {cut}, and has {} bytes",
                log.len()
            );
            copy.forgiven_from = None;
        }
        copy.cut_at = None;
        copy.truncate(common as u64);
        // What was given up went with the end of the log.
        copy.forgiven_from = copy.forgiven_from.filter(|from| copy.end() > *from);
        let more = &log[common..];
        self.grown(broker, more)?;
        let copy = &self.copies[broker];
        if copy.agrees < self.promised_end() {
            let why = format!("broker {broker} was opened");
            self.check_holders(&why)?;
        }
        Ok(())
    }

    /// Power loss took the end of the log from everybody who is there: what a broker holds counts from now on.
    pub(crate) fn give_up(&mut self, broker: usize) {
        let copy = &self.copies[broker];
        let end = copy.whole_below(copy.agrees);
        self.promised.truncate(end as usize);
        self.acked.retain(|acked| acked.end <= end);
        self.offsets.retain(|_, at| *at < end);
        for copy in &mut self.copies {
            copy.agrees = copy.agrees.min(end);
        }
        for other in 0..self.copies.len() {
            self.give_up_of(other, end);
        }
        self.copies[broker].forgiven_from = None;
    }

    /// What a broker holds from `from` on is given up; the same may be promised there by another one.
    pub(crate) fn give_up_of(&mut self, broker: usize, from: u64) {
        let copy = &mut self.copies[broker];
        if copy.end() > from {
            let before = copy.forgiven_from.unwrap_or(from);
            copy.forgiven_from = Some(before.min(from));
        }
    }

    /// Looks at the end that all logs are one, whole, and have all that is promised; the bodies in it, by
    /// queue.
    pub(crate) fn compare_all(&self) -> Checked<BTreeMap<String, u64>> {
        let one = &self.copies[0];
        for (broker, copy) in self.copies.iter().enumerate() {
            let common = same(&one.log, &copy.log, 0);
            demand!(
                copy.log == one.log,
                "the log of broker {broker} has {} bytes, that of broker 0 {}, and they are one up to {common}",
                copy.end(),
                one.end()
            );
        }
        demand!(
            one.log.starts_with(&self.promised),
            "the log is not what was promised"
        );
        let mut next = BTreeMap::<(String, i32), u64>::new();
        let mut bodies = BTreeMap::new();
        let mut at = 0;
        while at < one.log.len() {
            match head(&one.log[at..]).map_err(|error| error.to_string())? {
                Found::Record(record) => {
                    let topic = String::from_utf8_lossy(record.topic).into_owned();
                    let queue = (topic.clone(), record.queue_id);
                    let offset = next.entry(queue).or_default();
                    demand!(
                        record.queue_offset.cast_unsigned() == *offset,
                        "the message at {at} has offset {} of {topic} {}, and the one before it {}",
                        record.queue_offset,
                        record.queue_id,
                        offset.wrapping_sub(1)
                    );
                    *offset += 1;
                    let due_ms = lookup(record.properties, "TIMER_OUT_MS");
                    if let Some(due_ms) = due_ms.filter(|_| topic == TIMED_TOPIC) {
                        let due_ms = String::from_utf8_lossy(due_ms).parse().unwrap_or(i64::MAX);
                        demand!(
                            record.store_timestamp_ms >= due_ms,
                            "the message at {at} was due at {due_ms} and delivered at {}",
                            record.store_timestamp_ms
                        );
                    }
                    let body = super::sends::name_of(record.body);
                    *bodies.entry(format!("{topic}/{body}")).or_default() += 1;
                    at += record.total_len_bytes;
                }
                Found::Blank { .. } => at = at.next_multiple_of(SEGMENT_BYTES as usize),
            }
        }
        for acked in &self.acked {
            let body = super::sends::name_of_record(&one.log[acked.begin as usize..]);
            demand!(
                body == acked.body,
                "{:?} was acknowledged at {} and {body:?} is there",
                acked.body,
                acked.begin
            );
        }
        Ok(bodies)
    }
}

/// How many bytes are the same from `from` on.
fn same(one: &[u8], other: &[u8], from: u64) -> u64 {
    let from = from as usize;
    let one = one.get(from..).unwrap_or_default();
    let other = other.get(from..).unwrap_or_default();
    let len = one.len().min(other.len());
    if one[..len] == other[..len] {
        return len as u64;
    }
    let both = one.iter().zip(other);
    both.take_while(|(one, other)| one == other).count() as u64
}
