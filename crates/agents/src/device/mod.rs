//! Agents for turns that are about a device: what it is told to do are calls that it executes.
//!
//! * [`DeviceScript`] sends the commands that its request spells out; tests run on it.
//! * [`WithDevice`] offers the tools of the device to any other agent.

mod context;
mod listing;
mod outcome;
mod script;
mod tools;

pub use context::CommandContext;
pub use script::DeviceScript;
pub use tools::{DeviceTools, WithDevice};
