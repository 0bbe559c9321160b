//! `switchboard sessions`: what the admin API of a server shows of its sessions.

use switchboard_client::admin::SessionsQuery;

use crate::clock;
use crate::console::{Console, Palette, harmless};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::remote::RemoteArgs;

pub(crate) mod story;
pub(crate) mod table;
mod tail;

/// What to look at.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List sessions, the last used first
    #[command(
        after_help = "Examples:\n  switchboard sessions list\n  switchboard sessions list --live --json"
    )]
    List(ListArgs),
    /// Show one session: who takes part, its turns and its newest messages
    #[command(
        after_help = "Examples:\n  switchboard sessions show chat\n  switchboard sessions show ses_… --json"
    )]
    Show(ShowArgs),
    /// Follow what happens in a session, as it happens
    #[command(after_help = "\
Examples:
  switchboard sessions tail chat
  switchboard sessions tail chat --after 0 --no-follow --json")]
    Tail(tail::Args),
}

/// Arguments of `sessions list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Only sessions in which a turn runs or a client is attached
    #[arg(long)]
    live: bool,
    /// Also sessions in which nothing was ever said
    #[arg(long)]
    all: bool,
    /// Only sessions of this principal; needs the scope admin
    #[arg(long, value_name = "PRINCIPAL")]
    owner: Option<String>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = at_least_one)]
    limit: usize,
    /// One JSON object per session and line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Arguments of `sessions show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The id of the session, or what you call it
    #[arg(value_name = "SESSION")]
    session: String,
    /// How many messages and turns at most, counted from the newest
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = at_least_one)]
    limit: usize,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `sessions`.
pub(crate) async fn run(
    command: Command,
    environment: &Environment,
    console: &Console,
) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(&args, environment, console).await,
        Command::Show(args) => show(&args, environment, console).await,
        Command::Tail(args) => tail::run(&args, environment, console).await,
    }
}

async fn list(args: &ListArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let admin = remote.admin()?;
    let query = SessionsQuery {
        live: args.live,
        used: !args.all,
        owner: args.owner.clone(),
        ..SessionsQuery::default()
    };
    let fetch = async |cursor, limit| {
        admin.sessions(&SessionsQuery { cursor, limit: Some(limit), ..query.clone() }).await
    };
    let (rows, more) = remote.entries(args.limit, fetch).await?;
    if args.json {
        for row in &rows {
            console.line(&to_json(row)?)?;
        }
        return Ok(());
    }
    if rows.is_empty() {
        console.note("no sessions yet; `switchboard chat` begins one");
        return Ok(());
    }
    let now = clock::now();
    let mut table = table::Table::new(["NAME", "SESSION", "OWNER", "AGENT", "TURNS", "LAST USED", ""]);
    for row in &rows {
        table.row([
            harmless(row.name.as_deref().unwrap_or("–")),
            row.session.to_string(),
            harmless(row.owner.as_str()),
            harmless(row.agent.as_str()),
            row.turns.to_string(),
            clock::ago(row.updated_at, now),
            if row.live { "live".to_owned() } else { String::new() },
        ]);
    }
    console.print(&table.text(console.palette()))?;
    if more {
        console.note(&format!("there are more; --limit {} shows twice as many", args.limit * 2));
    }
    Ok(())
}

async fn show(args: &ShowArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let admin = remote.admin()?;
    let row = remote.session(&admin, &args.session).await?;
    let refused = |error| remote.refused(&error);
    let messages = admin.messages(&row.session, None, Some(args.limit)).await.map_err(refused)?;
    let turns = newest_turns(&admin, &row.session, args.limit).await.map_err(refused)?;
    if args.json {
        let session = serde_json::to_value(&row).map_err(unreadable)?;
        let messages = serde_json::to_value(&messages.items).map_err(unreadable)?;
        let turns = serde_json::to_value(&turns).map_err(unreadable)?;
        let whole = serde_json::json!({"session": session, "turns": turns, "messages": messages});
        return console.line(&whole.to_string());
    }
    let Palette { bold, dim, reset, .. } = console.palette();
    let now = clock::now();
    let name = harmless(row.name.as_deref().unwrap_or("(no name)"));
    let live = if row.live { ", live" } else { "" };
    let mut text = format!("{bold}{name}{reset}  {}{live}\n", row.session);
    text += &format!("  owner      {}\n", harmless(row.owner.as_str()));
    text += &format!("  agent      {}\n", harmless(row.agent.as_str()));
    let opened = (clock::utc(row.opened_at), clock::ago(row.opened_at, now));
    text += &format!("  opened     {} UTC, {}\n", opened.0, opened.1);
    text += &format!("  last used  {}\n", clock::ago(row.updated_at, now));
    text += &format!("  position   {}-{}\n\n", row.epoch, row.head);
    if !turns.is_empty() {
        let mut table = table::Table::new(["TURN", "AGENT", "PROTOCOL", "STATUS", "ACCEPTED", "TOOK"]);
        for turn in &turns {
            let took = turn.ended_at.map(|ended| clock::short(ended.since(turn.accepted_at)));
            table.row([
                turn.turn.to_string(),
                harmless(turn.agent.as_str()),
                harmless(&turn.protocol),
                harmless(&turn.status),
                clock::ago(turn.accepted_at, now),
                took.unwrap_or_else(|| "–".to_owned()),
            ]);
        }
        text += &table.text(console.palette());
        text += "\n";
    }
    if messages.next.is_some() {
        text += &format!("{dim}… earlier messages are not shown; --limit shows more{reset}\n\n");
    }
    for message in messages.items.iter().rev() {
        text += &story::message(message, now, console.palette());
    }
    console.print(&text)
}

/// The last turns, in order. The API lists them from the first.
async fn newest_turns(
    admin: &switchboard_client::admin::Admin,
    session: &switchboard_core::SessionId,
    limit: usize,
) -> Result<Vec<switchboard_core::TurnRow>, switchboard_client::admin::AdminError> {
    let mut turns = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = admin.turns(session, after.as_deref(), Some(1_000)).await?;
        turns.extend(page.items);
        if turns.len() > limit {
            turns.drain(..turns.len() - limit);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(turns),
        }
    }
}

pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::failed(format!("this cannot be written as JSON: {error}"))
}

pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}
