//! The errands of VIP, run by the server as it is configured.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_agents::McpState;
use switchboard_core::{Pii, Principal, Reply, RequestId};

use super::{Hosted, until};
use crate::errands::ErrandCaller;
use crate::guests::Guests;
use switchboard_engine::{Delivery, Inbox};

/// What becomes of an errand, and as whom the connection would go on.
async fn run(server: &Hosted, errand: Value) -> Result<(Value, Option<String>), String> {
    let inbox = Arc::new(Inbox::default());
    let caller = ErrandCaller {
        principal: Principal::new("ann"),
        address: "127.0.0.1".parse().unwrap(),
        origin: "https://voice.test".to_owned(),
    };
    let desk = &server.handle.door.gateway.errands;
    desk.run("vip", caller, RequestId(1), Pii(errand), inbox.clone());
    let mut arrived = Vec::new();
    until(|| {
        arrived.extend(inbox.take());
        !arrived.is_empty()
    })
    .await;
    let arrived = arrived.pop().unwrap();
    if let Delivery::Done(_, Reply::Errand(errand)) = arrived {
        return Ok((errand.answer.0.clone(), errand.principal.map(|principal| principal.id.to_string())));
    }
    let Delivery::Rejected(_, reject) = arrived else { panic!("{arrived:?}") };
    Err(reject.name().to_owned())
}

async fn failure(server: &Hosted, errand: Value) -> String {
    let (answer, principal) = run(server, errand).await.unwrap();
    assert_eq!(principal, None);
    assert!(answer["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer}");
    answer["failed"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn perform(name: &str) -> Value {
    json!({ "errand": "perform", "name": name, "parameters": { "item": "tea" }, "agent": "demo",
        "session": "vs_1", "sub": "user-42" })
}

#[tokio::test]
async fn somebody_in_development_is_vouched_for() {
    let server = Hosted::start(Guests::default(), &[]).await;
    let vouch =
        |development| json!({ "errand": "vouch", "token": null, "development": development, "redeem": true });
    let (answer, principal) = run(&server, vouch(true)).await.unwrap();
    assert_eq!((&answer["sub"], principal.as_deref()), (&json!("dev-anonymous"), Some("dev")));
    assert_eq!(failure(&server, vouch(false)).await, "AUTH_TOKEN_MISSING");
    assert_eq!(run(&server, json!({ "errand": "sing" })).await, Err("invalid".to_owned()));
    let strict = Hosted::start(Guests::default(), &["vip.allow_development=false"]).await;
    assert_eq!(failure(&strict, vouch(true)).await, "AUTH_ENVIRONMENT_FORBIDDEN");
}

#[tokio::test]
async fn peers_that_are_not_there_cannot_be_reached() {
    let server = Hosted::start(Guests::default(), &[]).await;
    let offer = json!({ "errand": "offer", "session": "vs_1", "sdp": "v=0\r\n", "token": "t" });
    assert_eq!(failure(&server, offer.clone()).await, "PROTO_MALFORMED");
    let trickle = json!({ "errand": "trickle", "session": "vs_1", "peer": "pc_1", "fragment": "" });
    assert_eq!(failure(&server, trickle).await, "SES_NOT_FOUND");
    let hang_up = json!({ "errand": "hang_up", "session": "vs_1", "peer": "pc_1" });
    assert_eq!(failure(&server, hang_up).await, "SES_NOT_FOUND");
    let without = Hosted::start(Guests::default(), &["vip.webrtc.enabled=false"]).await;
    assert_eq!(failure(&without, offer).await, "SES_NOT_FOUND");
}

#[tokio::test]
async fn tools_of_the_agent_are_functions_unless_a_person_has_to_confirm_them() {
    let shop = format!("{{ command = 'python3', args = ['-c', '''{TOOLS}'''], prefix = 'shop.' }}");
    let server = Hosted::start(Guests::default(), &[&format!("mcp={{ shop = {shop} }}")]).await;
    let mcp = server.handle.workshop.mcp.clone();
    until(|| mcp.status().iter().all(|status| status.state == McpState::Ready)).await;
    let (answer, _) = run(&server, perform("shop.stock")).await.unwrap();
    assert!(answer["data"].to_string().contains("7 of tea"), "{answer}");
    assert_eq!(failure(&server, perform("shop.wipe")).await, "ACT_CONFIRMATION_REQUIRED");
    assert_eq!(failure(&server, perform("shop.broken")).await, "ACT_EXECUTION_FAILED");
    assert_eq!(failure(&server, perform("shop.nothing")).await, "ACT_NOT_FOUND");
}

#[tokio::test]
async fn keys_of_vip_and_of_the_relay_are_shown_in_one_place() {
    let server = Hosted::start(Guests::default(), &[]).await;
    let keys = async |server: &Hosted| {
        let answer = server.ask("GET /.well-known/jwks.json", &[], "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = answer.body.lines().find(|line| line.starts_with('{')).expect("JSON").to_owned();
        serde_json::from_str::<Value>(&text).unwrap()["keys"].as_array().unwrap().clone()
    };
    let relay = server.handle.workshop.relay.jwks()["keys"][0].clone();
    let both = keys(&server).await;
    assert_eq!(both.len(), 2);
    assert!(both.contains(&relay), "{both:?}");
    let alone = Hosted::start(Guests::default(), &["vip.enabled=false"]).await;
    assert_eq!(keys(&alone).await, [alone.handle.workshop.relay.jwks()["keys"][0].clone()]);
    assert_eq!(alone.ask("GET /.well-known/vip", &[], "").await.status, 404);
    assert_eq!(server.ask("GET /.well-known/vip", &[], "").await.status, 200);
}

/// A server of tools, in the words of the Model Context Protocol.
const TOOLS: &str = r#"
import json, sys
def tool(name, **hints):
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"}}
    if method == "tools/list":
        return {"tools": [tool("stock", readOnlyHint=True, destructiveHint=False),
                          tool("broken", readOnlyHint=True, destructiveHint=False),
                          tool("wipe", destructiveHint=True)]}
    if method == "tools/call":
        broken = params["name"] == "broken"
        text = "out of order" if broken else "7 of " + params["arguments"]["item"]
        return {"content": [{"type": "text", "text": text}], "isError": broken}
    return {}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;
