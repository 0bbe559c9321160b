//! Every way into the server over HTTP, tried by everybody.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::line::{Line, Refused, Speech};
use crate::operations::sess;
use crate::scrub::scrubbed;
use crate::support::rpc::{Answer, http};
use crate::world::{Credentials, MARK, Names, Who, World, app_token, creation};

/// Who is let in at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// Everybody.
    Open,
    /// Whoever has a key or a token of this server.
    Keyed,
    /// Whoever has one with the scope `admin`.
    Admin,
    /// Whoever has the token of an external session of VIP.
    Session,
    /// Whoever has the token of an internal session of VIP.
    Internal,
    /// Whoever has a credential for our own provider endpoint.
    Ephemeral,
    /// Whomever an application vouches for.
    App,
    /// A function that works on an invocation.
    Push,
}

/// One way in.
pub(crate) struct Endpoint {
    /// As the code says it: `GET /path/{parameter}`, or `WS /path`.
    pub(crate) way: &'static str,
    door: Door,
    /// What stands in the place of each parameter.
    names: &'static [fn(&Names) -> &str],
    body: fn(&Names) -> Value,
    /// What an owner is answered with.
    owner: u16,
    /// What somebody is answered with who is let in, but whose it is not; the same where there is nothing.
    foreign: u16,
    /// What an observer is answered with.
    observer: u16,
    /// What an admin is answered with, where only admins are let in.
    admin: u16,
}

const NOTHING: fn(&Names) -> Value = |_| Value::Null;
const SESSION: fn(&Names) -> &str = |names| &names.session;
const CONVERSATION: fn(&Names) -> &str = |names| &names.conversation;
const MESSAGE: fn(&Names) -> &str = |names| &names.message;
const RATING: fn(&Names) -> Value = |_| json!({ "rating": 1 });
const VIP: fn(&Names) -> &str = |names| &names.vip;
const VIP_INTERNAL: fn(&Names) -> &str = |names| &names.vip_internal;
const CID: fn(&Names) -> &str = |names| &names.cid;
const INV: fn(&Names) -> &str = |names| &names.inv;

/// A way that names nothing: whoever is let in gets an answer.
const fn plain(way: &'static str, door: Door) -> Endpoint {
    Endpoint { way, door, names: &[], body: NOTHING, owner: 200, foreign: 200, observer: 200, admin: 200 }
}

/// A way to something that belongs to somebody; whoever else comes finds nothing there.
const fn named(way: &'static str, door: Door, names: &'static [fn(&Names) -> &str]) -> Endpoint {
    Endpoint { way, door, names, body: NOTHING, owner: 200, foreign: 404, observer: 404, admin: 200 }
}

/// The table. What is not in it is not served, and the other way round.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    // The server itself.
    plain("GET /healthz", Door::Open),
    plain("GET /readyz", Door::Open),
    Endpoint { owner: 403, foreign: 403, observer: 403, ..plain("GET /metrics", Door::Admin) },
    plain("GET /admin/v1/openapi.json", Door::Keyed),
    plain("GET /admin/v1/agents", Door::Keyed),
    Endpoint { owner: 403, foreign: 403, observer: 403, ..plain("GET /admin/v1/connections", Door::Admin) },
    Endpoint { owner: 403, foreign: 403, observer: 403, ..plain("GET /admin/v1/keys", Door::Admin) },
    Endpoint {
        owner: 403,
        foreign: 403,
        observer: 403,
        body: |_| json!({ "key": "nobody", "principal": "nobody" }),
        admin: 400,
        ..plain("POST /admin/v1/revocations", Door::Admin)
    },
    Endpoint {
        owner: 403,
        foreign: 403,
        observer: 403,
        body: |_| json!({ "key": "nobody" }),
        ..plain("DELETE /admin/v1/revocations", Door::Admin)
    },
    plain("GET /admin/v1/devices", Door::Keyed),
    named("GET /admin/v1/devices/{device}", Door::Keyed, &[|names| &names.device]),
    Endpoint {
        owner: 403,
        foreign: 403,
        observer: 403,
        ..named("POST /admin/v1/devices/{device}/release", Door::Admin, &[|_| "nobody"])
    },
    plain("GET /admin/v1/sessions", Door::Keyed),
    named("GET /admin/v1/sessions/{session}", Door::Keyed, &[SESSION]),
    named("GET /admin/v1/sessions/{session}/events", Door::Keyed, &[SESSION]),
    named("GET /admin/v1/sessions/{session}/turns", Door::Keyed, &[SESSION]),
    named("GET /admin/v1/sessions/{session}/messages", Door::Keyed, &[SESSION]),
    // The demo of VIP: files that everybody may have.
    Endpoint { owner: 308, foreign: 308, observer: 308, ..plain("GET /demo/vip", Door::Open) },
    plain("GET /demo/vip/", Door::Open),
    Endpoint { owner: 404, ..named("GET /demo/vip/{name}", Door::Open, &[|_| "nothing.js"]) },
    // What functions reach. A leave for another connection is told so, whether there is one or not.
    Endpoint { foreign: 403, observer: 403, ..named("GET /v1/relay/connections/{cid}", Door::Push, &[CID]) },
    Endpoint {
        body: |_| json!({ "frames": [{ "type": "STREAM", "rid": 1, "payload": { "t": "text", "d": "x" } }] }),
        owner: 202,
        foreign: 403,
        observer: 403,
        ..named("POST /v1/relay/connections/{cid}/frames", Door::Push, &[CID])
    },
    Endpoint {
        foreign: 403,
        observer: 403,
        ..named("GET /v1/relay/connections/{cid}/requests/{inv}", Door::Push, &[CID, INV])
    },
    Endpoint {
        foreign: 403,
        observer: 403,
        ..named("GET /v1/relay/connections/{cid}/requests/{inv}/answers", Door::Push, &[CID, INV])
    },
    Endpoint {
        owner: 204,
        foreign: 403,
        observer: 403,
        ..named("DELETE /v1/relay/connections/{cid}", Door::Push, &[CID])
    },
    // ASP.
    Endpoint { owner: 101, foreign: 101, observer: 101, ..plain("WS /v1/agent-socket", Door::Keyed) },
    // Acolyte.
    Endpoint { owner: 101, foreign: 101, observer: 101, ..plain("WS /v1/rpc", Door::Keyed) },
    plain("GET /v1/status", Door::Keyed),
    Endpoint {
        // A session id is a name here, and names are one's own.
        body: |names| json!({ "message": "nothing", "history": [], "model": "m", "sessionId": sess(names) }),
        ..plain("POST /v1/chat/stream", Door::Keyed)
    },
    Endpoint { owner: 403, foreign: 403, observer: 403, ..plain("POST /v1/admin/shutdown", Door::Admin) },
    // AIP, whose socket is also where ASP's alias would be.
    Endpoint { owner: 101, foreign: 101, observer: 101, ..plain("WS /ws", Door::Keyed) },
    plain("GET /api/health", Door::Keyed),
    plain("GET /api/clients", Door::Keyed),
    Endpoint {
        body: |names| json!({ "request": "x", "client_id": names.device, "task_name": "t" }),
        foreign: 404,
        observer: 404,
        ..plain("POST /api/dispatch", Door::Keyed)
    },
    Endpoint {
        // Whatever is not known is not there yet.
        foreign: 200,
        observer: 200,
        ..named("GET /api/task_result/{task_name}", Door::Keyed, &[|names| &names.task_name])
    },
    // Alicia. An observer may read, and that is all.
    Endpoint { owner: 101, foreign: 101, observer: 101, ..plain("WS /api/v1/ws", Door::Keyed) },
    plain("GET /api/v1/config", Door::Keyed),
    plain("GET /api/v1/conversations", Door::Keyed),
    Endpoint {
        body: |_| json!({ "title": "one's own" }),
        owner: 201,
        foreign: 201,
        observer: 201,
        ..plain("POST /api/v1/conversations", Door::Keyed)
    },
    Endpoint { observer: 200, ..named("GET /api/v1/conversations/{id}", Door::Keyed, &[CONVERSATION]) },
    Endpoint {
        body: |_| json!({ "title": MARK }),
        observer: 403,
        ..named("PATCH /api/v1/conversations/{id}", Door::Keyed, &[CONVERSATION])
    },
    Endpoint {
        observer: 200,
        ..named("GET /api/v1/conversations/{id}/messages", Door::Keyed, &[CONVERSATION])
    },
    Endpoint {
        body: |_| json!({ "contents": "nothing" }),
        owner: 202,
        observer: 403,
        ..named("POST /api/v1/conversations/{id}/messages", Door::Keyed, &[CONVERSATION])
    },
    Endpoint {
        body: |_| {
            json!({ "messages": [{ "local_id": "local_1", "sequence_number": 1, "role": "user", "contents": MARK,
                "created_at": "2026-01-01T00:00:00Z" }] })
        },
        observer: 403,
        ..named("POST /api/v1/conversations/{id}/sync", Door::Keyed, &[CONVERSATION])
    },
    Endpoint {
        observer: 200,
        ..named("GET /api/v1/conversations/{id}/sync/status", Door::Keyed, &[CONVERSATION])
    },
    Endpoint {
        body: |names| json!({ "tip_message_id": names.message }),
        observer: 403,
        ..named("POST /api/v1/conversations/{id}/switch-branch", Door::Keyed, &[CONVERSATION])
    },
    Endpoint {
        // There are no rooms here, for nobody.
        owner: 501,
        observer: 501,
        ..named("POST /api/v1/conversations/{id}/token", Door::Keyed, &[CONVERSATION])
    },
    named("GET /api/v1/messages/{id}/siblings", Door::Keyed, &[MESSAGE]),
    named("GET /api/v1/messages/{id}", Door::Keyed, &[MESSAGE]),
    named("GET /api/v1/messages/{id}/tool-uses", Door::Keyed, &[MESSAGE]),
    named("GET /api/v1/messages/{id}/memory-uses", Door::Keyed, &[MESSAGE]),
    named("GET /api/v1/messages/{id}/feedback", Door::Keyed, &[MESSAGE]),
    Endpoint {
        body: RATING,
        owner: 201,
        ..named("POST /api/v1/messages/{id}/feedback", Door::Keyed, &[MESSAGE])
    },
    // No answer here has used anything, and nobody has anything remembered.
    plain("GET /api/v1/tool-uses", Door::Keyed),
    Endpoint { owner: 404, ..named("GET /api/v1/tool-uses/{id}", Door::Keyed, &[|_| "atu_none"]) },
    Endpoint { owner: 404, ..named("GET /api/v1/tool-uses/{id}/feedback", Door::Keyed, &[|_| "atu_none"]) },
    Endpoint {
        body: RATING,
        owner: 404,
        ..named("POST /api/v1/tool-uses/{id}/feedback", Door::Keyed, &[|_| "atu_none"])
    },
    Endpoint { owner: 404, ..named("GET /api/v1/memory-uses/{id}/feedback", Door::Keyed, &[|_| "amu_none"]) },
    Endpoint {
        body: RATING,
        owner: 404,
        ..named("POST /api/v1/memory-uses/{id}/feedback", Door::Keyed, &[|_| "amu_none"])
    },
    plain("GET /api/v1/memories", Door::Keyed),
    Endpoint {
        body: |_| json!({ "content": "one's own" }),
        owner: 201,
        foreign: 201,
        observer: 201,
        ..plain("POST /api/v1/memories", Door::Keyed)
    },
    Endpoint { owner: 404, ..named("GET /api/v1/memories/{id}", Door::Keyed, &[|_| "amem_none"]) },
    Endpoint {
        body: |_| json!({ "content": MARK }),
        owner: 404,
        ..named("PUT /api/v1/memories/{id}", Door::Keyed, &[|_| "amem_none"])
    },
    Endpoint { owner: 404, ..named("DELETE /api/v1/memories/{id}", Door::Keyed, &[|_| "amem_none"]) },
    plain("GET /api/v1/mcp/servers", Door::Keyed),
    plain("GET /api/v1/tools", Door::Keyed),
    plain("GET /api/v1/preferences", Door::Keyed),
    Endpoint { body: |_| json!({ "theme": "dark" }), ..plain("PATCH /api/v1/preferences", Door::Keyed) },
    Endpoint {
        owner: 204,
        observer: 403,
        ..named("DELETE /api/v1/conversations/{id}", Door::Keyed, &[CONVERSATION])
    },
    // VIP.
    plain("GET /.well-known/vip", Door::Open),
    plain("GET /.well-known/jwks.json", Door::Open),
    Endpoint {
        body: |_| creation("external"),
        owner: 201,
        foreign: 201,
        observer: 201,
        ..plain("POST /v1/vip/sessions", Door::App)
    },
    named("GET /v1/vip/sessions/{sid}", Door::Session, &[VIP]),
    named("POST /v1/vip/sessions/{sid}/token", Door::Session, &[VIP]),
    named("POST /v1/vip/sessions/{sid}/credential", Door::Internal, &[VIP_INTERNAL]),
    Endpoint {
        // Let in, and told that this is no offer.
        body: |_| json!("v=0"),
        owner: 400,
        ..named("POST /v1/vip/sessions/{sid}/webrtc", Door::Session, &[VIP])
    },
    Endpoint {
        owner: 404,
        ..named("PATCH /v1/vip/sessions/{sid}/webrtc/{pc}", Door::Session, &[VIP, |_| "pc"])
    },
    Endpoint {
        owner: 404,
        ..named("DELETE /v1/vip/sessions/{sid}/webrtc/{pc}", Door::Session, &[VIP, |_| "pc"])
    },
    Endpoint {
        body: |_| json!({ "invocation_id": "i", "parameters": {} }),
        owner: 404,
        ..named("POST /v1/vip/sessions/{sid}/functions/{name}", Door::Internal, &[VIP_INTERNAL, |_| "f"])
    },
    named("GET /v1/vip/sessions/{sid}/history", Door::Session, &[VIP]),
    Endpoint { owner: 101, ..named("WS /v1/vip/sessions/{sid}/stream", Door::Session, &[VIP]) },
    Endpoint { owner: 101, ..named("WS /v1/vip/sessions/{sid}/control", Door::Internal, &[VIP_INTERNAL]) },
    Endpoint { owner: 101, foreign: 401, observer: 401, ..plain("WS /v1/vip/stream", Door::Ephemeral) },
    Endpoint { owner: 204, ..named("DELETE /v1/vip/sessions/{sid}", Door::Session, &[VIP]) },
];

/// What somebody was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Endpoint {
    fn credential(&self, world: &World, who: Who) -> Option<String> {
        let of = |credentials: &Credentials| credentials.of(who).map(str::to_owned);
        match (self.door, who) {
            (Door::Open | Door::Keyed | Door::Admin, _) => of(&world.keys),
            (Door::Session, _) => of(&world.sessions),
            (Door::Internal, _) => of(&world.internal),
            (Door::Ephemeral, _) => of(&world.ephemeral),
            (Door::Push, _) => of(&world.push),
            (Door::App, Who::Anonymous | Who::Wrong) => of(&world.keys),
            (Door::App, Who::Expired) => Some(app_token("ann", -1000)),
            (Door::App, Who::Foreign) => Some(app_token("bob", 200)),
            (Door::App, Who::Observer) => Some(app_token("olga", 200)),
            (Door::App, Who::Owner | Who::Admin) => Some(app_token("ann", 200)),
        }
    }

    /// Tries this way, as somebody, to these things.
    pub(crate) async fn tried(
        &self,
        world: &World,
        who: Who,
        names: &Names,
        more: &[(&'static str, &str)],
    ) -> Told {
        let (method, template) = self.way.split_once(' ').unwrap();
        let mut values = self.names.iter();
        let path: Vec<&str> = template
            .split('/')
            .map(|part| if part.starts_with('{') { values.next().expect("a value")(names) } else { part })
            .collect();
        assert!(values.next().is_none(), "{}: too many values", self.way);
        let path = path.join("/");
        let credential = self.credential(world, who);
        if method == "WS" {
            let speech = match template {
                "/v1/agent-socket" => Speech::Asp,
                path if path.starts_with("/v1/vip/") => Speech::Vip,
                _ => Speech::Acolyte,
            };
            return match Line::open(world.address(), &path, speech, credential.as_deref(), more).await {
                Ok(_) => Told { status: 101, body: String::new() },
                Err(Refused { status, body }) => Told { status, body: scrubbed(&body, names) },
            };
        }
        let body = (self.body)(names);
        let sdp = template.contains("/webrtc");
        let kind = if sdp { "application/sdp" } else { "application/json" };
        let mut headers = vec![format!("Content-Type: {kind}")];
        headers.extend(more.iter().map(|(name, value)| format!("{name}: {value}")));
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let body = match &body {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => body.to_string(),
        };
        let request = format!("{method} {path}");
        let Answer { status, body, .. } =
            http(world.address(), &request, credential.as_deref(), &headers, body).await;
        Told { status, body: scrubbed(&body, names) }
    }

    /// The status of the answer to somebody with this key, who asks for things that nobody has.
    pub(crate) async fn status(&self, address: SocketAddr, key: &str) -> u16 {
        let (method, template) = self.way.split_once(' ').unwrap();
        let path: Vec<&str> = template
            .split('/')
            .map(|part| if part.starts_with('{') { "ac_nobodys_000000000000" } else { part })
            .collect();
        let path = path.join("/");
        if method == "WS" {
            let speech =
                if template == "/v1/rpc" || template == "/ws" { Speech::Acolyte } else { Speech::Asp };
            let speech = if template == "/api/v1/ws" { Speech::Alicia } else { speech };
            return Line::open(address, &path, speech, Some(key), &[])
                .await
                .map_or_else(|refused| refused.status, |_| 101);
        }
        let request = format!("{method} {path}");
        http(address, &request, Some(key), &["Content-Type: application/json"], "{}".to_owned()).await.status
    }

    /// Tries this way as everybody, and says what is wrong with it.
    pub(crate) async fn check(&self, world: &World) -> Vec<String> {
        let mut wrong = Vec::new();
        let nobody = world.names.of_nobody();
        let names = &world.names;
        for who in [Who::Anonymous, Who::Wrong, Who::Expired] {
            let told = self.tried(world, who, names, &[]).await;
            let expected = if self.door == Door::Open { self.owner } else { 401 };
            if told.status != expected {
                wrong.push(format!("{}: {who:?} is told {told:?}, not {expected}", self.way));
            }
            if self.door != Door::Open && told != self.tried(world, who, &nobody, &[]).await {
                wrong.push(format!("{}: {who:?} can tell what is there from what is not", self.way));
            }
        }
        for (who, expected) in [(Who::Foreign, self.foreign), (Who::Observer, self.observer)] {
            let told = self.tried(world, who, names, &[]).await;
            if told.status != expected {
                wrong.push(format!("{}: {who:?} is told {told:?}, not {expected}", self.way));
            }
            let may_read = who == Who::Observer && self.observer == 200;
            let is_own = self.names.is_empty() && expected < 400;
            // Whoever takes part may know of it.
            let takes_part = who == Who::Observer && self.observer != self.foreign;
            if !takes_part && !is_own && told != self.tried(world, who, &nobody, &[]).await {
                wrong.push(format!("{}: {who:?} can tell what is there from what is not", self.way));
            }
            if !may_read && told.body.contains(MARK) {
                wrong.push(format!("{}: {who:?} reads what is Ann's: {told:?}", self.way));
            }
        }
        wrong
    }

    /// Tries this way as those who may: if they may not either, the table proves nothing.
    pub(crate) async fn check_owner(&self, world: &World) -> Vec<String> {
        let mut wrong = Vec::new();
        let told = self.tried(world, Who::Owner, &world.names, &[]).await;
        if told.status != self.owner {
            wrong.push(format!("{}: the owner is told {told:?}, not {}", self.way, self.owner));
        }
        if self.door == Door::Admin {
            let told = self.tried(world, Who::Admin, &world.names, &[]).await;
            if told.status != self.admin {
                wrong.push(format!("{}: an admin is told {told:?}, not {}", self.way, self.admin));
            }
        }
        wrong
    }

    /// Tries this way as the owner, but under a name that is not the server's, or from a page of somebody else's.
    pub(crate) async fn check_origin(&self, world: &World) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.door == Door::Push {
            // Functions may reach the server under a name of its own, and no page has their leave.
            return wrong;
        }
        let rebound = self.tried(world, Who::Owner, &world.names, &[("host", "evil.test")]).await;
        // A redirect to a path tells nothing.
        if !matches!(rebound.status, 403 | 308) {
            wrong.push(format!("{}: under another name, the owner is told {rebound:?}", self.way));
        }
        let page = self.tried(world, Who::Owner, &world.names, &[("origin", "https://evil.test")]).await;
        // Files that everybody may have are for pages, too; and what is public of VIP.
        let public =
            self.door == Door::Open && (self.way.contains("/demo/") || self.way.contains("/.well-known/"));
        if page.status != 403 && !public {
            wrong.push(format!("{}: a page of somebody else's is told {page:?}", self.way));
        }
        wrong
    }
}
