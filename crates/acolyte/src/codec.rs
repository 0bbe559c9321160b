//! JSON in both directions, and the framing of streams over HTTP (§2.3, §2.4).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::words;
use crate::lenient;
use crate::message::{
    Attach, Capabilities, ChatRequest, ClientMessage, Offer, Reply, RpcId, ServerMessage, StreamEvent,
    Strictness, TaskId,
};

/// A client message that is refused: under which id, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// The id of the message, as far as it could be read.
    pub id: RpcId,
    /// For a person: with the field of the request that is at fault, where it is one that is known here.
    pub why: Cow<'static, str>,
}

/// Reads what a client sent over RPC.
///
/// # Errors
/// It cannot be used; the connection stays as it is.
pub fn decode_client(bytes: &[u8]) -> Result<(RpcId, ClientMessage), Refused> {
    let refused = |id: RpcId| Refused { id, why: words::INVALID.into() };
    let Ok(Value::Object(envelope)) = lenient::read(bytes) else {
        return Err(refused(RpcId::unknown()));
    };
    let Some(id) = envelope.get("id").and_then(Value::as_str).and_then(RpcId::parse) else {
        return Err(refused(RpcId::unknown()));
    };
    match message(&envelope) {
        Ok(message) => Ok((id, message)),
        Err(None) => Err(refused(id)),
        Err(Some(field)) => Err(Refused { id, why: format!("{}: request.{field}", words::INVALID).into() }),
    }
}

/// What it says; otherwise the field of a request that is at fault, if it is one.
fn message(envelope: &Map<String, Value>) -> Result<ClientMessage, Option<&'static str>> {
    if envelope.get("type").and_then(Value::as_str) == Some("chat.start") {
        let request = envelope.get("payload").and_then(|payload| payload.get("request")?.as_object());
        let request = ChatRequest::read(request.ok_or(None)?, Strictness::Rpc)?;
        return Ok(ClientMessage::ChatStart(Box::new(request)));
    }
    other_message(envelope).ok_or(None)
}

fn other_message(envelope: &Map<String, Value>) -> Option<ClientMessage> {
    let payload = envelope.get("payload");
    let fields = || payload.and_then(Value::as_object);
    let text = |key: &str| fields()?.get(key)?.as_str();
    Some(match envelope.get("type")?.as_str()? {
        "status.get" => ClientMessage::StatusGet(Offer {
            version: text("protocol_version").map(str::to_owned),
            capabilities: text("capabilities").map(Capabilities::parse),
        }),
        "chat.abort" => ClientMessage::ChatAbort { request: RpcId::parse(text("requestId")?)? },
        "task.status" => ClientMessage::TaskStatus {
            task: TaskId::parse(text("taskId")?)?,
            session: text("sessionId").map(str::to_owned),
        },
        "chat.attach" => {
            let fields = fields()?;
            let after = match fields.get("after") {
                None => 0,
                Some(after) => after.as_u64()?,
            };
            let task = match fields.get("taskId") {
                None => None,
                Some(task) => Some(TaskId::parse(task.as_str()?)?),
            };
            let session = match fields.get("sessionId") {
                None => None,
                Some(session) => Some(session.as_str()?.to_owned()),
            };
            if task.is_none() && session.is_none() {
                return None;
            }
            ClientMessage::ChatAttach(Attach { task, session, after })
        }
        _ => return None,
    })
}

/// Why a request over HTTP is refused before there is a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It is not JSON.
    #[error("Invalid JSON body")]
    Json,
    /// It is not a request.
    #[error("Invalid request shape")]
    Shape,
    /// This field of it is missing, has not the right shape, or exceeds a limit.
    #[error("Invalid request shape: {0}")]
    Field(&'static str),
}

/// Reads the body of a request over HTTP.
///
/// # Errors
/// It cannot be used.
pub fn decode_request(body: &[u8]) -> Result<ChatRequest, RequestError> {
    let value: Value = lenient::read(body).map_err(|_| RequestError::Json)?;
    let object = value.as_object().ok_or(RequestError::Shape)?;
    ChatRequest::read(object, Strictness::Http)
        .map_err(|field| field.map_or(RequestError::Shape, RequestError::Field))
}

/// Writes what a client sends over RPC.
pub fn encode_client(id: &RpcId, message: &ClientMessage) -> String {
    let mut payload = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            payload.insert(key.to_owned(), value);
        }
    };
    let method = match message {
        ClientMessage::StatusGet(offer) => {
            put("protocol_version", offer.version.clone().map(Value::from));
            put("capabilities", offer.capabilities.as_ref().map(|offered| offered.to_string().into()));
            "status.get"
        }
        ClientMessage::ChatStart(request) => {
            put("request", Some(request.to_json()));
            "chat.start"
        }
        ClientMessage::ChatAbort { request } => {
            put("requestId", Some(request.as_str().into()));
            "chat.abort"
        }
        ClientMessage::TaskStatus { task, session } => {
            put("taskId", Some(task.as_str().into()));
            put("sessionId", session.clone().map(Value::from));
            "task.status"
        }
        ClientMessage::ChatAttach(attach) => {
            put("taskId", attach.task.as_ref().map(|task| task.as_str().into()));
            put("sessionId", attach.session.clone().map(Value::from));
            put("after", (attach.after > 0).then(|| attach.after.into()));
            "chat.attach"
        }
    };
    #[derive(Serialize)]
    struct Envelope<'a> {
        id: &'a RpcId,
        r#type: &'a str,
        #[serde(skip_serializing_if = "Map::is_empty")]
        payload: Map<String, Value>,
    }
    written(&Envelope { id, r#type: method, payload })
}

/// Writes what a server sends over RPC.
pub fn encode_server(id: &RpcId, message: &ServerMessage) -> String {
    #[derive(Serialize)]
    struct Envelope<'a> {
        id: &'a RpcId,
        #[serde(flatten)]
        message: &'a ServerMessage,
    }
    written(&Envelope { id, message })
}

/// Writes one event of a chat. The most frequent of all messages, and so without detours.
pub fn encode_event(id: &RpcId, event: &StreamEvent<'_>, position: Option<u64>) -> String {
    #[derive(Serialize)]
    struct Envelope<'a> {
        id: &'a str,
        r#type: &'static str,
        event: &'a StreamEvent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        position: Option<u64>,
    }
    written(&Envelope { id: id.as_str(), r#type: "chat.event", event, position })
}

/// What a server said, as far as it is understood.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "taken apart where it is made, and never kept")]
pub enum Heard {
    /// A message.
    Message(RpcId, ServerMessage),
    /// A message or event of a later version, or one that does not fit: to be passed over (§11).
    Unknown(Option<RpcId>),
    /// The end of a chat that lacks what an end has to have: nothing else is going to follow (§5.3).
    Spoiled(RpcId),
}

/// Reads what a server sent over RPC.
pub fn decode_server(bytes: &[u8]) -> Heard {
    let Ok(Value::Object(mut envelope)) = serde_json::from_slice::<Value>(bytes) else {
        return Heard::Unknown(None);
    };
    let Some(id) = envelope.get("id").and_then(Value::as_str).and_then(RpcId::parse) else {
        return Heard::Unknown(None);
    };
    envelope.remove("id");
    let is_end = matches!(envelope.get("type").and_then(Value::as_str), Some("chat.done" | "chat.error"));
    match ServerMessage::deserialize(Value::Object(envelope)) {
        Ok(message) => Heard::Message(id, message),
        Err(_) if is_end => Heard::Spoiled(id),
        Err(_) => Heard::Unknown(Some(id)),
    }
}

/// The last frame of a stream over HTTP, when all went well.
pub fn encode_done(reply: &Reply) -> String {
    #[derive(Serialize)]
    struct Done<'a> {
        r#type: &'static str,
        reply: &'a Reply,
    }
    frame(&Done { r#type: "done", reply })
}

/// One frame of a stream over HTTP.
pub fn encode_stream(event: &StreamEvent<'_>) -> String {
    frame(event)
}

/// What a stream over HTTP says to stay alive.
pub const KEEPALIVE: &str = ":\n\n";

fn frame(value: &impl Serialize) -> String {
    let mut bytes = b"data: ".to_vec();
    // Writing to memory cannot fail, and every key is a string.
    let _ = serde_json::to_writer(&mut bytes, value);
    bytes.extend_from_slice(b"\n\n");
    String::from_utf8(bytes).unwrap_or_default()
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What a stream over HTTP says.
#[derive(Clone, Debug, PartialEq)]
pub enum Streamed {
    /// Something happened; a failure among them is the end.
    Event(StreamEvent<'static>),
    /// The chat is over, with an answer.
    Done(Box<Reply>),
}

/// Takes a stream over HTTP apart, however it is cut (§2.4).
#[derive(Debug, Default)]
pub struct StreamReader {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl StreamReader {
    /// Takes in the next piece; answers what is complete with it. Comments, and blocks that cannot
    /// be read, are passed over.
    pub fn push(&mut self, piece: &[u8]) -> Vec<Streamed> {
        let mut said = Vec::new();
        for byte in piece {
            match byte {
                b'\n' => {
                    if self.line.last() == Some(&b'\r') {
                        self.line.pop();
                    }
                    if self.line.is_empty() {
                        said.extend(self.block());
                    } else {
                        self.field();
                    }
                    self.line.clear();
                }
                byte => {
                    if self.line.len() < MAX_DATA {
                        self.line.push(*byte);
                    }
                }
            }
        }
        said
    }

    fn field(&mut self) {
        // A blank at the beginning is one to JSON as well.
        let Some(value) = self.line.strip_prefix(b"data:") else { return };
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        if self.data.len() + value.len() <= MAX_DATA {
            self.data.extend_from_slice(value);
        }
    }

    fn block(&mut self) -> Option<Streamed> {
        let data = std::mem::take(&mut self.data);
        let Ok(Value::Object(mut object)) = serde_json::from_slice::<Value>(&data) else { return None };
        if object.get("type").and_then(Value::as_str) == Some("done") {
            let reply = object.remove("reply")?;
            return Reply::deserialize(reply).ok().map(|reply| Streamed::Done(Box::new(reply)));
        }
        StreamEvent::deserialize(Value::Object(object)).ok().map(Streamed::Event)
    }
}

/// What is longer is cut, and so cannot be read.
const MAX_DATA: usize = 64 << 20;
