//! What time, slowness and nonsense do to a connection.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use switchboard_core::{Frame, OpeningRequest, Pii, Principal, Protocol as _, Refusal, SessionId};
use switchboard_linewise::client::Client;
use switchboard_linewise::codec::decode_client;
use switchboard_linewise::{Linewise, LinewiseLimits, PATH, Tag};
use switchboard_testkit::{PeerId, Received, Script, Settings, Step, World, opening};

fn connect(world: &mut World) -> PeerId {
    let peer = world.connect(&Linewise::default(), Principal::new("ann"), opening());
    assert_eq!(lines(world, peer), ["hello linewise/1"]);
    peer
}

fn say(world: &mut World, peer: PeerId, line: &str) {
    world.send(peer, Frame::Text(line.to_owned()));
}

fn lines(world: &mut World, peer: PeerId) -> Vec<String> {
    let shown = |received| match received {
        Received::Frame(Frame::Text(line)) => line,
        Received::Frame(Frame::Ping(_)) => "ping".to_owned(),
        Received::Close(close) => format!("close {}", close.code),
        other @ (Received::Frame(_) | Received::Lost) => panic!("{other:?}"),
    };
    world.take(peer).into_iter().map(shown).collect()
}

#[test]
fn lines_are_text() {
    let mut world = World::new();
    let peer = connect(&mut world);
    world.send_bytes(peer, b"join notes");
    assert_eq!(lines(&mut world, peer), ["close 1003"]);
}

#[test]
fn a_silent_peer_is_pinged_and_then_given_up() {
    let mut world = World::new();
    let peer = connect(&mut world);
    world.advance(30_000);
    assert_eq!(lines(&mut world, peer), ["ping"]);
    world.send(peer, Frame::Pong(Vec::new().into()));
    world.advance(119_000);
    assert_eq!(lines(&mut world, peer), ["ping"; 3]);
    world.advance(1000);
    assert_eq!(lines(&mut world, peer), ["close 1000"]);
}

#[test]
fn a_credential_that_ends_ends_the_connection() {
    let mut world = World::new();
    let expires_at = Some(world.now().after(Duration::from_secs(10)));
    let ann = Principal { expires_at, ..Principal::new("ann") };
    let peer = world.connect(&Linewise::default(), ann, opening());
    world.advance(10_000);
    assert_eq!(lines(&mut world, peer), ["hello linewise/1", "close 1008"]);
}

#[test]
fn a_peer_that_does_not_read_costs_little_and_is_sent_away() {
    let mut world = World::new();
    world.set_default_agent(
        "flood",
        Script::new().on("*", vec![Step::Fill { bytes: 4 << 20, piece: 1 << 10 }]),
    );
    let peer = connect(&mut world);
    say(&mut world, peer, "join notes");
    world.stall(peer);
    say(&mut world, peer, "say flood");
    let held = world.backlog(peer);
    assert!(held < 256 << 10, "{held} bytes wait of 4 MiB");
    world.advance(59_000);
    assert!(world.is_open(peer));
    world.advance(6_000);
    assert!(!world.is_open(peer), "it has taken nothing for a minute");
}

#[test]
fn lines_that_wait_are_bounded() {
    let mut world = World::with(Settings { commit_ms: 100, ..Settings::default() });
    let peer = connect(&mut world);
    say(&mut world, peer, "join notes");
    for _ in 0..LinewiseLimits::default().waiting {
        say(&mut world, peer, "stop");
    }
    assert!(lines(&mut world, peer).is_empty());
    say(&mut world, peer, "@k stop");
    let refused = ["@k error limit too many lines before the session was joined"];
    assert_eq!(lines(&mut world, peer), refused);
}

#[test]
fn a_late_answer_does_not_bring_a_session_back_that_was_left() {
    let mut world = World::new();
    let peer = connect(&mut world);
    say(&mut world, peer, "join notes");
    assert_eq!(world.followed(peer), [SessionId::named(&Principal::new("ann"), "notes")]);
    for line in ["history", "join other"] {
        world.enqueue(peer, Frame::Text(line.to_owned()));
    }
    world.settle();
    assert_eq!(world.followed(peer), [SessionId::named(&Principal::new("ann"), "other")]);
}

#[test]
fn nothing_of_what_is_said_is_in_a_debug_output() {
    let mut client = Client::new("notes");
    client.connected();
    let told = ["ok 7-1", "7-2 asked inv_1 ann hunter2", "7-3 text inv_1 hunter2"];
    let told: Vec<_> = told.iter().map(|line| client.receive(line)).collect();
    let said = Tag::new("k1").map(|tag| client.say(tag, "hunter2"));
    let line = decode_client("say hunter2");
    assert!(line.is_ok() && said == Some(Ok(())) && told.iter().all(Result::is_ok));
    assert!(!format!("{client:?} {line:?} {told:?}").contains("hunter2"));
}

fn request(authorization: Option<&str>, subprotocols: &[&str]) -> OpeningRequest {
    OpeningRequest {
        path: PATH,
        websocket: true,
        authorization: authorization.map(|value| Pii(value.to_owned())),
        subprotocols: subprotocols.iter().map(|entry| Pii((*entry).to_owned())).collect(),
        ..OpeningRequest::default()
    }
}

#[test]
fn a_credential_comes_in_the_header_or_among_the_subprotocols() {
    let mut world = World::new();
    world.issue("t0ken", Principal::new("ann"));
    let mut knock =
        |request: &OpeningRequest| world.knock(&Linewise::default(), request).map(|(_, chosen)| chosen);
    assert_eq!(knock(&request(Some("Bearer t0ken"), &[])), Ok(None));
    assert_eq!(knock(&request(None, &["bearer.t0ken"])), Ok(Some("bearer.t0ken".to_owned())));
    assert_eq!(knock(&request(Some("Basic t0ken"), &[])), Err(Refusal::CredentialInvalid));
    assert_eq!(knock(&request(Some("Bearer other"), &[])), Err(Refusal::CredentialInvalid));
    assert_eq!(knock(&request(None, &[])), Err(Refusal::CredentialMissing));
    let plain = OpeningRequest { websocket: false, ..request(None, &[]) };
    assert_eq!(knock(&plain), Err(Refusal::UpgradeRequired));
}

#[test]
fn every_refusal_is_said_with_a_status_and_a_reason() {
    let refusals = [
        (Refusal::UpgradeRequired, 426),
        (Refusal::CredentialMissing, 401),
        (Refusal::Forbidden("no"), 403),
        (Refusal::UnknownAgent, 404),
        (Refusal::TooMany { retry_ms: 1500 }, 429),
        (Refusal::Draining { retry_ms: 1500 }, 503),
    ];
    for (refusal, status) in refusals {
        let reply = Linewise::default().refuse(&refusal, "req_1");
        assert_eq!(reply.status, status);
        assert!(!reply.body.trim().is_empty());
        let retry = reply.headers.iter().find(|(name, _)| *name == "retry-after");
        assert_eq!(retry.map(|(_, value)| value.as_str()), refusal.retry_ms().map(|_| "2"));
    }
}
