//! The admin client against canned answers on a real socket.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use switchboard_client::Trust;
use switchboard_client::admin::{Admin, AdminError, DevicesQuery, SessionsQuery};
use switchboard_core::{Callsign, SessionId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers one request; gives its head back.
async fn answer(listener: &TcpListener, status: &str, body: &str) -> String {
    let (mut stream, _) = listener.accept().await.expect("accept");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("request"));
    }
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await.expect("answer");
    String::from_utf8(head).expect("text")
}

const SESSION: &str = r#"{"session":"ses_1","owner":"alice","agent":"echo","name":null,"epoch":1,"head":5,
    "opened_at":1,"updated_at":2,"turns":1,"live":false}"#;

#[tokio::test]
async fn lists_are_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let admin =
        Admin::new(&format!("ws://{address}/v1/agent-socket"), Some("key"), &Trust::System).expect("admin");
    let query =
        SessionsQuery { live: true, limit: Some(2), cursor: Some("a b".into()), ..SessionsQuery::default() };
    let body = format!(r#"{{"sessions":[{SESSION}],"next":"cursor"}}"#);
    let (page, head) = tokio::join!(admin.sessions(&query), answer(&listener, "200 OK", &body));
    let page = page.expect("page");
    assert_eq!((page.items[0].session.as_str(), page.next.as_deref()), ("ses_1", Some("cursor")));
    assert!(head.starts_with("GET /admin/v1/sessions?live=true&cursor=a+b&limit=2 HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("authorization: bearer key\r\n"));

    let session = SessionId::from("ses/1");
    let (row, head) = tokio::join!(admin.session(&session), answer(&listener, "200 OK", SESSION));
    assert_eq!(row.expect("row").head, 5);
    assert!(head.starts_with("GET /admin/v1/sessions/ses%2F1 HTTP/1.1"), "{head}");

    let body = r#"{"turns":[],"next":null}"#;
    let (page, head) =
        tokio::join!(admin.turns(&session, Some("1-4"), None), answer(&listener, "200 OK", body));
    assert_eq!((page.expect("page").items.len(), head.contains("/turns?after=1-4 ")), (0, true));
    let body = r#"{"messages":[],"next":"inv_1.out"}"#;
    let (page, _) = tokio::join!(admin.messages(&session, None, Some(1)), answer(&listener, "200 OK", body));
    assert_eq!(page.expect("page").next.as_deref(), Some("inv_1.out"));
    let body = r#"{"events":[],"head":"1-5","next":null}"#;
    let (page, _) = tokio::join!(admin.events(&session, None, None), answer(&listener, "200 OK", body));
    assert_eq!(page.expect("page").head, "1-5");
}

const DEVICE: &str = r#"{"device":"lab/7","principal":"ann","session":"ses_1","protocol":"aip",
    "platform":"linux","facts":{"cpu_count":8,"memory_total_gb":31.2},"profile":null,"joined_at":1,
    "reported_at":2,"left_at":null,"online":true,"capabilities":["cli"],"tags":[]}"#;

#[tokio::test]
async fn devices_are_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let admin = Admin::new(&format!("http://{address}"), Some("key"), &Trust::System).expect("admin");
    let body = format!(r#"{{"devices":[{DEVICE}],"next":"cursor"}}"#);
    let query = DevicesQuery {
        online: Some(true),
        principal: Some("ann".into()),
        cursor: Some("c".into()),
        limit: Some(1),
    };
    let (page, head) = tokio::join!(admin.devices(&query), answer(&listener, "200 OK", &body));
    let page = page.expect("page");
    assert_eq!((page.items[0].row.device.as_str(), page.next.as_deref()), ("lab/7", Some("cursor")));
    let path = "GET /admin/v1/devices?online=true&principal=ann&cursor=c&limit=1 HTTP/1.1\r\n";
    assert!(head.starts_with(path), "{head}");
    let everything = DevicesQuery::default();
    let body = r#"{"devices":[],"next":null}"#;
    let (page, head) = tokio::join!(admin.devices(&everything), answer(&listener, "200 OK", body));
    assert_eq!((page.expect("page").items.len(), head.starts_with("GET /admin/v1/devices HTTP")), (0, true));

    let lab = Callsign::from("lab/7");
    let (device, head) = tokio::join!(admin.device(&lab), answer(&listener, "200 OK", DEVICE));
    let device = device.expect("device");
    assert!(head.starts_with("GET /admin/v1/devices/lab%2F7 HTTP/1.1"), "{head}");
    assert!(device.online && device.row.left_at.is_none());
    assert_eq!((device.capabilities, device.tags), (vec!["cli".to_owned()], Vec::new()));
    assert_eq!(device.row.facts["memory_total_gb"], 31.2);
}

#[tokio::test]
async fn errors_say_what_the_server_said() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let address = listener.local_addr().expect("address");
    let admin = Admin::new(&format!("http://{address}"), None, &Trust::System).expect("admin");
    let session = SessionId::from("s");
    let body = r#"{"error":{"code":"x","message":"no such session"}}"#;
    for (status, expected) in [
        ("401 Unauthorized", AdminError::Unauthorized("no such session".into())),
        ("403 Forbidden", AdminError::Forbidden("no such session".into())),
        ("404 Not Found", AdminError::NotFound("no such session".into())),
        ("410 Gone", AdminError::Gone("no such session".into())),
        ("503 Busy", AdminError::Refused { status: 503, message: "no such session".into() }),
    ] {
        let (row, _) = tokio::join!(admin.session(&session), answer(&listener, status, body));
        assert_eq!(row, Err(expected));
    }
    let (row, _) = tokio::join!(admin.session(&session), answer(&listener, "200 OK", "{}"));
    assert!(matches!(row, Err(AdminError::Answer(_))));
    drop(listener);
    assert!(matches!(admin.session(&session).await, Err(AdminError::Unreachable(_))));
    assert!(matches!(Admin::new("host", None, &Trust::System), Err(AdminError::Url(_))));
    assert!(!format!("{:?}", Admin::new("http://h", Some("hunter2"), &Trust::System)).contains("hunter2"));
}
