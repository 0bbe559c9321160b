//! Scenarios: transcripts of a client and a server, as text that other languages can read too.
//!
//! The format is described in `vectors/asp/scenarios/README.md`. A file is run against a fresh
//! [`World`](crate::World); a failure names the file and the line.

use std::path::{Path, PathBuf};

mod client;
mod commands;
mod pattern;
mod run;
mod shorthand;

use run::Runner;

/// One scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name, without folder and ending.
    pub name: String,
    /// The statements that it proves, as `ASP-030`.
    pub proves: Vec<String>,
    path: PathBuf,
    text: String,
}

impl Scenario {
    /// Every scenario of a folder of `vectors/`, by name.
    pub fn all(folder: &str) -> Vec<Self> {
        let folder = crate::vectors::folder(folder);
        let Ok(entries) = std::fs::read_dir(&folder) else { panic!("{} cannot be read", folder.display()) };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
        paths.sort();
        paths.iter().map(|path| Self::load(path)).collect()
    }

    /// One file.
    pub fn load(path: &Path) -> Self {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, text),
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }

    /// A scenario that is not in a file.
    pub fn parse(path: &Path, text: String) -> Self {
        let comments = text.lines().filter_map(|line| line.trim().strip_prefix('#'));
        let mut proves: Vec<String> = comments
            .flat_map(|comment| comment.split(|c: char| !c.is_ascii_alphanumeric() && c != '-'))
            .filter(|word| is_statement(word))
            .map(str::to_owned)
            .collect();
        proves.sort();
        proves.dedup();
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { name, proves, path: path.to_owned(), text }
    }

    /// Plays the scenario.
    ///
    /// # Errors
    /// Where it went wrong, and how.
    pub fn run(&self) -> Result<(), String> {
        let mut runner = Runner::new();
        for (line, number) in self.text.lines().zip(1..) {
            runner
                .line(line)
                .map_err(|error| format!("{}:{number}: {line}\n    {error}", self.path.display()))?;
        }
        runner.finish().map_err(|error| format!("{}: at the end: {error}", self.path.display()))
    }
}

fn is_statement(word: &str) -> bool {
    word.split_once('-').is_some_and(|(protocol, number)| {
        protocol.len() >= 3
            && protocol.chars().all(|c| c.is_ascii_uppercase())
            && number.len() == 3
            && number.chars().all(|c| c.is_ascii_digit())
    })
}
