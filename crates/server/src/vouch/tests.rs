use switchboard_core::Timestamp;

mod claims;
mod perform;
mod privacy;
mod providers;
mod remote;
mod replay;
mod seal;
mod support;
mod vouching;

const NOW: Timestamp = Timestamp::from_secs(2_000_000_000);
