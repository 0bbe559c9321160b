//! The requests that a function gets: what they say, and how it knows that they come from this relay.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use reqwest::{Client, Url};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use switchboard_asp::message::Secret;
use switchboard_asp::relay::sign::{WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use switchboard_asp::relay::{
    self, CancelGrant, Event, Invocation, Payload, Principal, PushGrant, SigningKey, body_hash, map, sign,
    webhook_id,
};
use switchboard_core::model::{Executor, Setting, Tool};
use switchboard_core::{Pii, PrincipalId, Timestamp, hex};

use super::config::{FunctionConfig, FunctionError};
use super::guard::PublicOnly;
use super::relay::{GRANT_TIME, Grant, Relay, seconds};
use crate::http;
use crate::memory::shown;
use crate::turn::Brief;

/// Where a function is, and how requests to it are signed.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) client: Client,
    url: Url,
    single_url: bool,
    keys: Vec<SigningKey>,
    jwt: bool,
}

impl Endpoint {
    pub(super) fn new(config: &FunctionConfig) -> Result<Self, FunctionError> {
        config.check()?;
        let url = config.endpoint()?;
        let patience = Duration::from_millis(config.connect_timeout_ms);
        let mut builder = http::client(url.scheme(), patience)
            .map_err(|error| FunctionError::new("url", error.to_string()))?
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE);
        if !config.allow_private {
            builder = builder.dns_resolver(std::sync::Arc::new(PublicOnly));
        }
        let client = builder.build().map_err(|error| FunctionError::new("url", error.to_string()))?;
        Ok(Self { client, url, single_url: config.single_url, keys: config.keys()?, jwt: config.jwt })
    }

    /// The request that carries an invocation, and what its function is told beside it.
    pub(super) fn request(
        &self,
        invocation: &Invocation,
        beside: &Beside<'_>,
        relay: &Relay,
        now: Timestamp,
    ) -> reqwest::RequestBuilder {
        let body = body(invocation, beside);
        let url = self.url_for(invocation.event);
        let mut headers = self.signature(invocation, relay, &url, &body, now);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static(relay::ACCEPT));
        headers.insert(TE, HeaderValue::from_static("trailers"));
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        put(relay::IDEMPOTENCY_KEY, invocation.inv.clone());
        put(relay::X_ASP_CID, invocation.cid.clone());
        put(relay::X_ASP_REQUEST_ID, invocation.rid.to_string());
        put(relay::X_ASP_ATTEMPT, invocation.attempt.to_string());
        put(relay::X_ASP_DEADLINE_MS, invocation.deadline_ms.unwrap_or(0).to_string());
        put("traceparent", trace_parent(invocation));
        self.client.post(url).headers(headers).body(body)
    }

    /// Where turns are sent to, for a person: without what may be secret in it.
    pub(super) fn shown_url(&self) -> String {
        let mut url = self.url_for(Event::Invoke);
        url.set_query(None);
        url.set_fragment(None);
        url.to_string().chars().take(MAX_SHOWN_URL).collect()
    }

    /// The path of that.
    pub(super) fn shown_path(&self) -> String {
        self.url_for(Event::Invoke).path().chars().take(MAX_SHOWN_URL).collect()
    }

    fn url_for(&self, event: Event) -> Url {
        let path = match event {
            Event::Invoke | Event::Continue => "invoke",
            Event::Interrupt => "interrupt",
            Event::Connect => "connect",
            Event::Disconnect => "disconnect",
        };
        let mut url = self.url.clone();
        if !self.single_url
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.pop_if_empty().push(path);
        }
        url
    }

    fn signature(
        &self,
        invocation: &Invocation,
        relay: &Relay,
        url: &Url,
        body: &Bytes,
        now: Timestamp,
    ) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut put = |name: HeaderName, value: String| {
            if let Ok(mut value) = HeaderValue::from_str(&value) {
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        };
        if !self.keys.is_empty() {
            let id = webhook_id(&invocation.inv, invocation.leg);
            let signature = sign(&self.keys, &id, seconds(now), body);
            put(HeaderName::from_static(WEBHOOK_ID), id);
            put(HeaderName::from_static(WEBHOOK_TIMESTAMP), seconds(now).to_string());
            put(HeaderName::from_static(WEBHOOK_SIGNATURE), signature);
        }
        if self.jwt {
            let claims = Claims {
                iss: relay.public_url(),
                aud: url.as_str(),
                iat: seconds(now),
                exp: seconds(now) + TOKEN_TIME_S,
                jti: format!("{}.{}.{}", invocation.inv, invocation.leg, invocation.attempt),
                cid: &invocation.cid,
                rid: invocation.rid,
                inv: &invocation.inv,
                bh: body_hash(body),
            };
            if let Some(token) = relay.key().sign(RELAY_TOKEN, &claims) {
                put(AUTHORIZATION, format!("Bearer {token}"));
            }
        }
        headers
    }
}

/// What a function is told beside what it is asked.
#[derive(Debug, Default)]
pub(super) struct Beside<'a> {
    /// What is remembered of whoever asks.
    pub(super) remembered: Vec<String>,
    /// What the application wants, and what whoever asks has before their eyes.
    pub(super) setting: Option<&'a Setting>,
    /// What it can ask for with `call`.
    pub(super) tools: Vec<Tool>,
}

impl<'a> Beside<'a> {
    pub(super) fn of(brief: &'a Brief, tools: Vec<Tool>) -> Self {
        Self { remembered: shown(&brief.remembered), setting: brief.setting.as_deref(), tools }
    }
}

/// The body of a request. What is told beside it is none of the protocol's business, and so it is added to what
/// the protocol writes, as further members at the end.
fn body(invocation: &Invocation, beside: &Beside<'_>) -> Bytes {
    let plain = invocation.to_json();
    let remembered = (!beside.remembered.is_empty()).then(|| ("remembered", json!(beside.remembered)));
    let setting = beside.setting.map(|setting| ("setting", json!(setting)));
    let tools = tools(&beside.tools);
    let tools = (!tools.is_empty()).then(|| ("tools", Value::Array(tools)));
    let members: Vec<(&str, Value)> = remembered.into_iter().chain(setting).chain(tools).collect();
    let Some(open) = plain.strip_suffix(b"}").filter(|_| !members.is_empty()) else { return plain };
    let mut whole = open.to_vec();
    for (name, value) in members {
        whole.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
    }
    whole.push(b'}');
    whole.into()
}

/// The tools as a function is told of them, in the order of their names; those that do not fit are left out.
fn tools(tools: &[Tool]) -> Vec<Value> {
    let mut sorted: Vec<&Tool> = tools.iter().collect();
    sorted.sort_by(|one, other| one.name.as_str().cmp(other.name.as_str()));
    let mut room = MAX_TOOLS_BYTES;
    let fits = |tool: &Value| {
        let left = room.checked_sub(tool.to_string().len());
        room = left.unwrap_or(room);
        left.is_some()
    };
    sorted.into_iter().map(tool).filter(fits).take(MAX_TOOLS).collect()
}

fn tool(tool: &Tool) -> Value {
    let marks = &tool.annotations;
    let confirm = marks.confirm == Some(true) || marks.destructive == Some(true);
    let executor = match &tool.executor {
        Executor::Agent => "server",
        Executor::Device(_) => "device",
        Executor::Attachment(_) | Executor::Principal(_) | Executor::Anyone => "client",
    };
    let mut told = json!({
        "name": tool.name,
        "input_schema": tool.input_schema,
        "executor": executor,
        "confirm": confirm,
    });
    if !tool.description.is_empty() {
        told["description"] = json!(tool.description);
    }
    if let Some(schema) = &tool.output_schema {
        told["output_schema"] = json!(schema);
    }
    told
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: String,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
    cid: &'a str,
    rid: u16,
    inv: &'a str,
    bh: String,
}

/// Names the invocation of a turn: the same for every attempt, and nobody else's.
pub(super) fn invocation_id(brief: &Brief) -> String {
    let mut hash = Sha256::new();
    hash.update(brief.session.as_str().as_bytes());
    hash.update([0]);
    hash.update(brief.turn.as_str().as_bytes());
    let digest = hash.finalize();
    let name = hex(digest.iter().take(16));
    format!("inv_{name}")
}

/// The connection that a turn hangs on; the session itself where there is none.
pub(super) fn connection_id(brief: &Brief) -> String {
    match &brief.origin.attachment {
        Some(attachment) => attachment.to_string(),
        None => brief.session.to_string(),
    }
}

/// What a turn asks of its function. The client's own credential is not known here, and so cannot be passed on.
pub(super) fn invocation(brief: &Brief, event: Event, relay: &Relay, now: Timestamp) -> Invocation {
    let rid = map::request_id(&brief.origin);
    let (cid, inv) = (connection_id(brief), invocation_id(brief));
    let left = brief.deadline.since(now);
    let features = map::features(&brief.origin);
    let exp = seconds(now.after(left.min(GRANT_TIME)));
    let grant = Grant {
        cid: cid.clone(),
        inv: Some(inv.clone()),
        rid,
        session: brief.session.clone(),
        principal: brief.origin.principal.clone(),
        agent: brief.agent.to_string(),
        push: features.iter().any(|feature| feature == "push"),
        // A little longer than the turn may take, so that its function can still learn that it is over.
        exp: exp.saturating_add(GRACE_S).min(seconds(now.after(GRANT_TIME))),
    };
    let base = format!("{}/v1/relay/connections/{cid}", relay.public_url());
    let mut invocation = Invocation::new(event, cid, rid, inv);
    invocation.enc = Some(map::original(&brief.origin));
    invocation.payload = Some(Payload::Json(map::payload(&brief.request, &brief.meta)));
    invocation.session = Some(brief.session.to_string());
    invocation.agent = Some(brief.agent.to_string());
    invocation.deadline_ms = Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    invocation.sent_at = Some(now.as_micros() / 1_000);
    invocation.principal = Some(principal(&brief.origin.principal));
    invocation.features = features;
    if let Some(token) = relay.grant(&grant) {
        let url = format!("{base}/frames");
        invocation.push = Some(PushGrant { url, token: Secret::new(token), exp: grant.exp });
        let url = format!("{base}/requests/{}", invocation.inv);
        invocation.cancel = Some(CancelGrant { url, poll_ms: relay::body::DEFAULT_POLL_MS });
    }
    invocation
}

/// Who asks, as a function is told.
pub(super) fn principal(id: &PrincipalId) -> Principal {
    Principal { sub: Pii(id.to_string()), scope: Vec::new(), claims: None }
}

/// Ties what the function traces to the invocation.
fn trace_parent(invocation: &Invocation) -> String {
    let digest = Sha256::digest(invocation.inv.as_bytes());
    let hex = hex(&digest);
    let (trace, span) = (&hex[..32], &hex[32..48]);
    format!("00-{trace}-{span}-01")
}

const RELAY_TOKEN: &str = "asp-relay+jwt";
/// For how long a signed request is good.
const TOKEN_TIME_S: u64 = 60;
const GRACE_S: u64 = 120;
/// Tools that a function is told of, and their size as JSON.
const MAX_TOOLS: usize = 256;
/// Letters of an address that are shown.
const MAX_SHOWN_URL: usize = 300;
const MAX_TOOLS_BYTES: usize = 256 << 10;
const POOL_IDLE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use switchboard_core::model::ToolAnnotations;

    use super::*;

    #[test]
    fn what_is_told_beside_are_further_members_of_the_body() {
        let mut invocation = Invocation::new(Event::Continue, "cid_1", 7, "inv_1");
        invocation.session = Some("ses_1".into());
        let read =
            |beside: &Beside<'_>| -> Value { serde_json::from_slice(&body(&invocation, beside)).unwrap() };
        assert_eq!(body(&invocation, &Beside::default()), invocation.to_json());
        let remembered = vec!["likes \"tea\"}".to_owned(), "has a dog".to_owned()];
        let setting =
            Setting { instructions: Some("Be brief.\"}".into()), scene: Some("Cart:\nempty".into()) };
        let only_scene = Setting { instructions: None, ..setting.clone() };
        for (beside, wanted) in [
            (
                Beside { remembered: remembered.clone(), ..Beside::default() },
                json!({ "remembered": remembered }),
            ),
            (
                Beside { setting: Some(&only_scene), ..Beside::default() },
                json!({ "setting": { "scene": "Cart:\nempty" } }),
            ),
            (
                Beside { remembered: remembered.clone(), setting: Some(&setting), ..Beside::default() },
                json!({
                    "remembered": remembered,
                    "setting": { "instructions": "Be brief.\"}", "scene": "Cart:\nempty" },
                }),
            ),
        ] {
            let mut told = read(&beside);
            let members = told.as_object_mut().unwrap();
            for (name, value) in wanted.as_object().unwrap() {
                assert_eq!(members.remove(name).as_ref(), Some(value));
            }
            assert_eq!(told, read(&Beside::default()));
            let known = Invocation::from_json(&body(&invocation, &beside)).unwrap();
            assert!(known == invocation, "who does not know it is not disturbed");
        }
    }

    fn offered(name: &str, executor: Executor, bytes: usize) -> Tool {
        Tool {
            name: name.into(),
            description: "d".repeat(bytes),
            input_schema: json!({ "type": "object" }).into(),
            output_schema: None,
            annotations: ToolAnnotations::default(),
            version: None,
            executor,
            grace_ms: 0,
            options: Value::Null,
        }
    }

    #[test]
    fn tools_are_told_with_who_executes_them_and_whether_a_person_is_asked() {
        let marks = ToolAnnotations { destructive: Some(true), ..ToolAnnotations::default() };
        let wipe = Tool { annotations: marks, ..offered("b.wipe", Executor::Agent, 1) };
        let near = offered("a", Executor::Attachment("att".into()), 0);
        let pi = offered("c", Executor::Device("pi".into()), 0);
        let schema = json!({ "type": "object" });
        assert_eq!(
            tools(&[wipe, near, pi]),
            [
                json!({ "name": "a", "input_schema": schema, "executor": "client", "confirm": false }),
                json!({ "name": "b.wipe", "description": "d", "input_schema": schema, "executor": "server", "confirm": true }),
                json!({ "name": "c", "input_schema": schema, "executor": "device", "confirm": false }),
            ]
        );
    }

    #[test]
    fn tools_beyond_the_bounds_are_left_out() {
        let many: Vec<Tool> = (0..300).map(|n| offered(&format!("t{n:03}"), Executor::Anyone, 0)).collect();
        assert_eq!(tools(&many).len(), MAX_TOOLS);
        let large = [
            offered("a", Executor::Anyone, 200 << 10),
            offered("b", Executor::Anyone, 200 << 10),
            offered("c", Executor::Anyone, 0),
        ];
        let names: Vec<Value> = tools(&large).iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["a", "c"]);
    }
}
