//! A conversation for people: the answer flows, everything else stays out of its way.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_client::asp::{
    ConnectionEvent, End, Finish, Phase, RequestError, RequestEvent, State, Status, ToolActivity, Usage,
};
use switchboard_core::model::{Author, Checklist};
use switchboard_core::{MessageRow, MessageStatus};

use super::input::Prompt;
use super::screen::Screen;
use super::tools::Consent;
use super::view::{View, Wanted, connection_words, consent_words};
use crate::clock;
use crate::console::{Palette, harmless, one_line};
use crate::failure::Failure;
use crate::sessions::story;

/// Shows a conversation on a terminal.
#[derive(Debug)]
pub(super) struct People {
    screen: Screen,
    inside: Option<Kind>,
    /// Whether the loss of the connection was told.
    lost: bool,
    usage: Vec<(String, u64)>,
    /// Checklists as they were drawn last.
    checklists: BTreeMap<String, Checklist>,
    told: Option<Status>,
}

/// What flows on from event to event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
    ToolOutput,
}

impl People {
    pub(super) fn new(screen: Screen) -> Self {
        Self { screen, inside: None, lost: false, usage: Vec::new(), checklists: BTreeMap::new(), told: None }
    }

    fn flow(&mut self, kind: Kind, text: &str) -> Result<(), Failure> {
        if self.inside != Some(kind) {
            self.screen.end_line()?;
            self.inside = Some(kind);
        }
        let Palette { dim, reset, .. } = self.screen.palette;
        match kind {
            Kind::Text => self.screen.flow("", &harmless(text), ""),
            Kind::Reasoning | Kind::ToolOutput => self.screen.flow(dim, &harmless(text), reset),
        }
    }

    /// A line that does not belong to the answer.
    fn aside(&mut self, colour: &str, text: &str) -> Result<(), Failure> {
        self.inside = None;
        let Palette { reset, .. } = self.screen.palette;
        self.screen.line(&format!("  {colour}· {text}{reset}"))
    }

    fn quiet(&mut self, text: &str) -> Result<(), Failure> {
        self.aside(self.screen.palette.dim, text)
    }

    fn status(&mut self, status: &Status) -> Result<(), Failure> {
        if self.told.as_ref() == Some(status) {
            return Ok(());
        }
        self.told = Some(status.clone());
        let said = status.msg.as_deref().map(|msg| one_line(msg, WIDTH));
        match (status.state, status.pos, said) {
            (State::Queued, Some(position), _) => {
                self.quiet(&format!("waiting for an earlier answer, number {position} in line"))
            }
            (State::Queued | State::Starting | State::Running | State::Waiting, _, None) => Ok(()),
            (State::Retrying, _, None) => self.quiet("trying again"),
            (_, _, Some(said)) => self.quiet(&said),
        }
    }

    fn tool(&mut self, tool: &ToolActivity) -> Result<(), Failure> {
        let name = one_line(&tool.name, WIDTH);
        let shown = |value: &Option<switchboard_client::asp::Value>| match value {
            Some(value) => {
                format!(" {}", one_line(&serde_json::Value::from(value.clone()).to_string(), WIDTH))
            }
            None => String::new(),
        };
        match tool.phase {
            Phase::Start => self.quiet(&format!("{name}{}", shown(&tool.args))),
            Phase::Delta => match &tool.d {
                Some(text) => {
                    let indented: String =
                        text.split_inclusive('\n').map(|line| format!("    {line}")).collect();
                    let inside = self.inside == Some(Kind::ToolOutput);
                    let middle = inside && !self.screen.is_fresh();
                    self.flow(Kind::ToolOutput, if middle { text } else { &indented })
                }
                None => Ok(()),
            },
            Phase::Done => self.quiet(&format!("{name} done{}", shown(&tool.output))),
            Phase::Error => {
                let red = self.screen.palette.red;
                self.aside(red, &format!("{name} failed{}", shown(&tool.output)))
            }
        }
    }

    /// Draws a checklist: all of it first, then what has changed.
    fn checklist(&mut self, list: Checklist) -> Result<(), Failure> {
        self.inside = None;
        let Palette { bold, green, red, yellow, dim, reset, .. } = self.screen.palette;
        let before = self.checklists.get(&list.group).filter(|before| before.title == list.title).cloned();
        if before.is_none() {
            self.screen.line(&format!("  {bold}{}{reset}", one_line(&list.title, WIDTH)))?;
        }
        for item in &list.items {
            let known = before.as_ref().is_some_and(|before| before.items.contains(item));
            if known {
                continue;
            }
            let mark = story::mark(item.state);
            let colour = match mark {
                "[x]" => green,
                "[!]" => red,
                "[>]" => yellow,
                _ => dim,
            };
            let label = one_line(&item.label, WIDTH);
            self.screen.line(&format!("  {colour}{mark}{reset} {label}"))?;
        }
        self.checklists.insert(list.group.clone(), list);
        Ok(())
    }

    fn end(&mut self, end: &End) -> Result<(), Failure> {
        let yellow = self.screen.palette.yellow;
        self.screen.end_line()?;
        match end.finish {
            Finish::Complete | Finish::Accepted => {}
            Finish::Interrupted => self.aside(yellow, "interrupted")?,
            Finish::Length => self.aside(yellow, "the answer was cut: it reached a limit of length")?,
            Finish::Filtered => self.aside(yellow, "the answer was withheld by a filter")?,
            Finish::Empty => self.quiet("no answer")?,
        }
        if let Some(usage) = &end.usage {
            self.count(usage);
        }
        let counts = std::mem::take(&mut self.usage);
        let mut facts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
        facts.extend(
            end.metrics.and_then(|metrics| metrics.wall_ms).map(|ms| clock::short(Duration::from_millis(ms))),
        );
        if !facts.is_empty() {
            self.quiet(&one_line(&facts.join(", "), WIDTH))?;
        }
        self.over()
    }

    fn count(&mut self, usage: &Usage) {
        for (name, count) in &usage.0 {
            match self.usage.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = *count,
                None => self.usage.push((name.clone(), *count)),
            }
        }
    }

    /// Makes room for the next question.
    fn over(&mut self) -> Result<(), Failure> {
        self.inside = None;
        self.told = None;
        self.usage.clear();
        self.checklists.clear();
        self.screen.line("")
    }
}

impl View for People {
    fn welcome(&mut self, url: &str, session: &str) -> Result<(), Failure> {
        let Palette { dim, bold, reset, .. } = self.screen.palette;
        let (url, session) = (harmless(url), harmless(session));
        self.screen.line(&format!("{bold}Switchboard{reset} {dim}{url}, session {session}{reset}"))?;
        self.screen
            .line(&format!("{dim}Ctrl-C stops an answer, Ctrl-D leaves, \"help\" asks the agent{reset}\n"))
    }

    fn past(&mut self, messages: &[MessageRow]) -> Result<(), Failure> {
        let Palette { dim, reset, .. } = self.screen.palette;
        for message in messages.iter().rev() {
            let text = story::parts(&message.parts);
            let (mark, space) = match message.author {
                Author::User(_) => ("> ", ""),
                Author::Agent(_) | Author::System => ("", "\n"),
            };
            let cut = match message.status {
                MessageStatus::Complete => "",
                MessageStatus::Partial => " …",
            };
            self.screen.line(&format!("{dim}{mark}{}{cut}{reset}{space}", text.trim_end()))?;
        }
        Ok(())
    }

    fn request(&mut self, event: &RequestEvent) -> Result<(), Failure> {
        match event {
            RequestEvent::Start { .. } | RequestEvent::Call(_) => Ok(()),
            RequestEvent::Status(status) => self.status(status),
            RequestEvent::Text(text) => self.flow(Kind::Text, text),
            RequestEvent::Reason(text) => self.flow(Kind::Reasoning, text),
            RequestEvent::Tool(tool) => self.tool(tool),
            RequestEvent::Ask(ask) => {
                let Palette { bold, reset, .. } = self.screen.palette;
                self.inside = None;
                self.screen.line(&format!("{bold}{}{reset}", harmless(&ask.text)))
            }
            RequestEvent::Data { mime, value } => {
                let value = serde_json::Value::from(value.clone());
                match serde_json::from_value::<Checklist>(value.clone()) {
                    Ok(list) if mime.as_deref() == Some(CHECKLIST) => self.checklist(list),
                    Ok(_) | Err(_) => {
                        let mime = mime.as_deref().map(harmless).unwrap_or_default();
                        self.quiet(&format!("data {mime} {}", one_line(&value.to_string(), WIDTH)))
                    }
                }
            }
            RequestEvent::Usage(usage) => {
                self.count(usage);
                Ok(())
            }
            RequestEvent::Notice(notice) => self.quiet(&one_line(&notice.text, WIDTH)),
            RequestEvent::Restarted => self.quiet("the answer begins anew"),
            RequestEvent::End(end) => self.end(end),
        }
    }

    fn failed(&mut self, error: &RequestError) -> Result<(), Failure> {
        let red = self.screen.palette.red;
        self.aside(red, &one_line(&error.to_string(), WIDTH))?;
        if error.is_retryable() {
            self.quiet("the same may work later")?;
        }
        self.over()
    }

    fn connection(&mut self, event: &ConnectionEvent) -> Result<(), Failure> {
        let Palette { yellow, green, .. } = self.screen.palette;
        let was_lost = self.lost;
        match connection_words(event, &mut self.lost) {
            Some(words) => self.aside(if was_lost && !self.lost { green } else { yellow }, &words),
            None => Ok(()),
        }
    }

    fn consent(&mut self, consent: &Consent) -> Result<(), Failure> {
        let yellow = self.screen.palette.yellow;
        self.aside(yellow, &consent_words(consent))
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        self.quiet(text)
    }

    fn prompt(&self, what: Wanted) -> Prompt {
        let Palette { cyan, reset, .. } = self.screen.palette;
        Prompt { plain: what.words().to_owned(), coloured: format!("{cyan}{}{reset}", what.words()) }
    }
}

const CHECKLIST: &str = "application/vnd.switchboard.checklist+json";
/// Longer lines between the answer are cut.
const WIDTH: usize = 160;
