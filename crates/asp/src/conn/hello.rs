//! HELLO (§5): negotiation, ping, renewed credentials, bye.

use switchboard_core::model::AttachmentSecret;
use switchboard_core::{Op, Output, Pii, Principal};

use super::{AspConnection, Lifecycle, Pending};
use crate::codec::VERSION;
use crate::error::{Close, Code};
use crate::map;
use crate::message::{
    Enc, ErrorBody, Feature, Features, Hello, HelloOp, ResumeGrant, Secret, ServerHello, ServerHelloOp,
    ServerInfo, ServerLimits, ServerMode,
};
use crate::state::Happening;

impl AspConnection {
    pub(super) fn hello(&mut self, hello: Hello) {
        match (self.life, hello.op) {
            (Lifecycle::Open, HelloOp::Hello) => self.negotiate(hello),
            (_, HelloOp::Ping) if self.wire.features.has(Feature::Ping) => {
                let mut pong = ServerHello::new(ServerHelloOp::Pong);
                pong.nonce = hello.nonce;
                self.send_hello(&pong);
            }
            (_, HelloOp::Auth) if self.wire.features.has(Feature::Reauth) => {
                let Some(token) = hello.token else {
                    let error = ErrorBody::new(Code::BadPayload, "auth needs a token");
                    return self.offence(0, &error);
                };
                let request = self.request(Pending::Auth);
                let token = Pii(token.expose().to_owned());
                self.out.push_back(Output::Authenticate(request, token));
            }
            (_, HelloOp::Bye) => {
                self.leave_for_good();
                self.close(Close::Normal);
            }
            (_, HelloOp::Hello | HelloOp::Ping | HelloOp::Auth) => {
                if self.life == Lifecycle::Open {
                    self.become_bare();
                }
                self.offence(0, &ErrorBody::new(Code::HelloState, "HELLO is not expected now"));
            }
        }
    }

    fn negotiate(&mut self, hello: Hello) {
        if !hello.ver.contains(&u64::from(VERSION)) {
            return self.fatal(Code::UnsupportedVersion, "no common version", Close::Version);
        }
        let mut supported = Features::ALL;
        if self.limits.resume_s == 0 {
            supported = supported.without(Feature::Resume);
        }
        let by_query = self.wire.features.has(Feature::Complete06);
        let mut agreed = Features::agree(hello.features.iter().map(String::as_str), supported);
        if by_query {
            agreed = agreed.with(Feature::Complete06);
        }
        if let Some(enc) = hello.enc.first() {
            self.wire.enc = *enc;
        } else {
            self.wire.enc = Enc::Msgpack;
        }
        self.wire.heard = self.wire.enc;
        self.wire.max_payload = self.limits.max_payload;
        if let Some(limits) = &hello.limits {
            self.wire.max_payload =
                limits.max_payload.unwrap_or(u32::MAX).clamp(1024, self.limits.max_payload);
            self.wire.window = limits.window.unwrap_or(u32::MAX).clamp(1, self.limits.window);
        }
        if agreed.has(Feature::ClientTools) {
            let attachment = self.link.attachment.clone();
            self.client_tools_told = hello.tools.is_some();
            let tools = hello.tools.into_iter().flatten();
            self.client_tools = tools.map(|tool| map::client_tool(tool, &attachment)).collect();
        }
        match hello.resume {
            Some(resume) if agreed.has(Feature::Resume) => self.take_over(resume, agreed),
            Some(_) => {
                self.send_error(
                    0,
                    &ErrorBody::new(Code::ResumeRejected, "the feature resume was not agreed"),
                );
                self.begin(agreed);
            }
            None => self.begin(agreed),
        }
    }

    /// A connection of its own: with `resume`, what the accept promises has to be durable first.
    pub(super) fn begin(&mut self, agreed: Features) {
        self.wire.agreed = agreed;
        if !agreed.has(Feature::Resume) {
            return self.send_accept(None);
        }
        self.happen(Happening::HelloPending);
        let home = self.link.home.clone();
        self.link.sessions.insert(home.clone(), super::Followed::default());
        self.submit_open(&home, None);
        let op = Op::OpenAttachment {
            attachment: self.link.attachment.clone(),
            generation: self.link.generation,
            secret: Some(self.secret().hash()),
            window_ms: self.window_ms(),
        };
        self.submit(&home, op, Pending::Accept);
        self.offer_tools(&home, None);
        self.follow(&home, None);
    }

    /// The token with which this transport of the attachment can be followed by another. Every
    /// connection has a seed of its own, so every token is used once.
    pub(super) fn secret(&self) -> AttachmentSecret {
        AttachmentSecret::new(self.seed.token("resume", 0))
    }

    /// Answers the HELLO. From here on what was agreed applies.
    pub(super) fn send_accept(&mut self, resumed: Option<Vec<u16>>) {
        self.happen(Happening::Serving);
        self.wire.greeted = true;
        self.assembler.set_max_payload(self.limits.max_payload as usize);
        // The accept itself is written as before the agreement.
        let features = self.wire.agreed;
        let mut accept = ServerHello::new(ServerHelloOp::Accept);
        accept.cid = Some(self.link.attachment.to_string());
        accept.ver = Some(u32::from(VERSION));
        accept.features = Some(features);
        accept.enc = Some(self.wire.enc);
        accept.limits = Some(ServerLimits {
            max_payload: Some(self.limits.max_payload),
            max_message: Some(self.limits.max_message),
            max_inflight: Some(self.limits.max_inflight),
            window: Some(self.wire.window),
            frames_per_s: Some(self.limits.frames_per_s),
            invokes_per_s: Some(self.limits.invokes_per_s),
        });
        accept.heartbeat_s = Some(self.limits.heartbeat_s);
        if features.has(Feature::Resume) {
            let token = self.secret();
            accept.resume =
                Some(ResumeGrant { token: Secret::new(token.reveal()), window_s: self.limits.resume_s });
        }
        accept.server = Some(ServerInfo {
            name: "switchboard".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            mode: if self.remote { ServerMode::Relay } else { ServerMode::Direct },
        });
        let fresh = resumed.is_none();
        if let Some(lost) = resumed {
            accept.resumed = Some(true);
            accept.lost = Some(lost);
        }
        self.send_hello(&accept);
        self.wire.features = features;
        // After a resume they are told once the sessions have told theirs.
        if fresh && !self.tools.is_empty() && features.has(Feature::Events) {
            self.push_first_tools();
        }
        self.release_held_back();
    }

    fn push_first_tools(&mut self) {
        let added = std::mem::take(&mut self.tools).into_values().map(|tool| *tool).collect();
        let event =
            switchboard_core::Event::ToolsChanged { revision: 0, added, removed: Vec::new(), turn: None };
        self.tools_changed(&event);
    }

    pub(super) fn authed(&mut self, principal: Principal) {
        self.principal = principal;
        self.clocks.expire_with(self.principal.expires_at);
        let mut authed = ServerHello::new(ServerHelloOp::Authed);
        authed.exp = self.principal.expires_at.map(switchboard_core::Timestamp::as_secs);
        self.send_hello(&authed);
    }
}
