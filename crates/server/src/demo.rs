//! The demo application of VIP, at `/demo/vip/`: the example for those who build their own.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};
use switchboard_core::hex;

use crate::config::Config;
use crate::origin::OriginPolicy;

/// The routes; none unless the demo is served.
pub(crate) fn router(config: &Config) -> Router {
    if !config.shows_demo() {
        return Router::new();
    }
    Router::new()
        .route("/demo/vip", get(async || Redirect::permanent("/demo/vip/")))
        .route(
            "/demo/vip/",
            get(async |State(demo): State<Demo>, headers| demo.serve("index.html", &headers)),
        )
        .route(
            "/demo/vip/{name}",
            get(async |State(demo): State<Demo>, Path(name): Path<String>, headers| {
                demo.serve(&name, &headers)
            }),
        )
        .with_state(Demo { origins: Arc::new(OriginPolicy::new(config)) })
}

#[derive(Clone, Debug)]
struct Demo {
    origins: Arc<OriginPolicy>,
}

impl Demo {
    fn serve(&self, name: &str, headers: &HeaderMap) -> Response {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if self.origins.check(text(header::HOST), None).is_err() {
            return (StatusCode::FORBIDDEN, "Forbidden").into_response();
        }
        let Some((_, bytes)) = ASSETS.iter().find(|(known, _)| *known == name) else {
            return (StatusCode::NOT_FOUND, "Not Found").into_response();
        };
        let tag = tag(bytes);
        let mut response = if text(header::IF_NONE_MATCH) == Some(&tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, media_type(name))], *bytes).into_response()
        };
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}

fn tag(bytes: &[u8]) -> String {
    let digest = hex(Sha256::digest(bytes).iter().take(12));
    format!("\"{digest}\"")
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        "wav" => "audio/wav",
        _ => "application/octet-stream",
    }
}

/// Every file of the application, by its name.
static ASSETS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/demo_vip.rs"));

/// What is sent with each of them: it may use the microphone and reach where it comes from, nothing else.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; \
         font-src 'self'; media-src 'self' blob:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (HeaderName::from_static("permissions-policy"), "microphone=(self), camera=(), geolocation=()"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // A new version counts at once; what has not changed is not sent again.
    (header::CACHE_CONTROL, "no-cache"),
];

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(config: &Config, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::get(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        router(config).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    const HOST: &[(&str, &str)] = &[("host", "localhost:4600")];

    #[tokio::test]
    async fn every_file_is_served_as_what_it_is() {
        let config = Config::default();
        assert!(ASSETS.iter().any(|(name, _)| *name == "index.html"));
        for (name, bytes) in ASSETS {
            let path = format!("/demo/vip/{name}");
            let answer = ask(&config, &path, HOST).await;
            assert_eq!(answer.status(), 200, "{name}");
            let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
            assert_ne!(kind, "application/octet-stream", "{name} has a type that browsers know");
            assert_eq!(answer.headers()["x-content-type-options"], "nosniff");
            assert_eq!(answer.headers()["cache-control"], "no-cache");
            let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
            assert_eq!(&to_bytes(answer.into_body(), 1 << 24).await.unwrap()[..], *bytes, "{name}");
            let known = ask(&config, &path, &[HOST[0], ("if-none-match", &tag)]).await;
            assert_eq!(known.status(), 304, "{name} is not sent twice");
            assert!(to_bytes(known.into_body(), 1).await.unwrap().is_empty());
        }
        assert_eq!(ask(&config, "/demo/vip/nothing.js", HOST).await.status(), 404);
    }

    #[tokio::test]
    async fn the_page_may_use_the_microphone_and_reach_its_own_origin_alone() {
        let config = Config::default();
        let moved = ask(&config, "/demo/vip", HOST).await;
        assert_eq!(
            (moved.status().as_u16(), &moved.headers()["location"]),
            (308, &"/demo/vip/".parse().unwrap())
        );
        let page = ask(&config, "/demo/vip/", HOST).await;
        assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
        let permissions = page.headers()["permissions-policy"].to_str().unwrap();
        assert!(permissions.contains("microphone=(self)"), "{permissions}");
        let policy = page.headers()["content-security-policy"].to_str().unwrap();
        for rule in
            ["default-src 'none'", "script-src 'self';", "connect-src 'self';", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(rule), "{policy}");
        }
        // A page under another name would be that name's, not ours.
        assert_eq!(ask(&config, "/demo/vip/", &[("host", "evil.test")]).await.status(), 403);
    }

    #[tokio::test]
    async fn the_demo_is_for_development_unless_it_is_wanted() {
        let mut config = Config::default();
        let status = async |config: &Config| ask(config, "/demo/vip/", HOST).await.status().as_u16();
        config.vip.demo = Some(false);
        assert_eq!(status(&config).await, 404);
        config.vip.demo = None;
        config.auth.api_keys.push(crate::config::ApiKey::default());
        assert!(!config.is_development());
        assert_eq!(status(&config).await, 404, "not in production");
        config.vip.demo = Some(true);
        assert_eq!(status(&config).await, 200);
        config.vip.enabled = false;
        assert_eq!(status(&config).await, 404, "there is nothing to show");
    }
}
