//! What a chat completions endpoint sends, as far as it is read here.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use switchboard_core::model::{Finish, Usage};

/// One piece of a streamed answer, or a whole one.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Vec<Choice>,
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
    pub(super) reasoning_content: Option<String>,
    #[serde(default)]
    pub(super) reasoning: Option<String>,
    #[serde(default)]
    pub(super) refusal: Option<String>,
    #[serde(default)]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
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
            ("input_tokens", self.prompt_tokens),
            ("output_tokens", self.completion_tokens),
            ("cached_tokens", cached),
            ("reasoning_tokens", reasoning),
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
pub(super) struct Calls(BTreeMap<u64, Call>);

impl Calls {
    /// Takes one fragment; false if there is too much of it.
    pub(super) fn take(&mut self, fragment: CallDelta) -> bool {
        let last = self.0.last_key_value().map(|(index, call)| (*index, call.id.clone()));
        let index = match (fragment.index, &fragment.id, last) {
            (Some(index), _, _) => index,
            // Endpoints that do not number their calls begin each with its id.
            (None, Some(id), Some((last, known))) if !id.is_empty() && *id != known => last.saturating_add(1),
            (None, _, Some((last, _))) => last,
            (None, _, None) => 0,
        };
        let call = self.0.entry(index).or_default();
        if let Some(id) = fragment.id.filter(|id| !id.is_empty()) {
            call.id = id;
        }
        if let Some(function) = fragment.function {
            // Most send the name whole and once; some repeat it with every fragment.
            if let Some(name) = function.name.filter(|name| !name.is_empty() && *name != call.name) {
                call.name.push_str(&name);
            }
            call.arguments.push_str(function.arguments.as_deref().unwrap_or_default());
        }
        self.0.len() <= MAX_CALLS && call_size(&self.0, index) <= MAX_ARGUMENTS_BYTES
    }

    /// The calls in the order of their numbers, each with an id.
    pub(super) fn finish(self) -> Vec<Call> {
        let named = |(index, mut call): (u64, Call)| {
            if call.id.is_empty() {
                call.id = format!("call_{index}");
            }
            call
        };
        self.0.into_iter().map(named).collect()
    }
}

fn call_size(calls: &BTreeMap<u64, Call>, index: u64) -> usize {
    calls.get(&index).map_or(0, |call| call.arguments.len() + call.name.len())
}

/// How an answer ended.
pub(super) fn finish(reason: Option<&str>) -> Finish {
    match reason {
        Some("length" | "max_tokens") => Finish::Length,
        Some("content_filter") => Finish::Filtered,
        _ => Finish::Complete,
    }
}

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
    fn too_many_or_too_large_calls_are_refused() {
        let mut calls = Calls::default();
        let fits = (0..200).all(|index| calls.take(fragment(&format!(r#"{{"index":{index}}}"#))));
        assert!(!fits);
        let mut calls = Calls::default();
        let arguments = "x".repeat(MAX_ARGUMENTS_BYTES + 1);
        assert!(!calls.take(fragment(&format!(r#"{{"function":{{"arguments":"{arguments}"}}}}"#))));
    }
}
