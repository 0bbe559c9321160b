//! Fragments of session descriptions with candidates.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_rtc::fuzzing::fragment(bytes));
