//! A directory of a test, by a name of its own: gone before the test begins, and when it ends.

use std::path::PathBuf;

/// The directory; `0` is its path.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mqcore-{name}-{}", std::process::id()));
        let _absent = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
