//! `config/timercheck`: how far the timers got, as numbers that were durable together
//! (`TimerCheckpoint`). Knows no wheel and no log.
//!
//! | position | i64 |
//! |---|---|
//! | 0 | time of the first slot that is not delivered, ms |
//! | 8 | timer log flushed up to here |
//! | 16 | next queue offset to enter |
//! | 24 | the same of the master |
//! | 32, 40, 48 | data version: state version, timestamp, counter |

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Open, read_whole};
use crate::error::Result;
use crate::units::PAGE_BYTES;

/// Bytes of the fields: they lie in one sector.
pub const POINT_BYTES: usize = 56;
/// The official broker maps one page.
const FILE_LEN_BYTES: u64 = PAGE_BYTES;

/// The numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Point {
    /// Time of the first slot that is not delivered, ms.
    pub read_ms: i64,
    /// The timer log is durable up to here.
    pub log_end: i64,
    /// Next queue offset to enter.
    pub queue_offset: i64,
    /// The same of the master: ours, as long as there is no replication.
    pub master_queue_offset: i64,
    /// State version of the data version.
    pub state_version: i64,
    /// Time of the data version, ms.
    pub version_ms: i64,
    /// Counter of the data version.
    pub counter: i64,
}

impl Point {
    /// The fields as file and replicas have them.
    #[must_use]
    pub fn encode(&self) -> [u8; POINT_BYTES] {
        let mut bytes = [0; POINT_BYTES];
        let fields = [
            self.read_ms,
            self.log_end,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.version_ms,
            self.counter,
        ];
        for (target, field) in bytes.chunks_exact_mut(8).zip(fields) {
            target.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    /// The fields of a file; what is cut off counts as 0.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let field = |index: usize| {
            let bytes = bytes.get(index * 8..index * 8 + 8);
            bytes.map_or(0, |bytes| {
                bytes
                    .iter()
                    .fold(0, |number, byte| (number << 8) | i64::from(*byte))
            })
        };
        Self {
            read_ms: field(0),
            log_end: field(1),
            queue_offset: field(2),
            master_queue_offset: field(3),
            state_version: field(4),
            version_ms: field(5),
            counter: field(6),
        }
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct PointFile<D: Disk> {
    disk: D,
    path: PathBuf,
    file: Option<D::File>,
    written: Option<Point>,
}

impl<D: Disk> PointFile<D> {
    /// Reads the numbers; zeros where there is no file.
    pub(super) fn open(disk: &D, path: &Path) -> Result<(Self, Point)> {
        let bytes = read_whole(disk, path, FILE_LEN_BYTES)?.unwrap_or_default();
        let file = Self {
            disk: disk.clone(),
            path: path.to_owned(),
            file: None,
            written: None,
        };
        Ok((file, Point::decode(&bytes)))
    }

    /// Writes the numbers when they changed.
    ///
    /// # Durability
    /// On return they survive power loss; a crash within leaves old or new ones.
    pub(super) fn write(&mut self, point: &Point) -> Result<()> {
        if self.written.as_ref() == Some(point) {
            return Ok(());
        }
        self.written = None;
        let file = match self.file.take() {
            Some(file) => file,
            None => self.make()?,
        };
        file.write_at(&point.encode(), 0)?;
        file.sync_data()?;
        self.file = Some(file);
        self.written = Some(*point);
        Ok(())
    }

    fn make(&self) -> Result<D::File> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        self.disk.create_dir_all(dir)?;
        let file = self.disk.open(&self.path, Open::Create)?;
        let len_bytes = file.len_bytes()?;
        if len_bytes < FILE_LEN_BYTES {
            let zeros = vec![0; (FILE_LEN_BYTES - len_bytes) as usize];
            file.write_at(&zeros, len_bytes)?;
        }
        self.disk.sync_dir(dir)?;
        Ok(file)
    }
}
