//! The yardstick: answers messages with the envelopes that our server would send for them, straight from
//! memory.

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use switchboard_alicia::message::{Acknowledgement, AssistantSentence, StartAnswer};
use switchboard_alicia::{AliciaLimits, Body, Decoded, Dialect, Envelope, Id, Side, decode, encode};
use switchboard_core::Pii;
use tokio::sync::mpsc;

use super::client::configuration;
use crate::bench::servers::{Load, sentence};

/// Serves one connection; its conversations speak side by side.
pub(in crate::bench) async fn bare_loop(mut socket: WebSocket) {
    let (say, mut said) = mpsc::channel::<Bytes>(1024);
    let (limits, mut conversations) = (AliciaLimits::default(), 0);
    loop {
        let message = tokio::select! {
            message = socket.recv() => message,
            Some(bytes) = said.recv() => {
                if socket.send(Message::Binary(bytes)).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(Ok(message)) = message else { return };
        let Message::Binary(bytes) = message else { continue };
        for decoded in decode(&bytes, Side::Client, Dialect::Full, &limits) {
            let Ok(Decoded::Full { envelope, .. }) = decoded else { return };
            conversations += 1;
            let Ok(own) = Id::new(format!("ac_{conversations}")) else { return };
            tokio::spawn(answer(*envelope, own, say.clone()));
        }
    }
}

async fn answer(asked: Envelope, own: Id, say: mpsc::Sender<Bytes>) {
    let conversation = asked.conversation_id.unwrap_or(own);
    let send = async |stanza: i32, body: Body| {
        let envelope = Envelope::new(Some(conversation.clone()), body).numbered(stanza);
        // Nobody listens any more.
        let _ = say.send(encode(&envelope)).await;
    };
    let Body::UserMessage(message) = asked.body else {
        return send(0, configuration(None).into()).await;
    };
    let Some(load) = Load::parse(&message.content.0) else { return };
    let acknowledged = Acknowledgement { acknowledged_stanza_id: asked.stanza_id, success: true };
    send(0, acknowledged.into()).await;
    let start = StartAnswer {
        id: message.id.clone(),
        previous_id: message.id.clone(),
        answer_type: None,
        planned_sentence_count: None,
    };
    send(-1, start.into()).await;
    let mut pace = load.pace();
    for number in 1..=load.count {
        pace.next().await;
        let text = format!("A{}", sentence(&load));
        send(-1, piece(&message.id, number, text, false)).await;
    }
    send(-1, piece(&message.id, load.count + 1, String::new(), true)).await;
}

fn piece(answer: &Id, sequence: u32, text: String, is_final: bool) -> Body {
    let sentence = AssistantSentence {
        id: None,
        previous_id: answer.clone(),
        sequence,
        text: Pii(text),
        is_final,
        audio: None,
    };
    sentence.into()
}
