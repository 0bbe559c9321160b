//! What a function answers and pushes, and what a relay asks of it.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::relay(bytes));
