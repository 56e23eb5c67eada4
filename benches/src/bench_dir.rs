//! A directory on a real disk that goes away again: below the build's target directory, never in
//! memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub struct BenchDir(PathBuf);

impl BenchDir {
    /// An empty directory for `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = target_dir()
            .join("stores")
            .join(format!("{name}-{}-{number}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BenchDir {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Where benches keep stores and results: `mqcore-benches` below the target directory.
#[must_use]
pub fn target_dir() -> PathBuf {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    };
    target.join("mqcore-benches")
}
