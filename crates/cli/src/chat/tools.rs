//! Tools of the client: commands of the shell that the agent may have run.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use switchboard_client::asp::{Connect, ToolDef, ToolFailure, tool};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

/// A tool, and the command behind it.
#[derive(Clone, Debug)]
pub(super) struct LocalTool {
    pub(super) definition: ToolDef,
    pub(super) command: String,
}

impl FromStr for LocalTool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
        let command = command.trim().to_owned();
        if command.is_empty() {
            return Err("the command is empty".to_owned());
        }
        let description = format!("Runs `{command}` on the user's machine; arguments are JSON on its input.");
        let schema = serde_json::json!({"type": "object"});
        let definition = tool(name.trim(), &description, schema).map_err(|error| error.to_string())?;
        Ok(Self { definition, command })
    }
}

/// The user is asked whether a tool may run.
#[derive(Debug)]
pub(super) struct Consent {
    /// What is to be run.
    pub(super) command: String,
    /// The arguments it gets.
    pub(super) args: Value,
    /// Whether it may.
    pub(super) reply: oneshot::Sender<bool>,
}

/// Where to ask for consent.
pub(super) type Consents = mpsc::Sender<Consent>;

/// Executes calls with these tools, after asking if there is somebody to ask.
pub(super) fn handle(options: Connect, tools: &[LocalTool], consents: Option<Consents>) -> Connect {
    let commands = tools.iter().map(|tool| (tool.definition.name.clone(), tool.command.clone()));
    let commands: Arc<BTreeMap<String, String>> = Arc::new(commands.collect());
    options.on_call(move |call| {
        let command = commands.get(&call.name).cloned();
        let consents = consents.clone();
        async move {
            let command = command
                .ok_or_else(|| ToolFailure::new("NOT_FOUND", format!("there is no tool {}", call.name)))?;
            run(&command, &call.args, consents.as_ref()).await
        }
    })
}

/// Runs a command, after asking if there is somebody to ask.
pub(super) async fn run(
    command: &str,
    args: &Value,
    consents: Option<&Consents>,
) -> Result<Value, ToolFailure> {
    if let Some(consents) = consents {
        ask(consents, command, args).await?;
    }
    execute(command, args).await
}

async fn ask(consents: &Consents, command: &str, args: &Value) -> Result<(), ToolFailure> {
    let (reply, answer) = oneshot::channel();
    let consent = Consent { command: command.to_owned(), args: args.clone(), reply };
    let asked = consents.send(consent).await.is_ok();
    if asked && answer.await.unwrap_or(false) {
        Ok(())
    } else {
        Err(ToolFailure::new("DECLINED", "the user does not want this tool to run"))
    }
}

async fn execute(command: &str, args: &Value) -> Result<Value, ToolFailure> {
    let failed = |error: std::io::Error| ToolFailure::new("FAILED", format!("{command}: {error}"));
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let mut input = child.stdin.take();
    let feed = async {
        if let Some(input) = &mut input {
            // A command that does not read its arguments is fine.
            let _ = input.write_all(args.to_string().as_bytes()).await;
        }
        drop(input);
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output.map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(ToolFailure::new("FAILED", format!("{}: {}", output.status, said.trim())));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_commands() {
        let tool: LocalTool = "clock = date -u".parse().unwrap();
        assert_eq!((tool.definition.name.as_str(), tool.command.as_str()), ("clock", "date -u"));
        for wrong in ["clock", "clock=", "a b=c", "=date"] {
            assert!(wrong.parse::<LocalTool>().is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn commands_read_arguments_and_answer_in_json_or_text() {
        let args = serde_json::json!({"a": 1});
        assert_eq!(execute("cat", &args).await, Ok(args.clone()));
        assert_eq!(execute("echo hello", &args).await, Ok(Value::from("hello")));
        let failure = execute("echo no >&2; exit 3", &args).await.unwrap_err();
        assert_eq!(failure.name, "FAILED");
        assert!(failure.message.contains("no"), "{failure}");
    }
}
