//! AC-083 to AC-088, over RPC and over HTTP.

use std::collections::BTreeSet;

use serde_json::json;
use switchboard_acolyte::client::{Cause, ChatEvent, Ending, Event, Input, Loss, StreamChat};
use switchboard_acolyte::message::{ListSnapshot, StreamEvent, TaskId};

use crate::support::{RESUME, World, delta, down, reply};

fn task() -> Option<TaskId> {
    TaskId::parse("task_1")
}

fn texts(events: &[ChatEvent]) -> String {
    let text = |event: &ChatEvent| match event {
        ChatEvent::Stream(StreamEvent::TextDelta { text }) => text.to_string(),
        _ => String::new(),
    };
    events.iter().map(text).collect()
}

#[test]
fn ac_083_unknown_events_fields_and_messages_are_ignored() {
    let mut world = World::up("");
    let (_, wire) = world.begin("hi");
    world.stream(&wire, &json!({"type": "hologram", "text": "?"}));
    world.stream(&wire, &json!({"type": "text-delta", "words": "no text"}));
    world.stream(&wire, &json!({"type": "notice", "level": "shrill", "message": "?"}));
    world.stream(&wire, &json!("not an object"));
    world.tell(&wire, "chat.rewound", json!({"position": 3}));
    world.tell(&wire, "chat.queued", json!({"position": "first"}));
    world.hear(&json!({"id": "not an id", "type": "chat.event", "event": delta("no")}));
    world.hear(&json!({"id": "rpc_somebodyelse", "type": "chat.event", "event": delta("no")}));
    world.hear(&json!([1, 2]));
    assert_eq!(world.told(), [], "and the connection stays");
    assert_eq!(world.closed, None);
    let known = json!({"type": "text-delta", "text": "yes", "colour": "red"});
    world.tell(&wire, "chat.event", json!({"event": known, "trace": {"deep": [1]}}));
    assert_eq!(world.text(), "yes");
    let answer = json!({"output": "yes", "outputStreamed": true, "model": "m", "mood": "good", "usage": {
        "inputTokens": 1, "outputTokens": 2, "totalTokens": 3, "dreams": 4}});
    world.tell(&wire, "chat.done", json!({"reply": answer, "seal": "x"}));
    assert!(matches!(world.ending(), Ending::Done(reply) if reply.output == "yes"));
}

#[test]
fn an_end_that_cannot_be_used_is_the_end_of_its_chat() {
    for (name, fields) in [
        ("chat.done", json!({"reply": {"output": "x"}})),
        ("chat.done", json!({"reply": {"output": "x", "outputStreamed": "yes", "model": "m"}})),
        ("chat.done", json!({})),
        ("chat.error", json!({"errorCode": "E_UNKNOWN"})),
    ] {
        let mut world = World::up("");
        let (_, wire) = world.begin("hi");
        world.tell(&wire, name, fields);
        let Ending::Failed { error, reply: None } = world.ending() else { panic!("{name}") };
        assert!(error.error_message.contains("cannot be used"), "{error:?}");
        // The next one is not touched by it.
        let (_, wire) = world.begin("again");
        world.tell(&wire, "chat.done", reply("ok", true));
        assert!(matches!(world.ending(), Ending::Done(_)));
    }
}

#[test]
fn ac_083_unknown_frames_of_a_stream_are_ignored() {
    let mut chat = StreamChat::new(None);
    let body = "event: x\nid: 7\nretry: 1\n: comment\ndata: {\"type\":\"hologram\"}\n\ndata: {oops\n\n\
        data: {\"type\":\"text-delta\",\"text\":\"yes\",\"more\":1}\r\n\r\n:\n\n\
        data: {\"type\":\"done\",\"reply\":{\"output\":\"yes\",\"outputStreamed\":true,\"model\":\"m\",\"x\":1}}\n\n";
    let mut events = Vec::new();
    for byte in body.as_bytes() {
        events.extend(chat.push(&[*byte]));
    }
    assert_eq!((texts(&events).as_str(), events.len()), ("yes", 1));
    assert!(matches!(chat.close(), Ending::Done(_)));
}

#[test]
fn ac_084_a_list_is_one_event_under_both_names() {
    let list = |name: &str, status: &str| {
        json!({"type": name, "groupId": "g", "groupTitle": "Plan",
            "items": [{"id": "1", "label": "Read", "status": status, "order": 0}]})
    };
    let lists = |events: Vec<Event>| -> Vec<ListSnapshot> {
        let list = |event| match event {
            Event::Chat(_, ChatEvent::Stream(StreamEvent::Checklist(list))) => list,
            other => panic!("{other:?}"),
        };
        events.into_iter().map(list).collect()
    };
    let mut world = World::up("");
    let (_, wire) = world.begin("plan");
    // From a server that sends both, from an old one, and from a new one.
    let both = ["checklist", "tasklist"];
    for (names, status) in [(&both[..], "pending"), (&both[..1], "in_progress"), (&both[1..], "done")] {
        for name in names {
            world.stream(&wire, &list(name, status));
        }
        let told = lists(world.told());
        assert_eq!(told.len(), 1, "{names:?}");
        assert_eq!(serde_json::to_value(told[0].items[0].status).unwrap(), status);
    }
    // The same again under the same name is news, as far as this client can tell.
    world.stream(&wire, &list("tasklist", "done"));
    assert_eq!(lists(world.told()).len(), 1);
}

#[test]
fn ac_085_an_error_in_the_reply_is_a_failure_that_still_shows_its_output() {
    for streamed in [true, false] {
        let mut world = World::up("");
        let (_, wire) = world.begin("hi");
        if streamed {
            world.stream(&wire, &delta("half an ans"));
        }
        let answer =
            json!({"output": "half an ans", "outputStreamed": streamed, "model": "m", "error": "refused"});
        world.tell(&wire, "chat.done", json!({"reply": answer}));
        assert_eq!(world.text(), "half an ans");
        match world.ending() {
            Ending::Failed { error, reply: Some(reply) } => {
                assert_eq!((error.error_message.as_str(), reply.output.as_str()), ("refused", "half an ans"));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut chat = StreamChat::new(None);
    let events = chat.push(
        b"data: {\"type\":\"done\",\"reply\":{\"output\":\"bits\",\"outputStreamed\":false,\"model\":\"m\",\"error\":\"no\"}}\n\n",
    );
    assert_eq!(texts(&events), "bits");
    assert!(matches!(chat.close(), Ending::Failed { reply: Some(_), .. }));
}

#[test]
fn ac_086_output_is_shown_once_streamed_or_not() {
    let mut world = World::up("");
    let (_, wire) = world.begin("hi");
    world.tell(&wire, "chat.done", reply("not streamed", false));
    assert_eq!(world.text(), "not streamed");
    assert!(matches!(world.events.last(), Some(Event::Ended(_, Ending::Done(_)))), "and before the end");

    let mut world = World::up("");
    let (_, wire) = world.begin("hi");
    world.stream(&wire, &delta("stre"));
    world.stream(&wire, &delta("amed"));
    world.tell(&wire, "chat.done", reply("streamed", true));
    assert_eq!(world.text(), "streamed");

    for (streamed, shown) in [(true, ""), (false, "out")] {
        let mut chat = StreamChat::new(None);
        let frame = json!({"type": "done", "reply": reply("out", streamed)["reply"]});
        let events = chat.push(format!("data: {frame}\n\n").as_bytes());
        assert_eq!(texts(&events), shown);
    }
}

#[test]
fn ac_087_a_close_before_the_terminal_is_a_failure_that_keeps_the_task() {
    for code in [None, Some(1000), Some(1001), Some(1008), Some(1011)] {
        let mut world = World::up("stream.sse");
        let (chat, wire) = world.begin("hi");
        world.stream(&wire, &delta("half"));
        world.told();
        world.give(Input::Closed(code));
        let lost = Ending::Lost { loss: Loss::Disconnected, task: task() };
        let down = down(Cause::Closed(code.unwrap_or(1006)));
        assert_eq!(world.told(), [Event::Ended(chat, lost), down]);
    }
    // Not accepted, so without a task.
    let mut world = World::up(RESUME);
    world.start("hi");
    world.give(Input::Closed(None));
    assert_eq!(world.ending(), Ending::Lost { loss: Loss::Disconnected, task: None });
    // Resumable, but the server has shut the door.
    let mut world = World::up(RESUME);
    world.begin("hi");
    world.give(Input::Closed(Some(1008)));
    assert_eq!(world.ending(), Ending::Lost { loss: Loss::Disconnected, task: task() });

    let mut chat = StreamChat::new(Some("task_1"));
    chat.push(b"data: {\"type\":\"text-delta\",\"text\":\"half\"}\n\ndata: {\"type\":\"done\",");
    assert_eq!(chat.close(), Ending::Lost { loss: Loss::Disconnected, task: task() });
}

#[test]
fn ac_088_an_abort_has_a_fresh_id_and_names_the_chat() {
    let mut world = World::up("");
    let mut ids = BTreeSet::new();
    for _ in 0..3 {
        let (chat, wire) = world.begin("hi");
        world.abort(chat);
        let abort = world.take("chat.abort");
        assert_eq!(abort["payload"]["requestId"], wire.as_str());
        assert_ne!(abort["id"], wire.as_str());
        assert!(ids.insert(wire.clone()), "an id was used again");
        assert!(ids.insert(abort["id"].as_str().unwrap().to_owned()), "an id was used again");
        world.abort(chat);
        assert!(world.sent.is_empty(), "once is enough");
        world.tell(
            abort["id"].as_str().unwrap(),
            "chat.abort.result",
            json!({"requestId": wire, "aborted": true}),
        );
        assert_eq!(world.told(), [Event::Ended(chat, Ending::Aborted)]);
    }
    for id in ids {
        let body = id.strip_prefix("rpc_").unwrap();
        assert!(
            body.len() >= 16 && body.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
            "{id}"
        );
    }
}

#[test]
fn ac_088_a_terminal_before_the_result_is_the_end_and_the_only_one() {
    let mut world = World::up("abort.terminal");
    let (chat, wire) = world.begin("hi");
    world.abort(chat);
    let abort = world.take("chat.abort");
    world.tell(&wire, "chat.error", json!({"errorMessage": "Request aborted", "errorCode": "E_ABORTED"}));
    world.tell(
        abort["id"].as_str().unwrap(),
        "chat.abort.result",
        json!({"requestId": wire, "aborted": true}),
    );
    assert_eq!(world.told(), [Event::Ended(chat, Ending::Aborted)]);
    // It was faster than the abort.
    let (chat, wire) = world.begin("hi");
    world.abort(chat);
    let abort = world.take("chat.abort");
    world.tell(
        abort["id"].as_str().unwrap(),
        "chat.abort.result",
        json!({"requestId": wire, "aborted": false}),
    );
    assert_eq!(world.told(), []);
    world.tell(&wire, "chat.done", reply("done", true));
    assert!(matches!(world.ending(), Ending::Done(_)));
    world.told();
    // Nobody has asked for it.
    let (_, wire) = world.begin("hi");
    world.tell(&wire, "chat.error", json!({"errorMessage": "Request aborted", "errorCode": "E_ABORTED"}));
    assert!(matches!(world.ending(), Ending::Failed { .. }));
}
