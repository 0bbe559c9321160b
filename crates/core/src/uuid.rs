//! Names of the form that many protocols expect.

use crate::hex::DIGITS;

/// A UUID (version 4) of the first 16 of these random bytes; six of their bits say that it is one.
pub fn uuid(random: &[u8]) -> String {
    let mut first = [0; 16];
    for (byte, given) in first.iter_mut().zip(random) {
        *byte = *given;
    }
    let bits = u128::from_be_bytes(first) & !MARKED | MARKS;
    let mut text = [b'-'; LENGTH];
    for (place, byte) in PLACES.into_iter().zip(bits.to_be_bytes()) {
        if let Some(digits) = text.get_mut(place..place + 2) {
            digits.copy_from_slice(&DIGITS[usize::from(byte)]);
        }
    }
    // Digits and dashes are always text.
    String::from_utf8(text.to_vec()).unwrap_or_default()
}

const MARKED: u128 = 0xf000_c000_0000_0000_0000;
/// The version in the thirteenth digit, the variant in the seventeenth.
const MARKS: u128 = 0x4000_8000_0000_0000_0000;
const LENGTH: usize = 36;

/// Where the digits of each byte begin.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_that_it_is_one() {
        assert_eq!(uuid(&[0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(&[0xff; 32]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let twice = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        assert_eq!(uuid(&[twice, twice].concat()), "01234567-89ab-4def-8123-456789abcdef");
    }
}
