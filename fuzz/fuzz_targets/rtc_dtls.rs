//! Datagrams of a DTLS handshake.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_rtc::fuzzing::dtls(bytes));
