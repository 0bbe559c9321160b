//! The shared vectors of `vectors/<protocol>/frames/*.json`, for Rust tests of any crate.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// One vector file. What every kind has is a field; the rest is in its field `all`.
#[derive(Clone, Debug, Deserialize)]
pub struct Vector {
    /// Its name, which is also that of its file.
    pub id: String,
    /// What it is: `frames`, `hmac`, `subprotocol`, `ndjson` …
    pub kind: String,
    /// What it shows, for a person.
    pub name: String,
    /// The statements that it proves.
    #[serde(default)]
    pub conformance: Vec<String>,
    /// `to_server` or `to_client`.
    #[serde(default)]
    pub direction: Option<String>,
    /// What has to be agreed before.
    #[serde(default)]
    pub features: Vec<String>,
    /// One transport message each.
    #[serde(default, rename = "hex")]
    hex: Vec<String>,
    /// What it leads to when it is wrong.
    #[serde(default)]
    pub error: Option<VectorError>,
    /// Everything in the file.
    #[serde(skip)]
    pub all: Value,
}

/// What a wrong vector leads to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct VectorError {
    /// The code of the error.
    pub code: u16,
    /// Its name.
    pub name: String,
    /// The close code that follows, if any.
    pub close: Option<u16>,
}

impl Vector {
    /// The transport messages.
    pub fn messages(&self) -> Vec<Bytes> {
        self.hex.iter().map(|hex| unhex(hex)).collect()
    }

    /// Whether it travels from a client to the server.
    pub fn is_to_server(&self) -> bool {
        self.direction.as_deref() == Some("to_server")
    }
}

/// Every vector of a protocol, by name.
pub fn load(protocol: &str) -> Vec<Vector> {
    load_from(&folder(&format!("{protocol}/frames")))
}

/// Every vector of a folder, by name.
pub fn load_from(folder: &Path) -> Vec<Vector> {
    let Ok(entries) = std::fs::read_dir(folder) else { panic!("{} cannot be read", folder.display()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let vectors = paths.iter().map(|path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let read = serde_json::from_str::<Value>(&text)
            .and_then(|all| Ok(Vector { all: all.clone(), ..Vector::deserialize(all)? }));
        match read {
            Ok(vector) => vector,
            Err(error) => panic!("{}: {error}", path.display()),
        }
    });
    vectors.collect()
}

/// A folder of `vectors/`.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(name);
    folder.canonicalize().unwrap_or(folder)
}

/// Bytes from hexadecimal digits.
pub fn unhex(hex: &str) -> Bytes {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
    assert!(digits.len() == hex.len() && hex.len().is_multiple_of(2), "not hexadecimal: {hex}");
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_asp_are_found() {
        let vectors = load("asp");
        assert_eq!(vectors.len(), 26);
        let bad = vectors.iter().find(|vector| vector.id == "T20").unwrap();
        assert_eq!(bad.error.as_ref().map(|error| (error.code, error.close)), Some((2001, Some(4406))));
        assert_eq!(bad.messages(), [unhex("2200000100000000")]);
    }
}
