//! A VIP client whose server says anything.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::vip_client(bytes));
