//! What can be asked about a session that is there (E4 to E10).

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_core::{
    Cell, Comparison, Condition, Found, Lookup, Op, Order, Question, SessionId, Within, json,
};

use crate::errand::{Answered, Errand, Performed, Vouched};
use crate::error::{Code, Fault};
use crate::function;
use crate::minutes::{CHRONICLE, Minute, tables};
use crate::protocol::{self, INTERNAL, segment};
use crate::record::SessionRecord;

use super::exchange::Exchange;

impl Exchange {
    pub(super) fn show_status(&mut self) -> Result<(), Fault> {
        let status = self.session()?.1.status();
        self.answer(200, &status);
        Ok(())
    }

    /// Whoever carries the session sees it in its log, and ends it.
    pub(super) fn hang_up(&mut self) -> Result<(), Fault> {
        let session = SessionId::new(self.session()?.1.id.as_str());
        let ended = Minute::Ended { reason: "user_hangup".to_owned(), code: None };
        let ops = VecDeque::from([Op::Record { chronicle: CHRONICLE.into(), record: json!([ended]) }]);
        self.submit_all(session, ops, Self::answer_empty);
        Ok(())
    }

    pub(super) fn renew(&mut self) -> Result<(), Fault> {
        if let Some((claims, record)) = &self.known {
            let (token, expires_at) = self.issue(&record.settings, &record.id, &claims.own);
            self.answer(200, &json!({ "session_token": token, "session_token_expires_at": expires_at }));
            return Ok(());
        }
        let token = self.bearer().ok_or_else(|| Fault::new(Code::AuthTokenMissing))?;
        let session = segment(&self.request.target, 3).unwrap_or_default().to_owned();
        let development = claims_development(&token);
        let errand = Errand::Vouch { token: Some(token), development, redeem: true };
        self.send_out(&errand, move |exchange, vouched: Vouched| {
            if vouched.replayed {
                return exchange.refuse(&Fault::new(Code::AuthTokenReplayed));
            }
            exchange.look(protocol::by_session(&session), move |exchange, rows| {
                exchange.renew_vouched(&vouched, &rows);
            });
        });
        Ok(())
    }

    fn renew_vouched(&mut self, vouched: &Vouched, rows: &[Found]) {
        let record = rows.first().and_then(SessionRecord::read).filter(|record| {
            record.settings.sub == vouched.sub
                && vouched.app_id.as_ref().is_none_or(|app| *app == record.settings.app_id)
                && vouched.env.as_ref().is_none_or(|env| *env == record.settings.environment)
        });
        let Some(record) = record else { return self.refuse(&Fault::new(Code::SesNotFound)) };
        if let Err(code) = record.check(&self.limits, self.now) {
            return self.refuse(&Fault::new(code));
        }
        let (token, expires_at) = self.issue(&record.settings, &record.id, &vouched.own);
        self.answer(200, &json!({ "session_token": token, "session_token_expires_at": expires_at }));
    }

    pub(super) fn refresh_credential(&mut self) -> Result<(), Fault> {
        let (claims, record) = self.session()?;
        let (settings, session, own) = (record.settings.clone(), record.id.clone(), claims.own.clone());
        if settings.mode != INTERNAL {
            return Err(
                Fault::new(Code::AuthScope).because("only sessions in internal mode have credentials")
            );
        }
        if !self.recent.may_mint(&session, self.limits.credentials, self.now) {
            let fault = Fault::new(Code::RateEvents).because("too many credentials, try again in a minute");
            return Err(Fault { retry_after_ms: Some(60_000), ..fault });
        }
        let provider = self
            .service
            .providers
            .iter()
            .find(|provider| settings.provider.as_ref() == Some(&provider.id))
            .cloned()
            .ok_or_else(|| Fault::new(Code::ProvUnavailable))?;
        self.mint(&settings, &session, &own, provider, |exchange, shown| exchange.answer(200, &shown));
        Ok(())
    }

    pub(super) fn offer(&mut self, body: &[u8]) -> Result<(), Fault> {
        let (_, record) = self.session()?;
        let session = record.id.clone();
        if record.settings.mode == INTERNAL || !self.service.webrtc {
            return Err(Fault::new(Code::SesNotFound).because("WebRTC is not offered for this session"));
        }
        let media = self.header("content-type").unwrap_or_default();
        if !media.starts_with("application/sdp") {
            return Err(Fault::new(Code::ProtoMalformed).because("the offer has to be application/sdp"));
        }
        let sdp = String::from_utf8(body.to_vec())
            .map_err(|_| Fault::new(Code::ProtoMalformed).because("the offer is no text"))?;
        let token = self.bearer().unwrap_or_default();
        let errand = Errand::Offer { session: session.clone(), sdp, token };
        self.send_out(&errand, move |exchange, answered: Answered| {
            let mut headers = vec![
                ("content-type", "application/sdp".to_owned()),
                ("location", format!("/v1/vip/sessions/{session}/webrtc/{}", answered.peer)),
            ];
            for server in exchange.service.ice_servers.iter().flat_map(|server| &server.urls) {
                headers.push(("link", format!("<{server}>; rel=\"ice-server\"")));
            }
            exchange.say(201, headers, Bytes::from(answered.sdp));
        });
        Ok(())
    }

    pub(super) fn trickle(&mut self, body: &[u8]) -> Result<(), Fault> {
        let fragment = String::from_utf8(body.to_vec())
            .map_err(|_| Fault::new(Code::ProtoMalformed).because("the fragment is no text"))?;
        let (session, peer) = self.peer()?;
        let errand = Errand::Trickle { session, peer, fragment };
        self.send_out(&errand, |exchange, _: Value| exchange.answer_empty());
        Ok(())
    }

    pub(super) fn end_peer(&mut self) -> Result<(), Fault> {
        let (session, peer) = self.peer()?;
        self.send_out(&Errand::HangUp { session, peer }, |exchange, _: Value| exchange.answer_empty());
        Ok(())
    }

    fn peer(&self) -> Result<(String, String), Fault> {
        let session = self.session()?.1.id.clone();
        let peer = segment(&self.request.target, 5).unwrap_or_default().to_owned();
        Ok((session, peer))
    }

    pub(super) fn call_function(&mut self, body: &[u8]) -> Result<(), Fault> {
        let (claims, record) = self.session()?;
        if !claims.scp.split(' ').any(|scope| scope == "function:call") {
            return Err(Fault::new(Code::AuthScope).because("the token does not allow function:call"));
        }
        let body: Value = json::from_slice(body)
            .map_err(|_| Fault::new(Code::ProtoMalformed).because("the body is not JSON"))?;
        let invocation = body["invocation_id"].as_str().unwrap_or_default().to_owned();
        if invocation.is_empty() || invocation.chars().count() > 40 {
            return Err(Fault::new(Code::ProtoMalformed).because("invocation_id is required"));
        }
        let name = segment(&self.request.target, 5).unwrap_or_default().to_owned();
        let context = record.context().ok_or_else(|| Fault::new(Code::ActNotFound))?;
        let parameters = function::check(&context, &name, &body["parameters"])?;
        let (agent, session) = (record.settings.agent.clone(), record.id.clone());
        let sub = record.settings.sub.clone();
        let errand = Errand::Perform { name, parameters, agent, session, sub };
        self.send_out(&errand, move |exchange, performed: Performed| {
            let body = json!({ "invocation_id": invocation, "status": "success", "data": performed.data });
            exchange.answer(200, &body);
        });
        Ok(())
    }

    pub(super) fn show_history(&mut self) -> Result<(), Fault> {
        let (claims, record) = self.session()?;
        if !claims.scp.split(' ').any(|scope| scope == "history:read") {
            return Err(Fault::new(Code::AuthScope).because("the token does not allow history:read"));
        }
        let query = |name: &str| {
            self.request.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
        };
        let number = |name: &str, otherwise: u64| match query(name) {
            None => Ok(otherwise),
            Some(text) => text
                .parse::<u64>()
                .map_err(|_| Fault::new(Code::ProtoMalformed).because(format!("{name} is no number"))),
        };
        let (after, limit) = (number("after", 0)?, number("limit", 50)?);
        if !(1..=200).contains(&limit) {
            return Err(Fault::new(Code::ProtoMalformed).because("limit is not between 1 and 200"));
        }
        let session = SessionId::new(record.id.as_str());
        let limit = usize::try_from(limit).unwrap_or(200);
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let lookup = Lookup {
            table: tables::HISTORY.name,
            within: Within::Session(session.clone()),
            conditions: vec![
                Condition { column: "session_id", is: Comparison::Equal, value: session.as_str().into() },
                Condition { column: "seq", is: Comparison::Above, value: after.into() },
            ],
            question: Question::Rows(vec![("seq", Order::Rising)]),
            // One more tells whether there are more.
            limit: limit + 1,
        };
        self.look(lookup, move |exchange, rows| exchange.answer_history(&rows, limit));
        Ok(())
    }

    fn answer_history(&mut self, rows: &[Found], limit: usize) {
        let place = tables::HISTORY.column("item").unwrap_or_default();
        let item = |row: &Found| -> Option<Value> {
            serde_json::from_str(row.get(place).and_then(Cell::as_text)?).ok()
        };
        let items: Vec<Value> = rows.iter().take(limit).filter_map(item).collect();
        let more = rows.len() > limit;
        let next = items.last().filter(|_| more).and_then(|item| item["seq"].as_u64());
        self.answer(200, &json!({ "items": items, "next_after": next }));
    }
}

/// Whether a token says that it is for development. It is believed only once the token is checked, and then has to
/// fit the session.
fn claims_development(token: &str) -> bool {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims: Option<Value> = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    claims.is_some_and(|claims| claims["vip"]["env"] == "development")
}
