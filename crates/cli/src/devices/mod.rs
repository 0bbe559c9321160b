//! `switchboard devices`: which devices a server knows, what they are like, and what they can be had
//! do.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use switchboard_client::admin::{AdminError, Device, DevicesQuery};
use switchboard_client::aip::{Cause, ConnectError, Constellation, ConstellationConfig, Fault};
use switchboard_core::Callsign;

use crate::clock;
use crate::console::{Console, Palette, harmless, one_line};
use crate::device::facts::hostname;
use crate::environment::Environment;
use crate::failure::Failure;
use crate::remote::{Remote, RemoteArgs};
use crate::sessions::table::Table;
use crate::sessions::{at_least_one, to_json};

mod follow;
mod run;
mod story;

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List devices, connected or not
    #[command(
        after_help = "Examples:\n  switchboard devices list\n  switchboard devices list --online --json"
    )]
    List(ListArgs),
    /// Show what the server knows of a device
    #[command(after_help = "Example:\n  switchboard devices show lab-1")]
    Show(ShowArgs),
    /// Ask a device what it is like now
    #[command(after_help = "Example:\n  switchboard devices info lab-1 --json")]
    Info(ShowArgs),
    /// Free the name of a device for others; needs the scope admin
    #[command(after_help = "\
Example:
  switchboard devices release lab-1

A credential that names no devices in its scopes can only register names that nobody else has had.
After this, whoever registers the name next has it. Names that the device: scopes of keys cover stay
reserved for the principals of these keys; to free those, change the keys.")]
    Release(ShowArgs),
    /// Have a device do something, and watch
    #[command(after_help = "\
Examples:
  switchboard devices run \"run: uname -a\" --device lab-1
  switchboard devices run \"list: .\" --device lab-1 --json

The server's agent decides which commands the device is sent. The answer goes to the output,
everything else to the error stream. Ctrl-C cancels the task. The task remains as a session;
`switchboard sessions list` names it.

Exit codes: 0 done, 1 failed, 3 no connection, 130 cancelled.

With --json, every line is an object with a member `event`: accepted, queued, call, result, text,
status, end.")]
    Run(run::Args),
}

/// Arguments of `devices list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only devices that are connected
    #[arg(long, conflicts_with = "offline")]
    online: bool,
    /// Only devices that are not connected
    #[arg(long)]
    offline: bool,
    /// Only devices of this principal; others than yourself need the scope admin
    #[arg(long, value_name = "PRINCIPAL")]
    owner: Option<String>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = at_least_one)]
    limit: usize,
    /// One JSON object per device and line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Arguments of `devices show`, `devices info` and `devices release`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// What the device is called
    #[arg(value_name = "DEVICE")]
    device: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `devices`.
pub(crate) async fn run(
    command: Command,
    environment: &Environment,
    console: &Console,
) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(&args, environment, console).await,
        Command::Show(args) => show(&args, environment, console).await,
        Command::Info(args) => info(&args, environment, console).await,
        Command::Release(args) => release(&args, environment, console).await,
        Command::Run(args) => run::run(args, environment, console).await,
    }
}

async fn list(args: &ListArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let admin = remote.admin()?;
    let query = DevicesQuery {
        online: (args.online || args.offline).then_some(args.online),
        principal: args.owner.clone(),
        ..DevicesQuery::default()
    };
    let fetch = async |cursor, limit| {
        admin.devices(&DevicesQuery { cursor, limit: Some(limit), ..query.clone() }).await
    };
    let (devices, more) = remote.entries(args.limit, fetch).await?;
    if args.json {
        for device in devices {
            console.line(&to_json(&whole(device)?)?)?;
        }
        return Ok(());
    }
    if devices.is_empty() {
        console.note(match (args.online, args.offline, &args.owner) {
            (true, ..) => "no device is connected; without --online, all that were here are shown",
            (_, true, _) => "no device is away; without --offline, all are shown",
            (.., Some(_)) => "no devices of that owner",
            (.., None) => "no devices yet; `switchboard device --id NAME` makes one of this machine",
        });
        return Ok(());
    }
    let now = clock::now();
    // Whoever sees devices of several people has to know which are whose: names may be the same.
    let owners: BTreeSet<&str> = devices.iter().map(|device| device.row.principal.as_str()).collect();
    let mut table = Table::new(["DEVICE", "PLATFORM", "STATE", "SINCE", "FEATURES", "TAGS"]);
    for device in &devices {
        let (state, since) = match device.row.left_at.filter(|_| !device.online) {
            Some(left) => ("offline", left),
            None => (if device.online { "online" } else { "offline" }, device.row.joined_at),
        };
        let mut name = cell(device.row.device.as_str());
        if owners.len() > 1 {
            name += &format!(" ({})", cell(device.row.principal.as_str()));
        }
        table.row([
            name,
            cell(&device.row.platform),
            state.to_owned(),
            clock::ago(since, now),
            cell(&device.capabilities.join(" ")),
            cell(&device.tags.join(" ")),
        ]);
    }
    console.print(&table.text(console.palette()))?;
    if more {
        console.note(&format!("there are more; --limit {} shows twice as many", args.limit * 2));
    }
    Ok(())
}

/// Words of a device in a table. They stay in their row, whatever they hold.
fn cell(words: &str) -> String {
    one_line(words, 100)
}

async fn release(args: &ShowArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let device = Callsign::from(args.device.as_str());
    let released = remote.admin()?.release(&device).await.map_err(|error| remote.refused(&error))?;
    if args.json {
        return console.line(&to_json(&json!({ "device": device, "released": released }))?);
    }
    let name = cell(&args.device);
    let owners: Vec<String> = released.iter().map(|owner| cell(owner.as_str())).collect();
    console.line(&match owners.as_slice() {
        [] => format!("{name} was free already"),
        owners => format!("{name} is free; it was the name of a device of {}", owners.join(", ")),
    })
}

async fn show(args: &ShowArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let device = remote.admin()?.device(&Callsign::from(args.device.as_str())).await;
    if let Err(AdminError::NotFound(_)) = device {
        let list = "`switchboard devices list` shows which there are";
        return Err(Failure::failed(format!("no device is called {}; {list}", args.device)));
    }
    let device = device.map_err(|error| remote.refused(&error))?;
    if args.json {
        return console.line(&to_json(&whole(device)?)?);
    }
    let Palette { bold, green, dim, reset, .. } = console.palette();
    let now = clock::now();
    let row = &device.row;
    let name = cell(row.device.as_str());
    let state = if device.online { format!("{green}online{reset}") } else { format!("{dim}offline{reset}") };
    let mut lines = vec![
        ("owner".to_owned(), row.principal.to_string()),
        ("protocol".to_owned(), row.protocol.clone()),
        ("session".to_owned(), row.session.to_string()),
        (
            "connected".to_owned(),
            format!("{} UTC, {}", clock::utc(row.joined_at), clock::ago(row.joined_at, now)),
        ),
    ];
    if let Some(left) = row.left_at.filter(|_| !device.online) {
        lines.push(("left".to_owned(), format!("{} UTC, {}", clock::utc(left), clock::ago(left, now))));
    }
    lines.push(("last news".to_owned(), clock::ago(row.reported_at, now)));
    if !device.tags.is_empty() {
        lines.push(("tags".to_owned(), device.tags.join(", ")));
    }
    let mut text = format!("{bold}{name}{reset}  {state}\n") + &columns(&lines, console.palette());
    if let Value::Object(facts) = &row.facts {
        text += &format!("\n{}", columns(&told(facts), console.palette()));
    }
    console.print(&text)
}

async fn info(args: &ShowArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let mut config = ConstellationConfig::new(caller(environment), &args.device);
    config.ask_info = false;
    let constellation = reach(&remote, config).await?;
    let facts = constellation.device_info().await;
    constellation.close().await;
    let facts = facts.map_err(|error| Failure::failed(format!("{}: {error}", args.device)))?;
    if args.json {
        return console.line(&to_json(&facts)?);
    }
    console.print(&columns(&told(&facts), console.palette()))
}

/// Connects for a device.
async fn reach(remote: &Remote, config: ConstellationConfig) -> Result<Constellation, Failure> {
    let device = config.target_device.clone();
    Constellation::connect(remote.connect(), config).await.map_err(|error| match &error {
        ConnectError::Failed(Cause::Protocol(Fault::Refused(why))) if why.contains("is not connected") => {
            let device = harmless(&device);
            Failure::failed(format!(
                "the device {device} is not connected; `switchboard devices list` shows which are"
            ))
        }
        ConnectError::Failed(Cause::Protocol(Fault::Refused(why))) => Failure::unreachable(harmless(why)),
        ConnectError::Options(_) | ConnectError::Failed(_) | ConnectError::ClientClosed => {
            remote.disconnected(&error)
        }
    })
}

/// What this command calls itself: who runs it, where, and something that nobody else has.
fn caller(environment: &Environment) -> String {
    let user = environment.find("USER").or_else(|| environment.find("LOGNAME")).unwrap_or("user");
    let host = hostname().unwrap_or_else(|| "localhost".to_owned());
    let mut random = [0; 4];
    // Without random numbers, names of the same machine may meet; the server refuses the second.
    let _ = getrandom::fill(&mut random);
    let user: String = user.chars().take(64).collect();
    let host: String = host.chars().take(64).collect();
    format!("{user}@{host}-{:08x}", u32::from_be_bytes(random))
}

/// A device as one object.
fn whole(device: Device) -> Result<Value, Failure> {
    let unreadable = |error: serde_json::Error| Failure::failed(error.to_string());
    let mut whole = serde_json::to_value(&device.row).map_err(unreadable)?;
    whole["online"] = device.online.into();
    whole["capabilities"] = device.capabilities.into();
    whole["tags"] = device.tags.into();
    Ok(whole)
}

/// Facts as names and values; those of objects in objects have a dot in their names.
fn told(facts: &Map<String, Value>) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (name, fact) in facts {
        let name = if name == "custom_metadata" { "" } else { name };
        match fact {
            Value::Object(inner) => lines.extend(told(inner).into_iter().map(|(inner, value)| {
                (if name.is_empty() { inner } else { format!("{name}.{inner}") }, value)
            })),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                lines.push((name.to_owned(), items.join(", ")));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                lines.push((name.to_owned(), plain(fact)));
            }
        }
    }
    lines
}

fn plain(fact: &Value) -> String {
    match fact {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => fact.to_string(),
    }
}

fn columns(lines: &[(String, String)], palette: Palette) -> String {
    let Palette { dim, reset, .. } = palette;
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let line = |(name, value): &(String, String)| {
        let name = harmless(name);
        format!("  {dim}{name:<width$}{reset}  {}\n", harmless(value).replace('\n', " "))
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_told_line_by_line() {
        let facts = json!({
            "device_id": "lab-1", "cpu_count": 2, "supported_features": ["cli", "gui"],
            "custom_metadata": { "disk": { "free_gb": 1.5 }, "display": null },
        });
        let text = columns(&told(facts.as_object().unwrap()), Palette::PLAIN);
        let expected = "  device_id           lab-1\n  cpu_count           2\n  supported_features  cli, gui\n  \
                        disk.free_gb        1.5\n  display             –\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn words_of_a_device_cannot_look_like_a_row() {
        for end in ["\n", "\r\n", "\u{85}", "\u{2028}", "\u{2029}", "\x0b", "\x0c", "\x1b[1B", "\r"] {
            let said = cell(&format!("linux{end}lab-2  linux  online"));
            assert!(!said.contains(char::is_control) && said.lines().count() == 1, "{said:?}");
            assert!(!said.contains(['\u{2028}', '\u{2029}']), "{said:?}");
        }
        assert_eq!(cell(&"x".repeat(500)).chars().count(), 100);
    }

    #[test]
    fn no_two_calls_have_the_same_name() {
        let environment = Environment::new([("USER".to_owned(), "ann".to_owned())]);
        let (one, other) = (caller(&environment), caller(&environment));
        assert!(one.starts_with("ann@") && one != other, "{one} {other}");
    }
}
