//! Bytes as people and protocols write them down.

/// These bytes in hexadecimal digits, in lower case.
pub fn hex<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> String {
    bytes.into_iter().flat_map(|byte| DIGITS[usize::from(*byte)]).map(char::from).collect()
}

/// The two digits of each byte.
pub(crate) const DIGITS: [[u8; 2]; 256] = {
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = [HEX[byte >> 4], HEX[byte & 0xf]];
        byte += 1;
    }
    all
};
const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        let all: Vec<u8> = (0..=255).collect();
        let text = hex(&all);
        for byte in 0..=255_u8 {
            let place = usize::from(byte) * 2;
            assert_eq!(text.get(place..place + 2), Some(format!("{byte:02x}").as_str()));
        }
        assert_eq!(hex(all.iter().take(3)), "000102");
        assert_eq!(hex([]), "");
    }
}
