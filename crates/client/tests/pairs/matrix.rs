//! Runs a scenario for every pair at once, and shows how it went.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

use crate::cannot::{What, cannot};
use crate::pair::Pair;
use crate::side::Protocol;
use crate::world::World;

/// When the second side joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    AtOnce,
    Later,
}

/// What a scenario does with a pair.
pub(crate) type Scenario = for<'a> fn(&'a mut Pair) -> BoxFuture<'a, Result<(), String>>;

/// What cannot be done by whom.
pub(crate) type Limits = BTreeSet<(Protocol, What)>;

/// Runs a scenario for every pair, on one server.
pub(crate) async fn run(name: &'static str, arrival: Arrival, scenario: Scenario) {
    let world = Arc::new(World::open().await);
    let mut running = JoinSet::new();
    let mut results = BTreeMap::new();
    for (first, second) in pairs() {
        if first == second
            && let Some(cannot) = cannot(first, What::BeTwice)
        {
            results.insert((first, second), Ok(Limits::from([(first, cannot.what)])));
            continue;
        }
        let world = world.clone();
        running.spawn(async move {
            let result = attempt(&world, name, arrival, scenario, first, second).await;
            ((first, second), result)
        });
    }
    while let Some(done) = running.join_next().await {
        let (pair, result) = done.expect("no panic");
        results.insert(pair, result);
    }
    report(name, &results);
}

async fn attempt(
    world: &Arc<World>,
    name: &str,
    arrival: Arrival,
    scenario: Scenario,
    first: Protocol,
    second: Protocol,
) -> Result<Limits, String> {
    let mut pair = match arrival {
        Arrival::AtOnce => Pair::both(world, name, first, second).await?,
        Arrival::Later => Pair::open(world, name, first, second).await?,
    };
    scenario(&mut pair).await?;
    Ok(pair.limits)
}

/// Every ordered pair.
pub(crate) fn pairs() -> impl Iterator<Item = (Protocol, Protocol)> {
    Protocol::ALL.into_iter().flat_map(|first| Protocol::ALL.map(|second| (first, second)))
}

/// Shows the table, and fails if a pair has.
#[expect(clippy::print_stdout, reason = "the table is what somebody runs this for")]
pub(crate) fn report(name: &str, results: &BTreeMap<(Protocol, Protocol), Result<Limits, String>>) {
    let (mut table, mut limits, mut failures) = (String::new(), Limits::new(), String::new());
    let _ = write!(table, "{name:<12}");
    for second in Protocol::ALL {
        let _ = write!(table, "{second:<9}");
    }
    for first in Protocol::ALL {
        let _ = write!(table, "\n  {first:<10}");
        for second in Protocol::ALL {
            let cell = match results.get(&(first, second)) {
                Some(Ok(none)) if none.is_empty() => "yes",
                Some(Ok(some)) => {
                    limits.extend(some);
                    "part"
                }
                Some(Err(why)) => {
                    let _ = write!(failures, "\n{first} then {second}: {why}");
                    "NO"
                }
                None => "?",
            };
            let _ = write!(table, "{cell:<9}");
        }
    }
    for (who, what) in limits {
        let because = cannot(who, what).map_or("", |cannot| cannot.because);
        let _ = write!(table, "\n  {who} cannot {}: {because}", what.words());
    }
    println!("{table}\n");
    assert!(failures.is_empty(), "{table}\n{failures}");
}
