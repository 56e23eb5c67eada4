//! What the parts of the plain queues have in common: the queues, their files, and who looks after
//! both. Data alone. Each part has its own references, so that a look takes no step more.

use std::sync::Arc;

use super::extension::Extensions;
use super::load::QueueLoader;
use super::unit::Unit;
use super::witness::Witness;
use crate::disk::Disk;
use crate::queue_store::{Pending, QueueMap, Segments};

/// The parts that several others use. A clone refers to the same.
#[derive(Clone)]
pub(super) struct Shared<D: Disk> {
    pub(super) map: Arc<QueueMap<Unit>>,
    pub(super) segments: Arc<Segments<D, Unit>>,
    pub(super) pending: Arc<Pending<Unit>>,
    pub(super) loader: Arc<QueueLoader<D>>,
    pub(super) witness: Arc<Witness<D>>,
    pub(super) extensions: Arc<Extensions<D>>,
}
