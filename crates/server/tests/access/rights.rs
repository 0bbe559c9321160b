//! What each credential of one principal may do: the table of rights, tried over HTTP and on WebSockets, and
//! printed in the documentation.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use switchboard_core::{Need, Right, Role, Scopes};
use switchboard_server::auth::hash_key;

use crate::endpoints::ENDPOINTS;
use crate::line::{Line, Speech};
use crate::routes;
use crate::support::rpc::http;
use crate::support::{ANN, InProcess};
use crate::world::hello;

/// Lists of scopes, each a credential of Ann's.
const CREDENTIALS: &[&[&str]] = &[
    &["connect"],
    &["read"],
    &["invoke"],
    &["connect", "read"],
    &["connect", "invoke"],
    &["connect", "tools"],
    &["connect", "approve"],
    &["connect", "manage"],
    &["connect", "dispatch"],
    &["admin"],
    &["connect", "invoke", "admin"],
    &["agent:conformance"],
    &["agent:other"],
    &["agent:*", "read"],
    &["device:lone-1"],
    &["connect", "device:lone-1"],
    &["connect", "invoke", "device:lone-*"],
    &["constellation:ctl"],
    &["target:*"],
    &["asp:connect", "asp:invoke", "alicia:read"],
    &["vip:admin"],
];

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs a test says so in the environment")]
fn the_documentation_holds_the_table_of_rights() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rights.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page marks where the table begins");
    let (_, after) = rest.split_once(END).expect("and where it ends");
    let expected = format!("{before}{BEGIN}\n{}{END}{after}", tables());
    if page != expected && std::env::var_os("SWITCHBOARD_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert_eq!(page, expected, "run this test once with SWITCHBOARD_WRITE_DOCS=1");
    }
}

fn tables() -> String {
    let mut text = String::from("\n| Right | Any one of these is enough | What it is |\n|---|---|---|\n");
    for right in Right::ALL {
        let needs = right.needs().iter().map(|need| match need {
            Need::Scope(scope) => format!("`{}`", scope.word()),
            Need::Device => "being registered as a device".to_owned(),
            Need::Constellation => "being registered as a constellation".to_owned(),
        });
        let needs = needs.collect::<Vec<_>>().join(", ");
        let needs = if needs.is_empty() { "nothing" } else { &needs };
        writeln!(text, "| {right:?} | {needs} | {} |", right.about()).unwrap();
    }
    text += "\n| Way in | Right |\n|---|---|\n";
    for (way, right) in routes::served() {
        if let Some(right) = right {
            writeln!(text, "| `{way}` | {right:?} |").unwrap();
        }
    }
    text + "\n"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_is_let_through_exactly_the_ways_of_the_table() {
    let server = start().await;
    let mut wrong = Vec::new();
    for (index, words) in CREDENTIALS.iter().enumerate() {
        let list = words.join(" ");
        for (way, right) in routes::served() {
            let Some(right) = right.filter(|_| !way.contains("/vip") && !way.contains("/.well-known")) else {
                continue;
            };
            let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.way == way).expect("in the table");
            let scopes = Scopes::parse(&list).within(protocol_of(&way));
            // On AIP's socket one has to be a device or an orchestrator.
            let has_role = way != "WS /ws" || scopes.allows_enrolment();
            let allowed = scopes.permit(right, None) && has_role;
            if way.ends_with("shutdown") && allowed {
                continue;
            }
            let status = endpoint.status(server.address, &key(index)).await;
            if (status == 403) == allowed || status == 401 {
                wrong.push(format!("{list}: {way} needs {right:?}, and {status} is the answer"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_is_refused_on_sockets_what_the_table_refuses() {
    let server = start().await;
    let mut wrong = Vec::new();
    for (index, words) in CREDENTIALS.iter().enumerate() {
        let list = words.join(" ");
        for Said { speech, path, protocol, first, message, right, agent } in SAID {
            let scopes = Scopes::parse(&list).within(protocol);
            let Ok(mut line) = Line::open(server.address, path, *speech, Some(&key(index)), &[]).await else {
                assert!(!scopes.permit(Right::Connect, None), "{list} is not let in at {path}");
                continue;
            };
            if let Some(first) = first {
                line.say(&first()).await;
                line.hear().await;
            }
            let answers = line.ask(&message(), 1).await;
            let told = json!(answers).to_string();
            let refused = REFUSALS.iter().any(|refusal| told.contains(refusal));
            let reaches = !agent || scopes.allows_agent(&"conformance".into());
            if refused == (scopes.permit(*right, None) && reaches) {
                wrong.push(format!("{list}: {protocol} {} needs {right:?}: {told}", message()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_does_in_conversations_what_the_table_allows() {
    let server = start().await;
    let headers = ["Content-Type: application/json"];
    let mut wrong = Vec::new();
    for (index, words) in CREDENTIALS.iter().enumerate() {
        let list = words.join(" ");
        let scopes = Scopes::parse(&list).within("alicia");
        for (number, (right, agent, said, done)) in IN_CONVERSATIONS.iter().enumerate() {
            let body = json!({ "title": list }).to_string();
            let made = http(server.address, "POST /api/v1/conversations", ANN, &headers, body).await;
            let made: Value = serde_json::from_str(&made.body).unwrap();
            let conversation = made["id"].as_str().unwrap();
            let line = Line::open(server.address, "/api/v1/ws", Speech::Alicia, Some(&key(index)), &[]).await;
            let Ok(mut line) = line else {
                assert!(!scopes.permit(Right::Connect, None), "{list} is not let in");
                continue;
            };
            let greeting = json!({ "lastSequenceSeen": 0, "features": ["streaming"] });
            line.say(&json!({ "type": 12, "conversation": conversation, "body": greeting })).await;
            let mut message = said(&format!("{index}-{number}"));
            message["conversation"] = conversation.into();
            // Whatever it leads to comes before the answer to what is asked next.
            let mut heard = line.ask(&message, 1).await;
            let is_answered =
                heard.iter().any(|heard| done(heard) || heard["type"] == 1 || heard["type"] == 25);
            if !is_answered && scopes.permit(*right, None) {
                heard.push(line.hear_until(|heard| done(heard) || heard["type"] == 1).await);
            }
            let is_done = heard.iter().any(done);
            let reaches = !agent || scopes.allows_agent(&"conformance".into());
            // Whoever cannot follow a conversation does not come into it at all.
            let comes_in = scopes.permit(Right::Follow, None);
            if is_done != (scopes.permit(*right, None) && reaches && comes_in) {
                wrong.push(format!("{list}: {} needs {right:?}: {}", message["type"], json!(heard)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is said in a conversation of Alicia's: the right that it needs, whether it asks the agent, the message, and what
/// shows that it was done.
type InConversation = (Right, bool, fn(&str) -> Value, fn(&Value) -> bool);

const IN_CONVERSATIONS: &[InConversation] = &[
    (
        Right::Ask,
        true,
        |id| json!({ "type": 2, "body": { "id": format!("am_{id}"), "content": "echo x" } }),
        |heard| heard["type"] == 13,
    ),
    (
        Right::Ask,
        false,
        |id| {
            let one = json!({ "localId": format!("local_{id}"), "sequenceNumber": 1, "role": "user",
                "contents": "x", "createdAt": "2026-01-01T00:00:00Z" });
            json!({ "type": 17, "body": { "messages": [one] } })
        },
        |heard| heard["type"] == 18 && heard["body"]["syncedMessages"][0]["status"] == "synced",
    ),
    (
        Right::Annotate,
        // The session that keeps memories has an agent, too.
        true,
        |id| {
            let memory = json!({ "content": "tea", "category": "fact" });
            json!({ "type": 24, "body": { "id": format!("amem_{id}"), "action": "create", "memory": memory, "timestamp": 1 } })
        },
        |heard| heard["type"] == 25 && heard["body"]["success"] == true,
    ),
    (
        Right::Follow,
        false,
        |_| json!({ "type": 40, "body": {} }),
        |heard| heard["type"] == 42 && heard["body"]["success"] == true,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_registers_as_what_its_scopes_say() {
    let server = start().await;
    let mut wrong = Vec::new();
    for (index, words) in CREDENTIALS.iter().enumerate() {
        let list = words.join(" ");
        let scopes = Scopes::parse(&list).within("aip");
        for (role, kind, name) in [
            (Role::Device, "device", format!("lone-{index}")),
            (Role::Device, "device", format!("other-{index}")),
            (Role::Orchestrator, "constellation", "ctl".to_owned()),
            (Role::Orchestrator, "constellation", format!("boss-{index}")),
        ] {
            let message =
                json!({ "type": "register", "status": "ok", "client_id": name, "client_type": kind });
            let registered =
                match Line::open(server.address, "/ws", Speech::Aip, Some(&key(index)), &[]).await {
                    Err(refused) => {
                        assert_eq!(refused.status, 403, "{list}");
                        false
                    }
                    Ok(mut line) => {
                        line.say(&message).await;
                        let heard = line.hear().await;
                        // A constellation without a device is told that it needs one, once it may register.
                        heard["type"] == "heartbeat" || !heard.to_string().contains("not permitted")
                    }
                };
            let may_connect = scopes.permit(Right::Connect, None);
            if registered != (may_connect && scopes.allows_callsign(role, &name)) {
                wrong.push(format!("{list}: {kind} {name}: {registered}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_answers_and_stops_what_the_table_allows() {
    let server = start().await;
    let mut wrong = Vec::new();
    for (index, words) in CREDENTIALS.iter().enumerate() {
        let list = words.join(" ");
        let scopes = Scopes::parse(&list).within("asp");
        let session = format!("asked-{index}");
        let mut owner = Line::open(server.address, "/v1/agent-socket", Speech::Asp, ANN, &[]).await.unwrap();
        owner.say(&hello()).await;
        owner.say(&invoke(json!({ "input": "ask why", "session": session }))).await;
        let ask = owner.hear_until(|heard| heard["payload"]["t"] == "ask").await;
        let line = Line::open(server.address, "/v1/agent-socket", Speech::Asp, Some(&key(index)), &[]).await;
        let Ok(mut line) = line else { continue };
        line.say(&hello()).await;
        line.hear_until(|heard| heard["payload"]["op"] == "accept").await;
        line.say(&invoke(json!({ "kind": "watch", "session": session }))).await;
        let follows = line
            .hear_until(|heard| heard["id"] == 1 && (heard["op"] == 6 || heard["payload"]["t"] == "ask"))
            .await;
        let follows = follows["payload"]["t"] == "ask";
        if follows != scopes.permit(Right::Follow, None) {
            wrong.push(format!("{list}: watch"));
        }
        if !follows {
            continue;
        }
        let reply = json!({ "kind": "reply", "parent": 1, "ask_id": ask["payload"]["ask_id"], "text": "so" });
        line.say(&json!({ "op": 2, "id": 2, "payload": reply })).await;
        let heard = line.hear_until(|heard| heard["id"] == 2).await;
        let accepted = heard["payload"]["finish"] == "accepted";
        let allowed = scopes.permit(Right::Answer, None) && scopes.permit(Right::AnswerQuestion, None);
        if accepted != allowed {
            wrong.push(format!("{list}: reply: {heard}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Something that is said on a socket, and what it needs.
struct Said {
    speech: Speech,
    path: &'static str,
    protocol: &'static str,
    first: Option<fn() -> Value>,
    message: fn() -> Value,
    right: Right,
    /// Whether it asks an agent.
    agent: bool,
}

const fn asp(message: fn() -> Value, right: Right, agent: bool) -> Said {
    Said {
        speech: Speech::Asp,
        path: "/v1/agent-socket",
        protocol: "asp",
        first: Some(hello),
        message,
        right,
        agent,
    }
}

const fn acolyte(message: fn() -> Value, right: Right, agent: bool) -> Said {
    Said { speech: Speech::Acolyte, path: "/v1/rpc", protocol: "acolyte", first: None, message, right, agent }
}

fn invoke(payload: Value) -> Value {
    json!({ "op": 2, "id": 1, "payload": payload })
}

/// At least one message for each right that a client of the protocol can ask for.
const SAID: &[Said] = &[
    asp(|| invoke(json!({ "input": "echo x" })), Right::Ask, true),
    asp(|| invoke(json!({ "kind": "step", "step": { "goal": "echo x" } })), Right::Ask, true),
    asp(|| invoke(json!({ "kind": "tool", "tool": "greet", "args": { "name": "x" } })), Right::RunTool, true),
    asp(|| invoke(json!({ "kind": "watch", "session": "mine" })), Right::Follow, false),
    acolyte(
        || {
            let request = json!({ "message": "echo x", "history": [], "model": "m", "sessionId": "sess_aaaaaaaaaaaaaaaaaaaaaaaaaa" });
            json!({ "id": "rpc_1", "type": "chat.start", "payload": { "request": request } })
        },
        Right::Ask,
        false,
    ),
];

/// How protocols say no.
const REFUSALS: [&str; 2] = ["FORBIDDEN", "The credential does not allow"];

fn key(index: usize) -> String {
    format!("key-number-{index}-of-ann-0123456789abcdef")
}

async fn start() -> InProcess {
    let entries = CREDENTIALS.iter().enumerate().map(|(index, words)| {
        let words = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
        let hash = hash_key(&key(index));
        format!("{{id='ann-{index}',hash='{hash}',principal='ann',scopes=[{words}]}}")
    });
    let all = "{id='ann',key_env='KEY_ANN',principal='ann'}".to_owned();
    let entries: Vec<String> = std::iter::once(all).chain(entries).collect();
    let keys = format!("auth.api_keys=[{}]", entries.join(","));
    InProcess::start(&[&keys]).await
}

fn protocol_of(way: &str) -> &'static str {
    let path = way.split_once(' ').map_or(way, |(_, path)| path);
    match path {
        path if path.starts_with("/admin/") => "",
        path if path.starts_with("/v1/agent-socket") || path.starts_with("/asp") => "asp",
        path if path.starts_with("/api/v1/") => "alicia",
        path if path.starts_with("/v1/") => "acolyte",
        path if path == "/ws" || path.starts_with("/api/") => "aip",
        _ => "asp",
    }
}

const BEGIN: &str = "<!-- written by the test `the_documentation_holds_the_table_of_rights` -->";
const END: &str = "<!-- end -->";
