//! What goes out: numbered, and put on record before anybody sees it.
//!
//! An event that can be sent again is sent only once it is on record, so that a client never knows of something
//! that a later transport does not know. Everything goes out in the order in which it was said; audio of a
//! stream that was stopped is taken out again.

use std::collections::VecDeque;

use serde_json::Value;
use switchboard_core::{Close, Frame, Timestamp};

use crate::codec::encode_server;
use crate::message::{Head, Role, ServerEvent};
use crate::minutes::Minute;

/// What waits to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// The number of the last event.
    pub(super) seq: u64,
    /// The greatest number that is on record, or about to be.
    pub(super) counted: u64,
    queue: VecDeque<Item>,
    events: Vec<Value>,
    minutes: Vec<Minute>,
    /// How many batches of minutes were handed over, and how many of these are on record.
    handed: u64,
    recorded: u64,
    close: Option<Close>,
}

#[derive(Debug)]
struct Item {
    frame: Frame,
    /// The batch that has to be on record first.
    after: u64,
    stream: Option<u16>,
}

/// What an event refers to.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) role: Role,
    pub(super) turn_id: Option<String>,
    pub(super) response_id: Option<String>,
    pub(super) reply_to: Option<String>,
}

impl Outgoing {
    /// Says something. `shown` takes the place of its data on record, where that must not tell everything.
    pub(super) fn say(
        &mut self,
        event: &ServerEvent,
        about: About,
        state_seq: u64,
        now: Timestamp,
        shown: Option<Value>,
    ) {
        self.seq += 1;
        let head = Head {
            id: format!("s-{}", self.seq),
            seq: self.seq,
            ts: now.as_millis(),
            state_seq,
            role: about.role,
            turn_id: about.turn_id,
            response_id: about.response_id,
            reply_to: about.reply_to,
        };
        let text = encode_server(&head, event);
        // Whatever it is, it must not come before what has to be on record first.
        let mut after = if self.minutes.is_empty() && self.events.is_empty() { 0 } else { self.handed + 1 };
        // These carry secrets, and are of no use to a later transport.
        let secret = matches!(event, ServerEvent::SessionConnected(_) | ServerEvent::CredentialRefreshed(_));
        if event.is_stored() && !secret {
            let mut stored: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
            if let (Some(shown), Some(members)) = (shown, stored.as_object_mut()) {
                members.insert("data".to_owned(), shown);
            }
            self.events.push(stored);
            self.counted = self.seq;
            after = self.handed + 1;
        }
        self.queue.push_back(Item { frame: Frame::Text(text), after, stream: None });
    }

    /// Says something once more that is on record.
    pub(super) fn repeat(&mut self, text: String) {
        self.queue.push_back(Item { frame: Frame::Text(text), after: 0, stream: None });
    }

    pub(super) fn play(&mut self, stream: u16, frame: Frame) {
        self.queue.push_back(Item { frame, after: 0, stream: Some(stream) });
    }

    pub(super) fn ping(&mut self) {
        self.queue.push_back(Item { frame: Frame::Ping(bytes::Bytes::new()), after: 0, stream: None });
    }

    /// Takes out what was not sent yet of a stream; answers how many frames that were.
    pub(super) fn hush(&mut self, stream: u16) -> u32 {
        let before = self.queue.len();
        self.queue.retain(|item| item.stream != Some(stream));
        u32::try_from(before - self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Puts something on record.
    pub(super) fn note(&mut self, minute: Minute) {
        if let Minute::Numbered { seq, .. } = minute {
            self.counted = seq;
        }
        self.minutes.push(minute);
    }

    /// Ends the transport once everything is out.
    pub(super) fn close(&mut self, close: Close) {
        self.close.get_or_insert(close);
    }

    /// The minutes since the last batch; none if nothing has to be put on record.
    pub(super) fn batch(&mut self) -> Option<Vec<Minute>> {
        if self.events.is_empty() && self.minutes.is_empty() {
            return None;
        }
        self.handed += 1;
        let mut batch = std::mem::take(&mut self.minutes);
        if !self.events.is_empty() {
            batch.push(Minute::Sent(std::mem::take(&mut self.events)));
        }
        Some(batch)
    }

    /// The oldest batch that was not on record is now.
    pub(super) const fn recorded(&mut self) {
        self.recorded += 1;
    }

    /// The next frame that can be sent.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let ready = self.queue.front().is_some_and(|item| item.after <= self.recorded);
        if ready { self.queue.pop_front().map(|item| item.frame) } else { None }
    }

    /// How the transport is to be closed now; said once.
    pub(super) fn closed(&mut self) -> Option<Close> {
        if self.queue.is_empty() { self.close.take() } else { None }
    }

    /// Nothing more can be sent.
    pub(super) fn give_up(&mut self, close: Close) {
        self.queue.clear();
        self.close = Some(close);
    }
}
