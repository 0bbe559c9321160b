//! Every pair of protocols in one session, over real sockets: the first has opened it, the second joins.
//!
//! `cargo test -p switchboard-client --test pairs -- --nocapture` shows the tables: `yes` where everything
//! was possible, `part` where it was but for what a protocol cannot express, which is listed below the
//! table and stands in the protocol's page.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

mod acolyte;
mod aip;
mod alicia;
mod asp;
mod cannot;
mod carried;
mod matrix;
mod pair;
mod prompter;
mod rights;
mod scenarios;
mod side;
mod vip;
mod world;

use matrix::{Arrival, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_see_the_whole_answer() {
    run("stream", Arrival::AtOnce, |pair| Box::pin(scenarios::stream(pair))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_stops_the_answer() {
    run("interrupt", Arrival::AtOnce, |pair| Box::pin(scenarios::interrupt(pair))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_either_are_run_for_either() {
    run("tools", Arrival::AtOnce, |pair| Box::pin(scenarios::tools(pair))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_late_sees_all_of_it() {
    run("late", Arrival::Later, |pair| Box::pin(scenarios::late(pair))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_loses_nothing_and_doubles_nothing() {
    run("cut", Arrival::AtOnce, |pair| Box::pin(scenarios::cut(pair))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_sees_everything_and_changes_nothing() {
    rights::run().await;
}
