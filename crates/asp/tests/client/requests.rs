//! §17.3 and §8.3: how requests begin, go on and end.

use switchboard_asp::client::{
    Answer, AspClient, ClientConfig, CommandError, Ending, Event, Input, Output, RequestState,
};
use switchboard_asp::codec::{Compression, compress};
use switchboard_asp::message::{
    AskReply, Enc, EncFlag, ErrorBody, Finish, Input as ChatInput, Interrupt, Invoke, InvokeBody, Level,
    Part, RecordBody,
};
use switchboard_asp::{ClientMessage, Code, Feature, Features, Flags, Frame, Opcode, Value};

use switchboard_core::{ClientMachine as _, Timestamp};

use crate::support::{Peer, config, endings, events, finished, frames, interrupts, invokes, messages, texts};

#[test]
fn everything_after_the_terminal_frame_is_dropped() {
    let terminals: [(&str, Flags, Opcode); 5] = [
        (r#"{"t":"end","finish":"complete"}"#, Flags::NONE, Opcode::Stream),
        (r#"{"t":"end","finish":"complete"}"#, Flags::END, Opcode::Stream),
        ("", Flags::NONE, Opcode::Stream),
        (r#"{"code":2400}"#, Flags::NONE, Opcode::Error),
        (r#"{"code":0}"#, Flags::NONE, Opcode::Error),
    ];
    for (payload, flags, opcode) in terminals {
        let mut peer = Peer::standard();
        let id = peer.chat("a");
        assert_eq!(endings(&peer.flagged(opcode, flags, id, payload)).len(), 1);
        assert_eq!(peer.record(id, r#"{"t":"text","d":"late"}"#), []);
        assert_eq!(peer.end(id), []);
        assert_eq!(peer.error(id, r#"{"code":2400}"#), []);
        peer.client.interrupt(id, None);
        assert_eq!(peer.drain(), [], "INTERRUPT of a free id is not sent");
    }
}

#[test]
fn end_flag_ends_with_and_without_text() {
    let features: Features = [Feature::Flags].into_iter().collect();
    let mut peer = Peer::up(ClientConfig { features, ..config() });
    let id = peer.chat("a");
    let outputs = peer.flagged(Opcode::Stream, Flags::END, id, "last");
    assert_eq!(
        (texts(&outputs), endings(&outputs)),
        (vec![(id, "last".into())], finished(id, Finish::Complete))
    );
    let id = peer.chat("a");
    assert_eq!(endings(&peer.flagged(Opcode::Stream, Flags::END, id, "")), finished(id, Finish::Complete));
}

#[test]
fn records_are_typed_and_raw_deltas_are_text() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    let outputs = peer.record(id, r#"{"t":"reason","n":3,"d":"hm"}"#);
    let [Event::Record { record, credit, .. }] = &events(&outputs)[..] else { panic!("{outputs:?}") };
    assert_eq!((&record.body, record.n, *credit), (&RecordBody::Reason("hm".into()), Some(3), 29));
    let raw = Flags::NONE.with_enc(EncFlag::Raw);
    assert_eq!(texts(&peer.flagged(Opcode::Stream, raw, id, "€")), [(id, "€".into())]);
    let outputs = peer.flagged(Opcode::Stream, raw, id, [0xFF, 0]);
    assert!(
        matches!(&events(&outputs)[..], [Event::Record { record, .. }] if matches!(record.body, RecordBody::Data { .. }))
    );
    let outputs = peer.record(0, r#"{"t":"notice","level":"warn","text":"hi"}"#);
    let [Event::Push(record)] = &events(&outputs)[..] else { panic!("{outputs:?}") };
    assert!(matches!(&record.body, RecordBody::Notice(notice) if notice.level == Level::Warn));
}

#[test]
fn duplicates_by_index_are_dropped() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    let mut got = Vec::new();
    for n in [0, 1, 1, 0, 2, 5, 4, 6] {
        got.extend(texts(&peer.record(id, &format!(r#"{{"t":"text","n":{n},"d":"{n}"}}"#))));
    }
    let got: Vec<String> = got.into_iter().map(|(_, text)| text).collect();
    assert_eq!(got, ["0", "1", "2", "5", "6"]);
    assert_eq!(texts(&peer.record(id, r#"{"t":"text","d":"no index"}"#)).len(), 1);
}

#[test]
fn interrupt_is_sent_once_and_its_reason_with_it() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    peer.client.interrupt(id, Some("user".into()));
    let sent = interrupts(&peer.drain(), Features::STANDARD);
    assert_eq!(sent, [(id, Interrupt { reason: Some("user".into()), ..Interrupt::cancel() })]);
    peer.client.interrupt(id, None);
    peer.client.interrupt_all(None);
    assert_eq!(peer.drain(), []);
    let outputs = peer.end(id);
    assert_eq!(endings(&outputs), finished(id, Finish::Complete), "it was faster");
}

#[test]
fn requests_wait_for_the_connection_and_for_a_place() {
    let mut peer = Peer::new(config());
    assert_eq!(peer.client.invoke(Invoke::chat("x"), Timestamp::default()), Err(CommandError::Off));
    let mut peer = Peer::dialing(config());
    let ids: Vec<u16> = (0..5).map(|_| peer.chat("x")).collect();
    peer.client.interrupt(ids[1], None);
    assert_eq!(endings(&peer.drain()), finished(ids[1], Finish::Interrupted));
    assert_eq!(frames(&peer.input(Input::Opened)).len(), 1, "HELLO only");
    let outputs = peer.accept(Features::STANDARD, r#""limits":{"max_inflight":2}"#);
    let sent: Vec<u16> = invokes(&outputs, Features::STANDARD).iter().map(|(id, _)| *id).collect();
    assert_eq!(sent, [ids[0], ids[2]]);
    // Answers need no place.
    peer.record(ids[0], r#"{"t":"call","call_id":"c","name":"n","args":{}}"#);
    peer.client.answer_call(ids[0], "c", Ok(None), peer.at()).expect("open");
    assert_eq!(invokes(&peer.drain(), Features::STANDARD).len(), 1);
    let outputs = peer.end(ids[2]);
    assert_eq!(invokes(&outputs, Features::STANDARD)[0].0, ids[3]);
}

#[test]
fn the_queue_is_bounded() {
    let mut peer = Peer::dialing(ClientConfig { max_queued: 3, ..config() });
    for _ in 0..3 {
        peer.chat("x");
    }
    assert_eq!(
        peer.client.invoke(Invoke::chat("x"), Timestamp::default()),
        Err(CommandError::QueueFull { limit: 3 })
    );
}

#[test]
fn questions_are_answered_once() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    peer.record(id, r#"{"t":"ask","ask_id":"q1","text":"which?"}"#);
    let answer = peer.client.answer_ask("q1", Answer::Text("this".into()), peer.at()).expect("open");
    let reply = AskReply { parent: id, ask_id: "q1".into(), text: Some("this".into()), data: None };
    let sent = invokes(&peer.drain(), Features::STANDARD);
    assert_eq!(sent, [(answer, Invoke::new(InvokeBody::Reply(reply)))]);
    let again = peer.client.answer_ask("q1", Answer::Data(Value::Null), peer.at());
    assert_eq!(again, Err(CommandError::NotOpen));
    let outputs = peer.error(answer, r#"{"code":2303,"name":"CALL_GONE","msg":"","retry":false}"#);
    assert!(
        matches!(&endings(&outputs)[..], [(_, Ending::Error(error))] if error.known() == Some(Code::CallGone))
    );
}

#[test]
fn a_bare_chat_is_text_unless_it_would_be_taken_for_a_map() {
    let mut peer = Peer::bare();
    let payload = |peer: &mut Peer, invoke: Invoke| {
        peer.client.invoke(invoke, Timestamp::default()).expect("invoke");
        frames(&peer.drain()).remove(0).payload
    };
    assert_eq!(payload(&mut peer, Invoke::chat("hi")), "hi");
    for text in ["{}", "[]", "", "\u{07C0}"] {
        assert!(payload(&mut peer, Invoke::chat(text)).starts_with(b"{\"kind\""), "{text:?}");
    }
    let keyed = Invoke { idem: Some("k".into()), ..Invoke::chat("hi") };
    assert!(payload(&mut peer, keyed).starts_with(b"{\"kind\""));
}

#[test]
fn large_invokes_are_fragmented_when_agreed() {
    let text = "x".repeat(100_000);
    let mut peer = Peer::standard();
    let id = peer.client.invoke(Invoke::chat(text.as_str()), Timestamp::default()).expect("invoke");
    let outputs = peer.drain();
    let sent = frames(&outputs);
    assert_eq!((sent.len(), outputs.len()), (4, 4), "one message each");
    assert!(sent.iter().all(|frame| frame.payload.len() + 8 <= 32 << 10));
    assert!(sent[..3].iter().all(|frame| frame.flags.has(Flags::MORE)) && !sent[3].flags.has(Flags::MORE));
    assert_eq!(invokes(&outputs, Features::STANDARD), [(id, Invoke::chat(text.as_str()))]);

    let features = Features::STANDARD.without(Feature::Frag);
    let mut peer = Peer::up(ClientConfig { features, ..config() });
    peer.client.invoke(Invoke::chat(text.as_str()), Timestamp::default()).expect("invoke");
    assert_eq!(frames(&peer.drain()).len(), 1);
    // Above what the server takes it ends here.
    let id = peer.client.invoke(Invoke::chat("x".repeat(2 << 20)), Timestamp::default()).expect("invoke");
    let outputs = peer.drain();
    assert!(frames(&outputs).is_empty());
    assert!(matches!(&endings(&outputs)[..], [(ended, Ending::Error(error))]
        if *ended == id && error.known() == Some(Code::PayloadTooLarge)));
}

#[test]
fn compression_and_fragments_are_understood_and_used() {
    for (feature, algorithm) in [(Feature::Deflate, Compression::Deflate), (Feature::Zstd, Compression::Zstd)]
    {
        let features = Features::STANDARD.with(feature);
        let mut peer = Peer::up(ClientConfig { features, ..config() });
        let invoke = Invoke::chat("long ".repeat(1000));
        let id = peer.client.invoke(invoke.clone(), Timestamp::default()).expect("invoke");
        let outputs = peer.drain();
        assert!(frames(&outputs)[0].payload.len() < 1000);
        assert_eq!(invokes(&outputs, features), [(id, invoke)]);

        let text = "abc".repeat(500);
        let record =
            compress(algorithm, format!(r#"{{"t":"text","d":"{text}"}}"#).as_bytes()).expect("smaller");
        let flags = Flags::NONE.with_enc(EncFlag::Json).with(Flags::COMPRESSED);
        let (head, tail) = record.split_at(10);
        assert_eq!(peer.flagged(Opcode::Stream, flags.with(Flags::MORE), id, head), []);
        let other = peer.chat("b");
        assert_eq!(texts(&peer.record(other, r#"{"t":"text","d":"between"}"#)).len(), 1);
        assert_eq!(texts(&peer.flagged(Opcode::Stream, flags, id, tail)), [(id, text)]);
    }
}

#[test]
fn a_request_that_cannot_be_read_is_given_up() {
    let broken: [(&str, Flags); 4] = [
        ("{", Flags::NONE.with_enc(EncFlag::Json)),
        (r#"{"t":"text"}"#, Flags::NONE),
        ("x", Flags::COMPRESSED),
        ("x", Flags::END.with(Flags::MORE)),
    ];
    for (payload, flags) in broken {
        let mut peer = Peer::standard();
        let id = peer.chat("a");
        let outputs = peer.flagged(Opcode::Stream, flags, id, payload);
        assert_eq!(endings(&outputs), [], "the id is in use until the server says so");
        assert!(
            matches!(&messages(&outputs, Features::STANDARD)[..], [(sent, ClientMessage::Error(_))] if *sent == id)
        );
        assert_eq!(peer.client.request(id), RequestState::Cancelling);
        let outputs = peer.record(id, r#"{"t":"end","finish":"interrupted"}"#);
        assert!(matches!(&endings(&outputs)[..], [(_, Ending::Error(_))]), "{payload}: {outputs:?}");
    }
    // An end that cannot be read is an end nevertheless.
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    let outputs = peer.record(id, r#"{"t":"end","finish":"beautifully"}"#);
    assert!(
        matches!(&endings(&outputs)[..], [(_, Ending::Error(error))] if error.known() == Some(Code::BadPayload))
    );
    // As is one that is too large.
    let mut peer = Peer::up(ClientConfig { max_payload: 400, ..config() });
    let id = peer.chat("a");
    assert_eq!(endings(&peer.error(id, &"x".repeat(500))).len(), 1);
    let id = peer.chat("a");
    assert_eq!(frames(&peer.record(id, &"x".repeat(500)))[0].opcode, Opcode::Error);
}

#[test]
fn fragments_that_never_finish_are_given_up() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    peer.flagged(Opcode::Stream, Flags::MORE, id, r#"{"t":"te"#);
    assert_eq!(peer.pass(10_000), []);
    let outputs = peer.pass(1);
    assert_eq!(frames(&outputs)[0].opcode, Opcode::Error);
    let outputs = peer.error(id, r#"{"code":2400,"name":"EXECUTION_FAILED","msg":"","retry":false}"#);
    assert!(
        matches!(&endings(&outputs)[..], [(_, Ending::Error(error))] if error.known() == Some(Code::FragmentError))
    );
}

#[test]
fn server_tools_are_kept_and_gaps_filled() {
    let mut peer = Peer::standard();
    let tool = |name: &str| format!(r#"{{"name":"{name}","input_schema":{{}}}}"#);
    let add = |rev: u64, name: &str| format!(r#"{{"op":"add","rev":{rev},"tools":[{}]}}"#, tool(name));
    assert_eq!(events(&peer.frame(Opcode::ToolDef, 0, add(1, "a"))), [Event::ToolsChanged]);
    assert_eq!(peer.frame(Opcode::ToolDef, 0, add(1, "again")), []);
    let outputs = peer.frame(Opcode::ToolDef, 0, add(4, "d"));
    let [(list, Invoke { body: InvokeBody::List, .. })] = invokes(&outputs, Features::STANDARD)[..] else {
        panic!("{outputs:?}")
    };
    let set = format!(r#"{{"op":"set","rev":6,"tools":[{},{}]}}"#, tool("x"), tool("y"));
    peer.frame(Opcode::ToolDef, 0, set);
    assert_eq!(peer.end(list), [], "nobody asked for that request");
    assert_eq!(peer.client.tools().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    let list = peer.client.list_tools(peer.at()).expect("list");
    assert_eq!(endings(&peer.end(list)).len(), 1);
    peer.frame(Opcode::ToolDef, 0, tool("bare"));
    assert_eq!(peer.client.tools().count(), 3);
}

#[test]
fn input_parts_and_keys_travel_in_both_encodings() {
    for enc in [Enc::Json, Enc::Msgpack] {
        let mut peer = Peer::dialing(ClientConfig { enc: vec![enc], ..ClientConfig::default() });
        peer.input(Input::Opened);
        peer.hello(&format!(
            r#"{{"op":"accept","cid":"{}","features":["flags","events"],"enc":"{}"}}"#,
            crate::support::CID,
            enc.name()
        ));
        let parts = vec![Part::Text("a".into()), Part::Data { mime: "x/y".into(), data: "raw".into() }];
        let invoke = Invoke {
            session: Some("s".into()),
            idem: Some("key".into()),
            ..Invoke::new(InvokeBody::Chat(ChatInput::Parts(parts)))
        };
        let id = peer.client.invoke(invoke.clone(), Timestamp::default()).expect("invoke");
        let outputs = peer.drain();
        assert_eq!(frames(&outputs)[0].flags, Flags::NONE.with_enc(enc.into()));
        assert_eq!(invokes(&outputs, Features::STANDARD), [(id, invoke)]);
    }
}

#[test]
fn errors_of_the_connection_end_no_request() {
    let mut peer = Peer::standard();
    let id = peer.chat("a");
    let outputs = peer.error(0, r#"{"code":2008,"name":"DUPLICATE_REQUEST","msg":"","retry":false,"ref":1}"#);
    assert!(matches!(&events(&outputs)[..], [Event::Error(ErrorBody { reference: Some(1), .. })]));
    assert_eq!(peer.client.request(id), RequestState::Active);
    let outputs = peer.error(0, r#"{"code":2104,"name":"AUTH_EXPIRING","msg":"","retry":false}"#);
    assert!(matches!(&events(&outputs)[..], [Event::AuthExpiring(_)]));
}

/// Whatever comes, the client neither panics nor ends a request twice.
#[test]
fn any_frames_in_any_order_are_harmless() {
    let mut random = 1_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let payloads = [
        "",
        "x",
        "{",
        r#"{"t":"end","finish":"complete"}"#,
        r#"{"t":"text","n":1,"d":"x"}"#,
        r#"{"code":0}"#,
        r#"{"code":2400}"#,
        r#"{"op":"goaway"}"#,
        r#"{"op":"accept","resumed":true,"lost":[1,2]}"#,
        r#"{"op":"set","rev":9,"tools":[]}"#,
        r#"{"t":"call","call_id":"c","name":"n","args":{}}"#,
    ];
    for round in 0..400 {
        let mut peer = if round % 2 == 0 { Peer::standard() } else { Peer::bare() };
        let mut open = std::collections::BTreeSet::new();
        for _ in 0..60 {
            let outputs = match next(12) {
                0 => peer.input(Input::Closed(Some([1000, 1001, 1006, 1012, 4500, 4409][next(6) as usize]))),
                1 => peer.input(Input::Opened),
                2 => peer.pass(next(40_000)),
                3 => {
                    let id = next(4) as u16;
                    peer.client.interrupt(id, None);
                    peer.drain()
                }
                4 | 5 => {
                    if let Ok(id) = peer.client.invoke(
                        Invoke { idem: (next(2) == 0).then(|| "k".into()), ..Invoke::chat("x") },
                        peer.at(),
                    ) {
                        assert!(open.insert(id), "id {id} reused");
                    }
                    peer.drain()
                }
                _ => {
                    let opcode = Opcode::ALL[next(6) as usize];
                    let frame =
                        Frame::new(opcode, next(5) as u16, payloads[next(payloads.len() as u64) as usize]);
                    peer.message(&[frame.with_flags(Flags::from_byte(next(256) as u8))])
                }
            };
            for (id, _) in endings(&outputs) {
                assert!(open.remove(&id), "round {round}: {id} ended twice");
            }
            assert!(!outputs.iter().any(|output| matches!(output, Output::Idle { .. })));
        }
        peer.client.handle_input(Input::Leave, peer.at());
        for (id, _) in endings(&peer.drain()) {
            assert!(open.remove(&id));
        }
        assert!(open.is_empty(), "round {round}: {open:?} never ended");
    }
    let _: &AspClient = &Peer::bare().client;
}
