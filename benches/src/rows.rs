//! Rows of results: one JSON line each, in a file per bench that `report.py` reads afterwards, and
//! a line for the eye on standard error.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::Instant;

use crate::bench_dir::target_dir;
use crate::stats::short;

/// One figure next to its limit.
#[derive(Debug, Clone, Default)]
pub struct Row<'a> {
    /// What was measured.
    pub name: &'a str,
    /// What is to be reached, in words.
    pub goal: &'a str,
    /// Unit of `reached` and `limit`.
    pub unit: &'a str,
    /// What was reached; `None` where the machine does not permit the measurement (see `note`).
    pub reached: Option<f64>,
    /// The limit in the same process.
    pub limit: Option<f64>,
    /// `reached / limit`, by pairs.
    pub ratio: Option<f64>,
    /// Whether the goal is missed; `None` for a figure that is only shown.
    pub missed: Option<bool>,
    /// What else is to be known.
    pub note: String,
}

/// The results of one bench binary.
#[derive(Debug)]
pub struct Rows {
    file: File,
    bench: &'static str,
    started: Instant,
}

impl Rows {
    /// Starts the file of `bench` anew.
    #[must_use]
    pub fn new(bench: &'static str) -> Self {
        let dir = target_dir().join("rows");
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("{bench}.jsonl"));
        let file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(path)
            .unwrap();
        Self {
            file,
            bench,
            started: Instant::now(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Row<'_>) {
        let number = |value: Option<f64>| match value {
            Some(value) if value.is_finite() => format!("{value:.6}"),
            _ => "null".to_owned(),
        };
        let missed = match row.missed {
            None => "null",
            Some(true) => "true",
            Some(false) => "false",
        };
        let mode = crate::by_mode("full", "quick");
        writeln!(
            self.file,
            "{{\"bench\":{},\"mode\":{},\"name\":{},\"goal\":{},\"unit\":{},\"reached\":{},\
             \"limit\":{},\"ratio\":{},\"missed\":{missed},\"note\":{}}}",
            text(self.bench),
            text(mode),
            text(row.name),
            text(row.goal),
            text(row.unit),
            number(row.reached),
            number(row.limit),
            number(row.ratio),
            text(&row.note),
        )
        .unwrap();
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), short);
        let outcome = match row.missed {
            None => "shown",
            Some(true) => "MISSED",
            Some(false) => "reached",
        };
        eprintln!(
            "[{:5.0} s] {:<52} {:>10} {:<14} limit {:>10}  ratio {:>8}  {outcome}  ({}) {}",
            self.started.elapsed().as_secs_f64(),
            row.name,
            shown(row.reached),
            row.unit,
            shown(row.limit),
            row.ratio
                .map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            row.goal,
            row.note,
        );
    }
}

/// A JSON string.
fn text(value: &str) -> String {
    let mut out = String::with_capacity(value.len() + 2);
    out.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if u32::from(c) < 0x20 => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
