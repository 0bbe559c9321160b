//! The lines of a scenario that are neither frames nor events: what is set up, and what goes wrong.

use serde_json::{Value as Json, json};
use switchboard_asp::message::{Enc, Features};
use switchboard_core::{CloseReason, Principal, Reject, Scopes};

use super::run::{Runner, duration, merge};
use super::shorthand::{json, word};
use crate::script::{Recovery, Story, ToolSpec};
use crate::world::CrashPoint;

impl Runner {
    pub(super) fn command(&mut self, head: &str, rest: &str) -> Result<(), String> {
        match head {
            "agent" => {
                self.before_the_world()?;
                let story: Story = serde_json::from_str(rest).map_err(|error| format!("story: {error}"))?;
                self.script.stories.push(story);
            }
            "tool" => {
                self.before_the_world()?;
                let spec: ToolSpec = serde_json::from_str(rest).map_err(|error| format!("tool: {error}"))?;
                self.script.tools.push(spec.tool());
            }
            "recovery" => {
                self.before_the_world()?;
                self.script.recovery = match rest {
                    "fail" => Recovery::Fail,
                    "replay" => Recovery::Replay,
                    other => return Err(format!("no such recovery: {other}")),
                };
            }
            "also-agent" => {
                self.before_the_world()?;
                self.agents.push(rest.to_owned());
            }
            "limit" => self.limits = changed(&self.limits, rest)?,
            "session-limit" => {
                self.before_the_world()?;
                self.settings.limits = changed(&self.settings.limits, rest)?;
            }
            "commit" => {
                self.before_the_world()?;
                self.settings.commit_ms = duration(rest)?;
            }
            "enc" => self.enc = Enc::from_name(rest).ok_or_else(|| format!("no such encoding: {rest}"))?,
            "principal" => self.principal = self.read_principal(rest)?,
            "token" => {
                let (token, rest) = word(rest);
                let principal = self.read_principal(rest)?;
                self.world().issue(token, principal);
            }
            "connect" => {
                let (name, query) = word(rest);
                let name = if name.is_empty() { "a" } else { name };
                self.connect(name, query.trim_start_matches('?'))?;
            }
            "use" => self.current = rest.to_owned(),
            "hello" => {
                let (names, further) = features(rest)?;
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                self.say_hello(&names, &further)?;
            }
            "cut" => {
                let peer = self.client()?.peer;
                self.world().cut(peer);
                self.lose_transport()?;
            }
            "close" => {
                let peer = self.client()?.peer;
                self.world().close(peer, rest.parse().ok());
                self.lose_transport()?;
            }
            "resume" => self.resume(rest)?,
            "evict" => {
                let reason = match rest {
                    "restart" => CloseReason::Restart,
                    "unauthorized" => CloseReason::Unauthorized,
                    "too_slow" => CloseReason::TooSlow,
                    "too_big" => CloseReason::TooBig,
                    "not_text" => CloseReason::NotText,
                    "internal" => CloseReason::Internal,
                    other => return Err(format!("no such reason: {other}")),
                };
                let peer = self.client()?.peer;
                self.world().evict(peer, reason);
            }
            "stall" => {
                let peer = self.client()?.peer;
                self.world().stall(peer);
            }
            "unstall" => {
                let peer = self.client()?.peer;
                self.world().unstall(peer);
            }
            "read" => {
                let bytes = rest.parse().map_err(|_| format!("how many bytes: {rest}"))?;
                let peer = self.client()?.peer;
                self.world().read_some(peer, bytes);
            }
            "drain" => {
                let retry_ms = rest.parse().map_err(|_| format!("retry after how many ms: {rest}"))?;
                self.world().drain(retry_ms);
            }
            "crash" => match rest {
                "" => self.world().crash(),
                "before-append" => self.world().crash_at(CrashPoint::BeforeAppend, None),
                "after-append" => self.world().crash_at(CrashPoint::AfterAppend, None),
                other => return Err(format!("crash where: {other}")),
            },
            "restart" => self.world().restart(),
            "fail-appends" => {
                let count = rest.parse().map_err(|_| format!("how many: {rest}"))?;
                self.world().fail_appends(count);
            }
            "refuse" => self.refuse(rest)?,
            other => return Err(format!("what is this: {other}")),
        }
        self.collect()
    }

    fn before_the_world(&self) -> Result<(), String> {
        if self.has_world() { Err("too late: the world exists already".into()) } else { Ok(()) }
    }

    /// `ann scope="invoke tools" expires=90s`
    fn read_principal(&mut self, text: &str) -> Result<Principal, String> {
        let (name, mut rest) = word(text);
        let mut principal = Principal::new(name);
        while !rest.is_empty() {
            if let Some(scopes) = rest.strip_prefix("scope=") {
                let (scopes, after) = json(scopes)?;
                principal.scopes = Scopes::parse(scopes.as_str().unwrap_or_default());
                rest = after.trim_start();
            } else if let Some(expires) = rest.strip_prefix("expires=") {
                let (delay, after) = word(expires);
                let delay = std::time::Duration::from_millis(duration(delay)?);
                let now = if self.has_world() { self.world().now() } else { self.settings.start };
                principal.expires_at = Some(now.after(delay));
                rest = after;
            } else {
                return Err(format!("what is this: {rest}"));
            }
        }
        Ok(principal)
    }

    /// What the client had not read when its transport went is lost to it.
    fn lose_transport(&mut self) -> Result<(), String> {
        self.collect()?;
        self.client()?.queue.clear();
        Ok(())
    }

    /// Comes back on a new transport with what the client remembers, or with what is written.
    fn resume(&mut self, rest: &str) -> Result<(), String> {
        let next = self.client()?.next.clone();
        let mut resume = json!({
            "cid": self.captures.get("cid"),
            "token": self.captures.get("token"),
            "next": next.iter().map(|(id, n)| (id.to_string(), json!(n))).collect::<serde_json::Map<_, _>>(),
        });
        let written = self.substitute(rest);
        if !written.is_empty() {
            merge(&mut resume, &json(&written)?.0);
        }
        let mut hello = self.hello.clone();
        merge(&mut hello, &json!({ "resume": resume }));
        let name = self.current.clone();
        self.connect(&name, "")?;
        self.client()?.next = next;
        let enc = self.enc.name();
        self.line(&format!("C> HELLO {enc} {hello}"))
    }

    /// `refuse busy`: every op is refused from now on; `refuse nothing` ends it.
    fn refuse(&mut self, rest: &str) -> Result<(), String> {
        let reject = match rest {
            "nothing" => None,
            "busy" => Some(Reject::Busy),
            "unavailable" => Some(Reject::Unavailable { reason: "no disk".into() }),
            "rate_limited" => {
                Some(Reject::RateLimited { retry_after: std::time::Duration::from_millis(250) })
            }
            other => return Err(format!("no such refusal: {other}")),
        };
        self.world().set_gate(move |_, op, _| match (&reject, op) {
            (Some(reject), switchboard_core::Op::StartTurn(_)) => Err(reject.clone()),
            _ => Ok(()),
        });
        Ok(())
    }
}

/// Feature names, or the name of a profile, and further members of the HELLO.
fn features(text: &str) -> Result<(Vec<String>, Json), String> {
    let (names, further) = match text.find('{') {
        Some(at) => (&text[..at], json(&text[at..])?.0),
        None => (text, json!({})),
    };
    let mut all: Vec<String> = Vec::new();
    for name in names.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "bare" => {}
            "standard" => all.extend(Features::STANDARD.iter().map(|feature| feature.name().to_owned())),
            other => all.push(other.to_owned()),
        }
    }
    Ok((all, further))
}

/// Limits with one of them changed.
fn changed<T: serde::Serialize + serde::de::DeserializeOwned>(limits: &T, text: &str) -> Result<T, String> {
    let (name, value) = word(text);
    let mut map = serde_json::to_value(limits).map_err(|error| error.to_string())?;
    let value: Json = serde_json::from_str(value).map_err(|error| format!("limit {name}: {error}"))?;
    map[name] = value;
    serde_json::from_value(map).map_err(|error| format!("limit {name}: {error}"))
}
