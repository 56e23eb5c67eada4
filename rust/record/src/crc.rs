//! The checksum of a body (`UtilAll.crc32`): zlib's CRC-32 without its highest bit, so that Java
//! can hold it as a non-negative int.

/// The bits of a CRC-32 that are kept.
pub(crate) const CRC_MASK: u32 = 0x7FFF_FFFF;

/// CRC of a body as stored; 0 for an empty one.
#[inline]
#[must_use]
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & CRC_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_zlibs_without_the_sign_bit() {
        assert_eq!(body_crc(b""), 0);
        assert_eq!(body_crc(b"hello"), 907_060_870);
        // zlib computes 0xCBF43926.
        assert_eq!(body_crc(b"123456789"), 0x4BF4_3926);
    }
}
