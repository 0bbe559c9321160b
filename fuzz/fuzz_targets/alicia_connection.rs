//! Anything that can happen to an Alicia connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::alicia_connection(bytes));
