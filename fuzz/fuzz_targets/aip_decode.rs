//! Text to AIP messages and back.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::aip_decode(bytes));
