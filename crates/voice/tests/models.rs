//! Bringing models, from a real registry and from bad ones.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod common;

use std::fs;

use common::http::HttpServer;
use common::models_dir;
use sha2::{Digest, Sha256};
use switchboard_core::hex;
use switchboard_voice::models::{FetchError, Model, Sources, catalogue, fetch, find, model_status, status};

fn moonshine() -> &'static Model {
    find("moonshine-tiny").unwrap()
}

fn sources(server: &HttpServer) -> Sources {
    Sources { pypi: server.url(), npm: server.url() }
}

/// An index that leads to every package of a model, below the same server.
fn index() -> Vec<u8> {
    let link = |file: &str| format!("<a href=\"../../files/{file}#sha256=0\">{file}</a>\n");
    let files = moonshine().packages.iter().map(|package| link(package.file));
    files.collect::<String>().into_bytes()
}

#[tokio::test]
async fn every_file_of_every_model_is_what_it_should_be() {
    let dir = models_dir().await;
    for model in catalogue() {
        for file in model.files() {
            let content = fs::read(model.folder(&dir).join(file.name)).unwrap();
            let digest = hex(&Sha256::digest(&content));
            assert_eq!((content.len() as u64, digest.as_str()), (file.bytes, file.sha256), "{}", file.name);
        }
        let left: Vec<_> = fs::read_dir(model.folder(&dir)).unwrap().collect();
        assert_eq!(left.len(), model.files().count(), "nothing else is left of {}", model.name);
    }
    assert!(status(&dir).iter().all(|status| status.is_complete()));
}

#[tokio::test]
async fn what_is_there_is_not_brought_again() {
    let dir = models_dir().await;
    let server = HttpServer::start(|_, _| (500, Vec::new())).await;
    for model in catalogue() {
        let mut told = 0;
        let folder = fetch(model, &dir, &sources(&server), |_| told += 1).await.unwrap();
        assert_eq!((folder, told), (model.folder(&dir), 0));
    }
    assert!(server.requests.lock().is_empty());
}

#[tokio::test]
async fn only_what_is_missing_is_brought_and_told_of() {
    let kept = models_dir().await;
    let dir = tempfile::tempdir().unwrap();
    let folder = moonshine().folder(dir.path());
    fs::create_dir_all(&folder).unwrap();
    for file in moonshine().files().filter(|file| file.name != "tokenizer.json") {
        fs::copy(moonshine().folder(&kept).join(file.name), folder.join(file.name)).unwrap();
    }
    fs::write(folder.join("tokenizer.json"), "broken off").unwrap();
    assert_eq!(model_status(moonshine(), dir.path()).missing, [folder.join("tokenizer.json")]);
    let mut told = Vec::new();
    fetch(moonshine(), dir.path(), &common::sources(), |progress| told.push(progress)).await.unwrap();
    let last = told.last().unwrap();
    assert_eq!((last.bytes, last.total), (729_305, 729_305), "only one package was needed");
    assert!(told.is_sorted_by_key(|progress| progress.bytes));
    assert!(model_status(moonshine(), dir.path()).is_complete());
}

#[tokio::test]
async fn what_is_not_the_same_is_refused_and_leaves_nothing_behind() {
    type Reply = fn(&str) -> (u16, Vec<u8>);
    let too_long =
        |path: &str| if path.contains("/simple/") { (200, index()) } else { (200, vec![0; 30_000_000]) };
    type Expected = fn(&FetchError) -> bool;
    let replies: [(Reply, Expected); 4] = [
        (|_| (404, Vec::new()), |error| matches!(error, FetchError::Refused(_, 404))),
        (|_| (200, b"not a package".to_vec()), |error| matches!(error, FetchError::Digest(_))),
        (too_long, |error| matches!(error, FetchError::Digest(_))),
        (|_| (302, Vec::new()), |error| matches!(error, FetchError::Refused(_, 302))),
    ];
    for (reply, expected) in replies {
        let server = HttpServer::start(move |path, _| reply(path)).await;
        let dir = tempfile::tempdir().unwrap();
        let error = fetch(moonshine(), dir.path(), &sources(&server), |_| ()).await.unwrap_err();
        assert!(expected(&error), "{error:?}");
        let left = fs::read_dir(moonshine().folder(dir.path())).unwrap().count();
        assert_eq!(left, 0, "{error}");
        assert_eq!(model_status(moonshine(), dir.path()).missing.len(), 3);
    }
}

#[tokio::test]
async fn a_registry_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let nobody = Sources { pypi: "http://127.0.0.1:9".into(), npm: "http://127.0.0.1:9".into() };
    let error = fetch(moonshine(), dir.path(), &nobody, |_| ()).await.unwrap_err();
    assert!(matches!(error, FetchError::Unreachable(_)), "{error:?}");
    let nonsense = Sources { pypi: "nonsense".into(), npm: "nonsense".into() };
    let error = fetch(moonshine(), dir.path(), &nonsense, |_| ()).await.unwrap_err();
    assert!(matches!(error, FetchError::Address(_)), "{error:?}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = fetch(moonshine(), &file, &nobody, |_| ()).await.unwrap_err();
    assert!(matches!(error, FetchError::Disk(_)), "{error:?}");
}
