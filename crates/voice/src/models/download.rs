//! Packages from registries.

use std::io::Write;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use sha2::{Digest, Sha256};
use switchboard_core::hex;
use tempfile::NamedTempFile;

use super::catalogue::{Package, Registry};
use super::fetch::{FetchError, Sources};

/// Brings a package to a temporary file, and checks that it is the pinned one.
pub(super) async fn download(
    package: &Package,
    sources: &Sources,
    mut file: NamedTempFile,
    mut progress: impl FnMut(u64),
) -> Result<NamedTempFile, FetchError> {
    let client = client()?;
    let url = locate(&client, package, sources).await?;
    let mut response = client.get(url).send().await.map_err(unreachable)?;
    if !response.status().is_success() {
        return Err(FetchError::Refused(package.file, response.status().as_u16()));
    }
    let mut digest = Sha256::new();
    let mut count = 0;
    while let Some(bytes) = response.chunk().await.map_err(unreachable)? {
        count += bytes.len() as u64;
        if count > package.bytes {
            return Err(FetchError::Digest(package.file));
        }
        digest.update(&bytes);
        file.write_all(&bytes).map_err(FetchError::Disk)?;
        progress(count);
    }
    if count != package.bytes || hex(&digest.finalize()) != package.sha256 {
        return Err(FetchError::Digest(package.file));
    }
    file.flush().map_err(FetchError::Disk)?;
    Ok(file)
}

/// Where a registry has a package.
async fn locate(client: &Client, package: &Package, sources: &Sources) -> Result<Url, FetchError> {
    let parse = |url: String| Url::parse(&url).map_err(|_| FetchError::Address(url));
    match package.registry {
        Registry::Npm => {
            parse(format!("{}/{}/-/{}", sources.npm.trim_end_matches('/'), package.name, package.file))
        }
        Registry::PyPi => {
            // Files lie where their index says, which differs from mirror to mirror.
            let index = parse(format!("{}/simple/{}/", sources.pypi.trim_end_matches('/'), package.name))?;
            let mut response = client.get(index).send().await.map_err(unreachable)?;
            if !response.status().is_success() {
                return Err(FetchError::Refused(package.file, response.status().as_u16()));
            }
            let base = response.url().clone();
            let mut page = Vec::new();
            while let Some(bytes) = response.chunk().await.map_err(unreachable)? {
                if page.len() + bytes.len() > LONGEST_INDEX {
                    return Err(FetchError::Absent(package.file));
                }
                page.extend_from_slice(&bytes);
            }
            let link = find_link(&String::from_utf8_lossy(&page), package.file)
                .ok_or(FetchError::Absent(package.file))?
                .to_owned();
            base.join(&link).map_err(|_| FetchError::Address(link))
        }
    }
}

/// The link to a file, in a page that lists all files of a package.
fn find_link<'a>(page: &'a str, file: &str) -> Option<&'a str> {
    page.split("href=").skip(1).find_map(|rest| {
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let link = rest[1..].split(quote).next()?;
        let path = link.split(['#', '?']).next()?;
        (path.rsplit('/').next()? == file).then_some(path)
    })
}

fn client() -> Result<Client, FetchError> {
    // Somebody else may have chosen a provider already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("switchboard/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(STALL_TIMEOUT)
        .redirect(redirect::Policy::limited(5))
        .build()
        .map_err(unreachable)
}

fn unreachable(error: reqwest::Error) -> FetchError {
    // What it says of the address is known; what it says of the cause is not.
    FetchError::Unreachable(error.without_url())
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long nothing may come.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a page that lists the files of a package: the longest known has a quarter of it.
const LONGEST_INDEX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::find_link;

    #[test]
    fn a_file_is_found_by_its_whole_name() {
        let page = r#"<a href="../../packages/ab/x-1.0.whl#sha256=00">x-1.0.whl</a>
            <a class='c' href='https://files.example/x-1.0-cp311.whl?a=b'>x</a> <a href=odd>y</a>"#;
        assert_eq!(find_link(page, "x-1.0.whl"), Some("../../packages/ab/x-1.0.whl"));
        assert_eq!(find_link(page, "x-1.0-cp311.whl"), Some("https://files.example/x-1.0-cp311.whl"));
        for file in ["1.0.whl", "x-1.0", "odd", ""] {
            assert_eq!(find_link(page, file), None, "{file}");
        }
    }
}
