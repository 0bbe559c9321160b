//! The Rust SDK of Switchboard: async clients with reconnect and resume built in.
