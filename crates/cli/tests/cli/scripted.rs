//! Others by rote, for what none of ours does: a server that speaks Acolyte, and a model.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, accept};

/// Answers every chat with the same messages.
pub(crate) struct Scripted {
    pub(crate) url: String,
}

impl Scripted {
    /// Says these, one after another, to whoever starts a chat.
    pub(crate) fn start(script: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let script = script.clone();
                std::thread::spawn(move || serve(stream, &script));
            }
        });
        Self { url }
    }
}

/// Until the client leaves. The admin API, which is asked as well, is not there.
fn serve(stream: TcpStream, script: &[Value]) {
    let Ok(mut socket) = accept(stream) else { return };
    while let Ok(message) = socket.read() {
        let Message::Text(text) = message else { continue };
        let heard: Value = serde_json::from_str(&text).unwrap();
        match heard["type"].as_str().unwrap() {
            "status.get" => {
                let status = json!({"ok": true, "protocol_version": "1", "model": "m", "capabilities": ""});
                say(&mut socket, &heard, json!({"type": "status.result", "status": status}));
            }
            "chat.start" => script.iter().for_each(|said| say(&mut socket, &heard, said.clone())),
            _ => {}
        }
    }
}

fn say(socket: &mut WebSocket<TcpStream>, heard: &Value, mut said: Value) {
    said["id"] = heard["id"].clone();
    // The client may be gone.
    let _ = socket.send(Message::Text(said.to_string().into()));
}

/// A chat that waits, uses a tool that works and one that does not, and ends badly with an answer that
/// was not streamed.
pub(crate) fn queue_then_tools() -> Vec<Value> {
    let event = |event: Value| json!({"type": "chat.event", "event": event});
    let output = |content: Value| {
        event(json!({"type": "tool-output", "toolCallId": "c1", "toolName": "shell-run", "content": content}))
    };
    vec![
        json!({"type": "chat.accepted", "taskId": "task_1"}),
        json!({"type": "chat.queued", "position": 2}),
        json!({"type": "chat.queued", "position": 1}),
        json!({"type": "chat.queued", "position": 1}),
        json!({"type": "chat.started"}),
        event(json!({"type": "notice", "level": "warn", "message": "mind the gap"})),
        event(json!({"type": "tool-call", "toolCallId": "c1", "toolName": "shell-run",
            "args": {"cmd": "echo", "args": ["hi"]}})),
        output(json!({"kind": "tool-header", "labelKey": "tool.label.shell_run", "detail": "echo hi"})),
        output(json!({"kind": "shell-output", "stream": "stdout", "text": "hi there"})),
        event(json!({"type": "tool-result", "toolCallId": "c1", "toolName": "shell-run"})),
        event(json!({"type": "tool-call", "toolCallId": "c2", "toolName": "file-read",
            "args": {"path": "gone.txt"}})),
        event(json!({"type": "tool-result", "toolCallId": "c2", "toolName": "file-read", "isError": true,
            "errorCode": "E_FILE_NOT_FOUND"})),
        json!({"type": "chat.done", "reply": {"output": "That file is missing.", "outputStreamed": false,
            "model": "m", "error": "the model gave up"}}),
    ]
}

/// A model that says back whatever it is told, so that its answer depends on the history.
pub(crate) struct Model {
    /// Its address, as an agent wants to know it.
    pub(crate) base_url: String,
}

impl Model {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || repeat(stream));
            }
        });
        Self { base_url }
    }
}

/// One request, and an answer of all the messages in it.
fn repeat(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request: Value = serde_json::from_slice(&body).unwrap();
    let told: Vec<String> = request["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
        })
        .collect();
    let chunk = |delta: Value, finish: Option<&str>| {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        format!("data: {chunk}\n\n")
    };
    let answer = chunk(json!({"content": told.join("; ")}), None) + &chunk(json!({}), Some("stop"));
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{answer}data: [DONE]\n\n").ok()
}
