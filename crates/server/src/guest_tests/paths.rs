//! A protocol of an embedding program has a name and paths of its own, or the server says so.

use switchboard_core::{
    Connection, Method, Opening, OpeningRequest, Protocol, Refusal, RefusalReply, Right, Route, Seed,
    Transport, Upgrade,
};

use super::probe::Probe;
use crate::config::Config;
use crate::guests::Guests;
use crate::serve::{ServeError, Server};

/// The tests' protocol under another name, at another path.
#[derive(Debug)]
struct Elsewhere {
    name: &'static str,
    routes: &'static [Route],
}

impl Protocol for Elsewhere {
    fn name(&self) -> &'static str {
        self.name
    }

    fn routes(&self) -> &'static [Route] {
        self.routes
    }

    fn max_message(&self) -> usize {
        Probe::default().max_message()
    }

    fn inspect(&self, request: &OpeningRequest) -> Result<Opening, Refusal> {
        Probe::default().inspect(request)
    }

    fn accept(&self, upgrade: Upgrade, seed: Seed) -> Result<Box<dyn Connection>, Refusal> {
        Probe::default().accept(upgrade, seed)
    }

    fn refuse(&self, refusal: &Refusal, request_id: &str) -> RefusalReply {
        Probe::default().refuse(refusal, request_id)
    }
}

/// What the server says to a guest with this name and path.
async fn said(name: &'static str, path: &'static str) -> Option<String> {
    let data = tempfile::tempdir().unwrap();
    let none: [(String, String); 0] = [];
    let config = Config::load(None, none, [format!("data_dir={}", data.path().display())]).unwrap();
    let routes = vec![Route { path, transport: Transport::Http(Method::Get), right: Right::Connect }];
    let guest = Elsewhere { name, routes: routes.leak() };
    let guests = Guests::default().with_protocol(Probe::default()).with_protocol(guest);
    match Server::start_hosting(config, guests).await {
        Ok(_) => None,
        Err(ServeError::Config(why)) => Some(why),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_guest_in_the_way_of_another_protocol_is_an_error_and_no_panic() {
    assert_eq!(said("sixth", "/sixth/{name}").await, None);
    for (name, path, why) in [
        ("asp", "/sixth", "there is a protocol asp already"),
        ("probe", "/sixth", "there is a protocol probe already"),
        ("sixth", "/v1/rpc", "/v1/rpc of sixth is a path of acolyte"),
        ("sixth", "/probe/{other}", "/probe/{} of sixth is a path of probe"),
        ("sixth", "/healthz", "/healthz of sixth is not a path for protocols"),
        ("sixth", "/admin/v1/sessions", "/admin/v1/sessions of sixth is not a path for protocols"),
        ("sixth", "sixth", "sixth of sixth is not a path for protocols"),
    ] {
        assert_eq!(said(name, path).await.as_deref(), Some(why), "{name} {path}");
    }
}
