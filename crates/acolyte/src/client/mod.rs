//! The client half, sans-IO.
