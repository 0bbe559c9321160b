//! Events to text and back (§6).

use serde::Serialize;
use serde_json::{Map, Value};
use switchboard_core::json;

use crate::error::{Code, Fault};
use crate::message::{ClientEvent, Head, Role, ServerEvent};
use crate::size::is_id;

/// The largest text that is read, in bytes.
pub const MAX_TEXT: usize = 256 << 10;

/// Why a text is no event.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{fault}")]
pub struct Malformed {
    /// `PROTO_MALFORMED` or `PROTO_UNKNOWN_EVENT`.
    pub fault: Fault,
    /// Which event it was, where that much can be read.
    pub head: Option<Ident>,
}

/// What tells an event from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// Its id.
    pub id: String,
    /// Its number.
    pub seq: u64,
}

/// Reads what a client said.
///
/// # Errors
/// It is no event, or none that is known.
pub fn decode_client(text: &str) -> Result<(Head, ClientEvent), Malformed> {
    decode(text, ClientEvent::read)
}

/// Reads what a server said.
///
/// # Errors
/// It is no event, or none that is known.
pub fn decode_server(text: &str) -> Result<(Head, ServerEvent), Malformed> {
    decode(text, ServerEvent::read)
}

/// Writes what a client says.
pub fn encode_client(head: &Head, event: &ClientEvent) -> String {
    encode(head, event.name(), event)
}

/// Writes what a server says.
pub fn encode_server(head: &Head, event: &ServerEvent) -> String {
    encode(head, event.name(), event)
}

fn decode<E>(
    text: &str,
    read: impl FnOnce(&str, Value) -> Option<Result<E, String>>,
) -> Result<(Head, E), Malformed> {
    if text.len() > MAX_TEXT {
        return Err(malformed("the message is too large", None));
    }
    let Ok(Value::Object(mut envelope)) = json::read_str(text, |text| serde_json::from_str(text)) else {
        return Err(malformed("the message is no JSON object", None));
    };
    let ident = ident(&envelope);
    let Some(Value::String(name)) = envelope.remove("type") else {
        return Err(malformed("the message has no type", ident));
    };
    let head = match head(&mut envelope) {
        Ok(head) => head,
        Err(member) => return Err(malformed(format!("{member} is missing or out of bounds"), ident)),
    };
    let data = match envelope.remove("data") {
        None => Value::Object(Map::new()),
        Some(data @ Value::Object(_)) => data,
        Some(_) => return Err(malformed("data is no object", ident)),
    };
    match read(&name, data) {
        Some(Ok(event)) => Ok((head, event)),
        Some(Err(why)) => Err(malformed(why, ident)),
        None => Err(Malformed { fault: Fault::new(Code::ProtoUnknownEvent).about(head.id), head: ident }),
    }
}

fn malformed(why: impl Into<std::borrow::Cow<'static, str>>, head: Option<Ident>) -> Malformed {
    let mut fault = Fault::new(Code::ProtoMalformed).because(why);
    fault.ref_id = head.as_ref().map(|head| head.id.clone());
    Malformed { fault, head }
}

fn ident(envelope: &Map<String, Value>) -> Option<Ident> {
    let id = envelope.get("id")?.as_str().filter(|id| is_id(id))?.to_owned();
    let seq = envelope.get("seq")?.as_u64().filter(|seq| *seq > 0)?;
    Some(Ident { id, seq })
}

/// Everything but the type and the data; the first member that cannot be used otherwise.
fn head(envelope: &mut Map<String, Value>) -> Result<Head, &'static str> {
    let number = |name: &'static str| envelope.get(name).and_then(Value::as_u64).ok_or(name);
    let (seq, ts, state_seq) = (number("seq")?, number("ts")?, number("state_seq")?);
    if seq == 0 {
        return Err("seq");
    }
    let role = match envelope.get("role") {
        None => Role::System,
        Some(role) => role.as_str().and_then(Role::from_name).ok_or("role")?,
    };
    let mut id = |name: &'static str| match envelope.remove(name) {
        None => Ok(None),
        Some(Value::String(id)) if is_id(&id) => Ok(Some(id)),
        Some(_) => Err(name),
    };
    Ok(Head {
        id: id("id")?.ok_or("id")?,
        seq,
        ts,
        state_seq,
        role,
        turn_id: id("turn_id")?,
        response_id: id("response_id")?,
        reply_to: id("reply_to")?,
    })
}

fn encode(head: &Head, name: &'static str, data: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Envelope<'a, D> {
        r#type: &'static str,
        id: &'a str,
        seq: u64,
        ts: u64,
        state_seq: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<Role>,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        response_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        reply_to: Option<&'a str>,
        data: &'a D,
    }
    let envelope = Envelope {
        r#type: name,
        id: &head.id,
        seq: head.seq,
        ts: head.ts,
        state_seq: head.state_seq,
        role: (head.role != Role::System).then_some(head.role),
        turn_id: head.turn_id.as_deref(),
        response_id: head.response_id.as_deref(),
        reply_to: head.reply_to.as_deref(),
        data,
    };
    // Every key is a string and every number finite, so that this cannot fail.
    serde_json::to_string(&envelope).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::matrix::State;

    fn event(name: &str, data: Value) -> Value {
        json!({"type": name, "id": "c-1", "seq": 4, "ts": 5, "state_seq": 6, "data": data})
    }

    fn refused(text: &str) -> Malformed {
        decode_client(text).expect_err(text)
    }

    fn malformed_data(name: &str, data: Value) -> String {
        let refused = refused(&event(name, data).to_string());
        assert_eq!(refused.fault.code, Code::ProtoMalformed, "{name}");
        assert_eq!(refused.head, Some(Ident { id: "c-1".into(), seq: 4 }));
        assert_eq!(refused.fault.ref_id.as_deref(), Some("c-1"));
        refused.fault.message.into_owned()
    }

    #[test]
    fn what_is_no_event_is_malformed() {
        for text in ["", "null", "[]", "\"x\"", "{", "{}", r#"{"type":5}"#] {
            let refused = refused(text);
            assert_eq!((refused.fault.code, refused.head), (Code::ProtoMalformed, None), "{text}");
        }
        let whole = event("session.ping", json!({"nonce": "n"}));
        for (member, value) in [
            ("id", json!("")),
            ("id", json!("x".repeat(41))),
            ("seq", json!(0)),
            ("seq", json!(-1)),
            ("ts", json!("now")),
            ("state_seq", json!(null)),
            ("role", json!("nobody")),
            ("turn_id", json!("")),
            ("response_id", json!(5)),
            ("reply_to", json!("x".repeat(41))),
            ("data", json!([])),
        ] {
            let mut broken = whole.clone();
            broken[member] = value;
            let fault = refused(&broken.to_string()).fault;
            assert_eq!(fault.code, Code::ProtoMalformed);
            assert!(fault.message.contains(member), "{}", fault.message);
        }
        for member in ["id", "seq", "ts", "state_seq"] {
            let mut broken = whole.clone();
            broken.as_object_mut().unwrap().remove(member);
            assert!(refused(&broken.to_string()).fault.message.contains(member));
        }
        let large = event("input.text", json!({"text": "x".repeat(MAX_TEXT)}));
        assert_eq!(refused(&large.to_string()).fault.code, Code::ProtoMalformed);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(refused(&deep).fault.code, Code::ProtoMalformed);
    }

    #[test]
    fn vip_083_unknown_members_are_ignored_and_unknown_events_told_apart() {
        let mut ping = event("session.ping", json!({"nonce": "n", "more": 1}));
        ping["future"] = json!({});
        let (head, read) = decode_client(&ping.to_string()).unwrap();
        assert_eq!((head.seq, head.role, read.name()), (4, Role::System, "session.ping"));

        let refused = refused(&event("session.future", json!({})).to_string());
        assert_eq!((refused.fault.code, refused.fault.fatal), (Code::ProtoUnknownEvent, false));
        assert_eq!(refused.head, Some(Ident { id: "c-1".into(), seq: 4 }));
        // Each side only says what is its own.
        assert_eq!(
            decode_client(&event("server.ready", json!({"context_version": 1})).to_string())
                .unwrap_err()
                .fault
                .code,
            Code::ProtoUnknownEvent
        );
    }

    #[test]
    fn data_that_do_not_fit_are_malformed_and_not_quoted() {
        for (name, data, member) in [
            ("input.start", json!({}), "trigger"),
            ("input.start", json!({"trigger": "secret"}), "trigger"),
            ("input.start", json!({"trigger": "vad", "stream_id": 0}), "stream_id"),
            ("input.start", json!({"trigger": "vad", "stream_id": 32768}), "stream_id"),
            ("input.start", json!({"trigger": "vad", "preroll_ms": 501}), "preroll_ms"),
            ("input.text", json!({"text": "x".repeat(4097)}), "text"),
            ("input.detected", json!({"origin": "client", "confidence": 1.5}), "confidence"),
            ("input.barge_in", json!({"trigger": "vad", "response_id": ""}), "response_id"),
            ("session.ping", json!({"nonce": "x".repeat(33)}), "nonce"),
            ("session.update", json!({"turn_detection": {"silence_ms": 100}}), "turn_detection"),
            ("session.update", json!({"locale": "x".repeat(36)}), "locale"),
            (
                "history.append",
                json!({"items": vec![json!({"id": "h", "role": "user", "kind": "message", "status": "complete", "ts": 1}); 51]}),
                "items",
            ),
            (
                "function.call",
                json!({"invocation_id": "i", "name": "f", "parameters": "secret"}),
                "parameters",
            ),
            ("audio.chunk", json!({"stream_id": 1, "seq": 0, "offset_ms": 0, "audio": "secret!"}), "audio"),
        ] {
            let message = malformed_data(name, data);
            assert!(message.contains(member) && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn results_agree_with_themselves() {
        let result = |status: &str, event: &str, error: Option<Value>| {
            let mut data = json!({
                "invocation_id": "i", "action_id": "a", "status": status, "event": event, "executed": true,
                "duration_ms": 1,
            });
            if let Some(error) = error {
                data["error"] = error;
            }
            data
        };
        let error = || Some(json!({"code": "ACT_EXECUTION_FAILED", "message": "no"}));
        for (status, name, error, member) in [
            ("success", "action.failure", None, "event"),
            ("error", "navigation.success", error(), "event"),
            ("error", "action.failure", None, "error"),
        ] {
            assert!(malformed_data("action.result", result(status, name, error)).contains(member));
        }
        let mut large = result("success", "action.success", None);
        large["data"] = json!("x".repeat(32 << 10));
        assert!(malformed_data("action.result", large).contains("data"));
        let good = event("action.result", result("error", "navigation.failure", error())).to_string();
        assert!(decode_client(&good).is_ok());
    }

    #[test]
    fn vip_021_short_names_are_understood_and_never_said() {
        let report = event(
            "state.report",
            json!({"state": "processing", "previous": "listening", "trigger": "input.end"}),
        );
        let (head, read) = decode_client(&report.to_string()).unwrap();
        let ClientEvent::StateReport(told) = &read else { panic!("{read:?}") };
        assert_eq!((told.state, told.previous), (State::AiThinking, State::UserSpeaking));
        let said = encode_client(&head, &read);
        assert!(
            said.contains("ai_thinking") && said.contains("user_speaking") && !said.contains("processing")
        );

        let invoke = json!({
            "invocation_id": "i", "action_id": "a", "type": "button", "parameters": {}, "context_version": 1,
            "response_id": "r", "timeout_ms": 1000,
        });
        let (head, read) = decode_server(&event("invoke_action", invoke).to_string()).unwrap();
        assert!(encode_server(&head, &read).starts_with(r#"{"type":"action.invoke","#));
    }

    #[test]
    fn the_type_of_an_error_says_whether_it_is_the_end() {
        let error = |name: &str| {
            let data = json!({"code": "REC_MIC_UNAVAILABLE", "category": "recognition", "message": "", "fatal": true, "retryable": false});
            decode_client(&event(name, data).to_string()).unwrap().1
        };
        assert_eq!(error("error.recoverable").name(), "error.recoverable");
        assert_eq!(error("error.fatal").name(), "error.fatal");
        let fatal = ServerEvent::error(&Fault::new(Code::Internal));
        assert_eq!(fatal.name(), "error.fatal");
        assert_eq!(ServerEvent::error(&Fault::new(Code::RecNoSpeech)).name(), "error.recoverable");
    }

    #[test]
    fn roles_are_written_unless_they_are_the_default() {
        let head = Head { id: "s-1".into(), seq: 1, ts: 2, ..Head::default() };
        let ready = ServerEvent::ServerReady(crate::message::ServerReady { context_version: 1 });
        assert_eq!(
            encode_server(&head, &ready),
            r#"{"type":"server.ready","id":"s-1","seq":1,"ts":2,"state_seq":0,"data":{"context_version":1}}"#
        );
        let head = Head {
            role: Role::Assistant,
            turn_id: Some("t".into()),
            response_id: Some("r".into()),
            reply_to: Some("c".into()),
            ..head
        };
        assert_eq!(
            encode_server(&head, &ready),
            r#"{"type":"server.ready","id":"s-1","seq":1,"ts":2,"state_seq":0,"role":"assistant","turn_id":"t","response_id":"r","reply_to":"c","data":{"context_version":1}}"#
        );
    }

    #[test]
    fn half_a_surrogate_pair_is_read_as_a_replacement() {
        let text = event("input.text", json!({"text": "hi X"})).to_string().replace('X', r"\ud83d");
        let whole = event("input.text", json!({"text": "hi \u{fffd}"})).to_string();
        assert_eq!(decode_client(&text), decode_client(&whole));
        assert!(decode_client(&text).is_ok());
    }

    #[test]
    fn what_people_say_is_not_shown_in_logs() {
        let text = event("input.text", json!({"text": "secret"})).to_string();
        assert!(!format!("{:?}", decode_client(&text)).contains("secret"));
        let connect = event(
            "client.connect",
            json!({"session_id": "vs_1", "protocol_version": "0.1", "resume": {"resume_token": "secret", "last_server_seq": 1}}),
        );
        assert!(!format!("{:?}", decode_client(&connect.to_string())).contains("secret"));
    }
}
