//! Tasks and what becomes of them with their connection (§7.1, §7.4): AC-048 to AC-058.

use serde_json::{Value, json};
use switchboard_acolyte::AcolyteLimits;
use switchboard_core::CloseReason;
use switchboard_core::model::FailureKind;
use switchboard_testkit::{Script, Settings, Step};

use crate::support::{Seen, Talk, count, gist, hang, iso_millis, short, start_in, task_of, text};

#[test]
fn ac_048_every_state_is_told_at_its_moment() {
    let fail = Step::Fill { bytes: 0, piece: 1 };
    let script =
        hang().on("bad", vec![fail, Step::Fail { kind: FailureKind::Unprepared, message: "no".into() }]);
    let settings = Settings { commit_ms: 50, turns_wait: true, ..Settings::default() };
    let mut talk = Talk::with(script, AcolyteLimits::default(), settings);
    talk.start("rpc_a", "soon");
    talk.start("rpc_b", "bad");
    talk.start("rpc_c", "hang");
    let mut heard = Vec::new();
    while heard.iter().filter(|message: &&Value| message["type"] == "chat.accepted").count() < 3 {
        talk.world.advance(1);
        heard.extend(talk.here());
    }
    let (a, b, c) = (task_of(&heard, "rpc_a"), task_of(&heard, "rpc_b"), task_of(&heard, "rpc_c"));
    let states = |talk: &mut Talk| [&a, &b, &c].map(|task| talk.state(talk.peer, task));
    assert_eq!(states(&mut talk), ["accepted", "queued", "queued"]);
    talk.world.advance(500);
    assert_eq!(states(&mut talk), ["running", "queued", "queued"]);
    talk.world.advance(2000);
    assert_eq!(states(&mut talk), ["completed", "failed", "running"]);
    talk.abort("rpc_x", "rpc_c");
    talk.world.advance(2000);
    assert_eq!(states(&mut talk), ["completed", "failed", "cancelled"]);
}

#[test]
fn ac_048_a_failed_answer_is_a_completed_task() {
    let script = Script::new()
        .on("bad", vec![Step::Fail { kind: FailureKind::ModelUnavailable, message: "no".into() }]);
    let mut talk = Talk::new(script);
    talk.start("rpc_a", "bad");
    let heard = talk.here();
    assert_eq!(talk.state(talk.peer, &task_of(&heard, "rpc_a")), "completed");
}

#[test]
fn ac_049_tasks_that_are_not_known_are_null_also_after_a_restart() {
    let mut talk = Talk::new(hang());
    assert_eq!(talk.task(talk.peer, "task_never"), Value::Null);
    talk.start_in(talk.peer, "rpc_a", "sess_s", "hang");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_a");
    assert_eq!(talk.state(talk.peer, &task), "running");
    talk.restart();
    assert_eq!(talk.task(talk.peer, &task), Value::Null);
    assert_eq!(talk.task_in(talk.peer, &task, Some("sess_s")), Value::Null, "no offer was made");
    talk.world.advance(10);
    assert_eq!(count(&talk.world, "turn_ended"), 1, "it does not go on either");
}

#[test]
fn ac_050_a_task_is_told_of_on_any_connection_of_its_principal_and_on_no_other() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "hang");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_a");
    let (own, foreign) = (talk.connect(), talk.connect_as("bob"));
    assert_eq!(talk.state(own, &task), "running");
    assert_eq!(talk.task(foreign, &task), Value::Null);
    assert_eq!(talk.status(foreign)["tasks_total"], 0);
    assert_eq!(talk.status(own)["tasks_total"], 1);
}

#[test]
fn ac_051_and_052_times_are_utc_and_only_grow() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_run", "soon");
    talk.start("rpc_a", "soon");
    let heard = talk.here();
    let task = task_of(&heard, "rpc_a");
    let mut before = 0;
    let mut states = Vec::new();
    for _ in 0..30 {
        let told = talk.task(talk.peer, &task);
        let (created, updated) = (told["createdAt"].as_str().unwrap(), told["updatedAt"].as_str().unwrap());
        assert_eq!(created, "2026-01-01T00:00:00.000Z");
        assert!(iso_millis(updated) >= before);
        before = iso_millis(updated);
        states.push((told["state"].as_str().unwrap().to_owned(), updated.to_owned()));
        talk.world.advance(100);
    }
    states.dedup();
    let told = |state: &str, at: &str| (state.to_owned(), format!("2026-01-01T00:00:0{at}Z"));
    assert_eq!(states, [told("queued", "0.000"), told("running", "1.000"), told("completed", "2.000")]);
}

#[test]
fn ac_053_the_state_has_changed_when_the_message_that_says_so_is_written() {
    // Everything is asked one message at a time: what the task is when a message has just been put
    // on the wire is what the message says.
    let script = hang().on("bad", vec![Step::Fail { kind: FailureKind::Unprepared, message: "no".into() }]);
    let mut talk = Talk::new(script);
    let asker = talk.connect();
    talk.enqueue(talk.peer, &crate::support::start("rpc_a", "soon"));
    talk.enqueue(talk.peer, &crate::support::start("rpc_b", "bad"));
    let mut tasks = std::collections::BTreeMap::new();
    let mut told = Vec::new();
    for _ in 0..1000 {
        if !talk.world.step() {
            if told.len() >= 6 {
                break;
            }
            talk.world.advance(100);
        }
        for message in talk.here() {
            let id = message["id"].as_str().unwrap().to_owned();
            let kind = message["type"].as_str().unwrap().to_owned();
            if let Some(task) = message["taskId"].as_str() {
                tasks.insert(id.clone(), task.to_owned());
            }
            let expected = match kind.as_str() {
                "chat.accepted" => &["accepted", "queued", "running"][..],
                "chat.queued" => &["queued"],
                "chat.started" => &["running", "completed", "failed"],
                "chat.done" => &["completed"],
                "chat.error" => &["failed"],
                _ => continue,
            };
            let state = talk.state(asker, &tasks[&id]);
            assert!(expected.contains(&state.as_str()), "{kind}: {state}");
            told.push(kind);
        }
    }
    let ends: Vec<&String> =
        told.iter().filter(|kind| matches!(kind.as_str(), "chat.done" | "chat.error")).collect();
    assert_eq!(ends, ["chat.done", "chat.error"]);
}

#[test]
fn ac_055_and_056_a_closed_connection_cancels_what_runs_and_what_waits() {
    for orderly in [false, true] {
        let mut talk = Talk::new(hang());
        let asker = talk.connect();
        for id in ["rpc_a", "rpc_b", "rpc_c"] {
            talk.say(talk.peer, &start_in(id, "sess_s", "hang"));
        }
        let heard = talk.here();
        assert_eq!(talk.status(asker)["rpc_queue_length"], 2);
        if orderly {
            talk.world.close(talk.peer, Some(1000));
        } else {
            talk.world.cut(talk.peer);
        }
        for id in ["rpc_a", "rpc_b", "rpc_c"] {
            assert_eq!(talk.state(asker, &task_of(&heard, id)), "cancelled", "{id}");
        }
        let status = talk.status(asker);
        assert_eq!((&status["rpc_queue_length"], &status["tasks_running"]), (&0.into(), &0.into()));
        let log = talk.world.log(&Talk::session("sess_s"));
        let reasons: Vec<_> = log
            .iter()
            .filter_map(|committed| match &committed.event {
                switchboard_core::Event::TurnInterrupted { reason, .. } => reason.clone(),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, ["connection_closed"; 3]);
        assert_eq!(count(&talk.world, "turn_started"), 1, "the ones that waited never began");
        assert_eq!(count(&talk.world, "turn_ended"), 3, "the run was stopped");
        assert!(!talk.world.is_open(talk.peer));
    }
}

#[test]
fn ac_057_clients_that_vanish_leave_a_server_that_serves() {
    let mut talk = Talk::new(hang());
    for number in 0..50 {
        let peer = talk.connect();
        talk.say(peer, &crate::support::start("rpc_a", "hang"));
        talk.say(peer, &crate::support::start("rpc_b", "hang"));
        if number % 2 == 0 {
            talk.world.stall(peer);
        }
        talk.world.cut(peer);
    }
    talk.world.advance(1000);
    talk.start("rpc_a", "hello");
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"a done "hello""#);
    let status = talk.status(talk.peer);
    assert_eq!((&status["tasks_total"], &status["tasks_running"]), (&101.into(), &0.into()));
}

#[test]
fn ac_058_a_thousand_tasks_are_remembered_and_those_that_live_always() {
    assert_eq!(AcolyteLimits::default().tasks, 1000);
    let limits = AcolyteLimits { tasks: 10, ..AcolyteLimits::default() };
    let mut talk = Talk::with(hang(), limits, Settings::default());
    let keeper = talk.connect();
    talk.say(keeper, &crate::support::start("rpc_k", "hang"));
    let heard = talk.heard(keeper);
    let live = task_of(&heard, "rpc_k");
    let mut done = Vec::new();
    for _ in 0..20 {
        talk.start("rpc_a", "hello");
        done.push(task_of(&talk.here(), "rpc_a"));
        talk.world.advance(1);
    }
    assert_eq!(talk.status(talk.peer)["tasks_total"], 10);
    assert_eq!(talk.state(talk.peer, &live), "running");
    let known: Vec<bool> = done.iter().map(|task| talk.task(talk.peer, task) != Value::Null).collect();
    assert_eq!(known, [[false; 11].as_slice(), &[true; 9]].concat());
}

#[test]
fn tasks_that_were_left_behind_are_forgotten_like_those_that_are_over() {
    let limits = AcolyteLimits { tasks: 10, ..AcolyteLimits::default() };
    let mut talk = Talk::with(hang(), limits, Settings::default());
    for _ in 0..30 {
        let peer = talk.connect();
        talk.offer(peer, "task.resume");
        talk.say(peer, &crate::support::start("rpc_a", "hang"));
        talk.world.cut(peer);
    }
    let status = talk.status(talk.peer);
    assert_eq!((&status["tasks_total"], &status["tasks_running"]), (&10.into(), &0.into()));
}

#[test]
fn a_server_that_leaves_ends_chats_and_closes_with_1001() {
    // R13: a planned end.
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "hang");
    talk.start("rpc_b", "hang");
    let heard = talk.here();
    talk.world.evict(talk.peer, CloseReason::Restart);
    let seen = talk.seen(talk.peer);
    let [Seen::Message(a), Seen::Message(b), Seen::Close(1001)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(short(&[a.clone(), b.clone()]), ["a error E_ABORTED", "b error E_ABORTED"]);
    let asker = talk.connect();
    for id in ["rpc_a", "rpc_b"] {
        assert_eq!(talk.state(asker, &task_of(&heard, id)), "cancelled");
    }
}

#[test]
fn a_server_that_drains_finishes_what_runs_and_takes_nothing_new() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "soon");
    let idle = talk.connect();
    talk.here();
    talk.world.drain(500);
    assert_eq!(talk.seen(idle), [Seen::Close(1001)]);
    talk.start("rpc_b", "hello");
    assert_eq!(
        talk.one(),
        json!({"id": "rpc_b", "type": "error", "error": "The server is leaving. Try again shortly."})
    );
    talk.world.advance(2000);
    let seen = talk.seen(talk.peer);
    assert_eq!(seen.last(), Some(&Seen::Close(1001)));
    let Some(Seen::Message(done)) = seen.iter().rev().nth(1) else { panic!("{seen:?}") };
    assert_eq!(done["reply"]["output"], "ab");
}

#[test]
fn other_ends_have_their_codes() {
    for (reason, code, terminal) in [
        (CloseReason::Unauthorized, 1008, true),
        (CloseReason::Internal, 1011, true),
        (CloseReason::TooSlow, 1013, false),
        (CloseReason::TooBig, 1009, false),
    ] {
        let mut talk = Talk::new(hang());
        talk.start("rpc_a", "hang");
        let heard = talk.here();
        talk.world.evict(talk.peer, reason);
        let seen = talk.seen(talk.peer);
        assert_eq!(seen.last(), Some(&Seen::Close(code)));
        assert_eq!(seen.len(), 1 + usize::from(terminal), "{seen:?}");
        let asker = talk.connect();
        assert_eq!(talk.state(asker, &task_of(&heard, "rpc_a")), "cancelled");
    }
}

#[test]
fn an_interrupt_by_somebody_else_ends_the_chat_as_aborted() {
    let script = Script::new().on("go", vec![text("x"), Step::Hang]);
    let mut talk = Talk::new(script);
    talk.start_in(talk.peer, "rpc_a", "sess_s", "go");
    talk.start_in(talk.peer, "rpc_b", "sess_s", "hello");
    let heard = talk.here();
    let session = Talk::session("sess_s");
    let turn = talk.world.session(&session).unwrap().turns().next().unwrap().turn.clone();
    let op = switchboard_core::Op::Interrupt { turn, reason: None };
    talk.world.ask(&session, switchboard_core::Actor::client("ann".into()), op).unwrap();
    let after = gist(&talk.here());
    assert_eq!(after[0], "a error E_ABORTED");
    assert_eq!(after.last().unwrap(), r#"b done "hello""#);
    assert_eq!(talk.state(talk.peer, &task_of(&heard, "rpc_a")), "cancelled");
}
