//! The system prompt, with what is known about the turn filled in.

use serde_json::Value;
use switchboard_core::Timestamp;

use crate::turn::Brief;

/// Fills in `{{name}}` wherever the name is known. What is filled in is not looked at again, so that
/// nobody can write a name into a value and have it filled in, too.
pub(super) fn fill(template: &str, brief: &Brief, now: Timestamp) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find(OPEN) {
        let (before, from) = rest.split_at(open);
        filled.push_str(before);
        let named = from[OPEN.len()..].split_once(CLOSE);
        if let Some((known, after)) =
            named.and_then(|(name, after)| Some((value(name.trim(), brief, now)?, after)))
        {
            filled.push_str(&known);
            rest = after;
        } else {
            // One brace at a time: the next two may be the ones that count.
            filled.push('{');
            rest = &from[1..];
        }
    }
    filled.push_str(rest);
    filled
}

/// What a name stands for; none if it stands for nothing.
fn value(name: &str, brief: &Brief, now: Timestamp) -> Option<String> {
    let value = match name {
        "session" => brief.session.to_string(),
        "agent" => brief.agent.to_string(),
        "principal" => brief.origin.principal.to_string(),
        "protocol" => brief.origin.protocol.clone(),
        "device" => brief.device.as_ref().map(ToString::to_string).unwrap_or_default(),
        "workspace" => brief.workspace.as_deref().unwrap_or_default().to_owned(),
        "date" => {
            let day = now.calendar();
            format!("{:04}-{:02}-{:02}", day.year, day.month, day.day)
        }
        _ => match brief.meta.get(name.strip_prefix("meta.")?) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
                other.to_string()
            }
        },
    };
    Some(value.chars().take(MAX_VALUE_CHARS).collect())
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// Letters of one value; some are chosen by clients.
const MAX_VALUE_CHARS: usize = 4096;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use switchboard_core::model::{Origin, TurnRequest};
    use switchboard_core::{AgentId, Callsign, PrincipalId, SessionId, TurnId};

    use super::*;

    fn brief() -> Brief {
        Brief {
            session: SessionId::from("ses_1"),
            turn: TurnId::from("inv_1"),
            agent: AgentId::from("helper"),
            origin: Origin {
                principal: PrincipalId::from("ann"),
                protocol: "asp".into(),
                attachment: None,
                handle: None,
                bound: false,
                options: Value::Null,
            },
            request: TurnRequest::Chat { parts: Vec::new() },
            device: None,
            workspace: Some("/srv/app".into()),
            recall: None,
            remembered: Vec::new(),
            setting: None,
            meta: json!({
                "city": "Bern", "n": 7, "list": [1, true], "none": null,
                "sly": "{{principal}} }}{{", "half": "{{prin", "long": "é".repeat(10_000),
            }),
            deadline: Timestamp::from_secs(2),
            fence: 1,
        }
    }

    fn filled(template: &str) -> String {
        fill(template, &brief(), Timestamp::from_secs(1_709_210_096))
    }

    #[test]
    fn what_is_known_is_filled_in() {
        assert_eq!(
            filled("{{agent}}/{{ session }} for {{principal}} over {{protocol}}"),
            "helper/ses_1 for ann over asp"
        );
        assert_eq!(filled("{{date}} {{workspace}}"), "2024-02-29 /srv/app");
        assert_eq!(filled("{{meta.city}} {{meta.n}} {{meta.list}}"), "Bern 7 [1,true]");
        assert_eq!(filled("[{{device}}{{meta.none}}{{meta.nothing}}]"), "[]");
        let brief = Brief { device: Some(Callsign::from("dev-7")), meta: Value::Null, ..brief() };
        assert_eq!(fill("{{device}}{{meta.city}}", &brief, Timestamp::default()), "dev-7");
        assert_eq!(filled("{{meta.long}}").chars().count(), MAX_VALUE_CHARS);
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in [
            "",
            "{",
            "{{",
            "}}",
            "{{}}",
            "{session}",
            "{{Session}}",
            "{{meta}}",
            "{{other}} {{",
            "{\"a\":{\"b\":{}}}",
        ] {
            assert_eq!(filled(text), text);
        }
        assert_eq!(filled("{{{agent}}} {{x {{agent}}"), "{helper} {{x helper");
    }

    #[test]
    fn values_cannot_bring_names_along() {
        assert_eq!(filled("{{meta.sly}}"), "{{principal}} }}{{");
        assert_eq!(filled("{{meta.half}}cipal}}"), "{{principal}}");
    }
}
