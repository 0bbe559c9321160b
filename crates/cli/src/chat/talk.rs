//! The conversation itself: what the user says, what comes back, and what happens meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::input::{Input, Line};
use super::said::{Answer, Ask, Did, Link, Peer, Said, Trouble};
use super::tools::Consent;
use super::view::{View, Wanted};
use crate::failure::Failure;

/// One client in conversation.
pub(super) struct Talk {
    peer: Box<dyn Peer>,
    view: Box<dyn View>,
    input: Input,
    consents: mpsc::Receiver<Consent>,
    interrupts: Signal,
    terminations: Signal,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Regularly.
    Done,
    /// Not so.
    Failed,
    /// The user stopped it.
    Interrupted,
    /// The user wants to leave, and does not wait for the end.
    Leave,
}

impl Talk {
    pub(super) fn new(
        peer: Box<dyn Peer>,
        view: Box<dyn View>,
        input: Input,
        consents: mpsc::Receiver<Consent>,
    ) -> Result<Self, Failure> {
        let interrupts = signal(SignalKind::interrupt())?;
        // Whatever ends this, the terminal must be put back as it was.
        let terminations = signal(SignalKind::terminate())?;
        Ok(Self { peer, view, input, consents, interrupts, terminations })
    }

    /// Says whatever comes from the input, until there is no more.
    pub(super) async fn converse(&mut self) -> Result<(), Failure> {
        let mut leaving = false;
        loop {
            match self.next_line().await? {
                Line::Text(text) => {
                    leaving = false;
                    match text.trim() {
                        "" => {}
                        "/quit" | "/exit" => return Ok(()),
                        "/help" => {
                            self.view.note(HELP)?;
                            for command in self.peer.commands() {
                                self.view.note(command)?;
                            }
                        }
                        command if command.starts_with('/') => {
                            if self.command(command, &text).await? == Outcome::Leave {
                                return Ok(());
                            }
                        }
                        _ => {
                            if self.say(text).await? == Outcome::Leave {
                                return Ok(());
                            }
                        }
                    }
                }
                Line::Interrupt if leaving => return Ok(()),
                Line::Interrupt => {
                    leaving = true;
                    self.view.note("Ctrl-C once more leaves")?;
                }
                Line::End => return Ok(()),
            }
        }
    }

    /// Carries out what a line that begins with `/` asks for, or says the line.
    async fn command(&mut self, command: &str, line: &str) -> Result<Outcome, Failure> {
        match self.peer.command(command).await? {
            Did::Nothing => return self.say(line.to_owned()).await,
            Did::Note(text) => self.view.note(&text)?,
            Did::Listing(lines) => self.view.listing(&lines)?,
            Did::Answer(answer) => return self.hear(answer).await,
        }
        Ok(Outcome::Done)
    }

    /// Says something, and shows the answer.
    pub(super) async fn say(&mut self, text: String) -> Result<Outcome, Failure> {
        let answer = self.peer.say(text).await?;
        self.hear(answer).await
    }

    /// Shows an answer.
    async fn hear(&mut self, answer: Box<dyn Answer>) -> Result<Outcome, Failure> {
        let mut answering =
            Answering { answer, questions: VecDeque::new(), replies: JoinSet::new(), stopped: false };
        let patience = self.peer.patience();
        let mut overdue = std::pin::pin!(tokio::time::sleep(patience.unwrap_or(Duration::MAX)));
        loop {
            let question = answering.questions.front();
            let asking = question.is_some();
            let prompt = question.map(|question| self.view.prompt(question.wanted())).unwrap_or_default();
            tokio::select! {
                // That the connection is back is told before what it brings, and both before any question.
                biased;
                Some(link) = self.peer.event() => self.link(&link)?,
                said = answering.answer.next() => {
                    let Some(said) = said else { return Ok(Outcome::Failed) };
                    self.view.said(&said)?;
                    match said {
                        Said::End(_) if !answering.stopped => return Ok(Outcome::Done),
                        Said::Failed(_) if !answering.stopped => return Ok(Outcome::Failed),
                        Said::End(_) | Said::Failed(_) => return Ok(Outcome::Interrupted),
                        Said::Ask(ask) => answering.questions.push_back(Question::Ask(ask)),
                        Said::Start { .. }
                        | Said::Progress(_)
                        | Said::Text(_)
                        | Said::Reasoning(_)
                        | Said::Tool(_)
                        | Said::Call { .. }
                        | Said::Checklist(_)
                        | Said::Data { .. }
                        | Said::Usage(_)
                        | Said::Notice { .. }
                        | Said::Restarted => {}
                    }
                }
                Some(consent) = self.consents.recv() => {
                    self.view.consent(&consent)?;
                    answering.questions.push_back(Question::Consent(consent));
                }
                Some(answered) = answering.replies.join_next() => {
                    if let Ok(Err(error)) = answered {
                        self.view.note(&format!("the answer was not taken: {error}"))?;
                    }
                }
                _ = self.interrupts.recv() => {
                    if answering.stop() {
                        return Ok(Outcome::Leave);
                    }
                    if !self.peer.is_connected() {
                        self.view.note("it stops when the connection is back; Ctrl-C once more leaves")?;
                    }
                }
                _ = self.terminations.recv() => return Ok(Outcome::Leave),
                () = &mut overdue, if patience.is_some() => {
                    let words = "no answer came in time".to_owned();
                    let members = serde_json::json!({"text": words});
                    self.view.said(&Said::Failed(Trouble { words, members, retry: true }))?;
                    return Ok(Outcome::Failed);
                }
                line = self.input.line(&prompt), if asking => {
                    if self.take(&mut answering, line) {
                        return Ok(Outcome::Leave);
                    }
                }
            }
        }
    }

    /// All of the input, as one message.
    pub(super) async fn all_input(&mut self) -> Result<String, Failure> {
        self.input.all().await
    }

    /// Says goodbye, if there is somebody to say it to.
    pub(super) async fn leave(&self) {
        let _ = tokio::time::timeout(FAREWELL, self.peer.leave()).await;
    }

    /// What the user says next; meanwhile, what happens to the connection is shown.
    async fn next_line(&mut self) -> Result<Line, Failure> {
        let prompt = self.view.prompt(Wanted::Message);
        loop {
            tokio::select! {
                line = self.input.line(&prompt) => return Ok(line),
                Some(link) = self.peer.event() => self.link(&link)?,
                Some(consent) = self.consents.recv() => drop(consent),
                // At a prompt, the editor takes Ctrl-C for itself.
                _ = self.interrupts.recv() => return Ok(Line::End),
                _ = self.terminations.recv() => return Ok(Line::End),
            }
        }
    }

    /// Takes a line for what was asked; says whether to leave.
    fn take(&self, answering: &mut Answering, line: Line) -> bool {
        let Line::Text(text) = line else {
            answering.questions.clear();
            // Nobody is left to answer: a question that is piped away would wait for ever.
            return answering.stop() && self.input.is_typed();
        };
        match answering.questions.pop_front() {
            Some(Question::Ask(ask)) => {
                let reply = answering.answer.reply(ask, text);
                answering.replies.spawn(reply);
            }
            Some(Question::Consent(consent)) => {
                let yes = matches!(text.trim().to_ascii_lowercase().as_str(), "y" | "yes");
                // The tool may not be wanted any more.
                let _ = consent.reply.send(yes);
            }
            None => {}
        }
        false
    }

    fn link(&mut self, link: &Link) -> Result<(), Failure> {
        self.view.link(link)?;
        if let Link::Over { why } = link {
            return Err(Failure::unreachable(format!("the connection ended for good: {why}")));
        }
        Ok(())
    }
}

/// An answer that is under way.
struct Answering {
    answer: Box<dyn Answer>,
    questions: VecDeque<Question>,
    replies: JoinSet<Result<(), String>>,
    stopped: bool,
}

impl Answering {
    /// Stops the answer; says whether that was asked for before.
    fn stop(&mut self) -> bool {
        self.questions.clear();
        self.answer.stop();
        std::mem::replace(&mut self.stopped, true)
    }
}

/// What the user is asked.
#[derive(Debug)]
enum Question {
    Ask(Ask),
    Consent(Consent),
}

impl Question {
    fn wanted(&self) -> Wanted {
        match self {
            Self::Ask(_) => Wanted::Answer,
            Self::Consent(_) => Wanted::Consent,
        }
    }
}

const HELP: &str = "Ctrl-C stops an answer, Ctrl-D or /quit leaves; \"help\" asks the agent";
const FAREWELL: Duration = Duration::from_secs(2);
