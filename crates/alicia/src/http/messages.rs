//! Messages: the active path, the whole tree, siblings, branches, and new ones.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::model::{Names, NewTurn, Origin, Parent, Place, TurnRequest};
use switchboard_core::{
    AgentId, Comparison, Condition, Lookup, MessageId, Op, Order, Question, Reject, Reply, SessionId, TurnId,
    Within,
};

use crate::annals::tables;
use crate::deed::{CHRONICLE, Deed, Luggage, Wishes};
use crate::id::{Id, Prefix};
use crate::limits::size;
use crate::message::ConversationStatus;
use crate::rows::{self, StoredMessage};
use crate::sync::after;

use super::Problem;
use super::exchange::Exchange;
use super::render::{self, StoredConversation};
use super::request::{MOST_ITEMS, id, object, text};

impl Exchange {
    /// The active path, or the whole tree, from the message behind a number on.
    pub(super) fn list_messages(&mut self) -> Result<(), Problem> {
        let (limit, after) = (self.request.limit()?, self.request.number("after")?.unwrap_or(i64::MIN));
        let all = self.request.parameter("all").is_some_and(|all| all == "true" || all == "1");
        self.with_conversation(move |exchange, session, conversation| {
            if all {
                exchange.list_tree(session, after, limit);
            } else if let Some(tip) = conversation.tip {
                exchange.walk(Walk { session, after, limit, kept: VecDeque::new(), more: false }, &tip);
            } else {
                exchange.show_messages(&[], false);
            }
        })
    }

    fn list_tree(&mut self, session: SessionId, after: i64, limit: usize) {
        let lookup = Lookup {
            table: tables::MESSAGES.name,
            within: Within::Session(session),
            conditions: vec![Condition {
                column: "sequence_number",
                is: Comparison::Above,
                value: after.into(),
            }],
            question: Question::Rows(vec![("sequence_number", Order::Rising), ("created_at", Order::Rising)]),
            limit: limit + 1,
        };
        self.look(lookup, move |exchange, rows| {
            let mut messages = rows::messages(&rows);
            let more = messages.len() > limit;
            if let Some(next) = messages.get(limit).map(|next| next.number) {
                messages.truncate(limit);
                // Siblings share a number, by which pages are told apart: they stay together.
                let whole = messages.iter().take_while(|message| message.number != next).count();
                messages.truncate(if whole == 0 { limit } else { whole });
            }
            exchange.show_messages(&messages, more);
        });
    }

    /// Goes back from a message, a page at a time, and keeps what lies farthest.
    fn walk(&mut self, mut walk: Walk, from: &str) {
        let lookup = rows::path(&walk.session, from, walk.after, MOST_ITEMS);
        self.look(lookup, move |exchange, rows| {
            let full = rows.len() >= MOST_ITEMS;
            let mut before = None;
            for message in rows::messages(&rows) {
                before.clone_from(&message.previous);
                walk.kept.push_back(message);
                if walk.kept.len() > walk.limit {
                    walk.kept.pop_front();
                    walk.more = true;
                }
            }
            match before.filter(|_| full) {
                Some(before) => exchange.walk(walk, before.as_str()),
                None => {
                    let messages: Vec<StoredMessage> = walk.kept.into_iter().rev().collect();
                    exchange.show_messages(&messages, walk.more);
                }
            }
        });
    }

    /// A page of messages; what would make it too large comes with the next one.
    fn show_messages(&mut self, messages: &[StoredMessage], more: bool) {
        let mut room = MOST_PAGE;
        let fits = messages.iter().take_while(|message| {
            let left = room.checked_sub(message.contents.len());
            room = left.unwrap_or_default();
            left.is_some()
        });
        let mut fits = fits.count().max(1);
        // Siblings share a number, by which pages are told apart: they stay together.
        let number = |index: usize| messages.get(index).map(|message| message.number);
        while fits > 1 && number(fits).is_some() && number(fits) == number(fits - 1) {
            fits -= 1;
        }
        let more = more || fits < messages.len();
        let messages: Vec<Value> = messages.iter().take(fits).map(render::message).collect();
        self.answer(200, &json!({ "messages": messages, "has_more": more }));
    }

    /// Messages that follow the same one, the message itself among them.
    pub(super) fn list_siblings(&mut self) -> Result<(), Problem> {
        self.with_message(|exchange, message| {
            let parent = message.previous.as_ref().map(Id::as_str);
            let lookup = Lookup {
                table: tables::MESSAGES.name,
                within: Within::Session(SessionId::new(message.conversation.as_str())),
                conditions: vec![Condition {
                    column: "previous_id",
                    is: Comparison::Equal,
                    value: parent.into(),
                }],
                question: Question::Rows(vec![
                    ("sequence_number", Order::Rising),
                    ("created_at", Order::Rising),
                ]),
                limit: MOST_ITEMS,
            };
            exchange.look(lookup, |exchange, rows| {
                let siblings: Vec<Value> = rows::messages(&rows).iter().map(render::message).collect();
                exchange.answer(200, &json!({ "siblings": siblings }));
            });
        })
    }

    pub(super) fn switch_branch(&mut self, body: &[u8]) -> Result<(), Problem> {
        let tip = id(&object(body)?, "tip_message_id")?;
        let tip = tip.ok_or_else(|| Problem::malformed("tip_message_id is missing"))?;
        self.with_conversation(move |exchange, session, _| {
            let within = Within::Session(session.clone());
            exchange.look(rows::by_id(&tables::MESSAGES, within, &tip), move |exchange, rows| {
                let Some(stored) = rows.first().and_then(StoredMessage::read) else {
                    return exchange.refuse(&Problem::no_message());
                };
                if after(&stored) != Parent::Message(MessageId::new(stored.id.as_str())) {
                    return exchange.refuse(&Problem::conflict("nothing came of this answer"));
                }
                let ops = VecDeque::from([Op::MoveTip { tip: MessageId::new(tip.as_str()) }]);
                exchange.submit_all(session.clone(), ops, move |exchange| exchange.show(200, &session));
            });
        })
    }

    /// A message like any UserMessage, under an id of the server's; its answer is given on the socket.
    pub(super) fn post_message(&mut self, body: &[u8]) -> Result<(), Problem> {
        let body = object(body)?;
        let contents = text(&body, "contents")?.or(text(&body, "content")?);
        let contents = contents.filter(|contents| !contents.trim().is_empty());
        let contents = contents.ok_or_else(|| Problem::malformed("contents is missing or empty"))?;
        if contents.len() > size(self.limits.content) {
            return Err(Problem::too_large("contents is too long"));
        }
        let local_id = text(&body, "local_id")?.filter(|local_id| !local_id.is_empty());
        if local_id.as_ref().is_some_and(|local_id| local_id.len() > MOST_LOCAL_ID) {
            return Err(Problem::malformed("local_id is too long"));
        }
        let previous = id(&body, "previous_id")?;
        self.with_conversation(move |exchange, session, conversation| {
            let Some(previous) = previous else {
                let post = Post { session, contents, local_id, parent: Parent::Tip };
                return exchange.check_post(post, &conversation);
            };
            let within = Within::Session(session.clone());
            exchange.look(rows::by_id(&tables::MESSAGES, within, &previous), move |exchange, rows| {
                let Some(stored) = rows.first().and_then(StoredMessage::read) else {
                    return exchange.refuse(&Problem::no_message());
                };
                let post = Post { session, contents, local_id, parent: after(&stored) };
                exchange.check_post(post, &conversation);
            });
        })
    }

    fn check_post(&mut self, post: Post, conversation: &StoredConversation) {
        if conversation.status != ConversationStatus::Active {
            return self.refuse(&Problem::inactive());
        }
        if conversation.head <= LAST_STANZA {
            return self.refuse(&Problem::conflict("the conversation is full, start a new one"));
        }
        let offer = |id: &String| self.service.elites.iter().find(|offer| offer.elite.id.as_str() == id);
        let agent = conversation.elite.as_ref().and_then(offer).and_then(|offer| offer.agent.clone());
        match &post.local_id {
            Some(local_id) => {
                let within = Within::Session(post.session.clone());
                let lookup = rows::where_equal(&tables::MESSAGES, within, "local_id", local_id, 1);
                self.look(lookup, move |exchange, rows| match rows.first().and_then(StoredMessage::read) {
                    None => exchange.start_turn(post, agent),
                    Some(known) => exchange.repeat(&post, &known),
                });
            }
            None => self.start_turn(post, agent),
        }
    }

    /// A message that is known is not answered once more.
    fn repeat(&mut self, post: &Post, known: &StoredMessage) {
        if known.contents == post.contents {
            self.answer(202, &render::message(known));
        } else {
            self.refuse(&Problem::conflict("local_id is already used for something else"));
        }
    }

    fn start_turn(&mut self, post: Post, agent: Option<AgentId>) {
        // Of two who post the same message at once only one can succeed.
        let input = match &post.local_id {
            Some(local_id) => {
                let author = self.principal.id.as_str();
                Id::derived(Prefix::Message, &[post.session.as_str(), author, local_id])
            }
            None => Id::fresh(Prefix::Message, &self.seed, 1),
        };
        let name = |id: &Id| MessageId::new(id.as_str());
        let answer = Id::fresh(Prefix::Message, &self.seed, 2);
        let parent = post.parent.clone();
        let luggage = Luggage { local_id: post.local_id.clone(), ..Luggage::default() };
        let names = Names { input: Some(name(&input)), answer: Some(name(&answer)), again: false };
        let turn = TurnId::fresh(&self.seed, 1);
        // Whoever asks for it waits for the answer, and gets both.
        let both = self.request.parameter("sync").as_deref() == Some("true");
        let options = Wishes { posted: !both, ..Wishes::default() }.to_options();
        let origin = Origin { options, ..Origin::new(self.principal.id.clone(), "alicia") };
        let deadline = self.now.after(Duration::from_secs(self.limits.generation_s.into()));
        let turn = NewTurn {
            agent,
            place: Place { parent, names, meta: luggage.to_meta(), supersedes: true },
            once: true,
            ..NewTurn::new(turn, TurnRequest::chat(post.contents.clone()), origin, deadline)
        };
        let session = post.session.clone();
        if !both {
            let record = Deed::Replied { turn: turn.turn.to_string() }.to_record();
            self.tell_last(session.clone(), Op::Record { chronicle: CHRONICLE.into(), record });
        }
        self.submit(&session, Op::StartTurn(Box::new(turn)), move |exchange, outcome| match outcome {
            Ok(Reply::Turn { turn, accepted, .. }) if both => {
                let session = post.session.clone();
                exchange.wait_for(&post.session, turn, accepted, move |exchange| {
                    exchange.show_both(session, &input, answer);
                });
            }
            Ok(_) => exchange.show_posted(post, &input),
            // Under a name that follows from what the client calls it, it can be there already.
            Err(Reject::DuplicateMessage(_)) => {
                exchange.tell_nothing_last();
                exchange.show_posted(post, &input);
            }
            Err(reject) => {
                exchange.tell_nothing_last();
                exchange.refuse(&reject.into());
            }
        });
    }

    /// A message and its answer, if there is one.
    fn show_both(&mut self, session: SessionId, input: &Id, answer: Id) {
        let lookup = rows::by_id(&tables::MESSAGES, Within::Session(session.clone()), input);
        self.look(lookup, move |exchange, question| {
            let lookup = rows::by_id(&tables::MESSAGES, Within::Session(session), &answer);
            exchange.look(lookup, move |exchange, found| {
                let rows = question.first().into_iter().chain(found.first());
                let messages: Vec<Value> =
                    rows.filter_map(StoredMessage::read).map(|stored| render::message(&stored)).collect();
                exchange.answer(200, &json!({ "messages": messages }));
            });
        });
    }

    fn show_posted(&mut self, post: Post, input: &Id) {
        let lookup = rows::by_id(&tables::MESSAGES, Within::Session(post.session.clone()), input);
        self.look(lookup, move |exchange, rows| match rows.first().and_then(StoredMessage::read) {
            Some(stored) => exchange.repeat(&post, &stored),
            None => exchange.refuse(&Reject::Busy.into()),
        });
    }
}

/// A message that is posted.
struct Post {
    session: SessionId,
    contents: String,
    local_id: Option<String>,
    parent: Parent,
}

/// A way back from the tip.
struct Walk {
    session: SessionId,
    after: i64,
    limit: usize,
    /// What lies farthest so far, the nearest first.
    kept: VecDeque<StoredMessage>,
    more: bool,
}

/// Bytes of text in one page.
const MOST_PAGE: usize = 4 << 20;
/// Longest id that a client may give a message, in bytes.
const MOST_LOCAL_ID: usize = 255;
/// Where the server takes no more turns (§2.3).
const LAST_STANZA: i64 = -2_147_483_647;
