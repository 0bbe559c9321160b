//! What the user is told of one chat, whichever transport brings it.

use std::borrow::Cow;

use super::{ChatEvent, Ending};
use crate::error::{Code, ErrorBody};
use crate::message::{ListSnapshot, Reply, StreamEvent};

/// What was told already, as far as it decides what is told next.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Text other than blanks was told.
    spoke: bool,
    /// The last list, and the name it came under.
    list: Option<(ListName, ListSnapshot)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListName {
    Checklist,
    Tasklist,
}

impl Telling {
    /// What an event adds; none if nothing.
    pub(super) fn hear(&mut self, event: StreamEvent<'static>) -> Option<ChatEvent> {
        let event = match event {
            StreamEvent::TextDelta { text } => StreamEvent::TextDelta { text: self.text(text)? },
            StreamEvent::Checklist(list) => StreamEvent::Checklist(self.list(ListName::Checklist, list)?),
            StreamEvent::Tasklist(list) => StreamEvent::Checklist(self.list(ListName::Tasklist, list)?),
            event @ (StreamEvent::Status { .. }
            | StreamEvent::Reasoning { .. }
            | StreamEvent::ToolCall { .. }
            | StreamEvent::ToolOutput { .. }
            | StreamEvent::ToolResult { .. }
            | StreamEvent::Usage { .. }
            | StreamEvent::Error(_)
            | StreamEvent::Notice { .. }
            | StreamEvent::SkillActivated { .. }
            | StreamEvent::SkillDeactivated { .. }) => event,
        };
        Some(ChatEvent::Stream(event))
    }

    /// Blanks before the first word only keep steps apart (E4).
    fn text(&mut self, text: Cow<'static, str>) -> Option<Cow<'static, str>> {
        if self.spoke {
            return Some(text).filter(|text| !text.is_empty());
        }
        let begin = text.trim_start();
        if begin.is_empty() {
            return None;
        }
        self.spoke = true;
        Some(if begin.len() == text.len() { text } else { Cow::Owned(begin.to_owned()) })
    }

    /// A list comes under both of its names, and is one event nevertheless (R4).
    fn list(&mut self, name: ListName, list: ListSnapshot) -> Option<ListSnapshot> {
        let repeated = |(known, last): &(ListName, ListSnapshot)| *known != name && *last == list;
        if self.list.as_ref().is_some_and(repeated) {
            return None;
        }
        self.list = Some((name, list.clone()));
        Some(list)
    }
}

/// The end of a chat with a reply, and what has to be told before.
pub(super) fn done(reply: Box<Reply>) -> (Option<ChatEvent>, Ending) {
    let unheard = !reply.output_streamed && !reply.output.is_empty();
    let output =
        unheard.then(|| ChatEvent::Stream(StreamEvent::TextDelta { text: Cow::Owned(reply.output.clone()) }));
    let ending = match &reply.error {
        None => Ending::Done(reply),
        Some(message) => {
            let error =
                ErrorBody { error_message: message.clone(), error_id: None, error_code: None, error: None };
            Ending::Failed { error, reply: Some(reply) }
        }
    };
    (output, ending)
}

/// The end of a chat without a reply, which is the user's doing if it was asked for.
pub(super) fn failed(error: ErrorBody, abort_asked: bool) -> Ending {
    if abort_asked && error.error_code.as_deref() == Some(Code::ABORTED.as_str()) {
        Ending::Aborted
    } else {
        Ending::Failed { error, reply: None }
    }
}

/// What went wrong where the server's last message cannot be read.
pub(super) fn unusable() -> ErrorBody {
    let error_message = "the server has ended the chat with a message that cannot be used".to_owned();
    ErrorBody { error_message, error_id: None, error_code: None, error: None }
}
