//! Programs that speak, run once for every sentence.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::time::timeout;

use super::process::run;
use super::{SpeakError, Synthesiser};
use crate::audio::{Sound, read_wav};
use crate::hear::primary;

/// A program that speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// Small and quick, English only; its voices are `rms`, `slt`, `awb`, `kal` and `kal16`.
    Flite,
    /// Speaks more than a hundred languages, like a machine; its voices are those of `espeak-ng --voices`.
    Espeak,
    /// Speaks six languages of Europe.
    Pico,
}

impl Speaker {
    /// All of them, those first that know a language best.
    pub const ALL: [Self; 3] = [Self::Flite, Self::Pico, Self::Espeak];

    /// What the program is called.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            Self::Flite => "flite",
            Self::Espeak => "espeak-ng",
            Self::Pico => "pico2wave",
        }
    }

    /// The package of common systems that holds it.
    #[must_use]
    pub fn package(self) -> &'static str {
        match self {
            Self::Flite => "flite",
            Self::Espeak => "espeak-ng",
            Self::Pico => "libttspico-utils",
        }
    }

    fn knows(self, language: &str) -> bool {
        match self {
            Self::Flite => language.is_empty() || primary(language).eq_ignore_ascii_case("en"),
            Self::Espeak => primary(language).bytes().all(|byte| byte.is_ascii_alphabetic()),
            Self::Pico => pico_language(language).is_some(),
        }
    }
}

/// One of the programs, where it is installed.
#[derive(Debug)]
pub struct Program {
    speaker: Speaker,
    path: PathBuf,
    limit: Duration,
}

impl Program {
    /// The program, if one of these folders holds it. One sentence may take as long as `limit`.
    #[must_use]
    pub fn find(speaker: Speaker, folders: &[PathBuf], limit: Duration) -> Option<Self> {
        let path = folders.iter().map(|folder| folder.join(speaker.command())).find(|path| path.is_file())?;
        Some(Self { speaker, path, limit })
    }

    async fn wav(&self, text: &str, language: &str, voice: Option<&str>) -> Result<Vec<u8>, SpeakError> {
        match self.speaker {
            Speaker::Flite => {
                let voice = voice.unwrap_or("rms");
                // It takes words only as an argument when it writes to a pipe. A space keeps it from taking
                // them for an option.
                let words = format!(" {text}");
                run(&self.path, &["-voice", voice, "-t", &words, "-o", "/dev/stdout"], None).await
            }
            Speaker::Espeak => {
                let voice = voice.map_or_else(|| espeak_voice(language), str::to_owned);
                run(&self.path, &["-v", &voice, "-b", "1", "--stdin", "--stdout"], Some(text)).await
            }
            Speaker::Pico => {
                let language = pico_language(language).ok_or(SpeakError::Language)?;
                // It writes nowhere but to a file.
                let room = TempDir::new().map_err(|_| no_room())?;
                let file = room.path().join("sentence.wav");
                let arguments =
                    [Path::new("-l"), language.as_ref(), "-w".as_ref(), &file, "--".as_ref(), text.as_ref()];
                run(&self.path, &arguments, None).await?;
                tokio::fs::read(&file).await.map_err(|_| no_room())
            }
        }
    }
}

#[async_trait]
impl Synthesiser for Program {
    async fn speak(&self, text: &str, language: &str, voice: Option<&str>) -> Result<Sound, SpeakError> {
        if !self.knows(language) {
            return Err(SpeakError::Language);
        }
        let voice = voice.filter(|voice| is_name(voice));
        let text: String =
            text.chars().filter(|character| !character.is_control()).take(LONGEST_TEXT).collect();
        let wav =
            timeout(self.limit, self.wav(&text, language, voice)).await.map_err(|_| SpeakError::Late)??;
        let failed = |what: &str| SpeakError::Failed(format!("{}: {what}", self.speaker.command()));
        let sound = read_wav(&wav).map_err(|error| failed(&error.to_string()))?;
        if sound.samples.is_empty() { Err(failed("it said nothing")) } else { Ok(sound) }
    }

    fn knows(&self, language: &str) -> bool {
        self.speaker.knows(language)
    }
}

fn no_room() -> SpeakError {
    SpeakError::Failed("there is no room for a temporary file".into())
}

/// Whether this can be the name of a voice, and neither an option nor a path.
fn is_name(voice: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+');
    (1..=64).contains(&voice.len()) && !voice.starts_with('-') && voice.bytes().all(plain)
}

/// The voice of a language; of one that says nothing, English.
fn espeak_voice(language: &str) -> String {
    match language.to_ascii_lowercase().replace('_', "-") {
        language if is_name(&language) => match language.as_str() {
            // These have voices of their own; what else a tag may say is not known to it.
            "en-us" | "en-gb" | "pt-br" | "fr-ch" | "fr-be" | "es-419" => language,
            _ => primary(&language).to_owned(),
        },
        _ => "en-us".into(),
    }
}

fn pico_language(language: &str) -> Option<&'static str> {
    let tag = language.to_ascii_lowercase().replace('_', "-");
    Some(match (tag.as_str(), primary(&tag)) {
        ("en-gb", _) => "en-GB",
        (_, "en" | "") => "en-US",
        (_, "de") => "de-DE",
        (_, "es") => "es-ES",
        (_, "fr") => "fr-FR",
        (_, "it") => "it-IT",
        _ => return None,
    })
}

/// Characters of one sentence; sentences are cut before.
const LONGEST_TEXT: usize = 2_000;
