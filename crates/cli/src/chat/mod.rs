//! `switchboard chat`: a conversation with an agent, typed, piped or asked once.

use std::io::IsTerminal as _;

use serde_json::Value;
use switchboard_client::acolyte::{self as acolyte_client, StreamClient};
use switchboard_client::asp::{self as asp_client, Client, ClientInfo};
use switchboard_client::{Cause, ConnectionEvent, Fault};
use switchboard_core::hex;

use crate::clock;
use crate::console::{Console, harmless};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::remote::{Remote, RemoteArgs};

mod acolyte;
mod alicia;
mod asp;
mod history;
mod input;
mod past;
mod people;
mod programs;
mod said;
mod screen;
mod talk;
mod tools;
mod view;
mod vip;

use acolyte::{AcolytePeer, Wire};
use asp::AspPeer;
use history::History;
use input::Input;
use past::Past;
use people::People;
use programs::Programs;
use said::{Link, Peer};
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
  switchboard chat --protocol acolyte --session notes
  switchboard chat --protocol alicia --session tea
  switchboard chat --protocol vip

At the prompt:
  Ctrl-C   while an answer comes: stops it; at the prompt: once more leaves
  Ctrl-D   leaves
  /help    says the same, /quit leaves

The conversation goes on where it was when you come back with the same --session. If the
connection is lost, or the server is restarted, even in the middle of an answer, it heals by itself.

Over Acolyte, this client tells the server the history with every message: what the server shows
of the session, and what is said from then on. Its sessions are apart from those of ASP; NAME is
the session sess_NAME, and has lower-case letters and digits only. --agent is the model asked for.
The agent cannot ask questions or use tools of this machine there. With acolyte-sse every message
is a request of its own: an answer that is cut off is lost.

Over Alicia, NAME is the title of a conversation, or its id, ac_…. Everything that was said stays
there, also what was asked anew or answered again: /branches shows it, and /help what else there is.
The server chooses the agent.

Over VIP, every conversation is a new one, typed; the credential is an App Token, and none is needed
while the server allows development. What the agent must not do without consent is asked: y or n.

With --once, the answer goes to the output and everything else to the error stream. Exit codes:
0 answered, 1 failed, 3 no connection, 130 interrupted.

With --json, every line is an object with a member `event`: connected, disconnected, resumed, start,
status, text, reasoning, tool, call, ask, data, usage, notice, restarted, end, error.")]
pub(crate) struct Args {
    /// The agent to talk to, over Acolyte the model; the server's default unless given
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
    /// Acolyte over WebSocket
    Acolyte,
    /// Acolyte over HTTP and server-sent events
    AcolyteSse,
    /// Alicia over WebSocket
    Alicia,
    /// VIP over WebSocket, typed
    Vip,
}

/// Runs `chat`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let session = match args.protocol {
        Protocol::Asp => asp_session(&args)?,
        Protocol::Acolyte | Protocol::AcolyteSse => acolyte_session(&args)?,
        Protocol::Alicia if args.new => "new".to_owned(),
        Protocol::Vip => "new".to_owned(),
        Protocol::Alicia => asp_session(&args)?,
    };
    let (consents, questions) = tokio::sync::mpsc::channel(16);
    let meeting = match args.protocol {
        Protocol::Asp => meet_asp(&args, &remote, &session, consents).await?,
        Protocol::Acolyte | Protocol::AcolyteSse => meet_acolyte(&args, &remote, &session).await?,
        Protocol::Alicia => meet_alicia(&args, &remote, &session, consents).await?,
        Protocol::Vip => meet_vip(&args, &remote).await?,
    };
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
        if !args.no_history {
            view.past(&meeting.past)?;
        }
    }
    if let Some(note) = meeting.note {
        view.note(note)?;
    }
    let mut talk = Talk::new(meeting.peer, view, input, questions)?;
    let result = match &args.once {
        Some(text) => once(&mut talk, text).await,
        None => talk.converse().await,
    };
    talk.leave().await;
    result
}

/// Somebody to talk to, and what was said to them before.
struct Meeting {
    peer: Box<dyn Peer>,
    /// The newest first.
    past: Vec<Past>,
    /// Something the user should know before it begins.
    note: Option<&'static str>,
}

async fn meet_asp(
    args: &Args,
    remote: &Remote,
    session: &str,
    consents: tools::Consents,
) -> Result<Meeting, Failure> {
    let options = options(args, remote, consents);
    let client = Client::connect(options).await.map_err(|error| remote.disconnected(&error))?;
    let peer = Box::new(AspPeer::new(client, session.to_owned(), args.timeout));
    let wanted = args.once.is_none() && !args.no_history && !args.new;
    let past = if wanted { past::messages(remote, session, SHOWN).await } else { None };
    let past = past.iter().flatten().map(Past::from).collect();
    Ok(Meeting { peer, past, note: None })
}

async fn meet_alicia(
    args: &Args,
    remote: &Remote,
    session: &str,
    consents: tools::Consents,
) -> Result<Meeting, Failure> {
    if args.agent.is_some() {
        return Err(Failure::usage("over Alicia, the server chooses the agent; leave out --agent"));
    }
    let wanted = alicia::Wanted {
        session: (!args.new).then_some(session),
        past: if args.once.is_none() && !args.no_history { SHOWN } else { 0 },
        tools: &args.tools,
        consents: (!args.yes).then_some(consents),
        timeout: args.timeout,
    };
    let (peer, past) = alicia::meet(remote, wanted).await?;
    Ok(Meeting { peer: Box::new(peer), past, note: None })
}

async fn meet_vip(args: &Args, remote: &Remote) -> Result<Meeting, Failure> {
    if args.agent.is_some() {
        return Err(Failure::usage("over VIP, the server chooses the agent; leave out --agent"));
    }
    if !args.tools.is_empty() {
        return Err(Failure::usage("over VIP, apps have actions and no tools; use --protocol asp"));
    }
    let peer = Box::new(vip::meet(remote, args.timeout).await?);
    Ok(Meeting { peer, past: Vec::new(), note: None })
}

async fn meet_acolyte(args: &Args, remote: &Remote, session: &str) -> Result<Meeting, Failure> {
    if !args.tools.is_empty() {
        return Err(Failure::usage(
            "over Acolyte, agents cannot use tools of this machine; use --protocol asp",
        ));
    }
    let options = remote.connect();
    let (wire, default) = if args.protocol == Protocol::AcolyteSse {
        let connected = StreamClient::connect(&options).await;
        let (client, status) = connected.map_err(|error| remote.disconnected(&error))?;
        let model = status.get("model").and_then(Value::as_str).map(str::to_owned);
        (Wire::Stream(client), model)
    } else {
        let connected = acolyte_client::Client::connect(options).await;
        let client = connected.map_err(|error| remote.disconnected(&error))?;
        let (events, model) = (client.events(), client.snapshot().model().map(str::to_owned));
        (Wire::Socket(client, events), model)
    };
    let model = args.agent.clone().or(default).unwrap_or_default();
    let past = if args.new { Some(Vec::new()) } else { past::messages(remote, session, TOLD).await };
    let note = past.is_none().then_some(UNTOLD);
    let past = past.unwrap_or_default();
    let history = History::new(&past)?;
    let peer = Box::new(AcolytePeer::new(wire, session.to_owned(), model, history, args.timeout));
    let past = past.iter().take(SHOWN).map(Past::from).collect();
    Ok(Meeting { peer, past, note })
}

fn asp_session(args: &Args) -> Result<String, Failure> {
    let session = if args.new { fresh_name("-")? } else { args.session.clone() };
    if session.is_empty() || session.len() > MAX_SESSION {
        return Err(Failure::usage(format!("the name of a session has 1 to {MAX_SESSION} bytes")));
    }
    Ok(session)
}

/// Over Acolyte, sessions are called `sess_` and something.
fn acolyte_session(args: &Args) -> Result<String, Failure> {
    let name = if args.new { fresh_name("")? } else { args.session.clone() };
    let name = name.strip_prefix("sess_").unwrap_or(&name);
    let session = format!("sess_{name}");
    if acolyte_client::is_id(&session, "sess") && name.len() <= MAX_SESSION {
        return Ok(session);
    }
    let allowed = |character: &char| character.is_ascii_lowercase() || character.is_ascii_digit();
    let nearest: String = name.to_lowercase().chars().filter(allowed).take(MAX_SESSION).collect();
    let advice = if nearest.is_empty() { String::new() } else { format!("; try --session {nearest}") };
    Err(Failure::usage(format!(
        "over Acolyte, the name of a session has 1 to {MAX_SESSION} lower-case letters and digits and \
         nothing else, which {name:?} has not{advice}"
    )))
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

/// What happens to a connection, as it is shown.
fn link<F: Fault>(event: ConnectionEvent<F>) -> Link {
    match event {
        ConnectionEvent::Connected => Link::Connected { connection: None },
        ConnectionEvent::Resumed { lost } => Link::Resumed { lost },
        ConnectionEvent::Disconnected { cause, retry_in } => {
            Link::Lost { why: cause_words(&cause), retry_in }
        }
        ConnectionEvent::Closed { cause } => Link::Over { why: cause_words(&cause) },
    }
}

/// Why a connection is gone.
fn cause_words<F: Fault>(cause: &Cause<F>) -> String {
    match cause {
        Cause::Unreachable(_) => "the server cannot be reached".to_owned(),
        Cause::Closed(1006) => "it broke off".to_owned(),
        Cause::Closed(1001 | 1012) => "the server leaves".to_owned(),
        Cause::Closed(1008 | 4401) => "the credential is not valid any more".to_owned(),
        Cause::Refused(_) | Cause::Closed(_) | Cause::Silent | Cause::Left | Cause::Protocol(_) => {
            harmless(&cause.to_string())
        }
    }
}

fn options(args: &Args, remote: &Remote, consents: tools::Consents) -> asp_client::Connect {
    let mut options = remote.connect::<asp_client::Settings>().client(ClientInfo {
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

fn fresh_name(between: &str) -> Result<String, Failure> {
    let time: String = clock::utc(clock::now()).chars().filter(char::is_ascii_digit).collect();
    Ok(format!("chat{between}{time}{between}{}", random(2)?))
}

/// So many random bytes, in hexadecimal.
fn random(count: usize) -> Result<String, Failure> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(hex(&bytes))
}

/// Structured output of this type is a list.
const CHECKLIST: &str = "application/vnd.switchboard.checklist+json";
const MAX_SESSION: usize = 64;
/// Messages of the past that are shown.
const SHOWN: usize = 20;
/// Messages of the past that an agent is told of.
const TOLD: usize = 200;
const UNTOLD: &str = "what was said before cannot be read here, so the agent is not told of it";
