//! Devices: where they keep their profile, and what their loss leads to.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::id::{Callsign, PrincipalId, TurnId};
use crate::model::{Actor, Device, DeviceLoss, Event, Executor, FailureKind, TurnEnd};
use crate::principal::Role;
use crate::reject::Reject;
use crate::session::{Decision, Session, TurnStatus};
use crate::time::Timestamp;

impl Session {
    /// A device keeps its profile with its owner; nobody can speak for a device but its connection.
    pub(super) fn decide_join(&self, actor: &Actor, role: Role, device: &Device) -> Result<Decision, Reject> {
        if role != Role::Owner || actor.callsign.as_ref() != Some(&device.callsign) {
            return Err(Reject::Forbidden);
        }
        let event =
            Event::DeviceJoined { principal: actor.principal.clone(), device: Box::new(device.clone()) };
        Ok(self.decision(vec![event]))
    }

    /// Whether this is the session in which devices keep their profiles, and so none for turns, whatever protocol
    /// asks.
    pub(super) fn keeps_profiles(&self) -> bool {
        !self.devices.is_empty()
    }

    pub(super) fn decide_report(&self, actor: &Actor, facts: &Value) -> Result<Decision, Reject> {
        let device = actor.callsign.as_ref().and_then(|callsign| self.devices.get(callsign));
        let Some(state) = device.filter(|state| state.left_at.is_none()) else {
            return Err(Reject::Forbidden);
        };
        if state.device.facts == *facts {
            return Ok(self.decision(Vec::new()));
        }
        let device = state.device.callsign.clone();
        Ok(self.decision(vec![Event::DeviceReported { device, facts: Box::new(facts.clone()) }]))
    }

    /// The turns that a lost device was to work for fail, and so do calls that other turns made to
    /// it: a command is never repeated, since nobody knows how far it got.
    pub(super) fn decide_lose_device(
        &self,
        device: &Callsign,
        why: DeviceLoss,
        now: Timestamp,
    ) -> Vec<Event> {
        let (mut events, mut gone): (Vec<Event>, Vec<TurnId>) = (Vec::new(), Vec::new());
        for turn in self.turns.values() {
            if turn.device.as_ref() == Some(device) && turn.status() != TurnStatus::Stopping {
                let end = TurnEnd::failed(FailureKind::Unreachable, why.words());
                Self::end_turn(turn, end, now, &mut events);
                gone.push(turn.turn.clone());
            }
        }
        self.fail_calls_to(&Executor::Device(device.clone()), &mut events);
        self.withdraw_tools(&Executor::Device(device.clone()), &mut events);
        if self.devices.get(device).is_some_and(|state| state.left_at.is_none()) {
            events.push(Event::DeviceLeft { device: device.clone() });
        }
        self.requeue(&gone, &mut events);
        events
    }

    /// The name of a device is free for others from now on, if it is not already.
    pub(super) fn decide_release(&self, device: &Callsign, by: &PrincipalId) -> Vec<Event> {
        match self.devices.get(device) {
            Some(state) if state.released_at.is_none() => {
                vec![Event::DeviceReleased { device: device.clone(), by: by.clone() }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// The devices of which something is asked, or that offer a tool.
    pub(super) fn devices_in_use(&self) -> BTreeSet<Callsign> {
        let device = |executor: &Executor| match executor {
            Executor::Device(device) => Some(device.clone()),
            Executor::Agent | Executor::Attachment(_) | Executor::Principal(_) | Executor::Anyone => None,
        };
        let calls = self.turns.values().flat_map(|turn| turn.calls.values());
        let tools = self.tools.values().filter_map(|tool| device(&tool.executor));
        calls.filter_map(|call| device(&call.executor)).chain(tools).collect()
    }
}
