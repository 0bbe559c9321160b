//! The protocols of this server: which are switched on, what they say of it, and where they are served.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{self, HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::IntoResponse as _;
use axum::routing::any;
use switchboard_acolyte::Acolyte;
use switchboard_agents::{McpServers, McpState, McpStatus};
use switchboard_aip::Aip;
use switchboard_aip::ledger::Bookkeeper;
use switchboard_alicia::annals::Annalist;
use switchboard_alicia::message::{McpServer, ModelInfo};
use switchboard_alicia::{Alicia, Facts, message};
use switchboard_asp::Asp;
use switchboard_core::{AgentId, Chronicler, Method, Protocol, Refusal, Route, Transport};
use switchboard_vip::error::Code;
use switchboard_vip::minutes::Secretary;

use crate::config::{AgentConfig, Config, Questions};
use crate::host::Host;
use crate::places::Place;
use crate::transport::{Flushes, Handshake};
use crate::upgrade::Door;
use crate::vip::VipHouse;
use crate::visitor::Visitor;

/// The protocols that are switched on: the registry of the server. `hears` says whether anybody here understands
/// speech.
pub(crate) fn protocols(
    config: &Config,
    host: &Arc<Host>,
    mcp: &Arc<McpServers>,
    hears: bool,
    vip: Option<&VipHouse>,
) -> Vec<Arc<dyn Protocol>> {
    let mut protocols: Vec<Arc<dyn Protocol>> = Vec::new();
    if config.asp.enabled {
        let asp = Asp::new(config.asp.limits.clone());
        protocols.push(Arc::new(if config.asp.ws_alias { asp.with_alias() } else { asp }));
    }
    if config.acolyte.enabled {
        protocols.push(Arc::new(Acolyte::new(config.acolyte.limits.clone(), acolyte_service(config))));
    }
    if config.aip.enabled {
        protocols.push(Arc::new(Aip::new(config.aip.limits.clone(), aip_service(config))));
    }
    if config.alicia.enabled {
        let service = alicia_service(config, host, mcp, hears);
        protocols.push(Arc::new(Alicia::new(config.alicia.limits.clone(), service)));
    }
    protocols.extend(vip.map(|vip| vip.protocol.clone()));
    protocols
}

/// Adds protocols of the embedding program.
///
/// # Errors
/// One of them is in the way of another, which the router would not survive.
pub(crate) fn take_in(
    protocols: &mut Vec<Arc<dyn Protocol>>,
    guests: Vec<Arc<dyn Protocol>>,
) -> Result<(), String> {
    for guest in guests {
        let name = guest.name();
        if protocols.iter().any(|known| known.name() == name) {
            return Err(format!("there is a protocol {name} already"));
        }
        for Route { path, .. } in guest.routes() {
            let path = shape(path);
            let taken =
                |known: &&Arc<dyn Protocol>| known.routes().iter().any(|route| shape(route.path) == path);
            if let Some(known) = protocols.iter().find(taken) {
                return Err(format!("{path} of {name} is a path of {}", known.name()));
            }
            if !path.starts_with('/') || OWN.iter().any(|own| path.starts_with(own)) {
                return Err(format!("{path} of {name} is not a path for protocols"));
            }
        }
        protocols.push(guest);
    }
    Ok(())
}

/// A path without the names of its parameters, which do not tell it from another.
fn shape(path: &str) -> String {
    let segment = |segment: &'_ str| if segment.starts_with('{') { "{}" } else { segment }.to_owned();
    path.split('/').map(segment).collect::<Vec<String>>().join("/")
}

/// How AIP behaves where that is open.
fn aip_service(config: &Config) -> switchboard_aip::Service {
    let planner =
        if config.aip.test_planner { Some(crate::agents::TEST_PLANNER) } else { config.aip.agent.as_deref() };
    switchboard_aip::Service {
        agent: planner.map(AgentId::from),
        allow_untargeted: config.aip.allow_untargeted,
    }
}

/// What Acolyte says of the server.
fn acolyte_service(config: &Config) -> switchboard_acolyte::Service {
    let keyed = |agent: &AgentConfig| match agent {
        AgentConfig::OpenAi(openai) => Some(openai.api_key_env.is_some()),
        AgentConfig::Echo(_)
        | AgentConfig::Script(_)
        | AgentConfig::Butler(_)
        | AgentConfig::Function(_)
        | AgentConfig::Demo(_)
        | AgentConfig::Off(_) => None,
    };
    let openai: Vec<bool> = config.agents.values().filter_map(keyed).collect();
    switchboard_acolyte::Service {
        server: concat!("switchboard ", env!("CARGO_PKG_VERSION")).to_owned(),
        model: config.acolyte.model.clone(),
        providers: if openai.is_empty() { Vec::new() } else { vec!["openai".to_owned()] },
        provider_auth: if openai.contains(&true) { vec!["openai (api key)".to_owned()] } else { Vec::new() },
        deny_questions: config.acolyte.questions == Questions::Deny,
    }
}

/// What Alicia says of the server.
fn alicia_service(
    config: &Config,
    host: &Arc<Host>,
    mcp: &Arc<McpServers>,
    hears: bool,
) -> switchboard_alicia::Service {
    let (host, mcp) = (host.clone(), mcp.clone());
    switchboard_alicia::Service {
        elites: config.alicia.offers().into(),
        facts: Arc::new(move |agent| facts(agent, &host, &mcp)),
        hears,
    }
}

/// What stands behind an agent now.
fn facts(agent: &AgentId, host: &Host, mcp: &McpServers) -> Facts {
    let directory = host.directory();
    let model = directory.model(agent);
    let reached = mcp.status().into_iter().filter(|known| directory.reaches(agent, &known.name));
    Facts {
        model: ModelInfo { name: model.name, provider: model.provider },
        servers: reached.map(server).collect(),
    }
}

fn server(known: McpStatus) -> McpServer {
    let status = match known.state {
        McpState::Ready => message::McpStatus::Connected,
        McpState::Starting => message::McpStatus::Disconnected,
        McpState::Down { .. } => message::McpStatus::Error,
    };
    McpServer { name: known.name, status: status.into() }
}

/// Those who keep accounts of sessions, whether their protocol is switched on or not: what is kept of
/// a session goes on with it.
pub fn chroniclers() -> Vec<Arc<dyn Chronicler>> {
    vec![Arc::new(Annalist), Arc::new(Secretary), Arc::new(Bookkeeper)]
}

/// Serves a protocol where it wants to be served.
pub(crate) fn mount(mut router: Router, protocol: &Arc<dyn Protocol>, door: &Arc<Door>) -> Router {
    let mut paths: BTreeMap<&'static str, Vec<Route>> = BTreeMap::new();
    for route in protocol.routes() {
        paths.entry(route.path).or_default().push(*route);
    }
    for (path, routes) in paths {
        let (protocol, door) = (protocol.clone(), door.clone());
        let socket = routes.iter().find(|route| route.transport == Transport::WebSocket).copied();
        router = match socket {
            Some(route) => router.route(
                path,
                any(async move |ConnectInfo(address): ConnectInfo<SocketAddr>, request: Request| {
                    let (mut parts, _) = request.into_parts();
                    let handshake = Handshake::read(&mut parts);
                    let (uri, headers) = (parts.uri, parts.headers);
                    // An upgrade gives its place up by itself.
                    let visitor = Visitor { address, uri, headers, route, place: None, flushes: None };
                    door.upgrade(&protocol, &visitor, handshake).await
                }),
            ),
            None => router.route(
                path,
                any(async move |ConnectInfo(address): ConnectInfo<SocketAddr>, request: Request| {
                    let (parts, body) = request.into_parts();
                    let fits = |route: &&Route| takes(route, &parts.method);
                    let Some(route) = routes.iter().find(fits).copied() else {
                        return door.turn_away(&protocol, &parts.method, &parts.headers, &routes);
                    };
                    let (uri, headers) = (parts.uri, parts.headers);
                    let place = parts.extensions.get::<Place>().cloned();
                    let flushes = parts.extensions.get::<Flushes>().cloned();
                    let visitor = Visitor { address, uri, headers, route, place, flushes };
                    door.exchange(&protocol, &visitor, body).await
                }),
            ),
        };
    }
    router
}

/// Answers where nothing is served; also there, whoever serves that part of the address says what it adds to every
/// answer. Whoever speaks VIP is answered in its words, wherever they lose their way.
pub(crate) fn turn_back(
    router: Router,
    protocols: &[Arc<dyn Protocol>],
    vip: Option<(Arc<dyn Protocol>, Arc<Door>)>,
    door: &Arc<Door>,
) -> Router {
    let protocols = protocols.to_vec();
    let alicia = protocols.iter().find(|known| known.name() == switchboard_alicia::NAME);
    let alicia = alicia.map(|protocol| (protocol.clone(), door.clone()));
    router.fallback(async move |uri: Uri, headers: HeaderMap| {
        let mut response = match &vip {
            Some((protocol, door)) if uri.path().starts_with(switchboard_vip::PATHS) => {
                door.lead_nowhere(protocol, &Refusal::Named(Code::SesNotFound.name()), &headers)
            }
            Some(_) | None => match &alicia {
                Some((protocol, door)) if uri.path().starts_with(switchboard_alicia::PATHS) => {
                    door.lead_nowhere(protocol, &Refusal::Named("There is nothing at this path."), &headers)
                }
                Some(_) | None => (StatusCode::NOT_FOUND, "Not Found").into_response(),
            },
        };
        let near = |protocol: &&Arc<dyn Protocol>| {
            protocol.routes().iter().any(|route| first_segment(route.path) == first_segment(uri.path()))
        };
        for (name, value) in protocols.iter().filter(near).flat_map(|protocol| protocol.answer_headers()) {
            response.headers_mut().insert(*name, HeaderValue::from_static(value));
        }
        response
    })
}

fn first_segment(path: &str) -> Option<&str> {
    path.split('/').nth(1)
}

/// What begins like this is the server's own.
const OWN: &[&str] =
    &["/healthz", "/readyz", "/metrics", "/admin", "/demo", "/v1/relay", "/.well-known/jwks"];

/// Whether a route is for requests with this method.
fn takes(route: &Route, method: &http::Method) -> bool {
    let Transport::Http(expected) = route.transport else { return false };
    match expected {
        Method::Get => method == http::Method::GET,
        Method::Post => method == http::Method::POST,
        Method::Put => method == http::Method::PUT,
        Method::Patch => method == http::Method::PATCH,
        Method::Delete => method == http::Method::DELETE,
    }
}
