//! What the server serves, as its code says: the routes of every protocol, and those of its own.

use std::collections::BTreeMap;
use std::path::Path;

use switchboard_acolyte::Acolyte;
use switchboard_aip::Aip;
use switchboard_alicia::message::ModelInfo;
use switchboard_alicia::{Alicia, Facts};
use switchboard_asp::Asp;
use switchboard_core::{Method, Protocol, Right, Transport};
use switchboard_vip::{Speech, Vip};

/// One way in: `GET /path`, or `WS /path` for a WebSocket.
pub(crate) type Way = String;

/// Every way in, with what a credential has to allow there; nothing where the way has a rule of its own.
pub(crate) fn served() -> BTreeMap<Way, Option<Right>> {
    let mut ways = own();
    for protocol in protocols() {
        ways.extend(protocol.routes().iter().map(|route| {
            let method = match route.transport {
                Transport::WebSocket => "WS",
                Transport::Http(Method::Get) => "GET",
                Transport::Http(Method::Post) => "POST",
                Transport::Http(Method::Put) => "PUT",
                Transport::Http(Method::Patch) => "PATCH",
                Transport::Http(Method::Delete) => "DELETE",
            };
            (format!("{method} {}", route.path), Some(route.right))
        }));
    }
    ways
}

/// The protocols, each as large as it gets.
fn protocols() -> Vec<Box<dyn Protocol>> {
    let facts = |_: &_| Facts {
        model: ModelInfo { name: String::new(), provider: String::new() },
        servers: Vec::new(),
    };
    let alicia =
        switchboard_alicia::Service { elites: [].into(), facts: std::sync::Arc::new(facts), hears: false };
    let vip = switchboard_vip::Service {
        seal: std::sync::Arc::new(NoSeal),
        issuer: None,
        public_url: None,
        allow_development: false,
        agent: None,
        prompts: Default::default(),
        providers: Vec::new(),
        ice_servers: Vec::new(),
        webrtc: true,
        speech: Speech::default(),
        introduction: String::new(),
        introduction_interruptible: true,
    };
    let known: Vec<Box<dyn Protocol>> = vec![
        Box::new(Acolyte::new(Default::default(), Default::default())),
        Box::new(Aip::new(Default::default(), Default::default())),
        Box::new(Alicia::new(Default::default(), alicia)),
        Box::new(Asp::new(Default::default()).with_alias()),
        Box::new(Vip::new(Default::default(), vip)),
    ];
    let names: Vec<&str> = known.iter().map(|protocol| protocol.name()).collect();
    assert_eq!(names, crates_with_a_protocol(), "a protocol that nobody tries here");
    known
}

#[derive(Debug)]
struct NoSeal;

impl switchboard_vip::token::Seal for NoSeal {
    fn sign(&self, _: &str, _: &serde_json::Value) -> String {
        String::new()
    }

    fn open(&self, _: &str, _: &str) -> Result<serde_json::Value, switchboard_vip::token::Unsealed> {
        Err(switchboard_vip::token::Unsealed::Invalid)
    }

    fn key_set(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// The crates of the workspace that offer a protocol, in the order of their names.
fn crates_with_a_protocol() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names: Vec<String> = std::fs::read_dir(crates)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|folder| {
            let source = std::fs::read_to_string(folder.join("src/protocol.rs")).unwrap_or_default();
            source.contains("\nimpl Protocol for ")
        })
        .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// The server's own ways in, read from its source: whatever is given to a router by a path.
fn own() -> BTreeMap<Way, Option<Right>> {
    let mut ways = BTreeMap::new();
    let mut variable = 0;
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut |source| {
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        if !source.contains("Router") {
            return;
        }
        assert!(!source.contains(".route_service(") && !source.contains(".nest_service("), "{source}");
        let folder = source.split(".nest(\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("");
        for (place, _) in source.match_indices(".route(") {
            let call = call_at(&source[place + ".route(".len()..]);
            let Some(path) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
            else {
                variable += 1;
                continue;
            };
            // What is nested stands behind the nest's `Router::new()`.
            let nested = !folder.is_empty() && source[..place].contains("let api = Router::new()");
            let path = if nested { format!("{folder}{path}") } else { path.to_owned() };
            let methods = [("get(", "GET"), ("post(", "POST"), ("delete(", "DELETE"), ("patch(", "PATCH")];
            let named: Vec<&str> =
                methods.iter().filter(|(name, _)| call.contains(name)).map(|(_, method)| *method).collect();
            assert!(!named.is_empty(), "no method that is known here: {call}");
            let right = call.split("Right::").nth(1).map(|rest| {
                let name: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
                let known = Right::ALL.into_iter().find(|right| format!("{right:?}") == name);
                known.unwrap_or_else(|| panic!("{name} is no right"))
            });
            ways.extend(named.into_iter().map(|method| (format!("{method} {path}"), right)));
        }
    });
    assert_eq!(variable, 2, "only `mount` serves paths that it is told");
    assert!(ways.len() > 15 && ways.contains_key("GET /admin/v1/sessions/{session}/events"), "{ways:?}");
    ways
}

/// The arguments of a call, up to the bracket that closes it.
fn call_at(source: &str) -> &str {
    let mut depth = 1;
    for (place, byte) in source.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &source[..place];
        }
    }
    source
}

fn walk(folder: &Path, visit: &mut impl FnMut(&str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if !matches!(name, "tests" | "guest_tests") {
                walk(&path, visit);
            }
        } else if name.ends_with(".rs") && !name.contains("tests") {
            visit(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
