//! A log of which a file is missing between others: refused, or on demand cut before the gap. The
//! files behind it are then moved aside, as they are.

use std::path::{Path, PathBuf};

use mqcore_record::CrcCheck;

use crate::commit_log::{CutFacts, CutReport, Scan, move_aside, scan};
use crate::config::StoreConfig;
use crate::disk::{Disk, Open};
use crate::error::{Error, Result};
use crate::segment::{Chain, Segment};
use crate::units::{offset_file_name, parse_offset_file_name};

/// A gap between the files of a log.
pub(super) struct Gap {
    /// Where the files before it end.
    pub(super) at: u64,
    /// The files behind it: where each begins, and its name.
    behind: Vec<(u64, PathBuf)>,
}

/// The first gap between the files; `None` where there is none. What else may be wrong with them is
/// looked at when they are opened.
pub(super) fn find_gap<D: Disk>(disk: &D, config: &StoreConfig) -> Result<Option<Gap>> {
    let dir = config.commit_log_path()?;
    let mut end: Option<u64> = None;
    let mut gap: Option<Gap> = None;
    for entry in disk.list(&dir)?.into_iter().filter(|entry| !entry.is_dir) {
        let Some(base) = parse_offset_file_name(&entry.name) else {
            return Ok(None);
        };
        if entry.len_bytes != config.segment_len_bytes && entry.len_bytes != 0 {
            return Ok(None);
        }
        let path = dir.join(&entry.name);
        match (&mut gap, end) {
            (Some(gap), _) => gap.behind.push((base, path)),
            (None, Some(end)) if end != base && entry.len_bytes > 0 => {
                gap = Some(Gap {
                    at: end,
                    behind: vec![(base, path)],
                });
            }
            _ => end = Some(base + config.segment_len_bytes),
        }
    }
    Ok(gap)
}

impl Gap {
    /// The refusal of an open that was not asked to cut there.
    pub(super) fn refused<D: Disk>(&self, disk: &D, config: &StoreConfig) -> Result<Error> {
        let dir = config.commit_log_path()?;
        // Of the first file alone: to read them all may take as long as the log is big.
        let whole_records = self.whole_records(disk, config, 1)?;
        let next = self.behind.first().map_or(self.at, |(base, _)| *base);
        Ok(Error::Damaged {
            store: config.root()?,
            path: dir.join(offset_file_name(self.at)),
            position: 0,
            physical_offset: self.at,
            why: format!(
                "a file of the log is missing: those before it end at {}, the next one begins at \
                 {next}. Nothing can be kept behind it, it can only be cut; of the {} files behind \
                 it the records of the first are counted",
                self.at,
                self.behind.len()
            ),
            whole_records,
        })
    }

    /// Ends the log before the gap: the files behind it are moved below `aside`.
    ///
    /// # Durability
    /// On return the names survive power loss; a crash within leaves the gap, or a log without it.
    pub(super) fn cut<D: Disk>(
        &self,
        disk: &D,
        config: &StoreConfig,
        aside: &Path,
        at_ms: i64,
    ) -> Result<CutReport> {
        let next = self.behind.first().map_or(self.at, |(base, _)| *base);
        let facts = CutFacts {
            why: "a file of the log was missing".to_owned(),
            whole_records: self.whole_records(disk, config, self.behind.len())?,
            durable_end: next,
            at_ms,
        };
        move_aside(disk, self.at, &self.behind, aside, &facts)
    }

    /// Whole records in the first `files` files behind the gap.
    fn whole_records<D: Disk>(&self, disk: &D, config: &StoreConfig, files: usize) -> Result<u64> {
        let len = config.segment_len_bytes;
        let mut records = 0;
        for (base, path) in self.behind.iter().take(files) {
            if disk.stat(path)?.is_none_or(|stat| stat.len_bytes != len) {
                continue;
            }
            let segment = Segment::open(disk, path.clone(), *base, len, Open::Read)?;
            let chain = Chain::of(&config.commit_log_path()?, segment);
            let walk = Scan {
                from: *base,
                limit: base + len,
                crc: CrcCheck::Skip,
                is_recovery: true,
                torn_from: u64::MAX,
                has_property_crc: false,
                forgets: true,
            };
            records += scan(&chain, walk, |_, _| Ok(true))?.records;
        }
        Ok(records)
    }
}
