//! An utterance as a file that a model can read.

use super::recogniser::RecogniserError;

/// A file, but for its place in a request.
pub(super) struct Recording<'a> {
    pub(super) name: &'static str,
    pub(super) media_type: &'static str,
    /// Comes before the audio.
    pub(super) header: Vec<u8>,
    pub(super) audio: &'a [u8],
}

impl<'a> Recording<'a> {
    /// The audio in a form that models know. Samples without a container get one; a last sample that is cut off
    /// is left out.
    pub(super) fn new(format: &str, audio: &'a [u8]) -> Result<Self, RecogniserError> {
        let Some(length) = u32::try_from(audio.len()).ok().filter(|length| *length <= MAX_AUDIO_BYTES) else {
            return Err(RecogniserError::Format("it is too long"));
        };
        // What follows a semicolon, such as the codec, the file says itself.
        let format = format.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if let Some(pcm) = Pcm::parse(&format) {
            let cut_off = length % (u32::from(pcm.channels) * 2);
            let audio = &audio[..audio.len() - cut_off as usize];
            let header = pcm.wav_header(length - cut_off);
            return Ok(Self { name: "utterance.wav", media_type: "audio/wav", header, audio });
        }
        let (name, media_type) = match format.as_str() {
            "audio/wav" => ("utterance.wav", "audio/wav"),
            "audio/ogg" | "audio/opus" => ("utterance.ogg", "audio/ogg"),
            "audio/webm" => ("utterance.webm", "audio/webm"),
            "audio/mpeg" => ("utterance.mp3", "audio/mpeg"),
            "audio/mp4" => ("utterance.mp4", "audio/mp4"),
            "audio/flac" => ("utterance.flac", "audio/flac"),
            _ => return Err(RecogniserError::Format("its format is not known")),
        };
        Ok(Self { name, media_type, header: Vec::new(), audio })
    }
}

/// Samples of 16 bits without a container.
struct Pcm {
    rate: u32,
    channels: u16,
}

impl Pcm {
    /// From `pcm_s16le_<rate>` or `pcm_s16le_<rate>_<channels>`.
    fn parse(format: &str) -> Option<Self> {
        let numbers = format.strip_prefix("pcm_s16le_")?;
        let (rate, channels) = numbers.split_once('_').unwrap_or((numbers, "1"));
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
        let rate = number(rate)?.filter(|rate| (1..=MAX_RATE).contains(rate))?;
        let channels: u32 = number(channels)?.filter(|channels| (1..=MAX_CHANNELS).contains(channels))?;
        Some(Self { rate, channels: u16::try_from(channels).ok()? })
    }

    /// What makes a WAV file of so many bytes of audio when it comes before them.
    fn wav_header(&self, length: u32) -> Vec<u8> {
        let frame_bytes = self.channels * 2;
        [
            b"RIFF".as_slice(),
            &(WAV_HEADER_BYTES - 8 + length).to_le_bytes(),
            b"WAVEfmt ",
            &16_u32.to_le_bytes(),
            &1_u16.to_le_bytes(),
            &self.channels.to_le_bytes(),
            &self.rate.to_le_bytes(),
            &(self.rate * u32::from(frame_bytes)).to_le_bytes(),
            &frame_bytes.to_le_bytes(),
            &16_u16.to_le_bytes(),
            b"data",
            &length.to_le_bytes(),
        ]
        .concat()
    }
}

const WAV_HEADER_BYTES: u32 = 44;
/// Bytes of audio that common endpoints take.
const MAX_AUDIO_BYTES: u32 = 25 << 20;
const MAX_RATE: u32 = 384_000;
const MAX_CHANNELS: u32 = 8;
