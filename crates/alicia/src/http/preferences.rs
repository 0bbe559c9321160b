//! What a person prefers, wherever they are. It is kept for the client, which reads all of it; the server acts
//! on none of it. Each preference is an entry of `alicia_meta` in the notebook of the person.

use serde_json::{Map, Value, json};
use switchboard_core::{Comparison, Condition, Lookup, Op, Order, Question, Within};

use crate::annals::{PERSONAL, tables};
use crate::deed::{CHRONICLE, Deed};
use crate::rows::{Row, moment};

use super::Problem;
use super::exchange::Exchange;
use super::request::object;

impl Exchange {
    pub(super) fn show_preferences(&mut self) {
        let is = |column, value: &str| Condition { column, is: Comparison::Equal, value: value.into() };
        let lookup = Lookup {
            table: tables::META.name,
            within: Within::Own,
            conditions: vec![is("conversation_id", self.notebook().as_str()), is("ref", PERSONAL)],
            question: Question::Rows(vec![("key", Order::Rising)]),
            limit: PREFERENCES.len(),
        };
        self.look(lookup, |exchange, rows| {
            let mut told: Map<String, Value> =
                PREFERENCES.iter().map(|(key, usual)| ((*key).to_owned(), usual.value())).collect();
            let (mut made, mut changed) = (i64::MAX, 0);
            for row in rows.iter().map(|cells| Row::new(&tables::META, cells)) {
                let (Some(key), Some(value)) = (row.text("key"), row.text("value")) else { continue };
                let Some((_, usual)) = PREFERENCES.iter().find(|(known, _)| *known == key) else { continue };
                told.insert(key.to_owned(), usual.read(value));
                made = made.min(row.integer("created_at").unwrap_or(i64::MAX));
                changed = changed.max(row.integer("updated_at").unwrap_or_default());
            }
            told.insert("user_id".to_owned(), json!(exchange.principal.id.as_str()));
            told.insert("created_at".to_owned(), json!(moment(made.min(changed))));
            told.insert("updated_at".to_owned(), json!(moment(changed)));
            exchange.answer(200, &Value::Object(told));
        });
    }

    /// Changes some; the others stay as they are.
    pub(super) fn change_preferences(&mut self, body: &[u8]) -> Result<(), Problem> {
        let mut preferences = Map::new();
        for (key, value) in object(body)? {
            let Some((_, usual)) = PREFERENCES.iter().find(|(known, _)| *known == key) else {
                return Err(Problem::malformed("there is no preference of this name: leave it out"));
            };
            let value = if value.is_null() { usual.value() } else { value };
            if !usual.takes(&value) {
                return Err(Problem::malformed(format!("{key} must be {}", usual.words())));
            }
            preferences.insert(key, value);
        }
        let mut ops = self.open_notebook();
        let record = Deed::Preferred { preferences }.to_record();
        ops.push_back(Op::Record { chronicle: CHRONICLE.into(), record });
        self.submit_all(self.notebook(), ops, Self::show_preferences);
        Ok(())
    }
}

/// What a preference is, for whoever has not changed it.
enum Usual {
    Flag(bool),
    Number(f64),
    OneOf(&'static [&'static str]),
}

impl Usual {
    fn value(&self) -> Value {
        match self {
            Self::Flag(flag) => json!(flag),
            Self::Number(number) => json!(number),
            Self::OneOf(words) => json!(words.first()),
        }
    }

    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Flag(_) => value.is_boolean(),
            Self::Number(_) => value.as_f64().is_some_and(|number| (0.0..=MOST).contains(&number)),
            Self::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Flag(_) => "true or false".to_owned(),
            Self::Number(_) => format!("a number from 0 to {MOST}"),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }

    /// As it is stored: words as they are, all else as JSON.
    fn read(&self, stored: &str) -> Value {
        let value = match self {
            Self::Flag(_) | Self::Number(_) => serde_json::from_str(stored).unwrap_or_default(),
            Self::OneOf(_) => json!(stored),
        };
        if self.takes(&value) { value } else { self.value() }
    }
}

/// The largest number.
const MOST: f64 = 1_000_000.0;

/// Every preference. Existing web clients know these.
const PREFERENCES: &[(&str, Usual)] = &[
    ("theme", Usual::OneOf(&["system", "light", "dark"])),
    ("audio_output_enabled", Usual::Flag(false)),
    ("voice_speed", Usual::Number(1.0)),
    ("memory_min_importance", Usual::Number(0.0)),
    ("memory_min_historical", Usual::Number(0.0)),
    ("memory_min_personal", Usual::Number(0.0)),
    ("memory_min_factual", Usual::Number(0.0)),
    ("memory_retrieval_count", Usual::Number(5.0)),
    ("max_tokens", Usual::Number(0.0)),
    ("max_tool_iterations", Usual::Number(0.0)),
    ("temperature", Usual::Number(0.0)),
    ("pareto_target_score", Usual::Number(0.0)),
    ("pareto_max_generations", Usual::Number(0.0)),
    ("pareto_branches_per_gen", Usual::Number(0.0)),
    ("pareto_archive_size", Usual::Number(0.0)),
    ("pareto_enable_crossover", Usual::Flag(false)),
    ("notes_similarity_threshold", Usual::Number(0.0)),
    ("notes_max_count", Usual::Number(0.0)),
    ("confirm_delete_memory", Usual::Flag(true)),
    ("show_relevance_scores", Usual::Flag(false)),
];
