//! Taking a session up, coming back to it, and losing it to another.

use switchboard_core::{Cell, CloseReason, Comparison};

use super::*;
use crate::minutes::{Asked, tables};

/// The session as the transports before have left it.
fn left(change: impl FnOnce(&mut Minutes)) -> Stage {
    Stage::opened(|setup| {
        setup.seed = [8; 32];
        let minutes = &mut setup.minutes;
        minutes.opened = true;
        minutes.transport = 3;
        (minutes.sent, minutes.numbered) = (40, Some(40));
        minutes.resume = Some("PwiqzhIu4jaEMsHKI6BJvGQLr78A_fM6UkKfOLoS2_k".to_owned());
        change(minutes);
    })
}

/// A client that has seen so many events, and the token that the session was left with.
fn back(seen: u64) -> Value {
    json!({ "resume": { "resume_token": "token-1", "last_server_seq": seen }, "context": screen() })
}

#[test]
fn vip_073_the_token_with_which_a_client_comes_back_is_good_once() {
    let mut stage = Stage::new(|_, _| {});
    let connected = stage.one("session.connected");
    assert_eq!(connected["data"]["resumed"], false);
    let token = connected["data"]["resume_token"].as_str().unwrap().to_owned();
    assert!(token.len() >= 22, "at least 128 bits");
    let record = json!(stage.recorded()).to_string();
    assert!(!record.contains(&token), "it is never put on record");
    let digest =
        stage.recorded().iter().find_map(|minute| minute["connected"]["resume"].as_str().map(str::to_owned));

    let mut stage = left(|minutes| minutes.resume.clone_from(&digest));
    let mut hello = back(40);
    hello["resume"]["resume_token"] = token.as_str().into();
    stage.hello(hello.clone());
    let connected = stage.one("session.connected");
    assert_eq!(connected["data"]["resumed"], true);
    assert_ne!(connected["data"]["resume_token"], token, "another one for the next time");
    let next =
        stage.recorded().iter().find_map(|minute| minute["connected"]["resume"].as_str().map(str::to_owned));
    assert_ne!(next, digest);
    // Whoever has the old one has nothing.
    let mut stage = left(|minutes| minutes.resume = next);
    stage.hello(hello);
    assert_eq!(stage.codes(), ["SES_RESUME_REJECTED"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4410));
}

#[test]
fn vip_072_nobody_comes_back_where_that_was_not_agreed() {
    let mut stage = Stage::opened(|setup| {
        setup.settings.resume_s = 0;
        setup.minutes.opened = true;
        setup.minutes.resume = Some("PwiqzhIu4jaEMsHKI6BJvGQLr78A_fM6UkKfOLoS2_k".to_owned());
    });
    stage.hello(back(1));
    assert_eq!(stage.codes(), ["SES_RESUME_REJECTED"]);
    let mut stage = Stage::new(|settings, _| settings.resume_s = 0);
    assert_eq!(stage.one("session.connected")["data"]["resume_token"], Value::Null);
}

#[test]
fn vip_078_a_session_that_is_over_is_not_taken_up() {
    let mut stage = left(|minutes| minutes.ended = Some("user_hangup".to_owned()));
    assert_eq!(stage.codes(), ["SES_TERMINATED"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4410));
}

#[test]
fn the_hello_names_the_version_and_the_session() {
    for (member, value, code) in [
        ("protocol_version", "0.2", "PROTO_VERSION"),
        ("session_id", "vs_00000000000000000000000001", "SES_NOT_FOUND"),
    ] {
        let mut stage = Stage::opened(|_| {});
        stage.hello(json!({ member: value }));
        assert_eq!(stage.codes(), [code]);
        assert!(stage.closed.is_some());
        // Who was never let in ends nothing.
        assert!(!stage.recorded().iter().any(|minute| minute.get("ended").is_some()));
    }
}

#[test]
fn vip_074_what_was_missed_is_told_again_and_nothing_twice() {
    let mut stage = left(|_| {});
    let told = json!({ "type": "response.done", "id": "s-39", "seq": 39, "ts": 0, "state_seq": 1,
        "data": { "response_id": "r-1.1", "status": "complete" } });
    let row = tables::EVENTS.columns.iter().map(|column| match column.name {
        "event" => told.to_string().into(),
        "seq" => 39i64.into(),
        _ => 0i64.into(),
    });
    stage.rows = vec![row.collect()];
    stage.hello(back(38));
    let said = stage.said();
    assert_eq!(said[0]["data"]["replay_from"], 39);
    assert_eq!((&said[0]["seq"], &said[1]["seq"], &said[2]["seq"]), (&json!(41), &json!(39), &json!(42)));
    let bounds: Vec<(Comparison, Cell)> = stage.looked[0]
        .conditions
        .iter()
        .filter(|condition| condition.column == "seq")
        .map(|condition| (condition.is, condition.value.clone()))
        .collect();
    assert_eq!(bounds, [(Comparison::Above, Cell::Integer(38))]);
    // The newest, where there are too many.
    let newest = switchboard_core::Question::Rows(vec![("seq", switchboard_core::Order::Falling)]);
    assert_eq!((&stage.looked[0].question, stage.looked[0].limit), (&newest, 500));

    // Who has seen everything is told nothing again.
    let mut stage = left(|_| {});
    stage.hello(back(40));
    assert_eq!((stage.said()[0]["data"]["replay_from"].clone(), stage.looked.len()), (Value::Null, 0));
    // Numbers go on behind those that the client has seen, even if nobody else has.
    let mut stage = left(|minutes| minutes.numbered = Some(50));
    stage.hello(back(50));
    assert_eq!(stage.said()[0]["seq"], 51);
    let mut stage = left(|_| {});
    stage.send("session.ping", None, json!({ "nonce": "n" }));
    assert_eq!(stage.one("error.recoverable")["seq"], 41, "even before the hello");
}

#[test]
fn vip_072_who_has_seen_what_was_never_sent_is_not_let_back() {
    let mut stage = Stage::new(|_, _| {});
    let last = stage.said().last().unwrap()["seq"].as_u64().unwrap();
    stage.feed(Input::Closed(CloseReason::TransportLost));
    assert!(stage.recorded().contains(&json!(Minute::Numbered { seq: last, transport: 1, last: true })));
    let codes = |numbered: Option<u64>, seen: u64| {
        let mut stage = left(|minutes| minutes.numbered = numbered);
        stage.hello(back(seen));
        stage.codes()
    };
    assert_eq!(codes(Some(45), 45), Vec::<String>::new());
    assert_eq!(codes(Some(45), 46), ["SES_RESUME_REJECTED"]);
    // What a server that broke has sent at last is not on record; but there is an end to it.
    assert_eq!(codes(None, 46), Vec::<String>::new());
    for seen in [1 << 32, u64::MAX >> 1, u64::MAX] {
        assert_eq!(codes(None, seen), ["SES_RESUME_REJECTED"]);
    }
    // Numbers are not used twice, even if the client begins anew.
    let mut stage = left(|minutes| minutes.numbered = Some(45));
    stage.hello(json!({ "context": screen() }));
    assert_eq!(stage.one("session.connected")["seq"], 46);
}

#[test]
fn what_the_app_has_not_done_by_now_is_given_up_and_what_it_has_counts() {
    let asked = |invocation: &str, call: &str| Asked {
        invocation: invocation.to_owned(),
        turn: "turn-1".to_owned(),
        call: call.to_owned(),
        action: "lamp.on".to_owned(),
        response: "r-3.1".to_owned(),
        parameters: json!({}),
    };
    let mut stage = left(|minutes| {
        for (invocation, call) in [("i-3.1", "call-1"), ("i-3.2", "call-2")] {
            minutes.asked.insert(call.to_owned(), asked(invocation, call));
        }
        minutes.response = Some("r-3.1".to_owned());
    });
    let mut hello = back(40);
    hello["resume"]["pending_results"] = json!([{ "invocation_id": "i-3.2", "action_id": "lamp.on",
        "status": "success", "event": "action.success", "executed": true, "duration_ms": 1 }]);
    stage.hello(hello);
    assert!(stage.told("call-2").unwrap().is_ok());
    assert_eq!(stage.told("call-1"), Some(Err("ACT_CANCELLED".to_owned())));
    // And the response that was under way has its end (VIP-070).
    let done = stage.one("response.done");
    assert_eq!(
        (&done["data"]["response_id"], &done["data"]["status"]),
        (&json!("r-3.1"), &json!("incomplete"))
    );
}

#[test]
fn vip_079_what_the_app_says_of_a_password_that_is_not_known_any_more_is_not_kept() {
    for failed in [false, true] {
        let mut stage = left(|minutes| {
            let asked = Asked {
                invocation: "i-3.1".to_owned(),
                turn: "turn-1".to_owned(),
                call: "call-1".to_owned(),
                action: "password".to_owned(),
                response: "r-3.1".to_owned(),
                parameters: json!({ "value": "[REDACTED]" }),
            };
            minutes.asked.insert("call-1".to_owned(), asked);
        });
        let mut hello = back(40);
        let (status, event) =
            if failed { ("error", "action.failure") } else { ("success", "action.success") };
        hello["resume"]["pending_results"] = json!([{ "invocation_id": "i-3.1", "action_id": "password",
            "status": status, "event": event, "executed": true, "data": { "value": "hunter2" },
            "error": { "code": "HUNTER2", "message": "hunter2 is too short" }, "duration_ms": 1 }]);
        stage.hello(hello);
        assert_eq!(stage.told("call-1").unwrap().is_err(), failed);
        assert!(!format!("{:?}", stage.ops).to_lowercase().contains("hunter2"));
    }
}

#[test]
fn vip_081_the_introduction_is_given_on_the_first_visit_and_never_again() {
    let introduced = |activate_on: &str, first: bool| {
        let mut stage = Stage::new(|settings, _| {
            settings.activate_on = activate_on.to_owned();
            settings.first_visit = first;
        });
        kinds(&stage.said()).contains(&"server.announce")
    };
    assert!(introduced("first_visit", true) && introduced("connect", false));
    assert!(!introduced("first_visit", false) && !introduced("manual", true));
    let mut stage = Stage::opened(|setup| {
        setup.settings.activate_on = "connect".to_owned();
        setup.minutes.opened = true;
        setup.minutes.resume = Some("PwiqzhIu4jaEMsHKI6BJvGQLr78A_fM6UkKfOLoS2_k".to_owned());
    });
    stage.hello(back(0));
    stage.pass(10_000);
    let said = stage.said();
    assert!(kinds(&said).contains(&"server.ready") && !kinds(&said).contains(&"server.announce"));
}

#[test]
fn what_was_answered_meanwhile_is_told_unless_the_user_goes_on() {
    let mut stage = left(|minutes| minutes.unsaid = Some("It is done.".to_owned()));
    stage.hello(back(40));
    stage.said();
    stage.pass(2_999);
    assert!(stage.said().is_empty());
    stage.pass(1);
    let told = stage.one("server.announce");
    assert_eq!(
        (&told["data"]["reason"], &told["data"]["content"]),
        (&json!("follow_up"), &json!("It is done."))
    );
    let mut stage = left(|minutes| minutes.unsaid = Some("It is done.".to_owned()));
    stage.hello(back(40));
    stage.type_in("t-2", "something else");
    stage.end_turn(TurnEnd::complete());
    stage.said();
    stage.pass(10_000);
    assert!(!kinds(&stage.said()).contains(&"server.announce"));
}

#[test]
fn a_client_that_begins_anew_does_not_wait_for_what_was_before() {
    let orphan = TurnId::from("turn-of-before");
    let begun = |stage: &mut Stage| {
        let mut accepted = samples::accepted(&TurnId::from("turn-of-before"), "asp");
        if let Event::TurnAccepted { origin, .. } = &mut accepted {
            origin.attachment = Some(stage.connection.attachment.clone());
        }
        stage.commit(accepted);
    };
    let mut stage = left(|_| {});
    begun(&mut stage);
    stage.hello(json!({ "context": screen() }));
    assert_eq!(stage.stopped(), std::slice::from_ref(&orphan));
    // Who comes back does, until there is something else to answer.
    let mut stage = left(|_| {});
    begun(&mut stage);
    stage.hello(back(40));
    assert!(stage.stopped().is_empty());
    stage.type_in("t-2", "something else");
    assert_eq!(stage.stopped(), [orphan]);
}

/// What the transport after this one puts on record.
fn newer_than(stage: &Stage) -> Event {
    let Arrival { process, number } = stage.connection.arrival.clone();
    recorded(json!([Minute::Opened { arrival: Arrival { process, number: number + 1 } }]))
}

fn attached(generation: u32) -> Event {
    Event::AttachmentOpened {
        attachment: format!("{SESSION}.app").as_str().into(),
        generation,
        principal: PrincipalId::from("ann"),
        secret: None,
        window_ms: 60_000,
    }
}

#[test]
fn vip_075_the_newest_transport_has_the_session() {
    let mut stage = left(|_| {});
    let arrival = stage.connection.arrival.clone();
    assert_eq!(stage.recorded(), [json!(Minute::Opened { arrival: arrival.clone() })]);
    stage.hello(back(40));
    stage.said();
    stage.commit(recorded(json!([Minute::Opened { arrival }])));
    assert_eq!(stage.closed, None, "that is this one");
    stage.commit(newer_than(&stage));
    assert_eq!(stage.codes(), ["SES_REPLACED"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(4409));
    // Whatever it was saying, the newer one speaks now.
    let mut speaking = Stage::new(|settings, _| settings.activate_on = "connect".to_owned());
    let response = speaking.response();
    speaking.commit(newer_than(&speaking));
    assert!(speaking.voice.contains(&VoiceOp::Hush { response }));
    // The session is another's now, and nothing of it is touched.
    let touched = |op: &Op| matches!(op, Op::Detach { .. } | Op::CloseAttachment { .. });
    assert!(!stage.ops.iter().any(touched));
}

#[test]
fn vip_091_a_transport_that_has_lost_the_session_without_knowing_does_not_take_it_over() {
    let mut stage = left(|minutes| minutes.generation = 1);
    stage.hello(back(40));
    let takes = |stage: &Stage| stage.ops.iter().filter(|op| matches!(op, Op::TakeOver { .. })).count();
    assert_eq!((takes(&stage), stage.connection.generation), (1, 1));
    stage.commit(attached(1));
    assert_eq!(takes(&stage), 1, "that is this one");
    // An older one was let in at the same moment: the session is taken back, once.
    stage.commit(attached(2));
    assert_eq!((takes(&stage), stage.closed), (2, None));
}

/// Every order in which the transports from 0 on can be opened (first) and put on record (second).
fn orders(count: usize) -> Vec<Vec<(usize, bool)>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..2 * count {
        let longer = orders.iter().flat_map(|order: &Vec<(usize, bool)>| {
            (0..count).filter_map(|transport| {
                let done = order.iter().filter(|(known, _)| *known == transport).count();
                (done < 2).then(|| [order.as_slice(), &[(transport, done == 0)]].concat())
            })
        });
        orders = longer.collect();
    }
    orders
}

/// What is left of transports that arrived like this, when they were opened and put on record in an order.
fn race(arrivals: &[(&str, u64)], order: &[(usize, bool)]) -> Vec<Stage> {
    let mut minutes = Minutes::new(&SessionId::new(SESSION));
    minutes.sent = 40;
    let mut stages: BTreeMap<usize, (Stage, usize)> = BTreeMap::new();
    let mut log: Vec<Event> = Vec::new();
    for (transport, opens) in order {
        if *opens {
            let stage = Stage::opened(|setup| {
                let (process, number) = arrivals[*transport];
                setup.arrival = Some(Arrival { process: process.to_owned(), number });
                setup.held_back = true;
                setup.minutes = minutes.clone();
            });
            stages.insert(*transport, (stage, log.len()));
            continue;
        }
        let record = stages[transport].0.recorded();
        let event = recorded(json!(record));
        minutes.take(&Committed {
            position: Position::default(),
            at: Timestamp::default(),
            event: event.clone(),
        });
        log.push(event);
    }
    let follow = |(mut stage, from): (Stage, usize)| {
        log[from..].iter().for_each(|event| stage.commit(event.clone()));
        stage
    };
    stages.into_values().map(follow).collect()
}

#[test]
fn vip_091_of_transports_that_are_opened_at_once_exactly_the_newest_is_left() {
    for order in orders(3) {
        let mut stages = race(&[("a", 1), ("a", 2), ("a", 3)], &order);
        let newest = stages.pop().unwrap();
        assert_eq!((newest.closed, newest.connection.phase), (None, Phase::Greeting), "{order:?}");
        for mut stage in stages {
            assert_eq!(stage.closed.map(|close| close.code), Some(4409), "{order:?}");
            assert_eq!(stage.codes(), ["SES_REPLACED"]);
        }
        // Where they are in several processes, one is left all the same.
        let stages = race(&[("a", 1), ("b", 1), ("a", 2)], &order);
        let left = stages.iter().filter(|stage| stage.closed.is_none()).count();
        assert_eq!(left, 1, "{order:?}");
    }
}

#[test]
fn vip_092_the_number_of_the_last_word_is_given_to_nothing_else() {
    for order in orders(3) {
        let mut stages = race(&[("a", 1), ("a", 2), ("a", 3)], &order);
        let mut newest = stages.pop().unwrap();
        newest.hello(json!({}));
        let mut numbers = vec![newest.one("session.connected")["seq"].as_u64().unwrap()];
        numbers.extend(stages.iter_mut().map(|stage| stage.one("error.fatal")["seq"].as_u64().unwrap()));
        let mut told_apart = numbers.clone();
        told_apart.sort_unstable();
        told_apart.dedup();
        assert_eq!(told_apart.len(), 3, "{order:?}: {numbers:?}");
    }
    // Nor are those that a transport gives to captions while the next one is already there.
    let mut first = Stage::new(|_, _| {});
    let record = json!(first.recorded());
    let mut minutes = Minutes::new(&SessionId::new(SESSION));
    minutes.take(&Committed { position: Position::default(), at: first.now, event: recorded(record) });
    let next = Stage::opened(|setup| setup.minutes = minutes);
    first.type_in("t-1", "tell me");
    first.words("A whole sentence. And another one. And a third. ");
    first.commit(newer_than(&first));
    let said: Vec<u64> = first.said().iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert!(said.iter().all(|seq| *seq <= next.connection.outgoing.seq), "{said:?}");
}

#[test]
fn what_was_sent_is_counted_even_if_it_is_never_sent_again() {
    let mut stage = Stage::new(|_, _| {});
    stage.pass(2_000);
    stage.said();
    let numbered = |stage: &Stage| {
        let minutes = stage.recorded();
        minutes.iter().rev().find_map(|minute| minute["numbered"]["seq"].as_u64())
    };
    stage.send("session.ping", None, json!({ "nonce": "n" }));
    stage.send("session.ping", None, json!({ "nonce": "n" }));
    let last = stage.said().last().unwrap()["seq"].as_u64();
    assert_ne!(numbered(&stage), last);
    stage.pass(1_000);
    assert_eq!(numbered(&stage), last);
    // It is no word of farewell: whoever comes after a crash is believed to have seen more.
    let mut minutes = Minutes::new(&SessionId::new(SESSION));
    let event = recorded(json!(stage.recorded()));
    let records = minutes.take(&Committed { position: Position::default(), at: stage.now, event });
    assert_eq!((minutes.numbered, Some(minutes.last)), (None, last));
    let cell = ("last_event_seq", Cell::Integer(i64::try_from(last.unwrap()).unwrap()));
    assert!(records.iter().any(|record| record.cells.contains(&cell)));
}

#[test]
fn a_lost_transport_leaves_the_session_waiting_and_a_hang_up_ends_it() {
    let mut stage = Stage::new(|_, _| {});
    stage.feed(Input::Closed(CloseReason::TransportLost));
    assert!(stage.ops.iter().any(|op| matches!(op, Op::Detach { .. })));
    assert!(!stage.recorded().iter().any(|minute| minute.get("ended").is_some()));
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    stage.send("session.close", None, json!({ "reason": "user_hangup" }));
    assert_eq!(kinds(&stage.said()), ["state.changed", "session.terminated"]);
    assert_eq!(stage.closed.map(|close| close.code), Some(1000));
    assert!(stage.ops.iter().any(|op| matches!(op, Op::CloseAttachment { .. })));
    assert!(stage.recorded().iter().any(|minute| minute["ended"]["reason"] == "user_hangup"));
}

/// The generations of the attachment that were let go of.
fn let_go(stage: &Stage) -> Vec<u32> {
    let let_go = stage.ops.iter().filter_map(|op| match op {
        Op::Detach { generation, .. } => Some(*generation),
        _ => None,
    });
    let_go.collect()
}

#[test]
fn vip_072_a_session_is_alone_when_what_replaced_its_transport_comes_to_nothing() {
    let replacing = || {
        left(|minutes| {
            minutes.connected = true;
            minutes.generation = 3;
        })
    };
    let mut gone = replacing();
    gone.feed(Input::Closed(CloseReason::PeerClosed(Some(1000))));
    let mut silent = replacing();
    silent.pass(5_000);
    assert_eq!(silent.codes(), ["PROTO_HANDSHAKE_TIMEOUT"]);
    let mut rejected = replacing();
    let mut hello = back(40);
    hello["resume"]["resume_token"] = "token-0".into();
    rejected.hello(hello);
    assert_eq!(rejected.codes(), ["SES_RESUME_REJECTED"]);
    for stage in [gone, silent, rejected] {
        assert_eq!(let_go(&stage), [3]);
        assert!(!stage.recorded().iter().any(|minute| minute.get("ended").is_some()));
    }
    // The next one in line answers for it.
    let mut replaced = replacing();
    replaced.commit(newer_than(&replaced));
    assert_eq!(replaced.closed.map(|close| close.code), Some(4409));
    assert!(let_go(&replaced).is_empty());
    // Nobody was ever there.
    let mut first = Stage::opened(|_| {});
    first.feed(Input::Closed(CloseReason::TransportLost));
    assert!(let_go(&first).is_empty());
}

#[test]
fn vip_072_a_session_is_alone_when_its_transport_is_lost_while_it_is_let_in() {
    let mut stage = left(|minutes| {
        minutes.connected = true;
        minutes.generation = 3;
    });
    let hello = json!({ "type": "client.connect", "id": "c-1", "seq": 1, "ts": 0, "state_seq": 0,
        "data": { "session_id": SESSION, "protocol_version": "0.1" } });
    stage.connection.handle_input(Input::Frame(Frame::Text(hello.to_string())), stage.now).unwrap();
    let taking_over = loop {
        match stage.connection.poll_output() {
            Output::Submit(request, _, Op::TakeOver { .. }) => break request,
            Output::Idle { .. } => panic!("nobody takes over"),
            _ => {}
        }
    };
    stage.feed(Input::Closed(CloseReason::Restart));
    assert_eq!(let_go(&stage), [4]);
    stage.feed(Input::Done(taking_over, Reply::Applied { head: Position::default() }));
    assert!(!kinds(&stage.said()).contains(&"session.connected"));
}

#[test]
fn vip_077_a_client_that_gives_up_is_let_go_of() {
    let gives_up = |stage: &mut Stage, kind: &str, code: &str| {
        let error =
            json!({ "code": code, "category": "protocol", "message": "", "fatal": true, "retryable": true });
        stage.said();
        stage.send(kind, None, error);
        stage.closed.map(|close| close.code)
    };
    for (code, close, over) in
        [("X_BROKEN", 4500, false), ("NET_HEARTBEAT_TIMEOUT", 4408, false), ("PROTO_VERSION", 4400, true)]
    {
        let mut stage = Stage::new(|_, _| {});
        assert_eq!(gives_up(&mut stage, "error.fatal", code), Some(close));
        assert_eq!(let_go(&stage), if over { vec![] } else { vec![1] });
        assert_eq!(kinds(&stage.said()).contains(&"session.terminated"), over);
        assert_eq!(stage.recorded().iter().any(|minute| minute.get("ended").is_some()), over);
    }
    let mut stage = left(|minutes| minutes.generation = 3);
    assert_eq!(gives_up(&mut stage, "error.fatal", "PROTO_VERSION"), Some(4400));
    assert_eq!(let_go(&stage), [3], "who was never let in ends nothing");
    let mut stage = Stage::new(|_, _| {});
    assert_eq!(gives_up(&mut stage, "error.recoverable", "X_BROKEN"), None);
}

#[test]
fn only_an_order_to_hang_up_hangs_up() {
    for (text, over) in [("Hang up!", true), ("please do not hang up the picture", false)] {
        let mut stage = Stage::new(|_, _| {});
        stage.said();
        stage.type_in("t-1", text);
        assert_eq!(kinds(&stage.said()).contains(&"session.terminated"), over, "{text}");
        assert_eq!(stage.turn.is_none(), over);
    }
}

#[test]
fn nothing_is_said_that_is_not_on_record() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    let ask = json!({ "type": "input.start", "id": "c-3", "seq": 3, "ts": 0, "state_seq": 1, "turn_id": "t-1",
        "data": { "trigger": "ptt", "stream_id": 1 } });
    stage.connection.handle_input(Input::Frame(Frame::Text(ask.to_string())), stage.now).unwrap();
    let mut recording = None;
    loop {
        match stage.connection.poll_output() {
            Output::Submit(request, _, Op::Record { .. }) => recording = Some(request),
            Output::Send(frame) => panic!("too early: {frame:?}"),
            Output::Idle { .. } => break,
            _ => {}
        }
    }
    stage.feed(Input::Done(recording.expect("a batch"), Reply::Applied { head: Position::default() }));
    assert_eq!(kinds(&stage.said()), ["state.changed"]);
}

#[test]
fn a_transport_is_closed_after_its_last_word() {
    let mut stage = Stage::new(|_, _| {});
    stage.said();
    let close = json!({ "type": "session.close", "id": "c-3", "seq": 3, "ts": 0, "state_seq": 1,
        "data": { "reason": "app" } });
    stage.connection.handle_input(Input::Frame(Frame::Text(close.to_string())), stage.now).unwrap();
    let mut recordings = Vec::new();
    loop {
        match stage.connection.poll_output() {
            Output::Submit(request, _, Op::Record { .. }) => recordings.push(request),
            Output::Close(close) => panic!("too early: {close:?}"),
            Output::Idle { .. } => break,
            _ => {}
        }
    }
    for request in recordings {
        stage.feed(Input::Done(request, Reply::Applied { head: Position::default() }));
    }
    assert_eq!(kinds(&stage.said()).last(), Some(&"session.terminated"));
    assert!(stage.closed.is_some());
}

#[test]
fn a_credential_of_a_provider_opens_one_session() {
    for (used, code) in [(0i64, None), (1i64, Some("AUTH_TOKEN_REPLAYED"))] {
        let mut stage = Stage::opened(|_| {});
        stage.connection.phase = Phase::Opening;
        stage.rows = vec![vec![used.into()]];
        stage.connection.found("vs_00000000000000000000000009");
        stage.drain();
        assert_eq!(stage.codes().first().map(String::as_str), code);
        assert_eq!(stage.ops.iter().any(|op| matches!(op, Op::Open { .. })), code.is_none());
    }
}

#[test]
fn what_is_under_way_ends_with_the_session() {
    let mut stage = Stage::new(|settings, _| settings.activate_on = "connect".to_owned());
    let response = stage.response();
    stage.said();
    stage.send("session.close", None, json!({ "reason": "app" }));
    assert_eq!(stage.one("response.done")["data"]["status"], "incomplete");
    assert!(stage.voice.contains(&VoiceOp::Hush { response }));
    let mut stage = Stage::new(|_, _| {});
    stage.type_in("t-1", "switch the lamp on");
    stage.call("call-1", "lamp.on", json!({}), Value::Null);
    stage.said();
    stage.send("session.close", None, json!({ "reason": "app" }));
    assert_eq!(stage.one("action.cancel")["data"]["reason"], "shutdown");
}
