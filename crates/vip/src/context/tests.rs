use serde_json::{Map, Value, json};

use super::*;

fn minimal() -> Value {
    json!({
        "mode": "full", "context_version": 3, "route": {"id": "home"}, "narration": "Home.",
        "actions": {
            "go": {"type": "navigation", "description": "Go"},
            "press": {"type": "button", "description": "Press", "element_id": "b"},
        },
        "visibility": ["press"],
    })
}

fn with(path: &[&str], value: Value) -> Value {
    let mut update = minimal();
    let (last, parents) = path.split_last().unwrap();
    let mut place = &mut update;
    for key in parents {
        place = &mut place[*key];
    }
    place[*last] = value;
    update
}

fn without(key: &str) -> Value {
    let mut update = minimal();
    update.as_object_mut().unwrap().remove(key);
    update
}

fn base() -> Context {
    Context::apply(None, &minimal()).unwrap().context
}

fn delta(members: Value) -> Value {
    let mut update = json!({"mode": "delta", "base_version": 3, "context_version": 4});
    update.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    update
}

fn refused(current: Option<&Context>, update: &Value) -> (Code, String) {
    let fault = Context::apply(current, update).expect_err(&update.to_string());
    assert!(!fault.message.is_empty());
    (fault.code, fault.path)
}

fn invalid_at(update: &Value) -> String {
    let (code, path) = refused(None, update);
    assert_eq!(code, Code::CtxInvalid, "{path}");
    path
}

fn button(extra: Value) -> Value {
    let mut action = json!({"type": "button", "description": "d", "element_id": "e"});
    action.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    action
}

#[test]
fn a_whole_context_has_its_defaults() {
    let context = base();
    let press = &context.actions["press"];
    assert_eq!(press.parameters, json!({"type": "object"}));
    assert_eq!((press.timeout_ms, press.executor), (10_000, Executor::Client));
    assert!(!press.sensitive && !press.global && press.idempotent && press.enabled && !press.parallel);
    assert_eq!((context.routes.len(), context.tree.is_none()), (0, true));
    let stored = serde_json::to_string(&context).unwrap();
    assert!(serde_json::from_str::<Context>(&stored).unwrap() == context);
}

#[test]
fn what_is_missing_or_wrong_is_pointed_at() {
    for member in ["mode", "context_version", "route", "narration", "actions", "visibility"] {
        assert_eq!(invalid_at(&without(member)), format!("/{member}"));
    }
    for (path, value, place) in [
        (vec!["mode"], json!("half"), "/mode"),
        (vec!["context_version"], json!(0), "/context_version"),
        (vec!["context_version"], json!(1.5), "/context_version"),
        (vec!["route"], json!("home"), "/route"),
        (vec!["route", "id"], json!("x".repeat(129)), "/route/id"),
        (vec!["routes"], json!([{"target": "a"}, {"title": "b"}]), "/routes/1/target"),
        (vec!["narration"], json!(""), "/narration"),
        (vec!["actions", "1st"], button(json!({})), "/actions/1st"),
        (vec!["actions", "a/b"], button(json!({})), "/actions/a~1b"),
        (vec!["actions", "get_system_states"], button(json!({})), "/actions/get_system_states"),
        (vec!["actions", "system.confirm"], button(json!({})), "/actions/system.confirm"),
        (vec!["actions", "a"], json!({"description": "d"}), "/actions/a/type"),
        (vec!["actions", "a"], json!({"type": "Button", "description": "d"}), "/actions/a/type"),
        (vec!["actions", "a"], json!({"type": "navigation", "description": ""}), "/actions/a/description"),
        (vec!["actions", "a"], json!({"type": "button", "description": "d"}), "/actions/a/element_id"),
        (
            vec!["actions", "a"],
            json!({"type": "input", "description": "d", "element_id": "e"}),
            "/actions/a/input_type",
        ),
        (vec!["actions", "a"], button(json!({"input_type": "date"})), "/actions/a/input_type"),
        (vec!["actions", "a"], button(json!({"input_type": "radiobutton"})), "/actions/a/options"),
        (vec!["actions", "a"], button(json!({"options": []})), "/actions/a/options"),
        (vec!["actions", "a"], button(json!({"parameters": {"type": "array"}})), "/actions/a/parameters"),
        (
            vec!["actions", "a"],
            button(json!({"parameters": {"type": "object", "$ref": "http://x.example"}})),
            "/actions/a/parameters",
        ),
        (vec!["actions", "a"], button(json!({"sensitive": true, "parallel": true})), "/actions/a/parallel"),
        (vec!["actions", "a"], button(json!({"confirmation": {}})), "/actions/a/confirmation"),
        (
            vec!["actions", "a"],
            button(json!({"sensitive": true, "confirmation": {"channels": []}})),
            "/actions/a/confirmation/channels",
        ),
        (
            vec!["actions", "a"],
            button(json!({"sensitive": true, "confirmation": {"ttl_ms": 999}})),
            "/actions/a/confirmation/ttl_ms",
        ),
        (vec!["actions", "a"], button(json!({"timeout_ms": 99})), "/actions/a/timeout_ms"),
        (vec!["actions", "a"], button(json!({"executor": "nobody"})), "/actions/a/executor"),
        (vec!["actions", "a"], button(json!({"enabled": "yes"})), "/actions/a/enabled"),
        (vec!["visibility"], json!(["press", "press"]), "/visibility/1"),
        (vec!["visibility"], json!(["p ress"]), "/visibility/0"),
        (vec!["tree"], json!({}), "/tree"),
        (vec!["tree"], json!([{"id": "a", "kind": "text"}, {"id": "b", "kind": "window"}]), "/tree/1/kind"),
        (
            vec!["tree"],
            json!([{"id": "a", "kind": "list", "children": [{"kind": "item"}]}]),
            "/tree/0/children/0/id",
        ),
    ] {
        assert_eq!(invalid_at(&with(&path, value)), place);
    }
}

#[test]
fn vip_044_only_actions_can_be_visible() {
    assert_eq!(invalid_at(&with(&["visibility"], json!(["gone"]))), "/visibility");
    let path = refused(Some(&base()), &delta(json!({"visibility_add": ["gone"]})));
    assert_eq!(path, (Code::CtxInvalid, "/visibility".to_owned()));
    let removed = delta(json!({"actions_remove": ["press"], "visibility": ["press"]}));
    assert_eq!(refused(Some(&base()), &removed).0, Code::CtxInvalid);
}

#[test]
fn there_is_an_end_to_how_much_there_can_be() {
    let many = |count: usize| -> Value {
        let actions: Map<String, Value> =
            (0..count).map(|number| (format!("a{number}"), button(json!({})))).collect();
        with(&["actions"], Value::Object(actions))
    };
    let mut full = many(128);
    full["visibility"] = json!([]);
    let full = Context::apply(None, &full).unwrap().context;
    assert_eq!(full.actions.len(), 128);
    assert_eq!(refused(None, &many(129)), (Code::CtxTooLarge, "/actions".to_owned()));
    let one_more = delta(json!({"actions_upsert": {"more": button(json!({}))}}));
    assert_eq!(refused(Some(&full), &one_more), (Code::CtxTooLarge, "/actions".to_owned()));
    let routes = with(&["routes"], json!(vec![json!({"target": "t"}); 257]));
    assert_eq!(refused(None, &routes), (Code::CtxTooLarge, "/routes".to_owned()));
    let narration = with(&["narration"], json!("x".repeat(8193)));
    assert_eq!(refused(None, &narration), (Code::CtxTooLarge, "/narration".to_owned()));

    let large = |code_path: (Code, String)| assert_eq!(code_path.0, Code::CtxTooLarge, "{}", code_path.1);
    large(refused(None, &with(&["data"], json!("x".repeat(16 << 10)))));
    large(refused(None, &with(&["unknown"], json!("x".repeat(256 << 10)))));
    large(refused(Some(&base()), &delta(json!({"unknown": "x".repeat(64 << 10)}))));

    // Many small changes do not lead to more than one large one may.
    let description = json!({"type": "object", "description": "x".repeat(8_000)});
    let mut grown = base();
    let refusal = (0..10u64).find_map(|step| {
        let more: Map<String, Value> = (0..7)
            .map(|number| (format!("a{step}.{number}"), button(json!({"parameters": description}))))
            .collect();
        let change = json!({"mode": "delta", "base_version": 3 + step, "context_version": 4 + step,
            "actions_upsert": more});
        match Context::apply(Some(&grown), &change) {
            Ok(applied) => {
                grown = applied.context;
                None
            }
            Err(fault) => Some((step, fault.code)),
        }
    });
    assert_eq!(refusal, Some((4, Code::CtxTooLarge)));

    let node = |children: Value| json!({"id": "n", "kind": "list", "children": children});
    let deep = |depth: usize| (0..depth).fold(json!([]), |inner, _| json!([node(inner)]));
    assert!(Context::apply(None, &with(&["tree"], deep(12))).is_ok());
    large(refused(None, &with(&["tree"], deep(13))));
    large(refused(None, &with(&["tree"], deep(50))));
    let wide = |count: usize| json!([node(json!(vec![json!({"id": "n", "kind": "item"}); count]))]);
    assert!(Context::apply(None, &with(&["tree"], wide(999))).is_ok());
    large(refused(None, &with(&["tree"], wide(1000))));
    large(refused(None, &with(&["tree"], wide(4000))));
}

#[test]
fn vip_042_an_update_builds_on_the_version_that_is_known() {
    let current = base();
    let conflict = |update: &Value| refused(Some(&current), update).0 == Code::CtxVersionConflict;
    assert!(conflict(&minimal()));
    assert!(conflict(&with(&["context_version"], json!(2))));
    assert!(Context::apply(Some(&current), &with(&["context_version"], json!(9))).is_ok());
    let mut update = delta(json!({}));
    assert_eq!(Context::apply(Some(&current), &update).unwrap().context.version, 4);
    assert_eq!(refused(None, &update).0, Code::CtxVersionConflict);
    update["base_version"] = json!(2);
    assert!(conflict(&update));
    update["base_version"] = json!(3);
    update["context_version"] = json!(3);
    assert_eq!(refused(Some(&current), &update), (Code::CtxInvalid, "/context_version".to_owned()));
}

#[test]
fn vip_045_unknown_types_are_ignored_and_listed() {
    let mut update = with(&["actions", "v"], json!({"type": "x-acme-slider", "range": [1, 2]}));
    update["visibility"] = json!(["press", "v"]);
    let applied = Context::apply(None, &update).unwrap();
    assert_eq!((applied.ignored, applied.warnings.len()), (vec!["v".to_owned()], 0));
    assert!(!applied.context.actions.contains_key("v") && !applied.context.visibility.contains("v"));

    // The application may go on to name it.
    let shown = delta(json!({"visibility": ["v"]}));
    let shown = Context::apply(Some(&applied.context), &shown).unwrap().context;
    assert!(shown.visibility.is_empty());
    let replaced = delta(json!({"actions_upsert": {"v": button(json!({}))}, "visibility": ["v"]}));
    let replaced = Context::apply(Some(&applied.context), &replaced).unwrap().context;
    assert!(replaced.visibility.contains("v") && replaced.ignored.is_empty());

    // Whoever knows the type can use it.
    update["actions"]["v"]["description"] = json!("Slide");
    let known = Context::apply_knowing(None, &update, &["x-acme-slider".to_owned()]).unwrap();
    assert!(known.ignored.is_empty() && known.context.visibility.contains("v"));
}

#[test]
fn vip_046_unknown_types_without_the_prefix_are_warned_about() {
    let update = with(&["actions", "v"], json!({"type": "slider", "description": "Slide"}));
    let applied = Context::apply(None, &update).unwrap();
    assert_eq!(applied.ignored, ["v"]);
    let warning = &applied.warnings[0];
    assert_eq!((warning.code.as_str(), warning.path.as_str()), ("PREFIX_MISSING", "/actions/v/type"));
}

#[test]
fn vip_043_an_update_takes_effect_wholly_or_not_at_all() {
    let current = base();
    let before = current.clone();
    for update in [
        delta(json!({"narration": "New.", "visibility": ["gone"]})),
        delta(json!({"route": {"id": "other"}})),
        delta(json!({"actions_remove": ["press"], "actions_upsert": {"press": {"type": "button"}}})),
        delta(json!({"narration": ""})),
    ] {
        assert_eq!(refused(Some(&current), &update).0, Code::CtxInvalid);
        assert!(current == before);
    }
}

#[test]
fn a_delta_replaces_adds_and_removes() {
    let current = base();
    let next = |members: Value| Context::apply(Some(&current), &delta(members)).unwrap().context;
    assert_eq!(next(json!({"route": {"id": "other"}, "narration": "Other."})).route.id, "other");
    assert_eq!(next(json!({"routes": [{"target": "a"}, {"target": "a"}]})).routes.len(), 1);
    assert!(next(json!({"actions_remove": ["press"]})).visibility.is_empty());
    assert!(next(json!({"visibility_remove": ["press"]})).visibility.is_empty());
    assert_eq!(next(json!({"visibility_add": ["go"]})).visibility.len(), 2);
    let replaced = next(json!({"actions_upsert": {"press": button(json!({"label": "New"}))}}));
    assert_eq!(replaced.actions["press"].label.as_deref(), Some("New"));
    assert!(replaced.visibility.contains("press"));
    assert_eq!(next(json!({"data": {"a": 1}})).data, Some(json!({"a": 1})));
    assert_eq!(next(json!({"tree": []})).tree, Some(json!([])));
}

#[test]
fn the_fault_names_the_place_and_the_code() {
    let fault: Fault = Context::apply(None, &without("route")).unwrap_err().into();
    assert_eq!(fault.code, Code::CtxInvalid);
    assert_eq!(fault.details.as_deref(), Some(&json!({"path": "/route"})));
    assert!(fault.message.contains("/route") && !fault.fatal);
}
