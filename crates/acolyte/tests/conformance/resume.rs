//! Ours: with `task.resume` a chat outlives its connection, and `chat.attach` goes on with it.

use serde_json::{Value, json};
use switchboard_acolyte::AcolyteLimits;
use switchboard_testkit::{CrashPoint, PeerId, Recovery, Script, Settings, Step};

use crate::support::{Seen, Talk, attach, count, events, gist, hang, of, short, task_of, text, texts};

/// A story with events of one message and of several, and with pauses in between.
fn story() -> Script {
    let tool = Step::Tool {
        name: "look".into(),
        args: json!({"at": "it"}),
        progress: vec!["looking".into()],
        output: json!("seen"),
        error: None,
    };
    let list = json!({"checklist": {"group": "g", "title": "t", "items": []}});
    let steps = vec![
        text("one "),
        Step::Wait(100),
        tool,
        serde_json::from_value(list).unwrap(),
        Step::Reason("hm".into()),
        Step::Wait(100),
        text("two "),
        text("three"),
    ];
    hang().on("story", steps).recovering(Recovery::Replay)
}

pub(crate) fn resuming(script: Script) -> Talk {
    let mut talk = Talk::new(script);
    talk.offer(talk.peer, "task.resume");
    talk
}

/// Another connection that can resume.
pub(crate) fn come_back(talk: &mut Talk) -> PeerId {
    let peer = talk.connect();
    talk.offer(peer, "task.resume");
    peer
}

/// What a client knows: all that came up to the last position, and that position.
fn known(messages: &[Value]) -> (Vec<Value>, u64) {
    let last = messages.iter().rposition(|message| message.get("position").is_some_and(Value::is_u64));
    let is_event = |message: &&Value| message["type"] == "chat.event";
    match last {
        None => (Vec::new(), 0),
        Some(last) => {
            let events = messages[..=last].iter().filter(is_event).map(|message| message["event"].clone());
            (events.collect(), messages[last]["position"].as_u64().unwrap())
        }
    }
}

/// What a client sees that is never cut off.
fn uncut(message: &str) -> (Vec<Value>, Value) {
    let mut talk = resuming(story());
    talk.start("rpc_1", message);
    talk.world.advance(1000);
    let heard = talk.here();
    (events(&heard, "rpc_1"), heard.last().unwrap()["reply"].clone())
}

#[test]
fn without_the_offer_there_are_no_positions_and_nothing_to_attach_to() {
    let mut talk = Talk::new(story());
    talk.start("rpc_1", "story");
    talk.world.advance(1000);
    let heard = talk.here();
    assert!(heard.iter().all(|message| message.get("position").is_none()));
    let task = task_of(&heard, "rpc_1");
    talk.say(talk.peer, &attach("rpc_2", Some(&task), None, 0));
    assert_eq!(talk.one(), json!({"id": "rpc_2", "type": "error", "error": "Invalid RPC message"}));
    assert_eq!(count(&talk.world, "attachment_opened"), 0);
}

#[test]
fn the_last_message_of_an_event_says_where_it_is_and_no_other() {
    let mut talk = resuming(story());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "story");
    talk.world.advance(1000);
    let heard = talk.here();
    let log = talk.world.log(&Talk::session("sess_s"));
    let mut told = 0;
    let mut before = 0;
    let mut pending = Vec::new();
    for message in heard.iter().filter(|message| message["type"] == "chat.event") {
        pending.push(message["event"]["type"].as_str().unwrap().to_owned());
        let Some(position) = message["position"].as_u64() else { continue };
        assert!(position > before, "positions grow");
        before = position;
        let event = &log[usize::try_from(position).unwrap() - 1].event;
        let expected: &[&str] = match event.name() {
            "turn_started" => &["status", "usage"],
            "call_requested" => &["tool-call", "tool-output"],
            "call_progress" => &["tool-output"],
            "call_ended" => &["tool-result"],
            "turn_ended" => &["usage"],
            "turn_output" if pending.len() > 1 && pending[0] == "checklist" => &["checklist", "tasklist"],
            // The first thing that the model does after the tool.
            "turn_output" if pending.len() > 1 => &["text-delta", "reasoning"],
            "turn_output" => &[pending[0].as_str()].map(|_| "")[..0],
            other => panic!("{other}"),
        };
        if !expected.is_empty() {
            let usage = pending.last().is_some_and(|last| last == "usage") && event.name() == "call_ended";
            let shown = if usage { &pending[..pending.len() - 1] } else { &pending[..] };
            assert_eq!(shown, expected, "{}", event.name());
        }
        pending.clear();
        told += 1;
    }
    assert!(told >= 9 && pending.is_empty(), "{told}");
    for message in heard.iter().filter(|message| message["type"] != "chat.event") {
        assert!(message.get("position").is_none(), "{message}");
    }
}

#[test]
fn whatever_is_lost_with_a_cut_comes_once_after_it() {
    let (whole, reply) = uncut("story");
    for session in [None, Some("sess_s")] {
        for cut_at in [0, 50, 150, 1000] {
            for received in 0..30 {
                let mut talk = resuming(story());
                match session {
                    Some(session) => talk.start_in(talk.peer, "rpc_1", session, "story"),
                    None => talk.start("rpc_1", "story"),
                }
                talk.world.advance(cut_at);
                let mut heard = talk.here();
                if heard.len() < received {
                    break;
                }
                let task = task_of(&heard, "rpc_1");
                // The rest was on its way, and never arrived.
                heard.truncate(received);
                talk.world.cut(talk.peer);
                let (mut told, after) = known(&heard);
                talk.world.advance(20);
                let peer = come_back(&mut talk);
                talk.say(peer, &attach("rpc_2", Some(&task), session, after));
                talk.world.advance(1000);
                let heard = talk.heard(peer);
                assert_eq!(task_of(&heard, "rpc_2"), task);
                told.extend(events(&heard, "rpc_2"));
                assert_eq!(told, whole, "cut at {cut_at} after {received} messages");
                assert_eq!(heard.last().unwrap()["reply"], reply);
                assert_eq!(talk.state(peer, &task), "completed");
                assert_eq!(talk.world.followed(peer), [], "nothing is left to follow");
                talk.world.advance(0);
                let attachments = count(&talk.world, "attachment_closed");
                assert_eq!(attachments, 1, "nothing is left to wait for");
            }
        }
    }
}

#[test]
fn a_chat_goes_on_after_the_server_has_died() {
    let (whole, reply) = uncut("story");
    for session in [None, Some("sess_s")] {
        for crash_at in [50, 150] {
            let mut talk = resuming(story());
            match session {
                Some(session) => talk.start_in(talk.peer, "rpc_1", session, "story"),
                None => talk.start("rpc_1", "story"),
            }
            let created = talk.world.now();
            talk.world.advance(crash_at);
            let heard = talk.here();
            let task = task_of(&heard, "rpc_1");
            let (mut told, after) = known(&heard);
            talk.restart();
            talk.offer(talk.peer, "task.resume");
            let before = talk.task_in(talk.peer, &task, session);
            assert_eq!(before["state"], "running");
            talk.say(talk.peer, &attach("rpc_2", Some(&task), session, after));
            talk.world.advance(1000);
            let heard = talk.here();
            told.extend(events(&heard, "rpc_2"));
            // The second run counts for itself, and may say so at another moment.
            let without_usage = |events: &[Value]| -> Vec<Value> {
                events.iter().filter(|event| event["type"] != "usage").cloned().collect()
            };
            assert_eq!(without_usage(&told), without_usage(&whole), "crash at {crash_at}");
            assert_eq!(heard.last().unwrap()["reply"], reply);
            let after = talk.task_in(talk.peer, &task, session);
            assert_eq!((&after["state"], &after["createdAt"]), (&"completed".into(), &before["createdAt"]));
            assert!(created <= talk.world.now());
        }
    }
}

#[test]
fn a_chat_that_ended_while_the_server_was_away_is_told_to_its_end() {
    let mut talk = resuming(Script::new().on("go", vec![text("a"), Step::Wait(100), text("b")]));
    talk.start_in(talk.peer, "rpc_1", "sess_s", "go");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_1");
    // This agent cannot repeat itself, so its turn fails with the server.
    talk.restart();
    talk.world.advance(10);
    talk.offer(talk.peer, "task.resume");
    talk.say(talk.peer, &attach("rpc_2", Some(&task), Some("sess_s"), 0));
    talk.world.advance(10);
    let heard = talk.here();
    assert_eq!(gist(&heard), ["2 accepted", "2 started", r#"2 event "a""#, r#"2 done "a""#]);
    assert!(heard.last().unwrap()["reply"]["error"].is_string());
}

#[test]
fn what_is_somebody_elses_looks_like_nothing() {
    let mut talk = resuming(hang());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_1");
    let bob = talk.connect_as("bob");
    talk.offer(bob, "task.resume");
    let canonical = Talk::session("sess_s");
    let unknown = {
        talk.say(bob, &attach("rpc_2", Some("task_never"), None, 0));
        talk.heard(bob)
    };
    assert_eq!(unknown, [json!({"id": "rpc_2", "type": "error", "error": "No such task to attach to"})]);
    for (task, session) in [
        (Some(task.as_str()), None),
        (Some(task.as_str()), Some("sess_s")),
        (Some(task.as_str()), Some(canonical.as_str())),
        (None, Some("sess_s")),
        (None, Some(canonical.as_str())),
    ] {
        talk.say(bob, &attach("rpc_2", task, session, 0));
        assert_eq!(talk.heard(bob), unknown, "{task:?} {session:?}");
        if let Some(task) = task {
            assert_eq!(talk.task_in(bob, task, session), Value::Null);
        }
    }
    assert_eq!(talk.world.followed(bob), []);
    assert_eq!(count(&talk.world, "attachment_opened"), 1, "nothing was taken over");
    // Also once it is over.
    talk.abort("rpc_x", "rpc_1");
    talk.say(bob, &attach("rpc_2", Some(&task), Some(canonical.as_str()), 0));
    assert_eq!(talk.heard(bob), unknown);
}

#[test]
fn a_task_that_was_left_behind_is_told_of_from_the_log() {
    let mut talk = resuming(hang());
    let asker = talk.connect();
    talk.start_in(talk.peer, "rpc_1", "sess_s", "soon");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_1");
    let before = talk.task(asker, &task);
    talk.world.advance(500);
    talk.world.cut(talk.peer);
    let running = talk.task(asker, &task);
    assert_eq!((&running["state"], &running["createdAt"]), (&"running".into(), &before["createdAt"]));
    talk.world.advance(1000);
    let done = talk.task(asker, &task);
    assert_eq!(
        (&done["state"], &done["updatedAt"]),
        (&"completed".into(), &"2026-01-01T00:00:01.000Z".into())
    );
    assert_eq!(done, talk.task(asker, &task), "and so it stays");
}

#[test]
fn nobody_comes_back_in_time_and_the_task_is_cancelled() {
    let limits = AcolyteLimits { resume_s: 10, ..AcolyteLimits::default() };
    let mut talk = Talk::with(hang(), limits, Settings::default());
    talk.offer(talk.peer, "task.resume");
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_1");
    talk.world.cut(talk.peer);
    talk.world.advance(9_999);
    let peer = come_back(&mut talk);
    assert_eq!(talk.task_in(peer, &task, Some("sess_s"))["state"], "running");
    talk.world.advance(1000);
    assert_eq!(talk.task_in(peer, &task, Some("sess_s"))["state"], "cancelled");
    talk.say(peer, &attach("rpc_2", Some(&task), Some("sess_s"), 0));
    assert_eq!(gist(&talk.heard(peer)), ["2 accepted", "2 started", r#"2 event "x""#, "2 error E_ABORTED"]);
}

#[test]
fn a_chat_that_is_attached_can_be_aborted_and_takes_no_place() {
    let mut talk = resuming(hang());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_1");
    talk.world.cut(talk.peer);
    talk.peer = come_back(&mut talk);
    talk.say(talk.peer, &attach("rpc_2", Some(&task), Some("sess_s"), 0));
    assert_eq!(gist(&talk.here()), ["2 accepted", "2 started", r#"2 event "x""#]);
    talk.start("rpc_3", "hello");
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"3 done "hello""#, "it runs beside it");
    talk.abort("rpc_x", "rpc_2");
    assert_eq!(gist(&talk.here()), ["2 error E_ABORTED", "x abort.result true"]);
    assert_eq!(talk.state(talk.peer, &task), "cancelled");
    assert_eq!(talk.world.followed(talk.peer), []);
}

#[test]
fn chats_that_waited_go_on_after_a_cut_one_after_another() {
    let script = story().on("next *", vec![Step::Wait(100), Step::Echo]);
    let mut talk = resuming(script);
    let asker = talk.connect();
    talk.start_in(talk.peer, "rpc_1", "sess_s", "story");
    for number in 2..=4 {
        talk.start_in(talk.peer, &format!("rpc_{number}"), "sess_s", &format!("next {number}"));
    }
    talk.start("rpc_5", "next 5");
    // One that can never run.
    let bad = json!({"message": "x", "history": [5], "model": "m"});
    talk.say(talk.peer, &crate::support::start_with("rpc_6", bad));
    let heard = talk.here();
    assert_eq!(talk.status(asker)["rpc_queue_length"], 4);
    talk.world.cut(talk.peer);
    assert_eq!(talk.status(asker)["rpc_queue_length"], 0);
    assert_eq!(talk.state(asker, &task_of(&heard, "rpc_6")), "failed");
    let peer = come_back(&mut talk);
    talk.say(peer, &attach("rpc_3", Some(&task_of(&heard, "rpc_3")), Some("sess_s"), 0));
    talk.world.advance(0);
    let mut told = talk.heard(peer);
    assert_eq!(short(&told), ["3 accepted", "3 queued 1"], "behind the one before it");
    talk.world.advance(5000);
    told.extend(talk.heard(peer));
    assert_eq!(gist(&of(&told, "rpc_3")).last().unwrap(), r#"3 done "next 3""#);
    for (number, session) in [(2, Some("sess_s")), (4, Some("sess_s")), (5, None)] {
        let task = task_of(&heard, &format!("rpc_{number}"));
        assert_eq!(talk.state(asker, &task), "completed");
        talk.say(peer, &attach("rpc_9", Some(&task), session, 0));
        let told = talk.heard(peer);
        assert_eq!(gist(&told).last().unwrap(), &format!(r#"9 done "next {number}""#));
    }
    assert_eq!(talk.status(asker)["tasks_running"], 0);
}

#[test]
fn a_chat_that_waits_in_its_session_is_queued_also_after_a_restart() {
    let mut talk = resuming(hang().recovering(Recovery::Replay));
    for id in ["rpc_1", "rpc_2", "rpc_3"] {
        talk.start_in(talk.peer, id, "sess_s", "hang");
    }
    let task = task_of(&talk.here(), "rpc_3");
    talk.world.cut(talk.peer);
    talk.restart();
    talk.offer(talk.peer, "task.resume");
    talk.say(talk.peer, &attach("rpc_4", Some(&task), Some("sess_s"), 0));
    assert_eq!(short(&talk.here()), ["4 accepted", "4 queued 1"]);
    assert_eq!(talk.state(talk.peer, &task), "queued");
    talk.abort("rpc_x", "rpc_4");
    assert_eq!(short(&talk.here()), ["4 error E_ABORTED", "x abort.result true"]);
}

#[test]
fn ac_092_chats_that_wait_run_after_a_restart_planned_or_not() {
    for planned in [false, true] {
        let mut talk = resuming(hang().on("next *", vec![Step::Echo]));
        talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
        talk.start_in(talk.peer, "rpc_2", "sess_s", "next 2");
        talk.start("rpc_3", "next 3");
        let heard = talk.here();
        if planned {
            talk.world.evict(talk.peer, switchboard_core::CloseReason::Restart);
            assert_eq!(talk.seen(talk.peer), [Seen::Close(1001)], "no end: they run later");
            assert_eq!(count(&talk.world, "turn_started"), 1, "the server that leaves begins nothing");
        }
        talk.restart();
        talk.offer(talk.peer, "task.resume");
        for (number, session) in [(2, Some("sess_s")), (3, None)] {
            let task = task_of(&heard, &format!("rpc_{number}"));
            talk.say(talk.peer, &attach("rpc_9", Some(&task), session, 0));
            talk.world.advance(1000);
            assert_eq!(gist(&talk.here()).last().unwrap(), &format!(r#"9 done "next {number}""#));
        }
    }
}

#[test]
fn ac_092_whoever_was_told_of_a_chat_finds_it_after_a_crash_in_that_moment() {
    for point in [CrashPoint::BeforeAppend, CrashPoint::AfterAppend] {
        for waits in [false, true] {
            let mut talk = resuming(hang().recovering(Recovery::Replay));
            if waits {
                talk.start("rpc_1", "hang");
                talk.here();
            }
            talk.world.crash_at(point, Some("turn_accepted"));
            talk.start_in(talk.peer, "rpc_2", "sess_s", "hang");
            let told = talk.seen(talk.peer);
            assert!(!told.iter().any(|seen| matches!(seen, Seen::Message(_))), "{told:?}");
            let stored = count(&talk.world, "turn_accepted") - usize::from(waits);
            assert_eq!(stored, usize::from(matches!(point, CrashPoint::AfterAppend)));
            // And one that was told of is in the log before.
            talk.restart();
            talk.offer(talk.peer, "task.resume");
            talk.start_in(talk.peer, "rpc_3", "sess_t", "hang");
            let task = task_of(&talk.here(), "rpc_3");
            talk.restart();
            assert_eq!(talk.task_in(talk.peer, &task, Some("sess_t")), Value::Null, "no offer was made");
            talk.offer(talk.peer, "task.resume");
            assert_ne!(talk.task_in(talk.peer, &task, Some("sess_t")), Value::Null);
        }
    }
}

#[test]
fn a_chat_that_waits_for_its_rate_does_not_outlive_its_connection() {
    let mut talk = resuming(hang());
    let asker = talk.connect();
    talk.world.set_gate(|_, op, _| match op {
        switchboard_core::Op::StartTurn(_) => {
            let retry_after = std::time::Duration::from_secs(1);
            Err(switchboard_core::Reject::RateLimited { retry_after })
        }
        _ => Ok(()),
    });
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hello");
    assert_eq!(talk.here(), Vec::<Value>::new(), "it is in no log");
    talk.world.cut(talk.peer);
    assert_eq!(talk.status(asker)["tasks_total"], 0);
    assert_eq!(count(&talk.world, "attachment_closed"), 1);
    assert_eq!(count(&talk.world, "turn_accepted"), 0);
}

#[test]
fn two_connections_with_one_task_both_hear_its_end_once() {
    let (whole, reply) = uncut("story");
    let mut talk = resuming(story());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "story");
    talk.world.advance(150);
    let mut first = talk.here();
    let task = task_of(&first, "rpc_1");
    let peer = come_back(&mut talk);
    talk.say(peer, &attach("rpc_2", Some(&task), Some("sess_s"), 0));
    talk.world.advance(20);
    // The old transport was half dead, and is gone only now.
    let asker = talk.connect();
    let mut second = talk.heard(peer);
    if talk.world.is_open(talk.peer) {
        first.extend(talk.here());
    }
    talk.world.cut(talk.peer);
    assert_eq!(talk.state(asker, &task), "running");
    assert_eq!(talk.status(asker)["tasks_running"], 1, "somebody looks after it");
    talk.world.advance(1000);
    second.extend(talk.heard(peer));
    assert_eq!(events(&second, "rpc_2"), whole);
    assert_eq!(second.last().unwrap()["reply"], reply);
    assert_eq!(talk.state(asker, &task), "completed");
    // And with both of them alive to the end.
    let mut talk = resuming(story());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "story");
    let task = task_of(&talk.here(), "rpc_1");
    talk.say(talk.peer, &attach("rpc_2", Some(&task), Some("sess_s"), 0));
    talk.world.advance(1000);
    let heard = talk.here();
    assert_eq!(events(&heard, "rpc_2"), whole);
    for id in ["rpc_1", "rpc_2"] {
        assert_eq!(of(&heard, id).last().unwrap()["reply"], reply);
    }
    assert_eq!(talk.world.followed(talk.peer), []);
}

#[test]
fn a_server_that_leaves_keeps_what_can_be_resumed() {
    let mut talk = resuming(story());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "story");
    talk.world.advance(50);
    let heard = talk.here();
    talk.world.evict(talk.peer, switchboard_core::CloseReason::Restart);
    assert_eq!(talk.seen(talk.peer), [Seen::Close(1001)], "no end: it goes on");
    talk.restart();
    talk.offer(talk.peer, "task.resume");
    talk.say(talk.peer, &attach("rpc_2", Some(&task_of(&heard, "rpc_1")), Some("sess_s"), 0));
    talk.world.advance(1000);
    assert_eq!(texts(&events(&talk.here(), "rpc_2")), "one \ntwo three");
}

#[test]
fn questions_of_a_task_that_is_attached_are_turned_down_as_well() {
    let ask = Step::Ask { text: "May I?".into(), schema: None, timeout_ms: 60_000, give_up: true };
    let mut talk = resuming(Script::new().on("ask", vec![Step::Wait(100), ask, Step::Result]));
    talk.start_in(talk.peer, "rpc_1", "sess_s", "ask");
    let task = task_of(&talk.here(), "rpc_1");
    talk.world.cut(talk.peer);
    let peer = come_back(&mut talk);
    talk.say(peer, &attach("rpc_2", Some(&task), Some("sess_s"), 0));
    talk.world.advance(200);
    assert_eq!(talk.heard(peer).last().unwrap()["type"], "chat.done");
}

#[test]
fn a_chat_that_was_aborted_is_not_left_behind() {
    let settings = Settings { commit_ms: 50, ..Settings::default() };
    let mut talk = Talk::with(hang(), AcolyteLimits::default(), settings);
    talk.offer(talk.peer, "task.resume");
    talk.start("rpc_1", "hang");
    talk.world.advance(500);
    // The client leaves before it hears what became of its abort.
    talk.abort("rpc_2", "rpc_1");
    talk.world.close(talk.peer, Some(1000));
    talk.world.advance(2000);
    assert_eq!(count(&talk.world, "attachment_detached"), 0);
    assert_eq!(count(&talk.world, "attachment_closed"), 1);
    assert_eq!(count(&talk.world, "turn_ended"), 1);
}
