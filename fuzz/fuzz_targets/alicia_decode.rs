//! Bytes to Alicia envelopes and back.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::alicia_decode(bytes));
