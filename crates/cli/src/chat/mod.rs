//! `switchboard chat`: a conversation with an agent, typed, piped or asked once.

use std::io::IsTerminal as _;
use std::time::Duration;

use switchboard_client::asp::{Client, ClientInfo, Invoke, Options};

use crate::clock;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::remote::{Remote, RemoteArgs};

mod input;
mod past;
mod people;
mod programs;
mod screen;
mod talk;
mod tools;
mod view;

use input::Input;
use people::People;
use programs::Programs;
use screen::Screen;
use talk::{Outcome, Talk};
use tools::LocalTool;
use view::{AnswerOnly, Reader, View};

/// Arguments of `chat`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  switchboard chat
  switchboard chat --agent echo --new
  switchboard chat --once \"tell me a story\"
  echo \"count 3\" | switchboard chat --json
  switchboard chat --tool 'clock=date' --once 'call clock'

At the prompt:
  Ctrl-C   while an answer comes: stops it; at the prompt: once more leaves
  Ctrl-D   leaves
  /help    says the same, /quit leaves

The conversation goes on where it was when you come back with the same --session. If the
connection is lost, or the server is restarted, even in the middle of an answer, it heals by itself.

With --once, the answer goes to the output and everything else to the error stream. Exit codes:
0 answered, 1 failed, 3 no connection, 130 interrupted.

With --json, every line is an object with a member `event`: connected, disconnected, resumed, start,
status, text, reasoning, tool, call, ask, data, usage, notice, restarted, end, error.")]
pub(crate) struct Args {
    /// The agent to talk to; the server's default unless given
    #[arg(long)]
    agent: Option<String>,
    /// The name of the conversation, or the id of one that was shared with you
    #[arg(long, value_name = "NAME", default_value = "chat")]
    session: String,
    /// Begin a new conversation instead
    #[arg(long, conflicts_with = "session")]
    new: bool,
    /// Say this, print the answer, and leave; `-` says all of the input
    #[arg(long, value_name = "TEXT")]
    once: Option<String>,
    /// One JSON object per event and line
    #[arg(long)]
    json: bool,
    /// The protocol to speak
    #[arg(long, value_enum, default_value_t = Protocol::Asp)]
    protocol: Protocol,
    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    timeout: Option<u32>,
    /// Offer the agent a tool: a command of the shell, which gets the arguments as JSON on its
    /// input and answers on its output; may be repeated
    #[arg(long = "tool", value_name = "NAME=COMMAND")]
    tools: Vec<LocalTool>,
    /// Run tools without asking
    #[arg(long)]
    yes: bool,
    /// Do not show what was said before
    #[arg(long)]
    no_history: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// What to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Protocol {
    /// Agent Socket Protocol
    Asp,
}

/// Runs `chat`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let Protocol::Asp = args.protocol;
    let remote = args.remote.remote(environment)?;
    let session = if args.new { fresh_name()? } else { args.session.clone() };
    if session.is_empty() || session.len() > MAX_SESSION {
        return Err(Failure::usage(format!("the name of a session has 1 to {MAX_SESSION} bytes")));
    }
    let (consents, questions) = tokio::sync::mpsc::channel(16);
    let options = options(&args, &remote, consents);
    let client = Client::connect(options).await.map_err(|error| remote.disconnected(&error))?;

    let typed = args.once.is_none() && std::io::stdin().is_terminal() && console.is_terminal();
    let input = if typed { Input::editor(environment.state_folder())? } else { Input::lines() };
    let screen = Screen::new(console.palette(), input.printer());
    let mut view: Box<dyn View> = if args.json {
        Box::new(Programs::new(screen))
    } else if !console.is_terminal() {
        Box::new(AnswerOnly::new(screen, Reader::Other))
    } else if args.once.is_some() {
        Box::new(AnswerOnly::new(screen, Reader::Terminal))
    } else {
        Box::new(People::new(screen))
    };
    if args.once.is_none() {
        view.welcome(&remote.url, &session)?;
        if !args.no_history && !args.new {
            view.past(&past::messages(&remote, &session).await)?;
        }
    }
    let template = Template { session, timeout: args.timeout };
    let mut talk = Talk::new(client, view, input, questions, template)?;
    let result = match &args.once {
        Some(text) => once(&mut talk, text).await,
        None => talk.converse().await,
    };
    talk.leave().await;
    result
}

async fn once(talk: &mut Talk, text: &str) -> Result<(), Failure> {
    let text = if text == "-" { talk.all_input().await? } else { text.to_owned() };
    if text.trim().is_empty() {
        return Err(Failure::usage("there is nothing to say"));
    }
    match talk.say(text).await? {
        Outcome::Done => Ok(()),
        Outcome::Failed => Err(Failure::silent(Exit::Failed)),
        Outcome::Interrupted | Outcome::Leave => Err(Failure::silent(Exit::Interrupted)),
    }
}

fn options(args: &Args, remote: &Remote, consents: tools::Consents) -> Options {
    let mut options = remote.options().client(ClientInfo {
        name: "switchboard-chat".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: Some(std::env::consts::OS.to_owned()),
    });
    if let Some(agent) = &args.agent {
        options = options.agent(agent);
    }
    for tool in &args.tools {
        options = options.tool(tool.definition.clone());
    }
    if args.tools.is_empty() {
        return options;
    }
    let consents = (!args.yes).then_some(consents);
    tools::handle(options, &args.tools, consents)
}

/// What every request of a conversation has in common.
#[derive(Clone, Debug)]
struct Template {
    session: String,
    timeout: Option<u32>,
}

impl Template {
    /// A request; its key makes it harmless to send it twice.
    fn request(&self, text: String) -> Result<Invoke, Failure> {
        let mut invoke = Invoke::chat(text);
        invoke.session = Some(self.session.clone());
        invoke.idem = Some(random(16)?);
        invoke.want = Some(WANTED.iter().map(|&name| name.to_owned()).collect());
        if let Some(seconds) = self.timeout {
            invoke.deadline_ms = seconds.saturating_mul(1_000);
        }
        Ok(invoke)
    }

    /// When to stop waiting for the server to say that it takes too long.
    fn patience(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(u64::from(seconds)) + GRACE)
    }
}

fn fresh_name() -> Result<String, Failure> {
    let time: String = clock::utc(clock::now()).chars().filter(char::is_ascii_digit).collect();
    Ok(format!("chat-{time}-{}", random(2)?))
}

/// So many random bytes, in hexadecimal.
fn random(count: usize) -> Result<String, Failure> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

const WANTED: &[&str] = &["text", "reason", "tool", "data", "usage"];
const MAX_SESSION: usize = 64;
const GRACE: Duration = Duration::from_secs(2);
