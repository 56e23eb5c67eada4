//! Small files that are replaced as a whole (topics, groups, offsets): the newest generation and
//! the one before it, which is read when the newest is damaged. Knows nothing of their content
//! but whether the caller could read it. One writer per file; readers from any thread.
//!
//! Names as `ConfigManager` has them: `X`, and `X.bak` for the generation before. While a write is
//! under way also `X.tmp` and `X.bak.tmp`, which are never read.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Open, read_whole};
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::units::MIB;

/// Longest file. `consumerOffset.json` of a broker with 100,000 queues and dozens of groups has
/// some 100 MiB; what is beyond twice that is no small state.
pub const STATE_LEN_MAX_BYTES: u64 = 256 * MIB;

/// Which generation was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The file itself.
    Newest,
    /// Its `.bak`.
    Previous,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded<T> {
    /// What the caller made of the bytes.
    pub value: T,
    /// Where they came from.
    pub generation: Generation,
}

/// Replaces the file; what it held becomes the previous generation.
///
/// # Durability
/// On return both generations survive power loss. At every point within, `path` is whole: the old
/// content or the new one. (Where it was damaged before, `.bak` stays until the new content is
/// durable.)
///
/// # Blocking
/// Two files and the directory, twice, are synced.
///
/// # Errors
/// [`Error::Io`], [`Error::Limit`] for content that is too long; the old content then stays unless
/// the failing call was one of the last (the previous generation).
pub fn write<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> Result<()> {
    write_as(disk, path, bytes, Open::CreateNew)
}

/// The same, and nobody but the owner of the files may read them: they hold secrets.
///
/// # Durability
/// As [`write`].
///
/// # Blocking
/// As [`write`].
///
/// # Errors
/// As [`write`].
pub fn write_private<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> Result<()> {
    write_as(disk, path, bytes, Open::CreatePrivate)
}

fn write_as<D: Disk>(disk: &D, path: &Path, bytes: &[u8], how: Open) -> Result<()> {
    if bytes.len() as u64 > STATE_LEN_MAX_BYTES {
        return Err(Error::Limit {
            what: format!("{} bytes for {}", bytes.len(), path.display()),
            limit: STATE_LEN_MAX_BYTES,
        });
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    disk.create_dir_all(dir)?;
    let previous = read_whole(disk, path, STATE_LEN_MAX_BYTES)?.filter(|old| !old.is_empty());
    let (next, previous_next) = (with_suffix(path, ".tmp"), with_suffix(path, ".bak.tmp"));
    // The previous generation is written beside, not renamed: a rename of `path` would leave a
    // moment without it, and `.bak` might be all that is whole until the new content is durable.
    if let Some(previous) = &previous {
        write_new(disk, &previous_next, previous, how)?;
    }
    write_new(disk, &next, bytes, how)?;
    disk.rename(&next, path)?;
    disk.sync_dir(dir)?;
    if previous.is_some() {
        disk.rename(&previous_next, &with_suffix(path, ".bak"))?;
        disk.sync_dir(dir)?;
    }
    Ok(())
}

/// Reads the newest generation that `parse` accepts: the file, else its `.bak` (a
/// notice reports it). `None` when nothing was ever written: both are absent or empty, as
/// `ConfigManager.load` has it.
///
/// # Errors
/// [`Error::BadText`] when what there is cannot be parsed, [`Error::Io`], [`Error::ForeignFile`]
/// for a file longer than [`STATE_LEN_MAX_BYTES`].
pub fn read<D: Disk, T>(
    disk: &D,
    path: &Path,
    notices: &Notices,
    parse: impl Fn(&[u8]) -> std::result::Result<T, String>,
) -> Result<Option<Loaded<T>>> {
    let (why, is_damaged) = match read_one(disk, path, &parse)? {
        Content::Good(value) => {
            return Ok(Some(Loaded {
                value,
                generation: Generation::Newest,
            }));
        }
        Content::Bad(why) => (why, true),
        Content::Empty => ("it is empty".to_owned(), false),
        Content::Absent => ("it is missing".to_owned(), false),
    };
    let previous_path = with_suffix(path, ".bak");
    let bad_text = |rest: String| Error::BadText {
        path: path.to_owned(),
        why: format!("{why}; {rest}. Restore it, or remove both to start with nothing"),
    };
    match read_one(disk, &previous_path, &parse)? {
        Content::Good(value) => {
            notices.warn(format!(
                "{} cannot be read ({why}): its previous generation {} is used",
                path.display(),
                previous_path.display()
            ));
            Ok(Some(Loaded {
                value,
                generation: Generation::Previous,
            }))
        }
        Content::Bad(previous_why) => Err(bad_text(format!(
            "nor can its previous generation {} be read ({previous_why})",
            previous_path.display()
        ))),
        Content::Absent | Content::Empty if is_damaged => Err(bad_text(format!(
            "there is no previous generation {}",
            previous_path.display()
        ))),
        Content::Absent | Content::Empty => Ok(None),
    }
}

enum Content<T> {
    Absent,
    Empty,
    Bad(String),
    Good(T),
}

fn read_one<D: Disk, T>(
    disk: &D,
    path: &Path,
    parse: impl Fn(&[u8]) -> std::result::Result<T, String>,
) -> Result<Content<T>> {
    Ok(match read_whole(disk, path, STATE_LEN_MAX_BYTES)? {
        None => Content::Absent,
        Some(bytes) if bytes.is_empty() => Content::Empty,
        Some(bytes) => match parse(&bytes) {
            Ok(value) => Content::Good(value),
            Err(why) => Content::Bad(why),
        },
    })
}

/// A new file with this content, synced; one that a crash left there is removed first.
fn write_new<D: Disk>(disk: &D, path: &Path, bytes: &[u8], how: Open) -> Result<()> {
    if disk.stat(path)?.is_some() {
        disk.unlink(path)?;
    }
    let file = disk.open(path, how)?;
    file.write_at(bytes, 0)?;
    file.sync_data()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    fn numbers(bytes: &[u8]) -> std::result::Result<u64, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        text.parse().map_err(|_| format!("no number: {text}"))
    }

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("mq-state-{}-{name}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_write_keeps_the_generation_before() {
        let dir = dir("generations");
        let path = dir.join("config/topics.json");
        let notices = Notices::default();
        assert_eq!(read(&RealDisk, &path, &notices, numbers).unwrap(), None);
        write(&RealDisk, &path, b"1").unwrap();
        assert!(!with_suffix(&path, ".bak").exists());
        write(&RealDisk, &path, b"2").unwrap();
        // Left by a crash: in the way of nothing, and never read.
        std::fs::write(with_suffix(&path, ".tmp"), b"9999").unwrap();
        std::fs::write(with_suffix(&path, ".bak.tmp"), b"9999").unwrap();
        write(&RealDisk, &path, b"3").unwrap();
        assert_eq!(std::fs::read(with_suffix(&path, ".bak")).unwrap(), b"2");
        let names = RealDisk.list(&dir.join("config")).unwrap();
        assert_eq!(names.len(), 2, "{names:?}");
        let loaded = read(&RealDisk, &path, &notices, numbers).unwrap().unwrap();
        assert_eq!((loaded.value, loaded.generation), (3, Generation::Newest));
        assert!(notices.drain().is_empty());
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_generation_before_serves_when_the_newest_is_damaged() {
        let dir = dir("damaged");
        let path = dir.join("topics.json");
        let bak = with_suffix(&path, ".bak");
        let notices = Notices::default();
        for damage in [Some("x"), Some(""), None] {
            write(&RealDisk, &path, b"1").unwrap();
            write(&RealDisk, &path, b"2").unwrap();
            match damage {
                Some(text) => std::fs::write(&path, text).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let loaded = read(&RealDisk, &path, &notices, numbers).unwrap().unwrap();
            assert_eq!((loaded.value, loaded.generation), (1, Generation::Previous));
            assert_eq!(notices.drain().len(), 1);
        }
        std::fs::write(&path, "x").unwrap();
        for bad_bak in [Some("y"), Some(""), None] {
            match bad_bak {
                Some(text) => std::fs::write(&bak, text).unwrap(),
                None => std::fs::remove_file(&bak).unwrap(),
            }
            let error = read(&RealDisk, &path, &notices, numbers).unwrap_err();
            assert!(matches!(error, Error::BadText { .. }), "{error}");
        }
        std::fs::write(&path, "").unwrap();
        assert_eq!(read(&RealDisk, &path, &notices, numbers).unwrap(), None);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_content() {
        let dir = dir("failed");
        let path = dir.join("topics.json");
        write(&RealDisk, &path, b"1").unwrap();
        // A directory where the new content would be written: removing a name fails.
        std::fs::create_dir(with_suffix(&path, ".tmp")).unwrap();
        assert!(write(&RealDisk, &path, b"2").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"1");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
