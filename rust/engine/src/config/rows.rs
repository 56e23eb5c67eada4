//! The settings of a store, one row each: field, type, default, official key and other spellings.
//!
//! Made from the tables of settings by `python -m mqcore.config.derived`; a test keeps it current.

use std::path::PathBuf;

use super::{FlushDiskType, Setting, parse_setting};
use crate::error::Result;

settings! {
    /// Directory of the store.
    root: Option<PathBuf> = None, "storePathRootDir";
    /// Directory of the log; empty: commitlog below storePathRootDir.
    commit_log_dir: Option<PathBuf> = None, "storePathCommitLog";
    /// Bytes of a log file; files that exist win.
    segment_len_bytes: u64 = 1_073_741_824, "mappedFileSizeCommitLog" | "mapedFileSizeCommitLog";
    /// Bytes of a queue file, rounded up to units of 20; files that exist win.
    queue_file_len_bytes: u64 = 6_000_000, "mappedFileSizeConsumeQueue" | "mapedFileSizeConsumeQueue";
    /// Keep store time and filter bits of each message beside its queue, in consumequeue_ext; read
    /// wherever they are.
    extends_queues: bool = false, "enableConsumeQueueExt";
    /// Bytes of a file of consumequeue_ext; files that exist win.
    extension_file_len_bytes: u64 = 50_331_648, "mappedFileSizeConsumeQueueExt" | "mapedFileSizeConsumeQueueExt";
    /// Pause of the asynchronous flush, ms.
    flush_interval_ms: u64 = 500, "flushIntervalCommitLog";
    /// Longest pause between commits of the pool, ms.
    commit_interval_ms: u64 = 200, "commitIntervalCommitLog";
    /// True: the asynchronous flush keeps its pause; false: an append may wake it.
    flush_is_timed: bool = true, "flushCommitLogTimed";
    /// Pause of the queue sync, ms.
    queue_flush_interval_ms: u64 = 1_000, "flushIntervalConsumeQueue";
    /// Pause between checks of retention, ms.
    clean_interval_ms: u64 = 10_000, "cleanResourceInterval";
    /// Pause between two deleted log files, ms.
    delete_log_files_interval_ms: u64 = 100, "deleteCommitLogFilesInterval";
    /// Hours of the day at which expired files are deleted, joined by ;.
    delete_when: String = "04".to_owned(), "deleteWhen";
    /// Percent of the disk at which expired files go at any hour; clamped to 10..95.
    disk_used_max_percent: u64 = 75, "diskMaxUsedSpaceRatio";
    /// Hours that a log file is kept after its last change.
    file_reserved_hours: u64 = 72, "fileReservedTime";
    /// Longest body, bytes.
    max_message_bytes: u64 = 4_194_304, "maxMessageSize";
    /// Check body CRCs while recovering.
    check_crc_on_recover: bool = true, "checkCRCOnRecover";
    /// Pages that must be behind before the asynchronous flush syncs.
    flush_least_pages: u64 = 4, "flushCommitLogLeastPages";
    /// Pages per step of the warm-up.
    warm_up_step_pages: u64 = 4_096, "flushLeastPagesWhenWarmMapedFile" | "flushLeastPagesWhenWarmMappedFile";
    /// Pages that must be behind before the queue sync does a queue.
    queue_flush_least_pages: u64 = 2, "flushConsumeQueueLeastPages";
    /// After this many ms the asynchronous flush syncs whatever there is.
    flush_thorough_interval_ms: u64 = 10_000, "flushCommitLogThoroughInterval";
    /// After this many ms the queue sync does all queues, and the checkpoint.
    queue_flush_thorough_interval_ms: u64 = 60_000, "flushConsumeQueueThoroughInterval";
    /// Bytes that one pull gives of messages in memory.
    read_bytes_memory_max: u64 = 262_144, "maxTransferBytesOnMessageInMemory";
    /// Messages that one pull gives of those in memory.
    read_count_memory_max: usize = 32, "maxTransferCountOnMessageInMemory";
    /// Bytes that one pull gives of messages on disk.
    read_bytes_disk_max: u64 = 65_536, "maxTransferBytesOnMessageInDisk";
    /// Messages that one pull gives of those on disk.
    read_count_disk_max: usize = 8, "maxTransferCountOnMessageInDisk";
    /// Percent of the machine's memory that counts as "in memory" behind the end of the log.
    memory_ratio_percent: u64 = 40, "accessMessageInMemoryMaxRatio";
    /// Build the key index.
    index_enabled: bool = true, "messageIndexEnable";
    /// Hash slots of an index file.
    index_slots: u64 = 5_000_000, "maxHashSlotNum";
    /// Entries of an index file.
    index_entries: u64 = 20_000_000, "maxIndexNum";
    /// Most messages that a query by key gives.
    query_max: usize = 64, "maxMsgsNumBatch";
    /// Recovery starts no later than the index checkpoint.
    index_safe: bool = false, "messageIndexSafe";
    /// When a send is acknowledged: in the page cache, or on disk.
    flush_disk_type: FlushDiskType = FlushDiskType::Async, "flushDiskType";
    /// How long a synchronous append waits for its sync, ms.
    sync_flush_timeout_ms: u64 = 5_000, "syncFlushTimeout";
    /// How long a send waits for slaves, with brokerRole=SYNC_MASTER, ms.
    replicas_timeout_ms: u64 = 3_000, "slaveTimeout";
    /// The delay levels.
    delay_levels: String = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h".to_owned(), "messageDelayLevel";
    /// Whether files may go before they expire.
    clean_forcibly_enabled: bool = true, "cleanFileForciblyEnable";
    /// Populate a new log file as a whole, in the background.
    warm_up_enabled: bool = false, "warmMapedFileEnable" | "warmMappedFileEnable";
    /// Append lock held longer than this: further sends are refused as busy, ms.
    page_cache_busy_ms: u64 = 1_000, "osPageCacheBusyTimeOutMills";
    /// Append to pool buffers, commit to the file by writes.
    transient_pool_enabled: bool = false, "transientStorePoolEnable";
    /// Buffers in the pool, each of a log file's size.
    transient_pool_buffers: usize = 5, "transientStorePoolSize";
    /// Refuse at once when the pool has no buffer left.
    transient_pool_fails_fast: bool = false, "fastFailIfNoBufferInStorePool";
    /// Bytes of a file of the timer log.
    timer_log_file_len_bytes: u64 = 104_857_600, "mappedFileSizeTimerLog";
    /// Length of a step of timed messages, ms: 100, 200, 500 or 1000, the largest of them it
    /// reaches.
    timer_precision_ms: u64 = 1_000, "timerPrecisionMs";
    /// Steps ahead that a timed message lies in the wheel; one that is due later is entered again.
    timer_roll_window_slots: u64 = 172_800, "timerRollWindowSlot";
    /// Bytes of a file of a batch queue, rounded up to units of 46; files that exist win.
    batch_file_len_bytes: u64 = 13_800_000, "mapperFileSizeBatchConsumeQueue";
    /// Percent of the disk at which sends are refused.
    disk_warning_percent: u64 = 90, "diskSpaceWarningLevelRatio";
    /// Percent of the disk at which files go before they expire.
    disk_forcibly_percent: u64 = 85, "diskSpaceCleanForciblyRatio";
    /// Log files deleted in one round at the most.
    delete_batch_max: usize = 10, "deleteFileBatchMax";
    /// Bytes of queue units that one pull examines at the most.
    filter_scan_max_bytes: u64 = 16_000, "maxFilterMessageSize";
    /// Add the record CRC of 5.3 as a property.
    append_property_crc: bool = false, "enabledAppendPropCRC";
    /// Check the record CRC of 5.3 instead of the body CRC.
    verify_property_crc: bool = false, "forceVerifyPropCRC";
    /// Fetch what a reader of cold messages that reads on will want next; false: only what is asked
    /// for.
    reads_ahead: bool = true, "dataReadAheadEnable";
    /// With synchronous flush: consumers may see what is not flushed yet.
    read_uncommitted: bool = false, "readUnCommitted";
    /// Bytes of the log kept present ahead of the append.
    populate_window_bytes: u64 = 67_108_864, "populateWindowBytes";
    /// Newest bytes of the log that are read through the mapping.
    hot_window_bytes: u64 = 67_108_864, "hotWindowBytes";
    /// Lock log files in memory while they are written.
    lock_memory: bool = false, "lockMappedFile";
    /// Bytes locked at the most.
    locked_bytes_max: u64 = 2_147_483_648, "lockedBytesMax";
    /// Index the tags of messages beside their keys, as 5.5 does; false: only where the index of
    /// the directory has them.
    index_tags: bool = false, "mqcoreIndexTags";
    /// Bytes of the log at the most: beyond them the oldest files go whatever their age, read or
    /// not, but for the newest; 0: no bound.
    log_bytes_max: u64 = 0, "mqcoreLogBytesMax";
    /// Take no message and make no log file; a mounted store is opened so.
    is_read_only: bool = false, "readOnlyStore";
    /// How long an append waits for the next log file.
    segment_wait_ms: u64 = 5_000, "segmentWaitMs";
    /// Queue files open at the most; never more than half of what the process may open.
    queue_files_open_max: usize = 16_384, "queueFilesOpenMax";
    /// Topics that have batch queues beside those that topics.json names, with spaces between.
    batch_topics: String = String::new(), "batchQueueTopics";
    /// Consumers see only what survives power loss, also with asynchronous flush.
    consume_flushed_only: bool = false, "consumeFlushedOnly";
    /// Check the CRC of messages that are read from the disk, below hotWindowBytes; a damaged one
    /// is passed over and reported.
    check_crc_on_cold_read: bool = true, "checkCrcOnColdRead";
    /// Bytes of the log that the background check reads per second; 0: no check.
    scrub_bytes_per_second: u64 = 8_388_608, "scrubBytesPerSecond";
    /// Hours from one round of that check to the next.
    scrub_interval_hours: u64 = 168, "scrubIntervalHours";
}
