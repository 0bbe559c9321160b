//! The annals of a conversation: what its events become on the wire and in the tables.
//!
//! The annals are a fold over committed events and depend on nothing else. The server keeps them with the
//! session and writes what they say into the [`tables`] (§10), the server log (§6.1) among them, in the
//! transaction of the events. A connection takes them over as they stand when it attaches and folds on by
//! itself: so everybody arrives at the same envelopes, byte by byte, and nobody passes them on.
//!
//! ```text
//! Committed ─ Annals::take ─▶ Page ─┬─ entries: stanzas and side entries, as they are sent and replayed
//!                                   ├─ notices: what connections say besides, each in its own words
//!                                   └─ records: rows
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use switchboard_core::model::{Standing, TurnRequest};
use switchboard_core::{
    CallId, Chronicle, Chronicler, Committed, Event, Pii, Record, SessionId, Table, Timestamp, TurnId,
};

use crate::deed::{self, Deed, Wishes};
use crate::id::{Id, Prefix};
use crate::message::{ConversationStatus, ConversationUpdate, SessionStats, Word};
use crate::moment::rfc3339;

use conversation::Conversation;
use page::{Desk, millis};

mod answer;
mod call;
mod conversation;
mod deeds;
mod page;
mod said;
mod sentence;
mod settle;
pub mod tables;
mod thought;

pub use answer::Answer;
pub(crate) use deeds::{PERSONAL, digest};
pub use page::{Entry, Notice, Page, Settled};
pub use sentence::join;

/// Keeps the annals of conversations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Annalist;

impl Chronicler for Annalist {
    fn name(&self) -> &'static str {
        deed::CHRONICLE
    }

    fn tables(&self) -> &'static [Table] {
        tables::TABLES
    }

    fn begin(&self, session: &SessionId) -> Box<dyn Chronicle> {
        Box::new(Annals::new(session))
    }

    fn resume(&self, _session: &SessionId, state: &[u8]) -> Option<Box<dyn Chronicle>> {
        Some(Box::new(Annals::restore(state)?))
    }
}

/// The annals of one conversation, as far as they are needed to go on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Annals {
    book: Conversation,
    /// Answers whose turns have not ended.
    answers: BTreeMap<TurnId, Answer>,
    /// Uses of tools that are over, the latest last.
    answered: VecDeque<Id>,
}

impl Annals {
    /// The annals of a session of which nothing has happened yet.
    pub fn new(session: &SessionId) -> Self {
        let id = Id::of(Prefix::Conversation, session.as_str());
        Self { book: Conversation::new(id), answers: BTreeMap::new(), answered: VecDeque::new() }
    }

    /// The annals as they were left; none if another version has left them.
    pub fn restore(state: &[u8]) -> Option<Self> {
        let (version, state) = state.split_first()?;
        (*version == VERSION).then(|| serde_json::from_slice(state).ok()).flatten()
    }

    /// What has to be remembered to go on.
    pub fn state(&self) -> Bytes {
        let mut state = vec![VERSION];
        match serde_json::to_writer(&mut state, self) {
            Ok(()) => state.into(),
            // Maps of text cannot fail; if they did, the account would be made again.
            Err(_) => Bytes::new(),
        }
    }

    /// Takes in the next event; answers all that it adds.
    pub fn take(&mut self, committed: &Committed) -> Page {
        self.fold(committed, true)
    }

    /// The same for whoever does not write the tables.
    pub fn follow(&mut self, committed: &Committed) -> Page {
        self.fold(committed, false)
    }

    fn fold(&mut self, committed: &Committed, recording: bool) -> Page {
        let mut desk = Desk::new(committed.at, recording);
        self.dispatch(&committed.event, &mut desk);
        if desk.moved {
            self.book.touch(&mut desk, |book| {
                vec![
                    ("tip_message_id", book.tip.as_ref().map(Id::as_str).into()),
                    ("last_server_stanza_id", i64::from(book.head).into()),
                ]
            });
        }
        desk.page
    }

    fn dispatch(&mut self, event: &Event, desk: &mut Desk) {
        let book = &mut self.book;
        match event {
            Event::SessionOpened { owner, name, .. } => {
                book.owner = owner.clone();
                book.notebook = name.as_deref() == Some(deed::NOTEBOOK);
                (book.created_at, book.updated_at) = (desk.at, desk.at);
                if !book.notebook {
                    book.title.clone_from(name);
                    book.open(desk);
                }
            }
            Event::Recorded { chronicle, by, record } => {
                if **chronicle == *deed::CHRONICLE
                    && let Some(deed) = Deed::from_record(record)
                {
                    if let Deed::Replied { turn } = &deed {
                        let turn = TurnId::from(turn.as_str());
                        if let Some(answer) = self.answers.get_mut(&turn) {
                            answer.unreplied = false;
                        }
                        desk.page.notices.push(Notice::Replied { turn });
                    }
                    book.note(by, deed, desk);
                }
            }
            _ if book.notebook => {}
            Event::SessionRenamed { name } => {
                book.title = Some(name.clone());
                book.touch(desk, |book| vec![("title", book.title.clone().into())]);
                desk.page.notices.push(Notice::Updated);
            }
            Event::StandingChanged { standing } => {
                book.standing = *standing;
                let gone = (*standing == Standing::Deleted).then(|| millis(desk.at));
                book.touch(desk, |book| {
                    vec![("status", book.status().name().into()), ("deleted_at", gone.into())]
                });
                desk.page.notices.push(Notice::Updated);
            }
            Event::MessageAdded { message } => {
                if let Some(parent) = &message.parent {
                    let followed =
                        self.answers.values_mut().find(|answer| answer.id.as_str() == parent.as_str());
                    followed.into_iter().for_each(|answer| answer.followed = true);
                }
                book.add(message, desk);
            }
            Event::MessageEdited { message, parts } => book.edit(message, parts, desk),
            Event::TipMoved { tip } => book.go_on_from(Id::of(Prefix::Message, tip.as_str()), desk),
            Event::TurnAccepted { turn, request, origin, names, .. } => {
                // What other protocols ask for besides is no conversation.
                if matches!(**request, TurnRequest::Chat { .. }) {
                    let ours = origin.protocol == PROTOCOL;
                    let wishes = if ours { Wishes::of(&origin.options) } else { Wishes::default() };
                    self.answers.insert(turn.clone(), Answer::new(turn, names.as_deref(), &wishes));
                }
            }
            Event::TurnStarted { turn, .. } => {
                if let Some(answer) = self.answers.get_mut(turn) {
                    answer.start(book, desk);
                }
            }
            Event::TurnOutput { turn, output } => {
                if let Some(answer) = self.answers.get_mut(turn) {
                    answer.take(output, book, desk);
                }
            }
            Event::CallRequested { turn, call } => {
                if let Some(answer) = self.answers.get_mut(turn) {
                    answer.ask(call, book, desk);
                }
            }
            Event::CallEnded { turn, call, end } => {
                let answer = self.answers.get_mut(turn);
                if let Some(over) = answer.and_then(|answer| answer.learn(call, end, book, desk)) {
                    self.answered.push_back(over);
                    if self.answered.len() > ANSWERED {
                        self.answered.pop_front();
                    }
                }
            }
            Event::TurnInterrupted { turn, reason, .. } => {
                if let Some(answer) = self.answers.get_mut(turn) {
                    answer.stop(reason.as_deref(), book, desk);
                }
            }
            Event::TurnEnded { turn, end } => {
                if let Some(mut answer) = self.answers.remove(turn) {
                    answer.end(&end.outcome, book, desk);
                    self.turn_over(turn, desk);
                }
            }
            Event::ParticipantJoined { .. }
            | Event::ParticipantLeft { .. }
            | Event::AttachmentOpened { .. }
            | Event::AttachmentLinked { .. }
            | Event::AttachmentDetached { .. }
            | Event::AttachmentClosed { .. }
            | Event::DeviceJoined { .. }
            | Event::DeviceReported { .. }
            | Event::DeviceLeft { .. }
            | Event::DeviceReleased { .. }
            | Event::ToolsChanged { .. }
            | Event::ChronicleBegun { .. }
            | Event::TurnQueued { .. }
            | Event::TurnReleased { .. }
            | Event::CallProgress { .. } => {}
        }
    }

    fn turn_over(&self, turn: &TurnId, desk: &mut Desk) {
        let (book, now) = (&self.book, desk.at);
        let stats = self.stats(now);
        desk.put(&tables::SESSION_STATS, || {
            let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            vec![
                ("conversation_id", book.id.as_str().into()),
                ("id", book.derived(Prefix::SessionStats, &[]).as_str().into()),
                ("message_count", count(stats.message_count).into()),
                ("tool_call_count", count(stats.tool_call_count).into()),
                ("memories_used", count(stats.memories_used).into()),
                ("session_duration_seconds", count(stats.session_duration / 1_000).into()),
                ("created_at", millis(book.created_at).into()),
                ("updated_at", millis(now).into()),
            ]
        });
        desk.page.notices.push(Notice::TurnOver { turn: turn.clone() });
    }

    /// The conversation.
    pub fn id(&self) -> &Id {
        &self.book.id
    }

    /// The newest stanza; 0 if there is none.
    pub fn head(&self) -> i32 {
        self.book.head
    }

    /// How many side entries stand behind the newest stanza.
    pub fn side(&self) -> u32 {
        self.book.asides
    }

    /// Whether the numbers of stanzas are used up, so that no more turns are taken (§2.3).
    pub fn is_exhausted(&self) -> bool {
        self.book.is_exhausted()
    }

    /// Whether this is no conversation, but where the memories of a person are noted.
    pub fn is_notebook(&self) -> bool {
        self.book.notebook
    }

    /// The title.
    pub fn title(&self) -> Option<&str> {
        self.book.title.as_deref()
    }

    /// What the conversation is to its owner.
    pub fn status(&self) -> ConversationStatus {
        self.book.status()
    }

    /// The same, as the session has it.
    pub(crate) fn standing(&self) -> Standing {
        self.book.standing
    }

    /// When it came to be.
    pub fn created_at(&self) -> Timestamp {
        self.book.created_at
    }

    /// When it last changed.
    pub fn updated_at(&self) -> Timestamp {
        self.book.updated_at
    }

    /// The message from which it goes on.
    pub fn tip(&self) -> Option<&Id> {
        self.book.tip.as_ref()
    }

    /// The number of the next message.
    pub fn next_number(&self) -> i64 {
        self.book.highest.saturating_add(1)
    }

    /// How answers are weighed, if somebody said so.
    pub fn weights(&self) -> Option<[f64; 7]> {
        self.book.weights
    }

    /// The elite that was chosen.
    pub fn elite(&self) -> Option<&str> {
        self.book.elite.as_deref()
    }

    /// All preferences, as they are stored.
    pub fn preferences(&self) -> Map<String, Json> {
        self.book.all_preferences()
    }

    /// Whether thoughts are shown.
    pub fn shows_reasoning(&self) -> bool {
        self.book.shows_reasoning()
    }

    /// The answers whose turns have not ended.
    pub fn live_answers(&self) -> impl Iterator<Item = (&TurnId, &Answer)> {
        self.answers.iter()
    }

    /// Whether the reply to the request with which a turn began has not been written yet, as far as is known.
    pub(crate) fn is_unreplied(&self, turn: &TurnId) -> bool {
        self.answers.get(turn).is_some_and(|answer| answer.unreplied)
    }

    /// The answer that is being given to a message.
    pub fn answer_to(&self, question: &Id) -> Option<&Id> {
        let mut given = self.answers.values().filter(|answer| answer.question == *question);
        given.find(|answer| !answer.settled).map(|answer| &answer.id)
    }

    /// The call behind a use of a tool that is open.
    pub fn call_of(&self, tool_use: &Id) -> Option<(TurnId, CallId)> {
        self.answers.iter().find_map(|(turn, answer)| {
            let (call, _) = answer.calls.iter().find(|(_, open)| open.id == *tool_use)?;
            Some((turn.clone(), call.clone()))
        })
    }

    /// The name of the tool that is asked for and not answered yet.
    pub fn tool_of(&self, tool_use: &Id) -> Option<&str> {
        let calls = self.answers.values().flat_map(|answer| answer.calls.values());
        calls.into_iter().find(|open| open.id == *tool_use).map(|open| open.name.as_str())
    }

    /// Whether a use of a tool is over, as far as that is remembered.
    pub fn is_answered(&self, tool_use: &Id) -> bool {
        self.answered.contains(tool_use)
    }

    /// The totals (27).
    pub fn stats(&self, now: Timestamp) -> SessionStats {
        let duration = now.since(self.book.created_at).as_millis();
        SessionStats {
            message_count: self.book.messages,
            tool_call_count: self.book.tool_calls,
            memories_used: self.book.memories,
            session_duration: u64::try_from(duration).unwrap_or(u64::MAX),
        }
    }

    /// Title and status (28).
    pub fn update(&self) -> ConversationUpdate {
        ConversationUpdate {
            title: self.book.title.clone().map(Pii),
            status: Some(Word::Known(self.book.status())),
            updated_at: rfc3339(self.book.updated_at),
        }
    }
}

impl Chronicle for Annals {
    fn take(&mut self, committed: &Committed) -> Vec<Record> {
        Self::take(self, committed).records
    }

    fn state(&self) -> Bytes {
        Self::state(self)
    }
}

// Hold what was said.
impl fmt::Debug for Annals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Annals")
            .field("conversation", &self.book.id)
            .field("head", &self.book.head)
            .field("answers", &self.answers)
            .finish_non_exhaustive()
    }
}

/// Cuts text down to so many bytes.
fn clip(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

/// Changes whenever an older state cannot be gone on from.
const VERSION: u8 = 1;
/// The name of the protocol in what turns come from.
const PROTOCOL: &str = "alicia";
/// Uses of tools that are remembered after their end.
const ANSWERED: usize = 256;
/// Longest text of an AssistantMessage, which holds it twice and has to stay below 1 MiB.
const MOST_WHOLE: usize = 480 << 10;
