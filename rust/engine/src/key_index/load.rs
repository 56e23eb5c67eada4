//! Opening the index (`IndexService.load`): which files are there, which of them can be trusted.
//! Nothing is changed on the disk before every file has been looked at.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::lock::{Mutex, RwLock};

use super::file::{IndexFile, read_header};
use super::layout::{IndexHeader, Layout};
use super::name::is_index_name;
use super::table::{Files, IndexState, KeyIndex, LastExit, LastRecord, Opening, Writer};
use super::write::UNFINISHED_SUFFIX;
use crate::clock::Clock;
use crate::disk::{Disk, Open};
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::poison::Poison;

/// Keys of one record at the most: properties are at most 32767 bytes long, a key takes two with
/// its separator, and there is one more, the unique one. A damaged file may pretend more.
const RECORD_KEYS_MAX: usize = 32_767 / 2 + 1;

/// The files of a directory, and what is to be done about it.
struct Found<D: Disk> {
    files: Files<D>,
    /// From this one on, files are not trusted.
    keep: usize,
    /// Names without content: left by a crash in the making of a file.
    unfinished: Vec<String>,
}

impl<D: Disk, C: Clock> KeyIndex<D, C> {
    /// Opens the index. Files that cannot be trusted (after an abnormal exit: that are not full,
    /// or end after the checkpoint; always: whose header does not hold) are removed, and every
    /// file after them, so that what stays has no gap. Other names are left alone.
    ///
    /// # Errors
    /// [`Error::WrongFileSize`] when a file has another size than the settings say; nothing was
    /// changed then. [`Error::Io`], [`Error::Config`].
    pub fn open(disk: &D, clock: &C, notices: &Arc<Notices>, opening: Opening<'_>) -> Result<Self> {
        let layout = Layout::new(opening.config)?;
        let found = find(disk, layout, notices, &opening)?;
        let dropped_files = found.files.len().saturating_sub(found.keep);
        let index = Self {
            disk: disk.clone(),
            clock: clock.clone(),
            dir: opening.dir.to_owned(),
            layout,
            query_max: opening.config.query_max,
            dropped_files,
            notices: Arc::clone(notices),
            files: RwLock::new(found.files),
            writer: Mutex::new(Writer {
                current: None,
                state: IndexState::Running,
                retry_at_ms: 0,
                last: None,
            }),
            is_behind: AtomicBool::new(false),
            is_disturbed: AtomicBool::new(false),
            sync_poison: Poison::default(),
        };
        for name in &found.unfinished {
            disk.unlink(&opening.dir.join(name))?;
        }
        index.drop_from(found.keep)?;
        index.writer.lock().last = index.last_record()?;
        Ok(index)
    }

    /// Whether [`KeyIndex::open`] would refuse: changes nothing, so it can be asked before the
    /// rest of the store is changed.
    ///
    /// # Errors
    /// As for [`KeyIndex::open`].
    pub fn check(disk: &D, opening: &Opening<'_>) -> Result<()> {
        let layout = Layout::new(opening.config)?;
        // What is worth telling is told when the index is opened.
        find(disk, layout, &Notices::default(), opening).map(drop)
    }

    /// The latest record in the files, with the hashes of its keys.
    pub(super) fn last_record(&self) -> Result<Option<LastRecord>> {
        let mut last: Option<LastRecord> = None;
        let files = self.files.read();
        'files: for file in files.iter().rev() {
            let mut number = file.next_number() - 1;
            while number > 0 {
                let entry = file.entry(number)?;
                let offset = entry.physical_offset.cast_unsigned();
                let record = last.get_or_insert_with(|| LastRecord {
                    physical_offset: offset,
                    hashes: Vec::new(),
                });
                if record.physical_offset != offset || record.hashes.len() == RECORD_KEYS_MAX {
                    break 'files;
                }
                record.hashes.push(entry.key_hash);
                number -= 1;
            }
        }
        if let Some(record) = &mut last {
            record.hashes.reverse();
        }
        Ok(last)
    }
}

fn find<D: Disk>(
    disk: &D,
    layout: Layout,
    notices: &Notices,
    opening: &Opening<'_>,
) -> Result<Found<D>> {
    let mut found = Found {
        files: Vec::new(),
        keep: usize::MAX,
        unfinished: Vec::new(),
    };
    for entry in disk.list(opening.dir)? {
        let path = opening.dir.join(&entry.name);
        let stem = entry.name.strip_suffix(UNFINISHED_SUFFIX);
        if !entry.is_dir && stem.is_some_and(is_index_name) {
            found.unfinished.push(entry.name);
            continue;
        }
        if entry.is_dir || !is_index_name(&entry.name) {
            let text = "is no index file: it is left alone";
            notices.info(format!("{} {text}", path.display()));
            continue;
        }
        if entry.len_bytes == 0 {
            // The name of a file survived a crash, its length did not.
            found.unfinished.push(entry.name);
            continue;
        }
        if entry.len_bytes != layout.len_bytes() {
            return Err(Error::WrongFileSize {
                path,
                len_bytes: entry.len_bytes,
                expected_bytes: layout.len_bytes(),
                key: "maxIndexNum",
            });
        }
        let file = disk.open(&path, Open::Write)?;
        let header = read_header(&file)?;
        if found.keep == usize::MAX && !is_trusted(&header, layout, &path, opening, notices) {
            found.keep = found.files.len();
        }
        let file = IndexFile::new(&entry.name, file, layout, &header);
        found.files.push(Arc::new(file));
    }
    Ok(found)
}

/// Whether the file holds what its header says. After an abnormal exit the official broker trusts
/// every file that does not end after the checkpoint. Here it must be full as well: the header of
/// a file that was being filled may be older than its slots.
fn is_trusted(
    header: &IndexHeader,
    layout: Layout,
    path: &Path,
    opening: &Opening<'_>,
    notices: &Notices,
) -> bool {
    if let Some(problem) = header.problem(layout) {
        notices.warn(format!(
            "{} is damaged: {problem}. It and the files after it are removed and made again from \
             the log",
            path.display()
        ));
        return false;
    }
    match opening.last_exit {
        LastExit::Clean => true,
        LastExit::Abnormal {
            checkpoint_index_timestamp_ms,
        } => {
            let is_full = i64::from(header.next_number) >= i64::from(layout.entries());
            is_full && header.end_timestamp_ms <= checkpoint_index_timestamp_ms
        }
    }
}
