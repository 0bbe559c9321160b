//! What can be asked about a session that is there, and by whom.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use switchboard_core::{Cell, Method};

use super::*;
use crate::context::Context;
use crate::protocol::INTERNAL;

#[test]
fn a_session_token_is_for_its_session_its_purpose_and_its_time() {
    let mut desk = desk(|_| {});
    desk.rows = connected(&samples::settings());
    let good = desk.sign(token::SESSION, |_| {});
    assert_eq!(desk.status(about(protocol::SESSION, "", &good)).0, 200);
    let changes: [(Change<'_, SessionClaims>, (u16, String)); 4] = [
        (&|claims| claims.aud = "elsewhere".to_owned(), code(401, "AUTH_TOKEN_INVALID")),
        (&|claims| claims.exp = 1_100, code(401, "AUTH_TOKEN_EXPIRED")),
        (&|claims| claims.exp = 1_101, code(200, "")),
        (&|claims| claims.sid = "vs_1".to_owned(), code(404, "SES_NOT_FOUND")),
    ];
    for (change, expected) in changes {
        let token = desk.sign(token::SESSION, change);
        assert_eq!(desk.status(about(protocol::SESSION, "", &token)), expected);
    }
    let other = desk.sign(token::EPHEMERAL, |_| {});
    assert_eq!(desk.status(about(protocol::SESSION, "", &other)), code(401, "AUTH_TOKEN_INVALID"));
    let foreign = OpeningRequest { foreign: true, ..about(protocol::SESSION, "", &good) };
    assert_eq!(desk.status(foreign), code(403, "AUTH_ORIGIN"));
    assert_eq!(desk.status(to(protocol::SESSION, &format!("/{SESSION}"))), code(401, "AUTH_TOKEN_MISSING"));
    desk.now = Timestamp::from_millis(1_600_000);
    let late = desk.sign(token::SESSION, |_| {});
    assert_eq!(desk.status(about(protocol::SESSION, "", &late)), code(410, "SES_TERMINATED"));
}

#[test]
fn vip_017_a_token_in_the_address_is_for_development_only() {
    let mut desk = desk(|_| {});
    desk.rows = connected(&samples::settings());
    for (env, expected) in [("production", code(401, "AUTH_TOKEN_LOCATION")), ("development", code(200, ""))]
    {
        let token = desk.sign(token::SESSION, |claims| claims.env = env.to_owned());
        let request = OpeningRequest {
            query: format!("token={token}"),
            ..to(protocol::SESSION, &format!("/{SESSION}"))
        };
        assert_eq!(desk.status(request), expected, "{env}");
    }
}

#[test]
fn vip_016_only_the_subprotocol_itself_is_selected() {
    let desk = desk(|_| {});
    let open = |subprotocols: &[&str]| {
        let subprotocols = subprotocols.iter().map(|entry| Pii((*entry).to_owned())).collect();
        let request = to(protocol::STREAM, &format!("/{SESSION}/stream"));
        desk.protocol.inspect(&OpeningRequest { subprotocols, websocket: true, ..request })
    };
    let opening = open(&["vip.bearer.x", "vip.v1"]).unwrap();
    assert_eq!(opening.subprotocol.map(|Pii(name)| name).as_deref(), Some("vip.v1"));
    assert!(matches!(open(&["vip.bearer.x", "vip.v2"]), Err(Refusal::Malformed(_))));
}

#[test]
fn the_endpoint_of_a_provider_takes_its_own_credentials_only() {
    let desk = desk(|service| service.providers = vec![provider("house", false)]);
    let sign = |aud: &str, exp: u64| {
        let claims = json!({ "iss": "i", "aud": aud, "sub": "ann", "sid": SESSION, "cfg": "", "iat": 1, "exp": exp,
            "jti": "j", "own": "shop|ann" });
        desk.protocol.service.seal.sign(token::EPHEMERAL, &claims)
    };
    let identify = |authorization: Option<Pii<String>>, query: String| {
        let websocket = OpeningRequest {
            authorization,
            query,
            websocket: true,
            subprotocols: vec![Pii("vip.v1".to_owned())],
            ..to(protocol::PROVIDER_STREAM, "")
        };
        let opening = desk.protocol.inspect(&websocket).unwrap();
        desk.protocol
            .identify(&websocket, &opening, desk.now)
            .unwrap()
            .map(|principal| principal.id.to_string())
    };
    let with = |token: String| identify(bearer(&token), String::new());
    assert_eq!(with(sign("house", 1_101)), Ok("shop|ann".to_owned()));
    assert_eq!(with(sign("house", 1_100)), Err(Refusal::CredentialExpired));
    assert_eq!(with(sign("other", 1_101)), Err(Refusal::CredentialInvalid));
    assert_eq!(with(desk.sign(token::SESSION, |_| {})), Err(Refusal::CredentialInvalid));
    let in_query = identify(None, format!("token={}", sign("house", 1_101)));
    assert_eq!(in_query, Err(Refusal::Named("AUTH_TOKEN_LOCATION")));
}

#[test]
fn an_application_renews_the_token_of_its_own_user_only() {
    let mut desk = desk(|_| {});
    desk.rows = connected(&Settings { environment: "production".to_owned(), ..samples::settings() });
    let claims = URL_SAFE_NO_PAD.encode(json!({ "vip": { "env": "production" } }).to_string());
    let renew = || OpeningRequest {
        method: Method::Post,
        ..about(protocol::TOKEN, "/token", &format!("h.{claims}.s"))
    };
    let (status, body) = desk.ask(renew(), &Value::Null);
    assert_eq!((status, &body["session_token_expires_at"]), (200, &json!(1_600)), "the session ends by then");
    let changes: [(Change<'_, Vouched>, (u16, String)); 4] = [
        (&|vouched| vouched.sub = "bob".to_owned(), code(404, "SES_NOT_FOUND")),
        (&|vouched| vouched.app_id = Some("bank".to_owned()), code(404, "SES_NOT_FOUND")),
        (&|vouched| vouched.env = Some("development".to_owned()), code(404, "SES_NOT_FOUND")),
        (&|vouched| vouched.replayed = true, code(401, "AUTH_TOKEN_REPLAYED")),
    ];
    // Before anybody has vouched for it, nothing is looked up for a stranger.
    let stranger = desk.let_in(renew()).unwrap().principal;
    assert_eq!(desk.protocol.preview(&renew(), &stranger), None);
    for (change, expected) in changes {
        let before = desk.vouched.clone();
        change(&mut desk.vouched);
        assert_eq!(desk.status(renew()), expected);
        desk.vouched = before;
    }
}

#[test]
fn functions_and_history_need_their_scopes() {
    let mut desk = desk(|_| {});
    let tree = json!({ "mode": "full", "context_version": 1, "route": { "id": "home" }, "narration": "Home.",
        "actions": {
            "look.up": { "type": "button", "description": "d", "element_id": "e", "executor": "server" },
            "wire": { "type": "button", "description": "d", "element_id": "e", "executor": "server", "sensitive": true },
        },
        "visibility": ["look.up", "wire"] });
    let context = Context::apply(None, &tree).unwrap().context;
    let columns: [(&str, Cell); 3] =
        [("opened", true.into()), ("connected", true.into()), ("context", json!(context).to_string().into())];
    desk.rows = vec![samples::row(&samples::settings(), &columns)];
    desk.errand = json!({ "data": 4 });
    let call = json!({ "invocation_id": "i-1", "parameters": {} });
    for (scopes, function, expected) in [
        ("session:create", "look.up", 403),
        ("session:create function:call", "look.up", 200),
        ("session:create function:call", "wire", 409),
        ("session:create function:call", "gone", 404),
    ] {
        let token = desk.sign(token::SESSION, |claims| claims.scp = scopes.to_owned());
        let request = about(protocol::FUNCTION, &format!("/functions/{function}"), &token);
        assert_eq!(desk.ask(request, &call).0, expected, "{scopes} {function}");
    }
    let token = desk.sign(token::SESSION, |claims| claims.scp = "function:call".to_owned());
    for unnamed in [json!({}), json!({ "invocation_id": "i".repeat(41) })] {
        let request = about(protocol::FUNCTION, "/functions/look.up", &token);
        assert_eq!(desk.ask(request, &unnamed).0, 400);
    }
    assert_eq!(desk.errands, ["perform"]);
    let token = desk.sign(token::SESSION, |_| {});
    assert_eq!(desk.status(about(protocol::HISTORY, "/history", &token)), code(403, "AUTH_SCOPE"));
    let token = desk.sign(token::SESSION, |claims| claims.scp = "history:read".to_owned());
    for (query, expected) in
        [("limit=0", 400), ("limit=201", 400), ("limit=x", 400), ("limit=200&after=3", 200)]
    {
        let request =
            OpeningRequest { query: query.to_owned(), ..about(protocol::HISTORY, "/history", &token) };
        assert_eq!(desk.ask(request, &Value::Null).0, expected, "{query}");
    }
}

#[test]
fn credentials_are_for_sessions_with_a_provider_and_not_without_end() {
    let mut desk = desk(|service| service.providers = vec![provider("house", false)]);
    let token = desk.sign(token::SESSION, |_| {});
    let credential = || about(protocol::CREDENTIAL, "/credential", &token);
    desk.rows = connected(&Settings { provider: Some("house".to_owned()), ..samples::settings() });
    assert_eq!(desk.status(credential()), code(403, "AUTH_SCOPE"));
    let internal =
        Settings { mode: INTERNAL.to_owned(), provider: Some("house".to_owned()), ..samples::settings() };
    desk.rows = connected(&internal);
    for _ in 0..6 {
        assert_eq!(desk.status(credential()).0, 200);
    }
    assert_eq!(desk.status(credential()), code(429, "RATE_EVENTS"));
}

#[test]
fn the_history_comes_in_pages() {
    let mut desk = desk(|_| {});
    desk.rows = connected(&samples::settings());
    let token = desk.sign(token::SESSION, |claims| claims.scp = "history:read".to_owned());
    let page = |desk: &mut Desk, items: u64| {
        let item = |seq: u64| -> Found {
            vec![SESSION.into(), 0i64.into(), json!({ "seq": seq }).to_string().into(), 0i64.into()]
        };
        desk.history = (1..=items).map(item).collect();
        let request =
            OpeningRequest { query: "limit=2".to_owned(), ..about(protocol::HISTORY, "/history", &token) };
        desk.ask(request, &Value::Null).1
    };
    let items = json!([{ "seq": 1 }, { "seq": 2 }]);
    assert_eq!(page(&mut desk, 3), json!({ "items": items, "next_after": 2 }));
    assert_eq!(page(&mut desk, 2), json!({ "items": items, "next_after": null }));
}

#[test]
fn vip_085_an_offer_is_taken_where_it_is_one_and_webrtc_is_spoken() {
    let offer = |webrtc: bool, mode: &str, media: &str| {
        let mut desk = desk(|service| service.webrtc = webrtc);
        desk.rows = connected(&Settings { mode: mode.to_owned(), ..samples::settings() });
        let token = desk.sign(token::SESSION, |_| {});
        let headers = vec![("content-type", media.to_owned())];
        let status = desk.status(OpeningRequest { headers, ..about(protocol::WEBRTC, "/webrtc", &token) });
        (status, desk.errands)
    };
    assert_eq!(offer(false, "external", "application/sdp"), (code(404, "SES_NOT_FOUND"), Vec::new()));
    assert_eq!(offer(true, "internal", "application/sdp"), (code(404, "SES_NOT_FOUND"), Vec::new()));
    assert_eq!(offer(true, "external", "text/plain"), (code(400, "PROTO_MALFORMED"), Vec::new()));
    assert_eq!(offer(true, "external", "application/sdp").1, ["offer"]);
}
