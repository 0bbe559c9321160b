//! How a conversation is shown: to people, to programs, or the answer only.

use std::time::Duration;

use switchboard_client::asp::{Cause, ConnectionEvent, RequestError, RequestEvent};
use switchboard_core::MessageRow;

use super::input::Prompt;
use super::screen::Screen;
use super::tools::Consent;
use crate::clock;
use crate::console::{harmless, one_line};
use crate::failure::Failure;

/// Shows what happens.
pub(super) trait View {
    /// The conversation begins.
    fn welcome(&mut self, url: &str, session: &str) -> Result<(), Failure>;
    /// What was said before, the newest first.
    fn past(&mut self, messages: &[MessageRow]) -> Result<(), Failure>;
    /// Something happened to an answer.
    fn request(&mut self, event: &RequestEvent) -> Result<(), Failure>;
    /// An answer has no regular end.
    fn failed(&mut self, error: &RequestError) -> Result<(), Failure>;
    /// Something happened to the connection.
    fn connection(&mut self, event: &ConnectionEvent) -> Result<(), Failure>;
    /// A tool of this client wants to run.
    fn consent(&mut self, consent: &Consent) -> Result<(), Failure>;
    /// Something the user should know.
    fn note(&mut self, text: &str) -> Result<(), Failure>;
    /// What stands before a line of the user's.
    fn prompt(&self, what: Wanted) -> Prompt;
}

/// What the user is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Anything.
    Message,
    /// The answer to a question.
    Answer,
    /// Whether a tool may run.
    Consent,
}

impl Wanted {
    /// The words of the prompt.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Message => "> ",
            Self::Answer => "? ",
            Self::Consent => "run it? [y/N] ",
        }
    }
}

/// Answers go to the output, all else to the error stream.
#[derive(Debug)]
pub(super) struct AnswerOnly {
    screen: Screen,
    reader: Reader,
    lost: bool,
}

impl AnswerOnly {
    pub(super) fn new(screen: Screen, reader: Reader) -> Self {
        Self { screen, reader, lost: false }
    }
}

/// Who reads the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A terminal, which must not be steered by what it shows.
    Terminal,
    /// A file or a program, which gets every byte.
    Other,
}

impl View for AnswerOnly {
    fn welcome(&mut self, _url: &str, _session: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn past(&mut self, _messages: &[MessageRow]) -> Result<(), Failure> {
        Ok(())
    }

    fn request(&mut self, event: &RequestEvent) -> Result<(), Failure> {
        match event {
            RequestEvent::Text(text) => match self.reader {
                Reader::Terminal => self.screen.flow("", &harmless(text), "")?,
                Reader::Other => self.screen.flow("", text, "")?,
            },
            RequestEvent::Ask(ask) => self.screen.remark(&harmless(&ask.text)),
            RequestEvent::Restarted => {
                self.screen.end_line()?;
                self.screen.remark("the answer begins anew");
            }
            RequestEvent::End(_) => self.screen.end_line()?,
            RequestEvent::Notice(notice) => self.screen.remark(&harmless(&notice.text)),
            RequestEvent::Start { .. }
            | RequestEvent::Status(_)
            | RequestEvent::Reason(_)
            | RequestEvent::Tool(_)
            | RequestEvent::Call(_)
            | RequestEvent::Data { .. }
            | RequestEvent::Usage(_) => {}
        }
        Ok(())
    }

    fn failed(&mut self, error: &RequestError) -> Result<(), Failure> {
        self.screen.end_line()?;
        self.screen.remark(&format!("error: {}", harmless(&error.to_string())));
        Ok(())
    }

    fn connection(&mut self, event: &ConnectionEvent) -> Result<(), Failure> {
        if let Some(words) = connection_words(event, &mut self.lost) {
            self.screen.remark(&words);
        }
        Ok(())
    }

    fn consent(&mut self, consent: &Consent) -> Result<(), Failure> {
        self.screen.remark(&consent_words(consent));
        Ok(())
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.screen.remark(text);
        Ok(())
    }

    fn prompt(&self, what: Wanted) -> Prompt {
        Prompt { plain: what.words().to_owned(), coloured: what.words().to_owned() }
    }
}

/// What to tell a person about the connection, if anything. `lost` remembers what was told.
pub(super) fn connection_words(event: &ConnectionEvent, lost: &mut bool) -> Option<String> {
    match event {
        ConnectionEvent::Connected { .. } => std::mem::take(lost).then(|| "connected again".to_owned()),
        ConnectionEvent::Resumed { lost: gone } => {
            *lost = false;
            let words = if gone.is_empty() { "connected again, nothing was lost" } else { "connected again" };
            Some(words.to_owned())
        }
        ConnectionEvent::Disconnected { cause, retry_in } => {
            if std::mem::replace(lost, true) {
                return None;
            }
            let retry = if *retry_in < Duration::from_secs(1) {
                "reconnecting…".to_owned()
            } else {
                format!("reconnecting in {}…", clock::short(*retry_in))
            };
            Some(format!("connection lost ({}); {retry}", cause_words(cause)))
        }
        ConnectionEvent::GoAway { retry_in, .. } => {
            Some(format!("the server is leaving; this client comes back in {}", clock::short(*retry_in)))
        }
        ConnectionEvent::AuthExpiring => {
            Some("the credential runs out within a minute; get a new one and come back".to_owned())
        }
        ConnectionEvent::Push(RequestEvent::Notice(notice)) => Some(harmless(&notice.text)),
        ConnectionEvent::Error(error) => {
            Some(format!("{} ({})", harmless(&error.msg), harmless(&error.name)))
        }
        ConnectionEvent::ToolsChanged | ConnectionEvent::Push(_) | ConnectionEvent::Closed { .. } => None,
    }
}

/// Why a connection is gone.
pub(super) fn cause_words(cause: &Cause) -> String {
    match cause {
        Cause::Refused(refused) => match &refused.error {
            Some(error) => format!("refused: {}", harmless(&error.msg)),
            None => format!("refused with HTTP {}", refused.status),
        },
        Cause::Unreachable => "the server cannot be reached".to_owned(),
        Cause::Closed(1006) => "it broke off".to_owned(),
        Cause::Closed(1012) => "the server restarts".to_owned(),
        Cause::Closed(4401) => "the credential is not valid any more".to_owned(),
        Cause::Closed(code) => format!("closed with code {code}"),
        Cause::Silent => "no sign of life".to_owned(),
        Cause::Moved => "the server asked to come back".to_owned(),
        Cause::Violation(violation) => format!("the server broke the protocol: {violation}"),
        Cause::Left => "this client left".to_owned(),
    }
}

/// What is to be run.
pub(super) fn consent_words(consent: &Consent) -> String {
    let args = one_line(&consent.args.to_string(), 120);
    format!("the agent wants to run `{}` here, with {args}", harmless(&consent.command))
}
