//! Requests and their answers, with whoever vouches for users and keeps sessions moved by hand.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests look at what they are about")]

use serde_json::{Value, json};
use switchboard_core::{
    AgentId, CloseReason, Connection, Errand as Ran, Found, Frame, Input, OpeningRequest, Output, Pii,
    Position, Principal, Protocol as _, Refusal, Reply, Seed, Timestamp, Upgrade,
};

use crate::errand::Vouched;
use crate::limits::VipLimits;
use crate::minutes::{Settings, tables};
use crate::protocol::{self, NATIVE, Provider, Service, Vip};
use crate::samples::{self, SESSION};
use crate::token::{self, SessionClaims};

mod create;
mod session;

/// What makes something another than it was.
type Change<'a, T> = &'a dyn Fn(&mut T);

/// A deployment, and what others make of its questions.
struct Desk {
    protocol: Vip,
    now: Timestamp,
    vouched: Vouched,
    /// What an errand other than vouching comes to.
    errand: Value,
    /// Whether somebody else uses the token up in the meantime.
    overtaken: bool,
    /// Whether the client is gone before its sessions are counted.
    hangs_up: bool,
    /// What is known of sessions, and of the history of one.
    rows: Vec<Found>,
    history: Vec<Found>,
    /// How often somebody was vouched for, with the token being used up.
    redeemed: usize,
    /// How many sessions were opened.
    opened: usize,
    /// What was done outside, by name.
    errands: Vec<String>,
}

fn desk(change: impl FnOnce(&mut Service)) -> Desk {
    desk_within(VipLimits::default(), change)
}

fn desk_within(limits: VipLimits, change: impl FnOnce(&mut Service)) -> Desk {
    let mut service = samples::service();
    change(&mut service);
    Desk {
        protocol: Vip::new(limits, service),
        now: Timestamp::from_millis(1_100_000),
        vouched: Vouched {
            own: "shop|ann".to_owned(),
            iss: Some("https://shop.example".to_owned()),
            sub: "ann".to_owned(),
            app_id: Some("shop".to_owned()),
            env: Some("production".to_owned()),
            modes: None,
            scopes: vec!["session:create".to_owned()],
            max_session_s: None,
            origins: None,
            locale: None,
            replayed: false,
        },
        errand: json!({ "failed": "PROV_CREDENTIAL", "message": "no" }),
        overtaken: false,
        hangs_up: false,
        rows: Vec::new(),
        history: Vec::new(),
        redeemed: 0,
        opened: 0,
        errands: Vec::new(),
    }
}

fn provider(id: &str, production: bool) -> Provider {
    Provider {
        id: id.to_owned(),
        adapter: NATIVE.to_owned(),
        transport: "websocket".to_owned(),
        url: None,
        model: "m".to_owned(),
        voice: None,
        auth_style: "subprotocol".to_owned(),
        subprotocol_prefix: None,
        data_channel: None,
        ttl_s: 60,
        production,
    }
}

/// What a session is asked for with.
fn wish(change: impl FnOnce(&mut Value)) -> Value {
    let mut wish = json!({ "protocol_versions": ["0.1"], "app_id": "shop",
        "client": { "name": "shop", "version": "1", "platform": "web" },
        "audio": { "input_formats": ["pcm16/16000"], "output_formats": ["pcm16/24000"] } });
    change(&mut wish);
    wish
}

fn to(path: &'static str, rest: &str) -> OpeningRequest {
    OpeningRequest { path, target: format!("/v1/vip/sessions{rest}"), ..OpeningRequest::default() }
}

fn bearer(token: &str) -> Option<Pii<String>> {
    Some(Pii(format!("Bearer {token}")))
}

/// A request about the session, with a token.
fn about(path: &'static str, rest: &str, token: &str) -> OpeningRequest {
    OpeningRequest { authorization: bearer(token), ..to(path, &format!("/{SESSION}{rest}")) }
}

impl Desk {
    /// What is answered to a request.
    fn ask(&mut self, request: OpeningRequest, body: &Value) -> (u16, Value) {
        match self.let_in(request) {
            Ok(upgrade) => self.exchange(upgrade, body),
            Err(refusal) => {
                let reply = self.protocol.refuse(&refusal, "q-1");
                (reply.status, serde_json::from_str(&reply.body).unwrap())
            }
        }
    }

    fn let_in(&self, request: OpeningRequest) -> Result<Upgrade, Refusal> {
        let opening = self.protocol.inspect(&request)?;
        let principal: Principal =
            self.protocol.identify(&request, &opening, self.now).expect("everybody is somebody")?;
        Ok(Upgrade {
            principal,
            now: self.now,
            request,
            opening,
            agent: AgentId::from("butler"),
            agents: Vec::new(),
            remote: false,
            tools: Vec::new(),
            known: self.rows.clone(),
        })
    }

    fn exchange(&mut self, upgrade: Upgrade, body: &Value) -> (u16, Value) {
        let seed = Seed::new([u8::try_from(self.opened).unwrap(); 32]);
        let mut connection = match self.protocol.accept(upgrade, seed) {
            Ok(connection) => connection,
            Err(refusal) => {
                let reply = self.protocol.refuse(&refusal, "q-1");
                return (reply.status, serde_json::from_str(&reply.body).unwrap());
            }
        };
        let mut answer = (0, Value::Null);
        self.drive(&mut *connection, Input::Frame(Frame::Text(body.to_string())), &mut answer);
        answer
    }

    /// Lets an exchange go on until it is over, or has to wait.
    fn drive(&mut self, connection: &mut dyn Connection, input: Input<'_>, answer: &mut (u16, Value)) {
        let mut next = self.step(connection, input, answer);
        while let Some(input) = next {
            next = self.step(connection, input, answer);
        }
    }

    /// Takes an exchange as far as what it asks for next, which is answered.
    fn step(
        &mut self,
        connection: &mut dyn Connection,
        input: Input<'_>,
        answer: &mut (u16, Value),
    ) -> Option<Input<'static>> {
        connection.handle_input(input, self.now).unwrap();
        loop {
            match connection.poll_output() {
                Output::Look(..) if self.hangs_up => return Some(Input::Closed(CloseReason::TransportLost)),
                Output::Errand(request, errand) => return Some(Input::Done(request, self.run(&errand.0))),
                Output::Look(request, lookup) => {
                    let history = lookup.table == tables::HISTORY.name;
                    let rows = if history { self.history.clone() } else { self.rows.clone() };
                    return Some(Input::Done(request, Reply::Rows(rows)));
                }
                Output::Submit(request, _, op) => {
                    self.opened += usize::from(matches!(op, switchboard_core::Op::Open { .. }));
                    return Some(Input::Done(request, Reply::Applied { head: Position::default() }));
                }
                Output::Send(Frame::Head(head)) => answer.0 = head.status,
                Output::Send(Frame::Binary(body)) => answer.1 = serde_json::from_slice(&body).unwrap(),
                Output::Close(_) | Output::Idle { wake: Some(_) } => return None,
                other => panic!("not expected: {other:?}"),
            }
        }
    }

    fn run(&mut self, errand: &Value) -> Reply {
        let name = errand["errand"].as_str().unwrap().to_owned();
        let answer = if name == "vouch" {
            let redeems = errand["redeem"] == true;
            self.redeemed += usize::from(redeems);
            let replayed = self.vouched.replayed || redeems && self.overtaken;
            json!(Vouched { replayed, ..self.vouched.clone() })
        } else {
            self.errand.clone()
        };
        self.errands.push(name);
        Reply::Errand(Box::new(Ran { answer: Pii(answer), principal: None }))
    }

    fn create(&mut self, wish: &Value) -> (u16, Value) {
        let request = OpeningRequest { authorization: bearer("app-token"), ..to(protocol::SESSIONS, "") };
        self.ask(request, wish)
    }

    /// The code with which a wish is refused.
    fn refused(&mut self, wish: &Value) -> (u16, String) {
        let (status, body) = self.create(wish);
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    }

    fn sign(&self, typ: &str, change: impl FnOnce(&mut SessionClaims)) -> String {
        let mut claims = SessionClaims {
            iss: "https://vip.example".to_owned(),
            aud: token::AUDIENCE.to_owned(),
            sub: "ann".to_owned(),
            sid: SESSION.to_owned(),
            app: "shop".to_owned(),
            env: "production".to_owned(),
            mode: "external".to_owned(),
            scp: "session:create".to_owned(),
            iat: self.now.as_secs(),
            exp: self.now.as_secs() + 600,
            jti: "j".to_owned(),
            own: "shop|ann".to_owned(),
        };
        change(&mut claims);
        self.protocol.service.seal.sign(typ, &json!(claims))
    }

    fn status(&mut self, request: OpeningRequest) -> (u16, String) {
        let (status, body) = self.ask(request, &Value::Null);
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    }
}

fn code(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

fn connected(settings: &Settings) -> Vec<Found> {
    vec![samples::row(settings, &[("opened", true.into()), ("connected", true.into())])]
}
