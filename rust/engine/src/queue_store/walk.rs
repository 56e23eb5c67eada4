//! What the directories hold: which queues there are and which files each has. Reads names and
//! lengths, opens nothing and changes nothing. Names that no queue has are left alone.

use std::path::Path;

use super::files::FileLength;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::units::{is_topic, parse_offset_file_name, parse_queue_id};

/// The files of a queue: `[first_base, files_end)`, without a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileRange {
    pub(crate) first_base: u64,
    pub(crate) files_end: u64,
}

/// Calls `found` for each queue directory below `dir` that is wanted: `<topic>/<queue id>/`.
pub(crate) fn walk_queues<D: Disk>(
    disk: &D,
    dir: &Path,
    length: FileLength,
    notices: &Notices,
    is_wanted: impl Fn(&str, i32) -> bool,
    mut found: impl FnMut(&str, i32, FileRange) -> Result<()>,
) -> Result<()> {
    for topic in disk.list(dir)? {
        let topic_dir = dir.join(&topic.name);
        if !topic.is_dir || !is_topic(topic.name.as_bytes()) {
            let at = topic_dir.display();
            notices.warn(format!("{at} is not the directory of a topic: left alone"));
            continue;
        }
        for queue in disk.list(&topic_dir)? {
            let queue_dir = topic_dir.join(&queue.name);
            let Some(queue_id) = parse_queue_id(&queue.name).filter(|_| queue.is_dir) else {
                let at = queue_dir.display();
                notices.warn(format!("{at} is not the directory of a queue: left alone"));
                continue;
            };
            if !is_wanted(&topic.name, queue_id) {
                continue;
            }
            let range = file_range(disk, &queue_dir, length, notices)?;
            found(&topic.name, queue_id, range)?;
        }
    }
    Ok(())
}

/// The files of one queue directory.
///
/// # Errors
/// [`Error::WrongFileSize`] when a file has another length than the settings have. A file of
/// length 0 is what a crash leaves between its making and its length: the queue ends before it, and
/// what follows it was never synced.
pub(crate) fn file_range<D: Disk>(
    disk: &D,
    queue_dir: &Path,
    length: FileLength,
    notices: &Notices,
) -> Result<FileRange> {
    let mut range = FileRange::default();
    let entries = disk.list(queue_dir)?;
    for entry in &entries {
        let path = queue_dir.join(&entry.name);
        let base = parse_offset_file_name(&entry.name);
        let Some(base) = base.filter(|base| !entry.is_dir && base % length.bytes == 0) else {
            let at = path.display();
            notices.warn(format!(
                "{at} is not a queue file of this length: left alone"
            ));
            continue;
        };
        if entry.len_bytes == 0 {
            break;
        }
        if entry.len_bytes != length.bytes {
            return Err(Error::WrongFileSize {
                path,
                len_bytes: entry.len_bytes,
                expected_bytes: length.bytes,
                key: length.key,
            });
        }
        if range.files_end != base {
            if range.files_end > range.first_base {
                let at = path.display();
                notices.warn(format!(
                    "queue files are missing before {at}: it begins there"
                ));
            }
            range.first_base = base;
        }
        range.files_end = base + length.bytes;
    }
    Ok(range)
}
