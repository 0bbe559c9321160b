//! Tools that run on this side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard_client::alicia::{ConversationEvent, Join, ToolFailure};

use crate::support::{Cable, Served, answer, soon, until};

#[tokio::test]
async fn al_062_a_tool_is_run_here_and_its_result_used() {
    let server = Served::start().await;
    let client = server.client().await;
    let clock = |call: switchboard_client::alicia::ToolCall| async move {
        match call.parameters["zone"].as_str() {
            Some(zone) => Ok(json!({ "time": format!("12:00 {zone}") })),
            None => Err(ToolFailure::invalid("a zone is needed")),
        }
    };
    let join = Join::create().tool("clock", clock);
    let (conversation, mut updates) = soon(client.conversation(join)).await.expect("joined");
    soon(conversation.say(r#"call clock {"zone":"UTC"}"#)).await.expect("said");
    let (text, _) = answer(&mut updates).await;
    assert!(text.text.0.contains("12:00 UTC"), "{}", text.text.0);
}

#[tokio::test]
async fn a_tool_that_is_declared_later_is_run_as_well() {
    let server = Served::start().await;
    let (_client, conversation, mut updates) = server.conversation().await;
    conversation.tool("dice", |_| async { Ok(json!(6)) }).await.expect("declared");
    soon(conversation.say("call dice {}")).await.expect("said");
    let (text, _) = answer(&mut updates).await;
    assert!(text.text.0.contains('6'), "{}", text.text.0);
}

#[tokio::test]
async fn a_tool_runs_once_even_if_the_connection_is_lost_meanwhile() {
    let server = Served::start().await;
    let cable = Cable::to(server.address).await;
    let client = cable.client().await;
    let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Notify::new()));
    let slow = {
        let (runs, go) = (runs.clone(), go.clone());
        move |_| {
            let (runs, go) = (runs.clone(), go.clone());
            async move {
                runs.fetch_add(1, Ordering::SeqCst);
                go.notified().await;
                Ok(json!("done"))
            }
        }
    };
    let join = Join::create().tool("slow", slow);
    let (conversation, mut updates) = soon(client.conversation(join)).await.expect("joined");
    soon(conversation.say("call slow {} within 30000")).await.expect("said");
    until(&mut updates, |event| matches!(event, ConversationEvent::RunTool(_))).await;
    cable.cut();
    until(&mut updates, |event| matches!(event, ConversationEvent::Interrupted { .. })).await;
    go.notify_one();
    cable.plug_into(server.address);
    client.network_is_back();
    let (text, _) = answer(&mut updates).await;
    assert!(text.text.0.contains("done"), "{}", text.text.0);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
