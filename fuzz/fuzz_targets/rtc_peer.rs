//! A peer of WebRTC on a network that does harm.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_rtc::fuzzing::peer(bytes));
