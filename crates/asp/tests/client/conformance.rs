//! Statements of §22 that bind a client in direct mode, by number.

use bytes::Bytes;
use switchboard_asp::client::{ClientConfig, CommandError, Ending, Event, Input, Output, RequestState};
use switchboard_asp::message::{Call, CallFailure, Finish, Invoke, InvokeBody, Metrics, RecordBody, Secret};
use switchboard_asp::{ClientMessage, Feature, Features, Flags, Frame, Map, Opcode, Value};

use switchboard_core::{ClientMachine as _, Timestamp};

use crate::support::{
    Peer, config, encode, endings, events, finished, frames, interrupts, invokes, messages, texts,
};

/// Everything a client can send.
fn everything(peer: &mut Peer) -> Vec<Output> {
    let now = peer.at();
    let id = peer.client.invoke(Invoke::chat("hello"), now).expect("invoke");
    peer.client.list_tools(now).expect("list");
    peer.client.interrupt(id, Some("user".to_owned()));
    peer.client.interrupt_all(None);
    let _ = peer.client.ping("nonce");
    let _ = peer.client.authenticate(Secret::new("token"));
    peer.client.handle_input(Input::Leave, now);
    peer.drain()
}

#[test]
fn asp_001_client_frames_start_with_eight_octets_big_endian() {
    let mut peer = Peer::bare();
    for _ in 0..0x0102 {
        let id = peer.chat("x");
        peer.frame(Opcode::Stream, id, "");
    }
    let now = peer.at();
    let id = peer.client.invoke(Invoke::chat("x".repeat(0x0304)), now).expect("invoke");
    let outputs = peer.drain();
    let [Output::Binary(message)] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(id, 0x0103);
    assert_eq!(message[..9], [0x12, 0, 0x01, 0x03, 0, 0, 0x03, 0x04, b'x']);
    assert_eq!(message.len(), 8 + 0x0304);
}

#[test]
fn asp_002_client_sends_version_one_only() {
    let mut all = everything(&mut Peer::bare());
    all.extend(everything(&mut Peer::up(ClientConfig { features: Features::ALL, ..config() })));
    let sent: Vec<&Bytes> = all
        .iter()
        .filter_map(|output| if let Output::Binary(message) = output { Some(message) } else { None })
        .collect();
    assert!(sent.len() > 8);
    assert!(sent.iter().all(|message| message[0] >> 4 == 1));
}

#[test]
fn asp_010_client_processes_frames_of_one_message_in_order() {
    let mut peer = Peer::bare();
    let (first, second) = (peer.chat("a"), peer.chat("b"));
    let outputs = peer.message(&[
        Frame::new(Opcode::Stream, first, "He"),
        Frame::new(Opcode::Stream, second, "Yo"),
        Frame::new(Opcode::Stream, first, ""),
        Frame::new(Opcode::Stream, second, "!"),
    ]);
    assert_eq!(texts(&outputs), [(first, "He".into()), (second, "Yo".into()), (second, "!".into())]);
    let ended = events(&outputs).iter().position(|event| matches!(event, Event::Ended { .. }));
    assert_eq!(ended, Some(2));
    // What was agreed applies from the frame after the accept, in the same message.
    let mut peer = Peer::dialing(config());
    peer.client.invoke(Invoke::chat("early"), Timestamp::default()).expect("waits");
    peer.input(Input::Opened);
    let accept = format!(
        r#"{{"op":"accept","ver":1,"cid":"{}","features":["flags","events"],"enc":"json"}}"#,
        crate::support::CID
    );
    let outputs = peer.message(&[
        Frame::new(Opcode::Hello, 0, accept),
        Frame::new(Opcode::ToolDef, 0, r#"{"op":"add","rev":1,"tools":[]}"#)
            .with_flags(Flags::from_byte(0x04)),
    ]);
    assert!(events(&outputs).contains(&Event::ToolsChanged));
    assert_eq!(invokes(&outputs, Features::STANDARD).len(), 1);
}

#[test]
fn asp_017_client_ignores_unknown_opcodes_records_and_members() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    let mut message = vec![0x1F, 0, 0, 3, 0, 0, 0, 2, 0, 1];
    message.extend_from_slice(&encode(&[Frame::new(
        Opcode::Stream,
        id,
        r#"{"t":"text","d":"A","new":[1,{}]}"#,
    )]));
    message.extend_from_slice(&[0x17, 0xFF, 0, 1, 0, 0, 0, 0]);
    assert_eq!(texts(&peer.input(Input::Binary(message.into()))), [(id, "A".into())]);
    for ignored in [
        peer.record(id, r#"{"t":"hologram","n":4,"d":"x"}"#),
        peer.record(0, r#"{"t":"hologram","d":"x"}"#),
        peer.hello(r#"{"op":"dance"}"#),
        peer.hello("?"),
        peer.frame(Opcode::ToolDef, 0, "?"),
        peer.frame(Opcode::Invoke, 9, "wrong direction"),
        peer.frame(Opcode::Interrupt, id, ""),
        peer.record(id, r#"{"t":"status","state":"levitating"}"#),
        peer.input(Input::Binary(Bytes::new())),
    ] {
        assert_eq!(ignored, []);
    }
    assert_eq!(endings(&peer.end(id)), finished(id, Finish::Complete));
}

#[test]
fn asp_018_client_writes_zero_and_ignores_the_reserved_octet_until_flags_are_agreed() {
    let mut peer = Peer::bare();
    let id = peer.chat("a");
    // END, MORE, COMPRESSED and raw, all without meaning here.
    let outputs = peer.flagged(Opcode::Stream, Flags::from_byte(0xFF), id, "A");
    assert_eq!(texts(&outputs), [(id, "A".into())]);
    assert_eq!(endings(&outputs), []);
    assert!(frames(&everything(&mut peer)).iter().all(|frame| frame.flags == Flags::NONE));

    let mut peer = Peer::dialing(config());
    let mut outputs = peer.input(Input::Opened);
    outputs.extend(peer.accept(Features::STANDARD.without(Feature::Flags).without(Feature::Frag), ""));
    outputs.extend(everything(&mut peer));
    assert!(frames(&outputs).len() > 4 && frames(&outputs).iter().all(|frame| frame.flags == Flags::NONE));

    let mut peer = Peer::standard();
    let outputs = everything(&mut peer);
    assert!(frames(&outputs).iter().any(|frame| frame.flags.byte() == 0x04), "JSON is declared");
}

#[test]
fn asp_024_client_does_not_reuse_an_id_before_its_terminal_frame() {
    let mut peer = Peer::bare();
    let (kept, cancelled) = (peer.chat("kept"), peer.chat("cancelled"));
    peer.client.interrupt(cancelled, None);
    for _ in 0..70_000 {
        let id = peer.chat("x");
        assert!(id != kept && id != cancelled && id != 0);
        assert_eq!(peer.client.request(id), RequestState::Active);
        peer.frame(Opcode::Stream, id, "");
        assert_eq!(peer.client.request(id), RequestState::Free);
    }
    peer.frame(Opcode::Stream, cancelled, "");
    let ids: Vec<u16> = (0..u16::MAX)
        .map(|_| {
            let id = peer.chat("x");
            peer.frame(Opcode::Stream, id, "");
            id
        })
        .collect();
    assert!(ids.contains(&cancelled) && !ids.contains(&kept));
}

#[test]
fn asp_032_client_takes_a_zero_length_stream_as_terminal_in_every_profile() {
    let profiles =
        [Features::BARE, Features::STANDARD, Features::ALL, [Feature::Flags].into_iter().collect()];
    for features in profiles {
        let mut peer = if features == Features::BARE {
            Peer::bare()
        } else {
            Peer::up(ClientConfig { features, ..config() })
        };
        let id = peer.chat("a");
        let outputs = peer.frame(Opcode::Stream, id, "");
        assert_eq!(texts(&outputs), []);
        assert_eq!(endings(&outputs), finished(id, Finish::Complete), "{features:?}");
        let id = peer.chat("b");
        peer.client.interrupt(id, None);
        assert_eq!(endings(&peer.frame(Opcode::Stream, id, "")), finished(id, Finish::Interrupted));
    }
}

#[test]
fn asp_033_client_takes_0x06_with_code_zero_as_success() {
    let metrics = Some(Metrics { cpu_ms: Some(45), ..Metrics::default() });
    for mut peer in [Peer::bare(), Peer::standard()] {
        for (payload, finish, metrics) in [
            (r#"{"code":0,"metrics":{"cpu_ms":45}}"#, Finish::Complete, metrics),
            (r#"{"metrics":{"cpu_ms":45}}"#, Finish::Complete, metrics),
            (r#"{"code":0,"finish":"interrupted"}"#, Finish::Interrupted, None),
            (r#"{"code":0}"#, Finish::Complete, None),
        ] {
            let id = peer.chat("a");
            let outputs = peer.error(id, payload);
            let [(ended, Ending::End(end))] = &endings(&outputs)[..] else { panic!("{outputs:?}") };
            assert_eq!((*ended, end.finish, end.metrics), (id, finish, metrics), "{payload}");
        }
    }
}

#[test]
fn asp_041_client_discards_deltas_received_after_it_sent_interrupt() {
    for mut peer in [Peer::bare(), Peer::standard()] {
        let (id, other) = (peer.chat("a"), peer.chat("b"));
        assert_eq!(texts(&peer.frame(Opcode::Stream, id, "before")).len(), 1);
        peer.client.interrupt(id, None);
        assert_eq!(interrupts(&peer.drain(), peer.client.features()).len(), 1);
        assert_eq!(peer.frame(Opcode::Stream, id, "in flight"), []);
        assert_eq!(texts(&peer.frame(Opcode::Stream, other, "untouched")).len(), 1);
        assert_eq!(endings(&peer.frame(Opcode::Stream, id, "")), finished(id, Finish::Interrupted));
    }
    // Records of every type, and with interrupt of everything.
    let mut peer = Peer::standard();
    let ids = [peer.chat("a"), peer.chat("b")];
    peer.client.interrupt_all(None);
    let sent = frames(&peer.drain());
    assert_eq!(sent, [Frame::new(Opcode::Interrupt, 0, "")]);
    for id in ids {
        for record in [
            r#"{"t":"text","d":"x"}"#,
            r#"{"t":"status","state":"running"}"#,
            r#"{"t":"call","call_id":"c","name":"n","args":{}}"#,
            r#"{"t":"usage","in":1}"#,
        ] {
            assert_eq!(peer.record(id, record), []);
        }
        let end = peer.record(id, r#"{"t":"end","finish":"interrupted"}"#);
        assert_eq!(endings(&end), finished(id, Finish::Interrupted));
    }
}

#[test]
fn asp_045_client_answers_each_call_with_one_result() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    let call = r#"{"t":"call","call_id":"c1","name":"now","args":{"zone":"UTC"}}"#;
    let outputs = peer.record(id, call);
    let [Event::Record { record, .. }] = &events(&outputs)[..] else { panic!("{outputs:?}") };
    let args = Map::new().with("zone", "UTC");
    let expected = Call { call_id: "c1".into(), name: "now".into(), args, timeout_ms: 30_000 };
    assert_eq!(record.body, RecordBody::Call(expected));
    assert_eq!(peer.record(id, call), [], "the same call again is no second call");

    let output = Some(Value::Str("noon".into()));
    let answer = peer.client.answer_call(id, "c1", Ok(output.clone()), peer.at()).expect("open");
    let sent = peer.drain();
    let [(sent_id, Invoke { body: InvokeBody::Result(result), .. })] =
        &invokes(&sent, Features::STANDARD)[..]
    else {
        panic!("{sent:?}")
    };
    assert_eq!((*sent_id, result.parent, result.call_id.as_str()), (answer, id, "c1"));
    assert_eq!((result.ok, &result.output, &result.error), (true, &output, &None));
    assert_eq!(peer.client.answer_call(id, "c1", Ok(None), peer.at()), Err(CommandError::NotOpen));
    assert_eq!(peer.drain(), []);
    let accepted = peer.record(answer, r#"{"t":"end","finish":"accepted"}"#);
    assert_eq!(endings(&accepted), finished(answer, Finish::Accepted));

    // A failed one, refused for its rate at first.
    peer.record(id, r#"{"t":"call","call_id":"c2","name":"now","args":{}}"#);
    let failure = CallFailure { name: "NO_CLOCK".into(), msg: "broken".into() };
    let answer = peer.client.answer_call(id, "c2", Err(failure.clone()), peer.at()).expect("open");
    let first = invokes(&peer.drain(), Features::STANDARD);
    assert_eq!(peer.error(answer, r#"{"code":2200,"retry":true,"retry_ms":700}"#), []);
    assert_eq!(peer.pass(699), []);
    assert_eq!(invokes(&peer.pass(1), Features::STANDARD), first);
    let InvokeBody::Result(result) = &first[0].1.body else { panic!("{first:?}") };
    assert_eq!((result.ok, &result.error), (false, &Some(failure)));

    // Void once its request is interrupted or over.
    peer.record(id, r#"{"t":"call","call_id":"c3","name":"now","args":{}}"#);
    peer.client.interrupt(id, None);
    assert_eq!(peer.client.answer_call(id, "c3", Ok(None), peer.at()), Err(CommandError::NotOpen));
    peer.end(id);
    assert_eq!(peer.client.answer_call(id, "c3", Ok(None), peer.at()), Err(CommandError::NotOpen));
}

#[test]
fn asp_085_client_reads_a_bare_stream_as_text_even_if_it_looks_like_a_map() {
    let mut peer = Peer::bare();
    let id = peer.chat("a");
    for payload in [r#"{"t":"end","finish":"complete"}"#, "[1]", r#"{"t":"text","d":"x"}"#] {
        assert_eq!(texts(&peer.frame(Opcode::Stream, id, payload)), [(id, payload.to_owned())]);
    }
    // Also while an accept is awaited, and when it never comes.
    let mut peer = Peer::dialing(config());
    peer.input(Input::Opened);
    peer.pass(10_000);
    let id = peer.chat("a");
    assert_eq!(texts(&peer.frame(Opcode::Stream, id, "{}")), [(id, "{}".into())]);
    assert!(matches!(messages(&everything(&mut peer), Features::BARE)[0].1, ClientMessage::Invoke(_)));
}
