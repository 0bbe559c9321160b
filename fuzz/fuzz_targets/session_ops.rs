//! Any ops in any order to one session.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::session(bytes));
