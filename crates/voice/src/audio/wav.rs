//! WAV files, as far as programs that speak write them.

use super::Sound;
use super::pcm::{read_pcm16, write_pcm16};

/// The bytes are no WAV file that can be read; says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadWav(&'static str);

/// Reads 16-bit samples; of several channels the first. Programs that write to a pipe do not know how long it
/// will be: what is there counts, not what the header says.
///
/// # Errors
/// It is another kind of file.
pub fn read_wav(file: &[u8]) -> Result<Sound, BadWav> {
    let mut rest = match file.split_at_checked(12) {
        Some((head, rest)) if head.starts_with(b"RIFF") && head.ends_with(b"WAVE") => rest,
        _ => return Err(BadWav("it is no WAV file")),
    };
    let mut shape = None;
    while let Some((head, body)) = rest.split_at_checked(8) {
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if head.starts_with(b"data") {
            let (channels, rate) = shape.ok_or(BadWav("it does not say what it holds"))?;
            return Ok(Sound { samples: first_channel(&body[..length.min(body.len())], channels), rate });
        }
        let (chunk, after) = body.split_at_checked(length).ok_or(BadWav("it is cut off"))?;
        if head.starts_with(b"fmt ") {
            shape = Some(read_shape(chunk)?);
        }
        // Chunks begin at even places.
        rest = after.get(length % 2..).unwrap_or_default();
    }
    Err(BadWav("it holds no sound"))
}

fn read_shape(chunk: &[u8]) -> Result<(usize, u32), BadWav> {
    let &[
        kind_low,
        kind_high,
        channels_low,
        channels_high,
        r0,
        r1,
        r2,
        r3,
        _,
        _,
        _,
        _,
        _,
        _,
        bits_low,
        bits_high,
        ..,
    ] = chunk
    else {
        return Err(BadWav("it does not say what it holds"));
    };
    let kind = u16::from_le_bytes([kind_low, kind_high]);
    let channels = u16::from_le_bytes([channels_low, channels_high]);
    let bits = u16::from_le_bytes([bits_low, bits_high]);
    let rate = u32::from_le_bytes([r0, r1, r2, r3]);
    // Plain samples, or those of the longer header, which begins in the same way.
    if !matches!(kind, 1 | 0xfffe) || bits != 16 || !(1..=8).contains(&channels) || rate == 0 {
        return Err(BadWav("it holds something else than 16-bit samples"));
    }
    Ok((usize::from(channels), rate))
}

fn first_channel(bytes: &[u8], channels: usize) -> Vec<f32> {
    let mut samples = Vec::with_capacity(bytes.len() / 2);
    read_pcm16(bytes, &mut samples);
    if channels > 1 { samples.into_iter().step_by(channels).collect() } else { samples }
}

/// A file of 16-bit samples.
#[must_use]
pub fn write_wav(sound: &Sound) -> Vec<u8> {
    let length = u32::try_from(sound.samples.len() * 2).unwrap_or(u32::MAX - 36);
    let mut file = Vec::with_capacity(44 + sound.samples.len() * 2);
    for part in [
        b"RIFF".as_slice(),
        &(36 + length).to_le_bytes(),
        b"WAVEfmt ",
        &16_u32.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &1_u16.to_le_bytes(),
        &sound.rate.to_le_bytes(),
        &(sound.rate * 2).to_le_bytes(),
        &2_u16.to_le_bytes(),
        &16_u16.to_le_bytes(),
        b"data",
        &length.to_le_bytes(),
    ] {
        file.extend_from_slice(part);
    }
    write_pcm16(&sound.samples, &mut file);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_was_written() {
        let sound = Sound { samples: vec![0.0, 0.5, -0.5, 0.25], rate: 22_050 };
        assert_eq!(read_wav(&write_wav(&sound)), Ok(sound));
    }

    #[test]
    fn a_length_that_was_not_known_is_the_rest() {
        let sound = Sound { samples: vec![0.5; 100], rate: 16_000 };
        let mut file = write_wav(&sound);
        file[40..44].copy_from_slice(&0x7fff_f000_u32.to_le_bytes());
        assert_eq!(read_wav(&file), Ok(sound));
    }

    #[test]
    fn of_two_channels_the_first_is_heard_and_other_chunks_are_passed_over() {
        let mut file = write_wav(&Sound { samples: vec![0.5, -0.5, 0.25, -0.25], rate: 8_000 });
        file[22] = 2;
        file.splice(36..36, *b"LIST\x03\0\0\0abc\0");
        assert_eq!(read_wav(&file).map(|sound| sound.samples), Ok(vec![0.5, 0.25]));
    }

    #[test]
    fn no_file_makes_the_reader_stumble() {
        let good = write_wav(&Sound { samples: vec![0.5; 8], rate: 8_000 });
        for length in 0..44 {
            assert!(read_wav(&good[..length]).is_err(), "{length}");
        }
        for place in 0..44 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut file = good.clone();
                file[place] = value;
                let _ = read_wav(&file);
            }
        }
        let mut compressed = good;
        compressed[20] = 0x55;
        assert_eq!(read_wav(&compressed), Err(BadWav("it holds something else than 16-bit samples")));
    }
}
