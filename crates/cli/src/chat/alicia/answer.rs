//! An answer as it comes over Alicia.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use switchboard_client::alicia::{
    Answer as Complete, ClientError, Conversation, ConversationEvent, Ended, ErrorMessage, Execution, Id,
    Library, ToolUseRequest, ToolUseResult, Word,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Place;
use crate::chat::said::{Answer, Ask, End, Finish, Phase, Said, Tool, Trouble};
use crate::console::one_line;

/// Which answer is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// None: nothing was sent.
    Nothing,
    /// That to this message.
    To(Id),
    /// That to the message which is announced with this text.
    Edited(String),
}

/// Whether the server does what it is asked for.
pub(super) type Asked = Result<(), ClientError>;

/// An answer whose beginning was missed: whose it is, and what it says, is known when all of it is here.
struct Fragment {
    answer: Id,
    text: String,
}

pub(super) struct AliciaAnswer {
    conversation: Conversation,
    library: Library,
    place: Place,
    events: mpsc::Receiver<ConversationEvent>,
    expected: Expected,
    asking: Option<JoinHandle<Asked>>,
    /// The answer, once it has begun.
    current: Option<Id>,
    /// What may be the answer, of which the beginning was missed.
    fragment: Option<Fragment>,
    /// The names of the tools at work.
    tools: BTreeMap<Id, String>,
    shown: String,
    ready: VecDeque<Said>,
    /// When it counts as over, once it is complete: what has failed says so after it.
    over_at: Option<Instant>,
    /// Its end is to be told.
    closing: bool,
    told: bool,
    stopped: Arc<AtomicBool>,
}

impl AliciaAnswer {
    pub(super) fn new(
        conversation: Conversation,
        library: Library,
        place: Place,
        events: mpsc::Receiver<ConversationEvent>,
        expected: Expected,
        asking: JoinHandle<Asked>,
    ) -> Self {
        Self {
            conversation,
            library,
            place,
            events,
            expected,
            asking: Some(asking),
            current: None,
            fragment: None,
            tools: BTreeMap::new(),
            shown: String::new(),
            ready: VecDeque::new(),
            over_at: None,
            closing: false,
            told: false,
            stopped: Arc::default(),
        }
    }

    fn asked(&mut self, asked: Asked) {
        if let Err(error) = asked {
            self.fail(plain_trouble(error.to_string()));
        }
    }

    fn fail(&mut self, trouble: Trouble) {
        self.show_fragment();
        self.ready.push_back(Said::Failed(trouble));
        self.told = true;
    }

    fn is_mine(&self, question: Option<&Id>) -> bool {
        matches!(&self.expected, Expected::To(expected) if Some(expected) == question)
    }

    fn happened(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::Started { answer, question } => {
                if self.is_mine(question.as_ref()) {
                    self.fragment = None;
                    self.begin(answer);
                } else if question.is_none() && self.current.is_none() {
                    self.fragment = Some(Fragment { answer, text: String::new() });
                } else {
                    return;
                }
                if self.stopped.load(Ordering::Relaxed) {
                    self.stop();
                }
            }
            ConversationEvent::Piece { answer, text } if self.is_fragment(&answer) => {
                if let Some(fragment) = &mut self.fragment {
                    fragment.text.push_str(&text.0);
                }
            }
            ConversationEvent::Piece { answer, text } if self.current.as_ref() == Some(&answer) => {
                self.shown.push_str(&text.0);
                self.ready.push_back(Said::Text(text.0));
            }
            ConversationEvent::Answered(answer) => self.answered(answer),
            ConversationEvent::Stats(_) if self.over_at.is_some() && self.fragment.is_none() => {
                self.closing = true;
            }
            ConversationEvent::Failed(error) => {
                let about = error.originating_id.as_ref();
                let of_it = |answer: &Id| self.current.as_ref() == Some(answer) || self.is_fragment(answer);
                if self.is_mine(about) || about.is_some_and(of_it) {
                    self.fail(trouble(&error));
                }
            }
            ConversationEvent::Question(message) => {
                if matches!(&self.expected, Expected::Edited(text) if *text == message.content.0) {
                    self.expected = Expected::To(message.id);
                } else {
                    self.notice(format!("elsewhere: {}", message.content.0));
                }
            }
            ConversationEvent::Reasoning(step) => {
                let mut text = step.content.0;
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                self.ready.push_back(Said::Reasoning(text));
            }
            ConversationEvent::Remembered(trace) => {
                let percent = (trace.relevance.get() * 100.0).round();
                self.notice(format!("remembers: {} ({percent} %)", one_line(&trace.content.0, WIDTH)));
            }
            ConversationEvent::ToolUsed(request) => self.tool(request),
            ConversationEvent::ToolResult(result) => self.tool_result(&result),
            ConversationEvent::Updated(update) => {
                if let Some(title) = update.title {
                    self.notice(format!("the title is now {}", title.0));
                }
            }
            ConversationEvent::Reload if self.fragment.is_some() && self.over_at.is_some() => {
                self.closing = true;
            }
            ConversationEvent::Reload => self.notice(MISSED.to_owned()),
            ConversationEvent::Closed(why) => self.fail(plain_trouble(match why {
                Ended::Refused(error) => error.message.0,
                Ended::NotFollowed(_) | Ended::Off | Ended::Left => "the conversation is over".to_owned(),
            })),
            ConversationEvent::Joined(_)
            | ConversationEvent::Heard(_)
            | ConversationEvent::Piece { .. }
            | ConversationEvent::Interrupted { .. }
            | ConversationEvent::RunTool(_)
            | ConversationEvent::StopTool(_)
            | ConversationEvent::Remarked(_)
            | ConversationEvent::Audio(_)
            | ConversationEvent::ServerInfo(_)
            | ConversationEvent::Stats(_)
            | ConversationEvent::Elites(_)
            | ConversationEvent::Error(_) => {}
        }
    }

    fn begin(&mut self, answer: Id) {
        if self.current.as_ref() != Some(&answer) {
            self.ready.push_back(Said::Start { run: answer.to_string(), model: None });
            self.current = Some(answer);
        }
    }

    fn is_fragment(&self, answer: &Id) -> bool {
        self.fragment.as_ref().is_some_and(|fragment| fragment.answer == *answer)
    }

    /// What was heard of an answer, if it will not be had whole.
    fn show_fragment(&mut self) {
        if let Some(Fragment { answer, text }) = self.fragment.take() {
            self.begin(answer);
            self.shown.push_str(&text);
            self.ready.push_back(Said::Text(text));
        }
    }

    fn answered(&mut self, answer: Complete) {
        let fragment = self.is_fragment(&answer.id);
        if fragment && !answer.whole {
            // The client asks for the rest.
            self.over_at = Some(Instant::now() + CATCH_UP);
            return;
        }
        if fragment {
            self.fragment = None;
            self.over_at = None;
        }
        let current = self.current.as_ref() == Some(&answer.id);
        let unclaimed = fragment && answer.question.is_none();
        if !self.is_mine(answer.question.as_ref()) && !current && !unclaimed {
            return;
        }
        self.fragment = None;
        self.begin(answer.id.clone());
        // Of one that is too long to be kept, everything was told.
        if answer.whole {
            self.complete(answer.text.0);
        }
        self.place.answered(answer.id);
        self.over_at = Some(Instant::now() + AFTERMATH);
    }

    /// Shows what is missing of an answer that reads so.
    fn complete(&mut self, text: String) {
        match text.strip_prefix(&self.shown) {
            Some("") => {}
            Some(rest) => self.ready.push_back(Said::Text(rest.to_owned())),
            // What was told of it is not so any more.
            None => {
                self.ready.push_back(Said::Restarted);
                self.ready.push_back(Said::Text(text.clone()));
            }
        }
        self.shown = text;
    }

    fn notice(&mut self, text: String) {
        self.ready.push_back(Said::Notice { level: "info", text });
    }

    fn tool(&mut self, request: ToolUseRequest) {
        let (call, name) = (request.id.to_string(), request.tool_name);
        self.tools.insert(request.id, name.clone());
        let args = serde_json::to_value(&request.parameters).unwrap_or_default();
        self.ready.push_back(match request.execution {
            Execution::Client => Said::Call { call, name, args },
            Execution::Server | Execution::Either => {
                Said::Tool(Tool { call, name, phase: Phase::Start { args: Some(args), detail: None } })
            }
        });
    }

    fn tool_result(&mut self, result: &ToolUseResult) {
        let request = result.request_id.as_ref().unwrap_or(&result.id);
        let name = self.tools.remove(request).unwrap_or_else(|| "tool".to_owned());
        let output = result.result.as_ref().and_then(|result| serde_json::to_value(result).ok());
        let code = result.error_code.as_ref().map(|code| match code {
            Word::Known(code) => code.name().to_owned(),
            Word::Other(other) => other.clone(),
        });
        let said = result.error_message.as_ref().map(|message| message.0.clone().into());
        let phase = match result.success {
            true => Phase::Done(output),
            false => Phase::Error { output: output.or(said), code },
        };
        self.ready.push_back(Said::Tool(Tool { call: request.to_string(), name, phase }));
    }

    /// Tells its end, and which of how many it is if there are several.
    async fn end(&mut self) {
        if self.fragment.is_some() {
            self.show_fragment();
            self.notice(MISSED.to_owned());
        }
        if let Some(answer) = &self.current
            && let Ok(siblings) = self.library.siblings(answer).await
        {
            let alike: Vec<_> = siblings.iter().filter(|row| row.role == "assistant").collect();
            if let Some(place) = alike.iter().position(|row| row.id == answer.as_str())
                && alike.len() > 1
            {
                self.notice(format!("{}/{}", place + 1, alike.len()));
            }
        }
        let finish = match (self.stopped.load(Ordering::Relaxed), self.shown.is_empty()) {
            (true, _) => Finish::Interrupted,
            (false, true) => Finish::Empty,
            (false, false) => Finish::Complete,
        };
        self.ready.push_back(Said::End(End::new(finish)));
        self.told = true;
    }
}

#[async_trait::async_trait]
impl Answer for AliciaAnswer {
    async fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(said) = self.ready.pop_front() {
                return Some(said);
            }
            if self.told {
                return None;
            }
            if self.closing {
                self.end().await;
                continue;
            }
            let over_at = self.over_at;
            tokio::select! {
                biased;
                asked = joined(self.asking.as_mut()) => {
                    self.asking = None;
                    self.asked(asked);
                }
                event = self.events.recv() => match event {
                    Some(event) => self.happened(event),
                    None => self.fail(plain_trouble("the conversation is over".to_owned())),
                },
                () = until(over_at) => self.closing = true,
            }
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let (conversation, answer) = (self.conversation.clone(), self.current.clone());
        // What cannot be stopped now is stopped when it begins.
        tokio::spawn(async move { conversation.stop_what(answer, None).await });
    }

    fn reply(&self, _ask: Ask, _text: String) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Err("nothing was asked".to_owned()) })
    }
}

impl Drop for AliciaAnswer {
    fn drop(&mut self) {
        if !self.told {
            self.stop();
        }
    }
}

async fn joined(asking: Option<&mut JoinHandle<Asked>>) -> Asked {
    match asking {
        Some(asking) => asking.await.unwrap_or(Err(ClientError::Closed)),
        None => std::future::pending().await,
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

pub(super) fn trouble(error: &ErrorMessage) -> Trouble {
    let text = &error.message.0;
    Trouble {
        words: format!("{text} ({})", error.code),
        members: json!({"code": error.code, "text": text, "retry": error.recoverable}),
        retry: matches!(error.code, 503..=505),
    }
}

fn plain_trouble(words: String) -> Trouble {
    Trouble { members: json!({"text": words}), words, retry: false }
}

pub(super) const MISSED: &str = "messages were missed; /branches shows all there are";
/// How long after its end an answer may still say that it has failed.
const AFTERMATH: Duration = Duration::from_secs(1);
/// How long to wait for all of an answer whose beginning was missed.
const CATCH_UP: Duration = Duration::from_secs(15);
const WIDTH: usize = 120;
