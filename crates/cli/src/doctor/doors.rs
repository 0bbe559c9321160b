//! What answers on the paths of the protocols, whom it lets in, and what is done to bytes on the way.

use serde_json::json;

use super::Patient;
use super::finding::Finding;
use crate::probe::Request;

/// The protocols that answer.
pub(super) async fn protocols(patient: &Patient<'_>) -> Vec<Finding> {
    let (mut there, mut away, mut findings) = (Vec::new(), Vec::new(), Vec::new());
    for (name, request) in [
        ("ASP", Request::upgrade("/v1/agent-socket", &["asp-v1"])),
        ("Acolyte", Request::upgrade("/v1/rpc", &[])),
        ("AIP", Request::upgrade("/ws", &[])),
        ("Alicia", Request::upgrade("/api/v1/ws", &[])),
        ("VIP", Request::get("/.well-known/vip")),
    ] {
        match patient.ask(request).await {
            Ok(answer) if matches!(answer.status, 101 | 200) => there.push(name.to_owned()),
            Ok(answer) if answer.status == 401 => there.push(format!("{name} (asks for a credential)")),
            Ok(answer) if matches!(answer.status, 400 | 426) => findings.push(Finding::problem(
                "upgrade",
                format!("{name} is asked without an upgrade: {}", answer.status),
                "let the proxy pass on Upgrade and Connection: nginx needs proxy_http_version 1.1 and both headers",
            )),
            Ok(answer) => away.push(format!("{name} ({})", answer.status)),
            Err(why) => away.push(format!("{name} ({why})")),
        }
    }
    if !there.is_empty() {
        findings.insert(0, Finding::fine("protocols", there.join(", ")));
    }
    if !away.is_empty() {
        let advice = "let the proxy pass on their paths if clients need them: docs/protocols lists these";
        let found = format!("no answer from {}", away.join(", "));
        findings.push(match there.is_empty() {
            true => Finding::problem("protocols", found, advice),
            false => Finding::warning("protocols", found, advice),
        });
    }
    findings
}

/// Whether pages of strangers get in, and requests for other hosts.
pub(super) async fn strangers(patient: &Patient<'_>) -> Vec<Finding> {
    let origin = Request::upgrade("/v1/rpc", &[]).header("origin", "https://stranger.invalid");
    let origin = match patient.ask(origin).await {
        Ok(answer) if answer.status == 101 => Finding::problem(
            "origin",
            "a page of any other site may connect",
            "name the sites that may in allowed_origins, and let the proxy pass Origin on as it is",
        ),
        Ok(answer) if answer.status == 403 => Finding::fine("origin", "pages of other sites are refused"),
        Ok(answer) => Finding::skipped(
            "origin",
            format!("the upgrade is answered with {}", answer.status),
            "give a credential with --key",
        ),
        Err(why) => Finding::skipped("origin", why, "see above"),
    };
    let host = match patient
        .ask(Request::get("/healthz").without_key().header("host", "stranger.invalid"))
        .await
    {
        Ok(answer) if answer.status == 200 => Finding::warning(
            "host",
            "requests for any other name are answered",
            "set allowed_hosts, or let the proxy refuse names that are not its own: pages can otherwise rebind theirs",
        ),
        Ok(answer) => {
            Finding::fine("host", format!("requests for another name are refused with {}", answer.status))
        }
        Err(why) => Finding::fine("host", format!("requests for another name are not answered: {why}")),
    };
    vec![origin, preflight(patient).await, host]
}

/// Whether browsers are told that pages may use the HTTP sides; asked for the server's own origin, which always may.
async fn preflight(patient: &Patient<'_>) -> Finding {
    let scheme = if patient.target.secure { "https" } else { "http" };
    let own = format!("{scheme}://{}", patient.target.authority);
    let asked = Request::new("OPTIONS", "/v1/status")
        .without_key()
        .header("origin", &own)
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "authorization");
    match patient.ask(asked).await {
        Ok(answer) if answer.header("access-control-allow-origin") == Some(own.as_str()) => {
            Finding::fine("pages", "preflights of browsers are answered")
        }
        Ok(answer) => Finding::warning(
            "pages",
            format!("a preflight of a browser is answered with {}", answer.status),
            "let the proxy pass OPTIONS and Origin on, and leave Access-Control headers as they are",
        ),
        Err(why) => Finding::skipped("pages", why, "see above"),
    }
}

/// Whether messages and streams are compressed on the way.
pub(super) async fn compression(patient: &Patient<'_>) -> Vec<Finding> {
    let offer = Request::upgrade("/v1/rpc", &[]).header("sec-websocket-extensions", "permessage-deflate");
    let messages = match patient.ask(offer).await {
        Ok(answer) if answer.header("sec-websocket-extensions").is_some() => Finding::warning(
            "compression",
            "messages of WebSockets are compressed (permessage-deflate)",
            "switch it off: small messages get larger and later, and every connection needs memory for it",
        ),
        Ok(answer) if answer.status == 101 => {
            Finding::fine("compression", "messages of WebSockets are not compressed")
        }
        Ok(answer) => Finding::skipped(
            "compression",
            format!("the upgrade is answered with {}", answer.status),
            "give a credential with --key",
        ),
        Err(why) => Finding::skipped("compression", why, "see above"),
    };
    let body = json!({ "message": patient.say, "history": [], "model": "doctor" });
    let stream = Request::post("/v1/chat/stream", &body).header("accept-encoding", "gzip, br, deflate");
    let streams = match patient.target.open(&patient.log, &stream).await {
        Ok(answer) if answer.status != 200 => Finding::skipped(
            "compression",
            format!("a stream is answered with {}", answer.status),
            "give a credential with --key",
        ),
        Ok(answer) => match answer.header("content-encoding") {
            None | Some("identity") => Finding::fine("compression", "streams over HTTP are not compressed"),
            Some(encoding) => Finding::problem(
                "compression",
                format!("streams over HTTP are compressed ({encoding})"),
                "exclude text/event-stream from compression: a compressor holds pieces back until it has enough",
            ),
        },
        Err(why) => Finding::skipped("compression", why, "see above"),
    };
    vec![messages, streams]
}
