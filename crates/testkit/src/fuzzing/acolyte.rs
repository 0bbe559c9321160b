//! Acolyte: bytes to messages and back, and anything that can happen to a connection.

use std::collections::VecDeque;

use bytes::Bytes;
use switchboard_acolyte::codec::{
    Heard, StreamReader, Streamed, decode_client, decode_request, decode_server, encode_client, encode_done,
    encode_server, encode_stream,
};
use switchboard_acolyte::{Acolyte, AcolyteLimits, Service, TaskId};
use switchboard_core::{Frame, OpeningRequest, Seed, TurnId};

use super::Choices;
use super::connection::Bench;

/// Reads bytes as both sides would; what was understood is written and read again, and has to be the
/// same. A stream over HTTP says the same however it is cut.
///
/// # Panics
/// Something is broken.
pub fn acolyte_decode(bytes: &[u8]) {
    if let Ok((id, message)) = decode_client(bytes) {
        let again = encode_client(&id, &message);
        assert_eq!(decode_client(again.as_bytes()), Ok((id, message)), "a message is read as it was written");
    }
    if let Heard::Message(id, message) = decode_server(bytes) {
        let again = encode_server(&id, &message);
        let heard = Heard::Message(id, message);
        assert_eq!(decode_server(again.as_bytes()), heard, "a message is read as it was written");
    }
    let _ = decode_request(bytes);
    let (cut, body) = bytes.split_first().map_or((0, bytes), |(first, rest)| (usize::from(*first), rest));
    let said = StreamReader::default().push(body);
    let (first, second) = body.split_at(cut.min(body.len()));
    let mut reader = StreamReader::default();
    let mut pieces = reader.push(first);
    pieces.extend(reader.push(second));
    assert_eq!(pieces, said, "a stream says the same however it is cut");
    let written: String = said
        .iter()
        .map(|said| match said {
            Streamed::Event(event) => encode_stream(event),
            Streamed::Done(reply) => encode_done(reply),
        })
        .collect();
    assert_eq!(StreamReader::default().push(written.as_bytes()), said, "and what it said can be said again");
}

/// Feeds a connection frames, answers, events, time, pressure and goodbyes in any order that a server
/// could. It always comes to rest, is silent after it has closed, and stays small.
///
/// # Panics
/// Something is broken.
pub fn acolyte_connection(bytes: &[u8]) {
    let limits = AcolyteLimits { queue: 3, attached: 3, tasks: 5, ..AcolyteLimits::default() };
    let service = Service { deny_questions: bytes.len().is_multiple_of(2), ..Service::default() };
    let acolyte = Acolyte::new(limits, service);
    let stream = bytes.first().is_some_and(|first| *first >= 0xf0);
    let path = if stream { "/v1/chat/stream" } else { "/v1/rpc" };
    let request = OpeningRequest { path, websocket: !stream, ..OpeningRequest::default() };
    Bench::new(&acolyte, request, likely_frame).run(bytes);
}

/// A frame that makes sense, most of the time.
fn likely_frame(choices: &mut Choices<'_>, _said: &VecDeque<Bytes>, _number: u64) -> Frame {
    let messages = [
        r#"{"id":"rpc_ID","type":"chat.start","payload":{"request":{"message":"hi","history":[],"model":"m"}}}"#,
        r#"{"id":"rpc_ID","type":"chat.start","payload":{"request":{"message":"hi","history":[],"model":"m","sessionId":"sess_s"}}}"#,
        r#"{"id":"rpc_ID","type":"chat.start","payload":{"request":{"message":"hi","history":[],"model":"m","sessionId":"sess_s"}}}"#,
        r#"{"id":"rpc_ID","type":"chat.start","payload":{"request":{"message":"hi","history":[5],"model":"m"}}}"#,
        r#"{"id":"rpc_xID","type":"chat.abort","payload":{"requestId":"rpc_ID"}}"#,
        r#"{"id":"rpc_xID","type":"chat.abort","payload":{"requestId":"rpc_ID"}}"#,
        r#"{"id":"rpc_ID","type":"status.get"}"#,
        r#"{"id":"rpc_ID","type":"status.get","payload":{"protocol_version":"1","capabilities":"task.resume"}}"#,
        r#"{"id":"rpc_ID","type":"status.get","payload":{"protocol_version":"9"}}"#,
        r#"{"id":"rpc_ID","type":"task.status","payload":{"taskId":"task_1"}}"#,
        r#"{"id":"rpc_ID","type":"chat.attach","payload":{"sessionId":"sess_s"}}"#,
        r#"{"id":"rpc_ID","type":"chat.attach","payload":{"sessionId":"sess_s","after":9}}"#,
        r#"{"id":"rpc_ID","type":"chat.attach","payload":{"sessionId":"sess_none"}}"#,
        r#"{"id":"rpc_ID","type":"chat.attach","payload":{"taskId":"task_FIRST","sessionId":"sess_s"}}"#,
        r#"{"message":"hi","history":[],"model":"m"}"#,
        r"{oops",
    ];
    let message = choices.pick(&messages).unwrap_or_default();
    let id = choices.below(4).to_string();
    // The seed is always the same, and so are the first tasks.
    let turn = TurnId::fresh(&Seed::new([7; 32]), u64::from(choices.below(4)) + 1);
    let text = message.replace("ID", &id).replace("task_FIRST", TaskId::of(&turn).as_str());
    if choices.byte() & 1 == 0 { Frame::Text(text) } else { Frame::Binary(Bytes::from(text)) }
}
