//! Screens of VIP, and what may be done on them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::vip_context(bytes));
