//! `switchboard agents`: which agents a server has, and whether one of them answers.

use std::io::Write as _;
use std::time::Duration;

use switchboard_client::admin::Agents;
use switchboard_client::asp::{Client, ClientInfo, Invoke, RequestEvent, Usage};

use crate::clock;
use crate::console::{Console, Palette, harmless};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};
use crate::remote::{Remote, RemoteArgs};
use crate::sessions::table::Table;
use crate::sessions::to_json;

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the agents that you may ask, and the MCP servers whose tools they have
    #[command(after_help = "Examples:\n  switchboard agents list\n  switchboard agents list --json")]
    List(ListArgs),
    /// Ask an agent something, and see how it does
    #[command(after_help = "\
Examples:
  switchboard agents test demo \"hello\"
  switchboard agents test my-function \"ping\" --timeout 10

The answer goes to the output as it comes; how long it took and what it cost go to the error stream.
Questions of the agent are not answered. Exit codes: 0 answered, 1 failed, 3 no connection,
130 interrupted.")]
    Test(TestArgs),
}

/// Arguments of `agents list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Arguments of `agents test`.
#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// Which agent
    #[arg(value_name = "NAME")]
    agent: String,
    /// What to say to it
    #[arg(value_name = "TEXT", default_value = "hello")]
    text: String,
    /// How long the answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    timeout: u32,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Runs `agents`.
pub(crate) async fn run(
    command: Command,
    environment: &Environment,
    console: &Console,
) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(&args, environment, console).await,
        Command::Test(args) => test(&args, environment, console).await,
    }
}

async fn list(args: &ListArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let listed = remote.admin()?.agents().await.map_err(|error| remote.refused(&error))?;
    if args.json {
        return console.line(&to_json(&listed)?);
    }
    console.print(&agents_table(&listed).text(console.palette()))?;
    if !listed.mcp.is_empty() {
        console.print("\n")?;
        console.print(&servers_table(&listed).text(console.palette()))?;
    }
    Ok(())
}

fn agents_table(listed: &Agents) -> Table<5> {
    let mut table = Table::new(["AGENT", "KIND", "STATE", "TOOLS", ""]);
    for agent in &listed.agents {
        let mut note: Vec<String> = Vec::new();
        note.extend(agent.default.then(|| "default".to_owned()));
        note.extend(agent.problem.as_deref().map(harmless));
        table.row([
            harmless(&agent.agent),
            harmless(&agent.kind),
            harmless(&agent.state),
            agent.tools.len().to_string(),
            note.join(", "),
        ]);
    }
    table
}

fn servers_table(listed: &Agents) -> Table<5> {
    let mut table = Table::new(["MCP SERVER", "STATE", "TOOLS", "RESTARTS", ""]);
    for server in &listed.mcp {
        table.row([
            harmless(&server.server),
            harmless(&server.state),
            server.tools.to_string(),
            server.restarts.to_string(),
            server.problem.as_deref().map(harmless).unwrap_or_default(),
        ]);
    }
    table
}

async fn test(args: &TestArgs, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let remote = args.remote.remote(environment)?;
    let client = connect(&remote, &args.agent).await?;
    let mut invoke = Invoke::chat(args.text.as_str());
    invoke.agent = Some(args.agent.clone());
    invoke.deadline_ms = args.timeout.saturating_mul(1_000);
    let began = clock::now();
    let since = |began| Duration::from_micros(clock::now().as_micros().saturating_sub(began));
    let elapsed = || since(began.as_micros());
    let mut request = client
        .invoke(invoke)
        .await
        .map_err(|error| Failure::unreachable(format!("this cannot be asked: {error}")))?;
    let (mut first, mut usage) = (None, None);
    let mut stopped = std::pin::pin!(tokio::signal::ctrl_c());
    let outcome = loop {
        let event = tokio::select! {
            event = request.next() => event,
            _ = &mut stopped => {
                request.interrupt();
                break Err(Failure::silent(Exit::Interrupted));
            }
        };
        match event {
            Some(Ok(RequestEvent::Text(text))) => {
                first.get_or_insert_with(elapsed);
                console.print(&harmless(&text))?;
                let _ = std::io::stdout().flush();
            }
            Some(Ok(RequestEvent::Status(status))) => console.note(status.state.name()),
            Some(Ok(RequestEvent::Usage(counts))) => usage = Some(counts),
            Some(Ok(RequestEvent::Tool(tool))) => {
                console.note(&format!("uses {}: {}", harmless(&tool.name), tool.phase.name()))
            }
            Some(Ok(RequestEvent::Ask(ask))) => {
                console.note(&format!("asks: {}", harmless(&ask.text)));
                request.interrupt();
            }
            Some(Ok(RequestEvent::End(end))) => {
                usage = end.usage.or(usage);
                break Ok(());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break Err(Failure::failed(format!("{} failed: {error}", args.agent))),
            None => break Err(Failure::unreachable("the connection was lost")),
        }
    };
    client.close().await;
    outcome?;
    console.print("\n")?;
    console.note(&summary(first, elapsed(), usage.as_ref(), console.palette()));
    Ok(())
}

async fn connect(remote: &Remote, agent: &str) -> Result<Client, Failure> {
    let info = ClientInfo {
        name: "switchboard-agents".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        platform: Some(std::env::consts::OS.to_owned()),
    };
    let options = remote.connect::<switchboard_client::asp::Settings>().client(info).agent(agent);
    Client::connect(options).await.map_err(|error| remote.disconnected(&error))
}

fn summary(first: Option<Duration>, whole: Duration, usage: Option<&Usage>, palette: Palette) -> String {
    let Palette { dim, reset, .. } = palette;
    let mut parts = Vec::new();
    parts.extend(first.map(|first| format!("first word after {} ms", first.as_millis())));
    parts.push(format!("done after {} ms", whole.as_millis()));
    let counts = usage.map(|usage| usage.0.as_slice()).unwrap_or_default();
    parts.extend(counts.iter().map(|(name, count)| format!("{count} {}", harmless(name))));
    format!("{dim}{}{reset}", parts.join(", "))
}
