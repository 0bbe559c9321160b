//! What an app checks before it does anything (§9.2).

use serde_json::Value;

use super::{PROTOCOL_MEMBERS, check_schema, check_target, check_value, without_protocol_members};
use crate::context::Context;
use crate::error::{Code, Fault};
use crate::message::ActionInvoke;

/// Checks 3 to 8 of the app, in their order. Whether it comes at the right time, for the first time and
/// with the consent of the user is not known here.
///
/// # Errors
/// Nothing is to be done; the result says why.
pub fn admit(context: &Context, invoke: &ActionInvoke) -> Result<(), Fault> {
    let Some(action) = context.actions.get(&invoke.action_id) else {
        let is_old = invoke.context_version < context.version;
        return Err(Fault::new(if is_old { Code::ActStaleContext } else { Code::ActNotFound }));
    };
    if !action.enabled {
        return Err(Fault::new(Code::ActDisabled));
    }
    if !context.is_in_reach(&invoke.action_id, action) {
        return Err(Fault::new(Code::ActNotVisible));
    }
    let wrong = |why: &'static str| Fault::new(Code::ActInvalidParameters).because(why);
    let Some(given) = invoke.parameters.as_object() else {
        return Err(wrong("the parameters must be an object"));
    };
    if invoke.kind != action.kind {
        return Err(wrong("the action is of another type"));
    }
    // The element and the type are those of the registry, or nothing is touched.
    let expected = [
        action.element_id.as_deref().filter(|_| matches!(action.kind.as_str(), "button" | "input")),
        action.input_type.filter(|_| action.is_input()).map(super::InputType::name),
    ];
    for (member, expected) in PROTOCOL_MEMBERS.into_iter().zip(expected) {
        if expected.is_some() && given.get(member).and_then(Value::as_str) != expected {
            return Err(wrong("element_id or input_type is not that of the action"));
        }
    }
    let own = without_protocol_members(given);
    check_schema(action, &own)?;
    check_value(action, &own)?;
    check_target(context, action, &own)
}
