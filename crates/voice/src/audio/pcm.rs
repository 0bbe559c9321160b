//! Samples of 16 bits.

/// Appends what little-endian 16-bit samples say; a last half of a sample is left out.
pub fn read_pcm16(bytes: &[u8], into: &mut Vec<f32>) {
    let (samples, _) = bytes.as_chunks::<2>();
    into.extend(samples.iter().map(|bytes| f32::from(i16::from_le_bytes(*bytes)) / 32_768.0));
}

/// Appends samples as little-endian 16-bit ones; what is too loud is cut off.
pub fn write_pcm16(samples: &[f32], into: &mut Vec<u8>) {
    into.reserve(samples.len() * 2);
    for sample in samples {
        // A cast from a float saturates, and makes zero of what is no number.
        let sample = (sample * 32_768.0).round() as i16;
        into.extend_from_slice(&sample.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_survives_both_ways() {
        let all: Vec<u8> = (i16::MIN..=i16::MAX).flat_map(i16::to_le_bytes).collect();
        let mut samples = Vec::new();
        read_pcm16(&all, &mut samples);
        let mut again = Vec::new();
        write_pcm16(&samples, &mut again);
        assert!(all == again);
    }

    #[test]
    fn what_is_too_loud_is_cut_off() {
        let mut bytes = Vec::new();
        write_pcm16(&[2.0, -2.0, f32::NAN], &mut bytes);
        assert_eq!(bytes, [0xff, 0x7f, 0x00, 0x80, 0, 0]);
        let mut samples = Vec::new();
        read_pcm16(&[1, 0, 7], &mut samples);
        assert_eq!(samples.len(), 1, "half a sample is none");
    }
}
