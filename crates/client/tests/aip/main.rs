//! The async AIP clients against a scripted server on real sockets.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod constellation;
mod device;
mod support;
