//! Creating a session.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::*;

#[test]
fn vip_001_a_valid_request_in_production_is_a_session() {
    let mut desk = desk(|_| {});
    let (status, created) = desk.create(&wish(|_| {}));
    assert_eq!(
        (status, &created["state"], &created["mode"]),
        (201, &json!("connecting"), &json!("external"))
    );
    assert_eq!((&created["issued_in_development"], created.get("provider")), (&json!(false), None));
    assert_eq!(created["expires_at"], 1_100 + 3_600);
    assert_eq!(created["session_token_expires_at"], 1_100 + 600);
    assert_eq!((desk.redeemed, desk.opened), (1, 1));
    // A session that ends before its token would takes it along.
    desk.vouched.max_session_s = Some(120);
    let (_, created) = desk.create(&wish(|_| {}));
    assert_eq!(
        (&created["expires_at"], &created["session_token_expires_at"]),
        (&json!(1_220), &json!(1_220))
    );
}

#[test]
fn half_a_surrogate_pair_in_a_request_is_read_as_a_replacement() {
    let body = wish(|wish| wish["metadata"] = json!({"note": "HALF"})).to_string().replace("HALF", r"\ud83d");
    assert!(crate::http::request::CreateRequest::read(body.as_bytes()).is_ok());
}

#[test]
fn vip_002_production_needs_a_token() {
    let mut desk = desk(|_| {});
    assert_eq!(desk.ask(to(protocol::SESSIONS, ""), &wish(|_| {})).0, 401);
    let request =
        OpeningRequest { authorization: Some(Pii("Basic x".to_owned())), ..to(protocol::SESSIONS, "") };
    let (status, body) = desk.ask(request, &wish(|wish| wish["environment"] = json!("development")));
    assert_eq!(
        (status, &body["error"]["code"]),
        (401, &json!("AUTH_TOKEN_INVALID")),
        "not even in development"
    );
    assert!(desk.errands.is_empty());
}

#[test]
fn vip_006_a_token_that_was_used_opens_nothing() {
    let mut desk = desk(|_| {});
    desk.vouched.replayed = true;
    assert_eq!(desk.refused(&wish(|_| {})), code(401, "AUTH_TOKEN_REPLAYED"));
    assert_eq!((desk.redeemed, desk.opened), (0, 0));
    // Nor does one that another request was faster with.
    (desk.vouched.replayed, desk.overtaken) = (false, true);
    assert_eq!(desk.refused(&wish(|_| {})), code(401, "AUTH_TOKEN_REPLAYED"));
    assert_eq!((desk.redeemed, desk.opened), (1, 0));
}

#[test]
fn vip_010_development_is_for_those_who_allow_it_and_shorter() {
    let develop = wish(|wish| wish["environment"] = json!("development"));
    let mut strict = desk(|service| service.allow_development = false);
    assert_eq!(strict.refused(&develop), code(403, "AUTH_ENVIRONMENT_FORBIDDEN"));
    assert!(strict.errands.is_empty());
    let mut open = desk(|_| {});
    (open.vouched.iss, open.vouched.env, open.vouched.app_id) = (None, None, None);
    let (status, created) = open.ask(to(protocol::SESSIONS, ""), &develop);
    assert_eq!((status, &created["issued_in_development"]), (201, &json!(true)));
    assert_eq!(created["expires_at"], 1_100 + 600);
}

#[test]
fn a_token_allows_what_it_says_and_nothing_else() {
    let named = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let changes: [(Change<'_, Vouched>, &str); 5] = [
        (&|vouched| vouched.env = Some("development".to_owned()), "AUTH_ENVIRONMENT_MISMATCH"),
        (&|vouched| vouched.scopes = vec!["history:read".to_owned()], "AUTH_SCOPE"),
        (&|vouched| vouched.app_id = Some("bank".to_owned()), "AUTH_SCOPE"),
        (&|vouched| vouched.modes = named(&["internal"]), "AUTH_SCOPE"),
        (&|vouched| vouched.origins = named(&["https://shop.example"]), "AUTH_ORIGIN"),
    ];
    for (change, expected) in changes {
        let mut desk = desk(|_| {});
        change(&mut desk.vouched);
        let request = OpeningRequest {
            authorization: bearer("app-token"),
            headers: vec![("origin", "https://evil.example".to_owned())],
            ..to(protocol::SESSIONS, "")
        };
        let (status, body) = desk.ask(request, &wish(|_| {}));
        assert_eq!((status, &body["error"]["code"], desk.opened), (403, &json!(expected), 0));
    }
    let inline = wish(|wish| wish["prompt"] = json!({ "instructions": "Obey." }));
    let mut desk = desk(|_| {});
    assert_eq!(desk.refused(&inline), code(403, "AUTH_SCOPE"));
    desk.vouched.scopes.push("prompt:inline".to_owned());
    assert_eq!(desk.create(&inline).0, 201);
}

#[test]
fn who_leaves_the_mode_open_gets_one_that_the_token_allows() {
    let mut desk = desk(|service| service.providers = vec![provider("real", true)]);
    let mode = |desk: &mut Desk, modes: Option<&str>| {
        desk.vouched.modes = modes.map(|mode| vec![mode.to_owned()]);
        let (status, created) = desk.create(&wish(|wish| wish["mode"] = json!("auto")));
        (status, created["mode"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(mode(&mut desk, Some("internal")), (201, "internal".to_owned()));
    assert_eq!(mode(&mut desk, Some("external")), (201, "external".to_owned()));
    assert_eq!(mode(&mut desk, None), (201, "external".to_owned()));
}

#[test]
fn a_user_has_so_many_sessions_at_once() {
    let mut desk = desk(|_| {});
    let settings = Settings { environment: "production".to_owned(), ..samples::settings() };
    let live = connected(&settings).remove(0);
    let over = samples::row(&settings, &[("live", false.into())]);
    let other = connected(&Settings { sub: "bob".to_owned(), ..settings }).remove(0);
    desk.rows = vec![live.clone(), live.clone(), live.clone(), over, other];
    assert_eq!(desk.create(&wish(|_| {})).0, 201);
    desk.rows = vec![live; 4];
    assert_eq!(desk.refused(&wish(|_| {})), code(429, "SES_QUOTA"));
    // Whoever tries things out shares a name with everybody else who does.
    (desk.vouched.iss, desk.vouched.env) = (None, None);
    assert_eq!(desk.create(&wish(|_| {})).0, 201);
}

#[test]
fn vip_013_a_repetition_is_answered_as_before_unless_it_was_refused() {
    let mut desk = desk(|service| {
        let elsewhere = Provider { url: Some("wss://voice.example".to_owned()), ..provider("voice", true) };
        service.providers = vec![elsewhere];
    });
    let again = |desk: &mut Desk, wish: &Value| {
        let request = OpeningRequest {
            authorization: bearer("app-token"),
            headers: vec![("idempotency-key", "k".to_owned())],
            ..to(protocol::SESSIONS, "")
        };
        desk.ask(request, wish)
    };
    let internal = wish(|wish| wish["mode"] = json!("internal"));
    // What went wrong on the way can be tried again.
    let (status, body) = again(&mut desk, &internal);
    assert_eq!((status, &body["error"]["code"]), (502, &json!("PROV_CREDENTIAL")));
    desk.errand = json!({ "value": "secret", "expires_at": 1_160 });
    desk.hangs_up = true;
    assert_eq!(again(&mut desk, &internal), (0, Value::Null), "nobody waits for it");
    desk.hangs_up = false;
    let (status, first) = again(&mut desk, &internal);
    assert_eq!((status, desk.opened), (201, 1));
    desk.vouched.replayed = true;
    assert_eq!(again(&mut desk, &internal), (201, first), "word for word, with the token used up");
    assert_eq!(desk.opened, 1);
    let (status, body) = again(&mut desk, &wish(|_| {}));
    assert_eq!((status, &body["error"]["code"]), (409, &json!("SES_IDEMPOTENCY_CONFLICT")));
}

#[test]
fn vip_013_repetitions_at_the_same_time_are_answered_alike() {
    let mut desk = desk(|_| {});
    let body = wish(|_| {});
    let frame = || Input::Frame(Frame::Text(body.to_string()));
    let began = |desk: &Desk| {
        let request = OpeningRequest {
            authorization: bearer("app-token"),
            headers: vec![("idempotency-key", "k".to_owned())],
            ..to(protocol::SESSIONS, "")
        };
        let upgrade = desk.let_in(request).unwrap();
        let connection = desk.protocol.accept(upgrade, Seed::new([1; 32])).unwrap();
        (connection, (0, Value::Null))
    };
    // The first is vouched for, and about to use its token up.
    let (mut first, mut answer) = began(&desk);
    let vouched = desk.step(&mut *first, frame(), &mut answer).unwrap();
    let redeemed = desk.step(&mut *first, vouched, &mut answer).unwrap();
    // Another finds the token used up, and waits all the same.
    desk.vouched.replayed = true;
    let (mut second, mut again) = began(&desk);
    desk.drive(&mut *second, frame(), &mut again);
    assert_eq!(again, (0, Value::Null));
    desk.now = desk.now.after(Duration::from_millis(25));
    desk.drive(&mut *second, Input::Timeout, &mut again);
    assert_eq!(again, (0, Value::Null), "it is not answered yet");
    desk.drive(&mut *first, redeemed, &mut answer);
    desk.now = desk.now.after(Duration::from_millis(25));
    desk.drive(&mut *second, Input::Timeout, &mut again);
    assert_eq!((answer.0, desk.opened), (201, 1));
    assert_eq!(again, answer);
}

#[test]
fn vip_013_nobody_waits_for_ever_for_the_same_to_be_answered() {
    let mut desk = desk(|_| {});
    let digest = Sha256::digest(wish(|_| {}).to_string()).into();
    desk.protocol.recent.ask("shop|ann", "k", digest, desk.now);
    let request = OpeningRequest {
        authorization: bearer("app-token"),
        headers: vec![("idempotency-key", "k".to_owned())],
        ..to(protocol::SESSIONS, "")
    };
    let upgrade = desk.let_in(request).unwrap();
    let mut connection = desk.protocol.accept(upgrade, Seed::new([1; 32])).unwrap();
    let mut answer = (0, Value::Null);
    desk.drive(&mut *connection, Input::Frame(Frame::Text(wish(|_| {}).to_string())), &mut answer);
    desk.now = desk.now.after(Duration::from_secs(30));
    desk.drive(&mut *connection, Input::Timeout, &mut answer);
    assert_eq!((answer.0, &answer.1["error"]["retryable"]), (503, &json!(true)));
    assert_eq!(desk.opened, 0);
}

#[test]
fn vip_014_a_session_of_development_never_gets_a_key_of_production() {
    let mut desk = desk(|service| service.providers = vec![provider("real", true), provider("toy", false)]);
    let internal = |development: bool| {
        wish(|wish| {
            wish["mode"] = json!("internal");
            wish["provider_preferences"] = json!(["real"]);
            wish["environment"] = json!(if development { "development" } else { "production" });
        })
    };
    let (status, created) = desk.create(&internal(false));
    assert_eq!((status, &created["provider"]["id"]), (201, &json!("real")));
    assert_eq!(created["provider"]["credential"]["expires_at"], 1_100 + 60);
    assert_eq!(
        (created.get("transport"), created["control"]["subprotocol"].clone()),
        (None, json!("vip.v1"))
    );
    desk.vouched.env = Some("development".to_owned());
    assert_eq!(desk.create(&internal(true)).1["provider"]["id"], "toy");
}

#[test]
fn vip_014_a_credential_for_our_own_endpoint_lasts_as_long_as_is_set() {
    let mut desk = desk(|service| service.providers = vec![Provider { ttl_s: 20, ..provider("real", true) }]);
    let (_, created) = desk.create(&wish(|wish| wish["mode"] = json!("internal")));
    assert_eq!(created["provider"]["credential"]["expires_at"], 1_100 + 20);
}

#[test]
fn what_is_asked_for_has_bounds() {
    let mut desk = desk(|_| {});
    for change in [
        json!({ "turn_detection": { "silence_ms": 199 } }),
        json!({ "turn_detection": { "silence_ms": 3_001 } }),
        json!({ "metadata": (0..17).map(|key| (key.to_string(), "")).collect::<std::collections::BTreeMap<_, _>>() }),
        json!({ "app_id": "x".repeat(65) }),
        json!({ "protocol_versions": [] }),
        json!({ "client": { "name": "shop", "version": "1", "platform": "toaster" } }),
    ] {
        let wish = wish(|wish| wish.as_object_mut().unwrap().extend(change.as_object().unwrap().clone()));
        assert_eq!(desk.refused(&wish), code(400, "PROTO_MALFORMED"), "{change}");
    }
    let unheard = wish(|wish| wish["audio"]["input_formats"] = json!(["mp3/44100"]));
    assert_eq!(desk.refused(&unheard), code(422, "PROTO_AUDIO_FORMAT"));
    let future = wish(|wish| wish["protocol_versions"] = json!(["9.9"]));
    assert_eq!(desk.refused(&future), code(400, "PROTO_VERSION"));
}

#[test]
fn a_body_is_as_large_as_the_limit_says_and_no_larger() {
    let padded = |bytes: usize| {
        let bare = wish(|wish| wish["padding"] = json!("")).to_string().len();
        wish(|wish| wish["padding"] = json!("x".repeat(bytes - bare)))
    };
    let limits = VipLimits { body_bytes: 4_096, ..VipLimits::default() };
    let mut desk = desk_within(limits, |_| {});
    assert_eq!(desk.create(&padded(4_096)).0, 201);
    assert_eq!(desk.refused(&padded(4_097)), code(413, "PROTO_TOO_LARGE"));
}

#[test]
fn what_is_agreed_is_what_both_sides_want() {
    let mut desk = desk(|service| service.webrtc = true);
    // A token makes sessions shorter and never longer.
    desk.vouched.max_session_s = Some(9_999);
    let (_, created) = desk.create(&wish(|_| {}));
    assert_eq!((&created["expires_at"], &created["resume"]["window_s"]), (&json!(1_100 + 3_600), &json!(60)));
    assert_eq!(created["transport"].get("webrtc"), None);
    let rich = wish(|wish| {
        wish["capabilities"] = json!({ "resume": false, "transports": ["websocket", "webrtc"] });
    });
    let (_, created) = desk.create(&rich);
    assert_eq!(created["resume"]["window_s"], 0);
    assert_eq!(created["transport"]["webrtc"]["data_channel"], "vip-events");
}

#[test]
fn a_page_of_a_foreign_origin_creates_nothing() {
    let mut desk = desk(|_| {});
    let request = || OpeningRequest { authorization: bearer("app-token"), ..to(protocol::SESSIONS, "") };
    let (status, body) = desk.ask(OpeningRequest { foreign: true, ..request() }, &wish(|_| {}));
    assert_eq!((status, &body["error"]["code"], desk.opened), (403, &json!("AUTH_ORIGIN"), 0));
    for key in [String::new(), "k".repeat(65)] {
        let (status, _) =
            desk.ask(OpeningRequest { headers: vec![("idempotency-key", key)], ..request() }, &wish(|_| {}));
        assert_eq!((status, desk.opened), (400, 0));
    }
}
