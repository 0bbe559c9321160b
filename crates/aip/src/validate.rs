//! What a message needs beyond its shape (§5.4), and names that become paths (§2.2, §6.2).

use crate::message::{ClientMessage, ClientMessageType, Command, Outcome, ServerMessage, ServerMessageType};

/// What is wrong with a message that could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is of another type.
    #[error("type must be {0}")]
    Type(&'static str),
    /// Something it needs is missing or empty.
    #[error("{0} is required")]
    Missing(&'static str),
    /// The same, in an item of a list.
    #[error("{list}[{index}]: {field} is required")]
    Item {
        /// The list.
        list: &'static str,
        /// The item, from 0.
        index: usize,
        /// What it needs.
        field: &'static str,
    },
}

/// Whether a device can be expected to run this.
///
/// # Errors
/// It names no tool.
pub fn command(command: &Command) -> Result<(), Invalid> {
    present("tool_name", Some(&command.tool_name))
}

/// Whether every one of these can be run; none at all are fine.
///
/// # Errors
/// The first that cannot.
pub fn commands(commands: &[Command]) -> Result<(), Invalid> {
    for (index, item) in commands.iter().enumerate() {
        if command(item).is_err() {
            return Err(Invalid::Item { list: "actions", index, field: "tool_name" });
        }
    }
    Ok(())
}

/// Whether this tells how a command ended. It needs a status, which its type sees to.
///
/// # Errors
/// None today.
pub const fn outcome(_outcome: &Outcome) -> Result<(), Invalid> {
    Ok(())
}

/// Whether every one of these is an outcome; none at all are fine.
///
/// # Errors
/// The first that is not.
pub fn outcomes(outcomes: &[Outcome]) -> Result<(), Invalid> {
    outcomes.iter().try_for_each(outcome)
}

/// Whether this says who registers. A constellation's target is not looked at.
///
/// # Errors
/// It is no registration, or without a client id.
pub fn registration(message: &ClientMessage) -> Result<(), Invalid> {
    client_type(message, ClientMessageType::Register)?;
    present("client_id", message.client_id.as_deref())
}

/// Whether this says what is to be done and who wants it.
///
/// # Errors
/// It is no task, or one of them is missing.
pub fn task_request(message: &ClientMessage) -> Result<(), Invalid> {
    client_type(message, ClientMessageType::Task)?;
    present("request", message.request.as_deref())?;
    present("client_id", message.client_id.as_deref())
}

/// Whether this says which commands ended, and how. A list without results is fine.
///
/// # Errors
/// It is of another type, or one of them is missing.
pub fn command_results(message: &ClientMessage) -> Result<(), Invalid> {
    client_type(message, ClientMessageType::CommandResults)?;
    present("prev_response_id", message.prev_response_id.as_deref())?;
    match &message.action_results {
        Some(results) => outcomes(results),
        None => Err(Invalid::Missing("action_results")),
    }
}

/// Whether a client can use this. Commands need something to run and an id to answer.
///
/// # Errors
/// It has commands to run, but not what they need.
pub fn server_message(message: &ServerMessage) -> Result<(), Invalid> {
    if message.kind != ServerMessageType::Command {
        return Ok(());
    }
    match &message.actions {
        Some(actions) if !actions.is_empty() => {}
        Some(_) | None => return Err(Invalid::Missing("actions")),
    }
    present("response_id", message.response_id.as_deref())
}

/// Makes a task's name fit for a path: what is not allowed becomes `_`, and dots in front go.
/// None if nothing is left, and the task needs a made-up name.
pub fn sanitise_task_name(name: &str) -> Option<String> {
    let name: String = name.chars().map(|letter| if is_allowed(letter) { letter } else { '_' }).collect();
    let name = name.trim_start_matches('.');
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether a name can be used as it is.
pub fn is_task_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_allowed)
}

fn client_type(message: &ClientMessage, kind: ClientMessageType) -> Result<(), Invalid> {
    if message.kind == kind { Ok(()) } else { Err(Invalid::Type(kind.as_str())) }
}

fn present(field: &'static str, text: Option<&str>) -> Result<(), Invalid> {
    if text.is_none_or(str::is_empty) { Err(Invalid::Missing(field)) } else { Ok(()) }
}

const fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}
