//! Settings: what is read, what is refused.

use super::*;

fn with(pairs: &[(&str, &str)]) -> Result<StoreConfig> {
    let mut all = vec![("storePathRootDir", "store")];
    all.extend_from_slice(pairs);
    StoreConfig::from_pairs(all).and_then(|(config, _)| config.check())
}

#[test]
fn official_keys_and_defaults() {
    let (config, unknown) =
        StoreConfig::from_pairs([("flushDiskType", "SYNC_FLUSH"), ("brokerName", "a")]).unwrap();
    assert_eq!(config.flush_disk_type, FlushDiskType::Sync);
    assert_eq!(config.segment_len_bytes, 1_073_741_824);
    assert_eq!(config.queue_file_len_bytes, 6_000_000);
    assert_eq!(unknown, ["brokerName"]);
}

#[test]
fn values_that_cannot_work_name_their_setting() {
    for (key, value) in [
        ("mappedFileSizeCommitLog", "2147483648"),
        ("mappedFileSizeCommitLog", "1073741825"),
        ("mappedFileSizeCommitLog", "4096"),
        ("mappedFileSizeCommitLog", "many"),
        ("mappedFileSizeConsumeQueue", "0"),
        ("mappedFileSizeConsumeQueueExt", "63"),
        ("mapperFileSizeBatchConsumeQueue", "0"),
        ("deleteWhen", "25"),
        ("flushDiskType", "SOMETIMES"),
        ("messageIndexEnable", "yes"),
    ] {
        let error = with(&[(key, value)]).unwrap_err();
        assert!(
            matches!(&error, Error::Config { key: named, .. } if named == key),
            "{error}"
        );
    }
    let rounded = with(&[("mappedFileSizeConsumeQueue", "6000001")]).unwrap();
    assert_eq!(rounded.queue_file_len_bytes, 6_000_020);
    let rounded = with(&[("mapperFileSizeBatchConsumeQueue", "100")]).unwrap();
    assert_eq!(rounded.batch_file_len_bytes, 138);
}
