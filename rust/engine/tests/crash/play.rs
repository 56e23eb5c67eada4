//! Plays a script on the twin, step by step and without threads, and records what the store
//! reports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mqcore_engine::clock::{Clock, ManualClock};
use mqcore_engine::commit_log::{Appended, Scan, scan};
use mqcore_engine::config::{FlushDiskType, StoreConfig};
use mqcore_engine::disk::twin::TwinDisk;
use mqcore_engine::error::Result;
use mqcore_engine::small_state;
use mqcore_engine::status::PutStatus;
use mqcore_engine::store::{OpenHow, Store};
use mqcore_record::{CrcCheck, Host, Message};

use super::flaw::{Flaw, FlawedDisk, Phase};
use super::reported::{Config, Reported, Sent, Stop};
use super::script::{Mode, QueueKey, Script, Step};

pub(crate) const ROOT: &str = "/store";
pub(crate) const CONFIG_PATH: &str = "/store/config/topics.json";
/// The shortest log file that one message of [`BODY_LEN_MAX`] fits: 17 pages.
pub(crate) const SEGMENT_BYTES: u64 = 69_632;
const BODY_LEN_MAX: usize = 4_000;
/// Properties of a message that fills a file.
const FILLER_MAX: u64 = 30_000;
/// Units of a queue file: the third goes into the next file.
const UNITS_PER_FILE: u64 = 3;
/// Bytes of a file of an extension: three units go into it.
const EXTENSION_FILE_BYTES: u64 = 64;
/// Slots and entries of an index file: three entries go into it.
pub(crate) const INDEX_SLOTS: u64 = 3;
pub(crate) const INDEX_ENTRIES: u64 = 4;
const START_MS: i64 = 1_795_249_596_000;

pub(crate) type TestStore = Store<FlawedDisk, ManualClock>;

/// A script being played.
pub(crate) struct Play {
    pub(crate) twin: TwinDisk,
    pub(crate) disk: FlawedDisk,
    pub(crate) clock: ManualClock,
    pub(crate) reported: Reported,
    pub(crate) config: StoreConfig,
    pub(crate) mode: Mode,
    store: Option<TestStore>,
    number: u64,
    seed: u64,
}

pub(crate) fn config_of(script: &Script) -> StoreConfig {
    StoreConfig {
        root: Some(PathBuf::from(ROOT)),
        segment_len_bytes: SEGMENT_BYTES,
        max_message_bytes: BODY_LEN_MAX as u64,
        queue_file_len_bytes: UNITS_PER_FILE * 20,
        index_slots: INDEX_SLOTS,
        index_entries: INDEX_ENTRIES,
        flush_disk_type: if script.mode.is_sync() {
            FlushDiskType::Sync
        } else {
            FlushDiskType::Async
        },
        transient_pool_enabled: script.mode.has_pool(),
        transient_pool_buffers: 2,
        check_crc_on_recover: script.checks_crc,
        read_uncommitted: script.reads_unflushed,
        extends_queues: script.extends_queues,
        extension_file_len_bytes: EXTENSION_FILE_BYTES,
        hot_window_bytes: SEGMENT_BYTES,
        ..StoreConfig::default()
    }
}

pub(crate) fn message<'a>(
    queue_key: QueueKey,
    body: &'a [u8],
    properties: &'a [u8],
) -> Message<'a> {
    let host = Host::V4 {
        address: [127, 0, 0, 1],
        port: 10911,
    };
    Message {
        born_timestamp_ms: 1,
        properties,
        ..Message::of(queue_key.0, queue_key.1, body, host)
    }
}

/// A body that no other message has.
pub(crate) fn body_of(seed: u64, number: u64, len: usize) -> Vec<u8> {
    let mut body = format!("{seed:x}-{number:x}.").into_bytes();
    let letter = b'a' + (number % 26) as u8;
    let len = len.max(body.len());
    body.resize(len, letter);
    body
}

pub(crate) fn properties_of(keys: &str) -> Vec<u8> {
    match keys {
        "" => b"TAGS\x01t\x02".to_vec(),
        keys => format!("KEYS\x01{keys}\x02TAGS\x01{keys}\x02").into_bytes(),
    }
}

impl Play {
    /// Plays what lay there before, closes the books, and opens the store.
    pub(crate) fn begin(script: &Script, flaw: Option<Flaw>) -> Result<Self> {
        let clock = ManualClock::at(START_MS);
        let twin = TwinDisk::with_clock(clock.clone());
        let mut play = Self::on(script, flaw, twin, clock, Reported::default());
        if !script.before.is_empty() {
            // What lay there was made by a sound store.
            play.disk = FlawedDisk::new(play.twin.clone(), None);
            play.open()?;
            for step in &script.before {
                play.step(*step)?;
            }
            play.store = None;
            play.disk = FlawedDisk::new(play.twin.clone(), flaw);
        }
        play.reported.settle();
        play.twin.forget();
        Ok(play)
    }

    /// Goes on with a disk that a crash left.
    pub(crate) fn on(
        script: &Script,
        flaw: Option<Flaw>,
        twin: TwinDisk,
        clock: ManualClock,
        reported: Reported,
    ) -> Self {
        Self {
            disk: FlawedDisk::new(twin.clone(), flaw),
            twin,
            clock,
            reported,
            config: config_of(script),
            mode: script.mode,
            store: None,
            number: 0,
            seed: script.seed,
        }
    }

    /// Opens the store and plays the steps.
    pub(crate) fn run(&mut self, steps: &[Step]) -> Result<()> {
        self.open()?;
        for step in steps {
            self.step(*step)?;
            self.note();
        }
        self.reported.now_ms = self.clock.now_ms();
        self.store = None;
        Ok(())
    }

    fn now(&self) -> Stop {
        self.twin.events() as Stop
    }

    fn store(&self) -> &TestStore {
        self.store.as_ref().expect("a script opens first")
    }

    /// Opens on what is there: after a kill everything is.
    fn open(&mut self) -> Result<()> {
        let how = OpenHow::RefuseDamage;
        let (disk, clock) = (self.disk.clone(), self.clock.clone());
        self.disk.enter(Phase::Opening);
        let store = Store::open(disk, clock, self.config.clone(), how)?;
        self.disk.enter(Phase::Working);
        let found = records(&store)?;
        let now = self.twin.events() as Stop;
        let required = self.reported.required(now, true);
        for sent in self
            .reported
            .sent
            .iter_mut()
            .filter(|sent| sent.gone.is_none())
        {
            let physical_offset = sent.at.physical_offset;
            let is_there = found
                .iter()
                .any(|(at, body)| *at == physical_offset && *body == sent.body);
            if !is_there && physical_offset >= store.files().chain.start() {
                assert!(sent.at.end() > required, "a kill lost {sent:?}");
                sent.gone = Some(now);
            }
        }
        self.store = Some(store);
        self.note();
        Ok(())
    }

    /// Notes what the watermarks promise.
    fn note(&mut self) {
        let now = self.now();
        let Some(store) = &self.store else { return };
        let positions = &store.files().positions;
        self.reported
            .power
            .push((now, positions.flushed.position()));
        if self.mode.is_sync() {
            // What consumers may have seen.
            self.reported
                .power
                .push((now, positions.dispatched.position()));
        }
    }

    fn append(
        &mut self,
        queue_key: QueueKey,
        bodies: &[usize],
        keys: &'static str,
        padding: usize,
    ) {
        let since = self.now();
        let mut properties = properties_of(keys);
        if padding > 0 {
            properties.extend(b"PAD\x01");
            properties.resize(properties.len() + padding, b'p');
        }
        let bodies: Vec<Vec<u8>> = bodies
            .iter()
            .map(|len| {
                self.number += 1;
                body_of(self.seed, self.number, *len)
            })
            .collect();
        let messages = bodies
            .iter()
            .map(|body| message(queue_key, body, &properties));
        let messages: Vec<Message<'_>> = messages.collect();
        let appended: Vec<Appended> = match &messages[..] {
            [one] => vec![self.store().writer().append(one).unwrap()],
            many => self.store().writer().append_batch(many).unwrap(),
        };
        for (body, at) in bodies.iter().zip(appended) {
            let body = body.clone();
            self.reported.sent.push(Sent {
                queue_key,
                body,
                keys,
                at,
                since,
                gone: None,
            });
        }
        if self.mode == Mode::Async {
            self.reported.kill.push((self.now(), self.end()));
        }
    }

    /// Where the last message ends.
    fn end(&self) -> u64 {
        self.store().files().positions.appended.position()
    }

    fn fill(&mut self, left: u64) {
        loop {
            let remaining = SEGMENT_BYTES - self.end() % SEGMENT_BYTES;
            // What a record without padding takes, with some to spare.
            let overhead = 4_300;
            if remaining < left + overhead {
                break;
            }
            let padding = (remaining - left - overhead).min(FILLER_MAX);
            self.append(
                super::script::QUEUE_KEYS[0],
                &[BODY_LEN_MAX],
                "",
                padding as usize,
            );
        }
        let remaining = SEGMENT_BYTES - self.end() % SEGMENT_BYTES;
        // The rest exactly: a record with an empty key takes 100 bytes and its body.
        let overhead = 91 + 1 + 2 + 7;
        if remaining > left + overhead + 40 {
            let body_len = (remaining - left - overhead) as usize;
            self.append(
                super::script::QUEUE_KEYS[0],
                &[body_len.min(BODY_LEN_MAX)],
                "",
                0,
            );
        }
    }

    fn settled(&mut self, end: u64) {
        let now = self.now();
        self.reported.kill.push((now, end));
        if self.mode.is_sync() {
            self.reported.power.push((now, end));
        }
    }

    fn tickets(&mut self) -> Result<()> {
        let end = self.end();
        self.store().durability().park(end, false)?;
        let mut answers = Vec::new();
        self.store().durability().drain(&mut answers);
        if answers.is_empty() {
            self.store().durability().flush()?;
            self.store().durability().drain(&mut answers);
        }
        assert!(
            matches!(answers[..], [(_, PutStatus::PutOk)]),
            "{answers:?}"
        );
        self.settled(end);
        Ok(())
    }

    fn config_step(&mut self) -> Result<()> {
        let begun = self.now();
        self.number += 1;
        let value = self.number;
        let text = format!("<{}{value}>", " ".repeat(600 * (value as usize % 3)));
        self.reported.configs.push(Config {
            begun,
            done: None,
            value,
        });
        small_state::write(&self.disk, Path::new(CONFIG_PATH), text.as_bytes())?;
        let now = self.now();
        if let Some(config) = self.reported.configs.last_mut() {
            config.done = Some(now);
        }
        Ok(())
    }

    fn remove(&mut self, files: usize) -> Result<()> {
        let begun = self.now();
        self.disk.enter(Phase::Removing);
        self.store().retention().remove_oldest(None, files, None)?;
        self.disk.enter(Phase::Working);
        let start = self.store().files().chain.start();
        self.reported.starts.push((begun, start));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let end = self.end();
        self.disk.enter(Phase::Closing);
        let is_clean = self.store().close();
        self.disk.enter(Phase::Working);
        assert!(is_clean?, "{:?}", self.store().notices());
        let now = self.now();
        self.reported.power.push((now, end));
        self.store = None;
        self.open()
    }

    fn step(&mut self, step: Step) -> Result<()> {
        match step {
            Step::Append {
                queue_key,
                body_len,
                keys,
            } => self.append(queue_key, &[body_len], keys, 0),
            Step::Batch { queue_key, count } => self.append(queue_key, &vec![100; count], "b", 0),
            Step::Fill { left } => self.fill(left),
            Step::Settle => {
                let end = self.end();
                let status = self.store().durability().settle(end)?;
                assert_eq!(status, PutStatus::PutOk);
                self.settled(end);
            }
            Step::Tickets => self.tickets()?,
            Step::Flush => drop(self.store().durability().flush()?),
            Step::Prepare => while self.store().preparation().step()? {},
            Step::Dispatch => while self.store().dispatching().step()? {},
            Step::SyncQueues => {
                self.store().checkpoints().note_durable()?;
                self.store().checkpoints().sync_queues(0)?;
            }
            Step::Checkpoint => self.store().checkpoints().write()?,
            Step::Config => self.config_step()?,
            Step::Remove { files } => self.remove(files)?,
            Step::Close => self.close()?,
            Step::Kill => {
                self.store = None;
                self.open()?;
            }
            Step::Pass { ms } => self.clock.advance(Duration::from_millis(ms)),
            Step::WallMoved { ms } => self.clock.set_wall_ms(self.clock.now_ms() + ms),
        }
        Ok(())
    }
}

/// Place and body of every record of the log.
pub(crate) fn records(store: &TestStore) -> Result<Vec<(u64, Vec<u8>)>> {
    let chain = &store.files().chain;
    let walk = Scan {
        from: chain.start(),
        limit: store.files().readable(),
        crc: CrcCheck::Verify,
        is_recovery: true,
        torn_from: 0,
        has_property_crc: false,
        forgets: false,
    };
    let mut found = Vec::new();
    scan(chain, walk, |record, at| {
        found.push((at, record.body.to_vec()));
        Ok(true)
    })?;
    Ok(found)
}
