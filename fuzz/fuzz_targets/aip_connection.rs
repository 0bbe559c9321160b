//! Anything that can happen to an AIP connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::aip_connection(bytes));
