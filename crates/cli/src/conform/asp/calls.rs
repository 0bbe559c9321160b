//! Tools and calls (sections 7, 8 and 10).

use serde_json::{Value, json};

use super::super::check::{Check, Need, Outcome, Run, Stop, must};
use super::peer::{FEATURES, Frame, Peer, TOOL_DEF, text_of};

pub(super) const CHECKS: &[Check] = &[
    Check {
        shows: &[42, 43],
        needs: &[Need::Says("add tool"), Need::Says("remove tool")],
        run: |run| Box::pin(tools_are_told(run)),
    },
    Check { shows: &[44], needs: &[], run: |run| Box::pin(arguments_are_checked(run)) },
    Check { shows: &[45], needs: &[Need::Says("call")], run: |run| Box::pin(a_call_has_one_result(run)) },
    Check {
        shows: &[45],
        needs: &[Need::Says("call"), Need::Says("try")],
        run: |run| Box::pin(a_call_times_out(run)),
    },
];

async fn tools_are_told(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let first = peer.wait("TOOL_DEF without being asked", |frame| frame.opcode == TOOL_DEF).await?;
    must!(first.id == 0, "TOOL_DEF on #0, got #{}", first.id);
    let mut last = first.value["rev"].as_u64().unwrap_or_default();
    must!(last > 0, "a rev, got {}", first.value["rev"]);
    for text in ["add tool", "remove tool", "add tool"] {
        peer.say(text).await;
        let told = peer.wait("TOOL_DEF after a change", |frame| frame.opcode == TOOL_DEF).await?;
        let rev = told.value["rev"].as_u64().unwrap_or_default();
        must!(rev > last, "a rev above {last}, got {}", told.value["rev"]);
        last = rev;
    }
    peer.close().await;
    Ok(())
}

async fn arguments_are_checked(run: &Run<'_>) -> Outcome {
    let mut peer = Peer::standard(run).await?;
    let id = peer.invoke(&json!({ "kind": "tool", "tool": "greet", "args": { "name": "Bo" } })).await;
    let frames = peer.finish(id).await?;
    if frames.last().and_then(Frame::code) == Some(2301) {
        return Err(Stop::needs("the tool greet of the conformance story"));
    }
    let output = frames.last().map(|end| end.value["output"].clone()).unwrap_or_default();
    must!(output == json!({ "greeting": "Hello, Bo!" }), "the output of the tool, got {output}");
    for args in [json!({}), json!({ "name": 7 }), json!({ "name": "x", "more": 1 })] {
        let id = peer.invoke(&json!({ "kind": "tool", "tool": "greet", "args": args })).await;
        peer.error(id, 2302).await?;
    }
    let id = peer.invoke(&json!({ "kind": "tool", "tool": "nothing_of_the_kind", "args": {} })).await;
    peer.error(id, 2301).await?;
    peer.close().await;
    Ok(())
}

async fn with_a_tool(run: &Run<'_>) -> Outcome<Peer> {
    let tool = json!({ "name": "add", "description": "Adds.", "input_schema": { "type": "object" } });
    Peer::with(run, FEATURES, json!({ "tools": [tool] })).await
}

fn result(parent: u16, call: &Value, output: i64) -> Value {
    json!({ "kind": "result", "parent": parent, "call_id": call["call_id"], "ok": true, "output": output })
}

async fn a_call_has_one_result(run: &Run<'_>) -> Outcome {
    let mut peer = with_a_tool(run).await?;
    let id = peer.say(r#"call add {"a": 2, "b": 3}"#).await;
    let call = peer.record(id, "call").await?;
    must!(call["args"] == json!({ "a": 2, "b": 3 }), "the arguments, got {}", call["args"]);
    let answer = peer.invoke(&result(id, &call, 5)).await;
    let accepted = peer.finish(answer).await?;
    let finish = accepted.last().map(|end| end.value["finish"].clone()).unwrap_or_default();
    must!(finish == "accepted", "the result to be accepted, got {finish}");
    let frames = peer.finish(id).await?;
    must!(text_of(&frames) == "result: 5", "the result to reach the agent, got {:?}", text_of(&frames));
    let again = peer.invoke(&result(id, &call, 6)).await;
    peer.error(again, 2303).await?;
    peer.close().await;
    Ok(())
}

async fn a_call_times_out(run: &Run<'_>) -> Outcome {
    let mut peer = with_a_tool(run).await?;
    let id = peer.say("call add within 300").await;
    let call = peer.record(id, "call").await?;
    peer.error(id, 2403).await?;
    let late = peer.invoke(&result(id, &call, 1)).await;
    peer.error(late, 2303).await?;
    let frames = peer.turn("try add within 200").await?;
    must!(text_of(&frames).contains("timed_out"), "the agent to be told, got {:?}", text_of(&frames));
    peer.close().await;
    Ok(())
}
