//! What somebody says, as words.
//!
//! A [`Recogniser`] makes a file of an utterance, whatever form its audio has, and sends it to a model.

mod answer;
mod config;
mod form;
mod language;
mod recogniser;
mod recording;

pub use config::RecogniserConfig;
pub use recogniser::{Recogniser, RecogniserError};
