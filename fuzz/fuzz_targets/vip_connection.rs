//! Anything that can happen to a VIP connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::vip_connection(bytes));
