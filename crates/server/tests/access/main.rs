//! Who may reach what. Every way into the server and everything that can be said on a WebSocket is in a table, and
//! everybody who must not come in tries all of it: without a credential, with a wrong one, with one that has ended,
//! with one of somebody else's, and as an observer. The ways are those of the code: one that nobody has put into the
//! table makes this fail.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod endpoints;
#[path = "../alicia/envelope.rs"]
#[allow(dead_code, reason = "Alicia's own tests ask more of it")]
mod envelope;
#[allow(dead_code, reason = "what is in the logs is another test")]
mod line;
mod operations;
#[path = "../alicia/pack.rs"]
#[allow(dead_code, reason = "Alicia's own tests ask more of it")]
mod pack;
mod rights;
mod routes;
mod scrub;
#[path = "../support/mod.rs"]
mod support;
mod vip;
mod world;

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, future, stream};

use endpoints::ENDPOINTS;
use operations::TABLES;
use world::World;

#[test]
fn the_table_holds_every_way_in() {
    let tried: BTreeSet<String> = ENDPOINTS.iter().map(|endpoint| endpoint.way.to_owned()).collect();
    let served: BTreeSet<String> = routes::served().into_keys().collect();
    let untried: Vec<_> = served.difference(&tried).collect();
    let unserved: Vec<_> = tried.difference(&served).collect();
    assert!(
        untried.is_empty() && unserved.is_empty(),
        "nobody tries {untried:#?}; nobody serves {unserved:#?}"
    );
    assert_eq!(tried.len(), ENDPOINTS.len(), "each way once");
}

#[test]
fn the_tables_hold_every_word_of_a_client() {
    let mut wrong = operations::check_words();
    wrong.extend(vip::check_words());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_finds_what_is_theirs_and_nothing_else() {
    let mut world = World::start().await;
    let before = world.happened().await;

    // A question that waits for its answer takes as long as all the rest.
    let patient = ENDPOINTS.iter().filter(|endpoint| endpoint.way.ends_with(WAITS));
    let patient = future::join_all(patient.map(|endpoint| endpoint.check_owner(&world)));
    let (mut wrong, patient) = future::join(try_all(&world), patient).await;
    wrong.extend(patient.concat());
    let after = world.happened().await;
    for ((session, before), (_, after)) in before.iter().zip(&after) {
        if before != after {
            wrong.push(format!("something happened in {session} of Ann's: {before:?}, and then {after:?}"));
        }
    }
    assert_eq!(before.len(), after.len(), "Ann has more sessions than before, or fewer");

    world.renew().await;
    // Those who may still can; whoever stops the server comes last.
    let is_last = |endpoint: &&endpoints::Endpoint| endpoint.way == STOP;
    for endpoint in ENDPOINTS.iter().filter(|endpoint| !is_last(endpoint) && !endpoint.way.ends_with(WAITS)) {
        wrong.extend(endpoint.check_owner(&world).await);
    }
    for endpoint in ENDPOINTS.iter().filter(is_last) {
        wrong.extend(endpoint.check_owner(&world).await);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything is tried and said by those who may not; what is wrong with the answers.
async fn try_all(world: &World) -> Vec<String> {
    // Most of the time is spent waiting for the network, so several try at once.
    let tried = stream::iter(ENDPOINTS)
        .map(async |endpoint| [endpoint.check(world).await, endpoint.check_origin(world).await].concat());
    let mut wrong = tried.buffer_unordered(AT_ONCE).concat().await;
    let said = future::join_all(TABLES.iter().map(|table| table.check(world)));
    let (said, vip) = future::join(said, vip::check(world)).await;
    wrong.extend(said.concat());
    wrong.extend(vip);
    wrong
}

/// How many ways are tried at once.
const AT_ONCE: usize = 8;
/// What waits for something to tell.
const WAITS: &str = "/answers";
const STOP: &str = "POST /v1/admin/shutdown";
