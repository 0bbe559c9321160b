//! The [`Agent`] trait and the agents that are built in: [`Echo`], [`Script`], [`OpenAi`]
//! and [`DeviceScript`].
//!
//! An agent is written against a [`Turn`] and knows nothing of protocols, sessions or storage:
//!
//! * [`Echo`] says what it hears; benchmarks and first steps run on it.
//! * [`Script`] plays a [`Story`] from a file; the demo and the end-to-end tests run on it.
//! * [`OpenAi`] speaks to any endpoint that is compatible with OpenAI's chat completions.
//! * [`DeviceScript`] sends a device the commands that it is told; [`WithDevice`] gives any other
//!   agent the tools of the device that a turn is for.

mod agent;
mod chunk;
mod command;
mod device;
mod echo;
mod names;
mod openai;
mod script;
mod turn;

pub use agent::{Agent, AgentError, Recovery};
pub use chunk::{Chunk, MAX_DELTA_BYTES};
pub use command::{Command, CommandEnd};
pub use device::{CommandContext, DeviceScript, DeviceTools, WithDevice};
pub use echo::{Echo, EchoConfig};
pub use openai::{Approval, OpenAi, OpenAiConfig, OpenAiError, Secret};
pub use script::{BuiltinStory, Script, ScriptConfig, Story, StoryError};
pub use turn::{Brief, PastCall, Resumption, ToolUse, Toolbox, Turn, TurnPort};
