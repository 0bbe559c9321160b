//! The task of one server: start it, list its tools, watch over it, and start again.
//!
//! ```text
//! Starting ──initialized and listed──▶ Ready ──gone──▶ Down ──pause──▶ Starting
//!     └────────────too late, refused, ended────────────▲
//! ```

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, ClientRequest, Implementation, PingRequest};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::Transport;
use rmcp::{Peer, RoleClient, ServiceExt};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::call::Link;
use super::config::{McpConfig, Reach};
use super::process::Process;
use super::stdio::Lines;
use super::table::Table;
use super::tap::{Notices, Tap};
use super::{Lookup, http, listing, outcome};
use crate::openai::Secret;

/// What a task has to know of its server.
pub(super) struct Supervisor {
    pub(super) server: String,
    pub(super) config: McpConfig,
    pub(super) lookup: Arc<Lookup>,
    pub(super) table: Arc<Table>,
    pub(super) stop: CancellationToken,
}

/// How a connection ended.
enum End {
    /// It was asked to.
    Stopped,
    /// The server has ended it.
    Closed,
    /// The server is of no use, or never came.
    Down(String),
}

impl Supervisor {
    /// Runs until it is to stop.
    pub(super) async fn run(self) {
        let mut failures = 0_u32;
        loop {
            let began = Instant::now();
            let why = match self.connect().await {
                End::Stopped => return,
                End::Closed => CLOSED.to_owned(),
                End::Down(why) => why,
            };
            warn!(server = self.server, why, "an MCP server is down");
            self.table.down(&self.server, &self.stop, why);
            if self.config.check().is_err() {
                return;
            }
            // Who ran for long enough has earned a quick return.
            let settled = began.elapsed() > self.config.start_timeout() + SETTLED;
            failures = if settled { 1 } else { failures.saturating_add(1) };
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = sleep(self.config.pause(&self.server, failures)) => {}
            }
            self.table.restarting(&self.server, &self.stop);
        }
    }

    async fn connect(&self) -> End {
        match self.config.reach() {
            Ok(Reach::Process(command)) => self.connect_to_process(command).await,
            Ok(Reach::Http(url)) => self.connect_over_http(url).await,
            Err(error) => End::Down(error.to_string()),
        }
    }

    async fn connect_to_process(&self, command: &str) -> End {
        let (mut process, stdout, stdin) =
            match Process::start(&self.server, command, &self.config, &*self.lookup) {
                Ok(started) => started,
                Err(why) => return End::Down(why),
            };
        let mut end = tokio::select! {
            biased;
            end = self.converse(Lines::new(stdout, stdin), Arc::default()) => end,
            why = process.ended() => End::Down(why),
        };
        // Its tools must not be called while it is swept up.
        let why = if let End::Down(why) = &end { why } else { CLOSED };
        self.table.down(&self.server, &self.stop, why.to_owned());
        // A process closes its pipes before it ends; how it ended says more.
        if let End::Closed = end
            && let Ok(ended) = timeout(LAST_WORDS, process.ended()).await
        {
            end = End::Down(ended);
        }
        process.stop().await;
        end
    }

    async fn connect_over_http(&self, url: &str) -> End {
        let bearer = match self.config.bearer_env.as_deref().map(|name| (name, (self.lookup)(name))) {
            Some((name, None)) => return End::Down(format!("the environment variable {name} is not set")),
            Some((_, Some(token))) => Some(Secret::new(token)),
            None => None,
        };
        let notices = Arc::<Notices>::default();
        match http::transport(url, bearer, self.config.start_timeout(), notices.clone()) {
            Ok(transport) => self.converse(transport, notices).await,
            Err(why) => End::Down(why),
        }
    }

    /// Serves one connection from its first message to its end.
    async fn converse(&self, transport: impl Transport<RoleClient> + 'static, notices: Arc<Notices>) -> End {
        let start = async {
            let client = Implementation::new("switchboard", env!("CARGO_PKG_VERSION"));
            let client = ClientConfig::new(ClientCapabilities::default(), client);
            let service = client.serve(Tap::new(transport, notices.clone())).await;
            let service = service.map_err(|error| not_initialized(&error))?;
            let listed = listing::list(&service, &self.server, &self.config).await;
            Ok((service, listed.map_err(|error| not_listed(&error))?))
        };
        let started = tokio::select! {
            () = self.stop.cancelled() => return End::Stopped,
            started = timeout(self.config.start_timeout(), start) => started,
        };
        let (service, listed) = match started {
            Ok(Ok(started)) => started,
            Ok(Err(end)) => return end,
            Err(_) => return End::Down("the server did not start in time".to_owned()),
        };
        let gone = CancellationToken::new();
        let _gone = gone.clone().drop_guard();
        let link = Link::new(service.peer().clone(), notices, gone);
        info!(server = self.server, tools = listed.len(), "an MCP server is ready");
        self.table.ready(&self.server, &self.stop, link.clone(), listed);
        let cancel = service.cancellation_token();
        let mut closed = std::pin::pin!(service.waiting());
        tokio::select! {
            () = self.stop.cancelled() => {
                cancel.cancel();
                let _ = timeout(GOODBYE, closed).await;
                End::Stopped
            }
            _ = &mut closed => End::Closed,
            end = self.attend(&link) => end,
        }
    }

    /// Lists tools again when they change, and looks after the server when something is odd or
    /// nothing has happened for a while. Ends when the server is of no use any more.
    async fn attend(&self, link: &Link) -> End {
        loop {
            let attended = tokio::select! {
                () = link.notices.tools_changed.notified() => self.list_again(link).await,
                () = link.notices.suspicion.notified() => self.look_after(&link.peer).await,
                () = sleep(IDLE) => self.look_after(&link.peer).await,
            };
            match attended {
                Ok(()) => {}
                // A server that does one thing at a time has an excuse; the call ends some time.
                Err(Trouble::Silent) if link.is_busy() => link.notices.suspicion.notify_one(),
                Err(Trouble::Silent) => return End::Down("the server does not answer any more".to_owned()),
                Err(Trouble::Broken(end)) => return end,
            }
            sleep(PAUSE).await;
        }
    }

    async fn list_again(&self, link: &Link) -> Result<(), Trouble> {
        let list = listing::list(&link.peer, &self.server, &self.config);
        match timeout(self.config.start_timeout(), list).await {
            Ok(Ok(listed)) => {
                self.table.ready(&self.server, &self.stop, link.clone(), listed);
                Ok(())
            }
            Ok(Err(error)) => Err(Trouble::Broken(not_listed(&error))),
            Err(_) => {
                link.notices.tools_changed.notify_one();
                Err(Trouble::Silent)
            }
        }
    }

    async fn look_after(&self, peer: &Peer<RoleClient>) -> Result<(), Trouble> {
        let ping = peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        match timeout(self.config.start_timeout(), ping).await {
            // An error is an answer, too.
            Ok(Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) => Ok(()),
            Ok(Err(_)) => Err(Trouble::Broken(End::Closed)),
            Err(_) => Err(Trouble::Silent),
        }
    }
}

/// Why a server that was ready may not be.
enum Trouble {
    Silent,
    Broken(End),
}

/// In our own words: the error of the library may hold whole messages.
fn not_initialized(error: &ClientInitializeError) -> End {
    let why = if let ClientInitializeError::TransportError { error, .. } = error {
        format!("cannot connect: {}", error.error)
    } else if let ClientInitializeError::JsonRpcError(error) = error {
        format!("the server refused to begin: {}", outcome::code_name(error.code))
    } else if let ClientInitializeError::ConnectionClosed(_) = error {
        return End::Closed;
    } else {
        "the server does not speak MCP as it should".to_owned()
    };
    End::Down(why)
}

fn not_listed(error: &ServiceError) -> End {
    let why = if let ServiceError::McpError(error) = error {
        format!("the server refused to list its tools: {}", outcome::code_name(error.code))
    } else if let ServiceError::UnexpectedResponse = error {
        "the list of tools makes no sense".to_owned()
    } else {
        return End::Closed;
    };
    End::Down(why)
}

const CLOSED: &str = "the server has ended the connection";
/// How long a server has to be up beyond its start before its failures are forgotten.
const SETTLED: Duration = Duration::from_secs(10);
/// How long nothing happens before a server is looked after.
const IDLE: Duration = Duration::from_secs(30);
/// Between two looks, however much a server asks for them.
const PAUSE: Duration = Duration::from_secs(1);
const LAST_WORDS: Duration = Duration::from_millis(500);
const GOODBYE: Duration = Duration::from_secs(2);
