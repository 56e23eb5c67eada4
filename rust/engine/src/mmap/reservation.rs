//! What one writer may fill of a map. Knows no pointer: the map gives it the bytes.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use super::Map;

/// Bytes that one writer fills; they are published by [`Reservation::publish`] or not at all.
#[derive(Debug)]
pub struct Reservation<'a> {
    pub(super) map: &'a Map,
    pub(super) bytes: &'a mut [u8],
    pub(super) end: u64,
}

impl Reservation<'_> {
    /// Lets readers see everything up to the end of this reservation.
    pub fn publish(self) {
        self.map.published.store(self.end, Ordering::Release);
    }

    /// Where the reservation ends in the map.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }
}

impl Deref for Reservation<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl DerefMut for Reservation<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.map.writing.store(false, Ordering::Release);
    }
}
