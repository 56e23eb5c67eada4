//! What is written down of every cut: `truncated/<physical offset>.json` beside the bytes that were
//! kept. It is written before the first byte of the log is changed, and until somebody has
//! acknowledged it (then it is named `<physical offset>.acknowledged.json`). Knows no log.
//!
//! One JSON object:
//!
//! | key | value |
//! |---|---|
//! | `kind` | `cut`: the log ends there now; `keep`: other records took the place of bad bytes |
//! | `physical_offset` | where |
//! | `bytes` | bytes that were taken out of the log |
//! | `whole_records` | whole records: among the bytes of a cut; behind the bytes of a keep |
//! | `missing_bytes` | bytes that were durable once and that no file had any more |
//! | `why` | what was wrong there |
//! | `kept_in` | files that hold the bytes now, relative to the store's directory |
//! | `removed` | log files that were removed |
//! | `at_ms` | when, Unix milliseconds |
//! | `is_done` | false while it is under way: an open after a crash goes on with it |

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::disk::{Disk, DiskFile, Open, read_whole};
use crate::error::Result;
use crate::units::{MIB, offset_file_name};

/// Longest record: one name per log file that was cut.
const RECORD_LEN_MAX_BYTES: u64 = 16 * MIB;
/// Cuts at one offset with names of their own; a store that is cut there more often reuses the last.
const SAME_OFFSET_MAX: u32 = 1000;

/// What was done to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CutKind {
    /// It ends there now.
    #[default]
    Cut,
    /// Other records took the place of bad bytes.
    Keep,
}

impl CutKind {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Keep => "keep",
        }
    }
}

/// What is known before the log is changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CutFacts {
    /// What is wrong there.
    pub why: String,
    /// Whole records: see the table of this file.
    pub whole_records: u64,
    /// Up to here the log was durable once; 0 where nobody knows.
    pub durable_end: u64,
    /// When, Unix milliseconds.
    pub at_ms: i64,
}

/// One record on its way to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutRecord {
    pub(super) kind: CutKind,
    pub(super) physical_offset: u64,
    pub(super) bytes: u64,
    /// Bytes that were durable once and that no file has any more.
    pub(super) missing_bytes: u64,
    pub(super) facts: CutFacts,
    pub(super) kept_in: Vec<PathBuf>,
    pub(super) removed: Vec<PathBuf>,
}

/// Where the files of one cut go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CutNames {
    dir: PathBuf,
    suffix: String,
    physical_offset: u64,
    /// What a cut at this offset has written down that was interrupted: the bytes that it keeps are on
    /// the disk already.
    pub(super) begun: Option<CutRecord>,
}

/// What the files of a name contain.
enum Taken {
    No,
    Begun(CutRecord),
    Done,
}

impl CutNames {
    /// The names for a cut at `physical_offset`: those of a cut that was interrupted, else new ones.
    pub(super) fn find<D: Disk>(
        disk: &D,
        dir: &Path,
        kind: CutKind,
        physical_offset: u64,
    ) -> Result<Self> {
        let mut names = Self {
            dir: dir.to_owned(),
            suffix: String::new(),
            physical_offset,
            begun: None,
        };
        for again in 2..SAME_OFFSET_MAX {
            match names.state(disk, kind)? {
                Taken::No => return Ok(names),
                Taken::Begun(record) => {
                    names.begun = Some(record);
                    return Ok(names);
                }
                Taken::Done => names.suffix = format!("-{again}"),
            }
        }
        Ok(names)
    }

    /// Whether a cut of these names is under way or done.
    fn state<D: Disk>(&self, disk: &D, kind: CutKind) -> Result<Taken> {
        let acknowledged = self.dir.join(format!(
            "{}{}.acknowledged.json",
            offset_file_name(self.physical_offset),
            self.suffix
        ));
        if disk.stat(&acknowledged)?.is_some() {
            return Ok(Taken::Done);
        }
        let Some(text) = read_whole(disk, &self.record_path(), RECORD_LEN_MAX_BYTES)? else {
            return Ok(Taken::No);
        };
        let value: Value = serde_json::from_slice(&text).unwrap_or_default();
        let record = CutRecord::of(&value, self.dir.parent().unwrap_or(Path::new("/")));
        let is_begun = value.get("is_done") == Some(&Value::Bool(false));
        Ok(
            match record.filter(|record| is_begun && record.kind == kind) {
                Some(record) => Taken::Begun(record),
                None => Taken::Done,
            },
        )
    }

    /// Where the bytes from `physical_offset` on are kept.
    pub(super) fn copy_path(&self, physical_offset: u64) -> PathBuf {
        let name = offset_file_name(physical_offset);
        self.dir.join(format!("{name}{}", self.suffix))
    }

    /// Where it is written down.
    pub(super) fn record_path(&self) -> PathBuf {
        let name = offset_file_name(self.physical_offset);
        self.dir.join(format!("{name}{}.json", self.suffix))
    }
}

impl CutRecord {
    /// What is written down, with names below `root`.
    fn of(value: &Value, root: &Path) -> Option<Self> {
        let kind = [CutKind::Cut, CutKind::Keep]
            .into_iter()
            .find(|kind| value.get("kind").and_then(Value::as_str) == Some(kind.name()))?;
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let paths = |key: &str| -> Option<Vec<PathBuf>> {
            let list = value.get(key)?.as_array()?;
            list.iter()
                .map(|path| path.as_str().map(|path| root.join(path)))
                .collect()
        };
        Some(Self {
            kind,
            physical_offset: number("physical_offset")?,
            bytes: number("bytes")?,
            missing_bytes: number("missing_bytes")?,
            facts: CutFacts {
                why: value.get("why")?.as_str()?.to_owned(),
                whole_records: number("whole_records")?,
                durable_end: 0,
                at_ms: value.get("at_ms")?.as_i64()?,
            },
            kept_in: paths("kept_in")?,
            removed: paths("removed")?,
        })
    }

    /// Writes it down, in place of what was written before.
    ///
    /// # Durability
    /// Survives power loss on return; a crash within leaves the old content or the new one.
    pub(super) fn write<D: Disk>(&self, disk: &D, names: &CutNames, is_done: bool) -> Result<()> {
        disk.create_dir_all(&names.dir)?;
        let root = names.dir.parent().unwrap_or(Path::new("/"));
        let relative = |paths: &[PathBuf]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.strip_prefix(root).unwrap_or(path))
                .map(|path| path.display().to_string())
                .collect()
        };
        let value = json!({
            "kind": self.kind.name(),
            "physical_offset": self.physical_offset,
            "bytes": self.bytes,
            "whole_records": self.facts.whole_records,
            "missing_bytes": self.missing_bytes,
            "why": self.facts.why,
            "kept_in": relative(&self.kept_in),
            "removed": relative(&self.removed),
            "at_ms": self.facts.at_ms,
            "is_done": is_done,
        });
        replace(disk, names, &value)
    }
}

fn replace<D: Disk>(disk: &D, names: &CutNames, value: &Value) -> Result<()> {
    let path = names.record_path();
    let next = path.with_extension("json.tmp");
    let file = disk.open(&next, Open::Create)?;
    file.set_len(0)?;
    file.write_at(value.to_string().as_bytes(), 0)?;
    file.sync_data()?;
    disk.rename(&next, &path)?;
    disk.sync_dir(&names.dir)
}
