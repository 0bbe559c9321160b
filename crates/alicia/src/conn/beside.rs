//! What is done beside the turns: remarks, votes, notes, weights, elites (§4.15, §4.18, §4.19, §4.22, §5.7).

use switchboard_core::{Comparison, Condition, Found, Lookup, Op, Question, SessionId, Table, Within};

use super::AliciaConnection;
use super::jobs::{Answer, Job, Task, session_of};
use super::say::meta_of;
use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed};
use crate::error::Code;
use crate::id::Id;
use crate::message::{
    Aggregates, Body, Commentary, Feedback, FeedbackConfirmation, NoteAction, NoteConfirmation, SpecialVotes,
    TargetType, UserNote, Vote, Word,
};
use crate::rows::{self, Row};

/// A Commentary is being taken in.
#[derive(Debug)]
pub(super) enum Commenting {
    /// Whether it is known is being looked up.
    Checking,
    /// What it is about is being looked up.
    Seeking,
}

/// A Feedback is being taken in.
#[derive(Debug)]
pub(super) enum Voting {
    /// Whether it is known is being looked up.
    Checking,
    /// The message that owns the target is being looked up.
    Owner,
    /// The target is being looked up.
    Target {
        /// What its owner answers.
        answers: Option<Id>,
    },
    /// The vote is being noted.
    Noting,
    /// The votes are being counted, afterwards.
    Counting,
}

/// A UserNote is being taken in.
#[derive(Debug)]
pub(super) enum Noting {
    /// Its message is being looked up.
    Message,
    /// The note is being looked up, in the session of its message.
    Note(SessionId),
    /// It is being written down.
    Writing,
}

impl AliciaConnection {
    /// Notes something in the session of a conversation, on behalf of the job that is being done.
    pub(super) fn record(&mut self, session: &SessionId, deed: &Deed) {
        self.submit(session, Op::Record { chronicle: CHRONICLE.into(), record: deed.to_record() });
    }

    pub(super) fn begin_weighing(&mut self, job: Job) {
        let (Body::DimensionPreference(preference), Some(session)) = (&job.body, job.session()) else {
            return;
        };
        let deed = Deed::Weighed { weights: preference.resolved().to_array() };
        self.record(&session, &deed);
        self.wait(job, Task::Recording);
    }

    pub(super) fn begin_choosing(&mut self, job: Job) {
        let (Body::EliteSelect(select), Some(session)) = (&job.body, job.session()) else { return };
        let elite = select.elite_id.clone();
        if !self.service.elites.iter().any(|offer| offer.elite.id == elite) {
            return self.refuse(&job, Code::NotFound, "this elite is not on offer");
        }
        self.record(&session, &Deed::Chose { elite: elite.to_string() });
        self.wait(job, Task::Recording);
    }

    pub(super) fn begin_commenting(&mut self, job: Job) {
        let Body::Commentary(commentary) = &job.body else { return };
        self.look(rows::by_id(&tables::COMMENTARIES, Within::Own, &commentary.id));
        self.wait(job, Task::Commenting(Commenting::Checking));
    }

    pub(super) fn go_on_commenting(&mut self, job: Job, commenting: Commenting, answer: Answer) {
        let (Body::Commentary(commentary), Some(session)) = (&job.body, job.session()) else { return };
        let commentary = commentary.clone();
        let found = match answer.rows() {
            Ok(found) => found,
            Err(reject) => return self.refuse_rejected(&job, &reject),
        };
        match (commenting, &commentary.message_id) {
            (Commenting::Checking, _) if !found.is_empty() => {
                let row = found.first().map(|cells| Row::new(&tables::COMMENTARIES, cells));
                let same = row.is_some_and(|row| {
                    row.text("conversation_id") == Some(session.as_str())
                        && row.text("content") == Some(commentary.content.0.as_str())
                });
                if same {
                    self.acknowledge(&job, true);
                } else {
                    self.refuse(&job, Code::InvalidState, "the id is already used for something else");
                }
            }
            (Commenting::Checking, _) if job.stale => self.refuse_stale(&job),
            (Commenting::Checking, _) if commentary.id.is_fallback() => {
                self.refuse(&job, Code::OutOfRange, "id is no usable id");
            }
            (Commenting::Checking, Some(message)) => {
                self.look(rows::by_id(&tables::MESSAGES, Within::Session(session), message));
                self.wait(job, Task::Commenting(Commenting::Seeking));
            }
            (Commenting::Seeking, _) if found.is_empty() => {
                self.refuse(&job, Code::NotFound, "messageId names no message here");
            }
            (Commenting::Checking, None) | (Commenting::Seeking, _) => {
                let deed = commented(&commentary, &job);
                self.record(&session, &deed);
                self.wait(job, Task::Recording);
            }
        }
    }

    pub(super) fn begin_voting(&mut self, job: Job) {
        let (Body::Feedback(feedback), Some(session)) = (&job.body, job.session()) else { return };
        self.look(rows::by_id(&tables::VOTES_CAST, Within::Session(session), &feedback.id));
        self.wait(job, Task::Voting(Voting::Checking));
    }

    pub(super) fn go_on_voting(&mut self, job: Job, voting: Voting, answer: Answer) {
        let (Body::Feedback(feedback), Some(session)) = (&job.body, job.session()) else { return };
        let feedback = feedback.clone();
        let next = |voting| Task::Voting(voting);
        match voting {
            Voting::Checking => match answer.rows() {
                Ok(found) => match found.first() {
                    // A repeat has no second effect, also if the vote was changed meanwhile.
                    Some(cells) if self.is_repeat(&feedback, &Row::new(&tables::VOTES_CAST, cells)) => {
                        self.look(votes_on(&feedback, &session));
                        self.wait(job, next(Voting::Counting));
                    }
                    Some(_) => {
                        self.refuse(&job, Code::InvalidState, "the id is already used for something else");
                    }
                    None if job.stale => self.refuse_stale(&job),
                    None => {
                        self.look(rows::by_id(
                            &tables::MESSAGES,
                            Within::Session(session),
                            &feedback.message_id,
                        ));
                        self.wait(job, next(Voting::Owner));
                    }
                },
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Voting::Owner => match answer.rows() {
                Ok(found) if found.is_empty() => {
                    self.refuse(&job, Code::NotFound, "messageId names no message here")
                }
                Ok(found) => {
                    let owner = rows::messages(&found).into_iter().next();
                    let answers = owner.and_then(|owner| owner.previous);
                    self.look(target_of(&feedback, &session));
                    self.wait(job, next(Voting::Target { answers }));
                }
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Voting::Target { answers } => match answer.rows() {
                Ok(found) if found.is_empty() => {
                    self.refuse(&job, Code::NotFound, "targetId names nothing here")
                }
                Ok(found) if !is_owned(&feedback, &found, answers.as_ref()) => {
                    self.refuse(&job, Code::NotFound, "targetId names nothing of this message")
                }
                Ok(_) => {
                    self.record(&session, &voted(&feedback));
                    self.wait(job, next(Voting::Noting));
                }
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Voting::Noting => match answer.reply() {
                Ok(reply) => {
                    self.expect(&job, &reply);
                    self.look(votes_on(&feedback, &session));
                    self.wait(job, next(Voting::Counting));
                }
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
            Voting::Counting => match answer.rows() {
                Ok(found) => self.counted(&job, &feedback, &found),
                Err(reject) => self.refuse_rejected(&job, &reject),
            },
        }
    }

    /// Whether this vote was cast before under the same id.
    fn is_repeat(&self, feedback: &Feedback, cast: &Row<'_>) -> bool {
        cast.text("created_by") == Some(self.principal.id.as_str())
            && cast.text("target_type") == Some(feedback.target_type.name())
            && cast.text("target_id") == Some(feedback.target_id.as_str())
            && cast.text("vote") == word_of(feedback.vote)
    }

    fn counted(&mut self, job: &Job, feedback: &Feedback, found: &[Found]) {
        let live: Vec<Row<'_>> = votes(found).filter(|row| !row.is_deleted()).collect();
        let count =
            |vote: Vote| live.iter().filter(|row| row.text("vote") == Some(vote.name())).count() as u64;
        let critical = count(Vote::Critical);
        let special = SpecialVotes(vec![(Vote::Critical.name().to_owned(), critical)]);
        let own = live.iter().find(|row| row.text("created_by") == Some(self.principal.id.as_str()));
        let confirmation = FeedbackConfirmation {
            feedback_id: feedback.id.clone(),
            target_type: feedback.target_type,
            target_id: feedback.target_id.clone(),
            aggregates: Aggregates {
                upvotes: count(Vote::Up),
                downvotes: count(Vote::Down),
                special_votes: (critical > 0).then_some(special),
            },
            user_vote: own.and_then(|row| Vote::from_name(row.text("vote")?)),
        };
        self.say(job.conversation.as_ref(), confirmation);
    }

    pub(super) fn begin_noting(&mut self, job: Job) {
        let Body::UserNote(note) = &job.body else { return };
        let within = job.session().map_or(Within::Own, Within::Session);
        self.look(rows::by_id(&tables::MESSAGES, within, &note.message_id));
        self.wait(job, Task::Noting(Noting::Message));
    }

    pub(super) fn go_on_noting(&mut self, job: Job, noting: Noting, answer: Answer) {
        let Body::UserNote(note) = &job.body else { return };
        let note = note.clone();
        match noting {
            Noting::Message => {
                let found = answer.rows().unwrap_or_default();
                let Some(message) = rows::messages(&found).into_iter().next() else {
                    return self.noted(&job, &note, false);
                };
                let session = session_of(&message.conversation);
                self.look(rows::by_id(&tables::NOTES, Within::Own, &note.id));
                self.wait(job, Task::Noting(Noting::Note(session)));
            }
            Noting::Note(session) => match answer.rows() {
                Ok(found) => self.note(job, &note, &session, &found),
                Err(_) => self.noted(&job, &note, false),
            },
            Noting::Writing => {
                let success = match answer.reply() {
                    Ok(reply) => {
                        self.expect(&job, &reply);
                        true
                    }
                    Err(_) => false,
                };
                self.noted(&job, &note, success);
            }
        }
    }

    fn note(&mut self, job: Job, note: &UserNote, session: &SessionId, found: &[Found]) {
        let known = found.first().map(|cells| Row::new(&tables::NOTES, cells));
        let here = known.is_some_and(|row| {
            row.text("conversation_id") == Some(session.as_str())
                && row.text("message_id") == Some(note.message_id.as_str())
        });
        let alive = known.is_some_and(|row| here && !row.is_deleted());
        let says = known.and_then(|row| row.text("content")).unwrap_or_default();
        let (content, category) = match note.action.known() {
            Some(NoteAction::Create) if known.is_none() && note.id.is_fallback() => {
                return self.noted(&job, note, false);
            }
            Some(NoteAction::Create) if known.is_none() => {
                (Some(note.content.0.clone()), Some(note.category.name().to_owned()))
            }
            // A repeat, if it says what was said then, whatever became of that.
            Some(NoteAction::Create) => {
                let same = known.is_some_and(|row| here && row.was_made_with(&note.content.0));
                return self.noted(&job, note, same);
            }
            Some(NoteAction::Update) if alive && says == note.content.0 => {
                return self.noted(&job, note, true);
            }
            Some(NoteAction::Update) if alive => (Some(note.content.0.clone()), None),
            Some(NoteAction::Delete) if alive => (None, None),
            Some(NoteAction::Delete) => return self.noted(&job, note, here),
            Some(NoteAction::Update) | None => return self.noted(&job, note, false),
        };
        if job.stale {
            return self.refuse_stale(&job);
        }
        let (id, message) = (note.id.to_string(), note.message_id.to_string());
        self.record(session, &Deed::Noted { id, message, content, category });
        self.wait(job, Task::Noting(Noting::Writing));
    }

    fn noted(&mut self, job: &Job, note: &UserNote, success: bool) {
        let confirmation =
            NoteConfirmation { note_id: note.id.clone(), message_id: note.message_id.clone(), success };
        self.say(job.conversation.as_ref(), confirmation);
    }
}

fn commented(commentary: &Commentary, job: &Job) -> Deed {
    let mut meta = meta_of(&job.meta);
    for (key, value) in [("author_role", &commentary.author_role), ("rating", &commentary.rating)] {
        if let Some(value) = value.as_ref().and_then(|value| serde_json::to_value(value).ok()) {
            meta.insert(key.to_owned(), value);
        }
    }
    Deed::Commented {
        id: commentary.id.to_string(),
        message: commentary.message_id.as_ref().map(Id::to_string),
        content: commentary.content.0.clone(),
        kind: commentary.commentary_type.as_ref().map(|kind| match kind {
            Word::Known(kind) => kind.name().to_owned(),
            Word::Other(kind) => kind.clone(),
        }),
        meta,
    }
}

fn voted(feedback: &Feedback) -> Deed {
    Deed::Voted {
        id: feedback.id.to_string(),
        message: feedback.message_id.to_string(),
        target_type: feedback.target_type.name().to_owned(),
        target: feedback.target_id.to_string(),
        vote: word_of(feedback.vote).map(str::to_owned),
        quick: feedback.quick_feedback.map(|quick| quick.name().to_owned()),
        note: feedback.note.as_ref().map(|note| note.0.clone()),
    }
}

/// A vote as it is stored; none takes back what was there.
fn word_of(vote: Vote) -> Option<&'static str> {
    (vote != Vote::Remove).then(|| vote.name())
}

/// Where the target of a vote is to be found.
fn target_of(feedback: &Feedback, session: &SessionId) -> Lookup {
    let (table, owner) = kept_in(feedback.target_type);
    // Memories belong to the person, not to the conversation.
    let within = if owner.is_some() { Within::Session(session.clone()) } else { Within::Own };
    rows::by_id(table, within, &feedback.target_id)
}

/// The table that holds targets of this type, and which of its columns names the message that owns one.
fn kept_in(target_type: TargetType) -> (&'static Table, Option<&'static str>) {
    match target_type {
        TargetType::Message => (&tables::MESSAGES, Some("id")),
        TargetType::ToolUse => (&tables::TOOL_USES, Some("message_id")),
        TargetType::Memory | TargetType::MemoryExtraction => (&tables::MEMORY, None),
        TargetType::Reasoning => (&tables::REASONING_STEPS, Some("message_id")),
        TargetType::Sentence => (&tables::SENTENCES, Some("message_id")),
        TargetType::MemoryUsage => (&tables::MEMORY_USED, Some("message_id")),
    }
}

/// Whether the target of a vote belongs to the message that is named with it.
fn is_owned(feedback: &Feedback, found: &[Found], answers: Option<&Id>) -> bool {
    let (table, Some(owner)) = kept_in(feedback.target_type) else { return true };
    let owner = found.first().and_then(|cells| Row::new(table, cells).text(owner));
    // A memory is used for a question, and shown with its answer.
    let answers = answers.filter(|_| feedback.target_type == TargetType::MemoryUsage);
    [Some(&feedback.message_id), answers].into_iter().flatten().any(|id| owner == Some(id.as_str()))
}

/// The votes on the same target.
fn votes_on(feedback: &Feedback, session: &SessionId) -> Lookup {
    let equal = |column, value: &str| Condition { column, is: Comparison::Equal, value: value.into() };
    Lookup {
        table: tables::VOTES.name,
        within: Within::Session(session.clone()),
        conditions: vec![
            equal("target_type", feedback.target_type.name()),
            equal("target_id", feedback.target_id.as_str()),
        ],
        question: Question::Rows(Vec::new()),
        limit: MAX_VOTES,
    }
}

fn votes(found: &[Found]) -> impl Iterator<Item = Row<'_>> {
    found.iter().map(|cells| Row::new(&tables::VOTES, cells))
}

/// Votes on one target that are counted: one for each participant of a session.
const MAX_VOTES: usize = 1024;
