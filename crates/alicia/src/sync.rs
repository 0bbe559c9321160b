//! Messages written offline (§7), one after another.
//!
//! A [`Sync`] knows the rules and does nothing by itself: whoever carries it does each [`Step`] and comes back
//! with what came of it, until the answer is there. A message is stored under an id that follows from the one
//! its client gave it, so that of two who sync the same message at once only one can succeed; the other finds
//! it stored.

use std::collections::{BTreeMap, VecDeque};

use switchboard_core::model::{Import, Parent, Voice};
use switchboard_core::{
    Lookup, MessageId, Op, Pii, PrincipalId, Reject, Reply, SessionId, Timestamp, Within,
};

use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed, Luggage};
use crate::id::{Id, Prefix};
use crate::message::{
    MessageResponse, Role, SyncConflict, SyncMessage, SyncRequest, SyncResponse, SyncStatus, SyncedMessage,
    Word,
};
use crate::moment::{parse_rfc3339, rfc3339};
use crate::rows::{self, StoredMessage};

/// A SyncRequest that is being done.
#[derive(Debug)]
pub(crate) struct Sync {
    session: SessionId,
    author: PrincipalId,
    waiting: VecDeque<SyncMessage>,
    /// What the messages of this request are called by now.
    known: BTreeMap<String, Id>,
    done: Vec<SyncedMessage>,
    /// Bytes of text that the answer may still repeat.
    room: usize,
    now: Timestamp,
}

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Step {
    /// Look something up.
    Look(Lookup, Stage),
    /// Ask the session.
    Submit(Op, Stage),
    /// Answer.
    Done(SyncResponse),
    /// Give up: what was done stays done, and may be asked for again.
    Failed(Reject),
}

/// What a step is for; to be handed back with what came of it.
#[derive(Debug)]
pub(crate) struct Stage {
    message: SyncMessage,
    purpose: Purpose,
}

#[derive(Debug)]
enum Purpose {
    /// Whether the message is stored.
    Known {
        /// Whether somebody else was just about to store it.
        contested: bool,
    },
    /// Whether what it follows is called so by a client.
    LocalParent,
    /// Whether what it follows is called so by the server.
    Parent,
    /// The message is put into the tree.
    Import(Id),
    /// How it is stored.
    Read,
    /// Something else is stored under its name, which is noted.
    Conflict(Box<StoredMessage>),
}

impl Stage {
    /// The message that is about to be put into the tree, in the name of whoever syncs.
    pub(crate) fn imports(&self) -> Option<&Id> {
        if let Purpose::Import(id) = &self.purpose { Some(id) } else { None }
    }
}

impl Sync {
    /// Begins with a request; the answer repeats no more than `room` bytes of text.
    pub(crate) fn new(session: SessionId, author: PrincipalId, request: SyncRequest, room: usize) -> Self {
        Self {
            session,
            author,
            waiting: request.messages.into(),
            known: BTreeMap::new(),
            done: Vec::new(),
            room,
            now: Timestamp::default(),
        }
    }

    /// The first thing to do.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Step {
        self.now = now;
        while let Some(message) = self.waiting.pop_front() {
            let reason = match &message {
                SyncMessage { local_id, .. } if local_id.is_empty() => "Local ID is required",
                SyncMessage { local_id, .. } if local_id.len() > MOST_LOCAL_ID => "Local ID is too long",
                SyncMessage { role: Word::Other(role), .. } if role.is_empty() => "Message role is required",
                SyncMessage { role: Word::Other(_) | Word::Known(Role::System), .. } => "Role not allowed",
                // As with a message that is sent at once: there is nothing to say in nothing.
                SyncMessage { contents: Pii(contents), .. } if contents.trim().is_empty() => {
                    "Message contents are required"
                }
                SyncMessage { contents: Pii(contents), .. } if contents.len() > MOST_CONTENTS => {
                    "Message contents are too long"
                }
                SyncMessage { .. } => return self.look_known(message, false),
            };
            self.conflict(message.local_id, reason, None);
        }
        Step::Done(SyncResponse { synced_messages: std::mem::take(&mut self.done), synced_at: rfc3339(now) })
    }

    /// The next thing to do, after what came of the last one.
    pub(crate) fn proceed(&mut self, stage: Stage, outcome: Result<Reply, Reject>, now: Timestamp) -> Step {
        let Stage { message, purpose } = stage;
        let rows = match (outcome, &purpose) {
            (Ok(Reply::Rows(rows)), _) => rows,
            (Ok(_), _) => Vec::new(),
            (Err(Reject::DuplicateMessage(_)), Purpose::Import(_)) => return self.look_known(message, true),
            (Err(Reject::UnknownMessage(_)), Purpose::Import(_)) => {
                return self.refuse(message, NO_PARENT, None, now);
            }
            (Err(Reject::Limit { .. }), Purpose::Import(_)) => {
                return self.refuse(message, "Message contents are too long", None, now);
            }
            (Err(reject), _) => return Step::Failed(reject),
        };
        let stored = rows.first().and_then(StoredMessage::read);
        match (purpose, stored) {
            (Purpose::Known { .. } | Purpose::Read, Some(stored)) => self.compare(message, stored, now),
            (Purpose::Known { contested: false }, None) => self.find_parent(message),
            // It was there and is not: whoever was faster has not come to rest.
            (Purpose::Known { contested: true } | Purpose::Read, None) => Step::Failed(Reject::Busy),
            (Purpose::LocalParent | Purpose::Parent, Some(stored)) => self.import(message, after(&stored)),
            (Purpose::LocalParent, None) => match message.previous_id.as_deref().map(Id::new) {
                Some(Ok(parent)) => {
                    let lookup = rows::by_id(&tables::MESSAGES, self.within(), &parent);
                    Step::Look(lookup, Stage { message, purpose: Purpose::Parent })
                }
                Some(Err(_)) | None => self.refuse(message, NO_PARENT, None, now),
            },
            (Purpose::Parent, None) => self.refuse(message, NO_PARENT, None, now),
            (Purpose::Import(id), _) => {
                let lookup = rows::by_id(&tables::MESSAGES, self.within(), &id);
                Step::Look(lookup, Stage { message, purpose: Purpose::Read })
            }
            (Purpose::Conflict(stored), _) => self.refuse(message, OTHER_CONTENT, Some(*stored), now),
        }
    }

    fn within(&self) -> Within {
        Within::Session(self.session.clone())
    }

    fn look_known(&self, message: SyncMessage, contested: bool) -> Step {
        let lookup = rows::where_equal(&tables::MESSAGES, self.within(), "local_id", &message.local_id, 1);
        Step::Look(lookup, Stage { message, purpose: Purpose::Known { contested } })
    }

    /// What is stored under the name of a message decides whether it is synced.
    fn compare(&mut self, message: SyncMessage, stored: StoredMessage, now: Timestamp) -> Step {
        self.known.insert(message.local_id.clone(), stored.id.clone());
        if stored.contents != message.contents.0 {
            let record = Deed::Conflicted { message: stored.id.to_string() }.to_record();
            let op = Op::Record { chronicle: CHRONICLE.into(), record };
            return Step::Submit(op, Stage { message, purpose: Purpose::Conflict(Box::new(stored)) });
        }
        let synced = SyncedMessage {
            local_id: message.local_id,
            server_id: Some(stored.id.clone()),
            status: Word::Known(SyncStatus::Synced),
            message: self.repeat(&stored),
            conflict: None,
        };
        self.done.push(synced);
        self.begin(now)
    }

    fn find_parent(&self, message: SyncMessage) -> Step {
        let Some(previous) = &message.previous_id else { return self.import(message, Parent::Tip) };
        if let Some(parent) = self.known.get(previous) {
            let parent = Parent::Message(MessageId::new(parent.as_str()));
            return self.import(message, parent);
        }
        let lookup = rows::where_equal(&tables::MESSAGES, self.within(), "local_id", previous, 1);
        Step::Look(lookup, Stage { message, purpose: Purpose::LocalParent })
    }

    fn import(&self, message: SyncMessage, parent: Parent) -> Step {
        let parts = [self.session.as_str(), self.author.as_str(), &message.local_id];
        let id = Id::derived(Prefix::Message, &parts);
        let moment = |text: &str| {
            let at = parse_rfc3339(text)?;
            i64::try_from(at.as_millis()).ok()
        };
        let luggage = Luggage {
            written_ms: moment(&message.created_at),
            changed_ms: message.updated_at.as_deref().and_then(moment),
            number: Some(message.sequence_number),
            local_id: Some(message.local_id.clone()),
            ..Luggage::default()
        };
        let import = Import {
            id: MessageId::new(id.as_str()),
            parent,
            voice: if message.role.known() == Some(Role::Assistant) { Voice::Agent } else { Voice::User },
            text: message.contents.0.clone(),
            meta: luggage.to_meta(),
        };
        Step::Submit(Op::Import(Box::new(import)), Stage { message, purpose: Purpose::Import(id) })
    }

    fn refuse(
        &mut self,
        message: SyncMessage,
        reason: &str,
        stored: Option<StoredMessage>,
        now: Timestamp,
    ) -> Step {
        self.conflict(message.local_id, reason, stored);
        self.begin(now)
    }

    fn conflict(&mut self, local_id: String, reason: &str, stored: Option<StoredMessage>) {
        let conflict = SyncConflict {
            reason: reason.to_owned(),
            server_message: stored.as_ref().and_then(|stored| self.repeat(stored)),
            resolution: "manual".to_owned(),
        };
        self.done.push(SyncedMessage {
            local_id,
            server_id: stored.map(|stored| stored.id),
            status: Word::Known(SyncStatus::Conflict),
            message: None,
            conflict: Some(conflict),
        });
    }

    /// What is stored, as long as the answer has room for it.
    fn repeat(&mut self, stored: &StoredMessage) -> Option<MessageResponse> {
        self.room = self.room.checked_sub(stored.contents.len())?;
        Some(stored.response())
    }
}

/// Where something stands that follows a stored message. An answer of which nothing came is in no tree: what
/// it would have answered is followed instead.
pub(crate) fn after(stored: &StoredMessage) -> Parent {
    let came = stored.status != "failed" && !stored.contents.is_empty();
    let parent = if came || stored.role != Role::Assistant || stored.status == "streaming" {
        Some(&stored.id)
    } else {
        stored.previous.as_ref()
    };
    parent.map_or(Parent::Root, |parent| Parent::Message(MessageId::new(parent.as_str())))
}

const NO_PARENT: &str = "Previous message not found";
const OTHER_CONTENT: &str = "Content mismatch with existing message";
/// Longest id that a client may give a message, in bytes.
const MOST_LOCAL_ID: usize = 255;
/// Longest message, in bytes (§11.1).
const MOST_CONTENTS: usize = 65_536;
