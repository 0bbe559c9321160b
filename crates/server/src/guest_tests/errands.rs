use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_core::{Errand, Pii, Principal, Reject, Reply, RequestId};

use super::probe::Probe;
use super::{Hosted, Socket, hosting, until};
use crate::auth::Revocation;
use crate::errands::{ErrandCaller, ErrandDesk, Errands, Running};
use crate::guests::Guests;
use switchboard_engine::{Delivery, Inbox};

/// Does what the errand says: become somebody, take some time, or fail.
#[derive(Debug)]
struct Servant;

impl Errands for Servant {
    fn run(self: Arc<Self>, caller: ErrandCaller, errand: Value) -> Running {
        Box::pin(async move {
            if let Some(seconds) = errand["sleep"].as_u64() {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            if errand["fail"] == true {
                return Err(Reject::Forbidden);
            }
            let principal = errand["become"].as_str().map(Principal::new);
            let answer = json!({ "for": caller.principal.id, "at": caller.address, "origin": caller.origin });
            Ok(Errand { answer: Pii(answer), principal })
        })
    }
}

async fn hosted(settings: &[&str]) -> Hosted {
    let errands = [("probe", Arc::new(Servant) as Arc<dyn Errands>)].into();
    Hosted::start(Guests { errands, ..hosting(Probe::default()) }, settings).await
}

async fn ask(socket: &mut Socket, errand: Value) -> String {
    socket.say(&format!("errand {errand}")).await;
    socket.hear().await
}

#[tokio::test]
async fn errands_are_run_on_behalf_of_the_caller() {
    let server = hosted(&[]).await;
    let mut socket = server.socket(&[]).await.unwrap();
    let answer = ask(&mut socket, json!({})).await;
    let expected = json!({ "for": "dev", "at": "127.0.0.1", "origin": format!("http://{}", server.address) });
    assert_eq!(answer, format!("done {expected}"));
    assert_eq!(ask(&mut socket, json!({ "fail": true })).await, "rejected forbidden");
}

#[tokio::test]
async fn without_somebody_to_run_them_errands_are_not_served() {
    let server = Hosted::start(hosting(Probe::default()), &[]).await;
    let mut socket = server.socket(&[]).await.unwrap();
    assert_eq!(ask(&mut socket, json!({})).await, "rejected unserved");
}

#[tokio::test]
async fn an_errand_may_find_out_for_whom_a_connection_speaks() {
    let server = hosted(&["limits.connections_per_principal=2"]).await;
    let mut sockets = Vec::new();
    for _ in 0..2 {
        let mut socket = server.socket(&[]).await.unwrap();
        assert!(ask(&mut socket, json!({ "become": "ann" })).await.starts_with("done"));
        // From now on it is hers.
        assert!(ask(&mut socket, json!({})).await.contains("\"for\":\"ann\""));
        sockets.push(socket);
    }
    assert_eq!(server.principals(), ["ann", "ann"]);
    // Those places are no longer taken by whoever came first; hers are.
    let mut third = server.socket(&[]).await.unwrap();
    assert_eq!(ask(&mut third, json!({ "become": "ann" })).await, "rejected limit");
    assert!(ask(&mut third, json!({ "become": "bob" })).await.starts_with("done"));
    drop(sockets.pop());
    until(|| server.principals() == ["ann", "bob"]).await;
    let mut fourth = server.socket(&[]).await.unwrap();
    assert!(ask(&mut fourth, json!({ "become": "ann" })).await.starts_with("done"));
}

#[tokio::test]
async fn whoever_was_revoked_is_nobody_that_a_connection_can_become() {
    let server = hosted(&[]).await;
    let mut live = server.socket(&[]).await.unwrap();
    assert!(ask(&mut live, json!({ "become": "mallory" })).await.starts_with("done"));
    server.handle.revoke(Revocation::Principal("mallory".into())).unwrap();
    until(|| server.principals().is_empty()).await;
    let mut late = server.socket(&[]).await.unwrap();
    assert_eq!(ask(&mut late, json!({ "become": "mallory" })).await, "rejected unauthenticated");
    assert_eq!(server.principals(), ["dev"]);
}

#[tokio::test]
async fn a_peer_that_says_too_much_is_told_so_once_that_is_seen_to() {
    let server = hosted(&[]).await;
    let mut socket = server.socket(&[]).await.unwrap();
    socket.say(&"x".repeat(300_000)).await;
    assert!(socket.hear().await.starts_with("done"), "what takes a moment is still said");
    assert_eq!(socket.closed().await, 1009);
}

#[tokio::test(start_paused = true)]
async fn an_errand_takes_half_a_minute_at_most() {
    let desk = ErrandDesk::default();
    desk.staff([("probe", Arc::new(Servant) as Arc<dyn Errands>)].into());
    let inbox = Arc::new(Inbox::default());
    let caller = ErrandCaller {
        principal: Principal::new("ann"),
        address: "127.0.0.1".parse().unwrap(),
        origin: String::new(),
    };
    for (number, seconds) in [(1, 29), (2, 31)] {
        let errand = Pii(json!({ "sleep": seconds }));
        desk.run("probe", caller.clone(), RequestId(number), errand, inbox.clone());
    }
    tokio::time::sleep(Duration::from_secs(40)).await;
    let [first, second] = &inbox.take()[..] else { panic!("two answers") };
    assert!(matches!(first, Delivery::Done(RequestId(1), Reply::Errand(_))), "{first:?}");
    assert!(matches!(second, Delivery::Rejected(RequestId(2), Reject::Unserved { .. })), "{second:?}");
}
