//! Datagrams of whoever has not shown anything yet.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_rtc::fuzzing::stun(bytes));
