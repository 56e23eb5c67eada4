//! Records that are bad, and putting the bytes of another replica in place of one. What is written is looked at
//! first: it is a whole record of this place, it fills the gap, and the records around it are the same on both
//! replicas. Of a closed store the lock is held meanwhile; of an open one only files are written that nobody maps.

use std::path::{Path, PathBuf};

use mqcore_record::{CrcCheck, Found, RecordError, check};

use super::Store;
use super::names::TRUNCATED_DIR;
use crate::checkpoint::{Checkpoint, Field};
use crate::clock::Clock;
use crate::commit_log::{LogEnd, Scan, Stop, scan, whole_record_after};
use crate::config::StoreConfig;
use crate::disk::{Disk, DiskFile, Open};
use crate::error::{Error, Result};
use crate::notice::Notices;
use crate::segment::Chain;
use crate::units::round_down;

/// Bytes of a map are never written but by who appends: slices of it are given out.
const STILL_MAPPED: &str = "its file is mapped while the broker runs: it is too new";

/// A record that is bad, with whole ones behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecord {
    /// Where it begins.
    pub physical_offset: u64,
    /// Where the whole record before it begins, where that is in the same file.
    pub before: Option<u64>,
    /// Where the first whole record behind it begins.
    pub next_whole: u64,
    /// What is wrong.
    pub why: String,
}

/// What another replica has at a place.
#[derive(Debug, Clone, Copy)]
pub struct TheirRecord<'a> {
    /// The place.
    pub physical_offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The first bad record at `from`, where a record begins, or behind it; `None` where all are whole up to the
/// end of the log.
///
/// # Errors
/// [`Error::Io`], [`Error::WrongFileSize`], [`Error::ForeignFile`].
///
/// # Blocking
/// Reads the log from there.
pub fn next_bad_record<D: Disk>(
    disk: &D,
    config: StoreConfig,
    from: u64,
) -> Result<Option<BadRecord>> {
    let config = config.check()?;
    let chain = open_chain(disk, &config, Open::Read)?;
    find(&chain, from.max(chain.start()), chain.end())
}

/// Puts a record of another replica in place of the bad one at its offset; `around` is what that replica has
/// before and behind it. What was there is kept below `truncated`; where, is the answer. With `is_dry` all is
/// looked at and nothing is written.
///
/// # Durability
/// On return the record survives power loss. A crash before leaves the bad one, or a part of both, which is as
/// bad: it is repaired again.
///
/// # Errors
/// [`Error::NotWritable`] where the two replicas differ in more than that, or the place is not confirmed;
/// [`Error::Locked`] while a broker runs; [`Error::Io`].
///
/// # Blocking
/// Reads the file up to there.
pub fn replace_bad_record<D: Disk>(
    disk: &D,
    config: StoreConfig,
    theirs: TheirRecord<'_>,
    around: &[TheirRecord<'_>],
    is_dry: bool,
) -> Result<PathBuf> {
    let config = config.check()?;
    let root = config.root()?;
    let _lock = disk.lock(&root.join("lock"))?;
    let chain = open_chain(disk, &config, Open::Write)?;
    let at = theirs.physical_offset;
    let bad = find_at(&chain, at, chain.end())?.ok_or_else(|| none_at(at))?;
    let notices = Notices::default();
    let checkpoint = Checkpoint::open(disk, &root.join("checkpoint"), &notices)?;
    look_at(&chain, &bad, theirs, checkpoint.value(Field::ConfirmOffset))?;
    compare(&chain, &bad, around)?;
    let kept = kept_at(&root, at);
    if !is_dry {
        put_in_place(disk, &chain, theirs, &kept)?;
    }
    Ok(kept)
}

/// The bad record that begins at an offset of an open store, with whole ones behind it; `None` where none does.
///
/// # Errors
/// [`Error::Io`].
///
/// # Blocking
/// Reads the file up to there.
pub fn bad_record_at<D: Disk, C: Clock>(
    store: &Store<D, C>,
    physical_offset: u64,
) -> Result<Option<BadRecord>> {
    find_at(&store.files.chain, physical_offset, settled(store))
}

/// As [`replace_bad_record`], while the store is open: in a file that nobody maps any more, below what is
/// confirmed. Readers of the record at this moment see a bad one, as before.
///
/// # Durability
/// As [`replace_bad_record`].
///
/// # Errors
/// [`Error::NotWritable`] as there, and while the file is mapped: it is newer than the window of what was
/// written last; [`Error::Io`].
///
/// # Blocking
/// Reads the file up to there, and waits for its sync.
pub fn replace_record<D: Disk, C: Clock>(
    store: &Store<D, C>,
    theirs: TheirRecord<'_>,
    around: &[TheirRecord<'_>],
) -> Result<PathBuf> {
    let (at, chain) = (theirs.physical_offset, &store.files.chain);
    let bad = bad_record_at(store, at)?.ok_or_else(|| none_at(at))?;
    look_at(chain, &bad, theirs, settled(store).cast_signed())?;
    compare(chain, &bad, around)?;
    let kept = kept_at(&store.config.root()?, at);
    put_in_place(&store.files.disk, chain, theirs, &kept)?;
    store.damaged.forget(at);
    Ok(kept)
}

/// End of what nobody cuts any more, on the disk.
fn settled<D: Disk, C: Clock>(store: &Store<D, C>) -> u64 {
    let flushed = store.files.positions.flushed.position();
    store.files.confirmed_end().min(flushed)
}

fn kept_at(root: &Path, at: u64) -> PathBuf {
    let name = format!("{at:020}.replaced");
    root.join(TRUNCATED_DIR).join(name)
}

fn none_at(at: u64) -> Error {
    refused(at, "no bad record with whole ones behind it begins there")
}

/// Keeps what is there, writes, and looks at it.
fn put_in_place<D: Disk>(
    disk: &D,
    chain: &Chain<D>,
    theirs: TheirRecord<'_>,
    kept: &Path,
) -> Result<()> {
    let at = theirs.physical_offset;
    let segment = chain
        .find(at)
        .ok_or_else(|| refused(at, "no file of the log has it"))?;
    let position = at - segment.base();
    if segment.is_mapped() {
        return Err(refused(at, STILL_MAPPED));
    }
    let before = segment.read(position, theirs.bytes.len())?;
    write_copy(disk, kept, before.as_bytes())?;
    drop(before);
    if !segment.replace(theirs.bytes, position)? {
        return Err(refused(at, STILL_MAPPED));
    }
    let after = segment.read(position, theirs.bytes.len())?;
    if after.as_bytes() != theirs.bytes {
        return Err(refused(
            at,
            "what was written is not what is read: the disk is bad",
        ));
    }
    Ok(())
}

fn open_chain<D: Disk>(disk: &D, config: &StoreConfig, how: Open) -> Result<Chain<D>> {
    let dir = config.commit_log_path()?;
    Chain::open(disk, &dir, config.segment_len_bytes, how).map(|(chain, _unfinished)| chain)
}

/// The bad record that begins at an offset.
fn find_at<D: Disk>(chain: &Chain<D>, at: u64, limit: u64) -> Result<Option<BadRecord>> {
    let file_start = round_down(at, chain.segment_len_bytes());
    let mut bad = find(chain, file_start.max(chain.start()), limit)?;
    while let Some(earlier) = bad.as_ref().filter(|bad| bad.physical_offset < at) {
        bad = find(chain, earlier.next_whole, limit)?;
    }
    Ok(bad.filter(|bad| bad.physical_offset == at))
}

fn find<D: Disk>(chain: &Chain<D>, from: u64, limit: u64) -> Result<Option<BadRecord>> {
    let walk = Scan {
        from,
        limit,
        crc: CrcCheck::Verify,
        is_recovery: true,
        torn_from: u64::MAX,
        has_property_crc: false,
        forgets: true,
    };
    let end: LogEnd = scan(chain, walk, |_, _| Ok(true))?;
    if end.stop == Stop::End {
        return Ok(None);
    }
    let not_before_ms = end.last_store_ms.unwrap_or(1);
    let Some(next_whole) = whole_record_after(chain, end.end, not_before_ms, i64::MAX)? else {
        return Ok(None);
    };
    let file_start = round_down(end.end, chain.segment_len_bytes());
    Ok(Some(BadRecord {
        physical_offset: end.end,
        before: end.last_record.filter(|before| *before >= file_start),
        next_whole,
        why: end.stop.why().unwrap_or_else(|| "zeros".to_owned()),
    }))
}

/// Whether their record fits: whole, of this place, and no longer than the gap.
fn look_at<D: Disk>(
    chain: &Chain<D>,
    bad: &BadRecord,
    theirs: TheirRecord<'_>,
    confirmed: i64,
) -> Result<()> {
    let at = bad.physical_offset;
    let of_record = |error: RecordError| refused(at, &format!("theirs is no record: {error}"));
    let len = match check(theirs.bytes, CrcCheck::Verify).map_err(of_record)? {
        Found::Record(record) if record.physical_offset.cast_unsigned() == at => {
            record.total_len_bytes as u64
        }
        _ => {
            return Err(refused(
                at,
                "what the other replica has is no record of this place",
            ));
        }
    };
    let file_end = round_down(at, chain.segment_len_bytes()) + chain.segment_len_bytes();
    let end = at + len;
    if len != theirs.bytes.len() as u64 || end > bad.next_whole.min(file_end) {
        let why = format!(
            "theirs ends at {end}, and a whole record of ours begins at {}",
            bad.next_whole
        );
        return Err(refused(at, &why));
    }
    if confirmed > 0 && end > confirmed.cast_unsigned() {
        let why = format!("the log is confirmed up to {confirmed} alone: its master decides there");
        return Err(refused(at, &why));
    }
    Ok(())
}

/// Whether the records around are the same on both replicas.
fn compare<D: Disk>(chain: &Chain<D>, bad: &BadRecord, around: &[TheirRecord<'_>]) -> Result<()> {
    let at = bad.physical_offset;
    let wanted = bad.before.into_iter().chain([bad.next_whole]);
    for offset in wanted {
        let their = around.iter().find(|their| their.physical_offset == offset);
        let their = their.ok_or_else(|| {
            refused(
                at,
                &format!("what the other replica has at {offset} is missing"),
            )
        })?;
        let ours = chain.bytes(offset, their.bytes.len())?;
        if ours.as_bytes() != their.bytes {
            let why =
                format!("the replicas differ at {offset}, too: they are no copies of each other");
            return Err(refused(at, &why));
        }
    }
    Ok(())
}

/// Keeps what is replaced. A copy that is there already is older, and stays: it is what was bad first.
fn write_copy<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> Result<()> {
    if disk
        .stat(path)?
        .is_some_and(|stat| stat.len_bytes == bytes.len() as u64)
    {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(path);
    disk.create_dir_all(dir)?;
    let file = disk.open(path, Open::Create)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    disk.sync_dir(dir)
}

fn refused(at: u64, why: &str) -> Error {
    Error::NotWritable {
        reason: format!("the record at {at} is not replaced: {why}"),
    }
}
