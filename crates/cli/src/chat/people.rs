//! A conversation for people: the answer flows, everything else stays out of its way.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard_core::model::Checklist;

use super::input::Prompt;
use super::past::{Past, Who};
use super::said::{Counts, End, Finish, Link, Phase, Progress, Said, State, Tool};
use super::screen::Screen;
use super::tools::Consent;
use super::view::{View, Wanted, consent_words, link_words};
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
    usage: Counts,
    /// Checklists as they were drawn last.
    checklists: BTreeMap<String, Checklist>,
    told: Option<Progress>,
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
        self.marked(colour, '·', text)
    }

    fn marked(&mut self, colour: &str, mark: char, text: &str) -> Result<(), Failure> {
        self.inside = None;
        let Palette { reset, .. } = self.screen.palette;
        self.screen.line(&format!("  {colour}{mark} {text}{reset}"))
    }

    fn quiet(&mut self, text: &str) -> Result<(), Failure> {
        self.aside(self.screen.palette.dim, text)
    }

    fn progress(&mut self, progress: &Progress) -> Result<(), Failure> {
        if self.told.as_ref() == Some(progress) {
            return Ok(());
        }
        self.told = Some(progress.clone());
        let said = progress.text.as_deref().map(|text| one_line(text, WIDTH));
        match (progress.state, progress.position, said) {
            (State::Queued, Some(position), _) => {
                self.quiet(&format!("waiting for an earlier answer, number {position} in line"))
            }
            (State::Queued | State::Starting | State::Running | State::Waiting, _, None) => Ok(()),
            (State::Retrying, _, None) => self.quiet("trying again"),
            (_, _, Some(said)) => self.quiet(&said),
        }
    }

    fn tool(&mut self, tool: &Tool) -> Result<(), Failure> {
        let name = one_line(&tool.name, WIDTH);
        let shown = |value: &Option<serde_json::Value>| match value {
            Some(value) => format!(" {}", one_line(&value.to_string(), WIDTH)),
            None => String::new(),
        };
        match &tool.phase {
            Phase::Start { detail: Some(detail), .. } => {
                self.quiet(&format!("{name} {}", one_line(detail, WIDTH)))
            }
            Phase::Start { args, detail: None } => self.quiet(&format!("{name}{}", shown(args))),
            Phase::Delta(text) => {
                let indented: String = text.split_inclusive('\n').map(|line| format!("    {line}")).collect();
                let inside = self.inside == Some(Kind::ToolOutput);
                let middle = inside && !self.screen.is_fresh();
                self.flow(Kind::ToolOutput, if middle { text } else { &indented })
            }
            Phase::Done(None) => {
                self.inside = None;
                self.screen.end_line()
            }
            Phase::Done(output) => self.quiet(&format!("{name} done{}", shown(output))),
            Phase::Error { output, code } => {
                let red = self.screen.palette.red;
                let code = code.as_deref().map(|code| format!(" ({})", one_line(code, WIDTH)));
                self.marked(red, '✗', &format!("{name} failed{}{}", code.unwrap_or_default(), shown(output)))
            }
        }
    }

    /// Draws a checklist: all of it first, then what has changed.
    fn checklist(&mut self, list: &Checklist) -> Result<(), Failure> {
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
        self.checklists.insert(list.group.clone(), list.clone());
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
        facts.extend(end.wall_ms.map(|ms| clock::short(Duration::from_millis(ms))));
        if !facts.is_empty() {
            self.quiet(&one_line(&facts.join(", "), WIDTH))?;
        }
        self.over()
    }

    fn count(&mut self, usage: &[(String, u64)]) {
        for (name, count) in usage {
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

    fn past(&mut self, messages: &[Past]) -> Result<(), Failure> {
        let Palette { dim, reset, .. } = self.screen.palette;
        for message in messages.iter().rev() {
            let (mark, space) = match message.who {
                Who::User => ("> ", ""),
                Who::Agent => ("", "\n"),
            };
            let cut = if message.partial { " …" } else { "" };
            let place = message.place.as_deref().map(|place| format!(" ({place})")).unwrap_or_default();
            let text = harmless(message.text.trim_end());
            self.screen.line(&format!("{dim}{mark}{text}{cut}{place}{reset}{space}"))?;
        }
        Ok(())
    }

    fn said(&mut self, said: &Said) -> Result<(), Failure> {
        match said {
            Said::Start { .. } | Said::Call { .. } => Ok(()),
            Said::Progress(progress) => self.progress(progress),
            Said::Text(text) => self.flow(Kind::Text, text),
            Said::Reasoning(text) => self.flow(Kind::Reasoning, text),
            Said::Tool(tool) => self.tool(tool),
            Said::Ask(ask) => {
                let Palette { bold, reset, .. } = self.screen.palette;
                self.inside = None;
                self.screen.line(&format!("{bold}{}{reset}", harmless(&ask.text)))
            }
            Said::Checklist(list) => self.checklist(list),
            Said::Data { mime, value } => {
                let mime = mime.as_deref().map(harmless).unwrap_or_default();
                self.quiet(&format!("data {mime} {}", one_line(&value.to_string(), WIDTH)))
            }
            Said::Usage(usage) => {
                self.count(usage);
                Ok(())
            }
            Said::Notice { text, .. } => self.quiet(&one_line(text, WIDTH)),
            Said::Restarted => self.quiet("the answer begins anew"),
            Said::End(end) => self.end(end),
            Said::Failed(trouble) => {
                let red = self.screen.palette.red;
                self.aside(red, &one_line(&trouble.words, WIDTH))?;
                if trouble.retry {
                    self.quiet("the same may work later")?;
                }
                self.over()
            }
        }
    }

    fn link(&mut self, link: &Link) -> Result<(), Failure> {
        let Palette { yellow, green, .. } = self.screen.palette;
        let was_lost = self.lost;
        match link_words(link, &mut self.lost) {
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

    fn listing(&mut self, lines: &[String]) -> Result<(), Failure> {
        self.inside = None;
        for line in lines {
            self.screen.line(&format!("  {}", harmless(line)))?;
        }
        self.screen.line("")
    }

    fn prompt(&self, what: Wanted) -> Prompt {
        let Palette { cyan, reset, .. } = self.screen.palette;
        Prompt { plain: what.words().to_owned(), coloured: format!("{cyan}{}{reset}", what.words()) }
    }
}

/// Longer lines between the answer are cut.
const WIDTH: usize = 160;
