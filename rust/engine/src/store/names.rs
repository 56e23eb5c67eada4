//! Names of files and directories in the root of a store that no part of it owns alone.

/// The marker of a store that is open, or ended uncleanly.
pub(super) const ABORT_NAME: &str = "abort";
/// Directory of what a recovery cut off.
pub(super) const TRUNCATED_DIR: &str = "truncated";
/// Directory of the key index.
pub(super) const INDEX_DIR: &str = "index";
