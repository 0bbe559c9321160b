//! A small server of ASP that is wrong on purpose, in a few statements and in no others that are tried.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// Serves until the test is over.
pub(crate) async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream));
        }
    });
    address
}

fn frame(opcode: u8, id: u16, value: &Value) -> Vec<u8> {
    let payload = if value.is_null() { Vec::new() } else { value.to_string().into_bytes() };
    let mut bytes = vec![0x10 | opcode, 0];
    bytes.extend(id.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[expect(clippy::result_large_err, reason = "the shape of the callback")]
async fn connection(stream: TcpStream) {
    // Wrong (ASP-004): whatever is offered, or nothing, is let in.
    let accept = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        if request.headers().contains_key("sec-websocket-protocol") {
            response.headers_mut().insert("sec-websocket-protocol", "asp-v1".parse().unwrap());
        }
        Ok(response)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, accept).await else { return };
    let mut greeted = false;
    while let Some(Ok(message)) = socket.next().await {
        let (answers, close) = match message {
            Message::Binary(bytes) => answer(&bytes, &mut greeted),
            // Wrong (ASP-009): the code.
            Message::Text(_) => (Vec::new(), Some(1000)),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => (Vec::new(), None),
            Message::Close(_) => break,
        };
        for bytes in answers {
            let _ = socket.send(Message::binary(bytes)).await;
        }
        if let Some(code) = close {
            let _ = socket.close(Some(CloseFrame { code: u16::into(code), reason: "".into() })).await;
        }
    }
}

/// What is answered to a message, and how the connection is closed after it.
fn answer(bytes: &[u8], greeted: &mut bool) -> (Vec<Vec<u8>>, Option<u16>) {
    let (version, opcode, id) = (bytes[0] >> 4, bytes[0] & 0x0f, u16::from_be_bytes([bytes[2], bytes[3]]));
    let payload: Value = serde_json::from_slice(&bytes[8..]).unwrap_or_default();
    if version != 1 {
        // Wrong (ASP-003): the code of the error.
        return (vec![frame(6, 0, &json!({ "code": 2000, "fatal": true }))], Some(4406));
    }
    match opcode {
        1 if *greeted => (vec![frame(6, 0, &json!({ "code": 2012 }))], None),
        1 => {
            *greeted = true;
            // Wrong (ASP-021): something that was not offered.
            let mut features = payload["features"].as_array().cloned().unwrap_or_default();
            features.push("telepathy".into());
            let accept = json!({ "op": "accept", "cid": "0123456789abcdef", "features": features, "enc": "json",
                "limits": { "max_payload": 1_048_576, "max_message": 2_097_152, "max_inflight": 64 } });
            (vec![frame(1, 0, &accept)], None)
        }
        2 if *greeted => {
            let end = frame(3, id, &json!({ "t": "end", "finish": "complete" }));
            // Wrong (ASP-029): two ends.
            (vec![frame(3, id, &json!({ "t": "text", "d": "hello" })), end.clone(), end], None)
        }
        2 => {
            let mut delta = frame(3, id, &Value::Null);
            delta[7] = 2;
            delta.extend(b"hi");
            (vec![delta, frame(3, id, &Value::Null)], None)
        }
        // Wrong (ASP-015): the code.
        _ => (vec![frame(6, 0, &json!({ "code": 2003, "ref": id }))], None),
    }
}
