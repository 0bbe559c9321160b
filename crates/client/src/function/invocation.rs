//! What a relay asks, as a function reads it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use switchboard_asp::codec;
use switchboard_asp::error::DecodeError;
use switchboard_asp::message::{Input, Invoke, InvokeBody, Kind, Part};
use switchboard_asp::relay::{self, Answer, Answered, Event, Payload, Principal};
use switchboard_asp::value::{Map, Value};

/// A request to a function, verified and read. Clones share it.
#[derive(Clone, PartialEq)]
pub struct Invocation {
    body: Arc<relay::Invocation>,
    invoke: Option<Arc<Invoke>>,
}

impl Invocation {
    /// Reads what the client sent.
    ///
    /// # Errors
    /// An `invoke` whose payload is no INVOKE.
    pub fn new(body: relay::Invocation) -> Result<Self, DecodeError> {
        let payload = body.payload.clone().map(|payload| match payload {
            Payload::Json(Value::Str(text)) => codec::Payload::Text(text),
            Payload::Json(value) => codec::Payload::Value(value),
            Payload::Bytes(bytes) => codec::Payload::Raw(bytes),
        });
        let invoke = match (payload.map(Invoke::from_payload), body.event) {
            (Some(Err(error)), Event::Invoke) => return Err(error),
            // What other events repeat of it is for information.
            (read, _) => read.and_then(Result::ok),
        };
        Ok(Self { body: Arc::new(body), invoke: invoke.map(Arc::new) })
    }

    /// Why the function is called.
    pub fn event(&self) -> Event {
        self.body.event
    }

    /// The invocation; the same over attempts and legs.
    pub fn inv(&self) -> &str {
        &self.body.inv
    }

    /// The connection.
    pub fn cid(&self) -> &str {
        &self.body.cid
    }

    /// The request.
    pub fn rid(&self) -> u16 {
        self.body.rid
    }

    /// How often the function was continued.
    pub fn leg(&self) -> u32 {
        self.body.leg
    }

    /// Counts from 1 within a leg.
    pub fn attempt(&self) -> u32 {
        self.body.attempt
    }

    /// What kind of INVOKE it is; none if the relay does not repeat it.
    pub fn kind(&self) -> Option<Kind> {
        self.invoke.as_ref().map(|invoke| invoke.body.kind())
    }

    /// The text of a chat, that of several parts joined; none for other kinds.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match &self.invoke.as_ref()?.body {
            InvokeBody::Chat(Input::Text(text)) => Some(text.into()),
            InvokeBody::Chat(Input::Parts(parts)) => Some(joined(parts).into()),
            InvokeBody::Tool { .. }
            | InvokeBody::Step(_)
            | InvokeBody::Result(_)
            | InvokeBody::Reply(_)
            | InvokeBody::List
            | InvokeBody::Watch { .. } => None,
        }
    }

    /// The whole INVOKE: parts, tools, steps.
    pub fn invoke(&self) -> Option<&Invoke> {
        self.invoke.as_deref()
    }

    /// What the client wanted to reach the function as it is.
    pub fn meta(&self) -> Option<&Map> {
        self.invoke.as_ref()?.meta.as_ref()
    }

    /// The conversation.
    pub fn session(&self) -> Option<&str> {
        let asked = self.invoke.as_ref().and_then(|invoke| invoke.session.as_deref());
        self.body.session.as_deref().or(asked)
    }

    /// The agent that is meant.
    pub fn agent(&self) -> Option<&str> {
        let asked = self.invoke.as_ref().and_then(|invoke| invoke.agent.as_deref());
        self.body.agent.as_deref().or(asked)
    }

    /// Who asks; the relay has checked.
    pub fn principal(&self) -> Option<&Principal> {
        self.body.principal.as_ref()
    }

    /// How much time was left when the relay sent it.
    pub fn time_left(&self) -> Option<Duration> {
        self.body.deadline_ms.map(Duration::from_millis)
    }

    /// With `continue`: what the function had left for itself.
    pub fn state(&self) -> Option<&Value> {
        self.body.state.as_ref()
    }

    /// With `continue`: what it had waited for.
    pub fn answers(&self) -> &[Answer] {
        &self.body.answers
    }

    /// With `continue`: the answer to the call or the question of this id.
    pub fn answer_to(&self, id: &str) -> Option<&Answer> {
        self.body.answers.iter().find(|answer| answers(answer, id))
    }

    /// What was said before, oldest first, if the relay is configured to tell.
    pub fn history(&self) -> &[relay::Said] {
        &self.body.history
    }

    /// Index of the first record of the answer.
    pub fn next_n(&self) -> u64 {
        self.body.next_n.unwrap_or(0)
    }

    /// Everything the relay said.
    pub fn body(&self) -> &relay::Invocation {
        &self.body
    }
}

/// Shows what identifies it, not what is in it.
impl fmt::Debug for Invocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.body.fmt(formatter)
    }
}

/// Whether it answers the call or the question of this id.
pub(super) fn answers(answer: &Answer, id: &str) -> bool {
    match &answer.content {
        Answered::Call { call_id, .. } => call_id == id,
        Answered::Ask { ask_id, .. } => ask_id == id,
    }
}

fn joined(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Data { .. } | Part::Ref { .. } => None,
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Invocation {
        let body = relay::Invocation::from_json(body.as_bytes()).expect("a body");
        Invocation::new(body).expect("an invocation")
    }

    #[test]
    fn text_is_found_in_every_form_of_a_chat() {
        for payload in [
            r#""payload":"hi there""#,
            r#""payload":{"input":"hi there"}"#,
            r#""payload":{"kind":"chat","prompt":"hi there"}"#,
            r#""payload":[{"type":"text","text":"hi "},{"type":"ref","uri":"x:y"},{"type":"text","text":"there"}]"#,
            r#""payload_b64":"aGkgdGhlcmU=""#,
        ] {
            let invocation = read(&format!(r#"{{"event":"invoke","cid":"c","inv":"i",{payload}}}"#));
            assert_eq!(invocation.text().as_deref(), Some("hi there"), "{payload}");
            assert_eq!(invocation.kind(), Some(Kind::Chat), "{payload}");
        }
    }

    #[test]
    fn other_kinds_have_no_text() {
        let payload = r#"{"kind":"tool","tool":"clock","args":{},"meta":{"a":1},"session":"s1"}"#;
        let invocation = read(&format!(r#"{{"event":"invoke","cid":"c","inv":"i","payload":{payload}}}"#));
        assert_eq!((invocation.text(), invocation.kind()), (None, Some(Kind::Tool)));
        assert_eq!(invocation.session(), Some("s1"));
        assert_eq!(invocation.meta().and_then(|meta| meta.get_int("a")), Some(1));
    }

    #[test]
    fn a_continue_needs_no_payload_and_gives_its_answers_by_id() {
        let invocation = read(
            r#"{"event":"continue","leg":1,"cid":"c","inv":"i","state":{"a":1},"next_n":3,
                "answers":[{"k":1,"ask_id":"q","ok":true,"text":"yes"}]}"#,
        );
        assert_eq!((invocation.leg(), invocation.next_n(), invocation.kind()), (1, 3, None));
        assert!(invocation.answer_to("q").is_some_and(|answer| answer.ok));
        assert!(invocation.answer_to("other").is_none());
    }

    #[test]
    fn debug_shows_no_content() {
        let invocation = read(r#"{"event":"invoke","cid":"c","inv":"i","payload":{"input":"hush"}}"#);
        assert!(!format!("{invocation:?}").contains("hush"));
    }
}
