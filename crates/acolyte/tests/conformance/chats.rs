//! One chat from its acceptance to its end (§5, §6): AC-017 to AC-023, AC-027 to AC-032, AC-061.

use serde_json::{Value, json};
use switchboard_acolyte::AcolyteLimits;
use switchboard_core::model::{FailureKind, Finish, NoticeLevel, Usage};
use switchboard_core::{Principal, Reject, Scopes};
use switchboard_testkit::{Script, Settings, Step};

use crate::support::{
    Talk, count, events, gist, hang, is_id, of_type, reply_of, short, start, start_with, text, texts,
};

fn told(script: Vec<Step>) -> Vec<Value> {
    let mut talk = Talk::new(Script::new().on("go", script));
    talk.start("rpc_1", "go");
    talk.here()
}

fn fail(kind: FailureKind, message: &str) -> Step {
    Step::Fail { kind, message: message.into() }
}

fn tool() -> Step {
    Step::Tool {
        name: "look".into(),
        args: json!({}),
        progress: Vec::new(),
        output: json!("seen"),
        error: None,
    }
}

#[test]
fn ac_017_and_018_accepted_comes_first_and_started_before_every_event() {
    let heard = told(vec![text("a"), text("b")]);
    assert_eq!(
        short(&heard),
        [
            "1 accepted",
            "1 started",
            "1 event status",
            "1 event usage",
            r#"1 event "a""#,
            r#"1 event "b""#,
            "1 event usage",
            r#"1 done "ab""#,
        ]
    );
    assert!(is_id(heard[0]["taskId"].as_str().unwrap(), "task"));
    assert_eq!(heard[2]["event"], json!({"type": "status", "state": {"kind": "running"}}));
}

#[test]
fn ac_018_started_comes_first_even_where_the_turn_never_began() {
    // Nobody takes the turn before it expires.
    let limits = AcolyteLimits { chat_s: 0, ..AcolyteLimits::default() };
    let mut talk = Talk::with(Script::new(), limits, Settings::default());
    talk.start("rpc_1", "hi");
    talk.world.advance(10);
    let heard = talk.here();
    assert_eq!(short(&heard)[..2], ["1 accepted", "1 started"]);
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!(
        (&reply["error"], &reply["outputStreamed"]),
        (&"The chat took too long".into(), &false.into())
    );
}

#[test]
fn ac_019_one_terminal_and_nothing_after_it() {
    // The grammar is held against every message; here it only has to stay quiet.
    let mut talk = Talk::new(hang());
    talk.start("rpc_1", "soon");
    talk.world.advance(500);
    talk.say(talk.peer, &json!({"id": "rpc_2", "type": "status.get"}));
    talk.world.advance(100_000);
    talk.world.send(talk.peer, switchboard_core::Frame::Pong(Vec::new().into()));
    let terminals = |heard: &[Value]| short(heard).iter().filter(|line| line.starts_with("1 done")).count();
    let seen = talk.seen(talk.peer);
    let heard: Vec<Value> = seen
        .into_iter()
        .filter_map(
            |seen| if let crate::support::Seen::Message(message) = seen { Some(message) } else { None },
        )
        .collect();
    assert_eq!(terminals(&heard), 1);
    assert_eq!(gist(&heard).last().unwrap(), r#"1 done "ab""#);
}

#[test]
fn ac_020_ids_are_lower_case_and_long_enough_not_to_be_guessed() {
    let mut talk = Talk::new(Script::new().on("bad", vec![fail(FailureKind::Unprepared, "no")]));
    talk.start("rpc_1", "bad");
    talk.start("rpc_2", "bad");
    let heard = talk.here();
    let all = |key: &str| -> Vec<String> {
        heard.iter().filter_map(|message| message[key].as_str().map(str::to_owned)).collect()
    };
    let (tasks, errors) = (all("taskId"), all("errorId"));
    assert_eq!((tasks.len(), errors.len()), (2, 2));
    assert_ne!(tasks[0], tasks[1]);
    assert_ne!(errors[0], errors[1]);
    for (ids, prefix) in [(&tasks, "task"), (&errors, "err")] {
        for id in ids {
            assert!(is_id(id, prefix) && id.len() >= prefix.len() + 1 + 16, "{id}");
        }
    }
}

#[test]
fn ac_021_the_pieces_come_in_order_and_end_with_the_answer() {
    let pieces: Vec<Step> = (0..200).map(|number| text(&format!("{number} "))).collect();
    let whole: String = (0..200).map(|number| format!("{number} ")).collect();
    let heard = told(pieces);
    assert_eq!(texts(&events(&heard, "rpc_1")), whole);
    assert_eq!(reply_of(&heard, "rpc_1")["output"], whole);
    // With tools in between, the answer is what follows the last of them.
    let heard = told(vec![text("Let me look."), tool(), text("It is "), text("there.")]);
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!(texts(&events(&heard, "rpc_1")), "Let me look.\nIt is there.");
    assert_eq!((&reply["output"], &reply["outputStreamed"]), (&"It is there.".into(), &true.into()));
    assert_eq!((&reply["toolCalls"], &reply["modelCalls"]), (&json!(["look"]), &2.into()));
    // An agent that is through without a word after it has said its answer before.
    let heard = told(vec![text("Done already."), tool(), tool()]);
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!((&reply["output"], &reply["outputStreamed"]), (&"Done already.".into(), &true.into()));
    let heard = told(vec![text("Words."), tool(), text(" \n"), tool(), text("  ")]);
    assert_eq!(reply_of(&heard, "rpc_1")["output"], "Words.");
    assert!(texts(&events(&heard, "rpc_1")).trim().ends_with("Words."));
}

#[test]
fn every_step_of_the_model_is_counted_and_kept_apart_from_the_one_before() {
    let ask = || Step::Ask { text: "May I?".into(), schema: None, timeout_ms: 60_000, give_up: false };
    let think = || Step::Reason("hm".into());
    for (steps, said, count) in [
        (vec![tool(), tool(), text("x")], "\n\nx", 3),
        (vec![text("a"), tool(), text("b"), tool(), text("c")], "a\nb\nc", 3),
        (vec![tool(), think(), text("x")], "\nx", 2),
        (vec![think(), text("x"), tool(), think(), tool(), Step::End(Finish::Empty)], "x\n\n", 3),
        (vec![tool(), Step::End(Finish::Length)], "\n", 2),
        // What is asked about a tool is asked in the same step.
        (vec![ask(), tool(), text("x")], "\nx", 2),
        // Nobody knows that such an agent asks any model.
        (vec![text("x"), tool()], "x", 1),
        (vec![Step::End(Finish::Empty)], "", 1),
        // A model that refuses has not taken a step.
        (vec![fail(FailureKind::ModelUnavailable, "no")], "", 0),
        (vec![tool(), fail(FailureKind::ModelUnavailable, "no")], "", 1),
    ] {
        let shown = format!("{steps:?}");
        let heard = told(steps);
        let reply = reply_of(&heard, "rpc_1");
        assert_eq!(
            (texts(&events(&heard, "rpc_1")).as_str(), &reply["modelCalls"]),
            (said, &count.into()),
            "{shown}"
        );
    }
}

#[test]
fn what_is_said_before_a_tool_is_no_answer_of_a_model_that_falls_silent_or_fails() {
    let refused = || fail(FailureKind::ModelUnavailable, "provider refused the request");
    for (last, error) in [
        (Step::End(Finish::Empty), "The model had nothing to say"),
        (Step::End(Finish::Filtered), "The answer was withheld by a content filter"),
        (Step::End(Finish::Length), "No output from model."),
        (refused(), "provider refused the request"),
    ] {
        for before in [vec![text("narr"), tool()], vec![text("narr"), tool(), Step::Reason("hm".into())]] {
            let heard = told([before, vec![last.clone()]].concat());
            let reply = reply_of(&heard, "rpc_1");
            assert_eq!((&reply["output"], &reply["error"]), (&"No output from model.".into(), &error.into()));
            assert_eq!(reply["outputStreamed"], false);
        }
    }
    let heard = told(vec![text("narr"), tool(), text("half"), refused()]);
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!((&reply["output"], &reply["outputStreamed"]), (&"half".into(), &true.into()));
}

#[test]
fn ac_022_what_was_not_streamed_is_said_to_be_so() {
    let end =
        |output: Option<Value>| Step::EndWith { finish: Finish::Complete, output, usage: None, cpu_ms: None };
    let cases = [
        (vec![end(Some(json!({"a": 1})))], r#"{"a":1}"#, false, None),
        (vec![end(Some(json!("plain")))], "plain", false, None),
        (vec![text("said"), end(Some(json!("other")))], "said", true, None),
        (vec![end(None)], "No output from model.", false, Some("No output from model.")),
        (vec![end(Some(Value::Null))], "No output from model.", false, Some("No output from model.")),
        (vec![text(" \n"), end(None)], "No output from model.", false, Some("No output from model.")),
    ];
    for (steps, output, streamed, error) in cases {
        let heard = told(steps);
        let reply = reply_of(&heard, "rpc_1");
        assert_eq!((&reply["output"], &reply["outputStreamed"]), (&output.into(), &streamed.into()));
        assert_eq!(reply.get("error").and_then(Value::as_str), error);
    }
}

#[test]
fn ac_023_every_reply_has_what_readers_demand_and_all_that_is_known() {
    let mut talk = Talk::new(Script::new());
    let request = json!({
        "message": "hello", "history": [], "model": "gpt-5-mini",
        "activeSkills": [{"name": "a", "instructions": "b", "more": 1}],
    });
    talk.say(talk.peer, &start_with("rpc_1", request));
    assert_eq!(
        reply_of(&talk.here(), "rpc_1"),
        json!({
            "output": "hello", "outputStreamed": true, "model": "gpt-5-mini",
            "toolCalls": [], "modelCalls": 1, "activeSkills": [{"name": "a", "instructions": "b"}],
            "usage": {"inputTokens": 2, "outputTokens": 2, "totalTokens": 4},
            "promptBreakdown": {
                "budgetTokens": 0, "usedTokens": 2, "systemTokens": 0, "toolTokens": 0,
                "skillTokens": 0, "memoryTokens": 0, "messageTokens": 2,
            },
        })
    );
    // A model without a name is that of the agent.
    talk.say(talk.peer, &start_with("rpc_2", json!({"message": "hello", "history": [], "model": ""})));
    assert_eq!(reply_of(&talk.here(), "rpc_2")["model"], "demo");
}

#[test]
fn a_model_that_is_an_agent_is_asked_of_that_agent() {
    let mut talk = Talk::new(Script::new().on("*", vec![text("default")]));
    talk.world.add_agent("other", Script::new().on("*", vec![text("the other")]));
    talk.peer = talk.connect();
    for (model, said) in [("other", "the other"), ("gpt-5", "default")] {
        let request = json!({"message": "hi", "history": [], "model": model});
        talk.say(talk.peer, &start_with("rpc_1", request));
        assert_eq!(reply_of(&talk.here(), "rpc_1")["output"], said);
    }
    // But not of one that the credential does not reach.
    let narrow = Scopes::parse("agent:demo");
    let principal = Principal { scopes: narrow, ..Principal::new("eve") };
    talk.world.issue("eve", principal);
    let eve = talk.connect_as("eve");
    let request = json!({"message": "hi", "history": [], "model": "other"});
    talk.say(eve, &start_with("rpc_1", request));
    assert_eq!(reply_of(&talk.heard(eve), "rpc_1")["output"], "default");
}

#[test]
fn ac_028_reasoning_is_told_and_is_not_part_of_the_answer() {
    let heard = told(vec![Step::Reason("hm".into()), text("yes"), Step::Reason(String::new())]);
    let events = events(&heard, "rpc_1");
    assert_eq!(of_type(&events, "reasoning"), [json!({"type": "reasoning", "text": "hm"})]);
    assert_eq!((texts(&events).as_str(), &reply_of(&heard, "rpc_1")["output"]), ("yes", &"yes".into()));
}

#[test]
fn ac_093_tokens_are_estimated_twice_a_second_while_text_streams() {
    let piece = [text("abcdefgh"), Step::Wait(100)];
    let mut talk = Talk::new(Script::new().on("go", piece.iter().cycle().take(40).cloned().collect()));
    talk.start("rpc_1", "go");
    talk.world.advance(3000);
    let usage = of_type(&events(&talk.here(), "rpc_1"), "usage");
    let written: Vec<u64> = usage.iter().map(|event| event["outputTokens"].as_u64().unwrap()).collect();
    assert_eq!(written, [0, 12, 22, 32, 40], "after 0.5, 1 and 1.5 of two seconds, and at the end");
}

#[test]
fn ac_030_usage_is_told_at_the_start_at_the_end_and_not_too_often() {
    let counted = |input: u64, output: u64| {
        Step::Usage([("input_tokens".to_owned(), input), ("output_tokens".to_owned(), output)].into())
    };
    let many: Vec<Step> =
        (1..=50).flat_map(|n| [counted(100, n), Step::Wait(10)]).chain([text("x")]).collect();
    let heard = told(vec![text("plain")]);
    assert!(of_type(&events(&heard, "rpc_1"), "usage").len() >= 2);
    let mut talk = Talk::new(Script::new().on("go", many));
    talk.start("rpc_1", "go");
    talk.world.advance(1000);
    let heard = talk.here();
    let usage = of_type(&events(&heard, "rpc_1"), "usage");
    // Half a second of counts: the first, one each 100 ms, and the last.
    let written: Vec<u64> = usage.iter().map(|event| event["outputTokens"].as_u64().unwrap()).collect();
    assert_eq!(written, [0, 11, 21, 31, 41, 50]);
    assert_eq!(usage[0], json!({"type": "usage", "inputTokens": 1, "outputTokens": 0}));
    assert_eq!(usage.last().unwrap(), &json!({"type": "usage", "inputTokens": 100, "outputTokens": 50}));
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!(reply["usage"], json!({"inputTokens": 100, "outputTokens": 50, "totalTokens": 150}));
    // The last count is that of the end.
    let usage = Some(Usage([("output_tokens".to_owned(), 9)].into()));
    let end = Step::EndWith { finish: Finish::Complete, output: None, usage, cpu_ms: None };
    let heard = told(vec![text("x"), counted(7, 8), end]);
    assert_eq!(of_type(&events(&heard, "rpc_1"), "usage").last().unwrap()["outputTokens"], 9);
    let usage = json!({"inputTokens": 7, "outputTokens": 9, "totalTokens": 16});
    assert_eq!(reply_of(&heard, "rpc_1")["usage"], usage);
}

#[test]
fn counts_of_other_names_are_understood_and_stay_within_what_readers_can_count() {
    let usage = [("prompt_tokens".to_owned(), 7), ("completion_tokens".to_owned(), u64::MAX)].into();
    let heard = told(vec![text("x"), Step::Usage(usage)]);
    let usage = &reply_of(&heard, "rpc_1")["usage"];
    assert_eq!(usage["inputTokens"], 7);
    for key in ["outputTokens", "totalTokens"] {
        assert!(usage[key].as_u64().unwrap() < 1 << 53, "{usage}");
    }
}

#[test]
fn ac_031_a_chat_that_could_not_begin_fails_with_everything_that_is_known() {
    let message = "Workspace path does not exist: /nope";
    let heard = told(vec![fail(FailureKind::Unprepared, message)]);
    assert_eq!(gist(&heard), ["1 accepted", "1 started", "1 error E_UNKNOWN"]);
    let error = heard.last().unwrap();
    assert_eq!(error["errorMessage"], message);
    assert!(is_id(error["errorId"].as_str().unwrap(), "err"));
    let detail = json!({"code": "E_UNKNOWN", "category": "other", "kind": "unknown", "source": "server"});
    assert_eq!(error["error"], detail);
    for (kind, said, code) in [
        (FailureKind::Forbidden, "no", "E_SANDBOX_VIOLATION"),
        (FailureKind::SlowConsumer, "no", "E_OVERLOADED"),
        (FailureKind::Internal, "no", "E_UNKNOWN"),
        (FailureKind::Unreachable, "lost [x] [ENOENT] gone", "ENOENT"),
        (FailureKind::Unprepared, "[E_BUDGET_EXHAUSTED] no", "E_BUDGET_EXHAUSTED"),
    ] {
        let heard = told(vec![fail(kind, said)]);
        assert_eq!(heard.last().unwrap()["errorCode"], code, "{kind:?}");
    }
}

#[test]
fn ac_032_a_failed_answer_is_a_reply_with_an_error_and_what_was_said() {
    let kinds = [
        FailureKind::Execution,
        FailureKind::ToolNotFound,
        FailureKind::InvalidArgs,
        FailureKind::Tool,
        FailureKind::ModelUnavailable,
        FailureKind::CallTimeout,
        FailureKind::WorkerLost,
        FailureKind::BudgetExhausted,
    ];
    for kind in kinds {
        let heard = told(vec![text("half"), fail(kind, "provider refused the request")]);
        let reply = reply_of(&heard, "rpc_1");
        assert_eq!((&reply["output"], &reply["outputStreamed"]), (&"half".into(), &true.into()), "{kind:?}");
        assert_eq!(reply["error"], "provider refused the request");
    }
    let heard = told(vec![fail(FailureKind::ModelUnavailable, "provider refused the request")]);
    let reply = reply_of(&heard, "rpc_1");
    assert_eq!(
        (&reply["output"], &reply["outputStreamed"]),
        (&"No output from model.".into(), &false.into())
    );
    assert_eq!(reply["error"], "provider refused the request");
    for (finish, error) in [
        (Finish::Filtered, Some("The answer was withheld by a content filter")),
        (Finish::Empty, Some("The model had nothing to say")),
        (Finish::Complete, None),
    ] {
        let heard = told(vec![text("x"), Step::End(finish)]);
        assert_eq!(reply_of(&heard, "rpc_1").get("error").and_then(Value::as_str), error);
    }
    let heard = told(vec![text("x"), Step::End(Finish::Length)]);
    assert!(reply_of(&heard, "rpc_1").get("error").is_none());
    let notices = of_type(&events(&heard, "rpc_1"), "notice");
    assert_eq!(notices[0]["level"], "warn");
}

#[test]
fn warnings_are_notices_and_remarks_are_signs_of_life() {
    let notice = |level, text: &str| Step::Notice { level, text: text.into() };
    let heard = told(vec![
        notice(NoticeLevel::Warn, "careful"),
        notice(NoticeLevel::Info, "by the way"),
        Step::Status("thinking".into()),
        Step::Data { mime: None, value: json!({"a": [1]}) },
        text(""),
    ]);
    let events = events(&heard, "rpc_1");
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["status", "usage", "notice", "status", "status", "text-delta", "usage"]);
    assert_eq!(events[2], json!({"type": "notice", "level": "warn", "message": "careful"}));
    assert_eq!(reply_of(&heard, "rpc_1")["output"], r#"{"a":[1]}"#);
}

#[test]
fn ac_061_a_large_answer_arrives_whole() {
    let script = Script::new().on("long", vec![Step::Fill { bytes: 3 << 19, piece: 5000 }]);
    let mut talk = Talk::new(script);
    talk.start("rpc_1", "long");
    let heard = talk.here();
    assert_eq!(texts(&events(&heard, "rpc_1")).len(), 3 << 19);
    assert_eq!(reply_of(&heard, "rpc_1")["output"].as_str().unwrap().len(), 3 << 19);
}

#[test]
fn ac_081_and_092_acceptance_waits_for_its_commit_and_for_nothing_else() {
    let settings = Settings { commit_ms: 1000, turns_wait: true, ..Settings::default() };
    let mut talk = Talk::with(Script::new(), AcolyteLimits::default(), settings);
    talk.start("rpc_1", "hi");
    assert_eq!(short(&talk.here()), Vec::<String>::new(), "nothing is stored yet");
    while count(&talk.world, "turn_accepted") == 0 {
        assert_eq!(short(&talk.here()), Vec::<String>::new());
        talk.world.advance(1);
    }
    talk.world.advance(999);
    assert_eq!(short(&talk.here()), Vec::<String>::new(), "it is being stored");
    talk.world.advance(1);
    assert_eq!(short(&talk.here()), ["1 accepted"]);
    talk.world.advance(10_000);
    assert_eq!(gist(&talk.here()), ["1 started", r#"1 event "hi""#, r#"1 done "hi""#]);
}

#[test]
fn a_chat_that_comes_too_fast_waits_and_is_tried_again() {
    let mut talk = Talk::new(Script::new());
    let mut tries = 0;
    talk.world.set_gate(move |_, op, _| {
        if matches!(op, switchboard_core::Op::StartTurn(_)) {
            tries += 1;
            if tries <= 2 {
                let retry_after = std::time::Duration::from_millis(300);
                return Err(Reject::RateLimited { retry_after });
            }
        }
        Ok(())
    });
    talk.start("rpc_1", "one");
    talk.start("rpc_2", "two");
    talk.world.advance(299);
    assert_eq!(short(&talk.here()), Vec::<String>::new());
    talk.world.advance(1);
    let heard = gist(&talk.here());
    assert_eq!(heard.last().unwrap(), r#"2 done "two""#);
    assert!(heard.contains(&r#"1 done "one""#.to_owned()));
}

#[test]
fn a_chat_that_the_session_refuses_fails_with_a_reason() {
    for (reject, code) in [
        (Reject::Forbidden, "E_SANDBOX_VIOLATION"),
        (Reject::UnknownAgent("x".into()), "E_SANDBOX_VIOLATION"),
        (Reject::Limit { what: "running_turns" }, "E_OVERLOADED"),
        (Reject::Busy, ""),
        (Reject::Draining, ""),
        (Reject::Unavailable { reason: "disk".into() }, ""),
        (Reject::NotFound, "E_UNKNOWN"),
    ] {
        let mut talk = Talk::new(Script::new());
        let answer = reject.clone();
        let mut first = true;
        talk.world.set_gate(move |_, op, _| {
            let start = matches!(op, switchboard_core::Op::StartTurn(_));
            if start && std::mem::take(&mut first) { Err(answer.clone()) } else { Ok(()) }
        });
        talk.start("rpc_1", "one");
        let heard = talk.here();
        if code.is_empty() {
            assert_eq!(short(&heard), ["1 error refused"], "{reject:?}: it may be sent again");
            assert!(!heard[0]["error"].as_str().unwrap().contains("disk"), "operators only");
            assert_eq!(talk.status(talk.peer)["tasks_total"], 0);
        } else {
            let line = format!("1 error {code}");
            assert_eq!(short(&heard), ["1 accepted", "1 started", line.as_str()], "{reject:?}");
            let task = heard[0]["taskId"].as_str().unwrap().to_owned();
            assert_eq!(talk.state(talk.peer, &task), "failed");
        }
        // The place is free again.
        talk.start("rpc_1", "two");
        assert_eq!(gist(&talk.here()).last().unwrap(), r#"1 done "two""#);
    }
}

#[test]
fn storage_that_refuses_fails_the_chat_and_the_next_one_is_served() {
    for failing in 1..=3 {
        let mut talk = Talk::new(Script::new());
        talk.offer(talk.peer, "task.resume");
        talk.world.fail_appends(failing);
        talk.start("rpc_1", "one");
        talk.world.advance(5000);
        let heard = gist(&talk.here());
        let end = heard.last().unwrap();
        assert!(end == "1 error E_UNKNOWN" || end == r#"1 done "one""#, "{heard:?}");
        talk.world.fail_appends(0);
        talk.say(talk.peer, &start("rpc_2", "two"));
        assert_eq!(gist(&talk.here()).last().unwrap(), r#"2 done "two""#);
        talk.world.check_replay().unwrap();
    }
}

#[test]
fn a_credential_that_does_not_reach_the_default_agent_is_served_by_one_that_it_reaches() {
    let mut talk = Talk::new(hang());
    talk.world.add_agent("other", Script::new());
    let narrow = Principal { scopes: Scopes::parse("agent:other"), ..Principal::new("eve") };
    talk.world.issue("eve", narrow);
    let peer = talk.connect_as("eve");
    talk.say(peer, &start("rpc_1", "hello"));
    let heard = talk.heard(peer);
    assert_eq!(heard.last().unwrap()["reply"]["output"], "hello", "{heard:?}");
}
