//! Messages written offline, over HTTP (§7).

use bytes::{Bytes, BytesMut};
use serde_json::{Value as Json, json};
use switchboard_core::{Cell, Comparison, Condition, Lookup, Order, Question, SessionId, Within};

use crate::annals::tables;
use crate::limits::size;
use crate::message::{ConversationStatus, SyncRequest, SyncResponse};
use crate::rows::{Row, count, moment};
use crate::sync::{Step, Sync};
use crate::value::{Map, Value, decode_msgpack, encode_msgpack};

use super::Problem;
use super::exchange::{Exchange, JSON};
use super::request::object;

impl Exchange {
    pub(super) fn sync(&mut self, body: &[u8]) -> Result<(), Problem> {
        let packed = |header: Option<&str>| header.is_some_and(|value| value.contains(MSGPACK));
        let came_packed = packed(self.request.header("content-type"));
        let accepted = self.request.header("accept");
        let indifferent = accepted.is_none_or(|accepted| accepted.contains("*/*"));
        let answer_packed = packed(accepted) || (indifferent && came_packed);
        let map = if came_packed { from_msgpack(body)? } else { from_json(body)? };
        let request = SyncRequest::from_map(map, &self.limits)
            .map_err(|error| Problem::malformed(error.to_string()))?;
        let (author, room) = (self.principal.id.clone(), size(self.limits.sync_body));
        self.with_conversation(move |exchange, session, conversation| {
            if conversation.status != ConversationStatus::Active {
                return exchange.refuse(&Problem::inactive());
            }
            let mut sync = Sync::new(session.clone(), author, request, room);
            let step = sync.begin(exchange.now);
            exchange.step(session, sync, step, answer_packed);
        })
    }

    fn step(&mut self, session: SessionId, mut sync: Sync, step: Step, packed: bool) {
        match step {
            Step::Look(lookup, stage) => self.try_look(lookup, move |exchange, outcome| {
                let step = sync.proceed(stage, outcome, exchange.now);
                exchange.step(session, sync, step, packed);
            }),
            Step::Submit(op, stage) => self.submit(&session.clone(), op, move |exchange, outcome| {
                let step = sync.proceed(stage, outcome, exchange.now);
                exchange.step(session, sync, step, packed);
            }),
            Step::Done(response) if packed => self.answer_as(200, MSGPACK, to_msgpack(&response)),
            Step::Done(response) => {
                let json = json!(to_json(Value::Map(response.to_map(None))));
                self.answer_as(200, JSON, json.to_string().into());
            }
            Step::Failed(reject) => self.refuse(&reject.into()),
        }
    }

    pub(super) fn sync_status(&mut self) -> Result<(), Problem> {
        self.with_conversation(|exchange, session, _| {
            exchange.look(synced(&session, "synced", Question::Count), move |exchange, synced_rows| {
                exchange.look(synced(&session, "conflict", Question::Count), move |exchange, conflicts| {
                    let last = synced(&session, "", Question::Rows(vec![("synced_at", Order::Falling)]));
                    exchange.look(last, move |exchange, last| {
                        let last = last.first().map(|cells| Row::new(&tables::MESSAGES, cells));
                        let last = last.and_then(|row| row.integer("synced_at")).map(moment);
                        let status = json!({
                            "conversation_id": session.as_str(),
                            "pending_count": 0,
                            "synced_count": count(&synced_rows),
                            "conflict_count": count(&conflicts),
                            "last_synced_at": last,
                        });
                        exchange.answer(200, &status);
                    });
                });
            });
        })
    }
}

/// Messages that were written offline, those in this state if one is named.
fn synced(session: &SessionId, state: &str, question: Question) -> Lookup {
    let mut conditions = vec![Condition { column: "local_id", is: Comparison::Unequal, value: Cell::Null }];
    if !state.is_empty() {
        conditions.push(Condition { column: "sync_status", is: Comparison::Equal, value: state.into() });
    }
    let within = Within::Session(session.clone());
    Lookup { table: tables::MESSAGES.name, within, conditions, question, limit: 1 }
}

fn from_msgpack(body: &[u8]) -> Result<Map, Problem> {
    match decode_msgpack(body) {
        Ok(Value::Map(map)) => Ok(map),
        Ok(_) => Err(Problem::malformed("the body must be a map")),
        Err(error) => Err(Problem::malformed(error.to_string())),
    }
}

/// A request whose names are those of columns. Only what is known is taken over: a map of any size costs no
/// more than the few members that count.
fn from_json(body: &[u8]) -> Result<Map, Problem> {
    let mut body = object(body)?;
    let Some(Json::Array(messages)) = body.remove("messages") else {
        return Err(Problem::malformed("messages must be a list"));
    };
    let messages = messages.into_iter().map(|message| {
        // What is no object has no members, and is refused by itself.
        let mut members = if let Json::Object(members) = message { members } else { Default::default() };
        let known = MEMBERS.iter().filter_map(|(column, key)| {
            let member = members.remove(*column).or_else(|| members.remove(*key))?;
            Some((*key, member))
        });
        // What has no form here is of a wrong type, whatever it is.
        let known = known.map(|(key, member)| (key, Value::try_from(member).unwrap_or(Value::Bool(false))));
        Value::Map(known.collect())
    });
    Ok(Map::from_iter([("messages", Value::Array(messages.collect()))]))
}

fn to_msgpack(response: &SyncResponse) -> Bytes {
    let mut out = BytesMut::new();
    encode_msgpack(&Value::Map(response.to_map(None)), &mut out);
    out.freeze()
}

/// An answer with the names of columns; it holds no names but ours.
fn to_json(value: Value) -> Value {
    match value {
        Value::Map(map) => {
            Value::Map(map.into_iter().map(|(key, member)| (snake(&key), to_json(member))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(to_json).collect()),
        Value::Nil
        | Value::Bool(_)
        | Value::Int(_)
        | Value::UInt(_)
        | Value::Float(_)
        | Value::Str(_)
        | Value::Bin(_) => value,
    }
}

/// `localId` as `local_id`.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// The members of a message that is synced, by the names of columns and of the wire.
const MEMBERS: [(&str, &str); 7] = [
    ("local_id", "localId"),
    ("sequence_number", "sequenceNumber"),
    ("previous_id", "previousId"),
    ("role", "role"),
    ("contents", "contents"),
    ("created_at", "createdAt"),
    ("updated_at", "updatedAt"),
];
const MSGPACK: &str = "application/msgpack";
