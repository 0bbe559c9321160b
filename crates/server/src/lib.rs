//! The Switchboard server: driver, session actors, auth, limits, configuration, telemetry.
