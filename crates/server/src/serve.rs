//! The server as a whole: start, serve, drain, stop.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use switchboard_agents::{Agent, McpServers};
use switchboard_core::{AgentId, Chronicler, CloseReason, hex};
use switchboard_engine::{Outgoing, RingBounds, SessionSettings, Shared};
use switchboard_store::{Log, MemoryLog, SessionFilter, SqliteLog, StoreError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use crate::admin::{self, AdminState, Agents, Phase, Readiness};
use crate::agents::Workshop;
use crate::auth::Authenticator;
use crate::clock::Clock;
use crate::config::{Config, StoreKind};
use crate::demo;
use crate::doorstep::keep_limits;
use crate::errands::Errands;
use crate::folder;
use crate::gateway::Gateway;
use crate::guests::Guests;
use crate::handle::Handle;
use crate::host::{Directory, Host};
use crate::limits::{ConnectionLimits, PrincipalBuckets};
use crate::memory::Memory;
use crate::meters::{SessionMeters, TransportMeters};
use crate::origin::OriginPolicy;
use crate::places::{Crowd, Place, Places, Visit};
use crate::protocols::{chroniclers, mount, protocols, take_in, turn_back};
use crate::quotas::Quotas;
use crate::registry::Registry;
use crate::relay::{self, RelayState};
use crate::sessions::{Environment, SessionBounds, Sessions};
use crate::speech::Ears;
use crate::tls::Tls;
use crate::transport::{Flushes, Lingering};
use crate::unfinished::Unfinished;
use crate::upgrade::Door;
use crate::vip::VipHouse;
use crate::voices;
use crate::workspace::Workspaces;

/// A server that is ready to take connections.
pub struct Server {
    config: Config,
    router: Router,
    door: Arc<Door>,
    log: Arc<dyn Log>,
    workshop: Arc<Workshop>,
    vip: Option<VipHouse>,
    tls: Option<Tls>,
    readiness: Readiness,
    /// For sockets that carry no connection.
    places: Places,
}

/// Why a server could not start or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be served.
    #[error("{0}")]
    Config(String),
    /// The log cannot be opened or used.
    #[error("the log cannot be used: {0}")]
    Store(#[from] StoreError),
    /// The network failed.
    #[error("the listener failed: {0}")]
    Listen(#[from] std::io::Error),
}

impl Server {
    /// Opens the log, looks after what was going on when the last process ended, and builds the
    /// routes.
    ///
    /// # Errors
    /// The configuration or the log cannot be used.
    pub async fn start(config: Config) -> Result<Self, ServeError> {
        Self::start_hosting(config, Guests::default()).await
    }

    /// As [`Server::start`], with agents of the caller's own instead of the configured ones.
    ///
    /// # Errors
    /// The configuration or the log cannot be used.
    pub async fn start_with(
        config: Config,
        agents: BTreeMap<AgentId, Arc<dyn Agent>>,
    ) -> Result<Self, ServeError> {
        Self::start_hosting(config, Guests::default().with_agents(agents)).await
    }

    /// As [`Server::start`], with what the caller adds: agents and protocols of its own.
    ///
    /// # Errors
    /// The configuration or the log cannot be used, or a protocol is in the way of another.
    pub async fn start_hosting(config: Config, mut guests: Guests) -> Result<Self, ServeError> {
        let workshop = Workshop::new(&config, relay::open(&config).map_err(ServeError::Config)?);
        let directory = match guests.agents.take() {
            Some(agents) => Workshop::complete(&config, agents),
            None => workshop.directory(&config),
        };
        Self::start_as(config, directory.map_err(ServeError::Config)?, workshop, guests).await
    }

    async fn start_as(
        config: Config,
        directory: Directory,
        workshop: Workshop,
        guests: Guests,
    ) -> Result<Self, ServeError> {
        let clock = Clock::start();
        for warning in config.warnings() {
            tracing::warn!("{warning}");
        }
        // Handles that are taken before the recorder is there count nothing.
        if config.telemetry.metrics
            && let Err(error) = crate::telemetry::metrics()
        {
            tracing::error!(%error, "metrics are not available");
        }
        let projectors = chroniclers();
        let log = open_log(&config, projectors.clone())?;
        let memory = Arc::new(Memory::new(&config).map_err(ServeError::Config)?);
        let voices = voices::open(&config).map_err(ServeError::Config)?;
        let ears = Arc::new(Ears::new(&config, voices.clone()).map_err(ServeError::Config)?);
        let node = hex(crate::entropy::bytes().iter().take(6));
        let workspaces = if config.is_development() && config.workspaces.is_empty() {
            Workspaces::Any
        } else {
            Workspaces::Within(config.workspaces.clone())
        };
        let host = Arc::new(Host::new(directory, node, &config.limits, workspaces));
        let sessions = Arc::new(Sessions::new(Environment {
            log: log.clone(),
            projectors: projectors.into(),
            host: host.clone(),
            memory: memory.clone(),
            clock,
            meters: SessionMeters::new(),
            shared: Arc::new(Shared::new(config.session.request_memory, MAX_KEYS)),
            settings: Arc::new(SessionSettings {
                limits: config.session.clone(),
                ring: RingBounds { events: config.limits.ring_events, bytes: config.limits.ring_bytes },
                snapshot_every: config.limits.snapshot_events,
                idle: Duration::from_millis(config.limits.session_idle_ms),
                lease: Duration::from_millis(config.limits.lease_ms),
            }),
            quotas: Quotas::new(log.clone(), &config.limits),
            bounds: SessionBounds {
                mailbox: config.limits.mailbox,
                resident: config.limits.resident_sessions,
            },
            alive: Arc::default(),
        }));
        memory.note_in(&sessions);
        let buckets = PrincipalBuckets::new(&config.limits);
        let speech = voices::speech(&voices);
        let hears = ears.hears();
        let voices = guests.voices.unwrap_or(voices);
        let gateway = Arc::new(Gateway::new(sessions.clone(), buckets, ears, voices));
        let recent = clock
            .now()
            .since(switchboard_core::Timestamp::default())
            .saturating_sub(config.session.request_memory);
        let since = switchboard_core::Timestamp::default().after(recent);
        let mut keys = log.requests(since, MAX_KEYS).await?;
        keys.reverse();
        gateway.remember(keys);
        awaken_live(&sessions, &*log).await?;
        let authenticator =
            Arc::new(Authenticator::new(&config).map_err(|error| ServeError::Config(error.to_string()))?);
        gateway.reserve(authenticator.reservations());
        if let Some(development) = authenticator.development() {
            tracing::warn!(
                token = %development.path().display(),
                "no credentials are configured: this user is let in as the development principal, others of this \
                 machine with the token"
            );
        }
        let tls = Tls::load(&config).map_err(|error| ServeError::Config(error.to_string()))?;
        let registry = Arc::new(Registry::default());
        let vip = if config.vip.enabled {
            Some(VipHouse::open(&config, &host, &workshop, clock, speech).await.map_err(ServeError::Config)?)
        } else {
            None
        };
        let mut protocols = protocols(&config, &host, &workshop.mcp, hears, vip.as_ref());
        take_in(&mut protocols, guests.protocols).map_err(ServeError::Config)?;
        watch_revocations(&authenticator, &registry);
        watch_tools(&workshop.mcp, &sessions);
        let door = Arc::new(Door {
            gateway,
            authenticator: authenticator.clone(),
            origins: OriginPolicy::new(&config),
            limits: ConnectionLimits::new(&config.limits),
            unfinished: Unfinished::new(config.limits.principal_unfinished_bytes),
            message_timeout: Duration::from_millis(config.limits.message_timeout_ms),
            outgoing: Outgoing {
                backlog: config.limits.write_buffer_bytes,
                message: config.limits.outgoing_message_bytes,
            },
            meters: protocols
                .iter()
                .map(|known| (known.name(), TransportMeters::new(known.name())))
                .collect(),
            registry: registry.clone(),
            draining: false.into(),
        });
        if let Some(vip) = &vip {
            vip.lead_to(&door);
        }
        let errands = vip.iter().map(|vip| (vip.protocol.name(), vip.errands.clone() as Arc<dyn Errands>));
        door.gateway.errands.staff(errands.chain(guests.errands).collect());
        let workshop = Arc::new(workshop);
        let agents = Agents { host: sessions.environment.host.clone(), workshop: workshop.clone() };
        let admin = AdminState::new(&config, sessions.clone(), authenticator, registry, agents);
        let readiness = admin.readiness();
        let state = RelayState { relay: workshop.relay.clone(), gateway: door.gateway.clone() };
        let relay = relay::router(state, vip.is_none());
        let admin = admin::router(admin).layer(middleware::from_fn_with_state(door.clone(), keep_limits));
        let mut router = admin.merge(relay).merge(demo::router(&config));
        for protocol in &protocols {
            router = mount(router, protocol, &door);
        }
        let lost = vip.as_ref().map(|vip| (vip.protocol.clone(), door.clone()));
        router = turn_back(router, &protocols, lost, &door);
        let router = router.layer(middleware::map_response(believed_as_labelled));
        let places = Places::new(&config.limits, &config.trusted_proxies);
        Ok(Self { config, router, door, log, workshop, vip, tls, readiness, places })
    }

    /// Serves until `shutdown` resolves, then drains and closes the log.
    ///
    /// # Errors
    /// The log could not be closed properly.
    pub async fn run(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        if self.config.relay.public_url.is_none() {
            let scheme = if self.config.has_tls() { "https" } else { "http" };
            self.workshop.relay.set_public_url(&format!("{scheme}://{}", listener.local_addr()?));
        }
        if let Some(development) = self.door.authenticator.development() {
            development.listens_on(listener.local_addr()?);
        }
        let mut shutdown = std::pin::pin!(shutdown);
        let mut upkeep = tokio::time::interval(UPKEEP);
        let leave = loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = upkeep.tick() => {
                    self.keep_up();
                    continue;
                }
                () = &mut shutdown => break Leave::Gently,
                () = self.door.gateway.stopped() => break Leave::AtOnce,
            };
            match accepted {
                Ok((stream, address)) => self.welcome(stream, address),
                Err(error) => {
                    // Out of file descriptors, most likely: let some go before trying again.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        match leave {
            Leave::Gently => {
                self.drain(listener).await?;
                self.close(LAST_WORDS).await
            }
            Leave::AtOnce => {
                drop(listener);
                self.door.draining.store(true, Ordering::Relaxed);
                self.door.gateway.drain();
                self.close(FEW_LAST_WORDS).await
            }
        }
    }

    fn welcome(&self, stream: TcpStream, address: SocketAddr) {
        // Nobody is turned away who has said nothing yet, but there is an end to how many may wait.
        let Some(place) = self.places.take(address.ip()) else { return };
        prepare(&stream);
        let flushes = Flushes::default();
        let stream = Lingering::new(stream, place.clone(), flushes.clone());
        let router = self.router.clone();
        let patience = Duration::from_millis(self.config.limits.handshake_timeout_ms);
        let tls = self.tls.as_ref().map(Tls::acceptor);
        tokio::spawn(async move {
            let served = async {
                match tls {
                    None => serve_http(stream, address, router, patience, (place.clone(), flushes)).await,
                    Some(tls) => match tokio::time::timeout(patience, tls.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            serve_http(stream, address, router, patience, (place.clone(), flushes)).await
                        }
                        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    },
                }
            };
            tokio::select! {
                biased;
                () = place.closed() => {}
                () = served => {}
            }
        });
    }

    /// What has to be looked at now and then: renewed certificates, metrics.
    fn keep_up(&self) {
        if let Some(Err(error)) = self.tls.as_ref().map(Tls::reload_if_changed) {
            tracing::error!(%error, "the renewed certificate cannot be used; going on with the old one");
        }
        if let Some(vip) = &self.vip {
            vip.keep_up();
        }
        let Crowd { closed, refused } = self.places.crowd();
        if closed + refused > 0 {
            // One line however many they are: their number is for strangers to choose.
            tracing::warn!(
                closed,
                refused,
                "too many sockets without a connection; the oldest were closed (limits.handshakes, \
                 limits.handshakes_per_address)"
            );
        }
        if self.config.telemetry.metrics
            && let Ok(handle) = crate::telemetry::metrics()
        {
            handle.run_upkeep();
        }
    }

    /// What reaches the server while it runs.
    pub fn handle(&self) -> Handle {
        Handle {
            door: self.door.clone(),
            tls: self.tls.clone(),
            workshop: self.workshop.clone(),
            config: Arc::new(Mutex::new(self.config.clone())),
        }
    }

    /// Tells clients to come back, lets turns finish for a while, and closes.
    async fn drain(&self, listener: TcpListener) -> Result<(), ServeError> {
        let drain = &self.config.drain;
        tracing::info!(connections = self.door.registry.count(), "draining");
        self.readiness.set(Phase::Draining);
        self.door.draining.store(true, Ordering::Relaxed);
        self.door.gateway.drain();
        self.door.registry.drain(drain.retry_ms, drain.spread_ms);
        let mut emptied = std::pin::pin!(self.door.registry.emptied());
        let mut patience = std::pin::pin!(tokio::time::sleep(Duration::from_millis(drain.timeout_ms)));
        loop {
            // Whoever comes now is told so, until the last one has left.
            tokio::select! {
                () = &mut emptied => break,
                () = &mut patience => break,
                accepted = listener.accept() => {
                    if let Ok((stream, address)) = accepted {
                        self.welcome(stream, address);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends every connection, however long that takes within `patience`, and closes the log.
    async fn close(self, patience: Duration) -> Result<(), ServeError> {
        self.readiness.set(Phase::Draining);
        self.door.registry.close_all(CloseReason::Restart);
        let _ = tokio::time::timeout(patience, self.door.registry.emptied()).await;
        if let Some(vip) = &self.vip {
            vip.close().await;
        }
        // What was said last is still on its way to the network.
        tokio::time::sleep(LAST_BYTES).await;
        self.workshop.mcp.stop().await;
        self.log.close().await?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// How a server leaves.
#[derive(Clone, Copy, Debug)]
enum Leave {
    /// Running turns may finish.
    Gently,
    /// They may not.
    AtOnce,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// No browser takes an answer for something else than it says that it is.
async fn believed_as_labelled(mut response: Response) -> Response {
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn open_log(config: &Config, chroniclers: Vec<Arc<dyn Chronicler>>) -> Result<Arc<dyn Log>, ServeError> {
    Ok(match config.store.kind {
        StoreKind::Memory => Arc::new(MemoryLog::with_chroniclers(chroniclers)),
        StoreKind::Sqlite => {
            folder::create_private(&config.data_dir).map_err(|error| {
                ServeError::Config(format!("data_dir {} : {error}", config.data_dir.display()))
            })?;
            let path = config.data_dir.join("switchboard.db");
            Arc::new(SqliteLog::open_with(path, config.store.options(), chroniclers)?)
        }
    })
}

/// Brings to life every session in which something was going on when the last process ended.
async fn awaken_live(sessions: &Arc<Sessions>, log: &dyn Log) -> Result<(), StoreError> {
    let mut filter = SessionFilter { live: true, limit: PAGE, ..SessionFilter::default() };
    loop {
        let rows = log.sessions(&filter).await?;
        for row in &rows {
            sessions.awaken(&row.session);
        }
        match rows.last() {
            Some(last) if rows.len() == PAGE => {
                filter.before = Some((last.updated_at.as_micros(), last.session.clone()));
            }
            _ => return Ok(()),
        }
    }
}

fn watch_revocations(authenticator: &Authenticator, registry: &Arc<Registry>) {
    let mut revocations = authenticator.subscribe_revocations();
    let registry = registry.clone();
    tokio::spawn(async move {
        while revocations.changed().await.is_ok() {
            let revoked = revocations.borrow_and_update().clone();
            registry.close_revoked(&revoked);
        }
    });
}

/// Sessions offer the tools that there are: whenever a server of tools has others, they look again.
fn watch_tools(mcp: &Arc<McpServers>, sessions: &Arc<Sessions>) {
    let mut changes = mcp.changes();
    let sessions = Arc::downgrade(sessions);
    tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            let Some(sessions) = sessions.upgrade() else { return };
            sessions.refresh();
        }
    });
}

/// An answer, and the request that is in progress until it is dropped.
struct Answering {
    body: Body,
    _visit: Visit,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Sets up a socket for what is to come.
fn prepare(stream: &TcpStream) {
    // Batches are formed before the socket; waiting for more would only add latency.
    let _ = stream.set_nodelay(true);
    // What the network does not take yet stays with us: so that its progress is seen while a peer reads slowly, and
    // the kernel does not hold megabytes of it for each connection.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
}

async fn serve_http<S>(
    stream: S,
    address: SocketAddr,
    router: Router,
    patience: Duration,
    (place, flushes): (Place, Flushes),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |mut request: Request<hyper::body::Incoming>| {
        let visit = place.begin();
        request.extensions_mut().insert(ConnectInfo(address));
        request.extensions_mut().insert(place.clone());
        request.extensions_mut().insert(flushes.clone());
        let answered = router.clone().oneshot(request);
        async move {
            let response = answered.await?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                visit.leave();
                return Ok(response);
            }
            // The request is in progress until its answer has left.
            Ok::<_, Infallible>(response.map(|body| Body::new(Answering { body, _visit: visit })))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A peer that breaks off is no news.
    if let Err(error) = connection.await {
        tracing::trace!(%error, "an HTTP connection ended badly");
    }
}

/// Bytes that the kernel takes before the network does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 128 << 10;
const UPKEEP: Duration = Duration::from_secs(5);
const MAX_HEADER_BYTES: usize = 32 << 10;
const LAST_WORDS: Duration = Duration::from_secs(7);
/// Of a server that was told to stop at once.
const FEW_LAST_WORDS: Duration = Duration::from_millis(1500);
const LAST_BYTES: Duration = Duration::from_millis(50);
const MAX_KEYS: usize = 100_000;
const PAGE: usize = 500;
