//! Bodies made small, as the Java client does it, and inflated within a bound.
//!
//! | type | what | who reads it |
//! |---|---|---|
//! | ZLIB | a zlib stream (RFC 1950) | everybody |
//! | LZ4 | an LZ4 frame of independent blocks | Java 4.9.4 and later |
//! | ZSTD | a zstd frame | Java 4.9.4 and later |
//!
//! Which one a body has is in its system flag.

use std::io::{Read, Write};

use flate2::{Decompress, FlushDecompress, Status};
use mqcore_record::Compression;

use crate::error::WireError;

/// First capacity for an inflated body, as a multiple of the compressed length.
const GROWTH: usize = 4;
/// Least capacity that is added at a time.
const GROWTH_BYTES_MIN: usize = 4096;
/// Level of zlib where no other is set: that of the Java producer (`msgCompressLevel`).
pub const LEVEL_DEFAULT: i32 = 5;

const fn name(kind: Compression) -> &'static str {
    match kind {
        Compression::Lz4 => "LZ4",
        Compression::Zstd => "ZSTD",
        Compression::Zlib => "ZLIB",
        Compression::Unknown(_) => "unknown",
    }
}

fn bad(kind: Compression, why: impl ToString) -> WireError {
    WireError::BadCompression {
        kind: name(kind),
        why: why.to_string(),
    }
}

/// Compresses a body. The level goes from 0 to 9 for zlib and from 1 to 22 for zstd and is brought
/// into these bounds; LZ4 has none.
///
/// # Errors
/// [`WireError::UnknownCompression`].
pub fn compress(kind: Compression, body: &[u8], level: i32) -> Result<Vec<u8>, WireError> {
    let failed = |error: std::io::Error| bad(kind, error);
    match kind {
        Compression::Zlib => {
            let level = flate2::Compression::new(level.clamp(0, 9).unsigned_abs());
            let mut out = flate2::write::ZlibEncoder::new(Vec::new(), level);
            out.write_all(body).map_err(failed)?;
            out.finish().map_err(failed)
        }
        Compression::Lz4 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(body).map_err(failed)?;
            out.finish().map_err(|error| bad(kind, error))
        }
        Compression::Zstd => zstd::bulk::compress(body, level.clamp(1, 22)).map_err(failed),
        Compression::Unknown(kind) => Err(WireError::UnknownCompression { kind }),
    }
}

/// Inflates a body to at most `max` bytes.
///
/// # Errors
/// [`WireError::BadCompression`], [`WireError::InflatedTooLarge`],
/// [`WireError::UnknownCompression`].
pub fn inflate(kind: Compression, body: &[u8], max: usize) -> Result<Vec<u8>, WireError> {
    if body.is_empty() && !matches!(kind, Compression::Unknown(_)) {
        return Err(bad(kind, "it is empty"));
    }
    match kind {
        Compression::Zlib => inflate_zlib(body, max),
        Compression::Lz4 => within(kind, lz4_flex::frame::FrameDecoder::new(Whole(body)), max),
        Compression::Zstd => {
            let from = zstd::stream::read::Decoder::with_buffer(body);
            let from = from.map_err(|error| bad(kind, error))?.single_frame();
            within(kind, from, max)
        }
        Compression::Unknown(kind) => Err(WireError::UnknownCompression { kind }),
    }
}

/// Bytes whose end is an error: the LZ4 reader takes a stream that ends between blocks for a whole
/// one, and does not ask again behind a real end.
struct Whole<'a>(&'a [u8]);

impl Read for Whole<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() && !out.is_empty() {
            return Err(std::io::Error::other("it ends early"));
        }
        self.0.read(out)
    }
}

/// Reads to the end, and one byte beyond the bound at the most.
fn within(kind: Compression, from: impl Read, max: usize) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::new();
    let bound = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read = from.take(bound).read_to_end(&mut out);
    read.map_err(|error| bad(kind, error))?;
    if out.len() > max {
        let kind = name(kind);
        return Err(WireError::InflatedTooLarge { kind, max });
    }
    Ok(out)
}

/// By hand, because the reading adapter takes a stream that ends early for a whole one.
fn inflate_zlib(body: &[u8], max: usize) -> Result<Vec<u8>, WireError> {
    let kind = Compression::Zlib;
    let mut inflater = Decompress::new(true);
    let mut out = Vec::new();
    loop {
        if out.len() == out.capacity() {
            let capacity = out.capacity().max(body.len().saturating_mul(GROWTH));
            let capacity = capacity.max(GROWTH_BYTES_MIN);
            // One byte more than allowed shows that there is more.
            let allowed = max.saturating_add(1) - out.len();
            out.reserve_exact(capacity.min(allowed));
        }
        let before = (inflater.total_in(), out.len());
        let rest = body.get(before.0 as usize..).unwrap_or_default();
        let status = inflater
            .decompress_vec(rest, &mut out, FlushDecompress::None)
            .map_err(|error| bad(kind, error))?;
        if out.len() > max {
            let kind = name(kind);
            return Err(WireError::InflatedTooLarge { kind, max });
        }
        if status == Status::StreamEnd {
            return Ok(out);
        }
        let is_stuck = (inflater.total_in(), out.len()) == before;
        if is_stuck && out.len() < out.capacity() {
            return Err(bad(kind, "it ends early"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Compression; 3] = [Compression::Zlib, Compression::Lz4, Compression::Zstd];

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 7 % 251) as u8).collect()
    }

    #[test]
    fn what_was_compressed_comes_back() {
        for kind in KINDS {
            for len in [0, 1, 4_096, 1_000_000] {
                let small = compress(kind, &body(len), LEVEL_DEFAULT).unwrap();
                assert_eq!(inflate(kind, &small, len).unwrap(), body(len), "{kind:?}");
            }
        }
    }

    #[test]
    fn what_the_java_client_compressed_is_read() {
        // CompressorFactory of 5.3.3 at level 5.
        let body = ["mqcore"; 8].join(" ").into_bytes();
        let compressed = [
            (
                Compression::Lz4,
                "04224d18607073110000007f6d71636f7265200700185071636f726500000000",
            ),
            (
                Compression::Zstd,
                "28b52ffd00586c0000386d71636f7265200100292a46010000",
            ),
            (Compression::Zlib, "785ecb2d4cce2f4a55c8259102004f591519"),
        ];
        for (kind, hex) in compressed {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            assert_eq!(inflate(kind, &bytes, 100), Ok(body.clone()), "{kind:?}");
        }
    }

    #[test]
    fn the_bound_holds() {
        for kind in KINDS {
            let bomb = compress(kind, &vec![0; 10_000_000], LEVEL_DEFAULT).unwrap();
            for max in [0, 1, 4_095, 9_999_999] {
                let refused = inflate(kind, &bomb, max).unwrap_err();
                let is_named = matches!(refused, WireError::InflatedTooLarge { .. });
                assert!(is_named, "{kind:?}: {refused}");
            }
        }
    }

    #[test]
    fn a_stream_cut_anywhere_is_refused() {
        for kind in KINDS {
            let small = compress(kind, &body(3_000), LEVEL_DEFAULT).unwrap();
            for cut in 0..small.len() {
                let refused = inflate(kind, &small[..cut], 10_000);
                let is_named = matches!(refused, Err(WireError::BadCompression { .. }));
                assert!(is_named, "{kind:?} cut at {cut} of {}", small.len());
            }
        }
    }

    #[test]
    fn an_unknown_type_is_named() {
        let kind = Compression::Unknown(5);
        let refused = WireError::UnknownCompression { kind: 5 };
        assert_eq!(compress(kind, b"x", 1), Err(refused.clone()));
        assert_eq!(inflate(kind, b"", 1), Err(refused));
    }
}
