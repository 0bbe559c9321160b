//! What was recorded, as it is to be said now: with the ids and credentials of this run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::variables::Variables;
use crate::recording::message::{Dialect, Message};
use crate::recording::{Answer, Payload, Request, What};

/// The same with the values of this run.
pub(super) fn said(variables: &Variables, dialect: Dialect, what: &What) -> What {
    match what {
        What::Request(request) => What::Request(Request {
            method: request.method.clone(),
            target: target(variables, &request.target),
            headers: headers(variables, &request.headers),
            body: payload(variables, &request.body),
            websocket: request.websocket,
        }),
        What::Answer(answer) => {
            What::Answer(Answer { status: answer.status, headers: headers(variables, &answer.headers) })
        }
        What::Chunk(body) => What::Chunk(payload(variables, body)),
        What::Text(text) => What::Text(
            message(variables, Message::text(text))
                .map_or_else(|| text.clone(), |bytes| String::from_utf8_lossy(&bytes).into_owned()),
        ),
        What::Binary(base64) => {
            let bytes = Bytes::from(STANDARD.decode(base64).unwrap_or_default());
            let changed = message(variables, Message::binary(dialect, &bytes));
            What::Binary(changed.map_or_else(|| base64.clone(), |bytes| STANDARD.encode(bytes)))
        }
        What::Close(_) | What::End(_) | What::Lost(_) => what.clone(),
    }
}

/// The message, if anything in it changes.
fn message(variables: &Variables, mut message: Message) -> Option<Bytes> {
    let changed = message.rewrite(&mut |_, text| match variables.say(text) {
        Some(said) if said != *text => {
            *text = said;
            true
        }
        Some(_) | None => false,
    });
    if changed { message.encode() } else { None }
}

fn payload(variables: &Variables, payload: &Payload) -> Payload {
    match payload {
        // An event of a stream stays in its lines.
        Payload::Text(text) if text.contains("data:") => {
            Payload::Text(variables.say(text).unwrap_or_else(|| text.clone()))
        }
        Payload::Text(text) => message(variables, Message::text(text))
            .map_or_else(|| payload.clone(), |bytes| Payload::of(&bytes)),
        Payload::Bytes { .. } => payload.clone(),
    }
}

/// Headers, without those that need a credential which is not there.
fn headers(variables: &Variables, headers: &[(String, String)]) -> Vec<(String, String)> {
    let said = |(name, value): &(String, String)| {
        if name.eq_ignore_ascii_case("sec-websocket-protocol") {
            let entries: Vec<String> =
                value.split(',').filter_map(|entry| variables.say(entry.trim())).collect();
            return (!entries.is_empty()).then(|| (name.clone(), entries.join(", ")));
        }
        Some((name.clone(), variables.say(value)?))
    };
    headers.iter().filter_map(said).collect()
}

/// Path and query, without parameters that need a credential which is not there.
fn target(variables: &Variables, target: &str) -> String {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let path = variables.say(path).unwrap_or_else(|| path.to_owned());
    let parameters: Vec<String> =
        query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| variables.say(pair)).collect();
    if parameters.is_empty() { path } else { format!("{path}?{}", parameters.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_made_with_what_is_known() {
        let mut variables = Variables::new([("key".to_owned(), "k1".to_owned())]);
        assert!(variables.text("id", "ses_aaaa1111", "ses_bbbb2222"));
        let request = |target: &str, headers: &[(&str, &str)]| {
            What::Request(Request {
                method: "GET".to_owned(),
                target: target.to_owned(),
                headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
                body: Payload::Text("{\"s\":\"ses_aaaa1111\"}".to_owned()),
                websocket: false,
            })
        };
        let recorded = request(
            "/s/ses_aaaa1111?token=${key-2}&after=1",
            &[("authorization", "Bearer ${key}"), ("sec-websocket-protocol", "vip.v1, vip.bearer.${token}")],
        );
        let What::Request(now) = said(&variables, Dialect::Vip, &recorded) else { panic!() };
        assert_eq!(now.target, "/s/ses_bbbb2222?after=1");
        assert_eq!(now.headers[0].1, "Bearer k1");
        assert_eq!(now.headers[1].1, "vip.v1");
        assert_eq!(now.body, Payload::Text("{\"s\":\"ses_bbbb2222\"}".to_owned()));
    }
}
