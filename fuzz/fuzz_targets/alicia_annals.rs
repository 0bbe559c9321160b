//! What an agent says, cut into the sentences of Alicia.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switchboard_testkit::fuzzing::alicia_annals(bytes));
