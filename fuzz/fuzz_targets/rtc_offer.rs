//! Offers of WebRTC, as the body of a request holds them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_rtc::fuzzing::offer(bytes));
