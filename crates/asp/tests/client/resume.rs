//! §13.2 from the client's side: coming back, and what becomes of the requests.

use switchboard_asp::client::{ClientConfig, Ending, Event, Input, Link, Loss, Output, RequestState};
use switchboard_asp::message::{CallFailure, Finish, Invoke, InvokeBody};
use switchboard_asp::{Feature, Features, Opcode};

use crate::support::{
    CID, Peer, config, endings, events, finished, frames, hello_of, interrupts, invokes, numbered, texts,
};

/// Cuts the transport and dials again; answers what the next HELLO says about resuming.
fn cut(peer: &mut Peer) -> Option<(String, Vec<(u16, u64)>)> {
    peer.input(Input::Closed(None));
    dial(peer)
}

fn dial(peer: &mut Peer) -> Option<(String, Vec<(u16, u64)>)> {
    while peer.client.link() != Link::Dialing {
        let wait = peer.wake.expect("will dial") - peer.now;
        peer.pass(wait);
    }
    let hello = hello_of(&peer.input(Input::Opened));
    hello.resume.map(|resume| {
        assert_eq!(resume.cid, CID);
        (resume.token.expose().to_owned(), resume.next)
    })
}

fn keyed(text: &str) -> Invoke {
    Invoke { idem: Some(format!("key-{text}")), ..Invoke::chat(text) }
}

#[test]
fn requests_go_on_from_the_next_index() {
    let mut peer = Peer::standard();
    let (id, silent) = (peer.chat("a"), peer.chat("b"));
    for n in 0..=16 {
        peer.record(id, &numbered(n, "x"));
    }
    assert_eq!(cut(&mut peer), Some(("tok-1".into(), vec![(id, 17), (silent, 0)])));
    assert_eq!(peer.client.request(id), RequestState::Suspended);
    let outputs =
        peer.accept(Features::STANDARD, r#""resumed":true,"resume":{"token":"tok-2","window_s":60}"#);
    let expected =
        Event::Accepted { cid: Some(CID.into()), features: Features::STANDARD, resumed: true, lost: vec![] };
    assert_eq!(outputs, [Output::Event(expected)], "nothing is invoked again");
    assert_eq!(peer.client.request(id), RequestState::Active);
    assert_eq!(texts(&peer.record(id, &numbered(16, "seen"))), []);
    assert_eq!(texts(&peer.record(id, &numbered(17, "new"))), [(id, "new".into())]);
    // The token is used up; the next one came with the accept.
    assert_eq!(cut(&mut peer), Some(("tok-2".into(), vec![(id, 18), (silent, 0)])));
}

#[test]
fn a_token_that_was_never_answered_is_tried_again() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    assert_eq!(cut(&mut peer), Some(("tok-1".into(), vec![(id, 0)])));
    assert_eq!(cut(&mut peer), Some(("tok-1".into(), vec![(id, 0)])));
}

#[test]
fn lost_requests_end_or_are_invoked_again() {
    let mut peer = Peer::standard();
    let (gone, again) = (peer.chat("a"), peer.invoke(keyed("b")));
    cut(&mut peer);
    let more = format!(r#""resumed":true,"lost":[{gone},{again}]"#);
    let outputs = peer.accept(Features::STANDARD, &more);
    assert_eq!(endings(&outputs), [(gone, Ending::Lost(Loss::Replay))]);
    assert_eq!(invokes(&outputs, Features::STANDARD), [(again, keyed("b"))]);
    // The ERROR about the loss is not about the new execution; a second one would be.
    let error = r#"{"code":2601,"name":"REPLAY_GONE","msg":"","retry":false}"#;
    assert_eq!(peer.error(gone, error), []);
    assert_eq!(peer.error(again, error), []);
    assert_eq!(peer.client.request(again), RequestState::Active);
    assert_eq!(texts(&peer.record(again, &numbered(0, "x"))).len(), 1);
    assert_eq!(endings(&peer.error(again, error)).len(), 1);
}

#[test]
fn the_window_passes_while_waiting() {
    let mut peer = Peer::standard();
    let (id, again) = (peer.chat("a"), peer.invoke(keyed("b")));
    peer.input(Input::Closed(None));
    let mut outputs = Vec::new();
    let cut_at = peer.now;
    while peer.now < cut_at + 60_000 {
        let wait = peer.wake.expect("waits") - peer.now;
        let step = peer.pass(wait);
        if step.contains(&Output::Dial) {
            peer.input(Input::Unreachable("no route".into()));
        }
        outputs.extend(step);
    }
    assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Expired))]);
    assert_eq!(dial(&mut peer), None, "fresh");
    let outputs = peer.accept(Features::STANDARD, "");
    assert_eq!(invokes(&outputs, Features::STANDARD), [(again, keyed("b"))]);
}

#[test]
fn the_window_passes_while_dialing() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    peer.input(Input::Closed(None));
    peer.pass(1000);
    assert_eq!(peer.client.link(), Link::Dialing);
    assert_eq!(endings(&peer.pass(60_000)), [(id, Ending::Lost(Loss::Expired))]);
    assert_eq!(hello_of(&peer.input(Input::Opened)).resume, None);
}

#[test]
fn a_server_that_is_slow_to_resume_is_waited_for() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    peer.record(id, &numbered(0, "x"));
    cut(&mut peer);
    // Longer than a server that is met for the first time may take.
    let outputs = peer.pass(20_000);
    assert_eq!((events(&outputs), peer.client.link()), (vec![], Link::Greeting));
    let outputs =
        peer.accept(Features::STANDARD, r#""resumed":true,"resume":{"token":"tok-2","window_s":60}"#);
    assert_eq!(endings(&outputs), []);
    assert_eq!(texts(&peer.record(id, &numbered(1, "y"))), [(id, "y".into())]);
    // Nobody is waited for beyond the time in which one may come back.
    cut(&mut peer);
    let outputs = peer.pass(60_000);
    assert!(events(&outputs).contains(&Event::Bare), "{outputs:?}");
}

#[test]
fn a_refused_resume_starts_fresh() {
    let mut peer = Peer::standard();
    let (id, again) = (peer.chat("a"), peer.invoke(keyed("b")));
    peer.frame(Opcode::ToolDef, 0, r#"{"op":"add","rev":9,"tools":[{"name":"t","input_schema":{}}]}"#);
    cut(&mut peer);
    let outputs = peer.error(0, r#"{"code":2600,"name":"RESUME_REJECTED","msg":"","retry":false}"#);
    assert!(matches!(&events(&outputs)[..], [Event::Error(_)]));
    let outputs = peer.accept(Features::STANDARD, r#""resume":{"token":"tok-9","window_s":60}"#);
    assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Refused))]);
    assert_eq!(invokes(&outputs, Features::STANDARD), [(again, keyed("b"))]);
    assert!(events(&outputs).contains(&Event::ToolsChanged) && peer.client.tools().next().is_none());
    // Revisions start again, too.
    peer.frame(Opcode::ToolDef, 0, r#"{"op":"add","rev":1,"tools":[{"name":"u","input_schema":{}}]}"#);
    assert_eq!(peer.client.tools().count(), 1);
    assert_eq!(cut(&mut peer), Some(("tok-9".into(), vec![(again, 0)])));
}

/// Whoever answers may have merged deltas otherwise, so that indices of before say nothing.
#[test]
fn an_invocation_that_is_recognised_is_told_from_the_start() {
    let mut peer = Peer::standard();
    let id = peer.invoke(keyed("a"));
    peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
    peer.record(id, &numbered(1, "one"));
    peer.record(id, &numbered(2, "two"));
    cut(&mut peer);
    peer.accept(Features::STANDARD, "");
    assert_eq!(peer.record(id, r#"{"t":"status","state":"queued"}"#).len(), 1);
    let outputs = peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
    assert_eq!(events(&outputs)[0], Event::Restarted { id });
    assert_eq!(texts(&peer.record(id, &numbered(3, "onetwothree"))), [(id, "onetwothree".into())]);
}

#[test]
fn without_indices_an_invocation_that_is_recognised_is_told_from_the_start() {
    let mut peer = Peer::standard();
    let id = peer.invoke(keyed("a"));
    peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
    cut(&mut peer);
    peer.accept(Features::STANDARD.without(Feature::Resume), "");
    let outputs = peer.record(id, r#"{"t":"start","run":"r1"}"#);
    assert_eq!(events(&outputs)[0], Event::Restarted { id });
    assert_eq!(events(&peer.record(id, r#"{"t":"text","d":"one"}"#)).len(), 1);
}

/// What was seen of the first execution is not what was seen of the second.
#[test]
fn a_cut_after_an_invocation_was_repeated_asks_for_everything() {
    let mut peer = Peer::standard();
    let id = peer.invoke(keyed("a"));
    peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
    peer.record(id, &numbered(1, "one"));
    cut(&mut peer);
    peer.accept(Features::STANDARD, r#""resume":{"token":"tok-2","window_s":60}"#);
    assert_eq!(cut(&mut peer), Some(("tok-2".into(), vec![(id, 0)])));
    peer.accept(Features::STANDARD, r#""resumed":true,"lost":[]"#);
    let outputs = peer.record(id, r#"{"t":"end","n":1,"finish":"empty"}"#);
    assert_eq!(events(&outputs)[0], Event::Restarted { id });
}

#[test]
fn a_call_that_was_answered_is_not_asked_for_again() {
    let mut peer = Peer::standard();
    let id = peer.invoke(keyed("a"));
    let call = |n: u64, call: &str| {
        format!(r#"{{"t":"call","n":{n},"call_id":"{call}","name":"t","args":{{}},"timeout_ms":1000}}"#)
    };
    peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
    peer.record(id, &call(1, "c1"));
    peer.record(id, &call(2, "c2"));
    peer.client.answer_call(id, "c1", Ok(None), peer.at()).unwrap();
    peer.drain();
    cut(&mut peer);
    peer.accept(Features::STANDARD, "");
    peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
    assert_eq!(events(&peer.record(id, &call(1, "c1"))), []);
    assert_eq!(events(&peer.record(id, &call(2, "c2"))).len(), 1);
}

#[test]
fn an_invocation_that_runs_anew_says_so() {
    for first in [r#"{"t":"start","n":0,"run":"r2"}"#, r#"{"t":"text","n":0,"d":"x"}"#] {
        let mut peer = Peer::standard();
        let id = peer.invoke(keyed("a"));
        peer.record(id, r#"{"t":"start","n":0,"run":"r1"}"#);
        peer.record(id, &numbered(1, "one"));
        cut(&mut peer);
        peer.accept(Features::STANDARD, "");
        let outputs = peer.record(id, first);
        assert_eq!(events(&outputs)[0], Event::Restarted { id });
        assert_eq!(events(&outputs).len(), 2);
        assert_eq!(texts(&peer.record(id, &numbered(1, "one"))).len(), 1);
    }
}

#[test]
fn without_resume_a_loss_ends_what_was_sent_and_keeps_what_was_not() {
    for features in [Features::BARE, Features::STANDARD.without(Feature::Resume)] {
        let mut peer = if features == Features::BARE {
            Peer::bare()
        } else {
            Peer::up(ClientConfig { features, ..config() })
        };
        let (id, key) = (peer.chat("a"), peer.invoke(keyed("b")));
        let outputs = peer.input(Input::Closed(None));
        let lost = Ending::Lost(Loss::Disconnected);
        assert_eq!(endings(&outputs), [(id, lost.clone()), (key, lost)]);
        assert_eq!(peer.client.request(id), RequestState::Free);
        let waiting = peer.chat("later");
        let wait = peer.wake.expect("waits") - peer.now;
        peer.pass(wait);
        let mut outputs = peer.input(Input::Opened);
        if features != Features::BARE {
            assert_eq!(hello_of(&outputs).resume, None);
            outputs = peer.accept(features, "");
        }
        assert_eq!(invokes(&outputs, features)[0].0, waiting);
    }
}

#[test]
fn interrupts_wait_for_the_connection() {
    let mut peer = Peer::standard();
    let (id, lost) = (peer.chat("a"), peer.invoke(keyed("b")));
    peer.input(Input::Closed(None));
    peer.client.interrupt(id, Some("user".into()));
    peer.client.interrupt_all(None);
    assert_eq!(peer.drain(), []);
    let (_, next) = dial(&mut peer).expect("resumes");
    assert_eq!(next, [(id, 0), (lost, 0)]);
    let outputs = peer.accept(Features::STANDARD, &format!(r#""resumed":true,"lost":[{lost}]"#));
    assert_eq!(endings(&outputs), finished(lost, Finish::Interrupted));
    assert_eq!(interrupts(&outputs, Features::STANDARD).len(), 1);
    assert_eq!(peer.client.request(id), RequestState::Cancelling);
    assert_eq!(peer.record(id, &numbered(0, "late")), []);
    assert_eq!(endings(&peer.end(id)).len(), 1);
}

#[test]
fn an_interrupted_request_is_not_resumed() {
    let mut peer = Peer::standard();
    let (id, other) = (peer.chat("a"), peer.chat("b"));
    peer.client.interrupt(id, None);
    peer.drain();
    let outputs = peer.input(Input::Closed(None));
    assert_eq!(endings(&outputs), finished(id, Finish::Interrupted));
    assert_eq!(
        dial(&mut peer),
        Some(("tok-1".into(), vec![(other, 0)])),
        "the server cancels what is left out"
    );
}

#[test]
fn answers_survive_a_cut() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    for (n, call) in ["c1", "c2", "c3"].into_iter().enumerate() {
        peer.record(id, &format!(r#"{{"t":"call","n":{n},"call_id":"{call}","name":"x","args":{{}}}}"#));
    }
    let sent = peer.client.answer_call(id, "c1", Ok(None), peer.at()).expect("open");
    peer.drain();
    peer.input(Input::Closed(None));
    let failure = CallFailure { name: "X".into(), msg: "y".into() };
    let waiting = peer.client.answer_call(id, "c2", Err(failure), peer.at()).expect("open");
    assert_eq!(dial(&mut peer).expect("resumes").1, [(id, 3), (sent, 0)]);
    // The first answer never arrived, the second was never sent, the third is still being worked on.
    let outputs = peer.accept(Features::STANDARD, &format!(r#""resumed":true,"lost":[{sent}]"#));
    let ids: Vec<u16> = invokes(&outputs, Features::STANDARD).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [sent, waiting]);
    assert_eq!(endings(&outputs), []);
    peer.client.answer_call(id, "c3", Ok(None), peer.at()).expect("open");
    assert!(matches!(
        &invokes(&peer.drain(), Features::STANDARD)[..],
        [(_, Invoke { body: InvokeBody::Result(_), .. })]
    ));
}

#[test]
fn a_server_that_forgets_features_is_bare_and_fresh() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    cut(&mut peer);
    assert_eq!(endings(&peer.pass(10_000)), [], "it may only be slow to find what is to be resumed");
    assert_eq!(peer.client.link(), Link::Greeting);
    let outputs = peer.pass(50_000);
    assert_eq!(events(&outputs)[0], Event::Bare);
    assert_eq!(endings(&outputs), [(id, Ending::Lost(Loss::Refused))]);
    // What it resumes after that was given up; start again.
    let outputs =
        peer.accept(Features::STANDARD, r#""resumed":true,"resume":{"token":"tok-2","window_s":60}"#);
    assert_eq!(peer.client.link(), Link::Waiting);
    assert!(frames(&outputs).is_empty());
    assert_eq!(dial(&mut peer), None);
}

#[test]
fn each_loss_has_the_whole_window() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    cut(&mut peer);
    peer.accept(Features::STANDARD, r#""resumed":true,"resume":{"token":"tok-2","window_s":60}"#);
    for _ in 0..6 {
        peer.pass(10_000);
        peer.input(Input::Alive);
    }
    assert_eq!(cut(&mut peer), Some(("tok-2".into(), vec![(id, 0)])));
}
