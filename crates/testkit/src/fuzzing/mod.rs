//! What the fuzz targets under `fuzz/` do with their input. Each function takes any bytes, and
//! panics if something is broken.
//!
//! They are here so that ordinary tests run them too, on the corpus and on random input.

mod acolyte;
mod aip;
mod alicia;
mod alicia_annals;
mod clients;
mod connection;
mod decode;
mod relay;
mod session;
mod vip;
mod voice;

pub use acolyte::{acolyte_connection, acolyte_decode};
pub use aip::{aip_connection, aip_decode};
pub use alicia::{alicia_connection, alicia_decode};
pub use alicia_annals::alicia_annals;
pub use clients::{acolyte_client, aip_client, alicia_client, asp_client, vip_client};
pub use connection::connection;
pub use decode::decode;
pub use relay::relay;
pub use session::session;
pub use vip::{vip_connection, vip_context, vip_decode};

/// Reads choices from bytes; when they run out, every choice is the first one.
#[derive(Debug)]
struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((first, rest)) => {
                self.rest = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    /// A number of up to 16 bits.
    fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Up to this many bytes.
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// One of several.
    fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(usize::from(self.byte()) % choices.len().max(1)).copied()
    }
}
