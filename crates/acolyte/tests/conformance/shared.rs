//! One session, two protocols: what is started through one is watched and stopped through the other.

use serde_json::json;
use switchboard_asp::codec::{Incoming, ReaderOptions};
use switchboard_asp::{Asp, AspLimits, Frame, FrameReader, Opcode};
use switchboard_core::{Actor, Frame as TransportFrame, Op, Principal, Role, SessionId};
use switchboard_testkit::{PeerId, Received, Script, Step, opening};

use crate::support::{Talk, attach, count, events, gist, hang, of_type, short, task_of};

fn asp(talk: &mut Talk) -> PeerId {
    talk.world.connect(&Asp::new(AspLimits::default()), Principal::new("ann"), opening())
}

fn send(talk: &mut Talk, peer: PeerId, opcode: Opcode, payload: &str) {
    let mut out = bytes::BytesMut::new();
    Frame::new(opcode, 1, payload.to_owned()).encode(&mut out).unwrap();
    talk.world.send(peer, TransportFrame::Binary(out.freeze()));
}

fn invoke(talk: &mut Talk, peer: PeerId, input: &str) {
    let payload = json!({"kind": "chat", "input": input, "session": "sess_s"}).to_string();
    send(talk, peer, Opcode::Invoke, &payload);
}

/// The frames that an ASP client got, as opcode and text.
fn frames(talk: &mut Talk, peer: PeerId) -> Vec<(Opcode, String)> {
    let mut frames = Vec::new();
    for received in talk.world.take(peer) {
        let Received::Frame(TransportFrame::Binary(message)) = received else { continue };
        for frame in FrameReader::new(message, ReaderOptions::default()) {
            let Ok(Incoming::Frame(frame)) = frame else { panic!("{frame:?}") };
            frames.push((frame.opcode, String::from_utf8(frame.payload.to_vec()).unwrap()));
        }
    }
    frames
}

#[test]
fn a_turn_of_another_protocol_is_watched_from_its_beginning() {
    let mut talk = Talk::new(hang());
    talk.offer(talk.peer, "task.resume");
    let other = asp(&mut talk);
    invoke(&mut talk, other, "soon");
    talk.world.advance(500);
    talk.say(talk.peer, &attach("rpc_1", None, Some("sess_s"), 0));
    assert_eq!(gist(&talk.here()), ["1 accepted", "1 started", r#"1 event "a""#]);
    talk.world.advance(1000);
    let heard = talk.here();
    assert_eq!(gist(&heard), [r#"1 event "b""#, r#"1 done "ab""#]);
    // The model is the agent: nothing else is known of the request.
    assert_eq!(heard.last().unwrap()["reply"]["model"], "demo");
    let texts: Vec<String> = frames(&mut talk, other).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["a", "b", ""], "it is as whole for its own client");
    assert_eq!(talk.world.followed(talk.peer), []);
}

#[test]
fn a_turn_of_another_protocol_can_be_stopped_by_who_watches_it() {
    let mut talk = Talk::new(hang());
    talk.offer(talk.peer, "task.resume");
    let other = asp(&mut talk);
    invoke(&mut talk, other, "hang");
    talk.say(talk.peer, &attach("rpc_1", None, Some("sess_s"), 0));
    let heard = talk.here();
    let task = task_of(&heard, "rpc_1");
    frames(&mut talk, other);
    talk.abort("rpc_x", "rpc_1");
    assert_eq!(short(&talk.here()), ["1 error E_ABORTED", "x abort.result true"]);
    assert_eq!(frames(&mut talk, other).len(), 1, "the other client hears its end");
    assert_eq!(talk.task_in(talk.peer, &task, Some("sess_s"))["state"], "cancelled");
}

#[test]
fn a_chat_is_stopped_through_another_protocol() {
    let mut talk = Talk::new(hang());
    let other = asp(&mut talk);
    // The other client takes part in the session, and so hears of what happens there.
    invoke(&mut talk, other, "hello");
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
    let heard = talk.here();
    let session = Talk::session("sess_s");
    let turn = talk.world.session(&session).unwrap().turns().next().unwrap().turn.clone();
    talk.world.ask(&session, Actor::client("ann".into()), Op::Interrupt { turn, reason: None }).unwrap();
    assert_eq!(gist(&talk.here()), ["1 error E_ABORTED"]);
    assert_eq!(talk.state(talk.peer, &task_of(&heard, "rpc_1")), "cancelled");
}

#[test]
fn whoever_stops_watching_leaves_the_turn_alone() {
    let mut talk = Talk::new(hang());
    let watcher = talk.connect();
    talk.offer(watcher, "task.resume");
    talk.start_in(talk.peer, "rpc_1", "sess_s", "soon");
    let task = task_of(&talk.here(), "rpc_1");
    talk.say(watcher, &attach("rpc_w", Some(&task), Some("sess_s"), 0));
    assert_eq!(gist(&talk.heard(watcher)), ["w accepted", "w started", r#"w event "a""#]);
    talk.world.cut(watcher);
    assert_eq!(talk.state(talk.peer, &task), "running");
    talk.world.advance(2000);
    assert_eq!(gist(&talk.here()).last().unwrap(), r#"1 done "ab""#);
}

#[test]
fn a_participant_watches_a_shared_session_and_may_only_do_what_its_role_allows() {
    let mut talk = Talk::new(hang());
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hang");
    let heard = talk.here();
    let session: SessionId = Talk::session("sess_s");
    let admit = |role| Op::Admit { principal: "bob".into(), role: Some(role) };
    talk.world.ask(&session, Actor::client("ann".into()), admit(Role::Observer)).unwrap();
    let bob = talk.connect_as("bob");
    talk.offer(bob, "task.resume");
    talk.say(bob, &attach("rpc_w", Some(&task_of(&heard, "rpc_1")), Some(session.as_str()), 0));
    assert_eq!(gist(&talk.heard(bob)), ["w accepted", "w started", r#"w event "x""#]);
    talk.say(bob, &crate::support::abort("rpc_x", "rpc_w"));
    assert_eq!(short(&talk.heard(bob)), ["x abort.result false"]);
    talk.world.ask(&session, Actor::client("ann".into()), admit(Role::Contributor)).unwrap();
    talk.say(bob, &crate::support::abort("rpc_y", "rpc_w"));
    assert_eq!(short(&talk.heard(bob)), ["w error E_ABORTED", "y abort.result true"]);
    assert_eq!(gist(&talk.here()), ["1 error E_ABORTED"]);
}

#[test]
fn what_an_acolyte_client_started_is_in_the_session_for_others() {
    let mut talk = Talk::new(hang());
    let other = asp(&mut talk);
    talk.start_in(talk.peer, "rpc_1", "sess_s", "hello");
    talk.here();
    invoke(&mut talk, other, "again");
    assert_eq!(frames(&mut talk, other)[0].1, "again");
    // The conversation goes on from what was said there.
    let history = json!([
        {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "again"}, {"role": "assistant", "content": "again"},
    ]);
    let request = json!({"message": "more", "history": history, "model": "m", "sessionId": "sess_s"});
    talk.say(talk.peer, &crate::support::start_with("rpc_2", request));
    let heard = talk.here();
    assert_eq!(gist(&heard).last().unwrap(), r#"2 done "more""#);
    assert_eq!(of_type(&events(&heard, "rpc_2"), "text-delta").len(), 1);
    let log = talk.world.log(&Talk::session("sess_s"));
    let messages = log.iter().filter(|committed| committed.event.name() == "message_added").count();
    assert_eq!(messages, 3, "nothing was stored twice");
}

#[test]
fn whoever_watches_turns_down_no_questions_of_others() {
    let ask = Step::Ask { text: "May I?".into(), schema: None, timeout_ms: 60_000, give_up: true };
    let mut talk = Talk::new(Script::new().on("ask", vec![ask, Step::Result]));
    talk.offer(talk.peer, "task.resume");
    let other = asp(&mut talk);
    invoke(&mut talk, other, "ask");
    talk.say(talk.peer, &attach("rpc_1", None, Some("sess_s"), 0));
    let heard = talk.here();
    assert_eq!(of_type(&events(&heard, "rpc_1"), "tool-call").len(), 1);
    assert_eq!(count(&talk.world, "call_ended"), 0);
}
