//! How long requests take and what was stored and got, as Python reads it: sums over all loops.

use std::collections::HashMap;
use std::sync::Arc;

use mqcore_engine::clock::Clock;
use mqcore_fast_path::consumer_offsets::offsets::SEPARATOR;
use mqcore_fast_path::gets::Got;
use mqcore_fast_path::lags::Groups;
use mqcore_fast_path::times::histogram::Durations;
use mqcore_fast_path::times::slowest::Slow;
use mqcore_fast_path::times::{
    KINDS, Kind, Pair, REQUEST_BOUNDS_US, RequestDurations, STAGES, Stage, Subject,
};
use mqcore_fast_path::traffic::{DELAY_BOUNDS_S, FINISH_BOUNDS_S, SIZE_BOUNDS, Traffic};
use pyo3::prelude::*;

use crate::bulk_text::{Bulk, BulkOrderRow, BulkText};
use crate::frozen::frozen;
use crate::gil::{Gil, gil_call};
use crate::locked::LockedFastPath;

frozen! {
    /// A slow request.
    SlowRequest {
        /// When it was answered, us of the clock that `elapsed_us` reads.
        answered_us: u64,
        /// From its bytes to its answer, without the time for which it was held, us.
        total_us: u64,
        /// The request code.
        code: i32,
        /// The response code.
        response: i32,
        /// Where its client is.
        peer: String,
        /// The group that read; empty for others.
        group: String,
        /// The topic that was read; empty for others.
        topic: String,
        /// The queue; -1 where it had none.
        queue_id: i32,
        /// The place in the queue; -1 where it had none.
        queue_offset: i64,
        /// Where the message was stored in the log; -1 for others.
        physical_offset: i64,
        /// Messages that were given.
        messages: u64,
        /// Bytes that were stored or given.
        bytes: u64,
        /// How long each of its stages took, us, by name.
        stages: HashMap<String, u64>,
    }

    /// How long a stage took, all requests of a kind together.
    StageTimes {
        /// `send`, `pull` or `other`.
        kind: String,
        /// The stage.
        stage: String,
        /// How many took at most 1, 2, 4, 8 us and so on, each without those before; the last has the
        /// rest.
        counts: Vec<u64>,
        /// All of them together, us.
        sum_us: u64,
        /// The longest, us.
        max_us: u64,
    }

    /// How long requests with a request and a response code took.
    RequestDuration {
        /// The request code.
        code: i32,
        /// The response code.
        response: i32,
        /// Whether it was held.
        is_held: bool,
        /// Whether nobody waited for an answer.
        is_oneway: bool,
        /// How many took at most so long as each of `REQUEST_BOUNDS_US`, each without those before; the
        /// last has the rest.
        counts: Vec<u64>,
        /// All of them together, us.
        sum_us: u64,
    }

    /// What was stored of a topic.
    TopicTraffic {
        /// The topic.
        topic: String,
        /// The kind of message: `normal`, `fifo`, `delay`, `transaction` or `priority`.
        kind: String,
        /// Messages.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Messages by size, as `SIZE_BOUNDS` has it; the last has the rest.
        sizes: Vec<u64>,
        /// All sizes together.
        sizes_sum: u64,
    }

    /// Times of the messages of a topic, s, as `DELAY_BOUNDS_S` and `FINISH_BOUNDS_S` have it.
    TopicSeconds {
        /// The topic.
        topic: String,
        /// For how long timed messages are to wait.
        delays: Vec<u64>,
        /// All of them together.
        delays_sum: u64,
        /// From half messages to their commit.
        finishes: Vec<u64>,
        /// All of them together.
        finishes_sum: u64,
    }

    /// What a group gave back of a topic.
    GivenBack {
        /// The group.
        group: String,
        /// The topic.
        topic: String,
        /// Messages for its retry topic.
        retried: u64,
        /// Messages that became dead letters.
        dead: u64,
        /// Messages acknowledged after a pop, or given another time.
        acked: u64,
        /// Check points that were kept for pops.
        points: u64,
    }

    /// What was stored of a queue.
    QueueTraffic {
        /// The topic.
        topic: String,
        /// The queue.
        queue_id: i32,
        /// Messages.
        messages: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Sends that were answered; one may have brought many messages.
        answers: u64,
        /// How long they took together, from their bytes to their answer, us.
        answers_us: u64,
    }
}

impl From<Slow> for SlowRequest {
    fn from(slow: Slow) -> Self {
        let stages = slow.stages.named();
        let mut request = Self {
            answered_us: slow.answered_us,
            total_us: slow.total_us,
            code: slow.code,
            response: slow.response,
            peer: slow.peer.into_string(),
            group: String::new(),
            topic: String::new(),
            queue_id: -1,
            queue_offset: -1,
            physical_offset: -1,
            messages: 0,
            bytes: 0,
            stages: stages.map(|(name, us)| (name.to_owned(), us)).collect(),
        };
        match slow.subject {
            Subject::None => {}
            Subject::Stored {
                queue_id,
                queue_offset,
                physical_offset,
                bytes,
            } => {
                request.queue_id = queue_id;
                request.queue_offset = queue_offset.cast_signed();
                request.physical_offset = physical_offset.cast_signed();
                request.bytes = bytes;
            }
            Subject::Read {
                group,
                topic,
                queue_id,
                queue_offset,
                messages,
                bytes,
            } => {
                request.group = group.into_string();
                request.topic = topic.into_string();
                request.queue_id = queue_id;
                request.queue_offset = queue_offset;
                request.messages = messages;
                request.bytes = bytes;
            }
        }
        request
    }
}

/// Groups whose offsets are copied at once.
const OFFSETS_PER_STEP: usize = 1_024;

/// What the loops have counted: read without the interpreter.
#[pyclass(frozen, module = "mqcore.native._native")]
pub(crate) struct RequestTimes {
    fast_path: Arc<LockedFastPath>,
    bulk: Bulk,
}

impl RequestTimes {
    pub(crate) fn new(fast_path: Arc<LockedFastPath>) -> Self {
        Self {
            fast_path,
            bulk: Bulk::default(),
        }
    }

    fn groups(&self) -> Groups {
        let mut offsets = Vec::new();
        let mut next = Some(0);
        while let Some(start) = next {
            // In parts, so that who commits waits for one of them at the most.
            let (rows, end) = self.fast_path.shared.offsets.rows(start, OFFSETS_PER_STEP);
            offsets.extend(rows);
            next = end;
        }
        let topics = offsets.iter();
        let topics = topics.filter_map(|(key, _)| Some(key.rsplit_once(SEPARATOR)?.0.to_owned()));
        let mut read_queues: hashbrown::HashMap<String, i32> =
            topics.map(|topic| (topic, 0)).collect();
        for (topic, queues) in &mut read_queues {
            let inside = self.fast_path.locked();
            let known = inside.path.policy.topics.get(topic.as_str());
            *queues = known.map_or(0, |known| known.read_queues);
        }
        let mut gets: hashbrown::HashMap<(String, String), Got> = hashbrown::HashMap::new();
        for home in self.fast_path.homes() {
            let of_loop = home.locked().path.gets();
            for (group, topic, got) in of_loop {
                gets.entry((group, topic)).or_default().add(&got);
            }
        }
        Groups {
            offsets,
            gets,
            read_queues,
        }
    }

    fn traffic(&self) -> Traffic {
        self.summed(Traffic::clone)
    }

    /// The sum of a part of what the loops have counted.
    fn summed(&self, part: impl Fn(&Traffic) -> Traffic) -> Traffic {
        let mut all = Traffic::default();
        for home in self.fast_path.homes() {
            // The sum is made while nobody waits.
            let of_loop = part(&home.locked().path.connections.traffic);
            all.add(of_loop);
        }
        all
    }
}

#[pymethods]
impl RequestTimes {
    /// Bounds of `RequestDuration`, us.
    #[classattr]
    const REQUEST_BOUNDS_US: [u64; REQUEST_BOUNDS_US.len()] = REQUEST_BOUNDS_US;
    /// Bounds of `TopicSeconds.delays`, s.
    #[classattr]
    const DELAY_BOUNDS_S: [u64; DELAY_BOUNDS_S.len()] = DELAY_BOUNDS_S;
    /// Bounds of `TopicSeconds.finishes`, s.
    #[classattr]
    const FINISH_BOUNDS_S: [u64; FINISH_BOUNDS_S.len()] = FINISH_BOUNDS_S;
    /// Bounds of `TopicTraffic.sizes`, bytes.
    #[classattr]
    const SIZE_BOUNDS: [u64; SIZE_BOUNDS.len()] = SIZE_BOUNDS;

    /// The clock that `SlowRequest.answered_us` is of, us.
    #[getter]
    fn elapsed_us(&self) -> u64 {
        let elapsed = self.fast_path.clock.elapsed();
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    /// The slowest requests of the last minutes that were answered behind a time, the slowest first.
    fn slowest(&self, py: Python<'_>, after_us: u64) -> Vec<SlowRequest> {
        let now_us = self.elapsed_us();
        gil_call(py, Gil::Released, || {
            let mut all: Vec<Slow> = Vec::new();
            for home in self.fast_path.homes() {
                let inside = home.locked();
                let slowest = &inside.path.connections.times.slowest;
                all.extend(slowest.since(after_us, now_us).cloned());
            }
            all.sort_by_key(|slow| std::cmp::Reverse(slow.total_us));
            all.into_iter().map(SlowRequest::from).collect()
        })
    }

    /// The times by kind and stage.
    fn stages(&self, py: Python<'_>) -> Vec<StageTimes> {
        gil_call(py, Gil::Released, || {
            let mut sums: Vec<(Kind, Stage, Durations)> = Vec::new();
            for home in self.fast_path.homes() {
                for (kind, stage, durations) in home.locked().path.connections.times.by_stage() {
                    let known = sums.iter_mut().find(|sum| (sum.0, sum.1) == (kind, stage));
                    match known {
                        Some(sum) => sum.2.add_all(durations),
                        None => sums.push((kind, stage, *durations)),
                    }
                }
            }
            sums.sort_by_key(|(kind, stage, _)| (*kind as usize, *stage as usize));
            let name_of = |kind: Kind, stage: Stage| {
                let kind = KINDS.iter().find(|each| each.0 == kind);
                let stage = STAGES.iter().find(|each| each.0 == stage);
                let name = |found: Option<&str>| found.unwrap_or_default().to_owned();
                (
                    name(kind.map(|each| each.1)),
                    name(stage.map(|each| each.1)),
                )
            };
            let rows = sums.into_iter().map(|(kind, stage, durations)| {
                let (kind, stage) = name_of(kind, stage);
                StageTimes {
                    kind,
                    stage,
                    counts: durations.counts.to_vec(),
                    sum_us: durations.sum_us,
                    max_us: durations.max_us,
                }
            });
            rows.collect()
        })
    }

    /// The times by request and response code.
    fn requests(&self, py: Python<'_>) -> Vec<RequestDuration> {
        gil_call(py, Gil::Released, || {
            let mut sums: HashMap<Pair, RequestDurations> = HashMap::new();
            for home in self.fast_path.homes() {
                for (pair, durations) in home.locked().path.connections.times.by_pair() {
                    sums.entry(*pair).or_default().add_all(durations);
                }
            }
            let rows = sums.into_iter().map(|(pair, durations)| RequestDuration {
                code: pair.code,
                response: pair.response,
                is_held: pair.is_held,
                is_oneway: pair.is_oneway,
                counts: durations.counts.to_vec(),
                sum_us: durations.sum,
            });
            rows.collect()
        })
    }

    /// Answers that were not timed because there were too many at once.
    #[getter]
    fn untimed(&self) -> u64 {
        let homes = self.fast_path.homes();
        homes
            .map(|home| home.locked().path.connections.times.untimed)
            .sum()
    }

    /// What was stored, by topic and kind.
    fn topics(&self, py: Python<'_>) -> Vec<TopicTraffic> {
        gil_call(py, Gil::Released, || {
            let all = self.traffic();
            let rows = all.topics().map(|(topic, kind, stored)| TopicTraffic {
                topic: topic.to_owned(),
                kind: kind.to_owned(),
                messages: stored.messages,
                bytes: stored.bytes,
                sizes: stored.sizes.counts.to_vec(),
                sizes_sum: stored.sizes.sum,
            });
            rows.collect()
        })
    }

    /// What was stored, by queue; nothing where there are more than so many.
    fn queues(&self, py: Python<'_>, queues_max: usize) -> Vec<QueueTraffic> {
        gil_call(py, Gil::Released, || {
            let all = self.traffic();
            if all.queues().nth(queues_max).is_some() {
                return Vec::new();
            }
            let rows = all.queues().map(|(topic, queue_id, stored)| QueueTraffic {
                topic: topic.to_owned(),
                queue_id,
                messages: stored.messages,
                bytes: stored.bytes,
                answers: stored.answers,
                answers_us: stored.answers_us,
            });
            rows.collect()
        })
    }

    /// Times of the messages of topics.
    fn topic_seconds(&self, py: Python<'_>) -> Vec<TopicSeconds> {
        gil_call(py, Gil::Released, || {
            let all = self.summed(Traffic::only_seconds);
            let rows = all.seconds().map(|(topic, seconds)| TopicSeconds {
                topic: topic.to_owned(),
                delays: seconds.delays.counts.to_vec(),
                delays_sum: seconds.delays.sum,
                finishes: seconds.finishes.counts.to_vec(),
                finishes_sum: seconds.finishes.sum,
            });
            rows.collect()
        })
    }

    /// Metrics by topic and by group as text. Reads the disk, for a tenth of a second at the most.
    fn bulk_text(&self, py: Python<'_>, order: BulkOrderRow) -> BulkText {
        gil_call(py, Gil::Released, || {
            let (traffic, groups) = (self.traffic(), self.groups());
            let (store, clock) = (&self.fast_path.engine, &self.fast_path.clock);
            let kept = &self.fast_path.kept_times;
            let lags = kept.with(|known| groups.lags(store, clock, known));
            self.bulk.text(&order, (&traffic, &groups, &lags))
        })
    }

    /// What groups gave back.
    fn given_back(&self, py: Python<'_>) -> Vec<GivenBack> {
        gil_call(py, Gil::Released, || {
            let all = self.summed(Traffic::only_given_back);
            let rows = all.all_given_back();
            let rows = rows.map(|(group, topic, count)| GivenBack {
                group: group.to_owned(),
                topic: topic.to_owned(),
                retried: count.retried,
                dead: count.dead,
                acked: count.acked,
                points: count.points,
            });
            rows.collect()
        })
    }
}
