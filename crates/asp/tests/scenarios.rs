//! Every transcript of `vectors/asp/scenarios`, played against the server half.

use std::panic::{AssertUnwindSafe, catch_unwind};

use switchboard_testkit::Scenario;

#[test]
fn every_scenario_plays_as_written() {
    let scenarios = Scenario::all("asp/scenarios");
    assert!(scenarios.len() > 90, "scenarios are missing");
    let mut failures = Vec::new();
    for scenario in &scenarios {
        // A panic of the world has to name the file as well.
        match catch_unwind(AssertUnwindSafe(|| scenario.run())) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failures.push(error),
            Err(_) => failures.push(format!("{}: panicked", scenario.name)),
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} failed:\n{}",
        failures.len(),
        scenarios.len(),
        failures.join("\n")
    );
}
