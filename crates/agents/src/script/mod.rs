//! An agent that plays a story: it matches the input, and does what the story says.

mod parse;
mod play;
mod raw;
mod steps;
mod story;
mod template;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use switchboard_core::model::{Tool, TurnEnd};

use crate::agent::{Agent, AgentError, Recovery};
use crate::turn::Turn;

pub use parse::StoryError;
pub use story::Story;

/// Plays a [`Story`]. Deterministic: the same input leads to the same answer.
#[derive(Clone, Debug)]
pub struct Script {
    story: Arc<Story>,
}

/// Which story a [`Script`] plays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptConfig {
    /// The file with the story, TOML or JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The story to play when there is no file.
    pub builtin: BuiltinStory,
    /// The MCP servers whose tools can be used; all of them, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
}

/// A story that comes with the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinStory {
    /// Greets, and shows what a client can expect.
    #[default]
    Demo,
    /// Provokes everything that a turn may do.
    Conformance,
}

impl Script {
    /// Plays a story.
    pub fn new(story: Story) -> Self {
        Self { story: Arc::new(story) }
    }

    /// Plays the story that is configured.
    ///
    /// # Errors
    /// Its file cannot be read, or makes no sense.
    pub fn load(config: &ScriptConfig) -> Result<Self, StoryError> {
        let story = match (&config.path, config.builtin) {
            (Some(path), _) => {
                let story = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|source| StoryError::Unreadable { story: story.clone(), source })?;
                Story::parse(&text, &story)?
            }
            (None, BuiltinStory::Demo) => Story::demo()?,
            (None, BuiltinStory::Conformance) => Story::conformance()?,
        };
        Ok(Self::new(story))
    }

    /// Plays the story of the default agent.
    ///
    /// # Errors
    /// None that the tests of this crate let pass.
    pub fn demo() -> Result<Self, StoryError> {
        Story::demo().map(Self::new)
    }
}

#[async_trait]
impl Agent for Script {
    fn kind(&self) -> &'static str {
        "script"
    }

    async fn run(&self, turn: &mut Turn) -> Result<TurnEnd, AgentError> {
        play::play(&self.story, turn).await
    }

    fn tools(&self) -> Vec<Tool> {
        self.story.tools().to_vec()
    }

    fn recovery(&self) -> Recovery {
        Recovery::Replay
    }

    fn reacts_at_once(&self) -> bool {
        true
    }
}
