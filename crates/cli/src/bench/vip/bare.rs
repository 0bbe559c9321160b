//! The yardstick: a WebSocket that sends every frame back.

use axum::extract::ws::{Message, WebSocket};

/// Where it is.
pub(in crate::bench) const PATH: &str = "/bare/vip";

/// Serves one connection.
pub(in crate::bench) async fn bare_loop(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Binary(_)) && socket.send(message).await.is_err() {
            return;
        }
    }
}
