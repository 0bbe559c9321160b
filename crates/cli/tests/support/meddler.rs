//! A proxy between a client and a server that does harm: it changes what the server says, or holds it back.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;

/// What to make of a message of the server.
pub(crate) type Meddle = fn(Message) -> Vec<Message>;

/// Passes everything on, and lets `meddle` have its way with messages of the server on WebSockets.
pub(crate) async fn meddling(server: SocketAddr, meddle: Meddle) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4_096];
                let read = client.peek(&mut head).await.unwrap_or_default();
                let upgrade =
                    String::from_utf8_lossy(&head[..read]).to_lowercase().contains("upgrade: websocket");
                if upgrade {
                    messages(client, server, meddle).await;
                } else {
                    let mut upstream = TcpStream::connect(server).await.unwrap();
                    let mut client = client;
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
                }
            });
        }
    });
    address
}

#[expect(clippy::result_large_err, reason = "the shape of the callback")]
async fn messages(client: TcpStream, server: SocketAddr, meddle: Meddle) {
    let mut asked = None;
    let accept = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let offered = request.headers().get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
        if let Some(first) = offered.and_then(|offered| offered.split(',').next()) {
            response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, first.trim().parse().unwrap());
        }
        asked = Some((request.uri().clone(), request.headers().clone()));
        Ok(response)
    };
    let Ok(client) = tokio_tungstenite::accept_hdr_async(client, accept).await else { return };
    let (uri, headers) = asked.unwrap();
    let mut request = format!("ws://{server}{uri}").into_client_request().unwrap();
    for name in ["authorization", "sec-websocket-protocol"] {
        if let Some(value) = headers.get(name) {
            request.headers_mut().insert(name, value.clone());
        }
    }
    let upstream = TcpStream::connect(server).await.unwrap();
    let Ok((upstream, _)) = tokio_tungstenite::client_async(request, upstream).await else { return };
    let (mut to_client, mut from_client) = client.split();
    let (mut to_server, mut from_server) = upstream.split();
    let there = async {
        while let Some(Ok(message)) = from_client.next().await {
            if to_server.send(message).await.is_err() {
                break;
            }
        }
        let _ = to_server.close().await;
    };
    let back = async {
        while let Some(Ok(message)) = from_server.next().await {
            for message in meddle(message) {
                if to_client.send(message).await.is_err() {
                    return;
                }
            }
        }
        let _ = to_client.close().await;
    };
    tokio::join!(there, back);
}

/// Passes everything on, but what the server says in chats only when it has been quiet for a while.
pub(crate) async fn buffering(server: SocketAddr, quiet: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = vec![0; 4_096];
                let read = client.peek(&mut head).await.unwrap_or_default();
                let asked = String::from_utf8_lossy(&head[..read]).into_owned();
                let chat = asked.contains("/v1/chat/stream") || asked.contains("/v1/rpc");
                let quiet = if chat { quiet } else { Duration::ZERO };
                let upstream = TcpStream::connect(server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = upstream.into_split();
                tokio::spawn(async move {
                    let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                });
                let (mut held, mut chunk) = (Vec::new(), vec![0; 65_536]);
                loop {
                    let read = tokio::time::timeout(quiet, from_server.read(&mut chunk)).await;
                    match read {
                        Ok(Ok(0) | Err(_)) => break,
                        Ok(Ok(count)) => held.extend_from_slice(&chunk[..count]),
                        Err(_) if held.is_empty() => tokio::time::sleep(Duration::from_millis(5)).await,
                        Err(_) => {
                            if to_client.write_all(&std::mem::take(&mut held)).await.is_err() {
                                return;
                            }
                        }
                    }
                }
                let _ = to_client.write_all(&held).await;
            });
        }
    });
    address
}

/// Passes everything on, and closes connections on which nothing was said for a while.
pub(crate) async fn closing(server: SocketAddr, silence: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let upstream = TcpStream::connect(server).await.unwrap();
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = upstream.into_split();
                let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
                loop {
                    let passed = tokio::select! {
                        read = from_client.read(&mut there) => match read {
                            Ok(count @ 1..) => to_server.write_all(&there[..count]).await,
                            Ok(0) | Err(_) => return,
                        },
                        read = from_server.read(&mut back) => match read {
                            Ok(count @ 1..) => to_client.write_all(&back[..count]).await,
                            Ok(0) | Err(_) => return,
                        },
                        () = tokio::time::sleep(silence) => return,
                    };
                    if passed.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}
