//! The body of a request to a function.

use switchboard_asp::message::{CallFailure, Reason, Secret};
use switchboard_asp::relay::{
    Answer, Answered, Answers, BodyError, CancelGrant, Cancellation, Event, Invocation, MAX_BODY, Original,
    Payload, Principal, PushGrant, Role, Said,
};
use switchboard_asp::value::decode_json;
use switchboard_asp::{Map, Value};
use switchboard_core::Pii;

fn json(text: &str) -> Value {
    decode_json(text.as_bytes()).unwrap()
}

fn small() -> Invocation {
    Invocation {
        enc: Some(Original::Json),
        payload: Some(Payload::Json(json(r#"{"kind":"chat","input":"hi"}"#))),
        ..Invocation::new(Event::Invoke, "7f8a0000000000000000000000000001", 1, "inv_01")
    }
}

fn full() -> Invocation {
    let said = |role, text: &str| Said { role, text: Pii(text.to_owned()) };
    Invocation {
        history: vec![said(Role::User, "hi"), said(Role::Assistant, "hello")],
        event: Event::Continue,
        leg: 2,
        attempt: 3,
        enc: Some(Original::Msgpack),
        session: Some("s1".to_owned()),
        agent: Some("helper".to_owned()),
        deadline_ms: Some(300_000),
        sent_at: Some(1_767_225_600_123),
        principal: Some(Principal {
            sub: Pii("ann@example.org".to_owned()),
            scope: vec!["asp:connect".to_owned(), "asp:invoke".to_owned()],
            claims: Some(Pii(Map::new().with("team", "blue"))),
        }),
        features: vec!["flags".to_owned(), "events".to_owned()],
        push: Some(PushGrant {
            url: "https://relay.example/v1/relay/connections/c/frames".to_owned(),
            token: Secret::new("push-token"),
            exp: 1_767_226_500,
        }),
        cancel: Some(CancelGrant { url: "https://relay.example/cancel".to_owned(), poll_ms: 500 }),
        state: Some(json(r#"{"step":2,"secret":"state"}"#)),
        answers: vec![
            Answer {
                k: 0,
                ok: true,
                content: Answered::Call { call_id: "c1".to_owned(), output: Some(json(r#"{"rows":[1]}"#)) },
                error: None,
            },
            Answer {
                k: 1,
                ok: false,
                content: Answered::Call { call_id: "c2".to_owned(), output: None },
                error: Some(CallFailure { name: "CALL_TIMEOUT".to_owned(), msg: "no answer".to_owned() }),
            },
            Answer {
                k: 2,
                ok: true,
                content: Answered::Ask {
                    ask_id: "a1".to_owned(),
                    text: Some("the blue one".to_owned()),
                    data: Some(Value::Null),
                },
                error: None,
            },
        ],
        next_n: Some(17),
        ..small()
    }
}

/// T24: byte for byte, since the signature covers these bytes.
#[test]
fn a_body_has_cid_and_payload_and_one_form() {
    let expected = r#"{"asp":1,"event":"invoke","leg":0,"cid":"7f8a0000000000000000000000000001","rid":1,"inv":"inv_01","attempt":1,"enc":"json","payload":{"kind":"chat","input":"hi"},"features":[]}"#;
    assert_eq!(small().to_json(), expected.as_bytes());
    assert_eq!(Invocation::from_json(expected.as_bytes()), Ok(small()));
}

#[test]
fn every_member_goes_there_and_back() {
    let body = full().to_json();
    assert_eq!(Invocation::from_json(&body), Ok(full()));
    let expected = json(
        r#"{"asp":1,"event":"continue","leg":2,"cid":"7f8a0000000000000000000000000001","rid":1,"inv":"inv_01",
            "attempt":3,"enc":"msgpack","payload":{"kind":"chat","input":"hi"},"session":"s1","agent":"helper",
            "deadline_ms":300000,"sent_at":1767225600123,
            "principal":{"sub":"ann@example.org","scope":"asp:connect asp:invoke","claims":{"team":"blue"}},
            "features":["flags","events"],
            "push":{"url":"https://relay.example/v1/relay/connections/c/frames","token":"push-token","exp":1767226500},
            "cancel":{"url":"https://relay.example/cancel","poll_ms":500},
            "state":{"step":2,"secret":"state"},
            "answers":[{"k":0,"call_id":"c1","ok":true,"output":{"rows":[1]}},
                       {"k":1,"call_id":"c2","ok":false,"error":{"name":"CALL_TIMEOUT","msg":"no answer"}},
                       {"k":2,"ask_id":"a1","ok":true,"text":"the blue one","data":null}],
            "next_n":17,
            "history":[{"role":"user","text":"hi"},{"role":"assistant","text":"hello"}]}"#,
    );
    assert_eq!(decode_json(&body), Ok(expected));
}

#[test]
fn bytes_travel_as_base64() {
    let raw = Payload::Bytes(vec![0, 255, 10].into());
    let invocation = Invocation { enc: Some(Original::Raw), payload: Some(raw), ..small() };
    let body = invocation.to_json();
    let text = std::str::from_utf8(&body).unwrap();
    assert!(text.contains(r#""payload_b64":"AP8K""#) && !text.contains(r#""payload":"#), "{text}");
    assert_eq!(Invocation::from_json(&body), Ok(invocation));
}

#[test]
fn events_go_there_and_back() {
    for event in Event::ALL {
        let invocation = Invocation { event: *event, ..small() };
        assert_eq!(Invocation::from_json(&invocation.to_json()), Ok(invocation));
    }
    // Only an invocation needs a payload, and only requests have a number.
    let connect = Invocation::new(Event::Connect, "7f8a0000000000000000000000000001", 0, "inv_02");
    assert_eq!(Invocation::from_json(&connect.to_json()), Ok(connect));
}

#[test]
fn unknown_members_are_ignored_and_absent_ones_have_their_defaults() {
    let body =
        br#"{"cid":"c","payload":null,"inv":"i","later":{"$b64":"not base64"},"more":[[[]]],"session":null}"#;
    let read = Invocation::from_json(body).unwrap();
    let expected = Invocation {
        payload: Some(Payload::Json(Value::Null)),
        ..Invocation::new(Event::Invoke, "c", 0, "i")
    };
    assert_eq!(read, expected);
    let polled = br#"{"cid":"c","payload":1,"inv":"i","cancel":{"url":"u"}}"#;
    assert_eq!(Invocation::from_json(polled).unwrap().cancel.unwrap().poll_ms, 1000);
}

#[test]
fn what_is_wrong_is_named() {
    let field = |body: &str| match Invocation::from_json(body.as_bytes()) {
        Err(BodyError::Field(error)) => (error.member, error.reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(field(r#"{"cid":"c","inv":"i"}"#), ("payload".to_owned(), Reason::Missing));
    assert_eq!(field(r#"{"payload":1,"inv":"i"}"#), ("cid".to_owned(), Reason::Missing));
    assert_eq!(field(r#"{"payload":1,"cid":"c"}"#), ("inv".to_owned(), Reason::Missing));
    let long = format!(r#"{{"payload":1,"cid":"c","inv":"{}"}}"#, "i".repeat(41));
    assert_eq!(field(&long), ("inv".to_owned(), Reason::TooLong(40)));
    assert_eq!(
        field(r#"{"payload":1,"cid":"c","inv":"i","rid":65536}"#),
        ("rid".to_owned(), Reason::Range(0, 65535))
    );
    assert_eq!(
        field(r#"{"payload":1,"cid":"c","inv":"i","push":{"url":"u","token":"t"}}"#),
        ("push.exp".to_owned(), Reason::Missing)
    );
    assert_eq!(
        field(r#"{"payload":1,"cid":"c","inv":"i","answers":[{"k":1,"ok":true}]}"#),
        ("answers[].call_id or ask_id".to_owned(), Reason::Missing)
    );
    assert_eq!(
        field(r#"{"payload":1,"cid":"c","inv":"i","answers":{}}"#),
        ("answers".to_owned(), Reason::Type("a list"))
    );
    let fault = |body: &str| Invocation::from_json(body.as_bytes()).unwrap_err();
    assert_eq!(fault(r#"{"payload":1,"cid":"c","inv":"i","asp":2}"#), BodyError::Version(1));
    assert_eq!(fault(r#"{"payload_b64":"?","cid":"c","inv":"i"}"#), BodyError::Base64);
    for body in ["", "[]", "null", "{", "{}x", r#"{"cid":"c""#, "\u{feff}{}"] {
        assert_eq!(fault(body), BodyError::Json, "{body}");
    }
}

#[test]
fn a_payload_may_be_as_deep_as_on_its_own_and_no_deeper() {
    let deep = |levels: usize| {
        let payload = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        Invocation::from_json(format!(r#"{{"payload":{payload},"cid":"c","inv":"i"}}"#).as_bytes())
    };
    assert!(deep(32).is_ok());
    assert!(matches!(deep(33), Err(BodyError::Value { member: "payload", .. })));
    assert!(matches!(deep(100_000), Err(BodyError::Value { member: "payload", .. })));
}

#[test]
fn a_body_is_bounded() {
    let body = vec![b' '; MAX_BODY + 1];
    assert_eq!(Invocation::from_json(&body), Err(BodyError::TooLarge { limit: MAX_BODY }));
    assert_eq!(Invocation::from_json(&body[1..]), Err(BodyError::Json));
}

#[test]
fn answers_and_cancellation_go_there_and_back() {
    let answers = Answers { answers: full().answers, cancelled: false };
    assert_eq!(Answers::from_json(&answers.to_json()), Ok(answers));
    let none = Answers { answers: Vec::new(), cancelled: true };
    assert_eq!(none.to_json().as_ref(), br#"{"answers":[],"cancelled":true}"#);
    assert_eq!(Answers::from_json(&none.to_json()), Ok(none));
    let cancelled = Cancellation { cancelled: true, reason: Some("user".to_owned()) };
    assert_eq!(cancelled.to_json().as_ref(), br#"{"cancelled":true,"reason":"user"}"#);
    assert_eq!(Cancellation::from_json(&cancelled.to_json()), Ok(cancelled));
    let running = Cancellation::default();
    assert_eq!(Cancellation::from_json(&running.to_json()), Ok(running));
}

#[test]
fn nothing_private_is_shown() {
    let secrets = ["push-token", "hi", "ann@", "blue", "secret", "rows", "no answer", "AP8K"];
    let raw = Payload::Bytes(b"hi".to_vec().into());
    let principal = full().principal;
    let shown = format!(
        "{:?} {:?} {:?} {raw:?} {principal:?} {:?}",
        full(),
        small(),
        full().payload,
        full().answers[2]
    );
    for secret in secrets {
        // "this" and the like would contain "hi": compare words.
        let words = shown.split(|letter: char| !letter.is_alphanumeric() && !"-@".contains(letter));
        assert!(words.into_iter().all(|word| !word.starts_with(secret)), "{secret} in {shown}");
    }
    assert!(shown.contains("inv_01"), "{shown}");
}
