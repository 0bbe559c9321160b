//! Connecting, losing, coming back.

use std::time::Duration;

use switchboard_asp::message::Secret;
use switchboard_asp::{Feature, Features, Opcode};
use switchboard_client::asp::{
    Bearer, Cause, Client, ClientError, CommandError, Connect, ConnectError, ConnectionEvent, FirstAttempt,
    Invoke, OptionsError, Renewed, RequestError, RequestEvent,
};
use switchboard_client::{Refusal, Trust};

use tokio_rustls::TlsAcceptor;

use crate::support::{CID, Peer, Server, event, next, soon, text};

#[tokio::test]
async fn the_token_travels_in_a_header_or_among_the_subprotocols() {
    let server = Server::start().await;
    let (_client, peer) =
        server.pair(Connect::new(server.url()).token("s3cr3t/token+==").agent("echo")).await;
    assert_eq!(peer.uri, "/v1/agent-socket?agent=echo");
    assert_eq!(peer.header("authorization"), Some("Bearer s3cr3t/token+=="));
    assert_eq!(peer.header("sec-websocket-protocol"), Some("asp-v1"));
    let options = Connect::new(server.url()).token("s3cr3t/token+==").bearer(Bearer::Subprotocol);
    let (_client, peer) = server.pair(options).await;
    assert_eq!(peer.header("authorization"), None);
    assert_eq!(peer.header("sec-websocket-protocol"), Some("asp-v1, asp-bearer.czNjcjN0L3Rva2VuKz09"));
    let refused = Client::connect(Connect::new(server.url()).token("line\nbreak")).await.err();
    assert_eq!(refused, Some(ConnectError::Options(OptionsError::Token)));
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let server = Server::start().await;
    let body = r#"{"error":{"code":2101,"name":"AUTH_INVALID","msg":"unknown key","retry":false}}"#;
    let answer = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let (client, ()) =
        tokio::join!(Client::connect(Connect::new(server.url()).token("bad")), server.refuse(&answer));
    let error = client.expect_err("refused");
    assert!(matches!(&error, ConnectError::Failed(Cause::Refused(refusal)) if refusal.text == "unknown key"));
    assert_eq!(error.to_string(), "the server does not accept the credential: unknown key");
    assert!(error.advice().contains("token") && !error.is_temporary());

    let refused = |status, retry_after| {
        ConnectError::Failed(Cause::Refused(Refusal { status, retry_after, ..Refusal::default() }))
    };
    let seven = Some(Duration::from_secs(7));
    let cases = [
        ("403 Forbidden", refused(403, None)),
        ("404 Not Found", refused(404, None)),
        ("400 Bad Request", refused(400, None)),
        ("200 OK", refused(200, None)),
        ("429 Too Many\r\nRetry-After: 7", refused(429, seven)),
        ("503 Busy", refused(503, None)),
    ];
    for (status, expected) in cases {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        let (client, ()) = tokio::join!(Client::connect(Connect::new(server.url())), server.refuse(&answer));
        assert_eq!(client.expect_err("refused"), expected);
        assert!(!expected.advice().is_empty() && !expected.to_string().is_empty());
    }
    let port = server.port();
    drop(server);
    let error = Client::connect(Connect::new(format!("ws://127.0.0.1:{port}"))).await.err();
    assert!(matches!(error, Some(ConnectError::Failed(Cause::Unreachable(_)))), "{error:?}");
}

#[tokio::test]
async fn a_first_attempt_may_be_repeated() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).first_attempt(FirstAttempt::KeepTrying);
    let connecting = tokio::spawn(Client::connect(options));
    server.refuse("HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n").await;
    let _peer = server.accept().await;
    soon(connecting).await.expect("joined").expect("connects");
}

#[tokio::test]
async fn a_cut_connection_is_resumed() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut events = client.events();
    let mut request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.text(id, 0, "a").await;
    peer.text(id, 1, "b").await;
    assert_eq!((text(&mut request).await, text(&mut request).await), ("a".into(), "b".into()));
    drop(peer);
    let lost = event(&mut events).await;
    assert!(
        matches!(&lost, ConnectionEvent::Disconnected { cause: Cause::Closed(1006), retry_in }
        if *retry_in <= Duration::from_millis(750)),
        "{lost:?}"
    );
    assert!(!client.snapshot().connected);
    let waiting = client.invoke(Invoke::chat("meanwhile")).await.expect("waits");

    let mut peer = server.upgrade().await;
    let resume = peer.hello().await.resume.expect("resume");
    assert_eq!((resume.cid.as_str(), resume.token, resume.next), (CID, Secret::new("tok-1"), vec![(id, 2)]));
    peer.agree(r#""resumed":true,"resume":{"token":"tok-2","window_s":60}"#).await;
    assert_eq!(event(&mut events).await, ConnectionEvent::Resumed { lost: vec![] });
    assert_eq!(peer.invoke().await.0, waiting.id());
    peer.text(id, 1, "b").await;
    peer.text(id, 2, "c").await;
    peer.end(id, "complete").await;
    assert_eq!(text(&mut request).await, "c");
    assert!(matches!(next(&mut request).await, Ok(RequestEvent::End(_))));
    // The second token for the second cut.
    peer.close(1012).await;
    let mut peer = server.upgrade().await;
    let resume = peer.hello().await.resume.expect("resume");
    assert_eq!((resume.token, resume.next), (Secret::new("tok-2"), vec![(waiting.id(), 0)]));
    peer.agree(&format!(r#""resumed":true,"lost":[{}]"#, waiting.id())).await;
    assert!(matches!(waiting.collect_text().await, Err(RequestError::Lost(_))));
}

#[tokio::test]
async fn a_final_close_ends_requests_until_reconnect() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut events = client.events();
    let mut request = client.invoke(Invoke::chat("x")).await.expect("invoke");
    peer.invoke().await;
    peer.close(4401).await;
    assert_eq!(event(&mut events).await, ConnectionEvent::Closed { cause: Cause::Closed(4401) });
    assert!(matches!(next(&mut request).await, Err(RequestError::Lost(_))));
    let refused = client.invoke(Invoke::chat("x")).await.err();
    assert_eq!(refused, Some(ClientError::Command(CommandError::Off)));
    assert_eq!(client.renew("fresh").await, Ok(Renewed::NextConnection));
    let (reconnected, peer) = tokio::join!(client.online(), server.accept());
    assert_eq!(reconnected, Ok(()));
    assert_eq!(peer.header("authorization"), Some("Bearer fresh"));
    assert!(client.invoke(Invoke::chat("x")).await.is_ok());
}

#[tokio::test]
async fn goaway_moves_to_the_next_connection() {
    let server = Server::start().await;
    let (client, mut peer) = server.pair(Connect::new(server.url())).await;
    let mut events = client.events();
    let mut running = client.invoke(Invoke::chat("running")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.send(Opcode::Hello, 0, r#"{"op":"goaway","reason":"restart","retry_ms":50}"#).await;
    let retry_in = Duration::from_millis(50);
    assert_eq!(
        event(&mut events).await,
        ConnectionEvent::GoAway { reason: Some("restart".into()), retry_in }
    );
    let held = client.invoke(Invoke::chat("held")).await.expect("waits");
    assert!(peer.is_quiet().await);
    peer.text(id, 0, "last").await;
    peer.end(id, "complete").await;
    assert_eq!(text(&mut running).await, "last");
    let mut next_peer = server.upgrade().await;
    assert!(matches!(peer.receive().await, crate::support::Received::Close(Some(1001))));
    next_peer.hello().await;
    next_peer.agree(r#""resumed":true"#).await;
    assert_eq!(next_peer.invoke().await.0, held.id());
}

#[tokio::test]
async fn ping_and_renewal_are_answered() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).features(Features::STANDARD.with(Feature::Reauth));
    let (client, mut peer) = server.pair(options).await;
    let mut events = client.events();
    let serve = async {
        let nonce = peer.hello().await.nonce.expect("nonce");
        peer.send(Opcode::Hello, 0, &format!(r#"{{"op":"pong","nonce":"{nonce}"}}"#)).await;
    };
    let (pong, ()) = tokio::join!(client.ping(), serve);
    assert!(pong.expect("pong") < Duration::from_secs(5));
    peer.send(Opcode::Error, 0, r#"{"code":2104,"name":"AUTH_EXPIRING","msg":"","retry":false}"#).await;
    assert_eq!(event(&mut events).await, ConnectionEvent::AuthExpiring);
    let serve = async {
        assert_eq!(peer.hello().await.token, Some(Secret::new("fresh")));
        peer.send(Opcode::Hello, 0, r#"{"op":"authed","exp":99}"#).await;
    };
    let (renewed, ()) = tokio::join!(client.renew("fresh"), serve);
    assert_eq!(renewed, Ok(Renewed::Live { expires: Some(99) }));
    let serve = async {
        peer.hello().await;
        peer.send(Opcode::Error, 0, r#"{"code":2103,"name":"FORBIDDEN","msg":"another sub","retry":false}"#)
            .await;
    };
    let (renewed, ()) = tokio::join!(client.renew("other"), serve);
    assert!(matches!(renewed, Err(ClientError::Server(error)) if error.msg == "another sub"));
    // A waiting ping fails with the connection.
    let cut = async {
        peer.hello().await;
        drop(peer);
    };
    let (pong, ()) = tokio::join!(client.ping(), cut);
    assert_eq!(pong, Err(ClientError::Disconnected));
    let mut peer = server.upgrade().await;
    assert_eq!(peer.header("authorization"), Some("Bearer fresh"), "the one that was taken");
    peer.hello().await;
}

#[tokio::test]
async fn a_bare_server_is_served() {
    let server = Server::start().await;
    let options = Connect::new(server.url()).features(Features::BARE);
    let (client, mut peer) = {
        let (client, peer) = tokio::join!(Client::connect(options), server.upgrade());
        (client.expect("connects"), peer)
    };
    let request = client.invoke(Invoke::chat("hi")).await.expect("invoke");
    let id = peer.invoke().await.0;
    peer.send(Opcode::Stream, id, "{A}").await;
    peer.send(Opcode::Stream, id, "").await;
    assert_eq!(soon(request.collect_text()).await.expect("ends").text, "{A}");
}

#[tokio::test]
async fn tls_is_verified() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("certificate");
    let pem = certified.cert.pem().into_bytes();
    let key = tokio_rustls::rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der())
        .expect("key");
    let provider = tokio_rustls::rustls::crypto::ring::default_provider();
    let config = tokio_rustls::rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("config");
    let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
    let server = Server::start().await;
    let url = format!("wss://localhost:{}", server.port());
    let serve = async {
        let stream = acceptor.accept(server.tcp().await).await.expect("tls");
        let mut peer = Peer::upgrade(stream).await;
        peer.hello().await;
        peer.agree("").await;
        peer
    };
    let options = Connect::new(&url).token("t").trust(Trust::Only(pem));
    let (client, _peer) = tokio::join!(Client::connect(options), serve);
    assert!(client.expect("connects").snapshot().connected);
    // Nobody vouches for it here.
    let other = rcgen::generate_simple_self_signed(vec!["other".to_owned()]).expect("certificate");
    let serve = async { acceptor.accept(server.tcp().await).await.is_err() };
    let options = Connect::new(&url).trust(Trust::Only(other.cert.pem().into_bytes()));
    let (client, refused) = tokio::join!(Client::connect(options), serve);
    assert!(matches!(client.err(), Some(ConnectError::Failed(Cause::Unreachable(_)))) && refused);
}
