//! The conversation itself: what the user says, what comes back, and what happens meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_client::asp::{
    Answer, Ask, Client, ClientError, ConnectionEvent, Events, Request, RequestEvent, Value,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Template;
use super::input::{Input, Line};
use super::tools::Consent;
use super::view::{View, Wanted, cause_words};
use crate::failure::Failure;

/// One client in conversation.
pub(super) struct Talk {
    client: Client,
    events: Events,
    view: Box<dyn View>,
    input: Input,
    consents: mpsc::Receiver<Consent>,
    interrupts: Signal,
    terminations: Signal,
    template: Template,
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
        client: Client,
        view: Box<dyn View>,
        input: Input,
        consents: mpsc::Receiver<Consent>,
        template: Template,
    ) -> Result<Self, Failure> {
        let events = client.events();
        let interrupts = signal(SignalKind::interrupt())?;
        // Whatever ends this, the terminal must be put back as it was.
        let terminations = signal(SignalKind::terminate())?;
        Ok(Self { client, events, view, input, consents, interrupts, terminations, template })
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
                        "/help" => self.view.note(HELP)?,
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

    /// Says something, and shows the answer.
    pub(super) async fn say(&mut self, text: String) -> Result<Outcome, Failure> {
        let request = self.client.invoke(self.template.request(text)?).await.map_err(refused)?;
        let mut answering =
            Answering { request, questions: VecDeque::new(), answers: JoinSet::new(), stopped: false };
        let patience = self.template.patience();
        let mut overdue = std::pin::pin!(tokio::time::sleep(patience.unwrap_or(Duration::MAX)));
        loop {
            let question = answering.questions.front();
            let asking = question.is_some();
            let prompt = question.map(|question| self.view.prompt(question.wanted())).unwrap_or_default();
            tokio::select! {
                // That the connection is back is told before what it brings, and both before any question.
                biased;
                Some(event) = self.events.next() => self.connection(&event)?,
                event = answering.request.next() => match event {
                    Some(Ok(event)) => {
                        self.view.request(&event)?;
                        if let RequestEvent::End(_) = event {
                            let stopped = answering.stopped;
                            return Ok(if stopped { Outcome::Interrupted } else { Outcome::Done });
                        }
                        if let RequestEvent::Ask(ask) = event {
                            answering.questions.push_back(Question::Ask(ask));
                        }
                    }
                    Some(Err(error)) => {
                        self.view.failed(&error)?;
                        return Ok(if answering.stopped { Outcome::Interrupted } else { Outcome::Failed });
                    }
                    None => return Ok(Outcome::Failed),
                },
                Some(consent) = self.consents.recv() => {
                    self.view.consent(&consent)?;
                    answering.questions.push_back(Question::Consent(consent));
                }
                Some(answered) = answering.answers.join_next() => {
                    if let Ok(Err(error)) = answered {
                        self.view.note(&format!("the answer was not taken: {error}"))?;
                    }
                }
                _ = self.interrupts.recv() => {
                    if answering.stop() {
                        return Ok(Outcome::Leave);
                    }
                    if !self.client.snapshot().connected {
                        self.view.note("it stops when the connection is back; Ctrl-C once more leaves")?;
                    }
                }
                _ = self.terminations.recv() => return Ok(Outcome::Leave),
                () = &mut overdue, if patience.is_some() => {
                    self.view.note("no answer came in time")?;
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
        let _ = tokio::time::timeout(FAREWELL, self.client.close()).await;
    }

    /// What the user says next; meanwhile, what happens to the connection is shown.
    async fn next_line(&mut self) -> Result<Line, Failure> {
        let prompt = self.view.prompt(Wanted::Message);
        loop {
            tokio::select! {
                line = self.input.line(&prompt) => return Ok(line),
                Some(event) = self.events.next() => self.connection(&event)?,
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
                let client = self.client.clone();
                answering
                    .answers
                    .spawn(async move { client.answer(ask.ask_id.clone(), answer(&ask, text)).await });
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

    fn connection(&mut self, event: &ConnectionEvent) -> Result<(), Failure> {
        self.view.connection(event)?;
        if let ConnectionEvent::Closed { cause } = event {
            let why = cause_words(cause);
            return Err(Failure::unreachable(format!("the connection ended for good: {why}")));
        }
        Ok(())
    }
}

/// An answer that is under way.
struct Answering {
    request: Request,
    questions: VecDeque<Question>,
    answers: JoinSet<Result<(), ClientError>>,
    stopped: bool,
}

impl Answering {
    /// Stops the answer; says whether that was asked for before.
    fn stop(&mut self) -> bool {
        self.questions.clear();
        self.request.interrupt();
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

/// An answer in the form that was asked for.
fn answer(ask: &Ask, text: String) -> Answer {
    let data =
        serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|data| Value::try_from(data).ok());
    match data {
        Some(data) if ask.schema.is_some() => Answer::Data(data),
        Some(_) | None => Answer::Text(text),
    }
}

fn refused(error: ClientError) -> Failure {
    Failure::unreachable(format!("this cannot be said: {error}; start `switchboard chat` again"))
}

const HELP: &str = "Ctrl-C stops an answer, Ctrl-D or /quit leaves; \"help\" asks the agent";
const FAREWELL: Duration = Duration::from_secs(2);
