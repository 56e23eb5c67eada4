//! Directories of queues on their way out: of a topic that is deleted, of one queue. Names that are
//! no queue and no queue file are left alone, with their directory. And the names of the topics that
//! are not deleted. Knows no queue and no unit.

use std::collections::HashSet;
use std::path::Path;

use crate::disk::{Disk, read_whole};
use crate::error::Result;
use crate::relaxed_json;
use crate::units::{parse_offset_file_name, parse_queue_id};

/// Where the broker keeps its topics (`TopicConfigManager`), below the root.
const TOPICS_NAME: &str = "config/topics.json";

/// The topics that the broker's configuration names; `None` where it cannot be read.
///
/// # Errors
/// [`crate::error::Error::Io`].
pub fn configured_topics<D: Disk>(disk: &D, root: &Path) -> Result<Option<HashSet<Vec<u8>>>> {
    let path = root.join(TOPICS_NAME);
    let max = relaxed_json::TEXT_LEN_MAX_BYTES as u64;
    let Some(text) = read_whole(disk, &path, max)? else {
        return Ok(None);
    };
    let Ok(value) = relaxed_json::parse(&text) else {
        return Ok(None);
    };
    let table = value.get("topicConfigTable");
    let table = table.and_then(serde_json::Value::as_object);
    Ok(table.map(|table| table.keys().map(|name| name.clone().into_bytes()).collect()))
}

/// Removes the queues of a topic below `root`; nothing where it has no directory.
///
/// # Durability
/// The names are gone for good on return.
///
/// # Errors
/// [`crate::error::Error::Io`]: called again it goes on.
///
/// # Blocking
/// Removes files and syncs directories.
pub fn remove_topic<D: Disk>(disk: &D, root: &Path, topic: &str) -> Result<()> {
    let dir = root.join(topic);
    if disk.stat(&dir)?.is_none() {
        return Ok(());
    }
    for entry in disk.list(&dir)? {
        if entry.is_dir && parse_queue_id(&entry.name).is_some() {
            remove_queue(disk, &dir.join(&entry.name))?;
        }
    }
    disk.sync_dir(&dir)?;
    if disk.list(&dir)?.is_empty() {
        disk.remove_dir(&dir)?;
        disk.sync_dir(root)?;
    }
    Ok(())
}

/// Removes the files of a queue, and its directory where nothing else is in it; nothing where it
/// has none. The directory above is the caller's to sync.
///
/// # Errors
/// [`crate::error::Error::Io`]: called again it goes on.
///
/// # Blocking
/// Removes files and syncs the directory.
pub fn remove_queue<D: Disk>(disk: &D, dir: &Path) -> Result<()> {
    if disk.stat(dir)?.is_none() {
        return Ok(());
    }
    // Newest first: what a crash leaves is a shorter queue and not one with a hole.
    for entry in disk.list(dir)?.iter().rev() {
        if !entry.is_dir && parse_offset_file_name(&entry.name).is_some() {
            disk.unlink(&dir.join(&entry.name))?;
        }
    }
    disk.sync_dir(dir)?;
    if disk.list(dir)?.is_empty() {
        disk.remove_dir(dir)?;
    }
    Ok(())
}
