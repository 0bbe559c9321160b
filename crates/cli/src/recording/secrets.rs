//! Credentials are taken out of a recording before anything is written.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use switchboard_asp::upgrade::bearer_token;

use super::message::{Dialect, Message};
use super::placeholder::{KEY, SERVER, TOKEN, numbered, written, written_encoded};
use super::{Payload, Request, Side, What};

/// What was found so far, and what stands in its place.
#[derive(Default)]
pub(crate) struct Secrets {
    /// Value and placeholder; longer values first, since one may hold another.
    known: Vec<(String, String)>,
    keys: usize,
    tokens: usize,
}

impl Secrets {
    /// The address under which the client reaches the server, which is another one in every run.
    pub(crate) fn address(&mut self, authority: &str) {
        self.learn(authority.to_owned(), written(SERVER));
    }

    /// Takes out what must not be written down. Fragments and compressed payloads of ASP are not opened;
    /// credentials travel in frames that are neither.
    pub(crate) fn hide(&mut self, dialect: Dialect, from: Side, what: &mut What) {
        match what {
            What::Request(request) => self.request(request),
            What::Answer(answer) => {
                for (name, value) in &mut answer.headers {
                    if name.eq_ignore_ascii_case("set-cookie") {
                        self.secret(Side::Server, value);
                    }
                    self.replace(value);
                }
            }
            What::Chunk(payload) => self.payload(from, payload),
            What::Text(text) => {
                if let Some(hidden) = self.message(from, Message::text(text)) {
                    *text = String::from_utf8_lossy(&hidden).into_owned();
                }
            }
            What::Binary(base64) => {
                let bytes = Bytes::from(STANDARD.decode(&*base64).unwrap_or_default());
                if let Some(hidden) = self.message(from, Message::binary(dialect, &bytes)) {
                    *base64 = STANDARD.encode(hidden);
                }
            }
            What::Close(goodbye) => {
                self.replace(&mut goodbye.reason);
            }
            What::End(_) | What::Lost(_) => {}
        }
    }

    fn request(&mut self, request: &mut Request) {
        for (name, value) in &mut request.headers {
            match name.to_ascii_lowercase().as_str() {
                "authorization" | "proxy-authorization" => {
                    let credential = value.split_once(' ').map_or(value.as_str(), |(_, rest)| rest.trim());
                    self.secret(Side::Client, credential);
                }
                "sec-websocket-protocol" => {
                    for entry in value.split(',').map(str::trim) {
                        self.entry(entry);
                    }
                }
                "x-api-key" | "cookie" => self.secret(Side::Client, value),
                _ => {}
            }
            self.replace(value);
        }
        if let Some((_, query)) = request.target.split_once('?') {
            let credentials: Vec<String> = query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .filter(|(name, _)| is_secret(name))
                .map(|(_, value)| value.to_owned())
                .collect();
            for credential in credentials {
                self.secret(Side::Client, &credential);
            }
        }
        self.replace(&mut request.target);
        self.payload(Side::Client, &mut request.body);
    }

    /// An offered sub-protocol may be a credential.
    fn entry(&mut self, entry: &str) {
        if let Some(token) = bearer_token(entry) {
            self.secret(Side::Client, &token);
        } else if let Some(token) =
            ["bearer.", "vip.bearer."].iter().find_map(|start| entry.strip_prefix(start))
        {
            self.secret(Side::Client, token);
        }
    }

    fn payload(&mut self, from: Side, payload: &mut Payload) {
        let Payload::Text(text) = payload else { return };
        // Events of a stream are found line by line; everything else is one tree, or no tree at all.
        if text.starts_with("data:") || text.contains("\ndata:") {
            let lines: Vec<String> = text.split('\n').map(|line| self.line(from, line)).collect();
            *text = lines.join("\n");
        } else if let Some(hidden) = self.message(from, Message::text(text)) {
            *text = String::from_utf8_lossy(&hidden).into_owned();
        }
    }

    fn line(&mut self, from: Side, line: &str) -> String {
        let hidden = line
            .strip_prefix("data:")
            .and_then(|data| self.message(from, Message::text(data.trim())))
            .map(|hidden| format!("data: {}", String::from_utf8_lossy(&hidden)));
        hidden.unwrap_or_else(|| line.to_owned())
    }

    /// The message without what it must not hold; none if there was nothing.
    fn message(&mut self, from: Side, mut message: Message) -> Option<Bytes> {
        let changed = message.rewrite(&mut |key, text| {
            if is_secret(key) && text.len() >= MIN_SECRET {
                self.secret(from, text);
            }
            self.replace(text)
        });
        if changed { message.encode() } else { None }
    }

    /// Remembers a credential.
    fn secret(&mut self, from: Side, value: &str) {
        if value.is_empty() || self.known.iter().any(|(known, _)| known == value) || value.contains("${") {
            return;
        }
        let name = match from {
            Side::Client => {
                self.keys += 1;
                numbered(KEY, self.keys)
            }
            Side::Server => {
                self.tokens += 1;
                numbered(TOKEN, self.tokens)
            }
        };
        self.learn(URL_SAFE_NO_PAD.encode(value), written_encoded(&name));
        self.learn(value.to_owned(), written(&name));
    }

    fn learn(&mut self, value: String, placeholder: String) {
        if self.known.len() < MAX_KNOWN && !self.known.iter().any(|(known, _)| *known == value) {
            self.known.push((value, placeholder));
            self.known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
    }

    fn replace(&self, text: &mut String) -> bool {
        let mut changed = false;
        for (value, placeholder) in &self.known {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), placeholder);
                changed = true;
            }
        }
        changed
    }
}

/// Says how much is known, and nothing of it.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Secrets")
            .field("keys", &self.keys)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Whether a member or parameter of this name holds a credential.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['-', '_'], "");
    name.ends_with("token") || name.ends_with("secret") || SECRET.contains(&name.as_str())
}

const SECRET: &[&str] =
    &["apikey", "authorization", "bearer", "credential", "jwt", "password", "ticket", "auth"];
/// Shorter texts are words, not credentials.
const MIN_SECRET: usize = 8;
/// So many credentials, each with its other form; what comes later is a mistake of the peer's.
const MAX_KNOWN: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Answer;

    fn request(target: &str, headers: &[(&str, &str)], body: &str) -> What {
        What::Request(Request {
            method: "GET".to_owned(),
            target: target.to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: Payload::Text(body.to_owned()),
            websocket: true,
        })
    }

    fn hidden(secrets: &mut Secrets, from: Side, mut what: What) -> String {
        secrets.hide(Dialect::Asp, from, &mut what);
        serde_json::to_string(&what).unwrap()
    }

    #[test]
    fn credentials_of_a_request_are_taken_out_wherever_they_are() {
        let key = "key-of-ann-0123456789";
        let entry = switchboard_asp::upgrade::bearer_entry(key);
        for what in [
            request("/v1/rpc", &[("authorization", "Bearer key-of-ann-0123456789")], ""),
            request("/v1/rpc", &[("sec-websocket-protocol", "bearer.key-of-ann-0123456789")], ""),
            request("/v1/agent-socket", &[("sec-websocket-protocol", &format!("asp-v1, {entry}"))], ""),
            request("/ws?token=key-of-ann-0123456789&a=b", &[], ""),
            request("/x", &[("X-API-Key", key)], ""),
            request("/x", &[], r#"{"api_key":"key-of-ann-0123456789"}"#),
        ] {
            let text = hidden(&mut Secrets::default(), Side::Client, what);
            assert!(!text.contains(key) && !text.contains(&entry), "{text}");
            assert!(text.contains("${key}") || text.contains("${key:base64url}"), "{text}");
        }
    }

    #[test]
    fn a_token_of_the_server_is_known_again_when_the_client_shows_it() {
        let mut secrets = Secrets::default();
        secrets.address("127.0.0.1:4610");
        let created = What::Chunk(Payload::Text(
            r#"{"session_token":"eyJ.abc.def","url":"ws://127.0.0.1:4610/s"}"#.to_owned(),
        ));
        let text = hidden(&mut secrets, Side::Server, created);
        assert!(text.contains("${token}") && text.contains("ws://${server}/s"), "{text}");
        let shown = request("/s", &[("sec-websocket-protocol", "vip.v1, vip.bearer.eyJ.abc.def")], "");
        let text = hidden(&mut secrets, Side::Client, shown);
        assert!(text.contains("vip.bearer.${token}") && !text.contains("${key"), "{text}");
    }

    #[test]
    fn the_value_of_a_credential_is_one() {
        let chunk = What::Chunk(Payload::Text(
            r#"{"provider":{"credential":{"type":"bearer","value":"ek_0123456789"}}}"#.to_owned(),
        ));
        assert!(!hidden(&mut Secrets::default(), Side::Server, chunk).contains("ek_0123456789"));
    }

    #[test]
    fn streams_and_cookies_are_looked_through() {
        let mut secrets = Secrets::default();
        let chunk = What::Chunk(Payload::Text("data: {\"resume_token\":\"0123456789\"}\n\n:\n\n".to_owned()));
        let text = hidden(&mut secrets, Side::Server, chunk);
        assert_eq!(text, r#"{"chunk":"data: {\"resume_token\":\"${token}\"}\n\n:\n\n"}"#);
        let answer = What::Answer(Answer {
            status: 200,
            headers: vec![("set-cookie".to_owned(), "id=abcdefgh".to_owned())],
        });
        assert!(!hidden(&mut secrets, Side::Server, answer).contains("abcdefgh"));
    }
}
