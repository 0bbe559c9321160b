//! The [`Agent`] trait and the agents that are built in: [`Echo`], [`Script`], [`Butler`], [`OpenAi`],
//! [`Function`] and [`DeviceScript`].
//!
//! An agent is written against a [`Turn`] and knows nothing of protocols, sessions or storage:
//!
//! * [`Echo`] says what it hears; benchmarks and first steps run on it.
//! * [`Script`] plays a [`Story`] from a file; the demo and the end-to-end tests run on it.
//! * [`Butler`] does what it is told with the tools that are offered, without a model; applications that are
//!   spoken to can be tried with it.
//! * [`OpenAi`] speaks to any endpoint that is compatible with OpenAI's chat completions.
//! * [`Function`] passes turns on to a function behind an HTTP endpoint, and [`Relay`] is what such
//!   functions reach of this server.
//! * [`DeviceScript`] sends a device the commands that it is told; [`WithDevice`] gives any other
//!   agent the tools of the device that a turn is for.
//!
//! [`McpServers`] finds tools elsewhere: it runs and connects to servers of the Model Context Protocol.
//! [`WithTools`] gives them to any agent. [`memory`] tells what of all that is remembered matters to a question,
//! and [`speech`] turns what somebody says into words.

mod agent;
mod butler;
mod chunk;
mod command;
mod device;
mod echo;
mod endpoint;
mod function;
mod http;
mod mcp;
pub mod memory;
mod names;
mod openai;
mod script;
pub mod speech;
mod toolbox;
mod turn;

pub use agent::{Agent, AgentError, Condition, Recovery, Visit};
pub use butler::{Butler, ButlerConfig};
pub use chunk::{Chunk, MAX_DELTA_BYTES};
pub use command::{Command, CommandEnd};
pub use device::{CommandContext, DeviceScript, DeviceTools, WithDevice};
pub use echo::{Echo, EchoConfig};
pub use function::{Function, FunctionConfig, FunctionError, Grant, PushRefused, Relay, RelayKey};
pub use mcp::{McpConfig, McpConfigError, McpServers, McpState, McpStatus};
pub use openai::{OpenAi, OpenAiConfig, OpenAiError, Secret};
pub use script::{BuiltinStory, Script, ScriptConfig, Story, StoryError};
pub use toolbox::WithTools;
pub use turn::{Approval, Brief, PastCall, Resumption, ToolUse, Toolbox, Turn, TurnPort};
