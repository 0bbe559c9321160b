//! The conformance checklist (§22) as far as it concerns a server in direct mode. Each test is named
//! after its statement; what is easier to read as a transcript is in `vectors/asp/scenarios`.

mod coverage;
mod flow;
mod frames;
mod requests;
mod support;
mod upgrade;
