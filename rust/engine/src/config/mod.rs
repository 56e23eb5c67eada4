//! The settings of a store, under the names of RocketMQ's `MessageStoreConfig`, with its defaults.
//! Checked once, before anything is opened. Knows no file: it parses texts that somebody read. What
//! settings there are is in `rows`.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::units::{KIB, PAGE_BYTES};

/// Bytes of one unit of a consume queue; its file size is a multiple of this.
pub const QUEUE_UNIT_BYTES: u64 = 20;
/// Bytes of one unit of a batch queue (5.x); its file size is a multiple of this.
pub const BATCH_UNIT_BYTES: u64 = 46;
/// A record may be this much longer than the largest body (`CommitLog`: `maxMessageSize + 64 KiB`).
pub const RECORD_OVERHEAD_MAX_BYTES: u64 = 64 * KIB;
/// RocketMQ keeps positions in a file as Java `int`.
pub const FILE_LEN_MAX_BYTES: u64 = i32::MAX as u64;

/// Shortest file of a queue's extension: space for a unit with some bits and the mark of the end.
const EXTENSION_FILE_MIN_BYTES: u64 = 64;
/// Shortest file of the timer log: space for a unit and the mark of the end.
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
            /// A replica under a controller (`enableControllerMode`): it takes no append before it leads,
            /// and queues end at the confirm offset. No key: who opens the store knows.
            pub is_member: bool,
        }

        impl Default for StoreConfig {
            fn default() -> Self {
                Self { $($field: $default,)* is_member: false }
            }
        }

        impl StoreConfig {
            /// Sets one setting by its official key; `Ok(false)` when the store has no such key.
            ///
            /// # Errors
            /// [`crate::error::Error::Config`] when the value is of another type.
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

// After the macro that it calls.
mod rows;

pub use rows::StoreConfig;

fn parse_setting<T: Setting>(key: &str, value: &str) -> Result<T> {
    T::parse(value.trim()).ok_or_else(|| Error::Config {
        key: key.to_owned(),
        value: value.to_owned(),
        why: format!("expected {}", T::EXPECTED),
    })
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
            let longest = segment.saturating_sub(RECORD_OVERHEAD_MAX_BYTES + 8);
            let raised = needed.next_multiple_of(PAGE_BYTES);
            let why = format!(
                "one message may take {needed} bytes (maxMessageSize + 65536 + 8): set it to \
                 {raised} or more where there are no files yet, or maxMessageSize to {longest} or \
                 less"
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
