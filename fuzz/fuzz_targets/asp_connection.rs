//! Anything that can happen to an ASP connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::connection(bytes));
