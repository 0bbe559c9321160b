//! COMPRESSED payloads (§3.3): raw DEFLATE and Zstandard, bounded while they are unpacked.

use bytes::Bytes;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::error::CompressionError;

/// The algorithm behind COMPRESSED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Raw DEFLATE, RFC 1951.
    Deflate,
    /// Zstandard, RFC 8878.
    Zstd,
}

/// Compresses a whole payload; `None` if that would not make it smaller, or so small that a peer would have to
/// refuse it (see [`MAX_RATIO`]).
pub fn compress(algorithm: Compression, payload: &[u8]) -> Option<Bytes> {
    let packed = match algorithm {
        Compression::Deflate => deflate(payload)?,
        Compression::Zstd => compress_to_vec(payload, CompressionLevel::Fastest),
    };
    let welcome = payload.len() <= packed.len().saturating_mul(MAX_RATIO);
    (packed.len() < payload.len() && welcome).then(|| packed.into())
}

/// Unpacks one whole stream, stopping at `max_payload` or [`MAX_RATIO`] times the input (ASP-058).
pub fn decompress(
    algorithm: Compression,
    payload: &[u8],
    max_payload: usize,
) -> Result<Bytes, CompressionError> {
    let limit = payload.len().saturating_mul(MAX_RATIO).min(max_payload);
    match algorithm {
        Compression::Deflate => inflate(payload, limit),
        Compression::Zstd => unpack_zstd(payload, limit),
    }
}

/// Largest ratio of output to input.
pub const MAX_RATIO: usize = 100;
const STEP: usize = 4096;
const ZSTD_WINDOW: u64 = 8 * 1024 * 1024;

fn deflate(payload: &[u8]) -> Option<Vec<u8>> {
    // Output that does not fit the input's length is of no use, so there is never more room than that.
    let mut packed = Vec::with_capacity(payload.len());
    let mut state = Compress::new(flate2::Compression::fast(), false);
    match state.compress_vec(payload, &mut packed, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => Some(packed),
        Ok(Status::Ok | Status::BufError) | Err(_) => None,
    }
}

fn inflate(payload: &[u8], limit: usize) -> Result<Bytes, CompressionError> {
    let mut state = Decompress::new(false);
    let mut out = Vec::new();
    let mut rest = payload;
    loop {
        // Growth follows what came out so far; one byte beyond the limit tells "full" from "more".
        let room = out.len().max(STEP).min(limit.saturating_add(1).saturating_sub(out.len()));
        out.reserve_exact(room);
        let (read, written) = (state.total_in(), out.len());
        let status = state.decompress_vec(rest, &mut out, FlushDecompress::None);
        if out.len() > limit {
            return Err(CompressionError::TooLarge { limit });
        }
        let used = usize::try_from(state.total_in().saturating_sub(read)).unwrap_or(usize::MAX);
        rest = rest.get(used..).unwrap_or_default();
        match status {
            Ok(Status::StreamEnd) if rest.is_empty() => return Ok(out.into()),
            Ok(Status::Ok | Status::BufError) if used > 0 || out.len() > written => {}
            Ok(Status::StreamEnd | Status::Ok | Status::BufError) | Err(_) => {
                return Err(CompressionError::Damaged);
            }
        }
    }
}

/// The decoder keeps everything until it is collected, so its buffer grows to the limit plus one block.
fn unpack_zstd(payload: &[u8], limit: usize) -> Result<Bytes, CompressionError> {
    let mut rest = payload;
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW);
    decoder.reset(&mut rest).map_err(|_| CompressionError::Damaged)?;
    let strategy = BlockDecodingStrategy::UptoBytes(limit.saturating_add(1));
    let finished = decoder.decode_blocks(&mut rest, strategy).map_err(|_| CompressionError::Damaged)?;
    if !finished {
        return Err(CompressionError::TooLarge { limit });
    }
    let out = decoder.collect().unwrap_or_default();
    if out.len() > limit {
        return Err(CompressionError::TooLarge { limit });
    }
    if rest.is_empty() { Ok(out.into()) } else { Err(CompressionError::Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ASP-058 binds whoever sends, too: what is compressed here can be unpacked by any peer.
    #[test]
    fn nothing_is_compressed_beyond_what_a_peer_may_unpack() {
        for algorithm in [Compression::Deflate, Compression::Zstd] {
            for length in [1_000, 5_000, 50_000, 500_000] {
                let payload = vec![b'x'; length];
                if let Some(packed) = compress(algorithm, &payload) {
                    assert_eq!(decompress(algorithm, &packed, length).as_deref(), Ok(payload.as_slice()));
                }
            }
        }
    }
}
