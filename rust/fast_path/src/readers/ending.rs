//! An end of a transaction, while its half message is read. Data alone.

use crate::gate::Further;
use crate::request_context::RequestContext;
use crate::requests::Decision;

/// An end, owned: its half message may have to be read from the disk first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub(crate) request_context: RequestContext,
    /// Where the request claims the half message to be.
    pub physical_offset: u64,
    pub(crate) half_offset: i64,
    pub(crate) decision: Decision,
    pub(crate) group: Box<str>,
    pub(crate) is_answer: bool,
    pub(crate) stored: usize,
    /// Who has to be asked for the topic of the half message.
    pub(crate) further: Option<Further>,
}
