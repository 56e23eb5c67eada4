//! What was seen, counted. Knows no socket.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::failure::{Failure, Outcome};
use crate::processor::{self, Used};

/// Longest latency that is measured: an answer later than an hour is none.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;
/// Significant digits of latencies.
const LATENCY_DIGITS: u8 = 3;

/// The counts of a run. What comes before the measurement begins does not count.
pub(crate) struct Tally {
    measured_from: Instant,
    pid: Option<u32>,
    before: Option<Used>,
    own_before: Option<Used>,
    has_begun: bool,
    latencies: Histogram<u64>,
    /// Messages sent or received.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Answers by code.
    codes: BTreeMap<i32, u64>,
    /// Requests whose connection ended before their answer.
    pub(crate) lost: u64,
    /// Connections made again.
    pub(crate) reconnects: u64,
    progress_at: Option<Instant>,
}

impl Tally {
    pub(crate) fn new(
        measured_from: Instant,
        pid: Option<u32>,
        has_progress: bool,
    ) -> Outcome<Self> {
        let latencies = Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
            .map_err(|error| Failure::Message(error.to_string()))?;
        Ok(Self {
            measured_from,
            pid,
            before: None,
            own_before: None,
            has_begun: false,
            latencies,
            messages: 0,
            bytes: 0,
            codes: BTreeMap::new(),
            lost: 0,
            reconnects: 0,
            progress_at: has_progress.then(Instant::now),
        })
    }

    /// Begins the measurement when it is time.
    pub(crate) fn tick(&mut self, now: Instant) {
        if !self.has_begun && now >= self.measured_from {
            self.has_begun = true;
            self.before = self.pid.and_then(processor::used);
            self.own_before = processor::used(std::process::id());
        }
        if let Some(at) = self.progress_at
            && now >= at
        {
            self.progress_at = Some(now + Duration::from_secs(1));
            let line = json!({
                "seconds": now.saturating_duration_since(self.measured_from).as_secs_f64(),
                "messages": self.messages,
                "lost": self.lost,
                "reconnects": self.reconnects,
                "codes": self.codes_value(),
            });
            // Whoever reads it may have gone; the run goes on.
            let _written = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// An answer to a request for so many messages.
    pub(crate) fn answer(&mut self, code: i32, messages: u64, bytes: u64) {
        if self.has_begun {
            *self.codes.entry(code).or_default() += 1;
            self.messages += messages;
            self.bytes += bytes;
        }
    }

    /// How long a request took.
    pub(crate) fn latency(&mut self, took: Duration) {
        if self.has_begun {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(LATENCY_MAX_NS);
            self.latencies.saturating_record(ns.max(1));
        }
    }

    fn codes_value(&self) -> Value {
        let codes = self.codes.iter();
        codes
            .map(|(code, count)| (code.to_string(), json!(count)))
            .collect()
    }

    /// The counts as JSON, of a measurement that ended at `end`.
    pub(crate) fn report(&self, end: Instant) -> Value {
        let seconds = end
            .saturating_duration_since(self.measured_from)
            .as_secs_f64();
        let per_second = |count: u64| (seconds > 0.0).then(|| count as f64 / seconds);
        let us = |quantile: f64| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        json!({
            "seconds": seconds,
            "messages": self.messages,
            "messages_per_second": per_second(self.messages),
            "bytes": self.bytes,
            "bytes_per_second": per_second(self.bytes),
            "codes": self.codes_value(),
            "lost": self.lost,
            "reconnects": self.reconnects,
            "latency_us": {
                "count": self.latencies.len(),
                "mean": self.latencies.mean() / 1e3,
                "p50": us(0.5),
                "p90": us(0.9),
                "p99": us(0.99),
                "p99.9": us(0.999),
                "p99.99": us(0.9999),
                "max": self.latencies.max() as f64 / 1e3,
            },
            "processor": self.pid.map(|pid| processor::report(pid, self.before, self.messages)),
            "own_processor": processor::report(
                std::process::id(), self.own_before, self.messages),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_measurement_does_not_count() {
        let start = Instant::now();
        let mut tally = Tally::new(start + Duration::from_secs(1), None, false).unwrap();
        tally.tick(start);
        tally.answer(0, 1, 10);
        tally.latency(Duration::from_secs(1));
        tally.tick(start + Duration::from_secs(1));
        tally.answer(0, 2, 20);
        tally.answer(2, 0, 0);
        tally.latency(Duration::from_micros(100));
        let report = tally.report(start + Duration::from_secs(3));
        assert_eq!(report["messages"], 2);
        assert_eq!(report["messages_per_second"], 1.0);
        assert_eq!(report["codes"], json!({"0": 1, "2": 1}));
        let p50 = report["latency_us"]["p50"].as_f64().unwrap();
        assert!((99.0..=101.0).contains(&p50), "{p50}");
    }
}
