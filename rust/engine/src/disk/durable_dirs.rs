//! Makes the names of directories of the real disk durable, up to the root of their file system. A directory that is
//! there proves nothing: the process that made it may have been killed before it had synced the one that holds its
//! name, and a power loss would take it with all that is in it. Knows no file of the store.
//!
//! Which ones are synced is kept for the process: a name that was synced once stays durable, so that a small file
//! that is written every few seconds costs no sync more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::lock::Mutex;

/// Directories that are kept in mind at the most; a store has a dozen. Beyond them each call syncs anew.
const KNOWN_MAX: usize = 4_096;

/// A directory as the kernel knows it: device, inode, and when the inode was born or, where the file system does not
/// keep that, 0. A number alone may be given to another directory.
type Identity = (u64, u64, u64);

/// Directories whose names are durable, with those of all above them.
static KNOWN: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

fn identity(meta: &fs::Metadata) -> Identity {
    let born = meta.created().ok();
    let since = born.and_then(|born| born.duration_since(std::time::UNIX_EPOCH).ok());
    let born_ns = since.map_or(0, |since| since.as_nanos() as u64);
    (meta.dev(), meta.ino(), born_ns)
}

/// Makes a directory and the missing ones above it; on return their names are durable, whoever made them.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn make(dir: &Path, sync: impl Fn(&Path) -> Result<()>) -> Result<()> {
    if dir.as_os_str().is_empty() {
        return Ok(());
    }
    let is_new = !dir.is_dir();
    if is_new {
        make_dirs(dir)?;
    }
    sync_names(dir, is_new, sync)
}

/// Makes a directory and the missing ones above it; syncs nothing.
pub(super) fn make_dirs(dir: &Path) -> Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    make_dirs(dir.parent().unwrap_or(Path::new("/")))?;
    match fs::create_dir(dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(Error::io("create directory", dir, &error)),
    }
}

/// Syncs by `sync` the directories that hold the names of `dir` and of those above it, as far as that is not known to be done.
/// Where this process may not open one, or its file system has no sync of directories, the names above stay as they
/// are, but for that of a directory that `is_new`: it was made just now.
///
/// # Errors
/// [`Error::Io`].
fn sync_names(dir: &Path, is_new: bool, sync: impl Fn(&Path) -> Result<()>) -> Result<()> {
    let look =
        |dir: &Path| fs::metadata(dir).map_err(|error| Error::io("look at directory", dir, &error));
    let mut synced = Vec::new();
    let mut child = dir;
    let mut meta = look(dir)?;
    while let Some(parent) = child.parent() {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let above = look(parent)?;
        let known = identity(&meta);
        // The name of a mounted file system is nobody's to sync.
        if above.dev() != meta.dev() || KNOWN.lock().contains(&known) {
            break;
        }
        match sync(parent) {
            Ok(()) => synced.push(known),
            Err(error) if is_nobodys(&error) && !(is_new && synced.is_empty()) => break,
            Err(error) => return Err(error),
        }
        if parent == Path::new(".") {
            break;
        }
        (child, meta) = (parent, above);
    }
    let mut all = KNOWN.lock();
    if all.len() + synced.len() <= KNOWN_MAX {
        all.extend(synced);
    }
    Ok(())
}

/// Whether a directory cannot be synced by this process at all.
fn is_nobodys(error: &Error) -> bool {
    let Error::Io { errno, .. } = error else {
        return false;
    };
    let kind = io::Error::from_raw_os_error(*errno).kind();
    matches!(
        kind,
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
    )
}
