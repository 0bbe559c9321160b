//! A follower of a conversation of Alicia: it sees what it asks itself, and what others ask in other protocols.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use switchboard_client::alicia::{Answer, ConversationEvent, Id, Library, Updates};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::book::Recorder;
use crate::history::{Ending, What};
use crate::words::{Words, read_prompt};

/// Whose turn it is in a conversation, where one speaks after the other.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    /// The request that was made last.
    pub(crate) current: AtomicU64,
    /// The last request whose end was seen by whoever has made the conversation.
    pub(crate) ended: watch::Sender<u64>,
    /// What the messages of this conversation are called with which something was asked.
    pub(crate) questions: Mutex<BTreeMap<Id, u64>>,
}

/// Someone who sees a conversation from its beginning on.
pub(crate) struct Follower {
    recorder: Recorder,
    library: Library,
    conversation: Id,
    floor: Arc<Floor>,
    open: BTreeMap<Id, Open>,
    /// What each answer is for, also after its end: a turn that fails says so last.
    answers: BTreeMap<Id, Id>,
    ended: BTreeSet<u64>,
    /// Answers of which the whole was loaded; what the socket brings of them is nothing new.
    loaded: BTreeSet<u64>,
}

/// An answer that is being given.
#[derive(Debug, Default)]
struct Open {
    words: Words,
    request: Option<u64>,
    /// The connection was lost in the midst of it: what was missed comes with the whole.
    cut: bool,
}

impl Follower {
    pub(crate) fn new(recorder: Recorder, library: Library, conversation: Id, floor: Arc<Floor>) -> Self {
        let (open, answers, ended, loaded) = Default::default();
        Self { recorder, library, conversation, floor, open, answers, ended, loaded }
    }

    /// Records until the conversation is over.
    pub(crate) async fn read(&mut self, updates: &mut Updates) {
        while let Some(event) = updates.next().await {
            self.event(event).await;
        }
    }

    pub(crate) async fn event(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::Question(message) => {
                if let Some((request, _)) = read_prompt(&message.content.0) {
                    self.floor.questions.lock().insert(message.id, request);
                    self.recorder.saw(request, What::Accepted);
                }
            }
            ConversationEvent::Piece { answer, text } => {
                let open = self.open.entry(answer).or_default();
                let words = open.words.push(&text.0);
                let first = words.iter().flatten().next().map(|word| word.request);
                let request = *open.request.get_or_insert_with(|| {
                    first.unwrap_or_else(|| self.floor.current.load(Ordering::Relaxed))
                });
                if !self.loaded.contains(&request) {
                    self.recorder.saw_words(request, &words);
                }
            }
            ConversationEvent::Answered(answer) => self.answered(&answer),
            ConversationEvent::Failed(error) => {
                let about = error.originating_id.as_ref().and_then(|about| self.request_of(about));
                // Only a question that was not acknowledged yet has no name here, and it is the last one.
                let request = about.unwrap_or_else(|| self.floor.current.load(Ordering::Relaxed));
                self.end(request, Ending::Failed);
            }
            ConversationEvent::Started { answer, question: Some(question) } => {
                self.answers.insert(answer, question);
            }
            ConversationEvent::Interrupted { answer } => {
                if let Some(open) = self.open.get_mut(&answer) {
                    open.cut = true;
                }
            }
            ConversationEvent::Reload => self.reload().await,
            ConversationEvent::Joined(_)
            | ConversationEvent::Closed(_)
            | ConversationEvent::Heard(_)
            | ConversationEvent::Started { question: None, .. }
            | ConversationEvent::Reasoning(_)
            | ConversationEvent::Remembered(_)
            | ConversationEvent::ToolUsed(_)
            | ConversationEvent::RunTool(_)
            | ConversationEvent::StopTool(_)
            | ConversationEvent::ToolResult(_)
            | ConversationEvent::Remarked(_)
            | ConversationEvent::Audio(_)
            | ConversationEvent::ServerInfo(_)
            | ConversationEvent::Stats(_)
            | ConversationEvent::Updated(_)
            | ConversationEvent::Elites(_)
            | ConversationEvent::Error(_) => {}
        }
    }

    fn answered(&mut self, answer: &Answer) {
        let open = self.open.remove(&answer.id);
        let words = Words::default().push(&answer.text.0);
        let told = open.as_ref().and_then(|open| open.request);
        let named = words.iter().flatten().next().map(|word| word.request);
        let Some(request) = told.or(named).or_else(|| self.request_of(&answer.id)) else { return };
        // Without pieces, or instead of them, the whole is told at once.
        if answer.replaces || told.is_none() || open.is_some_and(|open| open.cut) {
            if self.loaded.contains(&request) {
                return;
            }
            self.restart(request);
            self.recorder.saw_words(request, &words);
        }
        // Of one that is not whole, a replacement follows.
        if answer.whole {
            self.end(request, Ending::Over);
        }
    }

    /// The request that a question is, or that an answer is for.
    fn request_of(&self, message: &Id) -> Option<u64> {
        let question = self.answers.get(message).unwrap_or(message);
        self.floor.questions.lock().get(question).copied()
    }

    fn restart(&mut self, request: u64) {
        self.ended.remove(&request);
        self.recorder.saw(request, What::Restarted);
    }

    fn end(&mut self, request: u64, ending: Ending) {
        if !self.ended.insert(request) {
            return;
        }
        self.recorder.saw(request, What::Ended(ending));
        self.floor.ended.send_modify(|last| *last = (*last).max(request));
    }

    /// What was missed is too much for the socket: it is read over HTTP.
    async fn reload(&mut self) {
        let mut after = None;
        loop {
            let Ok(page) = self.library.messages(&self.conversation, after).await else {
                // The server may let nobody new in at the moment.
                sleep(Duration::from_millis(200)).await;
                continue;
            };
            for row in page.items {
                let is_whole = row.completion_status.as_deref() == Some("completed");
                let words = Words::default().push(&row.contents);
                let request = words.iter().flatten().next().map(|word| word.request);
                let Some(request) = request
                    .filter(|request| is_whole && row.role == "assistant" && !self.ended.contains(request))
                else {
                    continue;
                };
                self.loaded.insert(request);
                self.restart(request);
                self.recorder.saw_words(request, &words);
                self.end(request, Ending::Over);
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return,
            }
        }
    }
}
