//! What may be done on a screen.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::ContextFault;
use super::members::Members;
use crate::named::named;
use crate::schema;

/// Something that may be done.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The primitive: `navigation`, `button`, `input`, `confirmation`, or one of a vendor.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it does.
    pub description: String,
    /// What is written on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The element that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub element_id: Option<String>,
    /// What can be put in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_type: Option<InputType>,
    /// What can be chosen from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The JSON Schema of its parameters.
    pub parameters: Value,
    /// Whether the user has to confirm it.
    pub sensitive: bool,
    /// Whether it can be done without being seen.
    pub global: bool,
    /// Whether it can be tried again.
    pub idempotent: bool,
    /// Whether it can be done at all.
    pub enabled: bool,
    /// Whether it can be done while the system speaks.
    pub parallel: bool,
    /// Who does it.
    pub executor: Executor,
    /// How long it may take.
    pub timeout_ms: u64,
    /// How the user is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
}

named! {
    /// What can be put into an input.
    InputType {
        /// A text.
        Text = "text",
        /// A number.
        Number = "number",
        /// Yes or no.
        Boolean = "boolean",
        /// Yes or no, as a box.
        Checkbox = "checkbox",
        /// One of several.
        Radiobutton = "radiobutton",
        /// A text that nobody may read.
        Password = "password",
    }
}

named! {
    /// Who does something.
    Executor {
        /// The app.
        Client = "client",
        /// The server.
        Server = "server",
    }
}

named! {
    /// How the user is asked.
    Channel {
        /// On the screen.
        Ui = "ui",
        /// By voice.
        Voice = "voice",
    }
}

/// How the user is asked to confirm.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The ways to ask it.
    pub channels: Vec<Channel>,
    /// How long the answer counts.
    pub ttl_ms: u64,
}

impl Default for Confirmation {
    fn default() -> Self {
        Self { prompt: None, channels: vec![Channel::Ui, Channel::Voice], ttl_ms: 60_000 }
    }
}

/// The primitives of the reference.
pub(super) const CORE_TYPES: [&str; 4] = ["navigation", "button", "input", "confirmation"];

impl Action {
    /// Whether it leads to another page.
    pub fn is_navigation(&self) -> bool {
        self.kind == "navigation"
    }

    /// Whether it puts something in.
    pub fn is_input(&self) -> bool {
        self.kind == "input"
    }

    /// Whether it asks the user.
    pub fn is_confirmation(&self) -> bool {
        self.kind == "confirmation"
    }

    /// Whether what is put in must not be seen by anybody.
    pub fn is_secret(&self) -> bool {
        self.input_type == Some(InputType::Password)
    }

    /// Reads a definition whose type is known.
    pub(super) fn read(kind: String, members: &Members<'_>) -> Result<Self, ContextFault> {
        let description = members.required_text("description", 512)?;
        if description.is_empty() {
            return Err(members.invalid("description", "must not be empty"));
        }
        let element_id = members.text("element_id", 256)?;
        let needs_element = matches!(kind.as_str(), "button" | "input");
        if needs_element && element_id.is_none() {
            return Err(members.invalid("element_id", "is missing"));
        }
        let input_type = choice(members, "input_type", InputType::from_name)?;
        if kind == "input" && input_type.is_none() {
            return Err(members.invalid("input_type", "is missing"));
        }
        let options = members.texts("options")?;
        if options.as_ref().is_some_and(Vec::is_empty) {
            return Err(members.invalid("options", "must not be empty"));
        }
        if input_type == Some(InputType::Radiobutton) && options.is_none() {
            return Err(members.invalid("options", "is missing"));
        }
        let parameters = match members.get("parameters") {
            None => json!({"type": "object"}),
            Some(parameters) => match schema::flaw(parameters) {
                None => parameters.clone(),
                Some(why) => return Err(members.invalid("parameters", why)),
            },
        };
        let sensitive = members.flag("sensitive", false)?;
        let parallel = members.flag("parallel", false)?;
        if sensitive && parallel {
            return Err(members.invalid("parallel", "is not possible for a sensitive action"));
        }
        let confirmation = match members.get("confirmation") {
            None => None,
            Some(_) if !sensitive => {
                return Err(members.invalid("confirmation", "is only possible for a sensitive action"));
            }
            Some(value) => Some(Confirmation::read(&Members::of(value, members.path("confirmation"))?)?),
        };
        Ok(Self {
            kind,
            description,
            label: members.text("label", 128)?,
            element_id,
            input_type,
            options: options.unwrap_or_default(),
            parameters,
            sensitive,
            global: members.flag("global", false)?,
            idempotent: members.flag("idempotent", true)?,
            enabled: members.flag("enabled", true)?,
            parallel,
            executor: choice(members, "executor", Executor::from_name)?.unwrap_or(Executor::Client),
            timeout_ms: members.number("timeout_ms", 100..=120_000)?.unwrap_or(10_000),
            confirmation,
        })
    }
}

impl Confirmation {
    fn read(members: &Members<'_>) -> Result<Self, ContextFault> {
        let default = Self::default();
        let channels = match members.texts("channels")? {
            None => default.channels,
            Some(names) => {
                let channels: Option<Vec<Channel>> =
                    names.iter().map(|name| Channel::from_name(name)).collect();
                channels
                    .filter(|channels| !channels.is_empty())
                    .ok_or_else(|| members.invalid("channels", "must name ui, voice or both"))?
            }
        };
        Ok(Self {
            prompt: members.text("prompt", 512)?,
            channels,
            ttl_ms: members.number("ttl_ms", 1000..=300_000)?.unwrap_or(default.ttl_ms),
        })
    }
}

fn choice<T>(
    members: &Members<'_>,
    key: &str,
    from_name: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ContextFault> {
    match members.get(key) {
        None => Ok(None),
        Some(value) => match value.as_str().and_then(from_name) {
            Some(choice) => Ok(Some(choice)),
            None => Err(members.invalid(key, "is none of the possible values")),
        },
    }
}

crate::message::quiet!(Action, Confirmation);
