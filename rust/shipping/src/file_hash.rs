//! The hash that shows that a copied file is the master's: XXH3 with 128 bits. It guards against what disks,
//! memory and networks do to bytes, at more than the rate of any of them; against nobody's intent, which
//! needs the port for slaves to be closed to strangers as the rest of the stream does.

use mqcore_replica::refill::HASH_LEN_BYTES;
use twox_hash::xxhash3_128::Hasher;

/// The hash of bytes that come in pieces.
pub(crate) struct FileHash(Hasher);

impl FileHash {
    pub(crate) fn new() -> Self {
        Self(Hasher::new())
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(crate) fn bytes(&self) -> [u8; HASH_LEN_BYTES] {
        self.0.finish_128().to_be_bytes()
    }
}
