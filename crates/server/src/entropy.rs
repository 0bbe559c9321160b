//! Where randomness enters.

/// 256 bits from the operating system. Without them nothing can be kept secret, so there is no
/// going on.
pub(crate) fn bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    #[expect(clippy::expect_used, reason = "a system without entropy cannot serve")]
    getrandom::fill(&mut bytes).expect("the operating system provides entropy");
    bytes
}
