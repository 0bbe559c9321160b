//! The configuration: one typed [`Config`] whose defaults run a durable single node without a
//! file. Defaults, then a TOML file, then the environment, then flags.
//!
//! The environment enters as a parameter; nothing here reads it.

mod agents;
mod alicia;
mod check;
pub(crate) mod describe;
mod load;
mod memory;
mod reference;
mod secrets;
mod sections;
mod speech;
#[cfg(test)]
mod tests;
mod vip;
mod voice;
mod warnings;

pub use agents::{AgentConfig, DemoConfig, OffConfig};
pub use alicia::{AliciaConfig, EliteConfig, ScoresConfig};
pub use describe::{Describe, Key, Kind};
pub use load::{ConfigError, Problem, Source};
pub use memory::{EmbeddingsConfig, MemoryConfig};
pub use secrets::Secrets;
pub use sections::{
    AcolyteConfig, AipConfig, Algorithm, ApiKey, AspConfig, AuthConfig, Config, DrainConfig, JwtIssuer,
    LimitsConfig, LogFormat, Questions, RelayConfig, RouteConfig, StoreConfig, StoreKind, Synchronous,
    TelemetryConfig, TlsConfig,
};
pub use speech::{RecognitionConfig, SpeechConfig};
pub use vip::{IceServerConfig, PromptConfig, VipConfig, WebRtcConfig};
pub use voice::{RecogniserChoice, SynthesisConfig, SynthesiserChoice, VoiceConfig};
