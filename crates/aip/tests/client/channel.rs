//! AIP-080, AIP-081, and the middleware that is there to be used.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use switchboard_aip::client::{
    Auth, Channel, Direction, Logging, Message, Metrics, Middleware, ReceiveError, Refused,
};
use switchboard_aip::codec::{decode_client, encode_client};
use switchboard_aip::message::*;

use crate::support::object;

type Trace = Arc<Mutex<Vec<String>>>;

#[derive(Debug)]
struct Step {
    name: &'static str,
    trace: Trace,
    refuses: bool,
}

impl Step {
    fn see(&self, way: &str, message: Message) -> Result<Message, Refused> {
        self.trace.lock().unwrap().push(format!("{way} {}", self.name));
        if self.refuses {
            return Err(Refused(self.name.to_owned()));
        }
        // Each sees what the one before has made of it.
        Ok(match message {
            Message::Client(mut message) => {
                message.request = Some(message.request.unwrap_or_default() + self.name);
                message.into()
            }
            Message::Server(mut message) => {
                message.user_request = Some(message.user_request.unwrap_or_default() + self.name);
                message.into()
            }
        })
    }
}

impl Middleware for Step {
    fn outgoing(&mut self, message: Message) -> Result<Message, Refused> {
        self.see("out", message)
    }

    fn incoming(&mut self, message: Message) -> Result<Message, Refused> {
        self.see("in", message)
    }
}

fn steps(refusing: Option<&str>) -> (Channel, Trace) {
    let trace = Trace::default();
    let mut channel = Channel::default();
    for name in ["a", "b", "c"] {
        channel.middleware.add(Step { name, trace: trace.clone(), refuses: refusing == Some(name) });
    }
    (channel, trace)
}

fn task() -> ClientMessage {
    ClientMessage::new(ClientMessageType::Task, TaskStatus::Continue)
}

#[test]
fn aip_080_middleware_runs_in_order_on_the_way_out_and_in_reverse_on_the_way_in() {
    let (mut channel, trace) = steps(None);
    let text = channel.send(task()).unwrap();
    assert_eq!(decode_client(&text).unwrap().request.as_deref(), Some("abc"));
    let heard = channel.receive_from_server(r#"{"type":"task","status":"continue"}"#).unwrap();
    assert!(matches!(&heard, Message::Server(message) if message.user_request.as_deref() == Some("cba")));
    let heard = channel.receive_from_client(r#"{"type":"task","status":"continue"}"#).unwrap();
    assert!(matches!(&heard, Message::Client(message) if message.request.as_deref() == Some("cba")));
    let expected = ["out a", "out b", "out c", "in c", "in b", "in a", "in c", "in b", "in a"];
    assert_eq!(*trace.lock().unwrap(), expected);
}

#[test]
fn a_refusal_stops_the_message_and_those_behind_do_not_see_it() {
    let (mut channel, trace) = steps(Some("b"));
    assert_eq!(channel.send(task()), Err(Refused("b".to_owned())));
    assert_eq!(*trace.lock().unwrap(), ["out a", "out b"]);
    trace.lock().unwrap().clear();
    let heard = channel.receive_from_server(r#"{"type":"task","status":"continue"}"#);
    assert_eq!(heard, Err(ReceiveError::Refused(Refused("b".to_owned()))));
    assert_eq!(*trace.lock().unwrap(), ["in c", "in b"]);
    trace.lock().unwrap().clear();
    assert!(matches!(channel.receive_from_server("{"), Err(ReceiveError::Decode(_))));
    assert_eq!(*trace.lock().unwrap(), [""; 0]);
}

#[test]
fn aip_081_handlers_run_in_order_and_one_that_fails_stops_nobody() {
    let trace = Trace::default();
    let mut channel = Channel::default();
    for (name, kind, fails) in
        [("1", "task", false), ("2", "task", true), ("3", "task", false), ("4", "error", false)]
    {
        let trace = trace.clone();
        channel.handlers.register(kind, move |message| {
            trace.lock().unwrap().push(format!("{name} {}", message.kind()));
            if fails { Err(name.into()) } else { Ok(()) }
        });
    }
    let dispatched = channel.dispatch(&task().into());
    assert_eq!(*trace.lock().unwrap(), ["1 task", "2 task", "3 task"]);
    assert_eq!(dispatched.ran, 3);
    assert_eq!(dispatched.failures.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2"]);
    // Nobody cares: that is reported.
    let end = ServerMessage::new(ServerMessageType::TaskEnd, TaskStatus::Completed);
    assert_eq!(channel.dispatch(&end.into()).ran, 0);
    let error = ServerMessage::new(ServerMessageType::Error, TaskStatus::Error);
    assert_eq!(channel.dispatch(&error.into()).ran, 1);
}

#[test]
fn logging_tells_what_passes_and_not_what_it_says() {
    let lines = Trace::default();
    let mut channel = Channel::default();
    let sink = lines.clone();
    channel.middleware.add(Logging::new(move |line| sink.lock().unwrap().push(format!("{line:?}"))));
    let secret = ClientMessage {
        request: Some("s3cret".to_owned()),
        session_id: Some("s".to_owned()),
        request_id: Some("r".to_owned()),
        metadata: Some(object(json!({"k": "s3cret"}))),
        error: Some("s3cret".to_owned()),
        ..task()
    };
    let text = channel.send(secret).unwrap();
    channel.receive_from_server(r#"{"type":"command","status":"ok","result":"s3cret"}"#).unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.iter().all(|line| !line.contains("s3cret")), "{lines:?}");
    assert_eq!(
        lines[0],
        format!(
            r#"LogLine {{ direction: Outgoing, kind: "task", status: Continue, session_id: Some("s"), id: Some("r"), bytes: {} }}"#,
            text.len()
        )
    );
    assert!(lines[1].contains(r#"direction: Incoming, kind: "command", status: Ok"#));
}

#[test]
fn metrics_count_by_type_and_direction() {
    let metrics = Metrics::default();
    let mut channel = Channel::default();
    channel.middleware.add(metrics.clone());
    channel.send(task()).unwrap();
    channel.send(task()).unwrap();
    channel.receive_from_server(r#"{"type":"task","status":"ok"}"#).unwrap();
    channel.receive_from_server(r#"{"type":"heartbeat","status":"ok"}"#).unwrap();
    let (out, into) = (Direction::Outgoing, Direction::Incoming);
    let counts = [metrics.count(out, "task"), metrics.count(into, "task"), metrics.count(into, "heartbeat")];
    assert_eq!(counts, [2, 1, 1]);
    assert_eq!([metrics.count(out, "heartbeat"), metrics.total(out), metrics.total(into)], [0, 2, 2]);
}

#[test]
fn auth_shows_a_token_and_asks_for_it() {
    let mut client = Channel::default();
    client.middleware.add(Auth::new("k3y"));
    let kept = ClientMessage { metadata: Some(object(json!({"a": 1}))), ..task() };
    let text = client.send(kept).unwrap();
    let metadata = decode_client(&text).unwrap().metadata.unwrap();
    assert_eq!(Value::Object(metadata), json!({"a": 1, "token": "k3y"}));
    let mut server = Channel::default();
    server.middleware.add(Auth::new("k3y"));
    assert!(server.receive_from_client(&text).is_ok());
    for wrong in
        [json!(null), json!({}), json!({"token": "k3z"}), json!({"token": "k3"}), json!({"token": 5})]
    {
        let metadata = wrong.as_object().cloned();
        let text = encode_client(&ClientMessage { metadata, ..task() });
        assert!(matches!(server.receive_from_client(&text), Err(ReceiveError::Refused(_))), "{wrong}");
    }
    // A server has nowhere to put it.
    assert!(client.receive_from_server(r#"{"type":"task","status":"ok"}"#).is_ok());
    assert!(!format!("{:?}", Auth::new("k3y")).contains("k3y"));
}
