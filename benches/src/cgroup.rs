//! A bench in a memory cgroup: the same binary again, as a child in a group below this process's own
//! one. Works with cgroup v1 and v2 where the machine lets us make a group; else reports why not.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that gives a child its part.
pub const CHILD: &str = "MQCORE_BENCH_CHILD";

/// A memory group that is removed when this is dropped.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// Makes a group of at most `limit_bytes`.
    ///
    /// # Errors
    /// In words, why the machine does not permit it.
    pub fn new(limit_bytes: u64) -> Result<Self, String> {
        let (own, limit_file) = own_group()?;
        let dir = own.join(format!("mqcore-bench-{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let group = Self(dir);
        let path = group.0.join(limit_file);
        std::fs::write(&path, limit_bytes.to_string())
            .map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(group)
    }

    /// Runs this binary as `part` inside the group; its standard output, one number per line.
    ///
    /// # Errors
    /// In words.
    pub fn run(&self, part: &str, arguments: &[&str]) -> Result<Vec<f64>, String> {
        let join = self.0.join("cgroup.procs");
        let join = join.to_string_lossy();
        // The shell joins the group, then becomes the child: all its memory is counted there.
        run(
            &["/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &join],
            part,
            arguments,
        )
    }
}

/// Runs this binary as `part` without a group; its standard output, one number per line.
///
/// # Errors
/// In words.
pub fn run_child(part: &str, arguments: &[&str]) -> Result<Vec<f64>, String> {
    run(&["/usr/bin/env"], part, arguments)
}

/// Runs this binary as `part` by a command that takes a command.
fn run(by: &[&str], part: &str, arguments: &[&str]) -> Result<Vec<f64>, String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let (first, rest) = by.split_first().ok_or("no command")?;
    let out = Command::new(first)
        .args(rest)
        .arg(me)
        .args(arguments)
        .env(CHILD, part)
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{part} ended with {}", out.status));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    text.split_whitespace()
        .map(|word| word.parse().map_err(|_| format!("{part} printed {word}")))
        .collect()
}

impl Drop for Group {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir(&self.0);
    }
}

/// The directory of this process's memory group, and the name of the limit's file there.
fn own_group() -> Result<(PathBuf, &'static str), String> {
    let text = std::fs::read_to_string("/proc/self/cgroup").map_err(|e| e.to_string())?;
    let root = Path::new("/sys/fs/cgroup");
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == "memory") {
            return Ok((root.join("memory").join(path), "memory.limit_in_bytes"));
        }
        let v2 = root.join(path);
        let enabled = std::fs::read_to_string(v2.join("cgroup.subtree_control"));
        if controllers.is_empty() && enabled.is_ok_and(|text| text.contains("memory")) {
            return Ok((v2, "memory.max"));
        }
    }
    Err("no memory cgroup that this process may divide".to_owned())
}

/// Prints the numbers of a child for its parent.
pub fn answer(numbers: &[f64]) {
    use std::io::Write;
    let mut out = std::io::stdout();
    for number in numbers {
        let _closed = writeln!(out, "{number}");
    }
}
