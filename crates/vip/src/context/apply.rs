//! From an update to the context it leads to.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::action::CORE_TYPES;
use super::members::{Members, invalid, is_action_id, too_large};
use super::{Action, Applied, BUILTIN, Context, ContextFault, Route, Target, tree};
use crate::error::Code;
use crate::message::Warning;
use crate::size::json_bytes;

const MAX_FULL: usize = 256 << 10;
const MAX_DELTA: usize = 64 << 10;
const MAX_DATA: usize = 16 << 10;
const MAX_ACTIONS: usize = 128;
const MAX_ROUTES: usize = 256;
const MAX_NARRATION: usize = 8192;

pub(super) fn apply(
    current: Option<&Context>,
    update: &Value,
    vendor_types: &[String],
) -> Result<Applied, ContextFault> {
    let members = Members::of(update, "")?;
    match members.required("mode")?.as_str() {
        Some("full") => full(current, update, &members, vendor_types),
        Some("delta") => delta(current, update, &members, vendor_types),
        _ => Err(members.invalid("mode", "must be full or delta")),
    }
}

fn full(
    current: Option<&Context>,
    update: &Value,
    members: &Members<'_>,
    vendor_types: &[String],
) -> Result<Applied, ContextFault> {
    if json_bytes(update) > MAX_FULL {
        return Err(too_large("", "a full context may have at most 256 KiB"));
    }
    let version = version(members, 1)?;
    if let Some(current) = current
        && version <= current.version
    {
        return Err(conflict("/context_version", current.version));
    }
    let Some(definitions) = members.objects("actions")? else {
        return Err(members.invalid("actions", "is missing"));
    };
    let registry = Registry::read(definitions, "/actions", vendor_types)?;
    let Some(visibility) = members.ids("visibility")? else {
        return Err(members.invalid("visibility", "is missing"));
    };
    let context = Context {
        version,
        route: route(members.required("route")?)?,
        routes: routes(members)?.unwrap_or_default(),
        narration: narration(members)?.ok_or_else(|| members.invalid("narration", "is missing"))?,
        actions: registry.actions,
        visibility: visibility.into_iter().collect(),
        ignored: registry.ignored.iter().cloned().collect(),
        tree: checked_tree(members)?,
        data: checked_data(members)?,
    };
    finish(context, registry.ignored, registry.warnings)
}

fn delta(
    current: Option<&Context>,
    update: &Value,
    members: &Members<'_>,
    vendor_types: &[String],
) -> Result<Applied, ContextFault> {
    if json_bytes(update) > MAX_DELTA {
        return Err(too_large("", "a change of the context may have at most 64 KiB"));
    }
    let Some(base) = members.number("base_version", 1..=u64::MAX)? else {
        return Err(members.invalid("base_version", "is missing"));
    };
    let version = version(members, 2)?;
    let Some(current) = current.filter(|current| current.version == base) else {
        return Err(conflict("/base_version", current.map_or(0, |current| current.version)));
    };
    if version <= base {
        return Err(members.invalid("context_version", "must be greater than base_version"));
    }
    if members.has("route") && !members.has("narration") {
        return Err(members.invalid("narration", "is missing although the route changes"));
    }

    let mut context = Context { version, ..current.clone() };
    if let Some(value) = members.get("route") {
        context.route = route(value)?;
    }
    if let Some(routes) = routes(members)? {
        context.routes = routes;
    }
    if let Some(narration) = narration(members)? {
        context.narration = narration;
    }
    if members.has("tree") {
        context.tree = checked_tree(members)?;
    }
    if members.has("data") {
        context.data = checked_data(members)?;
    }
    for id in members.ids("actions_remove")?.unwrap_or_default() {
        context.actions.remove(&id);
        context.ignored.remove(&id);
        context.visibility.remove(&id);
    }
    let mut registry = Registry::default();
    if let Some(definitions) = members.objects("actions_upsert")? {
        registry = Registry::read(definitions, "/actions_upsert", vendor_types)?;
        for id in definitions.keys() {
            context.actions.remove(id);
            context.ignored.remove(id);
        }
        context.actions.extend(std::mem::take(&mut registry.actions));
        context.ignored.extend(registry.ignored.iter().cloned());
    }
    if let Some(visibility) = members.ids("visibility")? {
        context.visibility = visibility.into_iter().collect();
    }
    context.visibility.extend(members.ids("visibility_add")?.unwrap_or_default());
    for id in members.ids("visibility_remove")?.unwrap_or_default() {
        context.visibility.remove(&id);
    }
    if json_bytes(&context) > MAX_FULL {
        return Err(too_large("", "the context would have more than 256 KiB"));
    }
    finish(context, registry.ignored, registry.warnings)
}

/// What holds between the members.
fn finish(
    mut context: Context,
    ignored: Vec<String>,
    warnings: Vec<Warning>,
) -> Result<Applied, ContextFault> {
    let actions = context.actions.len() + context.ignored.len();
    if actions > MAX_ACTIONS {
        return Err(too_large("/actions", "there may be at most 128 actions"));
    }
    if context.narration.is_empty() && actions > 0 {
        return Err(invalid("/narration", "must not be empty while there are actions"));
    }
    let known = |id: &String| context.actions.contains_key(id) || context.ignored.contains(id);
    if !context.visibility.iter().all(known) {
        return Err(invalid("/visibility", "names an action that is not there"));
    }
    // What is ignored cannot be seen, and appears again when the application defines it anew.
    let actions = &context.actions;
    context.visibility.retain(|id| actions.contains_key(id));
    Ok(Applied { context, ignored, warnings })
}

/// The actions of an update.
#[derive(Default)]
struct Registry {
    actions: BTreeMap<String, Action>,
    ignored: Vec<String>,
    warnings: Vec<Warning>,
}

impl Registry {
    fn read(
        definitions: &Map<String, Value>,
        place: &str,
        vendor_types: &[String],
    ) -> Result<Self, ContextFault> {
        if definitions.len() > MAX_ACTIONS {
            return Err(too_large(place, "there may be at most 128 actions"));
        }
        let mut registry = Self::default();
        for (id, definition) in definitions {
            let path = format!("{place}/{}", id.replace('~', "~0").replace('/', "~1"));
            if !is_action_id(id) {
                return Err(invalid(path, "is no id of an action"));
            }
            if BUILTIN.contains(&id.as_str()) || id.starts_with("system.") {
                return Err(invalid(path, "is a reserved id"));
            }
            let members = Members::of(definition, path)?;
            let kind = members.required_text("type", 64)?;
            if !is_type(&kind) {
                return Err(members.invalid("type", "is no name of a type"));
            }
            if CORE_TYPES.contains(&kind.as_str()) || vendor_types.contains(&kind) {
                registry.actions.insert(id.clone(), Action::read(kind, &members)?);
                continue;
            }
            if !kind.starts_with("x-") {
                registry.warnings.push(Warning {
                    code: "PREFIX_MISSING".into(),
                    path: members.path("type"),
                    message: "Types of your own begin with x-; the action is ignored.".into(),
                });
            }
            registry.ignored.push(id.clone());
        }
        Ok(registry)
    }
}

fn is_type(kind: &str) -> bool {
    kind.starts_with(|first: char| first.is_ascii_lowercase())
        && kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn version(members: &Members<'_>, least: u64) -> Result<u64, ContextFault> {
    match members.number("context_version", least..=u64::MAX)? {
        Some(version) => Ok(version),
        None => Err(members.invalid("context_version", "is missing")),
    }
}

fn conflict(path: &str, have: u64) -> ContextFault {
    ContextFault {
        code: Code::CtxVersionConflict,
        path: path.into(),
        message: format!("does not build on the version that is known, {have}"),
    }
}

fn route(value: &Value) -> Result<Route, ContextFault> {
    let members = Members::of(value, "/route")?;
    Ok(Route {
        id: members.required_text("id", 128)?,
        path: members.text("path", 512)?,
        title: members.text("title", 256)?,
    })
}

/// The screen in words: one that is too long is a matter of limits, and not of its form.
fn narration(members: &Members<'_>) -> Result<Option<String>, ContextFault> {
    let text = members.text("narration", usize::MAX)?;
    match text.as_ref().map(|text| text.chars().count()) {
        Some(letters) if letters > MAX_NARRATION => {
            Err(too_large(members.path("narration"), "must have at most 8192 characters"))
        }
        _ => Ok(text),
    }
}

fn routes(members: &Members<'_>) -> Result<Option<Vec<Target>>, ContextFault> {
    let Some(items) = members.list("routes")? else { return Ok(None) };
    if items.len() > MAX_ROUTES {
        return Err(too_large(members.path("routes"), "there may be at most 256 routes"));
    }
    let mut routes = Vec::with_capacity(items.len());
    let mut seen = BTreeSet::new();
    for (place, item) in items.iter().enumerate() {
        let members = Members::of(item, format!("/routes/{place}"))?;
        let route = Target {
            target: members.required_text("target", 256)?,
            title: members.text("title", 128)?,
            description: members.text("description", 512)?,
        };
        // Twice the same is once.
        if seen.insert(route.target.clone()) {
            routes.push(route);
        }
    }
    Ok(Some(routes))
}

fn checked_tree(members: &Members<'_>) -> Result<Option<Value>, ContextFault> {
    let Some(value) = members.get("tree") else { return Ok(None) };
    tree::check(value)?;
    Ok(Some(value.clone()))
}

fn checked_data(members: &Members<'_>) -> Result<Option<Value>, ContextFault> {
    match members.get("data") {
        None | Some(Value::Null) => Ok(None),
        Some(data) if json_bytes(data) > MAX_DATA => Err(too_large("/data", "may have at most 16 KiB")),
        Some(data) => Ok(Some(data.clone())),
    }
}
