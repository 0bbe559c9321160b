//! What time does to a connection: signs of life, silence, slowness, the end.

use std::time::Duration;

use switchboard_core::{Backlog, Close, CloseReason, Frame, Output, Timestamp};

use super::{AcolyteConnection, Wire};
use crate::codec;
use crate::error::words;
use crate::message::RpcId;
use crate::state::ChatState;

/// When things last happened.
#[derive(Debug, Default)]
pub(super) struct Clock {
    begun: bool,
    /// The peer gave a sign of life.
    pub(super) heard_at: Timestamp,
    /// Something was sent.
    pub(super) sent_at: Timestamp,
    pinged_at: Timestamp,
    pub(super) backlog: Backlog,
}

impl Clock {
    pub(super) fn begin(&mut self, now: Timestamp) {
        if !self.begun {
            *self = Self { begun: true, heard_at: now, sent_at: now, ..Self::default() };
        }
    }
}

impl AcolyteConnection {
    /// When something is to be done if nothing else happens.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        if self.closed {
            return None;
        }
        let clock = &self.clock;
        let slow = clock.backlog.wake(self.now, secs(self.limits.stall_s));
        let mut times = vec![self.next_retry(), self.principal.expires_at, slow];
        match self.wire {
            Wire::Rpc => {
                times.push(Some(clock.heard_at.after(secs(self.limits.dead_s))));
                times.push(Some(clock.heard_at.max(clock.pinged_at).after(secs(self.limits.ping_s))));
                let quiet = self.chats.values().filter(|chat| chat.state == ChatState::Running);
                times.push(quiet.map(|chat| chat.said_at.after(secs(self.limits.heartbeat_s))).min());
            }
            Wire::Stream => times.push(Some(clock.sent_at.after(secs(self.limits.keepalive_s)))),
        }
        times.into_iter().flatten().min()
    }

    pub(super) fn timeout(&mut self) {
        let now = self.now;
        if self.principal.expires_at.is_some_and(|at| at <= now) {
            return self.close(CloseReason::Unauthorized);
        }
        if self.clock.backlog.is_stalled(now, secs(self.limits.stall_s)) {
            return self.close(CloseReason::TooSlow);
        }
        self.retry();
        match self.wire {
            Wire::Stream => {
                if self.clock.sent_at.after(secs(self.limits.keepalive_s)) <= now {
                    self.clock.sent_at = now;
                    // Nothing comes before the head.
                    if self.chats.values().any(|chat| chat.accepted) {
                        self.out.push_back(Output::Send(Frame::Text(codec::KEEPALIVE.to_owned())));
                    }
                }
            }
            Wire::Rpc => {
                if self.clock.heard_at.after(secs(self.limits.dead_s)) <= now {
                    return self.close(CloseReason::TransportLost);
                }
                if self.clock.heard_at.max(self.clock.pinged_at).after(secs(self.limits.ping_s)) <= now {
                    self.clock.pinged_at = now;
                    self.out.push_back(Output::Send(Frame::Ping(bytes::Bytes::new())));
                }
                self.beat();
            }
        }
    }

    /// Running chats that were silent for long give a sign of life.
    fn beat(&mut self) {
        let (now, silence) = (self.now, secs(self.limits.heartbeat_s));
        let quiet: Vec<RpcId> = self
            .chats
            .iter_mut()
            .filter(|(_, chat)| chat.state == ChatState::Running && chat.said_at.after(silence) <= now)
            .map(|(id, chat)| {
                chat.said_at = now;
                id.clone()
            })
            .collect();
        for id in quiet {
            if let Some(chat) = self.chats.get(&id) {
                let text = codec::encode_event(&id, &chat.rendering.heartbeat(), None);
                self.clock.sent_at = now;
                self.out.push_back(Output::Send(Frame::Text(text)));
            }
        }
    }

    /// The transport is gone, or has to go.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if self.closed {
            return;
        }
        let (why, terminal) = match reason {
            CloseReason::PeerClosed(_) | CloseReason::TransportLost | CloseReason::Dismissed => {
                ("connection_closed", None)
            }
            CloseReason::TooSlow => ("E_OVERLOADED", None),
            CloseReason::TooBig | CloseReason::NotText => ("connection_closed", None),
            CloseReason::Restart => ("server_shutdown", Some(words::ABORTED)),
            CloseReason::Unauthorized => ("unauthorized", Some(words::ABORTED)),
            CloseReason::Internal => ("internal", Some(words::ABORTED)),
        };
        self.leaving |= reason == CloseReason::Restart;
        self.abandon(why, terminal);
        self.shut(reason.close());
    }

    /// A server that leaves closes connections on which nothing goes on any more.
    pub(super) fn leave_if_done(&mut self) {
        let waits = |chat: &super::Chat| chat.state == ChatState::Waiting;
        if self.leaving && !self.closed && self.attaching.is_empty() && self.chats.values().all(waits) {
            self.close(CloseReason::Restart);
        }
    }

    /// The exchange is over.
    pub(super) fn hang_up(&mut self) {
        self.shut(Close { code: 1000, reason: "" });
    }

    fn shut(&mut self, close: Close) {
        if !self.closed {
            self.closed = true;
            self.out.push_back(Output::Close(close));
        }
    }
}

fn secs(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
