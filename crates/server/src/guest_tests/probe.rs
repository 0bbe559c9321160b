//! A protocol that shows what it is given.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_core::{
    AgentId, Close, CloseReason, Connection, Frame, Head, Input, Lookup, Method, Op, Opening, OpeningRequest,
    Output, Pii, Principal, Protocol, Question, Refusal, RefusalReply, Reply, RequestId, Right, Route, Seed,
    SessionId, Timestamp, Transport, Upgrade, Violation, VoiceOp, Within,
};

/// `/probe/socket` does as it is told; `/probe/{name}` answers with what is known of the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// It decides itself what it makes of origins.
    pub(super) judges: bool,
    /// It knows people by `Authorization: Probe <name>`.
    pub(super) knows: bool,
    /// It looks at all conversations before it answers.
    pub(super) looks: bool,
}

impl Protocol for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn routes(&self) -> &'static [Route] {
        &[
            Route { path: "/probe/socket", transport: Transport::WebSocket, right: Right::Connect },
            Route { path: "/probe/{name}", transport: Transport::Http(Method::Get), right: Right::Connect },
            Route { path: "/probe/{name}", transport: Transport::Http(Method::Post), right: Right::Connect },
        ]
    }

    fn max_message(&self) -> usize {
        64 << 10
    }

    fn judges_origins(&self) -> bool {
        self.judges
    }

    fn inspect(&self, _: &OpeningRequest) -> Result<Opening, Refusal> {
        Ok(Opening { credentials: Vec::new(), subprotocol: None, agent: None, parameters: Vec::new() })
    }

    fn identify(
        &self,
        request: &OpeningRequest,
        _: &Opening,
        _: Timestamp,
    ) -> Option<Result<Principal, Refusal>> {
        let shown = request.authorization.as_ref().map(|Pii(shown)| shown.strip_prefix("Probe "));
        self.knows.then(|| match shown {
            Some(Some(name)) => Ok(Principal::new(name)),
            Some(None) => Err(Refusal::CredentialInvalid),
            None => Err(Refusal::Named("nobody")),
        })
    }

    fn preview(&self, _: &OpeningRequest, _: &Principal) -> Option<Lookup> {
        self.looks.then(|| Lookup {
            table: "alicia_conversations",
            within: Within::Own,
            conditions: Vec::new(),
            question: Question::Rows(Vec::new()),
            limit: 10,
        })
    }

    fn accept(&self, upgrade: Upgrade, _: Seed) -> Result<Box<dyn Connection>, Refusal> {
        let request = &upgrade.request;
        let seen = json!({
            "principal": upgrade.principal.id, "id": request.id, "foreign": request.foreign,
            "origin": request.origin, "known": upgrade.known.len(),
        });
        Ok(Box::new(Told { seen, socket: request.websocket, count: 0, farewell: None, out: VecDeque::new() }))
    }

    fn refuse(&self, refusal: &Refusal, request_id: &str) -> RefusalReply {
        let status = match refusal {
            Refusal::CredentialInvalid | Refusal::Named(_) => 401,
            Refusal::WrongMethod => 405,
            Refusal::Forbidden(_) => 403,
            Refusal::TooMany { .. } => 429,
            Refusal::UpgradeRequired
            | Refusal::Malformed(_)
            | Refusal::Version(_)
            | Refusal::TooBig
            | Refusal::CredentialMissing
            | Refusal::CredentialExpired
            | Refusal::UnknownAgent
            | Refusal::Draining { .. } => 400,
        };
        let body = json!({ "refused": format!("{refusal:?}"), "id": request_id }).to_string();
        RefusalReply { status, headers: Vec::new(), content_type: "application/json", body }
    }
}

#[derive(Debug)]
struct Told {
    seen: Value,
    socket: bool,
    count: u64,
    farewell: Option<Close>,
    out: VecDeque<Output>,
}

impl Told {
    fn say(&mut self, text: impl Into<String>) {
        self.out.push_back(Output::Send(Frame::Text(text.into())));
    }

    fn obey(&mut self, command: &str) {
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "packets" => {
                for number in 0..rest.parse::<u32>().unwrap() {
                    let packet = Bytes::copy_from_slice(&number.to_be_bytes());
                    self.out.push_back(Output::Voice(VoiceOp::Packet(packet)));
                }
            }
            "errand" => {
                self.count += 1;
                let errand = serde_json::from_str(rest).unwrap();
                self.out.push_back(Output::Errand(RequestId(self.count), Pii(errand)));
            }
            // And leaves without a word.
            "follow" => {
                let (session, agent) = (SessionId::from(rest), AgentId::from("echo"));
                let open = Op::Open { epoch: 1, agent, name: None };
                self.out.push_back(Output::Submit(RequestId(1), session.clone(), open));
                self.out.push_back(Output::Attach(RequestId(2), session, None));
            }
            // However much of it waits.
            "flood" => (0..rest.parse::<u32>().unwrap()).for_each(|_| self.say("x".repeat(1000))),
            _ => self.say("what?"),
        }
    }
}

impl Connection for Told {
    fn handle_input(&mut self, input: Input<'_>, _: Timestamp) -> Result<(), Violation> {
        match input {
            Input::Frame(Frame::Text(command)) => self.obey(&command),
            Input::Frame(Frame::Binary(_)) if !self.socket => {
                let headers = vec![("content-type", "application/json".to_owned())];
                self.out.push_back(Output::Send(Frame::Head(Box::new(Head { status: 200, headers }))));
                self.say(self.seen.to_string());
                self.out.push_back(Output::Close(Close { code: 1000, reason: "" }));
            }
            Input::Voice(event) => self.say(format!("{event:?}")),
            Input::Done(_, Reply::Errand(errand)) => {
                self.say(format!("done {}", errand.answer.0));
                self.out.extend(self.farewell.take().map(Output::Close));
            }
            Input::Rejected(_, reject) => self.say(format!("rejected {}", reject.name())),
            Input::Done(_, Reply::Attached(_)) => self.say("following"),
            // Has something to see to before it says goodbye.
            Input::Closed(CloseReason::TooBig) => {
                self.farewell = Some(CloseReason::TooBig.close());
                self.obey("errand {}");
            }
            Input::Closed(reason) => self.out.push_back(Output::Close(reason.close())),
            Input::Frame(_)
            | Input::Done(..)
            | Input::Committed(..)
            | Input::Signal(_)
            | Input::Timeout
            | Input::Backlog(_)
            | Input::Drain { .. } => {}
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Output {
        self.out.pop_front().unwrap_or(Output::Idle { wake: None })
    }
}
