//! Traffic of every protocol with something secret in every place there is. Each function answers the credentials
//! that it has met, which must be found nowhere either.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::MARK;
use crate::line::{Line, Speech};
use crate::pack::{pack, pack_bin, pack_map};
use crate::support::function::Function;
use crate::support::rpc::http;
use crate::support::wire::Peer;
use crate::support::{ANN, SECRET};

const JSON: &[&str] = &["Content-Type: application/json"];

/// A terminal: chats that go well and badly, over both transports.
pub(crate) async fn acolyte(address: SocketAddr, key: &str) {
    let mut line = Line::open(address, "/v1/rpc", Speech::Acolyte, Some(key), &[]).await.unwrap();
    let history =
        json!([{ "id": MARK, "role": "user", "content": MARK, "timestamp": "2026-01-01T00:00:00Z" }]);
    let chat = |message: String| json!({ "message": message, "history": history, "model": MARK, "sessionId": MARK, "resourceId": MARK });
    let requests = [
        ("status.get", json!({ "protocol_version": MARK, "capabilities": MARK })),
        ("chat.start", json!({ "request": chat(format!("echo {MARK}")) })),
        ("chat.start", json!({ "request": chat(format!("fail execution {MARK}")) })),
        ("chat.start", json!({ "request": chat(format!("tool-error {MARK}")) })),
        ("chat.start", json!({ "request": { "message": 5, MARK: MARK } })),
        ("chat.abort", json!({ "requestId": MARK })),
        ("task.status", json!({ "taskId": MARK, "sessionId": MARK })),
        ("chat.attach", json!({ "taskId": MARK, "sessionId": MARK })),
        (MARK, json!({ MARK: MARK })),
    ];
    for (number, (kind, payload)) in requests.into_iter().enumerate() {
        let id = format!("{MARK}-{number}");
        line.say(&json!({ "id": id, "type": kind, "payload": payload })).await;
        let ends = |heard: &Value| {
            let kind = heard["type"].as_str().unwrap_or_default();
            !matches!(kind, "chat.accepted" | "chat.queued" | "chat.started" | "chat.event")
        };
        line.hear_until(ends).await;
    }
    let stream = "POST /v1/chat/stream";
    http(address, stream, Some(key), JSON, chat(format!("echo {MARK}")).to_string()).await;
    http(address, stream, Some(key), JSON, format!("{{\"message\":\"{MARK}")).await;
    http(address, &format!("GET /v1/status?{MARK}={MARK}"), Some(key), &["Acolyte-Protocol: xyzzy7c1"], "")
        .await;
}

/// A device with facts, tasks and results; its key comes in every way there is.
pub(crate) async fn aip(address: SocketAddr, key: &str) {
    let name = format!("dev-{MARK}");
    let in_query = format!("/ws?token={key}");
    let mut line = Line::open(address, &in_query, Speech::Aip, None, &[]).await.unwrap();
    let facts = json!({ "system_info": { "hostname": MARK, "platform": MARK }, MARK: MARK });
    line.say(&json!({ "type": "register", "status": "ok", "client_id": name, "metadata": facts })).await;
    line.hear_until(|heard| heard["type"] == "heartbeat").await;
    let tasks = [
        format!("echo {MARK}"),
        format!("fail execution {MARK}"),
        format!("call tool-{MARK} {{\"{MARK}\":1}} within 3000"),
    ];
    for (number, request) in tasks.iter().enumerate() {
        let session = format!("{MARK}-{number}");
        line.say(&json!({ "type": "task", "status": "continue", "session_id": session, "task_name": MARK,
            "request": request }))
            .await;
        loop {
            let heard = line
                .hear_until(|heard| matches!(heard["type"].as_str(), Some("command" | "task_end" | "error")))
                .await;
            if heard["type"] != "command" {
                break;
            }
            let results = json!([{ "status": "success", "result": { MARK: MARK }, "namespace": MARK }]);
            line.say(&json!({ "type": "command_results", "status": "continue", "session_id": session,
                "prev_response_id": heard["response_id"], "action_results": results }))
                .await;
        }
    }
    line.say(&json!({ "type": "device_info_response", "status": "ok", "metadata": facts })).await;
    line.say(&json!({ "type": MARK, MARK: MARK })).await;
    line.hear_until(|heard| heard["type"] == "error").await;
    let shown = format!("X-API-Key: {key}");
    let dispatch = json!({ "request": MARK, "client_id": name, "task_name": MARK });
    http(address, "POST /api/dispatch", None, &[JSON[0], &shown], dispatch.to_string()).await;
    line.hear_until(|heard| heard["type"] == "task").await;
    for path in [format!("GET /api/task_result/{MARK}"), format!("GET /api/clients?{MARK}={MARK}")] {
        http(address, &path, Some(key), &[], "").await;
    }
}

/// Conversations with tools, memories, notes, votes, files and things said offline.
pub(crate) async fn alicia(address: SocketAddr, key: &str) {
    let mut line = Line::open(address, "/api/v1/ws", Speech::Alicia, Some(key), &[]).await.unwrap();
    let tool = format!("tool:{MARK}");
    let greeting = json!({ "lastSequenceSeen": 0, "device": MARK, "features": ["streaming", tool] });
    line.say(&json!({ "type": 12, "conversation": "", "body": greeting })).await;
    let conversation = line.hear_until(|heard| heard["type"] == 12).await["conversation"].clone();
    let say = |kind: u64, body: Value| json!({ "type": kind, "conversation": conversation, "body": body });
    let (first, second) = (format!("am_{MARK}"), format!("am_{MARK}2"));
    line.say(&say(2, json!({ "id": first, "content": format!("echo {MARK}"), "fileName": MARK }))).await;
    line.hear_until(|heard| heard["type"] == 16 && heard["body"]["isFinal"] == true).await;
    let request = format!("call {MARK} {{\"{MARK}\":\"{MARK}\"}} within 3000");
    line.say(&say(2, json!({ "id": second, "content": request }))).await;
    let asked = line.hear_until(|heard| matches!(heard["type"].as_u64(), Some(1 | 6))).await;
    if asked["type"] == 6 {
        let id = &asked["body"]["id"];
        line.say(&say(7, json!({ "id": id, "success": true, "result": { MARK: MARK } }))).await;
        line.hear_until(|heard| heard["type"] == 16 && heard["body"]["isFinal"] == true).await;
    }
    // Something is said aloud, and understood.
    let audio = pack_map(&[
        ("conversationId", pack(&conversation)),
        ("format", pack(&json!("audio/wav"))),
        ("sequence", pack(&json!(1))),
        ("durationMs", pack(&json!(100))),
        ("data", pack_bin(MARK.as_bytes())),
        ("isLast", pack(&json!(true))),
    ]);
    let spoken = [
        ("stanzaId", pack(&json!(line.next_number()))),
        ("conversationId", pack(&conversation)),
        ("type", pack(&json!(4))),
        ("body", audio),
    ];
    line.say_bytes(pack_map(&spoken)).await;
    let heard = line.hear_until(|heard| heard["type"] == 9).await;
    assert_eq!(heard["body"]["text"], format!("echo {MARK}"));
    line.hear_until(|heard| heard["type"] == 16 && heard["body"]["isFinal"] == true).await;
    let offline = json!({ "localId": MARK, "sequenceNumber": 9, "role": "user", "contents": MARK,
        "createdAt": "2026-01-01T00:00:00Z" });
    let beside = [
        say(15, json!({ "id": format!("aucc_{MARK}"), "messageId": first, "content": MARK })),
        say(
            20,
            json!({ "id": format!("av_{MARK}"), "messageId": first, "targetType": "message",
            "targetId": first, "vote": "up", "note": MARK, "timestamp": 1 }),
        ),
        say(
            22,
            json!({ "id": format!("an_{MARK}"), "messageId": first, "content": MARK, "category": MARK,
            "action": "create", "timestamp": 1 }),
        ),
        say(
            24,
            json!({ "id": format!("amem_{MARK}"), "action": "create", "timestamp": 1,
            "memory": { "content": MARK, "category": "fact" } }),
        ),
        say(17, json!({ "messages": [offline] })),
        say(4, json!({ "id": MARK, "format": MARK, "sequence": 1, "durationMs": 1, "data": MARK })),
        say(10, json!({ "targetId": MARK, "reason": MARK })),
        say(1, json!({ "id": MARK, "code": 1, "message": MARK })),
        say(99, json!({ MARK: MARK })),
    ];
    for message in &beside {
        line.ask(message, 0).await;
    }
    let conversation = conversation.as_str().unwrap();
    for (request, body) in [
        (format!("PATCH /api/v1/conversations/{conversation}"), json!({ "title": MARK })),
        (format!("POST /api/v1/conversations/{conversation}/messages"), json!({ "contents": MARK })),
        (format!("GET /api/v1/conversations/{MARK}?{MARK}={MARK}"), Value::Null),
        ("GET /api/v1/memories?query=xyzzy7c1".to_owned(), Value::Null),
        ("POST /api/v1/conversations".to_owned(), json!({ "title": [MARK] })),
    ] {
        http(address, &request, Some(key), JSON, body.to_string()).await;
    }
}

/// A screen, actions, what is typed, and audio; answers the tokens of the session.
pub(crate) async fn vip(address: SocketAddr) -> Vec<String> {
    let app = app_token(&format!("carol-{MARK}"));
    let request = |mode: &str| {
        json!({
            "protocol_versions": ["0.1"], "environment": "production", "mode": mode, "app_id": "shop",
            "client": { "name": MARK, "version": MARK, "platform": "other", "device_id": MARK },
            "audio": { "input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"] },
            "metadata": { MARK: MARK },
        })
    };
    let create = "POST /v1/vip/sessions";
    let session = http(address, create, Some(&app), JSON, request("external").to_string()).await;
    assert_eq!(session.status, 201, "{}", session.body);
    let session: Value = serde_json::from_str(&session.body).unwrap();
    let inner_app = app_token(&format!("carol-{MARK}"));
    let inner = http(address, create, Some(&inner_app), JSON, request("internal").to_string()).await;
    assert_eq!(inner.status, 201, "{}", inner.body);
    let inner: Value = serde_json::from_str(&inner.body).unwrap();
    let id = session["session_id"].as_str().unwrap();
    let token = session["session_token"].as_str().unwrap();

    let path = format!("/v1/vip/sessions/{id}/stream");
    let offered = format!("vip.v1, vip.bearer.{token}");
    let headers = [("sec-websocket-protocol", offered.as_str())];
    let mut line = Line::open(address, &path, Speech::Vip, None, &headers).await.unwrap();
    let connect = json!({ "session_id": id, "protocol_version": "0.1" });
    line.say(&json!({ "type": "client.connect", "data": connect })).await;
    let connected = line.hear_until(|heard| heard["type"] == "session.connected").await;
    let resume = connected["data"]["resume_token"].as_str().unwrap().to_owned();
    let note = json!({ "type": "object", "properties": { "note": { "type": "string" } } });
    let screen = json!({
        "mode": "full", "context_version": 1, "route": { "id": "home" }, "routes": [{ "target": "home" }],
        "narration": format!("Home of {MARK}."), "visibility": ["press"],
        "actions": { "press": { "type": "button", "description": MARK, "element_id": MARK, "parameters": note } },
    });
    line.say(&json!({ "type": "state.update", "data": screen })).await;
    line.hear_until(|heard| heard["type"] == "state.changed" && heard["data"]["state"] == "idle").await;
    let turns = [format!("echo {MARK}"), format!("call press {{\"note\":\"{MARK}\"}} within 5000")];
    for (number, text) in turns.iter().enumerate() {
        let turn = format!("{MARK}-{number}");
        let said = [
            ("input.start", json!({ "mode": "text", "trigger": "text" })),
            ("input.text", json!({ "text": text })),
            ("input.end", json!({ "reason": "text" })),
        ];
        for (kind, data) in said {
            line.say(&json!({ "type": kind, "turn_id": turn, "data": data })).await;
        }
        loop {
            let heard = line.hear().await;
            match heard["type"].as_str() {
                Some("action.invoke") => {
                    let result = json!({ "invocation_id": heard["data"]["invocation_id"], "action_id": "press",
                        "status": "success", "event": "action.success", "executed": true, "duration_ms": 1,
                        "data": { MARK: MARK } });
                    line.say(&json!({ "type": "action.result", "data": result })).await;
                }
                Some("response.done") => {
                    let played = json!({ "response_id": heard["data"]["response_id"], "played_ms": 0 });
                    line.say(&json!({ "type": "audio.complete", "data": played })).await;
                }
                Some("state.changed") if heard["data"]["state"] == "idle" => break,
                _ => assert!(heard["closed"].is_null(), "{heard}"),
            }
        }
    }
    for (kind, data) in [
        ("input.text", json!({ "text": [MARK] })),
        (MARK, json!({ MARK: MARK })),
        ("state.update", json!({ "mode": MARK, "narration": MARK })),
        ("audio.chunk", json!({ "stream_id": 1, "seq": 0, "offset_ms": 0, "audio": MARK })),
        (
            "error.recoverable",
            json!({ "code": "REC_MIC_UNAVAILABLE", "category": "recognition", "message": MARK,
            "fatal": false, "retryable": false }),
        ),
    ] {
        line.ask(&json!({ "type": kind, "data": data }), 0).await;
    }
    let about = format!("/v1/vip/sessions/{id}");
    for (request, key, body) in [
        (format!("GET {about}"), token, ""),
        (format!("GET {about}/history?after=0"), token, ""),
        (format!("GET {about}?token={token}"), MARK, ""),
        (format!("POST {about}/webrtc"), token, "v=0 xyzzy7c1"),
        (format!("PATCH {about}/webrtc/{MARK}"), token, "a=xyzzy7c1"),
        (format!("POST {about}/functions/{MARK}"), token, "{\"xyzzy7c1\":1}"),
        (format!("DELETE {about}"), token, ""),
    ] {
        let kind = if request.contains("webrtc") { "Content-Type: application/sdp" } else { JSON[0] };
        http(address, &request, Some(key), &[kind], body).await;
    }
    let secret = |value: &Value| value.as_str().unwrap().to_owned();
    vec![
        app,
        inner_app,
        token.to_owned(),
        resume,
        secret(&inner["session_token"]),
        secret(&inner["provider"]["credential"]["value"]),
    ]
}

/// A function that answers, pushes and fails; answers its leave to push.
pub(crate) async fn function(address: SocketAddr, function: &mut Function) -> Vec<String> {
    let mut peer = Peer::standard(address, ANN).await;
    peer.send(2, 1, &json!({ "input": MARK, "agent": "fn" })).await;
    let exchange = function.next().await;
    let (leave, cid) = (exchange.asked.push_token().to_owned(), exchange.asked.cid().to_owned());
    let frames = json!({ "frames": [{ "type": "STREAM", "rid": 1, "payload": { "t": "text", "d": MARK } }] });
    let push = format!("POST /v1/relay/connections/{cid}/frames");
    http(address, &push, Some(&leave), JSON, frames.to_string()).await;
    http(address, &push, Some(&leave), JSON, format!("{{\"{MARK}\":")).await;
    http(address, &push, Some(MARK), JSON, MARK).await;
    let end = json!({ "t": "end", "finish": "complete", "output": MARK });
    exchange.ndjson(&[json!({ "t": "text", "d": MARK }), end]).await;
    peer.finish(1).await;
    peer.send(2, 2, &json!({ "input": MARK, "agent": "fn" })).await;
    function.next().await.reply(400, &["Content-Type: text/plain"], MARK).await;
    peer.finish(2).await;
    vec![leave]
}

/// A token with which an application vouches for somebody.
fn app_token(subject: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let now = jsonwebtoken::get_current_timestamp();
    let claims = json!({
        "iss": "https://app.test", "aud": "https://vip.test", "sub": subject, "iat": now, "exp": now + 200,
        "jti": COUNT.fetch_add(1, Ordering::Relaxed).to_string(),
        "vip": { "app_id": "shop", "env": "production", "scopes": ["session:create"] },
    });
    let header = jsonwebtoken::Header { typ: Some("vip-app+jwt".into()), ..jsonwebtoken::Header::default() };
    let key = jsonwebtoken::EncodingKey::from_secret(SECRET.as_bytes());
    jsonwebtoken::encode(&header, &claims, &key).unwrap()
}
