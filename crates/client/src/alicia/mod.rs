//! Async client of Alicia.
pub mod half;
