//! Anything that can happen to an Acolyte connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::acolyte_connection(bytes));
