//! `chat.abort` (§7.3, R1): AC-037, AC-041 to AC-047.

use switchboard_acolyte::AcolyteLimits;
use switchboard_core::{Op, Reject};
use switchboard_testkit::{Order, Script, Settings, Step};

use crate::support::{Talk, abort, count, gist, hang, of, short, start, start_in, task_of, text};

#[test]
fn ac_037_positions_are_told_again_after_the_abort_of_a_waiting_chat_and_before_its_result() {
    let mut talk = Talk::new(hang());
    for id in ["rpc_a", "rpc_b", "rpc_c", "rpc_d"] {
        talk.start(id, "hang");
    }
    talk.here();
    talk.abort("rpc_x", "rpc_b");
    let heard = talk.here();
    assert_eq!(short(&heard), ["b error E_ABORTED", "c queued 1", "d queued 2", "x abort.result true"]);
    assert_eq!(heard[3]["requestId"], "rpc_b");
    // Also to those whose number stays.
    talk.abort("rpc_y", "rpc_d");
    assert_eq!(short(&talk.here()), ["d error E_ABORTED", "c queued 1", "y abort.result true"]);
}

#[test]
fn ac_041_and_046_a_running_chat_ends_before_the_result_and_is_silent_after_it() {
    let script =
        Script::new().on("talk", vec![Step::Repeat { times: 100, every: 10, steps: vec![text("x")] }]);
    let mut talk = Talk::new(script);
    talk.start("rpc_a", "talk");
    talk.world.advance(105);
    talk.here();
    talk.abort("rpc_x", "rpc_a");
    let heard = talk.here();
    assert_eq!(short(&heard), ["a error E_ABORTED", "x abort.result true"]);
    assert_eq!(heard[0]["errorMessage"], "Request aborted");
    assert_eq!(heard[0]["error"]["kind"], "aborted");
    assert_eq!(heard[0]["error"]["source"], "server");
    talk.world.advance(10_000);
    assert_eq!(short(&talk.here()), Vec::<String>::new());
    assert_eq!(count(&talk.world, "turn_ended"), 1, "the agent was stopped");
}

#[test]
fn ac_041_what_waits_for_a_slow_reader_is_not_sent_after_the_end() {
    let script = Script::new().on("long", vec![Step::Fill { bytes: 2 << 20, piece: 5000 }, Step::Hang]);
    let mut talk = Talk::new(script);
    talk.world.stall(talk.peer);
    talk.start("rpc_a", "long");
    talk.world.advance(100);
    talk.abort("rpc_x", "rpc_a");
    talk.world.advance(100);
    talk.world.unstall(talk.peer);
    let heard = talk.here();
    let lines = short(&heard);
    assert_eq!(lines[lines.len() - 2..], ["a error E_ABORTED", "x abort.result true"]);
    assert!(lines.len() < 300, "most of it was still in the log");
}

#[test]
fn ac_042_the_task_of_an_aborted_chat_is_cancelled_running_or_waiting() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "hang");
    talk.start("rpc_b", "hang");
    let heard = talk.here();
    for id in ["rpc_b", "rpc_a"] {
        talk.abort("rpc_x", id);
        talk.here();
        assert_eq!(talk.state(talk.peer, &task_of(&heard, id)), "cancelled", "{id}");
    }
}

#[test]
fn ac_043_a_chat_that_was_aborted_while_it_waited_never_starts() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "soon");
    talk.start("rpc_b", "hang");
    talk.abort("rpc_x", "rpc_b");
    talk.world.advance(10_000);
    let heard = talk.here();
    assert_eq!(short(&of(&heard, "rpc_b")), ["b accepted", "b queued 1", "b error E_ABORTED"]);
    assert_eq!(count(&talk.world, "turn_started"), 1);
    assert_eq!(count(&talk.world, "turn_ended"), 2);
}

#[test]
fn ac_044_unknown_finished_and_foreign_chats_are_left_alone() {
    let mut talk = Talk::new(hang());
    let other = talk.connect();
    talk.say(other, &start("rpc_f", "soon"));
    talk.start("rpc_done", "hi");
    talk.here();
    for id in ["rpc_none", "rpc_done", "rpc_f"] {
        talk.abort("rpc_x", id);
        let result = talk.one();
        assert_eq!(short(std::slice::from_ref(&result)), ["x abort.result false"]);
        assert_eq!(result["requestId"], id);
    }
    talk.world.advance(2000);
    assert_eq!(gist(&talk.heard(other)).last().unwrap(), r#"f done "ab""#);
}

#[test]
fn ac_045_the_next_chat_runs_after_the_abort_of_the_one_before() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "hang");
    talk.start("rpc_b", "hello");
    talk.start("rpc_c", "hang");
    talk.here();
    talk.abort("rpc_x", "rpc_a");
    assert_eq!(
        gist(&talk.here()),
        [
            "a error E_ABORTED",
            "x abort.result true",
            "c queued 1",
            "b started",
            r#"b event "hello""#,
            r#"b done "hello""#,
            "c started",
            r#"c event "x""#,
        ]
    );
}

#[test]
fn ac_047_an_agent_that_does_not_stop_holds_the_next_chat_up_for_two_seconds_at_most() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "deaf");
    talk.start("rpc_b", "hello");
    talk.here();
    talk.abort("rpc_x", "rpc_a");
    assert_eq!(short(&talk.here()), ["a error E_ABORTED", "x abort.result true"]);
    talk.world.advance(2000);
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"b done "hello""#);
    assert_eq!(talk.world.followed(talk.peer), [], "nothing is followed for longer than it is needed");
}

#[test]
fn while_an_agent_stops_new_chats_wait() {
    let mut talk = Talk::new(hang());
    talk.start_in(talk.peer, "rpc_a", "sess_s", "deaf");
    talk.abort("rpc_x", "rpc_a");
    talk.here();
    talk.start_in(talk.peer, "rpc_b", "sess_s", "hello");
    assert_eq!(short(&talk.here()), ["b accepted", "b queued 1"]);
    talk.world.advance(2000);
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"b done "hello""#);
}

#[test]
fn two_aborts_of_one_chat_are_both_answered() {
    let settings = Settings { commit_ms: 100, ..Settings::default() };
    let mut talk = Talk::with(hang(), AcolyteLimits::default(), settings);
    talk.start("rpc_a", "hang");
    talk.world.advance(5000);
    talk.here();
    talk.abort("rpc_x", "rpc_a");
    talk.abort("rpc_y", "rpc_a");
    assert_eq!(short(&talk.here()), Vec::<String>::new(), "nothing is said before it is stored");
    talk.world.advance(100);
    assert_eq!(short(&talk.here()), ["a error E_ABORTED", "x abort.result true", "y abort.result true"]);
    talk.abort("rpc_z", "rpc_a");
    assert_eq!(short(&talk.here()), ["z abort.result false"]);
    let interrupted = count(&talk.world, "turn_interrupted");
    assert_eq!(interrupted, 1);
}

#[test]
fn an_abort_before_the_chat_is_stored_ends_it_all_the_same() {
    let settings = Settings { commit_ms: 100, ..Settings::default() };
    let mut talk = Talk::with(hang(), AcolyteLimits::default(), settings);
    talk.enqueue(talk.peer, &start("rpc_a", "hang"));
    talk.enqueue(talk.peer, &abort("rpc_x", "rpc_a"));
    talk.world.settle();
    assert_eq!(short(&talk.here()), Vec::<String>::new());
    talk.world.advance(5000);
    let heard = gist(&talk.here());
    assert_eq!(heard, ["a accepted", "a error E_ABORTED", "x abort.result true"]);
    assert_eq!(count(&talk.world, "turn_ended"), 1);
    talk.start("rpc_b", "hello");
    talk.world.advance(5000);
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"b done "hello""#);
}

#[test]
fn ac_044_an_abort_that_comes_too_late_is_answered_after_the_end() {
    // The end is decided, but not told; the abort is decided after it.
    for seed in 0..100 {
        let settings = Settings { commit_ms: 10, order: Order::Seeded(seed), ..Settings::default() };
        let mut talk = Talk::with(Script::new(), AcolyteLimits::default(), settings);
        talk.start("rpc_a", "hello");
        talk.world.advance(seed % 80);
        talk.abort("rpc_x", "rpc_a");
        talk.world.advance(5000);
        let heard = gist(&talk.here());
        let at = |what: &str| heard.iter().position(|line| line.starts_with(what));
        let result = at("x abort.result").unwrap();
        let aborted = heard[result].ends_with("true");
        let end = at(if aborted { "a error E_ABORTED" } else { "a done" });
        assert!(end.is_some_and(|end| end < result), "seed {seed}: {heard:?}");
    }
}

#[test]
fn an_abort_of_a_chat_that_waits_for_its_rate_never_starts_it() {
    for early in [true, false] {
        let settings = Settings { commit_ms: 5, ..Settings::default() };
        let mut talk = Talk::with(Script::new(), AcolyteLimits::default(), settings);
        let mut first = true;
        talk.world.set_gate(move |_, op, _| {
            let start = matches!(op, Op::StartTurn(_));
            if start && std::mem::take(&mut first) {
                return Err(Reject::RateLimited { retry_after: std::time::Duration::from_secs(1) });
            }
            Ok(())
        });
        talk.enqueue(talk.peer, &start("rpc_a", "one"));
        if early {
            talk.enqueue(talk.peer, &abort("rpc_x", "rpc_a"));
        }
        talk.world.settle();
        if !early {
            talk.world.advance(100);
            talk.abort("rpc_x", "rpc_a");
        }
        talk.world.advance(5000);
        let heard = talk.here();
        assert_eq!(short(&heard), ["a accepted", "a error E_ABORTED", "x abort.result true"], "{early}");
        assert_eq!(talk.state(talk.peer, &task_of(&heard, "rpc_a")), "cancelled");
        assert_eq!(count(&talk.world, "turn_accepted"), 0);
        talk.start("rpc_b", "two");
        talk.world.advance(5000);
        assert_eq!(gist(&talk.here()).last().unwrap(), r#"b done "two""#);
    }
}

#[test]
fn an_abort_that_cannot_be_stored_is_refused_and_the_chat_goes_on() {
    let mut talk = Talk::new(hang());
    talk.start("rpc_a", "soon");
    talk.here();
    talk.world.fail_appends(1);
    talk.abort("rpc_x", "rpc_a");
    assert_eq!(short(&talk.here()), ["x error refused"]);
    talk.world.advance(5000);
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"a done "ab""#);
}

#[test]
fn the_abort_of_a_waiting_chat_leaves_the_running_one_of_its_session_alone() {
    for bad in [false, true] {
        let mut talk = Talk::new(hang());
        talk.start_in(talk.peer, "rpc_a", "sess_s", "soon");
        if bad {
            // One that never gets as far as its session.
            let request = serde_json::json!({
                "message": "x", "history": [5], "model": "m", "sessionId": "sess_s",
            });
            talk.say(talk.peer, &crate::support::start_with("rpc_b", request));
        } else {
            talk.say(talk.peer, &start_in("rpc_b", "sess_s", "hang"));
            talk.abort("rpc_x", "rpc_b");
        }
        talk.start_in(talk.peer, "rpc_c", "sess_s", "soon");
        talk.world.advance(5000);
        let heard = gist(&talk.here());
        for id in ["a", "c"] {
            assert!(heard.contains(&format!(r#"{id} done "ab""#)), "{heard:?}");
        }
    }
}

#[test]
fn any_order_of_aborts_ends_every_chat_once() {
    for seed in 0..60 {
        let settings = Settings { commit_ms: seed % 7, order: Order::Seeded(seed), ..Settings::default() };
        let mut talk = Talk::with(hang(), AcolyteLimits::default(), settings);
        let ids = ["rpc_a", "rpc_b", "rpc_c", "rpc_d"];
        for (number, id) in ids.iter().enumerate() {
            let message = ["soon", "hang", "deaf", "hello"][(number + seed as usize) % 4];
            talk.enqueue(talk.peer, &start_in(id, "sess_s", message));
            if (seed >> number) & 1 == 1 {
                talk.enqueue(talk.peer, &abort(&format!("rpc_x{number}"), id));
            }
        }
        talk.world.settle();
        for id in ids {
            talk.world.advance(700);
            talk.abort("rpc_y", id);
        }
        talk.world.advance(10_000);
        let heard = gist(&talk.here());
        for id in ["a", "b", "c", "d"] {
            let ends = heard.iter().filter(|line| {
                line.starts_with(&format!("{id} done")) || line.starts_with(&format!("{id} error"))
            });
            assert_eq!(ends.count(), 1, "seed {seed}, {id}: {heard:?}");
        }
        // Nothing is left behind: the next one runs at once.
        talk.start("rpc_e", "hello");
        talk.world.advance(1000);
        assert_eq!(gist(&talk.here()).last().unwrap(), r#"e done "hello""#, "seed {seed}");
        assert_eq!(talk.status(talk.peer)["tasks_running"], 0);
    }
}
