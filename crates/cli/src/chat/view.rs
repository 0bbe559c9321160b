//! How a conversation is shown: to people, to programs, or the answer only.

use std::time::Duration;

use super::input::Prompt;
use super::past::Past;
use super::said::{Link, Said};
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
    fn past(&mut self, messages: &[Past]) -> Result<(), Failure>;
    /// Something happened to an answer.
    fn said(&mut self, said: &Said) -> Result<(), Failure>;
    /// Something happened to the connection.
    fn link(&mut self, link: &Link) -> Result<(), Failure>;
    /// A tool of this client wants to run.
    fn consent(&mut self, consent: &Consent) -> Result<(), Failure>;
    /// Something the user should know.
    fn note(&mut self, text: &str) -> Result<(), Failure>;
    /// Something the user has asked to see, line by line.
    fn listing(&mut self, lines: &[String]) -> Result<(), Failure>;
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

    fn past(&mut self, _messages: &[Past]) -> Result<(), Failure> {
        Ok(())
    }

    fn said(&mut self, said: &Said) -> Result<(), Failure> {
        match said {
            Said::Text(text) => match self.reader {
                Reader::Terminal => self.screen.flow("", &harmless(text), "")?,
                Reader::Other => self.screen.flow("", text, "")?,
            },
            Said::Ask(ask) => self.screen.remark(&harmless(&ask.text)),
            Said::Restarted => {
                self.screen.end_line()?;
                self.screen.remark("the answer begins anew");
            }
            Said::End(_) => self.screen.end_line()?,
            Said::Failed(trouble) => {
                self.screen.end_line()?;
                self.screen.remark(&format!("error: {}", harmless(&trouble.words)));
            }
            Said::Notice { text, .. } => self.screen.remark(&harmless(text)),
            Said::Start { .. }
            | Said::Progress(_)
            | Said::Reasoning(_)
            | Said::Tool(_)
            | Said::Call { .. }
            | Said::Checklist(_)
            | Said::Data { .. }
            | Said::Usage(_) => {}
        }
        Ok(())
    }

    fn link(&mut self, link: &Link) -> Result<(), Failure> {
        if let Some(words) = link_words(link, &mut self.lost) {
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

    fn listing(&mut self, lines: &[String]) -> Result<(), Failure> {
        for line in lines {
            self.screen.remark(&harmless(line));
        }
        Ok(())
    }

    fn prompt(&self, what: Wanted) -> Prompt {
        Prompt { plain: what.words().to_owned(), coloured: what.words().to_owned() }
    }
}

/// What to tell a person about the connection, if anything. `lost` remembers what was told.
pub(super) fn link_words(link: &Link, lost: &mut bool) -> Option<String> {
    match link {
        Link::Connected { .. } => std::mem::take(lost).then(|| "connected again".to_owned()),
        Link::Resumed { lost: gone } => {
            *lost = false;
            let words = if *gone == 0 { "connected again, nothing was lost" } else { "connected again" };
            Some(words.to_owned())
        }
        Link::Lost { why, retry_in } => {
            if std::mem::replace(lost, true) {
                return None;
            }
            let retry = if *retry_in < Duration::from_secs(1) {
                "reconnecting…".to_owned()
            } else {
                format!("reconnecting in {}…", clock::short(*retry_in))
            };
            Some(format!("connection lost ({why}); {retry}"))
        }
        Link::Leaving { retry_in, .. } => {
            Some(format!("the server is leaving; this client comes back in {}", clock::short(*retry_in)))
        }
        Link::Expiring => {
            Some("the credential runs out within a minute; get a new one and come back".to_owned())
        }
        Link::Said(Said::Notice { text, .. }) => Some(harmless(text)),
        Link::Trouble(trouble) => Some(harmless(&trouble.words)),
        Link::Said(_) | Link::Over { .. } => None,
    }
}

/// What is to be run.
pub(super) fn consent_words(consent: &Consent) -> String {
    let args = one_line(&consent.args.to_string(), 120);
    format!("the agent wants to run `{}` here, with {args}", harmless(&consent.command))
}
