//! How close something that is remembered is to what is asked.
//!
//! Either by meaning, with what an [`Embedder`] makes of both texts and their [`cosine`], or, where there is no
//! model for that, by the words that both have in common: [`overlap`].

mod config;
mod embedder;
mod shown;
mod words;

use sha2::{Digest, Sha256};
use switchboard_core::hex;

pub use config::EmbedderConfig;
pub use embedder::{Embedder, EmbedderError, MAX_BATCH};
pub(crate) use shown::shown;
pub use words::overlap;
pub(crate) use words::stem;

/// How close two embeddings are, from 0 (nothing in common, or not comparable) to 1 (the same direction).
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let similarity = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
    // Without a direction there is no angle either.
    if similarity.is_nan() { 0.0 } else { similarity.clamp(0.0, 1.0) }
}

/// Tells a text from any other, so that what was made of it can be found again without keeping it.
pub fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_angle_counts_and_not_the_length() {
        let near = |a: &[f32], b: &[f32], wanted: f64| {
            let similarity = cosine(a, b);
            assert!((similarity - wanted).abs() < 1e-9, "{a:?} {b:?}: {similarity}");
        };
        near(&[1.0, 2.0], &[2.0, 4.0], 1.0);
        near(&[1.0, 0.0], &[1.0, 1.0], 0.5_f64.sqrt());
        near(&[1.0, 0.0], &[0.0, 1.0], 0.0);
        near(&[1.0, 0.0], &[-1.0, 0.0], 0.0);
    }

    #[test]
    fn what_cannot_be_compared_has_nothing_in_common() {
        assert_eq!(cosine(&[1.0], &[1.0, 0.0]), 0.0);
        assert_eq!(cosine(&[], &[]), 0.0);
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 0.0]), 0.0);
        assert_eq!(cosine(&[f32::NAN], &[1.0]), 0.0);
        let similarity = cosine(&[f32::MAX; 4], &[f32::MAX; 4]);
        assert!((0.0..=1.0).contains(&similarity), "{similarity}");
    }

    #[test]
    fn a_digest_tells_texts_apart() {
        assert_eq!(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_ne!(digest("likes tea"), digest("likes Tea"));
    }
}
