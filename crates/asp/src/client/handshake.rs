//! From 101 to a connection that serves, and what becomes of the requests of the one before.

use std::time::Duration;

use switchboard_core::Timestamp;

use super::config::{Agreed, offered_window};
use super::state::{LinkEvent, RequestEvent};
use super::{AspClient, Cause, Event, Link, Loss, RequestState, Violation};
use crate::error::Close;
use crate::message::{ClientLimits, Feature, Features, Hello, HelloOp, ResumeRequest, Secret, ServerHello};

impl AspClient {
    pub(super) fn opened(&mut self, now: Timestamp) {
        let bare = self.config.features == Features::BARE;
        let event = if bare { LinkEvent::OpenedBare } else { LinkEvent::OpenedGreeting };
        let Some(next) = self.link.after(event) else { return };
        self.link = next;
        self.liveness.heard(now);
        if bare {
            self.up_bare();
            return;
        }
        if self.resume_until.is_some_and(|until| until <= now) {
            self.expire();
        }
        self.accept_by = Some(now.after(Duration::from_millis(self.config.accept_timeout_ms)));
        let resume = self.grant.as_ref().map(|grant| ResumeRequest {
            cid: grant.cid.clone(),
            token: grant.token.clone(),
            next: self.requests.iter().filter(|(_, r)| r.is_sent()).map(|(id, r)| (id, r.wanted())).collect(),
        });
        self.resuming = if resume.is_some() { Resuming::Asked } else { Resuming::No };
        let features = self.config.features;
        let limits = ClientLimits {
            max_payload: Some(self.config.max_payload),
            window: features.has(Feature::Credit).then(|| offered_window(&self.config)),
        };
        let tools = features.has(Feature::ClientTools) && !self.config.tools.is_empty();
        let hello = Hello {
            features: features.iter().map(|feature| feature.name().to_owned()).collect(),
            enc: self.config.enc.clone(),
            client: self.config.client.clone(),
            limits: Some(limits),
            tools: tools.then(|| self.config.tools.clone()),
            resume,
            ..Hello::new(HelloOp::Hello)
        };
        self.send_hello(&hello);
    }

    /// Serves without features.
    pub(super) fn up_bare(&mut self) {
        self.accept_by = None;
        self.backoff.reset();
        self.event(Event::Bare);
        self.start_fresh(Loss::Refused);
    }

    /// HELLO accept.
    pub(super) fn accept(&mut self, hello: ServerHello, now: Timestamp) {
        if let Some(version) = hello.ver.filter(|version| *version != 1) {
            self.violate(Violation::Version(version), now);
            return;
        }
        let resumed = hello.resumed == Some(true);
        match self.link {
            Link::Greeting => {}
            // Too late, but the server means it from here on; what it resumed was given up, though.
            Link::Up if !self.accepted && self.config.features != Features::BARE => {
                if resumed {
                    self.hang_up(Close::GoingAway);
                    self.down(Cause::Silent, now);
                    return;
                }
            }
            Link::Up | Link::Off | Link::Dialing | Link::Waiting => return,
        }
        self.link = self.link.after(LinkEvent::Accept).unwrap_or(self.link);
        self.accepted = true;
        self.accept_by = None;
        self.resume_until = None;
        self.backoff.reset();
        self.agreed = Agreed::from_accept(&hello, &self.config);
        self.cid = hello.cid.or_else(|| self.cid.take());
        self.grant = match (hello.resume, &self.cid) {
            (Some(grant), Some(cid)) if self.agreed.features.has(Feature::Resume) => Some(Grant {
                cid: cid.clone(),
                token: grant.token,
                window: Duration::from_secs(grant.window_s.into()),
            }),
            (Some(_) | None, _) => None,
        };
        let resumed = resumed && self.resuming != Resuming::No;
        let lost = hello.lost.unwrap_or_default();
        let (cid, features) = (self.cid.clone(), self.agreed.features);
        self.event(Event::Accepted { cid, features, resumed, lost: lost.clone() });
        if resumed {
            self.go_on(&lost);
        } else {
            self.start_fresh(Loss::Refused);
        }
        self.resuming = Resuming::No;
    }

    /// The server has resumed: requests go on, except those it lost.
    fn go_on(&mut self, lost: &[u16]) {
        for id in self.requests.sent() {
            if lost.contains(&id) {
                self.lose(id, RequestEvent::Lost, Loss::Replay);
                // If it is invoked again under its id, the ERROR about the loss may still be on its way.
                if let Some(request) = self.requests.get_mut(id) {
                    request.expect_replay_gone = true;
                }
                continue;
            }
            let Some(request) = self.requests.get_mut(id) else { continue };
            (request.state, _) = request.state.on(RequestEvent::Resumed);
            request.expect_replay_gone = false;
            match request.interrupt.take() {
                Some(interrupt) => self.interrupt_one(id, interrupt.reason),
                // What was consumed meanwhile.
                None => self.return_credit(id, 0),
            }
        }
    }

    /// Nothing of an earlier connection is left at the server.
    fn start_fresh(&mut self, loss: Loss) {
        for id in self.requests.sent() {
            if self.request(id) == RequestState::Suspended {
                self.lose(id, RequestEvent::Lost, loss);
            }
        }
        if self.tools.clear() {
            self.event(Event::ToolsChanged);
        }
    }

    /// The server does not wait any longer for this client to come back.
    pub(super) fn expire(&mut self) {
        self.resume_until = None;
        self.grant = None;
        self.start_fresh(Loss::Expired);
    }
}

/// The right to come back. The token is single-use: each accept brings the next one.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) cid: String,
    pub(super) token: Secret,
    pub(super) window: Duration,
}

/// Whether the HELLO of this transport asked to resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resuming {
    No,
    Asked,
}
