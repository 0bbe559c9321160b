//! The tools of this device: what they are called, what they take, and who may use them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use switchboard_client::aip::{ToolCall, ToolFailure, ToolInfo, ToolType, Tools};
use tokio::sync::mpsc;

use super::allow::{Allowed, Line};
use super::consent::Consent;
use super::facts::Machine;
use super::files::{self, DEFAULT_READ, MAX_ENTRIES, MAX_READ, MAX_WRITE};
use super::process::{Host, MAX_OUTPUT};
use super::root::{Access, Root};
use super::screenshot::Camera;
use crate::console::one_line;

/// The tools, and what they work on.
#[derive(Debug)]
pub(super) struct Toolbox {
    pub(super) id: String,
    pub(super) root: Arc<Root>,
    pub(super) machine: Machine,
    pub(super) host: Host,
    /// What takes pictures of the screen.
    pub(super) screen: Host,
    /// Whether the user is asked before something in the folder is read.
    pub(super) asks_to_read: bool,
    /// Whether the user is asked before a picture of the screen is taken.
    pub(super) asks_to_look: bool,
    pub(super) camera: Option<Camera>,
    pub(super) allowed: Allowed,
    pub(super) consent: Consent,
    /// Where to tell what is being done; dropped lines are no harm.
    pub(super) voice: mpsc::Sender<Said>,
}

/// What a tool tells the user.
#[derive(Debug)]
pub(super) enum Said {
    /// A tool begins.
    Running(String),
    /// It has ended.
    Done { what: String, result: Result<Option<i64>, String>, took: Duration },
}

impl Tools for Toolbox {
    async fn run(&self, call: ToolCall) -> Result<Value, ToolFailure> {
        let asked = call.asked.clone();
        let order = Order::read(call)?;
        let what = order.to_string();
        let began = now();
        let result = match self.permit(&order, &asked).await {
            Ok(()) => {
                let _ = self.voice.try_send(Said::Running(what.clone()));
                self.carry_out(order).await
            }
            Err(refused) => Err(refused),
        };
        let said = match &result {
            Ok(result) => Ok(result.get("exit_code").and_then(Value::as_i64)),
            Err(failure) => Err(failure.message.clone()),
        };
        let _ = self.voice.try_send(Said::Done { what, result: said, took: began.elapsed() });
        result
    }

    fn list(&self) -> Vec<ToolInfo> {
        list(self.camera.is_some())
    }

    fn facts(&self) -> Option<Map<String, Value>> {
        Some(self.machine.facts(&self.id))
    }

    fn namespace(&self) -> Option<String> {
        Some(NAMESPACE.to_owned())
    }
}

impl Toolbox {
    /// Whether this may be done at all.
    async fn permit(&self, order: &Order, asked: &[String]) -> Result<(), ToolFailure> {
        let place = |path: &str| shown(&Line::Words(vec![path.to_owned()]));
        match order {
            Order::ReadFile(ReadFile { path, .. }) | Order::ListDirectory(ListDirectory { path }) => {
                if !self.asks_to_read {
                    return Ok(());
                }
                self.consent.obtain(&format!("read {}", place(path)), asked).await
            }
            Order::Screenshot if self.asks_to_look => {
                self.consent.obtain("take a picture of the whole screen", asked).await
            }
            Order::Screenshot | Order::DeviceInfo => Ok(()),
            Order::WriteFile(WriteFile { path, content, append }) => {
                let size = content.len();
                if size > MAX_WRITE {
                    return Err(ToolFailure::new(format!("{size} bytes are more than {MAX_WRITE}")));
                }
                let how = if *append { "append" } else { "write" };
                let place = place(path);
                self.consent.obtain(&format!("{how} {size} bytes to {place}"), asked).await
            }
            Order::RunCommand(command) => {
                let line = command.line()?;
                if self.allowed.permits(&line) {
                    return Ok(());
                }
                self.consent.obtain(&format!("run {}", shown(&line)), asked).await
            }
        }
    }

    async fn carry_out(&self, order: Order) -> Result<Value, ToolFailure> {
        let root = self.root.clone();
        match order {
            Order::ReadFile(ReadFile { path, offset, limit }) => {
                blocking(move || files::read(&root, &path, offset, limit)).await
            }
            Order::ListDirectory(ListDirectory { path }) => blocking(move || files::list(&root, &path)).await,
            Order::WriteFile(WriteFile { path, content, append }) => {
                let access = if append { Access::Append } else { Access::Replace };
                blocking(move || files::write(&root, &path, &content, access)).await
            }
            Order::RunCommand(command) => self.run_command(command).await,
            Order::Screenshot => match &self.camera {
                Some(camera) => camera.take(&self.screen).await,
                None => Err(ToolFailure::new("there is no screen, or no program that takes pictures of it")),
            },
            Order::DeviceInfo => Ok(Value::Object(self.machine.facts(&self.id))),
        }
    }

    async fn run_command(&self, command: RunCommand) -> Result<Value, ToolFailure> {
        let folder = self.root.folder(&command.folder)?;
        let mut line = command.line()?;
        // What the shell does itself is no program.
        if let (Line::Words(words), Some(text)) = (&line, &command.command)
            && !self.allowed.permits(&line)
            && words.first().is_some_and(|name| !name.contains('/') && self.host.find(name).is_none())
        {
            line = Line::Shell(text.clone());
        }
        let limit =
            Duration::from_secs(command.timeout_s.unwrap_or(DEFAULT_TIMEOUT_S).clamp(1, MAX_TIMEOUT_S));
        self.host.run(&line, &folder, limit).await
    }
}

/// A command with its parameters.
#[derive(Debug)]
enum Order {
    ReadFile(ReadFile),
    ListDirectory(ListDirectory),
    WriteFile(WriteFile),
    RunCommand(RunCommand),
    Screenshot,
    DeviceInfo,
}

impl Order {
    fn read(call: ToolCall) -> Result<Self, ToolFailure> {
        fn parameters<T: DeserializeOwned>(call: ToolCall) -> Result<T, ToolFailure> {
            let ToolCall { name, parameters, .. } = call;
            // Absent and null are the same (§3).
            let parameters = parameters.into_iter().filter(|(_, value)| !value.is_null()).collect();
            serde_json::from_value(Value::Object(parameters))
                .map_err(|error| ToolFailure::new(format!("{name}: {error}")))
        }
        match call.name.as_str() {
            "read_file" => parameters(call).map(Self::ReadFile),
            "list_directory" => parameters(call).map(Self::ListDirectory),
            "write_file" => parameters(call).map(Self::WriteFile),
            "run_command" => parameters(call).map(Self::RunCommand),
            "screenshot" => Ok(Self::Screenshot),
            "device_info" => Ok(Self::DeviceInfo),
            name => Err(ToolFailure::new(format!("this device has no tool {}", one_line(name, 64)))),
        }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::ReadFile(order) => format!("read_file {}", order.path),
            Self::ListDirectory(order) => format!("list_directory {}", order.path),
            Self::WriteFile(order) => format!("write_file {}", order.path),
            Self::RunCommand(order) => match (&order.command, &order.argv) {
                (Some(command), _) => format!("run_command {command}"),
                (None, Some(argv)) => format!("run_command {}", argv.join(" ")),
                (None, None) => "run_command".to_owned(),
            },
            Self::Screenshot => "screenshot".to_owned(),
            Self::DeviceInfo => "device_info".to_owned(),
        };
        formatter.write_str(&one_line(&text, LINE))
    }
}

#[derive(Debug, Deserialize)]
struct ReadFile {
    path: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct ListDirectory {
    #[serde(default = "here")]
    path: String,
}

#[derive(Debug, Deserialize)]
struct WriteFile {
    path: String,
    content: String,
    #[serde(default)]
    append: bool,
}

#[derive(Debug, Deserialize)]
struct RunCommand {
    command: Option<String>,
    argv: Option<Vec<String>>,
    #[serde(default = "here")]
    folder: String,
    timeout_s: Option<u64>,
}

impl RunCommand {
    fn line(&self) -> Result<Line, ToolFailure> {
        match (&self.command, &self.argv) {
            (Some(command), None) if !command.trim().is_empty() => Ok(Line::parse(command)),
            (None, Some(argv)) if argv.first().is_some_and(|name| !name.is_empty()) => {
                Ok(Line::Words(argv.clone()))
            }
            (_, _) => Err(ToolFailure::new("run_command: give either `command`, a line, or `argv`, a list")),
        }
    }
}

fn here() -> String {
    ".".to_owned()
}

/// A line so that a person sees all of it, whatever letters are in it.
fn shown(line: &Line) -> String {
    let plain = |text: &str| text.chars().all(|letter| letter == ' ' || letter.is_ascii_graphic());
    match line {
        Line::Shell(text) if plain(text) => text.clone(),
        Line::Shell(text) => format!("{text:?}"),
        Line::Words(words) => {
            let simple =
                |word: &String| plain(word) && !word.is_empty() && !word.contains([' ', '"', '\'', '\\']);
            let word = |word: &String| if simple(word) { word.clone() } else { format!("{word:?}") };
            words.iter().map(word).collect::<Vec<String>>().join(" ")
        }
    }
}

/// Runs what waits for disks where it holds up nobody.
async fn blocking(
    work: impl FnOnce() -> Result<Value, ToolFailure> + Send + 'static,
) -> Result<Value, ToolFailure> {
    let broke = |_| ToolFailure::new("the tool broke");
    tokio::task::spawn_blocking(work).await.map_err(broke)?
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "how long a tool takes is only shown")]
    Instant::now()
}

/// What `list_tools` answers (§3.4).
fn list(camera: bool) -> Vec<ToolInfo> {
    let path = json!({ "type": "string", "description": "Seen from the folder that the device shares." });
    let (default, most) = (DEFAULT_READ, MAX_READ);
    let mut tools = vec![
        tool(
            ("read_file", "Read a file", Effect::Looks),
            &format!("Reads a part of a file. Binary content comes as base64. At most {most} bytes at once."),
            json!({
                "path": path,
                "offset": { "type": "integer", "minimum": 0, "description": "First byte; 0 unless given." },
                "limit": { "type": "integer", "minimum": 1, "maximum": most,
                           "description": format!("Bytes to read; {default} unless given.") },
            }),
            &["path"],
        ),
        tool(
            ("list_directory", "List a folder", Effect::Looks),
            &format!("Lists names, kinds and sizes of what is in a folder, at most {MAX_ENTRIES}."),
            json!({ "path": path }),
            &[],
        ),
        tool(
            ("run_command", "Run a command", Effect::Destroys),
            &format!(
                "Runs a command without a terminal and answers its exit code and output, at most {MAX_OUTPUT} \
                 bytes of each stream. The device's user may be asked, and may refuse."
            ),
            json!({
                "command": { "type": "string", "description": "A line for the shell." },
                "argv": { "type": "array", "items": { "type": "string" }, "minItems": 1,
                          "description": "Instead of `command`: a program and its arguments, as they are." },
                "folder": { "type": "string", "description": "Where to run it, within the shared folder." },
                "timeout_s": { "type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_S,
                               "description": format!("{DEFAULT_TIMEOUT_S} unless given.") },
            }),
            &[],
        ),
        tool(
            ("write_file", "Write a file", Effect::Destroys),
            "Writes a text file: replaces it, or adds to it. The device's user may be asked, and may refuse.",
            json!({
                "path": path,
                "content": { "type": "string" },
                "append": { "type": "boolean", "description": "Add to what is there; false unless given." },
            }),
            &["path", "content"],
        ),
        tool(
            ("device_info", "About the device", Effect::Looks),
            "What the device is like now: system, processors, memory, disk, screen.",
            json!({}),
            &[],
        ),
    ];
    if camera {
        let about = "Takes a picture of the whole screen; a PNG as base64.";
        tools.push(tool(
            ("screenshot", "Take a picture of the screen", Effect::Looks),
            about,
            json!({}),
            &[],
        ));
    }
    tools
}

/// What a tool does to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Looks,
    Destroys,
}

fn tool(
    (name, title, effect): (&str, &str, Effect),
    about: &str,
    properties: Value,
    required: &[&str],
) -> ToolInfo {
    let looks = effect == Effect::Looks;
    let tool_type = if looks { ToolType::DataCollection } else { ToolType::Action };
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let annotations = json!({ "readOnlyHint": looks, "destructiveHint": !looks, "idempotentHint": looks, "openWorldHint": false });
    let object = |value: Value| value.as_object().cloned();
    ToolInfo {
        tool_key: format!("{tool_type}::{name}"),
        tool_name: name.to_owned(),
        title: Some(title.to_owned()),
        namespace: NAMESPACE.to_owned(),
        tool_type: tool_type.to_string(),
        description: Some(about.to_owned()),
        input_schema: object(schema),
        output_schema: None,
        meta: None,
        annotations: object(annotations),
    }
}

const NAMESPACE: &str = "switchboard";
const DEFAULT_TIMEOUT_S: u64 = 60;
const MAX_TIMEOUT_S: u64 = 600;
/// As much of an order as is shown.
const LINE: usize = 120;
