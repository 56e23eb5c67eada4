//! What a verification found: problems (something disagrees) and notes (something that looks odd
//! and has a lawful reason).

/// Problems kept in full; more are only counted.
pub(super) const PROBLEMS_MAX: usize = 1_000;

/// Something that does not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// "log", "queue" or "index".
    pub part: &'static str,
    /// Which file, queue or offset.
    pub location: String,
    /// What disagrees with what.
    pub why: String,
}

/// The outcome of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// First physical offset.
    pub log_start: u64,
    /// Physical offset behind the last good record.
    pub log_end: u64,
    /// Records of the log.
    pub records: u64,
    /// Blank ends of files.
    pub blanks: u64,
    /// Queues looked at.
    pub queues: u64,
    /// Units looked at.
    pub units: u64,
    /// Index files looked at.
    pub index_files: u64,
    /// Index entries looked at.
    pub index_entries: u64,
    /// What disagrees: the first `PROBLEMS_MAX`.
    pub problems: Vec<Problem>,
    /// All that disagree.
    pub problem_count: u64,
    /// What looks odd and is lawful.
    pub notes: Vec<String>,
}

impl Findings {
    pub(super) fn report(
        &mut self,
        part: &'static str,
        location: impl ToString,
        why: impl ToString,
    ) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem {
                part,
                location: location.to_string(),
                why: why.to_string(),
            });
        }
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}
