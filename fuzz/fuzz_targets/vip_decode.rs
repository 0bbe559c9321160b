//! Text and audio frames of VIP, and back.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::vip_decode(bytes));
