//! The settings of a store, under the names of RocketMQ's `MessageStoreConfig`, with its defaults.
//! Checked once, before anything is opened. Knows no file: it parses texts that somebody read.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::units::{GIB, KIB, MIB, PAGE_BYTES};

/// Bytes of one unit of a consume queue; its file size is a multiple of this.
pub const QUEUE_UNIT_BYTES: u64 = 20;
/// Bytes of one unit of a batch queue (5.x); its file size is a multiple of this.
pub const BATCH_UNIT_BYTES: u64 = 46;
/// A record may be this much longer than the largest body (`CommitLog`: `maxMessageSize + 64 KiB`).
pub const RECORD_OVERHEAD_MAX_BYTES: u64 = 64 * KIB;
/// RocketMQ keeps positions in a file as Java `int`.
pub const FILE_LEN_MAX_BYTES: u64 = i32::MAX as u64;

/// Shortest file of a queue's extension: room for a unit with some bits and the mark of the end.
const EXTENSION_FILE_MIN_BYTES: u64 = 64;
/// Shortest file of the timer log: room for a unit and the mark of the end.
const TIMER_LOG_FILE_MIN_BYTES: u64 = PAGE_BYTES;

/// When an acknowledgement is given (`FlushDiskType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlushDiskType {
    /// Once the bytes are in the page cache.
    #[default]
    Async,
    /// Once `fdatasync` has returned for them.
    Sync,
}

trait Setting: Sized {
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn render(&self) -> String;
}

macro_rules! number_setting {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            const EXPECTED: &'static str = "a whole number";
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn render(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
number_setting!(u64, usize);

impl Setting for bool {
    const EXPECTED: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    fn render(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    const EXPECTED: &'static str = "a text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn render(&self) -> String {
        self.clone()
    }
}

impl Setting for Option<PathBuf> {
    const EXPECTED: &'static str = "a path";

    fn parse(text: &str) -> Option<Self> {
        Some((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn render(&self) -> String {
        self.as_ref()
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }
}

impl Setting for FlushDiskType {
    const EXPECTED: &'static str = "ASYNC_FLUSH or SYNC_FLUSH";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "ASYNC_FLUSH" => Some(Self::Async),
            "SYNC_FLUSH" => Some(Self::Sync),
            _ => None,
        }
    }

    fn render(&self) -> String {
        match self {
            Self::Async => "ASYNC_FLUSH".to_owned(),
            Self::Sync => "SYNC_FLUSH".to_owned(),
        }
    }
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, $key:literal $(| $alias:literal)*;)*) => {
        /// What a store is opened with. Field by field the official key, its meaning and unit.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct StoreConfig {
            $($(#[doc = $doc])+ #[doc = concat!("Key `", $key, "`.")] pub $field: $type,)*
        }

        impl Default for StoreConfig {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl StoreConfig {
            /// Sets one setting by its official key; `Ok(false)` when the store has no such key.
            ///
            /// # Errors
            /// [`Error::Config`] when the value is of another type.
            pub fn set(&mut self, key: &str, value: &str) -> Result<bool> {
                match key {
                    $($key $(| $alias)* => {
                        self.$field = parse_setting(key, value)?;
                        Ok(true)
                    })*
                    _ => Ok(false),
                }
            }

            /// Every key with its value now, in the order of the documentation.
            #[must_use]
            pub fn pairs(&self) -> Vec<(&'static str, String)> {
                vec![$(($key, self.$field.render()),)*]
            }
        }
    };
}

fn parse_setting<T: Setting>(key: &str, value: &str) -> Result<T> {
    T::parse(value.trim()).ok_or_else(|| Error::Config {
        key: key.to_owned(),
        value: value.to_owned(),
        why: format!("expected {}", T::EXPECTED),
    })
}

settings! {
    /// Directory of the store.
    root: Option<PathBuf> = None, "storePathRootDir";
    /// Directory of the log; `None` is `commitlog` below the root.
    commit_log_dir: Option<PathBuf> = None, "storePathCommitLog";
    /// Bytes of a log file.
    segment_len_bytes: u64 = GIB, "mappedFileSizeCommitLog" | "mapedFileSizeCommitLog";
    /// Bytes of a queue file; rounded up to whole units.
    queue_file_len_bytes: u64 = 300_000 * QUEUE_UNIT_BYTES, "mappedFileSizeConsumeQueue" | "mapedFileSizeConsumeQueue";
    /// Keep store time and filter bits of messages beside the queues, and the tags codes with them.
    extends_queues: bool = false, "enableConsumeQueueExt";
    /// Bytes of a file of these extensions.
    extension_file_len_bytes: u64 = 48 * MIB, "mappedFileSizeConsumeQueueExt" | "mapedFileSizeConsumeQueueExt";
    /// Bytes of a file of a batch queue; rounded up to whole units.
    batch_file_len_bytes: u64 = 300_000 * BATCH_UNIT_BYTES, "mapperFileSizeBatchConsumeQueue";
    /// Topics that have batch queues, with spaces between; those that have a directory of such
    /// queues need not be among them.
    batch_topics: String = String::new(), "batchQueueTopics";
    /// Longest body, bytes.
    max_message_bytes: u64 = 4 * MIB, "maxMessageSize";
    /// When an acknowledgement is given.
    flush_disk_type: FlushDiskType = FlushDiskType::Async, "flushDiskType";
    /// Pause of the asynchronous flush, ms.
    flush_interval_ms: u64 = 500, "flushIntervalCommitLog";
    /// True: the asynchronous flush keeps its pause; false: an append may wake it.
    flush_is_timed: bool = true, "flushCommitLogTimed";
    /// Pages that must be behind before the asynchronous flush syncs.
    flush_least_pages: u64 = 4, "flushCommitLogLeastPages";
    /// After this many ms the asynchronous flush syncs whatever there is.
    flush_thorough_interval_ms: u64 = 10_000, "flushCommitLogThoroughInterval";
    /// How long a synchronous append waits for its sync, ms.
    sync_flush_timeout_ms: u64 = 5_000, "syncFlushTimeout";
    /// Append to pool buffers, commit to the file by `pwrite`.
    transient_pool_enabled: bool = false, "transientStorePoolEnable";
    /// Buffers in the pool.
    transient_pool_buffers: usize = 5, "transientStorePoolSize";
    /// Refuse at once when the pool has no buffer left.
    transient_pool_fails_fast: bool = false, "fastFailIfNoBufferInStorePool";
    /// Longest pause between commits of the pool, ms.
    commit_interval_ms: u64 = 200, "commitIntervalCommitLog";
    /// Taken and without effect: a commit writes all there is, whenever someone waits for it.
    commit_least_pages: u64 = 4, "commitCommitLogLeastPages";
    /// Taken and without effect, as `commitCommitLogLeastPages` is.
    commit_thorough_interval_ms: u64 = 200, "commitCommitLogThoroughInterval";
    /// Populate a new log file as a whole, in the background.
    warm_up_enabled: bool = false, "warmMapedFileEnable" | "warmMappedFileEnable";
    /// Pages per step of the warm-up; between steps it yields.
    warm_up_step_pages: u64 = 4096, "flushLeastPagesWhenWarmMapedFile" | "flushLeastPagesWhenWarmMappedFile";
    /// Bytes kept populated ahead of the append.
    populate_window_bytes: u64 = 64 * MIB, "populateWindowBytes";
    /// Take no message and make no file of the log: for a store whose files are another one's.
    is_read_only: bool = false, "readOnlyStore";
    /// Newest bytes of the log that are read through the mapping.
    hot_window_bytes: u64 = 64 * MIB, "hotWindowBytes";
    /// Lock log files in memory while they are written.
    lock_memory: bool = false, "lockMappedFile";
    /// Bound of locked bytes.
    locked_bytes_max: u64 = 2 * GIB, "lockedBytesMax";
    /// How long an append waits for the next log file, ms (`AllocateMappedFileService`).
    segment_wait_ms: u64 = 5_000, "segmentWaitMs";
    /// The append lock held longer than this makes further appends busy, ms.
    page_cache_busy_ms: u64 = 1_000, "osPageCacheBusyTimeOutMills";
    /// Pause of the queue sync, ms.
    queue_flush_interval_ms: u64 = 1_000, "flushIntervalConsumeQueue";
    /// Pages that must be behind before the queue sync does a queue.
    queue_flush_least_pages: u64 = 2, "flushConsumeQueueLeastPages";
    /// After this many ms the queue sync does all, and the checkpoint.
    queue_flush_thorough_interval_ms: u64 = 60_000, "flushConsumeQueueThoroughInterval";
    /// Open queue files at the most; never more than half of what the process may open.
    queue_files_open_max: usize = 16_384, "queueFilesOpenMax";
    /// Build the key index.
    index_enabled: bool = true, "messageIndexEnable";
    /// Recovery starts no later than the index checkpoint says.
    index_safe: bool = false, "messageIndexSafe";
    /// Hash slots of an index file.
    index_slots: u64 = 5_000_000, "maxHashSlotNum";
    /// Entries of an index file.
    index_entries: u64 = 20_000_000, "maxIndexNum";
    /// Most offsets that a query by key gives.
    query_max: usize = 64, "maxMsgsNumBatch";
    /// Check body CRCs while recovering.
    check_crc_on_recover: bool = true, "checkCRCOnRecover";
    /// Add the record CRC of 5.3 as a property.
    append_property_crc: bool = false, "enabledAppendPropCRC";
    /// Check the record CRC of 5.3 instead of the body CRC.
    verify_property_crc: bool = false, "forceVerifyPropCRC";
    /// Hours that a log file is kept after its last change.
    file_reserved_hours: u64 = 72, "fileReservedTime";
    /// Hours of the day at which expired files are deleted, joined by `;`.
    delete_when: String = "04".to_owned(), "deleteWhen";
    /// Percent of the disk at which expired files are deleted at any hour; clamped to 10..95.
    disk_used_max_percent: u64 = 75, "diskMaxUsedSpaceRatio";
    /// Percent at which files are deleted before they expire.
    disk_forcibly_percent: u64 = 85, "diskSpaceCleanForciblyRatio";
    /// Percent at which appends are refused.
    disk_warning_percent: u64 = 90, "diskSpaceWarningLevelRatio";
    /// Whether files may be deleted before they expire.
    clean_forcibly_enabled: bool = true, "cleanFileForciblyEnable";
    /// Pause between checks of retention, ms.
    clean_interval_ms: u64 = 10_000, "cleanResourceInterval";
    /// Pause between two deleted log files, ms.
    delete_log_files_interval_ms: u64 = 100, "deleteCommitLogFilesInterval";
    /// Log files deleted in one round at the most.
    delete_batch_max: usize = 10, "deleteFileBatchMax";
    /// Consumers of a store with synchronous flush may see what is not flushed yet.
    read_uncommitted: bool = false, "readUnCommitted";
    /// Consumers see only what survives power loss, also under asynchronous flush.
    consume_flushed_only: bool = false, "consumeFlushedOnly";
    /// Bytes that one read gives of records in memory.
    read_bytes_memory_max: u64 = 256 * KIB, "maxTransferBytesOnMessageInMemory";
    /// Records that one read gives of records in memory.
    read_count_memory_max: usize = 32, "maxTransferCountOnMessageInMemory";
    /// Bytes that one read gives of records on disk.
    read_bytes_disk_max: u64 = 64 * KIB, "maxTransferBytesOnMessageInDisk";
    /// Records that one read gives of records on disk.
    read_count_disk_max: usize = 8, "maxTransferCountOnMessageInDisk";
    /// Percent of the machine's memory that counts as "in memory" behind the end of the log.
    memory_ratio_percent: u64 = 40, "accessMessageInMemoryMaxRatio";
    /// Bytes of queue units that one read examines at the most.
    filter_scan_max_bytes: u64 = 16_000, "maxFilterMessageSize";
    /// Check the CRC of bodies that are read through the file, below the hot window: a damaged record
    /// is passed over.
    check_crc_on_cold_read: bool = true, "checkCrcOnColdRead";
    /// Bytes of the log that the scrub looks at per second; 0: no scrub.
    scrub_bytes_per_second: u64 = 8 * MIB, "scrubBytesPerSecond";
    /// Hours from one round of the scrub to the next.
    scrub_interval_hours: u64 = 168, "scrubIntervalHours";
    /// The 18 delay levels.
    delay_levels: String = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".to_owned(), "messageDelayLevel";
    /// Bytes of a file of the timer log.
    timer_log_file_len_bytes: u64 = 100 * MIB, "mappedFileSizeTimerLog";
    /// Length of a slot of the timer wheel, ms: see [`StoreConfig::timer_step_ms`].
    timer_precision_ms: u64 = 1_000, "timerPrecisionMs";
    /// Slots ahead of now that a timed message may lie in; one that is farther ahead is entered again.
    timer_roll_window_slots: u64 = 172_800, "timerRollWindowSlot";
}

impl StoreConfig {
    /// A configuration of `pairs` over the defaults, and the keys that the store does not know.
    ///
    /// # Errors
    /// [`Error::Config`] for a value of another type. Values are not checked against each other:
    /// see [`StoreConfig::check`].
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(Self, Vec<String>)> {
        let mut config = Self::default();
        let mut unknown = Vec::new();
        for (key, value) in pairs {
            if !config.set(key, value)? {
                unknown.push(key.to_owned());
            }
        }
        Ok((config, unknown))
    }

    /// The directory of the store.
    ///
    /// # Errors
    /// [`Error::Config`] when there is none.
    pub fn root(&self) -> Result<PathBuf> {
        self.root
            .clone()
            .ok_or_else(|| refused("storePathRootDir", "", "a directory is needed"))
    }

    /// The directory of the log.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no root.
    pub fn commit_log_path(&self) -> Result<PathBuf> {
        match &self.commit_log_dir {
            Some(dir) => Ok(dir.clone()),
            None => Ok(self.root()?.join("commitlog")),
        }
    }

    /// Length of a slot of the timer wheel, ms: 100, 200, 500 or 1000, the largest that
    /// `timerPrecisionMs` reaches (`MessageStoreConfig.setTimerPrecisionMs`).
    #[must_use]
    pub fn timer_step_ms(&self) -> i64 {
        match self.timer_precision_ms {
            0..200 => 100,
            200..500 => 200,
            500..1_000 => 500,
            _ => 1_000,
        }
    }

    /// The percent of used disk at which expired files go at any hour, as the official getter
    /// clamps it.
    #[must_use]
    pub fn disk_used_max_percent_clamped(&self) -> u64 {
        self.disk_used_max_percent.clamp(10, 95)
    }

    /// Whether queue units get an extension: never in a store that takes no message, whose files are
    /// another one's.
    #[must_use]
    pub fn writes_extensions(&self) -> bool {
        self.extends_queues && !self.is_read_only
    }

    fn check_extensions(&self) -> Result<()> {
        let len_bytes = self.extension_file_len_bytes;
        if (EXTENSION_FILE_MIN_BYTES..=FILE_LEN_MAX_BYTES).contains(&len_bytes) {
            return Ok(());
        }
        let why = "64 to 2147483647";
        Err(refused("mappedFileSizeConsumeQueueExt", len_bytes, why))
    }

    fn check_timer_log(&self) -> Result<()> {
        let len_bytes = self.timer_log_file_len_bytes;
        if (TIMER_LOG_FILE_MIN_BYTES..=FILE_LEN_MAX_BYTES).contains(&len_bytes) {
            return Ok(());
        }
        let why = "4096 to 2147483647";
        Err(refused("mappedFileSizeTimerLog", len_bytes, why))
    }

    /// Lengths of queue files, rounded up to whole units.
    fn round_queue_files(&mut self) -> Result<()> {
        let (queue, batch) = (self.queue_file_len_bytes, self.batch_file_len_bytes);
        self.queue_file_len_bytes = queue.next_multiple_of(QUEUE_UNIT_BYTES);
        self.batch_file_len_bytes = batch.next_multiple_of(BATCH_UNIT_BYTES);
        let queue = self.queue_file_len_bytes;
        if queue == 0 || queue > FILE_LEN_MAX_BYTES {
            let key = "mappedFileSizeConsumeQueue";
            return Err(refused(key, queue, "20 to 2147483640"));
        }
        let batch = self.batch_file_len_bytes;
        if batch == 0 || batch > FILE_LEN_MAX_BYTES {
            let key = "mapperFileSizeBatchConsumeQueue";
            return Err(refused(key, batch, "46 to 2147483642"));
        }
        Ok(())
    }

    /// Checks the values against each other and rounds the queue file sizes up to whole units.
    ///
    /// # Errors
    /// [`Error::Config`] that names the setting and what would be right.
    pub fn check(mut self) -> Result<Self> {
        self.root()?;
        self.round_queue_files()?;
        let segment = self.segment_len_bytes;
        let needed = self.max_message_bytes + RECORD_OVERHEAD_MAX_BYTES + 8;
        let key = "mappedFileSizeCommitLog";
        if segment > FILE_LEN_MAX_BYTES {
            return Err(refused(
                key,
                segment,
                "at most 2147483647, RocketMQ's positions are Java ints",
            ));
        }
        if segment == 0 || !segment.is_multiple_of(PAGE_BYTES) {
            return Err(refused(
                key,
                segment,
                "must be a multiple of the page, 4096",
            ));
        }
        if segment < needed {
            let why = format!(
                "one message may take {needed} bytes (maxMessageSize + 65536 + 8): raise this or \
                 lower maxMessageSize"
            );
            return Err(refused(key, segment, &why));
        }
        let index_len = 40 + 4 * self.index_slots + 20 * self.index_entries;
        if self.index_slots == 0 || self.index_entries < 2 || index_len > FILE_LEN_MAX_BYTES {
            let why =
                "slots * 4 + maxIndexNum * 20 must be below 2 GiB, with a slot and two entries";
            return Err(refused("maxHashSlotNum", self.index_slots, why));
        }
        self.check_timer_log()?;
        self.check_extensions()?;
        if self.transient_pool_enabled && self.transient_pool_buffers == 0 {
            return Err(refused(
                "transientStorePoolSize",
                0,
                "the pool needs a buffer",
            ));
        }
        if self.queue_files_open_max < 16 {
            let why = "at least 16, or every dispatch opens and closes files";
            return Err(refused("queueFilesOpenMax", self.queue_files_open_max, why));
        }
        for hour in self.delete_when.split(';') {
            if hour
                .trim()
                .parse::<u32>()
                .ok()
                .filter(|hour| *hour < 24)
                .is_none()
            {
                return Err(refused(
                    "deleteWhen",
                    &self.delete_when,
                    "hours 00 to 23 joined by ;",
                ));
            }
        }
        Ok(self)
    }
}

fn refused(key: &str, value: impl std::fmt::Display, why: &str) -> Error {
    Error::Config {
        key: key.to_owned(),
        value: value.to_string(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests;
