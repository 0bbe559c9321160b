//! Reading the configuration: defaults, then the file, then the environment, then flags.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use toml::{Table, Value};

use super::describe::{ENVIRONMENT_PREFIX, Key, Kind};
use super::secrets::Secrets;
use super::sections::Config;

impl Config {
    /// Reads the configuration and checks it.
    ///
    /// Each source overrides the ones before it: defaults, the TOML `file`, variables
    /// `SWITCHBOARD_…` of the `environment` with `__` between the parts of a key, and `overrides`
    /// of the form `key=value`.
    ///
    /// # Errors
    /// Everything that is wrong, each with its source, its key and what is expected there.
    pub fn load<O: AsRef<str>>(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        overrides: impl IntoIterator<Item = O>,
    ) -> Result<Self, ConfigError> {
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let mut layers = Layers::new()?;

        if let Some(path) = file {
            layers.add_file(path)?;
        }

        let mut stray = Vec::new();
        let mut settings = Vec::new();
        for (variable, text) in &environment {
            let Some(rest) = variable.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
            if FOREIGN_VARIABLES.contains(&variable.as_str()) {
                continue;
            }
            let name = rest.replace("__", ".").to_ascii_lowercase();
            if layers.knows(&name) {
                settings.push((Source::Environment(variable.clone()), name, text.clone()));
            } else {
                stray.push((variable, name));
            }
        }
        layers.set_all(settings)?;

        let mut settings = Vec::new();
        for pair in overrides {
            let pair = pair.as_ref();
            let Some((name, text)) = pair.split_once('=') else {
                return Err(ConfigError::one(Source::Flag, pair, "expected key=value"));
            };
            settings.push((Source::Flag, name.trim().to_owned(), text.trim().to_owned()));
        }
        layers.set_all(settings)?;
        let mut config = layers.read()?;

        let named = config.secret_names();
        if let Some((variable, name)) = stray.into_iter().find(|(variable, _)| !named.contains(*variable)) {
            let source = Source::Environment(variable.clone());
            return Err(ConfigError::one(source, &name, layers.unknown(&name)));
        }
        config.secrets = Secrets::new(
            named.into_iter().filter_map(|name| environment.get(&name).map(|value| (name, value.clone()))),
        );
        config.reveal_keys();
        config.check().map_err(|mut error| {
            for problem in &mut error.problems {
                problem.source = layers.blame(&problem.key);
            }
            error
        })?;
        Ok(config)
    }
}

/// The configuration while it is put together.
#[derive(Debug)]
struct Layers {
    keys: Vec<Key>,
    merged: Table,
    /// Which source set which key last.
    sources: BTreeMap<String, Source>,
    /// The source that was added last, for problems that no key can be blamed for.
    latest: Source,
}

impl Layers {
    fn new() -> Result<Self, ConfigError> {
        let merged = Table::try_from(Config::default())
            .map_err(|error| ConfigError::one(Source::Default, "", error.to_string()))?;
        Ok(Self { keys: Config::keys(), merged, sources: BTreeMap::new(), latest: Source::Default })
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let source = Source::File(path.display().to_string());
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::one(source.clone(), "", format!("cannot be read: {error}")))?;
        let table: Table = toml::from_str(&text)
            .map_err(|error| ConfigError::one(source.clone(), "", syntax(&error, &text)))?;
        self.latest = source;
        self.merge(table);
        self.read()?;
        Ok(())
    }

    /// Adds one layer. The kind of an agent goes first, since a change of it clears the rest.
    fn set_all(&mut self, mut settings: Vec<(Source, String, String)>) -> Result<(), ConfigError> {
        settings.sort_by_key(|(_, name, _)| !name.ends_with(".kind"));
        for (source, name, text) in settings {
            self.set(source, &name, &text)?;
        }
        self.read()?;
        Ok(())
    }

    fn set(&mut self, source: Source, name: &str, text: &str) -> Result<(), ConfigError> {
        let Some(key) = self.keys.iter().find(|key| key.matches(name)) else {
            return Err(ConfigError::one(source, name, self.unknown(name)));
        };
        let value = value(&key.kind, text).ok_or_else(|| {
            ConfigError::one(source.clone(), name, format!("expected {}", key.kind.words()))
        })?;
        self.latest = source;
        let (parents, leaf) = name.rsplit_once('.').unwrap_or(("", name));
        let mut layer = Table::from_iter([(leaf.to_owned(), value)]);
        for parent in parents.rsplit('.').filter(|parent| !parent.is_empty()) {
            layer = Table::from_iter([(parent.to_owned(), Value::Table(layer))]);
        }
        self.merge(layer);
        Ok(())
    }

    fn merge(&mut self, layer: Table) {
        merge(&mut self.merged, layer, "", &self.latest, &mut self.sources);
    }

    /// What is configured so far.
    fn read(&self) -> Result<Config, ConfigError> {
        serde_path_to_error::deserialize(Value::Table(self.merged.clone())).map_err(|error| {
            let path = match error.path().to_string().as_str() {
                "." => String::new(),
                path => path.to_owned(),
            };
            let message = error.inner().to_string();
            let message = message.lines().next().unwrap_or_default();
            let expected = match self.keys.iter().find(|key| key.matches(&path)) {
                Some(key) if !message.contains("expected") => {
                    format!("{message}, expected {}", key.kind.words())
                }
                _ => message.to_owned(),
            };
            ConfigError::one(self.blame(&path), &path, expected)
        })
    }

    fn knows(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.matches(name))
    }

    fn unknown(&self, name: &str) -> String {
        let nearest = self.keys.iter().map(|key| (distance(&key.name, name), &key.name)).min();
        match nearest {
            Some((distance, nearest)) if distance <= 3 => format!("no such key; did you mean {nearest}?"),
            _ => "no such key; `switchboard config doc` lists all".to_owned(),
        }
    }

    /// The source that set `key`, or something inside of it.
    fn blame(&self, key: &str) -> Source {
        let key = key.split('[').next().unwrap_or(key);
        let inside = format!("{key}.");
        self.sources
            .get(key)
            .or_else(|| {
                self.sources.iter().find(|(name, _)| name.starts_with(&inside)).map(|(_, source)| source)
            })
            .or_else(|| {
                self.sources.iter().find(|(name, _)| key.starts_with(&format!("{name}."))).map(|(_, s)| s)
            })
            .unwrap_or(if key.is_empty() { &self.latest } else { &Source::Default })
            .clone()
    }
}

/// Lays `layer` over `below`. Tables are merged, all else is replaced; an agent that changes its
/// kind keeps nothing of what it was.
fn merge(
    below: &mut Table,
    layer: Table,
    prefix: &str,
    source: &Source,
    sources: &mut BTreeMap<String, Source>,
) {
    for (name, value) in layer {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match (below.get_mut(&name), value) {
            (Some(Value::Table(under)), Value::Table(over)) => {
                let changed = match (under.get("kind"), over.get("kind")) {
                    (Some(was), Some(is)) => was != is,
                    _ => false,
                };
                if prefix == "agents" && changed {
                    under.clear();
                }
                merge(under, over, &key, source, sources);
            }
            (_, Value::Table(over)) => {
                let mut under = Table::new();
                sources.insert(key.clone(), source.clone());
                merge(&mut under, over, &key, source, sources);
                below.insert(name, Value::Table(under));
            }
            (_, value) => {
                sources.insert(key, source.clone());
                below.insert(name, value);
            }
        }
    }
}

/// Reads the text of a variable or flag as a value of some kind.
fn value(kind: &Kind, text: &str) -> Option<Value> {
    match kind {
        Kind::Boolean => text.parse().ok().map(Value::Boolean),
        Kind::Integer => text.replace('_', "").parse().ok().map(Value::Integer),
        Kind::Number => text.parse().ok().map(Value::Float),
        Kind::Text | Kind::Path | Kind::Address | Kind::Ip | Kind::Choice(_) => {
            Some(Value::String(text.into()))
        }
        Kind::List(Kind::Text | Kind::Ip) if !text.starts_with('[') => Some(Value::Array(
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(|part| Value::String(part.into()))
                .collect(),
        )),
        Kind::List(_) | Kind::Table | Kind::Map => expression(text),
        Kind::Other(_) => expression(text).or_else(|| Some(Value::String(text.into()))),
    }
}

/// Reads the right-hand side of a TOML assignment.
fn expression(text: &str) -> Option<Value> {
    toml::from_str::<Table>(&format!("value = {text}")).ok()?.remove("value")
}

/// A syntax error with its place. The message of the parser quotes the line, which may hold
/// something that does not belong into a log.
fn syntax(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
            format!("not TOML, line {line}, column {column}: {message}")
        }
        None => format!("not TOML: {message}"),
    }
}

/// How many characters have to change to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, to) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX - 1);
            let best = (diagonal + usize::from(from != *to)).min(above + 1).min(left + 1);
            diagonal = above;
            if let Some(cell) = row.get_mut(j) {
                *cell = left;
            }
            left = best;
        }
        if let Some(cell) = row.get_mut(b.len()) {
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// One entry per problem; never empty.
    pub problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn one(source: Source, key: &str, message: impl Into<String>) -> Self {
        Self { problems: vec![Problem { source, key: key.to_owned(), message: message.into() }] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it comes from.
    pub source: Source,
    /// The dotted key; empty when it is about the source as a whole.
    pub key: String,
    /// What is wrong, and what is expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key.as_str(), &self.source) {
            ("", source) => write!(f, "{source}: {}", self.message),
            (key, Source::Default) => write!(f, "{key}: {}", self.message),
            (key, source) => write!(f, "{source}: {key}: {}", self.message),
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The file at this path.
    File(String),
    /// This variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("defaults"),
            Self::File(path) => f.write_str(path),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// Variables that begin like ours but are read by somebody else.
const FOREIGN_VARIABLES: &[&str] = &["SWITCHBOARD_CONFIG", "SWITCHBOARD_URL", "SWITCHBOARD_TOKEN"];
