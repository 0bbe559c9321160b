use switchboard_core::client::Down;

use super::*;

fn resumed(replay_from: Option<u64>) -> ServerEvent {
    ServerEvent::SessionConnected(Box::new(SessionConnected {
        resumed: true,
        resume_token: Some("token-2".into()),
        context_version: 1,
        replay_from,
        ..connected()
    }))
}

fn hello(rig: &Rig) -> (Head, ClientConnect) {
    let found = rig.sent.iter().rev().find_map(|(head, event)| {
        if let ClientEvent::ClientConnect(hello) = event {
            Some((head.clone(), hello.as_ref().clone()))
        } else {
            None
        }
    });
    found.expect("a hello")
}

/// A loss, with the pause until the next attempt.
struct Lost {
    code: Option<u16>,
    retry_ms: Option<u64>,
}

fn down(rig: &Rig) -> Lost {
    let found = rig
        .events
        .iter()
        .rev()
        .find_map(|event| if let Event::Down(down) = event { Some(down) } else { None });
    let Down { cause, retry_at } = found.expect("a loss");
    let code = if let Cause::Closed(code) = cause { Some(*code) } else { None };
    let millis = |at: &Timestamp| u64::try_from(at.since(rig.now).as_millis()).unwrap();
    Lost { code, retry_ms: retry_at.as_ref().map(millis) }
}

#[test]
fn a_lost_transport_is_followed_by_another() {
    let mut rig = Rig::speaking();
    let last_client = rig.client.seq;
    rig.input(Input::Closed(None));
    assert_eq!(rig.client.state(), State::NotConnected);
    assert_eq!(rig.events[0], Event::Silence { response_id: "r-1".into() });
    assert!(matches!(down(&rig), Lost { code: Some(1006), retry_ms: Some(125..=375) }));
    assert_eq!(rig.client.listen(InputStartTrigger::Ptt, rig.now), Err(CommandError::NotConnected));
    // Attempts that fail take longer each time.
    rig.pass(375);
    rig.input(Input::Closed(None));
    assert!(matches!(down(&rig), Lost { retry_ms: Some(250..=750), .. }));
    rig.input(Input::Opened);
    let (head, hello) = hello(&rig);
    let resume = hello.resume.unwrap();
    assert_eq!((resume.resume_token.as_str(), resume.last_server_seq), ("token-1", rig.seq));
    assert_eq!((head.seq, rig.client.state()), (last_client + 1, State::Connecting));
    // Everything on the screen goes along, as something new.
    assert_eq!(hello.context.unwrap()["mode"], "full");
    rig.say(resumed(None));
    rig.state_seq = 0;
    rig.say(ServerEvent::ServerReady(ServerReady { context_version: 2 }));
    rig.state = State::Connecting;
    rig.go(State::Idle, "server.ready");
    assert_eq!(rig.client.state(), State::Idle);
    assert_eq!(rig.client.saved().map(|saved| saved.resume_token), Some("token-2".to_owned()));
}

#[test]
fn what_was_missed_is_told_and_nothing_of_it_is_done() {
    let mut rig = Rig::thinking();
    let seen = rig.seq;
    rig.input(Input::Closed(Some(1012)));
    rig.input(Input::Opened);
    rig.forget();
    // The server has said ten more things meanwhile, of which some are told again.
    let connected_at = seen + 11;
    rig.say_as(connected_at, resumed(Some(seen + 1)), |_| {});
    let understood = InputComplete { turn_id: "t".into(), text: "hi".into(), confidence: None, locale: None };
    rig.say_as(seen + 2, ServerEvent::InputComplete(understood.clone()), |_| {});
    rig.say_as(
        seen + 3,
        ServerEvent::StateChanged(StateChanged {
            state: State::InvokeAction,
            previous: State::AiThinking,
            trigger: "response.tool".into(),
            state_seq: 9,
            turn_id: None,
            reason: None,
        }),
        |_| {},
    );
    let invoke = ActionInvoke {
        invocation_id: "i-lost".into(),
        action_id: "press".into(),
        kind: "button".into(),
        parameters: json!({"element_id": "b", "n": 1}),
        context_version: 1,
        response_id: "r".into(),
        timeout_ms: 1000,
        follow_up: true,
        parallel: false,
        attempt: 1,
        confirmation_id: None,
    };
    rig.say_as(seen + 4, ServerEvent::ActionInvoke(Box::new(invoke)), |_| {});
    // Twice is once.
    rig.say_as(seen + 2, ServerEvent::InputComplete(understood.clone()), |_| {});
    assert_eq!((rig.client.state(), rig.executed().len()), (State::Connecting, 0));
    assert_eq!(rig.events.iter().filter(|event| **event == Event::Understood(understood.clone())).count(), 1);
    assert_eq!(rig.client.saved().map(|saved| saved.last_server_seq), Some(seen + 4));
    assert!(rig.results().is_empty());
    // Once it can be said, the server learns that the call was lost.
    rig.seq = connected_at;
    rig.state = State::Connecting;
    rig.state_seq = 0;
    rig.say(ServerEvent::ServerReady(ServerReady { context_version: 2 }));
    rig.go(State::Idle, "server.ready");
    assert_eq!((code(&rig.results()[0]), rig.results()[0].executed), ("ACT_CANCELLED", false));
    assert_eq!(rig.client.saved().map(|saved| saved.last_server_seq), Some(connected_at + 2));
}

#[test]
fn what_is_done_while_nobody_is_connected_is_brought_along() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    rig.input(Input::Closed(None));
    rig.client.finish("i-1", Outcome::Done(Some(json!("late"))), None, rig.now).unwrap();
    rig.drain();
    assert!(rig.results().is_empty());
    rig.input(Input::Opened);
    let pending = hello(&rig).1.resume.unwrap().pending_results;
    assert_eq!((pending.len(), pending[0].data.clone()), (1, Some(json!("late"))));
    // As long as nobody has answered, it is brought along again.
    rig.input(Input::Closed(None));
    rig.input(Input::Opened);
    assert_eq!(hello(&rig).1.resume.unwrap().pending_results.len(), 1);
    rig.say(resumed(None));
    rig.input(Input::Closed(None));
    rig.input(Input::Opened);
    assert_eq!(hello(&rig).1.resume.unwrap().pending_results.len(), 0);
}

#[test]
fn a_result_that_may_have_been_lost_is_brought_along() {
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    rig.client.finish("i-1", Outcome::Done(None), None, rig.now).unwrap();
    rig.input(Input::Closed(None));
    rig.input(Input::Opened);
    assert_eq!(hello(&rig).1.resume.unwrap().pending_results.len(), 1);
    // But not one that the server has reacted to.
    let mut rig = Rig::thinking();
    rig.invoke("i-1", "press", "button", json!({"element_id": "b", "n": 1}));
    rig.client.finish("i-1", Outcome::Done(None), None, rig.now).unwrap();
    rig.drain();
    rig.take_result();
    rig.input(Input::Closed(None));
    rig.input(Input::Opened);
    assert_eq!(hello(&rig).1.resume.unwrap().pending_results.len(), 0);
}

#[test]
fn a_page_that_is_loaded_again_goes_on() {
    let mut rig = Rig::idle();
    rig.client.mute(MuteTarget::Output, true, rig.now).unwrap();
    rig.drain();
    let saved = rig.client.saved().unwrap();
    let stored = serde_json::to_string(&saved).unwrap();
    let saved: Saved = serde_json::from_str(&stored).unwrap();
    let mut next =
        Rig::with(VipClient::resuming(ClientConfig::new("vs_1"), Seed::new([8; 32]), saved.clone()));
    next.client.show(shop(), next.now).unwrap();
    next.input(Input::Opened);
    let (head, hello) = hello(&next);
    assert_eq!(head.seq, saved.last_client_seq + 1);
    assert!(hello.context.unwrap()["context_version"].as_u64() > Some(saved.context_version));
    assert_eq!(hello.resume.map(|resume| resume.last_server_seq), Some(rig.seq));
}

#[test]
fn vip_077_a_missing_event_ends_the_transport_and_says_so() {
    let mut rig = Rig::idle();
    rig.seq += 1;
    rig.say(ServerEvent::SessionPong(SessionPong { nonce: "n".into(), server_ts: 1 }));
    let ClientEvent::Error(error) = &rig.sent.last().unwrap().1 else { panic!("an error") };
    assert_eq!((error.code.as_str(), error.fatal, rig.closed), ("PROTO_SEQ_GAP", true, Some(4408)));
    assert!(down(&rig).retry_ms.is_some());
    assert_eq!(rig.client.state(), State::NotConnected);
}

#[test]
fn events_that_were_seen_or_are_not_known_are_passed_over() {
    let mut rig = Rig::idle();
    rig.say_as(rig.seq, ServerEvent::SessionTerminated(terminated()), |_| {});
    assert!(rig.events.is_empty());
    rig.seq += 1;
    let unknown =
        json!({"type": "session.future", "id": "s", "seq": rig.seq, "ts": 1, "state_seq": 1, "data": {}});
    rig.input(Input::Text(unknown.to_string()));
    assert!(rig.sent.is_empty() && rig.closed.is_none());
    rig.input(Input::Text("nonsense".into()));
    assert_eq!((rig.said(), rig.closed), (vec!["error.recoverable"], None));
    rig.go(State::AiSpeaking, "server.announce");
    assert_eq!(rig.client.state(), State::AiSpeaking);
}

fn terminated() -> SessionTerminated {
    SessionTerminated { reason: TerminatedReason::Server, code: None, duration_ms: 1, usage: None }
}

#[test]
fn what_is_over_is_not_taken_up_again() {
    let mut rig = Rig::idle();
    rig.say(ServerEvent::SessionTerminated(terminated()));
    rig.input(Input::Closed(Some(1000)));
    assert_eq!((down(&rig).retry_ms, rig.client.saved()), (None, None));

    for (code, comes_back) in
        [(4409, false), (4410, false), (4401, false), (4400, false), (4500, true), (1011, true), (4408, true)]
    {
        let mut rig = Rig::idle();
        rig.input(Input::Closed(Some(code)));
        assert_eq!(down(&rig).retry_ms.is_some(), comes_back, "{code}");
    }
    let mut rig = Rig::idle();
    rig.say(ServerEvent::error(&crate::error::Fault::new(crate::error::Code::SesReplaced)));
    assert_eq!((down(&rig).retry_ms, rig.client.state()), (None, State::NotConnected));
}

#[test]
fn a_session_that_cannot_be_resumed_is_over() {
    let mut rig = Rig::idle();
    rig.input(Input::Closed(None));
    rig.input(Input::Opened);
    rig.say_as(
        1,
        ServerEvent::error(&crate::error::Fault::new(crate::error::Code::SesResumeRejected)),
        |_| {},
    );
    assert_eq!((down(&rig).retry_ms, rig.client.saved()), (None, None));
    assert!(
        rig.events
            .iter()
            .any(|event| matches!(event, Event::Problem(error) if error.code == "SES_RESUME_REJECTED"))
    );
}

#[test]
fn hanging_up_is_the_end() {
    let mut rig = Rig::speaking();
    rig.client.hang_up(CloseReason::UserHangup, rig.now).unwrap();
    rig.drain();
    assert_eq!((rig.said(), rig.client.state()), (vec!["session.close"], State::NotConnected));
    rig.say(ServerEvent::SessionTerminated(terminated()));
    rig.input(Input::Closed(Some(1000)));
    assert_eq!(down(&rig).retry_ms, None);
    assert_eq!(rig.client.hang_up(CloseReason::App, rig.now), Err(CommandError::NotConnected));
}

#[test]
fn settings_change_while_nobody_speaks() {
    let mut rig = Rig::idle();
    let change = SessionUpdate { locale: Some("de-DE".into()), ..SessionUpdate::default() };
    rig.client.change_settings(change.clone(), rig.now).unwrap();
    rig.drain();
    assert_eq!(rig.said(), ["session.update"]);
    let mut rig = Rig::speaking();
    assert_eq!(rig.client.change_settings(change, rig.now), Err(CommandError::State(State::AiSpeaking)));
}
