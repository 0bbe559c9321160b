//! Whether the server is there and well: reachability, health, its clock, file descriptors.

use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::time::Instant;

use super::Patient;
use super::finding::Finding;
use crate::clock;
use crate::probe::Request;

/// Whether there is a connection, and whether others can listen in.
pub(super) async fn reach(patient: &Patient<'_>) -> Vec<Finding> {
    let began = Instant::now();
    if let Err(why) = patient.target.dial().await {
        let advice = if why.starts_with("TLS") {
            "the certificate has to be for this name, complete and valid: check tls.cert, or name its authority with --ca-file"
        } else {
            "check the address, the firewall, and that the server listens there: `listen` is loopback unless set"
        };
        return vec![Finding::problem("reach", why, advice)];
    }
    let took = clock::short(began.elapsed());
    let reached = Finding::fine("reach", format!("{} in {took}", patient.target.url));
    let tls = if patient.target.secure {
        Finding::fine("tls", "the certificate is good for this name")
    } else if patient.target.is_loopback() {
        Finding::fine("tls", "none, on this machine")
    } else {
        Finding::problem(
            "tls",
            "none: everybody on the way can read credentials and content",
            "set tls.cert and tls.key, or end TLS in a proxy",
        )
    };
    vec![reached, tls]
}

/// Whether it says that it is well, and what time it has.
pub(super) async fn health(patient: &Patient<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match patient.ask(Request::get("/healthz").without_key()).await {
        Ok(answer) if answer.status == 200 => {
            findings.push(Finding::fine("health", "/healthz is answered with 200"));
            findings.push(clocks(answer.header("date")));
        }
        Ok(answer) => findings.push(Finding::problem(
            "health",
            format!("/healthz is answered with {}", answer.status),
            "let the proxy pass /healthz on to the server, without credentials",
        )),
        Err(why) => findings.push(Finding::problem("health", why, "is it this server that listens there?")),
    }
    findings.push(match patient.ask(Request::get("/readyz").without_key()).await {
        Ok(answer) if answer.status == 200 => Finding::fine("ready", "/readyz is answered with 200"),
        Ok(answer) if answer.status == 503 => {
            let reason = answer.json()["reason"].as_str().unwrap_or("it does not say why").to_owned();
            let advice = "starting and draining pass by themselves; for store, look at the disk and the log";
            Finding::problem("ready", format!("not ready: {reason}"), advice)
        }
        Ok(answer) => Finding::warning(
            "ready",
            format!("/readyz is answered with {}", answer.status),
            "let the proxy pass /readyz on if it should know when the server leaves",
        ),
        Err(why) => Finding::problem("ready", why, "is it this server that listens there?"),
    });
    findings
}

fn clocks(date: Option<&str>) -> Finding {
    let Some(theirs) = date.and_then(seconds_of) else {
        return Finding::skipped(
            "clock",
            "the answer has no date",
            "nothing to do, unless tokens are refused as expired",
        );
    };
    let ours = clock::now().as_millis() / 1_000;
    let skew = ours.abs_diff(theirs);
    let found = format!("differs from this machine's by {skew} s");
    let advice = "let both machines keep time by NTP: tokens are refused when clocks differ by a minute";
    match skew {
        0..=5 => Finding::fine("clock", found),
        6..=59 => Finding::warning("clock", found, advice),
        _ => Finding::problem("clock", found, advice),
    }
}

/// Seconds since the epoch of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn seconds_of(date: &str) -> Option<u64> {
    let mut words = date.split_whitespace().skip(1);
    let day: u64 = words.next()?.parse().ok()?;
    let month = MONTHS.iter().position(|name| Some(*name) == words.clone().next())?;
    let year: u64 = words.nth(1)?.parse().ok()?;
    let mut time = words.next()?.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    // Days from March to March, so that the leap day is the last of its year.
    let (year, month) = if month < 2 { (year.checked_sub(1)?, month + 10) } else { (year, month - 2) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month as u64 * 153 + 2) / 5 + day;
    Some(days.checked_sub(DAYS_TO_EPOCH)? * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// How many files the server and this machine may open.
pub(super) async fn descriptors(patient: &Patient<'_>) -> Vec<Finding> {
    let own = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, _)) if soft < FEW => Finding::warning(
            "files here",
            format!("{soft} may be open at a time"),
            "raise `ulimit -n` before measuring from here",
        ),
        Ok((soft, _)) => Finding::fine("files here", format!("{soft} may be open at a time")),
        Err(error) => Finding::skipped("files here", error.to_string(), "nothing to do"),
    };
    let advice = "give a credential with the scope admin, or set telemetry.metrics_public";
    let server = match patient.ask(Request::get("/metrics")).await {
        Ok(answer) if answer.status == 200 => {
            let of = |name: &str| metric(&answer.body, name);
            match (of("switchboard_descriptors_open"), of("switchboard_descriptors_limit")) {
                (Some(open), Some(limit)) => room(open, limit),
                (None, _) | (_, None) => {
                    Finding::skipped("files there", "/metrics does not tell them", "update the server")
                }
            }
        }
        Ok(answer) => {
            Finding::skipped("files there", format!("/metrics is answered with {}", answer.status), advice)
        }
        Err(why) => Finding::skipped("files there", why, advice),
    };
    vec![server, own]
}

fn room(open: u64, limit: u64) -> Finding {
    let found = format!("{open} of {limit} are open");
    let advice = "raise `ulimit -n` (LimitNOFILE of a service) above limits.connections";
    if open.saturating_mul(10) > limit.saturating_mul(8) {
        Finding::problem("files there", found, advice)
    } else if limit < FEW_FOR_A_SERVER {
        Finding::warning("files there", found, advice)
    } else {
        Finding::fine("files there", found)
    }
}

/// The value of a metric in the text format of Prometheus.
fn metric(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    let value: f64 = line.trim().parse().ok()?;
    let seconds = Duration::try_from_secs_f64(value).ok()?;
    Some(seconds.as_secs())
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS_TO_EPOCH: u64 = 719_469;
const FEW: u64 = 1_024;
const FEW_FOR_A_SERVER: u64 = 4_096;

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    #[test]
    fn dates_of_http_are_seconds() {
        for (date, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Sun, 15 Nov 2026 10:20:08 GMT", 1_794_738_008),
        ] {
            assert_eq!(seconds_of(date), Some(seconds), "{date}");
        }
        for nonsense in ["", "yesterday", "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994"] {
            assert_eq!(seconds_of(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn metrics_are_found_by_their_whole_name() {
        let text = "# TYPE a gauge\nswitchboard_ab 5\nswitchboard_a 1024\n";
        assert_eq!(metric(text, "switchboard_a"), Some(1024));
        assert_eq!(metric(text, "switchboard_b"), None);
    }

    #[test]
    fn too_few_descriptors_are_told() {
        assert_eq!(room(900, 1_024).grade, Grade::Problem);
        assert_eq!(room(10, 1_024).grade, Grade::Warning);
        assert_eq!(room(10, 20_000).grade, Grade::Fine);
    }
}
