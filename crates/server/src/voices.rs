//! Who listens and speaks for connections that carry audio.

use std::fmt::Debug;
use std::sync::Arc;

use switchboard_agents::Secret;
use switchboard_agents::speech::RecogniserConfig;
use switchboard_core::{VoiceEvent, VoiceOp};
use switchboard_vip::Speech;
use switchboard_voice::speak::SpeechConfig;
use switchboard_voice::{Readiness, Voice, Voices, VoicesConfig};

use crate::config::{Config, RecogniserChoice, SynthesiserChoice};

/// Where voices come from.
pub(crate) trait House: Debug + Send + Sync {
    /// A voice of its own for one connection; what it has to say is handed to `deliver`.
    fn open(self: Arc<Self>, deliver: Deliver) -> Box<dyn Speaker>;
}

/// Takes what a voice has to say.
pub(crate) type Deliver = Box<dyn Fn(VoiceEvent) + Send + Sync>;

/// The voice of one connection; it falls silent when this is dropped.
pub(crate) trait Speaker: Send {
    /// Asks something of it; never waits.
    fn ask(&self, op: VoiceOp);
}

impl House for Voices {
    fn open(self: Arc<Self>, deliver: Deliver) -> Box<dyn Speaker> {
        Box::new(Self::open(&self, deliver))
    }
}

impl Speaker for Voice {
    fn ask(&self, op: VoiceOp) {
        Self::ask(self, op);
    }
}

/// The voices that are configured. Where something is missing, the log says so once, and what to do.
pub(crate) fn open(config: &Config) -> Result<Arc<Voices>, String> {
    let voices = Voices::new(describe(config)).map_err(|error| format!("voice.{error}"))?;
    if config.vip.enabled {
        let silenced = config.voice.recogniser == RecogniserChoice::None;
        report("speech is not understood", voices.hears(), silenced);
        let silenced = config.voice.synthesiser == SynthesiserChoice::None;
        report("answers are not spoken", voices.speaks(), silenced);
    }
    Ok(voices)
}

/// What there is of a voice, as VIP says it.
pub(crate) fn speech(voices: &Voices) -> Speech {
    let (hears, speaks) = (voices.hears(), voices.speaks());
    let missing = [&hears, &speaks].into_iter().filter_map(|readiness| match readiness {
        Readiness::Missing(missing) => Some(missing.clone()),
        Readiness::Ready => None,
    });
    Speech {
        missing: missing.collect(),
        hears: hears == Readiness::Ready,
        speaks: speaks == Readiness::Ready,
    }
}

fn report(lack: &str, readiness: Readiness, meant: bool) {
    match readiness {
        Readiness::Missing(missing) if !meant => tracing::warn!("{lack}: {missing}"),
        Readiness::Missing(_) | Readiness::Ready => {}
    }
}

fn describe(config: &Config) -> VoicesConfig {
    let voice = &config.voice;
    let local = switchboard_voice::RecogniserChoice::Local { model_dir: None };
    VoicesConfig {
        recogniser: match (voice.recogniser, recognition(config)) {
            (RecogniserChoice::None, _) => switchboard_voice::RecogniserChoice::None,
            (RecogniserChoice::Auto | RecogniserChoice::Endpoint, Some(endpoint)) => {
                switchboard_voice::RecogniserChoice::OpenAi(endpoint)
            }
            (RecogniserChoice::Auto | RecogniserChoice::Endpoint | RecogniserChoice::Local, _) => local,
        },
        synthesiser: match (voice.synthesiser, synthesis(config)) {
            (SynthesiserChoice::None, _) => switchboard_voice::SynthesiserChoice::None,
            (SynthesiserChoice::Flite, _) => switchboard_voice::SynthesiserChoice::Flite,
            (SynthesiserChoice::Espeak, _) => switchboard_voice::SynthesiserChoice::Espeak,
            (SynthesiserChoice::Pico, _) => switchboard_voice::SynthesiserChoice::Pico,
            (SynthesiserChoice::Auto | SynthesiserChoice::Endpoint, Some(endpoint)) => {
                switchboard_voice::SynthesiserChoice::OpenAi(endpoint)
            }
            (SynthesiserChoice::Auto | SynthesiserChoice::Endpoint, None) => {
                switchboard_voice::SynthesiserChoice::Auto
            }
        },
        voice: voice.voice.clone(),
        models_dir: config.models_dir(),
        hear_timeout_ms: voice.hear_timeout_ms,
        speak_timeout_ms: voice.speak_timeout_ms,
        recognitions_at_once: voice.recognitions,
        syntheses_at_once: voice.syntheses,
        ..VoicesConfig::default()
    }
}

/// The endpoint that turns speech into words, if one is configured.
pub(crate) fn recognition(config: &Config) -> Option<RecogniserConfig> {
    let recognition = &config.speech.recognition;
    let key = recognition.api_key_env.as_deref().and_then(|name| config.secrets.find(name));
    recognition.model.clone().map(|model| RecogniserConfig {
        base_url: recognition.base_url.clone(),
        model,
        api_key: key.map(Secret::new),
        language: recognition.language.clone(),
        timeout_ms: recognition.timeout_ms,
        ..RecogniserConfig::default()
    })
}

fn synthesis(config: &Config) -> Option<SpeechConfig> {
    let synthesis = &config.voice.synthesis;
    let key = synthesis.api_key_env.as_deref().and_then(|name| config.secrets.find(name));
    let usual = SpeechConfig::default();
    synthesis.model.clone().map(|model| SpeechConfig {
        base_url: synthesis.base_url.clone(),
        model,
        voice: config.voice.voice.clone().unwrap_or(usual.voice),
        api_key: key.map(Secret::new),
        timeout_ms: config.voice.speak_timeout_ms,
        ..SpeechConfig::default()
    })
}
