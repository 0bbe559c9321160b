//! What the model may do on a screen, and how (§9): the space of actions is checked here, and by the app again.

use serde_json::{Map, Value, json};

mod admit;
mod canonical;
mod shown;

pub use admit::admit;
pub use canonical::digest;
pub use shown::{answer_builtin, tool_schema};

use crate::context::{Action, Context, Executor, InputType, SYSTEM_CONFIRM};
use crate::error::{Code, Fault};
use crate::schema;
use crate::size::is_within;

/// What stands in for a value that nobody may read (VIP-079).
pub const REDACTED: &str = "[REDACTED]";
/// What the protocol adds to parameters; no schema describes it.
const PROTOCOL_MEMBERS: [&str; 2] = ["element_id", "input_type"];

/// A call that may be made.
#[derive(Clone, PartialEq)]
pub struct Prepared {
    /// The parameters, complete.
    pub parameters: Value,
    /// The primitive.
    pub kind: String,
    /// How long it may take.
    pub timeout_ms: u64,
    /// Whether the user has to confirm it.
    pub sensitive: bool,
    /// Whether it can be done while the system speaks.
    pub parallel: bool,
    /// Whether it can be tried again.
    pub idempotent: bool,
    /// Who does it.
    pub executor: Executor,
}

crate::message::quiet!(Prepared);

/// What the model may do now.
pub fn invocable(context: &Context) -> impl Iterator<Item = (&str, &Action)> {
    context
        .actions
        .iter()
        .map(|(id, action)| (id.as_str(), action))
        .filter(|(id, action)| action.enabled && !action.is_confirmation() && context.is_in_reach(id, action))
}

/// Whether the model may do this, with these parameters (§9.2); what the app is to be asked then.
///
/// # Errors
/// It may not; the model is told why, and the app nothing.
pub fn check(context: &Context, action_id: &str, parameters: &Value) -> Result<Prepared, Fault> {
    let action = reachable(context, action_id)?;
    let Some(given) = parameters.as_object() else {
        return Err(Fault::new(Code::ActInvalidParameters).because("the parameters must be an object"));
    };
    let own = without_protocol_members(given);
    check_target(context, action, &own)?;
    check_schema(action, &own)?;
    check_value(action, &own)?;
    Ok(Prepared {
        parameters: complete(action, own),
        kind: action.kind.clone(),
        timeout_ms: action.timeout_ms,
        sensitive: action.sensitive,
        parallel: action.parallel,
        idempotent: action.idempotent,
        executor: action.executor,
    })
}

/// The action, if it is there, can be done, and can be seen or need not be.
fn reachable<'a>(context: &'a Context, action_id: &str) -> Result<&'a Action, Fault> {
    // Only the runtime asks the user, and never because the model wants it.
    let action = context.actions.get(action_id).filter(|action| !action.is_confirmation());
    let Some(action) = action else { return Err(Fault::new(Code::ActNotFound)) };
    if !action.enabled {
        return Err(Fault::new(Code::ActDisabled));
    }
    if !context.is_in_reach(action_id, action) {
        return Err(Fault::new(Code::ActNotVisible));
    }
    Ok(action)
}

fn without_protocol_members(parameters: &Map<String, Value>) -> Map<String, Value> {
    let mut own = parameters.clone();
    for member in PROTOCOL_MEMBERS {
        own.shift_remove(member);
    }
    own
}

/// Navigation only leads to what is offered (VIP-049).
fn check_target(context: &Context, action: &Action, parameters: &Map<String, Value>) -> Result<(), Fault> {
    if !action.is_navigation() {
        return Ok(());
    }
    match parameters.get("target").and_then(Value::as_str) {
        Some(target) if context.has_target(target) => Ok(()),
        Some(_) => Err(Fault::new(Code::ActTargetUnknown)),
        None => Err(Fault::new(Code::ActInvalidParameters).because("target is missing")),
    }
}

fn check_schema(action: &Action, parameters: &Map<String, Value>) -> Result<(), Fault> {
    match schema::mismatch(&action.parameters, &Value::Object(parameters.clone())) {
        None => Ok(()),
        Some(why) => Err(Fault::new(Code::ActInvalidParameters).because(why)),
    }
}

/// What is put in has to have the type of the input (§9.1).
fn check_value(action: &Action, parameters: &Map<String, Value>) -> Result<(), Fault> {
    let Some(input_type) = action.input_type.filter(|_| action.is_input()) else { return Ok(()) };
    let Some(value) = parameters.get("value") else {
        return Err(Fault::new(Code::ActInvalidParameters).because("value is missing"));
    };
    // Whatever else came along would be kept where the value is not.
    if parameters.len() > 1 {
        return Err(Fault::new(Code::ActInvalidParameters).because("an input takes a value and nothing else"));
    }
    let (fits, wanted) = match input_type {
        InputType::Text | InputType::Password => {
            (value.as_str().is_some_and(|text| is_within(text, 4096)), "a string of at most 4096 characters")
        }
        InputType::Number => (value.is_number(), "a number"),
        InputType::Boolean | InputType::Checkbox => (value.is_boolean(), "true or false"),
        InputType::Radiobutton => (
            value.as_str().is_some_and(|text| action.options.iter().any(|option| option == text)),
            "one of the options",
        ),
    };
    if fits {
        return Ok(());
    }
    Err(Fault::new(Code::ActTypeMismatch).because(format!("the value must be {wanted}")))
}

/// The parameters as the app gets them.
fn complete(action: &Action, own: Map<String, Value>) -> Value {
    let mut parameters = Map::new();
    if matches!(action.kind.as_str(), "button" | "input")
        && let Some(element_id) = &action.element_id
    {
        parameters.insert("element_id".into(), json!(element_id));
    }
    if let Some(input_type) = action.input_type.filter(|_| action.is_input()) {
        parameters.insert("input_type".into(), json!(input_type));
    }
    parameters.extend(own);
    Value::Object(parameters)
}

/// The action that asks the user: the one of the application if it has exactly one.
pub fn confirmation_entry(context: &Context) -> &str {
    let mut entries = context.actions.iter().filter(|(_, action)| action.is_confirmation());
    match (entries.next(), entries.next()) {
        (Some((id, _)), None) => id,
        _ => SYSTEM_CONFIRM,
    }
}

/// Parameters as they may be kept and shown: without what was put into a password field.
pub fn redact(context: &Context, action_id: &str, parameters: &Value) -> Value {
    let mut shown = parameters.clone();
    let is_secret = |id: &str| context.actions.get(id).is_some_and(Action::is_secret);
    if is_secret(action_id) {
        hide(&mut shown);
    }
    // A confirmation carries what it is about.
    let referenced = shown.get("reference_action_id").and_then(Value::as_str).is_some_and(is_secret);
    if let Some(reference) = shown.get_mut("reference_parameters").filter(|_| referenced) {
        hide(reference);
    }
    shown
}

fn hide(parameters: &mut Value) {
    if let Some(value) = parameters.get_mut("value") {
        *value = REDACTED.into();
    }
}

/// Takes a secret out of a value, wherever it stands in it.
pub fn censor(value: &mut Value, secret: &str) {
    match value {
        Value::String(text) => {
            if text.contains(secret) {
                *text = text.replace(secret, REDACTED);
            }
        }
        Value::Number(number) => {
            if number.to_string() == secret {
                *value = REDACTED.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| censor(item, secret)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| censor(member, secret));
            if members.keys().any(|name| name.contains(secret)) {
                let named = std::mem::take(members).into_iter();
                *members = named.map(|(name, member)| (name.replace(secret, REDACTED), member)).collect();
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

#[cfg(test)]
mod tests;
