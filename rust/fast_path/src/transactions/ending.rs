//! An end of a transaction, while its half message is read. Data alone.

use super::ends::Decision;
use crate::request_context::RequestContext;

/// An end, owned: its half message may have to be read from the disk first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub(super) request_context: RequestContext,
    /// Where the request claims the half message to be.
    pub physical_offset: u64,
    pub(super) half_offset: i64,
    pub(super) decision: Decision,
    pub(super) group: Box<str>,
    pub(super) is_answer: bool,
    pub(super) stored: usize,
}
