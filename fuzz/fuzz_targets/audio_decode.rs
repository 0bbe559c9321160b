//! Packets of audio.

#![no_main]

mod audio;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    audio::decode(bytes);
});
