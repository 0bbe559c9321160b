//! `switchboard serve`: the server, from its configuration to a clean end.

use std::net::SocketAddr;
use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use switchboard_server::{Config, Handle, ServeError, Server, telemetry};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{ConfigArgs, load};
use crate::console::{Console, Palette};
use crate::environment::Environment;
use crate::failure::{Exit, Failure};

/// Arguments of `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  switchboard serve
  switchboard serve --config switchboard.toml
  switchboard serve --listen 127.0.0.1:0 --set store.kind=memory
  switchboard serve --set agent=echo --set agents.echo.delay_ms=20

Signals:
  SIGTERM, SIGINT   let running turns finish, tell clients when to come back, then leave;
                    a second one leaves at once (nothing that was acknowledged is lost)
  SIGHUP            read the configuration again, with its agents, routes and MCP servers, and key
                    files, revocations and certificates; connections stay

One line goes to the output, once connections are accepted: listening on ADDRESS.
Logs go to the error stream.")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where to listen; port 0 takes any free one. Same as --set listen=ADDRESS
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where to keep everything that must survive. Same as --set data_dir=FOLDER
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

/// Reads the configuration.
pub(crate) fn configure(args: &Args, environment: &Environment) -> Result<Config, Failure> {
    let listen = args.listen.map(|address| format!("listen={address}"));
    let data_dir = args.data_dir.as_ref().map(|folder| format!("data_dir={}", folder.display()));
    load(&args.config, environment, listen.into_iter().chain(data_dir))
}

/// Serves until a signal comes.
pub(crate) async fn run(
    config: Config,
    console: &Console,
    read_again: impl Fn() -> Result<Config, Failure>,
) -> Result<(), Failure> {
    telemetry::init(&config.telemetry).map_err(|error| Failure::failed(error.to_string()))?;
    raise_descriptor_limit();
    let mut signals = Signals::new()?;
    let listener =
        switchboard_server::listen(config.listen).map_err(|error| occupied(config.listen, &error))?;
    let address = listener.local_addr()?;
    let greeting = Greeting::of(&config, address);
    let server = Server::start(config).await.map_err(refused)?;
    console.line(&format!("listening on {address}"))?;
    if console.is_terminal() {
        console.print(&greeting.text(console.palette()))?;
    }
    let handle = server.handle();
    let (leave, left) = tokio::sync::oneshot::channel::<()>();
    let mut leave = Some(leave);
    let mut running = std::pin::pin!(server.run(listener, async {
        let _ = left.await;
    }));
    loop {
        tokio::select! {
            result = &mut running => return result.map_err(refused),
            signal = signals.next() => match (signal, leave.take()) {
                (Heeded::Leave, Some(leave)) => {
                    let _ = leave.send(());
                }
                (Heeded::Leave, None) => return Err(Failure::silent(Exit::Interrupted)),
                (Heeded::Reload, still) => {
                    leave = still;
                    reload(&handle, read_again());
                }
            },
        }
    }
}

fn reload(server: &Handle, config: Result<Config, Failure>) {
    let reloaded = config.map_err(|failure| failure.to_string());
    match reloaded.and_then(|config| server.reload(config).map_err(|error| error.to_string())) {
        Ok(lasting) => {
            tracing::info!("agents, routes, keys, revocations and certificates were read again");
            if !lasting.is_empty() {
                let keys = lasting.join(", ");
                tracing::warn!(%keys, "these have changed, too, and count from the next start");
            }
        }
        Err(error) => tracing::error!(%error, "nothing was reloaded; going on with what was valid before"),
    }
}

/// The signals that a server heeds.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// What the next signal asks for.
    async fn next(&mut self) -> Heeded {
        tokio::select! {
            _ = self.terminate.recv() => Heeded::Leave,
            _ = self.interrupt.recv() => Heeded::Leave,
            _ = self.hangup.recv() => Heeded::Reload,
        }
    }
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heeded {
    /// To finish and leave.
    Leave,
    /// To read files again.
    Reload,
}

/// What a person who started the server wants to know next.
#[derive(Debug)]
struct Greeting {
    address: SocketAddr,
    scheme: &'static str,
    development: bool,
    demo: bool,
    kept_in: Option<PathBuf>,
}

impl Greeting {
    fn of(config: &Config, address: SocketAddr) -> Self {
        let durable = config.store.kind == switchboard_server::config::StoreKind::Sqlite;
        Self {
            address,
            scheme: if config.has_tls() { "wss" } else { "ws" },
            development: config.is_development(),
            demo: config.shows_demo(),
            kept_in: durable.then(|| config.data_dir.clone()),
        }
    }

    fn text(&self, palette: Palette) -> String {
        let Palette { dim, yellow, bold, reset, .. } = palette;
        let Self { address, scheme, .. } = self;
        let usual = *scheme == "ws" && *address == Config::default().listen;
        let url = if usual { String::new() } else { format!(" --url {scheme}://{address}") };
        let mut text = format!("\n  Talk to it:  {bold}switchboard chat{url}{reset}\n");
        if self.demo {
            let scheme = if *scheme == "ws" { "http" } else { "https" };
            text += &format!("  Or speak to it:  {bold}{scheme}://{address}/demo/vip/{reset}\n");
        }
        text += &match &self.kept_in {
            Some(folder) => format!("  {dim}Conversations are kept in {}.{reset}\n", folder.display()),
            None => {
                format!("  {yellow}Conversations are kept in memory only: store.kind is memory.{reset}\n")
            }
        };
        if self.development {
            text += &format!(
                "  {yellow}Development mode: everybody on this machine may connect, without credentials.{reset}\n"
            );
        }
        text + &format!("  {dim}Ctrl-C stops it.{reset}\n\n")
    }
}

/// Every connection needs a descriptor, and the usual soft limit is 1024.
fn raise_descriptor_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        if soft < hard { setrlimit(Resource::RLIMIT_NOFILE, hard, hard) } else { Ok(()) }
    });
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

fn occupied(address: SocketAddr, error: &std::io::Error) -> Failure {
    let advice = if error.kind() == std::io::ErrorKind::AddrInUse {
        "another program listens there: stop it, or choose another address with --listen"
    } else {
        "choose another address or port with --listen"
    };
    Failure::failed(format!("cannot listen on {address}: {error}; {advice}"))
}

fn refused(error: ServeError) -> Failure {
    match error {
        ServeError::Config(problem) => Failure::usage(format!(
            "{problem}\n`switchboard config doc` explains every setting of the configuration"
        )),
        ServeError::Store(_) | ServeError::Listen(_) => Failure::failed(error.to_string()),
    }
}
