//! §17.4: how connections begin, go on and end.

use std::time::Duration;

use switchboard_asp::client::{
    Cause, ClientConfig, CommandError, Ending, Event, Fault, Input, Link, Loss, Output, RequestState,
    Violation,
};
use switchboard_asp::error::FrameError;
use switchboard_asp::message::{ClientInfo, Enc, HelloOp, Secret, ToolDef};
use switchboard_asp::{ClientMessage, Close, Feature, Features, Map, Opcode};

use switchboard_core::ClientMachine as _;
use switchboard_core::client::{Down, Refusal};

use crate::support::{CID, Peer, config, endings, events, frames, hello_of, invokes, messages, texts};

fn refused(status: u16, retry_after_ms: Option<u64>) -> Input {
    let retry_after = retry_after_ms.map(Duration::from_millis);
    Input::Refused(Refusal { status, retry_after, ..Refusal::default() })
}

fn retry_at(outputs: &[Output]) -> u64 {
    match &events(outputs)[..] {
        [Event::Down(Down { retry_at: Some(retry_at), .. }), ..] => retry_at.as_millis(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bare_is_up_at_once_and_sends_no_hello() {
    let mut peer = Peer::bare();
    assert_eq!(peer.client.link(), Link::Up);
    assert_eq!(peer.hello(r#"{"op":"greet","cid":"7f8a0000000000000000000000000009"}"#), []);
    assert_eq!(peer.client.features(), Features::BARE, "nothing is inferred from a greeting");
    assert_eq!(peer.accept(Features::STANDARD, ""), [], "nobody asked");
    assert_eq!(peer.client.features(), Features::BARE);
}

#[test]
fn hello_offers_what_is_wanted() {
    let tool = ToolDef {
        name: "clock".into(),
        description: None,
        input_schema: Map::new(),
        output_schema: None,
        annotations: None,
        version: None,
        ttl_s: None,
    };
    let info = ClientInfo { name: "test".into(), version: "1".into(), platform: None };
    let wanted = ClientConfig {
        features: Features::STANDARD.with(Feature::Deflate),
        enc: vec![Enc::Msgpack, Enc::Json],
        client: Some(info.clone()),
        tools: vec![tool.clone()],
        max_payload: 5000,
        window: 1,
        ..config()
    };
    let mut peer = Peer::dialing(wanted);
    let outputs = peer.input(Input::Opened);
    assert_eq!(peer.client.link(), Link::Greeting);
    let hello = hello_of(&outputs);
    assert_eq!((hello.op, &hello.ver[..]), (HelloOp::Hello, &[1][..]));
    let offered: Features = hello.features.iter().filter_map(|name| Feature::from_name(name)).collect();
    assert_eq!(offered, Features::STANDARD.with(Feature::Deflate));
    assert_eq!(
        (hello.enc, hello.client, hello.tools),
        (vec![Enc::Msgpack, Enc::Json], Some(info), Some(vec![tool]))
    );
    let limits = hello.limits.expect("limits");
    assert_eq!((limits.max_payload, limits.window), (Some(5000), Some(16 << 10)));
    assert_eq!(hello.resume, None);
}

#[test]
fn greeting_is_noted_and_accept_adopted() {
    let mut peer = Peer::dialing(config());
    peer.input(Input::Opened);
    assert_eq!(peer.hello(&format!(r#"{{"op":"greet","cid":"{CID}"}}"#)), []);
    assert_eq!((peer.client.link(), peer.client.cid()), (Link::Greeting, Some(CID)));
    // Only what was offered counts.
    let outputs = peer.accept(Features::ALL, "");
    assert_eq!(peer.client.features(), Features::STANDARD);
    let expected =
        Event::Accepted { cid: Some(CID.into()), features: Features::STANDARD, resumed: false, lost: vec![] };
    assert_eq!(events(&outputs), [expected]);
    assert_eq!(peer.accept(Features::BARE, ""), [], "the second one is nothing");
    assert_eq!(peer.client.features(), Features::STANDARD);
}

#[test]
fn ten_seconds_without_accept_stay_bare() {
    let mut peer = Peer::dialing(config());
    let id = peer.chat("early");
    peer.input(Input::Opened);
    assert_eq!(peer.pass(9_999), []);
    let outputs = peer.pass(1);
    assert_eq!(events(&outputs), [Event::Bare]);
    assert_eq!(frames(&outputs)[0].payload, "early");
    assert_eq!(texts(&peer.frame(Opcode::Stream, id, "{}")).len(), 1);
    // The server means it when it comes late.
    peer.accept(Features::STANDARD, "");
    assert_eq!(peer.client.features(), Features::STANDARD);
    assert_eq!(texts(&peer.record(id, r#"{"t":"text","d":"x"}"#)), [(id, "x".into())]);
}

#[test]
fn refusals_that_are_final_are_not_retried() {
    for status in [400, 401, 403, 404, 426, 302] {
        let mut peer = Peer::dialing(config());
        let id = peer.chat("x");
        let outputs = peer.input(refused(status, None));
        assert_eq!(peer.client.link(), Link::Off, "{status}");
        assert!(
            matches!(&events(&outputs)[0], Event::Down(Down { cause: Cause::Refused(refused), retry_at: None }) if refused.status == status)
        );
        assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Closed))]);
        assert_eq!((peer.wake, peer.pass(100_000)), (None, vec![]));
        peer.client.handle_input(Input::Connect, peer.at());
        assert_eq!(peer.drain(), [Output::Dial]);
    }
}

#[test]
fn refusals_for_now_are_retried_with_backoff() {
    for input in [
        refused(429, None),
        refused(503, None),
        refused(502, None),
        Input::Unreachable("no route".into()),
        Input::Closed(None),
    ] {
        let mut peer = Peer::dialing(config());
        let mut base = 500_u64;
        for _ in 0..12 {
            let at = retry_at(&peer.input(input.clone()));
            assert_eq!(peer.client.link(), Link::Waiting);
            let pause = at - peer.now;
            assert!((base / 2..=base + base / 2).contains(&pause), "{pause} for {base}");
            assert_eq!(peer.pass(pause - 1), []);
            assert_eq!(peer.pass(1), [Output::Dial]);
            base = (base * 2).min(30_000);
        }
    }
}

#[test]
fn retry_after_wins() {
    let mut peer = Peer::dialing(config());
    let outputs = peer.input(refused(429, Some(90_000)));
    assert_eq!(retry_at(&outputs), peer.now + 90_000);
    assert_eq!(peer.pass(90_000), [Output::Dial]);
    let outputs = peer.input(refused(503, Some(100)));
    assert_eq!(retry_at(&outputs), peer.now + 100);
}

#[test]
fn backoff_starts_again_after_success() {
    let mut peer = Peer::dialing(config());
    for _ in 0..6 {
        peer.input(Input::Unreachable("no route".into()));
        peer.pass(60_000);
    }
    peer.input(Input::Opened);
    peer.accept(Features::STANDARD, "");
    let outputs = peer.input(Input::Closed(None));
    assert!(retry_at(&outputs) - peer.now <= 750);
}

#[test]
fn close_codes_say_whether_to_come_back() {
    for code in [
        1000, 1001, 1003, 1005, 1006, 1009, 1011, 1012, 1013, 4400, 4401, 4403, 4406, 4408, 4409, 4429, 4500,
        4999,
    ] {
        let resumable = [1001, 1006, 1012, 1013, 4408, 4500].contains(&code);
        let mut peer = Peer::standard();
        let id = peer.chat("x");
        let outputs = peer.input(Input::Closed(Some(code)));
        if resumable {
            assert_eq!(peer.client.link(), Link::Waiting, "{code}");
            assert_eq!(peer.client.request(id), RequestState::Suspended);
        } else {
            assert_eq!(peer.client.link(), Link::Off, "{code}");
            assert!(
                matches!(&events(&outputs)[0], Event::Down(Down { cause: Cause::Closed(closed), retry_at: None }) if *closed == code)
            );
            assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Closed))]);
        }
    }
}

#[test]
fn goaway_holds_new_invokes_and_moves_once_idle() {
    let mut peer = Peer::standard();
    let running = peer.chat("running");
    let outputs = peer.hello(r#"{"op":"goaway","reason":"restart","retry_ms":2000}"#);
    assert_eq!(
        events(&outputs),
        [Event::GoAway { reason: Some("restart".into()), retry_in: Duration::from_millis(2000) }]
    );
    let held = peer.client.invoke(switchboard_asp::message::Invoke::chat("held"), peer.at()).expect("waits");
    assert_eq!(peer.drain(), []);
    assert_eq!(peer.pass(5_000), [], "the running one may finish");
    assert_eq!(texts(&peer.record(running, r#"{"t":"text","n":0,"d":"x"}"#)).len(), 1);
    let outputs = peer.end(running);
    assert_eq!(endings(&outputs).len(), 1);
    assert!(outputs.contains(&Output::Close(Close::GoingAway.number())));
    assert!(matches!(
        events(&outputs)[1],
        Event::Down(Down { cause: Cause::Protocol(Fault::Moved), retry_at: Some(_) })
    ));
    assert_eq!(peer.pass(0), [Output::Dial]);
    assert_eq!(hello_of(&peer.input(Input::Opened)).resume.expect("resume").next, []);
    let outputs = peer.accept(Features::STANDARD, r#""resumed":true"#);
    assert_eq!(invokes(&outputs, Features::STANDARD)[0].0, held);
}

#[test]
fn goaway_then_close_comes_back_after_retry_ms() {
    let mut peer = Peer::standard();
    let id = peer.chat("running");
    peer.hello(r#"{"op":"goaway","retry_ms":7000}"#);
    peer.pass(1000);
    let outputs = peer.input(Input::Closed(Some(1012)));
    assert_eq!(retry_at(&outputs), peer.now + 6000);
    assert_eq!(peer.client.request(id), RequestState::Suspended);
    // A server that never closes is left in the end.
    let mut peer = Peer::standard();
    peer.chat("running");
    peer.hello(r#"{"op":"goaway","retry_ms":0}"#);
    for _ in 0..34 {
        assert_eq!(peer.pass(1000), []);
        peer.input(Input::Alive);
    }
    assert!(peer.pass(1000).contains(&Output::Close(Close::GoingAway.number())));
}

#[test]
fn an_invoke_that_crossed_a_goaway_is_sent_again() {
    let mut peer = Peer::standard();
    let id = peer.chat("crossed");
    peer.hello(r#"{"op":"goaway","retry_ms":100}"#);
    let refusal = r#"{"code":2501,"name":"RELAY_UNAVAILABLE","msg":"","retry":true}"#;
    assert_eq!(peer.error(id, refusal), []);
    assert!(peer.pass(100).contains(&Output::Dial));
    assert_eq!(hello_of(&peer.input(Input::Opened)).resume.expect("resume").next, []);
    let outputs = peer.accept(Features::STANDARD, r#""resumed":true"#);
    assert_eq!(invokes(&outputs, Features::STANDARD)[0].0, id);
    assert_eq!(endings(&peer.error(id, refusal)).len(), 1, "without goaway it is final");
}

#[test]
fn silence_is_probed_and_then_given_up() {
    let mut peer = Peer::standard();
    let id = peer.chat("x");
    assert_eq!(peer.pass(29_999), []);
    assert_eq!(peer.pass(1), [Output::Ping]);
    assert_eq!(peer.input(Input::Alive), []);
    assert_eq!(peer.pass(30_000), [Output::Ping]);
    let outputs = peer.pass(45_000);
    assert_eq!(outputs[0], Output::Close(Close::Dead.number()));
    assert!(matches!(events(&outputs)[0], Event::Down(Down { cause: Cause::Silent, retry_at: Some(_) })));
    assert_eq!(peer.client.request(id), RequestState::Suspended);
    // The server's own rhythm.
    let mut peer = Peer::dialing(config());
    peer.input(Input::Opened);
    peer.accept(Features::STANDARD, r#""heartbeat_s":5"#);
    assert_eq!(peer.pass(5_000), [Output::Ping]);
    assert_eq!(peer.pass(7_500)[0], Output::Close(Close::Dead.number()));
}

#[test]
fn violations_close_for_good() {
    let truncated = Violation::Frame(FrameError::Truncated { need: 12, have: 10 });
    let too_large = Violation::Frame(FrameError::TooLarge { length: u64::from(u32::MAX), cap: 16 << 20 });
    let cases: [(Input, Violation, Close); 4] = [
        (Input::Text("text".into()), Violation::Text, Close::Text),
        (Input::Binary(vec![0x13, 0, 0, 1, 0, 0, 0, 4, 0x41, 0x42].into()), truncated, Close::Protocol),
        (
            Input::Binary(vec![0x22, 0, 0, 1, 0, 0, 0, 0].into()),
            Violation::Frame(FrameError::Version(2)),
            Close::Version,
        ),
        (Input::Binary(vec![0x13, 0, 0, 1, 255, 255, 255, 255].into()), too_large, Close::TooBig),
    ];
    for (input, violation, close) in cases {
        let mut peer = Peer::standard();
        let id = peer.chat("x");
        let outputs = peer.input(input);
        assert_eq!(outputs[0], Output::Close(close.number()));
        assert_eq!(
            outputs[1],
            Output::Event(Event::Down(Down {
                cause: Cause::Protocol(Fault::Violation(violation)),
                retry_at: None
            }))
        );
        assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Closed))]);
    }
    let mut peer = Peer::dialing(config());
    peer.input(Input::Opened);
    let outputs = peer.hello(r#"{"op":"accept","ver":2}"#);
    assert_eq!(outputs[0], Output::Close(Close::Version.number()));
}

#[test]
fn bye_leaves_for_good() {
    let mut peer = Peer::standard();
    let id = peer.chat("x");
    peer.client.handle_input(Input::Leave, peer.at());
    let outputs = peer.drain();
    assert!(
        matches!(&messages(&outputs[..1], Features::STANDARD)[..], [(0, ClientMessage::Hello(hello))] if hello.op == HelloOp::Bye)
    );
    assert_eq!(outputs[1], Output::Close(Close::Normal.number()));
    assert_eq!(events(&outputs)[0], Event::Down(Down { cause: Cause::Left, retry_at: None }));
    assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Left))]);
    // A draft peer knows no bye.
    let mut peer = Peer::bare();
    peer.client.handle_input(Input::Leave, peer.at());
    assert_eq!(peer.drain()[0], Output::Close(Close::Normal.number()));
    // While waiting there is nothing to close.
    let mut peer = Peer::dialing(config());
    peer.input(Input::Unreachable("no route".into()));
    peer.client.handle_input(Input::Leave, peer.at());
    assert_eq!(peer.drain(), [Output::Event(Event::Down(Down { cause: Cause::Left, retry_at: None }))]);
    peer.client.handle_input(Input::Leave, peer.at());
    assert_eq!(peer.drain(), []);
}

#[test]
fn ping_and_auth_need_their_features() {
    let mut peer = Peer::up(ClientConfig { features: Features::ALL, ..config() });
    peer.client.ping("p1").expect("agreed");
    peer.client.authenticate(Secret::new("fresh")).expect("agreed");
    let sent = messages(&peer.drain(), Features::ALL);
    let [(0, ClientMessage::Hello(ping)), (0, ClientMessage::Hello(auth))] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((ping.op, ping.nonce.as_deref()), (HelloOp::Ping, Some("p1")));
    assert_eq!((auth.op, auth.token.as_ref().map(Secret::expose)), (HelloOp::Auth, Some("fresh")));
    assert_eq!(
        events(&peer.hello(r#"{"op":"pong","nonce":"p1"}"#)),
        [Event::Pong { nonce: Some("p1".into()) }]
    );
    assert_eq!(events(&peer.hello(r#"{"op":"authed","exp":99}"#)), [Event::Authenticated { exp: Some(99) }]);
    let mut peer = Peer::bare();
    assert_eq!(peer.client.ping("p"), Err(CommandError::NotAgreed("ping")));
    assert_eq!(peer.client.authenticate(Secret::new("t")), Err(CommandError::NotAgreed("reauth")));
}
