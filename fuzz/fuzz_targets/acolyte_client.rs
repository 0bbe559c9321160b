//! An Acolyte client whose server says anything.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::acolyte_client(bytes));
