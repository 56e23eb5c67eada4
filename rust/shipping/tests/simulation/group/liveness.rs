//! Who is alive, by heartbeats: a twin of `python/mqcore/controller/liveness.py`.

use std::collections::{BTreeMap, BTreeSet};

use mqcore_replica::controller::Candidate;

/// What a broker reports of itself, and over what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beat {
    pub(crate) id: i64,
    pub(crate) epoch: i32,
    pub(crate) max_offset: i64,
    /// The process that sends it.
    pub(crate) channel: (usize, u32),
}

#[derive(Debug)]
struct Live {
    heard_ms: u64,
    beat: Beat,
}

/// The brokers that a controller has heard of lately.
#[derive(Debug)]
pub(crate) struct Liveness {
    timeout_ms: u64,
    began_ms: u64,
    brokers: BTreeMap<i64, Live>,
    gone: BTreeSet<i64>,
}

impl Liveness {
    pub(crate) fn new(timeout_ms: u64, now_ms: u64) -> Self {
        Self {
            timeout_ms,
            began_ms: now_ms,
            brokers: BTreeMap::new(),
            gone: BTreeSet::new(),
        }
    }

    /// What a controller that starts knows: nobody.
    pub(crate) fn fresh(&self, now_ms: u64) -> Self {
        Self::new(self.timeout_ms, now_ms)
    }

    pub(crate) fn lead(&mut self, now_ms: u64) {
        self.began_ms = now_ms;
    }

    pub(crate) fn heard(&mut self, beat: Beat, now_ms: u64) {
        self.gone.remove(&beat.id);
        let heard_ms = now_ms;
        let live = self
            .brokers
            .entry(beat.id)
            .or_insert(Live { heard_ms, beat });
        let is_anew = live.beat.channel != beat.channel;
        let is_more = (beat.epoch, beat.max_offset) > (live.beat.epoch, live.beat.max_offset);
        live.heard_ms = now_ms;
        live.beat.channel = beat.channel;
        if is_anew || is_more {
            live.beat = beat;
        }
    }

    /// Forgets the brokers of a process whose connection has ended.
    pub(crate) fn closed(&mut self, channel: (usize, u32)) -> Vec<i64> {
        let brokers = self.brokers.iter();
        let gone = brokers.filter(|(_, live)| live.beat.channel == channel);
        let gone = gone.map(|(id, _)| *id).collect();
        self.forget(gone)
    }

    /// Forgets the brokers that were not heard of for too long.
    pub(crate) fn expired(&mut self, now_ms: u64) -> Vec<i64> {
        let late = self
            .brokers
            .iter()
            .filter(|(_, live)| self.is_late(live, now_ms));
        let late = late.map(|(id, _)| *id).collect();
        let late = self.forget(late);
        if now_ms.saturating_sub(self.began_ms) > self.timeout_ms {
            self.gone.clear();
        }
        late
    }

    fn forget(&mut self, ids: Vec<i64>) -> Vec<i64> {
        for id in &ids {
            self.brokers.remove(id);
            self.gone.insert(*id);
        }
        ids
    }

    fn is_late(&self, live: &Live, now_ms: u64) -> bool {
        now_ms.saturating_sub(live.heard_ms) > self.timeout_ms
    }

    pub(crate) fn is_alive(&self, id: i64, now_ms: u64) -> bool {
        let live = self.brokers.get(&id);
        live.is_some_and(|live| !self.is_late(live, now_ms))
    }

    /// Whether a broker is alive, or has not had the time to report.
    pub(crate) fn may_be_alive(&self, id: i64, now_ms: u64) -> bool {
        if self.brokers.contains_key(&id) {
            return self.is_alive(id, now_ms);
        }
        !self.gone.contains(&id) && now_ms.saturating_sub(self.began_ms) <= self.timeout_ms
    }

    /// The living, as an election takes them; with them the master where it has not had the time to report.
    pub(crate) fn candidates(&self, master: Option<i64>, now_ms: u64) -> Vec<Candidate> {
        let living = self
            .brokers
            .values()
            .filter(|live| !self.is_late(live, now_ms));
        let candidate = |live: &Live| Candidate {
            id: live.beat.id,
            epoch: live.beat.epoch,
            max_offset: live.beat.max_offset,
            priority: i32::MAX,
        };
        let mut found: Vec<Candidate> = living.map(candidate).collect();
        if let Some(id) = master
            && found.iter().all(|each| each.id != id)
            && self.may_be_alive(id, now_ms)
        {
            found.push(Candidate {
                id,
                epoch: -1,
                max_offset: -1,
                priority: i32::MAX,
            });
        }
        found
    }
}
