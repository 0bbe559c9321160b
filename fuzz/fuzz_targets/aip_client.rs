//! Clients of AIP whose server says anything.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::aip_client(bytes));
