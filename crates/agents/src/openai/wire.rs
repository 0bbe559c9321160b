//! What a chat completions endpoint sends, as far as it is read here.

use serde::Deserialize;
use serde_json::Value;
use switchboard_core::model::{Finish, Usage};

/// One piece of a streamed answer, or a whole one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(default)]
    pub(super) usage: Option<Counts>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: u64,
    #[serde(default)]
    pub(super) delta: Option<Delta>,
    /// Where the endpoint does not stream.
    #[serde(default)]
    pub(super) message: Option<Delta>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    reasoning_details: Option<Vec<ReasoningDetail>>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

/// Reasoning that is told apart by kind; some of it is not for people.
#[derive(Debug, Deserialize)]
struct ReasoningDetail {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    summary: Option<String>,
}

impl Delta {
    /// The reasoning, which some endpoints send in several fields at once.
    pub(super) fn take_reasoning(&mut self) -> String {
        let plain = [self.reasoning_content.take(), self.reasoning.take()];
        let plain = plain.into_iter().flatten().find(|text| !text.is_empty());
        let details = self.reasoning_details.take();
        plain.unwrap_or_else(|| {
            let readable = details.into_iter().flatten().filter_map(|detail| match detail.kind.as_deref() {
                Some("reasoning.text") => detail.text,
                Some("reasoning.summary") => detail.summary,
                _ => None,
            });
            readable.collect()
        })
    }
}

/// A fragment of a tool call.
#[derive(Debug, Deserialize)]
pub(super) struct CallDelta {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
pub(super) struct FunctionDelta {
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) arguments: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Counts {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<Details>,
    #[serde(default)]
    completion_tokens_details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
struct Details {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

impl Counts {
    /// Adds these counts to those of earlier rounds.
    pub(super) fn add_to(&self, usage: &mut Usage) {
        let cached = self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens);
        let counts = [
            (INPUT, self.prompt_tokens),
            (OUTPUT, self.completion_tokens),
            (CACHED, cached),
            (REASONING, reasoning),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                let total = usage.0.entry(name.to_owned()).or_default();
                *total = total.saturating_add(count);
            }
        }
    }
}

/// A tool call, as far as its fragments have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// Puts the fragments of tool calls together.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<(u64, Call)>);

impl Calls {
    /// Takes one fragment; false if there is too much of it.
    pub(super) fn take(&mut self, fragment: CallDelta) -> bool {
        let id = fragment.id.filter(|id| !id.is_empty());
        let (name, arguments) = fragment.function.map_or((None, None), |call| (call.name, call.arguments));
        let name = name.filter(|name| !name.is_empty());
        let known = match fragment.index {
            Some(index) => self.0.iter().rposition(|(other, _)| *other == index),
            None => self.0.len().checked_sub(1),
        };
        // Some endpoints do not number their calls, or give all of them the same number. Such a call
        // begins with an id of its own, and, where there are numbers, with its name.
        let another = |call: &Call| {
            !call.id.is_empty()
                && id.as_ref().is_some_and(|id| *id != call.id)
                && (fragment.index.is_none() || name.is_some())
        };
        let place = match known.filter(|place| self.0.get(*place).is_some_and(|(_, call)| !another(call))) {
            Some(place) => place,
            None => {
                let next = || self.0.iter().map(|(index, _)| index.saturating_add(1)).max();
                let index = fragment.index.or_else(next).unwrap_or_default();
                self.0.push((index, Call::default()));
                self.0.len() - 1
            }
        };
        let count = self.0.len();
        let Some((_, call)) = self.0.get_mut(place) else { return false };
        if let Some(id) = id {
            call.id = id;
        }
        // Most send the name whole and once; some repeat it with every fragment.
        if let Some(name) = name.filter(|name| *name != call.name) {
            call.name.push_str(&name);
        }
        call.arguments.push_str(arguments.as_deref().unwrap_or_default());
        count <= MAX_CALLS && call.arguments.len() + call.name.len() <= MAX_ARGUMENTS_BYTES
    }

    /// The calls in the order of their numbers, each with an id.
    pub(super) fn finish(mut self) -> Vec<Call> {
        self.0.sort_by_key(|(index, _)| *index);
        let named = |(place, (_, mut call)): (usize, (u64, Call))| {
            if call.id.is_empty() {
                call.id = format!("call_{place}");
            }
            call
        };
        self.0.into_iter().enumerate().map(named).collect()
    }
}

/// How an answer ended.
pub(super) fn finish(reason: Option<&str>) -> Finish {
    match reason {
        Some("length" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::Filtered,
        _ => Finish::Complete,
    }
}

/// Names of counts.
pub(super) const INPUT: &str = "input_tokens";
pub(super) const OUTPUT: &str = "output_tokens";
pub(super) const CACHED: &str = "cached_tokens";
const REASONING: &str = "reasoning_tokens";
pub(super) const COST: &str = "cost_micros";
/// Tool calls that one answer may ask for.
const MAX_CALLS: usize = 128;
/// Bytes that the arguments of one call may have.
const MAX_ARGUMENTS_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(json: &str) -> CallDelta {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn fragments_find_their_call_in_any_order() {
        let mut calls = Calls::default();
        for json in [
            r#"{"index":1,"id":"b","function":{"name":"two","arguments":"{\"x\""}}"#,
            r#"{"index":0,"id":"a","function":{"name":"one","arguments":""}}"#,
            r#"{"index":1,"function":{"arguments":":1}"}}"#,
            r#"{"index":0,"function":{"arguments":"{}"}}"#,
        ] {
            assert!(calls.take(fragment(json)));
        }
        let calls = calls.finish();
        let wanted = [("a", "one", "{}"), ("b", "two", "{\"x\":1}")];
        for (call, (id, name, arguments)) in calls.iter().zip(wanted) {
            assert_eq!(
                (call.id.as_str(), call.name.as_str(), call.arguments.as_str()),
                (id, name, arguments)
            );
        }
        assert_eq!(calls.len(), 2);
    }

    #[test]
    fn calls_without_numbers_are_told_apart_by_id() {
        let mut calls = Calls::default();
        for json in [
            r#"{"id":"a","function":{"name":"one","arguments":"{"}}"#,
            r#"{"function":{"arguments":"}"}}"#,
            r#"{"id":"b","function":{"name":"two","arguments":"{}"}}"#,
        ] {
            assert!(calls.take(fragment(json)));
        }
        let calls = calls.finish();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].arguments, "{}");
    }

    #[test]
    fn calls_that_share_a_number_are_told_apart_by_id() {
        let mut calls = Calls::default();
        for json in [
            r#"{"index":0,"id":"a","function":{"name":"one","arguments":"{"}}"#,
            r#"{"index":0,"id":"a","function":{"name":"one","arguments":"}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"two","arguments":"["}}"#,
            r#"{"index":0,"function":{"arguments":"]"}}"#,
        ] {
            assert!(calls.take(fragment(json)));
        }
        let told: Vec<String> =
            calls.finish().into_iter().map(|call| call.id + &call.name + &call.arguments).collect();
        assert_eq!(told, ["aone{}", "btwo[]"]);
    }

    #[test]
    fn ids_and_names_may_come_late_or_in_pieces() {
        let mut calls = Calls::default();
        for json in [
            r#"{"index":7,"function":{"arguments":"{"}}"#,
            r#"{"index":7,"id":"","function":{"name":"","arguments":"}"}}"#,
            r#"{"index":7,"function":{"name":"geo_"}}"#,
            r#"{"index":7,"id":"late","function":{"name":"weather"}}"#,
            r#"{"index":9}"#,
        ] {
            assert!(calls.take(fragment(json)));
        }
        let calls = calls.finish();
        let late = Call { id: "late".into(), name: "geo_weather".into(), arguments: "{}".into() };
        assert_eq!(calls, [late, Call { id: "call_1".into(), ..Call::default() }]);
    }

    #[test]
    fn reasoning_that_is_sent_twice_is_read_once() {
        let reasoning = |json: &str| serde_json::from_str::<Delta>(json).unwrap().take_reasoning();
        let details = r#""reasoning_details":[{"type":"reasoning.summary","summary":"b"},
            {"type":"reasoning.encrypted","data":"x","text":"no"},{"type":"reasoning.text","text":"c"}]"#;
        assert_eq!(reasoning(&format!("{{{details}}}")), "bc");
        assert_eq!(reasoning(&format!(r#"{{"reasoning":"a",{details}}}"#)), "a");
        assert_eq!(reasoning(&format!(r#"{{"reasoning_content":null,"reasoning":"",{details}}}"#)), "bc");
        assert_eq!(reasoning(r#"{"reasoning_content":"r","reasoning":"r"}"#), "r");
        assert_eq!(reasoning("{}"), "");
    }

    #[test]
    fn too_many_or_too_large_calls_are_refused() {
        let mut calls = Calls::default();
        let fits = (0..200).all(|index| calls.take(fragment(&format!(r#"{{"index":{index}}}"#))));
        assert!(!fits);
        let mut calls = Calls::default();
        let arguments = "x".repeat(MAX_ARGUMENTS_BYTES + 1);
        assert!(!calls.take(fragment(&format!(r#"{{"function":{{"arguments":"{arguments}"}}}}"#))));
    }
}
