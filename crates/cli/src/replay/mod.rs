//! `switchboard replay`: plays a recording again, and says what is not as it was.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock;
use crate::console::Console;
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::progress::Bar;
use crate::recording::placeholder::{self, KEY, Piece, SERVER, numbered};
use crate::recording::target::Target;
use crate::recording::{Body, Entry, Recording, Request, Side, What};

mod compare;
mod dial;
mod expect;
mod hear;
mod link;
mod log;
mod player;
mod say;
mod stage;
mod turns;
mod variables;

use player::{Pace, Played, Player};
use stage::{COMMANDS, Stage};
use variables::Variables;

/// Arguments of `replay`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  switchboard replay bug.jsonl --to ws://127.0.0.1:4600 --check
  switchboard replay bug.jsonl --to wss://host --key env:MY_KEY --fast
  switchboard replay bug.jsonl --serve 127.0.0.1:4610
  switchboard replay session.jsonl --check

A wire recording: --to plays the client's side for a server, --serve the server's side for a client.
Each message waits until what was recorded before it has come. With --check, what comes is compared
with what was recorded; ids, times, tokens and positions may be others, but must stay what they are.

A log recording: --check alone applies its events to an empty session and compares the state with the
one in the file; --to says again over ASP what was asked, and with --check compares the answers.

What the client calls things is said as it was recorded: a server that has seen a recording before may
know them already. Exit codes: 0 as recorded, 1 not as recorded, 3 no connection.")]
pub(crate) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The server to drive: ws, wss, http or https
    #[arg(long, value_name = "URL", conflicts_with = "serve")]
    to: Option<String>,
    /// Where to wait for the client to drive
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
    /// Compare what comes back with what was recorded
    #[arg(long)]
    check: bool,
    /// How much faster than it was recorded
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, conflicts_with = "fast")]
    speed: f64,
    /// Wait for answers only
    #[arg(long)]
    fast: bool,
    /// A credential in place of the first one that was taken out of the recording; again for the
    /// next. env:NAME reads it from the environment
    #[arg(long = "key", value_name = "KEY")]
    keys: Vec<String>,
    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    patience: u64,
    /// A PEM file with the certificate authorities to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Shows no key.
impl std::fmt::Debug for Args {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Args").field("file", &self.file).field("to", &self.to).finish_non_exhaustive()
    }
}

/// Runs `replay`.
pub(crate) async fn run(args: Args, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let recording = Recording::read(&args.file)?;
    let keys = keys(&args.keys, environment)?;
    match (recording.body, &args.to, args.serve) {
        (Body::Log { events, outcome }, to, None) => {
            log::run(&args, &recording.header, &events, &outcome, to.as_deref(), keys, console).await
        }
        (Body::Log { .. }, _, Some(_)) => {
            Err(Failure::usage("a log recording holds no wire: it can be checked, or sent --to a server"))
        }
        (Body::Wire(entries), Some(url), None) => {
            let (wanted, given) = (wanted_keys(&entries), keys.len());
            if given < wanted {
                console.note(&format!(
                    "credentials taken out of the recording: {wanted}, given: {given}; the rest is left out, --key brings one"
                ));
            }
            let target = Target::new(url, args.ca_file.as_ref())?;
            to_server(&args, target, entries, keys, console).await
        }
        (Body::Wire(entries), _, Some(address)) => to_client(&args, address, entries, keys, console).await,
        (Body::Wire(_), None, None) => Err(Failure::usage(format!(
            "this is a wire recording of {}: name a server with --to, or an address for clients with --serve",
            recording.header.protocol
        ))),
    }
}

async fn to_server(
    args: &Args,
    target: Target,
    entries: Vec<(usize, Entry)>,
    keys: Vec<String>,
    console: &Console,
) -> Result<(), Failure> {
    let (sender, events) = mpsc::channel(EVENTS);
    let variables = variables(keys, target.authority.clone());
    let player = Player::new(Side::Client, entries, variables, events);
    let open = |on: u32, request: Request| {
        let (link, commands) = mpsc::channel(COMMANDS);
        tokio::spawn(dial::dial(target.clone(), on, request, commands, sender.clone()));
        link
    };
    play(args, player, open, console).await
}

async fn to_client(
    args: &Args,
    address: SocketAddr,
    entries: Vec<(usize, Entry)>,
    keys: Vec<String>,
    console: &Console,
) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::usage(format!("{address} cannot be listened on: {error}; name another with --serve"))
    })?;
    let address = listener.local_addr()?;
    console.note(&format!("listening on ws://{address}"));
    let (sender, events) = mpsc::channel(EVENTS);
    let roles = entries.iter().filter_map(|(_, entry)| Some((entry.on, entry.what.request()?.clone())));
    let stage = Stage::new(roles.collect(), sender);
    let player = Player::new(Side::Server, entries, variables(keys, address.to_string()), events);
    // The player of a server makes no connections.
    let open = |_, _| mpsc::channel(1).0;
    tokio::select! {
        () = stage.serve(listener) => Ok(()),
        played = play(args, player, open, console) => played,
    }
}

async fn play(
    args: &Args,
    player: Player,
    open: impl Fn(u32, Request) -> mpsc::Sender<What>,
    console: &Console,
) -> Result<(), Failure> {
    let speed = (!args.fast).then_some(args.speed);
    let pace = Pace { speed, patience: Duration::from_secs(args.patience) };
    let began = Instant::now();
    let mut bar = Bar::new();
    let played = tokio::select! {
        played = player.play(pace, &mut bar, open) => played?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::silent(Exit::Interrupted)),
    };
    report(args, &played, began.elapsed(), console)
}

fn report(args: &Args, played: &Played, took: Duration, console: &Console) -> Result<(), Failure> {
    let Played { differences, said, heard, met, bound } = played;
    let took = clock::short(took);
    if !args.check {
        return console.line(&format!("replayed: {said} entries said, {heard} heard, in {took}"));
    }
    if differences.is_empty() {
        return console
            .line(&format!("as recorded: {met} messages came back in {took}; {bound} ids stand for others"));
    }
    console.print(&compare::text(differences, console.palette()))?;
    let count = differences.len();
    let plural = if count == 1 { "" } else { "s" };
    Err(Failure::failed(format!("not as recorded: {count} difference{plural}; - was recorded, + came now")))
}

/// How many credentials the recorded clients brought.
fn wanted_keys(entries: &[(usize, Entry)]) -> usize {
    let requests = entries.iter().filter_map(|(_, entry)| entry.what.request());
    let texts = requests.flat_map(|request| {
        request.headers.iter().map(|(_, value)| value.as_str()).chain([request.target.as_str()])
    });
    let names = texts.flat_map(placeholder::pieces).filter_map(|piece| match piece {
        Piece::Held { name, .. } => Some(name),
        Piece::Plain(_) => None,
    });
    names.filter(|name| name.starts_with(KEY)).collect::<BTreeSet<_>>().len()
}

/// What placeholders stand for from the beginning.
fn variables(keys: Vec<String>, server: String) -> Variables {
    let keys = keys.into_iter().zip(1..).map(|(key, number)| (numbered(KEY, number), key));
    Variables::new(keys.chain([(SERVER.to_owned(), server)]))
}

fn keys(given: &[String], environment: &Environment) -> Result<Vec<String>, Failure> {
    let read = |key: &String| match key.strip_prefix("env:") {
        None => Ok(key.clone()),
        Some(name) => environment
            .find(name)
            .map(str::to_owned)
            .ok_or_else(|| Failure::usage(format!("the environment variable {name} is not set, or empty"))),
    };
    given.iter().map(read).collect()
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.01..=1_000.0).contains(&factor) => Ok(factor),
        Ok(_) | Err(_) => Err("expected a factor from 0.01 to 1000, such as 2".to_owned()),
    }
}

/// What may have been heard and not yet been compared.
const EVENTS: usize = 1_024;
