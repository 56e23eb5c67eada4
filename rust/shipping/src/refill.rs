//! A slave that copies whole files of its master's log, over one connection or several: each is written
//! beside the log, looked at, hashed, synced, and then taken as the next one of the log. What is whole beside
//! the log when a slave starts again is compared by its hash, and not copied once more. Over any connection;
//! knows no thread.
//!
//! Locks: the plan, over a call of the store that takes a file.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mqcore_engine::clock::Clock;
use mqcore_engine::disk::{Disk, DiskFile, Open};
use mqcore_engine::error::Error;
use mqcore_engine::lock::Mutex;
use mqcore_engine::store::Store;
use mqcore_engine::units::{offset_file_name, parse_offset_file_name};
use mqcore_replica::auto_switch::{ENTRY_LEN_BYTES, epochs_of};
use mqcore_replica::refill::{
    ANSWER_LEN_BYTES, Answer, GREETING, HASH_LEN_BYTES, RefillPlan, Request, Wanted,
};
use mqcore_replica::{EpochTable, LinkFault, RecordWalk};

use crate::epochs::Epochs;
use crate::file_hash::FileHash;

/// Bytes that are read from a connection, hashed and written at once: with more they leave the caches of a
/// processor in between.
const STEP_LEN_BYTES: usize = 256 * 1024;
/// After so many bytes their write-back begins, so that the sync at the end of a file is short.
const WRITE_BACK_BYTES: u64 = 8 * 1024 * 1024;
/// Files that wait for one before them, or are under way, at the most: each takes its space.
const AHEAD_MAX: u64 = 4;
/// How often one that waits for the others looks again: short against the copy of a file.
const LOOK_MS: u64 = 5;
/// The name of a file that is not whole.
const PART_ENDING: &str = ".part";

/// What shows that a file is the master's, and the store time of its last record, Unix ms.
type Looked = ([u8; HASH_LEN_BYTES], Option<i64>);

/// How far a refill is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefillProgress {
    /// Where the log began when it began, and ends when it is over, as far as is known.
    pub from: u64,
    /// End of the last whole file of the master.
    pub to: u64,
    /// Where the log ends.
    pub log_end: u64,
    /// Bytes that have come.
    pub received_bytes: u64,
    /// Bytes of files that were there, and not copied again.
    pub kept_bytes: u64,
    /// Whether the log has everything that the master has in whole files.
    pub is_over: bool,
}

struct State {
    plan: Option<RefillPlan>,
    /// Store times of the last records of files that were copied, Unix ms.
    times: BTreeMap<u64, Option<i64>>,
    epochs: Arc<EpochTable>,
    progress: RefillProgress,
    /// Up to where pages of the log were let go.
    forgotten: u64,
}

/// A refill of one store.
pub struct Refill<D: Disk, C: Clock> {
    store: Arc<Store<D, C>>,
    epochs: Option<Arc<Epochs<D>>>,
    dir: PathBuf,
    state: Mutex<State>,
}

impl<D: Disk, C: Clock> Refill<D, C> {
    /// Of a slave's store, whose epochs are written down where it has some.
    #[must_use]
    pub fn new(store: Arc<Store<D, C>>, epochs: Option<Arc<Epochs<D>>>) -> Self {
        Self {
            dir: store.replica().refill_dir(),
            store,
            epochs,
            state: Mutex::new(State {
                plan: None,
                times: BTreeMap::new(),
                epochs: Arc::default(),
                progress: RefillProgress::default(),
                forgotten: 0,
            }),
        }
    }

    /// Whether whole files may be copied to the end of this log: it holds nothing, or ends with a file.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        let replica = self.store.replica();
        replica
            .appended()
            .is_multiple_of(replica.extent().file_len_bytes)
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> RefillProgress {
        self.state.lock().progress
    }

    /// Copies files over one connection until the log has all of them.
    ///
    /// # Errors
    /// Why it ends before.
    ///
    /// # Blocking
    /// Until then.
    pub fn run(
        &self,
        stream: &mut (impl Read + Write),
        is_stopping: impl Fn() -> bool,
    ) -> Result<(), String> {
        let mut link = Asking {
            refill: self,
            stream,
            buffer: vec![0; STEP_LEN_BYTES],
        };
        link.greet()?;
        link.list()?;
        loop {
            if is_stopping() {
                return Err("the copy was stopped".to_owned());
            }
            let taken = self.with_plan(RefillPlan::take);
            if let Some(base) = taken {
                self.settle(base, link.fetch(base, &is_stopping))?;
                continue;
            }
            if self.with_plan(|plan| plan.is_over()) {
                // Meanwhile there may be more.
                link.list()?;
                if self.with_plan(|plan| plan.is_over()) {
                    self.state.lock().progress.is_over = true;
                    return Ok(());
                }
                continue;
            }
            // Another connection has a file that is to come first.
            std::thread::sleep(Duration::from_millis(LOOK_MS));
        }
    }

    /// A file was fetched, or was not.
    fn settle(&self, base: u64, fetched: Result<Option<i64>, String>) -> Result<(), String> {
        match fetched {
            Ok(store_ms) => {
                self.state.lock().times.insert(base, store_ms);
                self.with_plan(|plan| plan.note_copied(base));
                self.adopt_ready()
            }
            Err(why) => {
                self.with_plan(|plan| plan.give_back(base));
                Err(why)
            }
        }
    }

    /// Looks at the plan, which is there once a list has come.
    fn with_plan<T: Default>(&self, look: impl FnOnce(&mut RefillPlan) -> T) -> T {
        self.state
            .lock()
            .plan
            .as_mut()
            .map(look)
            .unwrap_or_default()
    }

    /// Takes a list of the master.
    fn take_list(&self, list: Answer, epochs: EpochTable) -> Result<(), String> {
        let replica = self.store.replica();
        let (log_end, len) = (replica.appended(), replica.extent().file_len_bytes);
        let mut state = self.state.lock();
        match &mut state.plan {
            Some(plan) => plan.grow_to(list.end),
            none => *none = Some(RefillPlan::new(log_end, len, list, AHEAD_MAX)?),
        }
        let (from, to) = state
            .plan
            .as_ref()
            .map_or((0, 0), |plan| (plan.log_end(), plan.end()));
        if state.progress.to == 0 {
            state.progress.from = from;
            state.progress.log_end = from;
        }
        state.progress.to = to;
        state.epochs = Arc::new(epochs);
        Ok(())
    }

    /// Takes every file into the log whose turn it is.
    fn adopt_ready(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        while let Some(base) = state.plan.as_ref().and_then(RefillPlan::ready) {
            let store_ms = state.times.remove(&base).flatten();
            self.adopt(base, store_ms, &state.epochs)
                .map_err(|error| error.to_string())?;
            if let Some(plan) = &mut state.plan {
                plan.note_taken(base);
                state.progress.log_end = plan.log_end();
            }
        }
        Ok(())
    }

    /// Lets the pages go of what is in the log, on the disk, and has reached the queues. What comes next is
    /// written into memory that was in use just now, which costs half as much as memory that was not; and a
    /// log larger than memory does not push out everything else.
    fn forget_dispatched(&self) {
        let replica = self.store.replica();
        let range = {
            let mut state = self.state.lock();
            let from = state.forgotten.max(state.progress.from);
            let to = replica.dispatched().min(state.progress.log_end);
            let to = to - to % WRITE_BACK_BYTES;
            if to <= from {
                return;
            }
            state.forgotten = to;
            from..to
        };
        replica.forget(range.start, range.end);
    }

    fn adopt(&self, base: u64, store_ms: Option<i64>, theirs: &EpochTable) -> Result<(), Error> {
        let replica = self.store.replica();
        let path = self.dir.join(offset_file_name(base));
        let end = base + replica.extent().file_len_bytes;
        if let Some(epochs) = &self.epochs {
            // Before their bytes; after a crash those of bytes that are not there are forgotten.
            for entry in theirs.entries().iter().filter(|entry| entry.start < end) {
                epochs.append(*entry)?;
            }
        }
        replica.adopt(base, &path, store_ms)?;
        if self.epochs.is_some() {
            // Whole files are listed as far as the master has confirmed them.
            let confirmed = replica.confirmed();
            replica.confirm(Some(confirmed.max(end)));
        }
        Ok(())
    }

    /// Removes what is left beside the log. To be called when nobody copies any more, and everything is there.
    ///
    /// # Errors
    /// Of the disk.
    pub fn clear(&self) -> Result<(), String> {
        let disk = self.store.replica().disk();
        let removed = disk.list(&self.dir).and_then(|entries| {
            for entry in entries {
                let is_ours = parse_offset_file_name(entry.name.trim_end_matches(PART_ENDING));
                if !entry.is_dir && is_ours.is_some() {
                    disk.unlink(&self.dir.join(entry.name))?;
                }
            }
            if disk.stat(&self.dir)?.is_some() {
                disk.remove_dir(&self.dir)?;
            }
            Ok(())
        });
        removed.map_err(|error| error.to_string())
    }
}

/// One connection to the master.
struct Asking<'a, D: Disk, C: Clock, S> {
    refill: &'a Refill<D, C>,
    stream: &'a mut S,
    buffer: Vec<u8>,
}

impl<D: Disk, C: Clock, S: Read + Write> Asking<'_, D, C, S> {
    fn greet(&mut self) -> Result<(), String> {
        let mut greeting = [0; GREETING.len()];
        self.stream
            .write_all(&GREETING)
            .and_then(|()| self.stream.read_exact(&mut greeting))
            .map_err(|error| error.to_string())?;
        if greeting == GREETING {
            Ok(())
        } else {
            Err("the master gives no whole files".to_owned())
        }
    }

    /// Asks for something; the head of the answer.
    fn ask(&mut self, wanted: Wanted, base: u64) -> Result<Answer, String> {
        let appended = self.refill.store.replica().appended();
        let request = Request {
            wanted,
            base,
            needed_from: appended,
        };
        let mut head = [0; ANSWER_LEN_BYTES];
        self.stream
            .write_all(&request.to_bytes())
            .and_then(|()| self.stream.read_exact(&mut head))
            .map_err(|error| error.to_string())?;
        Answer::of(&head).map_err(|fault| fault.to_string())
    }

    /// Asks which files there are; whether what our log holds already is the master's.
    fn list(&mut self) -> Result<(), String> {
        let list = self.ask(Wanted::List, 0)?;
        let mut entries = vec![0; list.epochs * ENTRY_LEN_BYTES];
        self.read(&mut entries)?;
        let epochs = epochs_of(&entries).map_err(|fault| fault.to_string())?;
        let is_first = self.refill.state.lock().plan.is_none();
        if is_first {
            self.compare_last(list)?;
        }
        self.refill.take_list(list, epochs)
    }

    /// Compares the last file of our log with the master's.
    fn compare_last(&mut self, list: Answer) -> Result<(), String> {
        let replica = self.refill.store.replica();
        let (end, len) = (replica.appended(), replica.extent().file_len_bytes);
        let Some(base) = end.checked_sub(len).filter(|base| *base >= list.start) else {
            return Ok(());
        };
        if end > list.end {
            return Ok(());
        }
        let mut hash = FileHash::new();
        let mut at = base;
        while at < end {
            let read = replica.range(at, STEP_LEN_BYTES);
            let chunk = read.map_err(|error| error.to_string())?;
            let chunk = chunk.ok_or_else(|| format!("our log has nothing at {at} any more"))?;
            hash.take(chunk.bytes.as_bytes());
            at += chunk.bytes.as_bytes().len() as u64;
        }
        if self.hash_of(base)? == hash.bytes() {
            return Ok(());
        }
        Err(LinkFault::OtherBytes { offset: base }.to_string())
    }

    /// The hash of a file of the master.
    fn hash_of(&mut self, base: u64) -> Result<[u8; HASH_LEN_BYTES], String> {
        let answer = self.ask(Wanted::Hash, base)?;
        if !answer.is_there {
            return Err(gone(base));
        }
        let mut hash = [0; HASH_LEN_BYTES];
        self.read(&mut hash)?;
        Ok(hash)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<(), String> {
        self.stream.read_exact(into).map_err(|error| ended(&error))
    }

    /// Has a file whole and durable beside the log; the store time of its last record.
    fn fetch(&mut self, base: u64, is_stopping: &impl Fn() -> bool) -> Result<Option<i64>, String> {
        let dir = &self.refill.dir;
        let whole = dir.join(offset_file_name(base));
        let failed = |error: Error| error.to_string();
        let disk = self.refill.store.replica().disk().clone();
        disk.create_dir_all(dir).map_err(failed)?;
        if disk.stat(&whole).map_err(failed)?.is_some() {
            let file = disk.open(&whole, Open::Read).map_err(failed)?;
            if let Some((hash, store_ms)) = self.look_at(&file, base)?
                && self.hash_of(base)? == hash
            {
                let len = self.refill.store.replica().extent().file_len_bytes;
                self.refill.state.lock().progress.kept_bytes += len;
                return Ok(store_ms);
            }
            disk.unlink(&whole).map_err(failed)?;
        }
        let part = dir.join(format!("{}{PART_ENDING}", offset_file_name(base)));
        let file = disk.open(&part, Open::Create).map_err(failed)?;
        let store_ms = self.copy(&file, base, is_stopping)?;
        file.sync_data().map_err(failed)?;
        disk.rename(&part, &whole).map_err(failed)?;
        disk.sync_dir(dir).map_err(failed)?;
        Ok(store_ms)
    }

    /// The hash of a file that is there and the store time of its last record; `None` where it is no whole
    /// file of the log.
    fn look_at(&mut self, file: &D::File, base: u64) -> Result<Option<Looked>, String> {
        let len = self.refill.store.replica().extent().file_len_bytes;
        let mut walk = RecordWalk::new(base, len);
        let mut hash = FileHash::new();
        while walk.at() < base + len {
            let step = (base + len - walk.at()).min(STEP_LEN_BYTES as u64) as usize;
            let into = self.buffer.get_mut(..step).unwrap_or_default();
            let read = file.read_at(into, walk.at() - base);
            let got = read.map_err(|error| error.to_string())?;
            let bytes = into.get(..got).unwrap_or_default();
            hash.take(bytes);
            if got == 0 || walk.take(bytes).is_err() {
                return Ok(None);
            }
        }
        Ok((walk.whole_end() == base + len).then(|| (hash.bytes(), walk.whole_ms())))
    }

    /// Copies a file from the master.
    fn copy(
        &mut self,
        file: &D::File,
        base: u64,
        is_stopping: &impl Fn() -> bool,
    ) -> Result<Option<i64>, String> {
        let answer = self.ask(Wanted::Copy, base)?;
        if !answer.is_there {
            return Err(gone(base));
        }
        let len = answer.end - answer.start;
        let failed = |error: Error| error.to_string();
        // All of it now: a full disk is an error here and never in the log.
        file.allocate(len).map_err(failed)?;
        let mut walk = RecordWalk::new(base, len);
        let mut hash = FileHash::new();
        let mut written_back = 0;
        while walk.at() < base + len {
            if is_stopping() {
                return Err("the copy was stopped".to_owned());
            }
            let position = walk.at() - base;
            let step = (len - position).min(STEP_LEN_BYTES as u64) as usize;
            let into = self.buffer.get_mut(..step).unwrap_or_default();
            let read = self.stream.read_exact(into);
            read.map_err(|error| ended(&error))?;
            hash.take(into);
            walk.take(into).map_err(|fault| fault.to_string())?;
            file.write_at(into, position).map_err(failed)?;
            let end = position + step as u64;
            if end - written_back >= WRITE_BACK_BYTES {
                file.start_write_back(written_back, end - written_back);
                written_back = end;
                self.refill.forget_dispatched();
            }
            self.refill.state.lock().progress.received_bytes += step as u64;
        }
        let mut theirs = [0; HASH_LEN_BYTES];
        self.read(&mut theirs)?;
        if theirs != hash.bytes() {
            return Err(format!(
                "the file at {base} has another hash than the master's: it is copied again"
            ));
        }
        if walk.whole_end() != base + len {
            return Err(format!("the file at {base} does not end behind a record"));
        }
        Ok(walk.whole_ms())
    }
}

/// Why a connection gave less than it was to give.
fn ended(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::UnexpectedEof {
        return "the master has closed the connection in the middle of a file: it stops, or had to remove the \
                file since its disk is too full"
            .to_owned();
    }
    error.to_string()
}

fn gone(base: u64) -> String {
    format!("the master has no file at {base} any more: it was removed before it was copied")
}
