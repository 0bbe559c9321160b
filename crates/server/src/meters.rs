//! Handles to the metrics that hot paths count, looked up once.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use switchboard_core::model::{TurnEnd, TurnOutcome};
use switchboard_core::{AgentId, Refusal, Reject, SessionId, TurnId};

use crate::telemetry::names;

/// What is counted per connection, shared by all of one protocol.
#[derive(Clone)]
pub(crate) struct TransportMeters {
    protocol: &'static str,
    pub(crate) open: Gauge,
    pub(crate) opened: Counter,
    pub(crate) frames_received: Counter,
    pub(crate) frames_sent: Counter,
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) flushes: Counter,
    pub(crate) violations: Counter,
    pub(crate) delayed: Counter,
}

impl TransportMeters {
    pub(crate) fn new(protocol: &'static str) -> Self {
        Self {
            protocol,
            open: gauge!(names::CONNECTIONS, "protocol" => protocol),
            opened: counter!(names::CONNECTIONS_OPENED, "protocol" => protocol),
            frames_received: counter!(names::FRAMES_RECEIVED, "protocol" => protocol),
            frames_sent: counter!(names::FRAMES_SENT, "protocol" => protocol),
            bytes_received: counter!(names::BYTES_RECEIVED, "protocol" => protocol),
            bytes_sent: counter!(names::BYTES_SENT, "protocol" => protocol),
            flushes: counter!(names::FLUSHES, "protocol" => protocol),
            violations: counter!(names::VIOLATIONS, "protocol" => protocol),
            delayed: counter!(names::RATE_LIMITED, "what" => "principal_frames"),
        }
    }

    pub(crate) fn closed(&self, code: u16) {
        counter!(names::CONNECTIONS_CLOSED, "protocol" => self.protocol, "code" => code.to_string())
            .increment(1);
    }

    pub(crate) fn refused(&self, refusal: &Refusal) {
        let reason = match refusal {
            Refusal::UpgradeRequired => "upgrade_required",
            Refusal::Malformed(_) | Refusal::Named(_) => "malformed",
            Refusal::WrongMethod => "wrong_method",
            Refusal::Version(_) => "version",
            Refusal::TooBig => "too_big",
            Refusal::CredentialMissing => "credential_missing",
            Refusal::CredentialInvalid => "credential_invalid",
            Refusal::CredentialExpired => "credential_expired",
            Refusal::Forbidden(_) => "forbidden",
            Refusal::UnknownAgent => "unknown_agent",
            Refusal::TooMany { .. } => "too_many",
            Refusal::Draining { .. } => "draining",
        };
        if reason.starts_with("credential") {
            counter!(names::AUTH_FAILURES, "reason" => reason).increment(1);
        }
        if matches!(refusal, Refusal::TooMany { .. }) {
            counter!(names::RATE_LIMITED, "what" => "connections").increment(1);
        }
        counter!(names::CONNECTIONS_REFUSED, "protocol" => self.protocol, "reason" => reason).increment(1);
    }
}

impl std::fmt::Debug for TransportMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransportMeters").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// What is counted per session, shared by all.
#[derive(Clone)]
pub(crate) struct SessionMeters {
    pub(crate) resident: Gauge,
    pub(crate) ops: Counter,
    pub(crate) events: Counter,
    pub(crate) append_seconds: Histogram,
    pub(crate) conflicts: Counter,
}

impl SessionMeters {
    pub(crate) fn new() -> Self {
        Self {
            resident: gauge!(names::SESSIONS_RESIDENT),
            ops: counter!(names::OPS),
            events: counter!(names::EVENTS),
            append_seconds: histogram!(names::APPEND_SECONDS),
            conflicts: counter!(names::APPEND_CONFLICTS),
        }
    }

    pub(crate) fn rejected(&self, reject: &Reject) {
        counter!(names::OPS_REJECTED, "reason" => reject.name()).increment(1);
        if matches!(reject, Reject::RateLimited { .. }) {
            counter!(names::RATE_LIMITED, "what" => "turns").increment(1);
        }
    }
}

impl std::fmt::Debug for SessionMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionMeters")
    }
}

/// A turn is being worked on; counted until dropped.
pub(crate) struct TurnMeter(Gauge);

impl TurnMeter {
    pub(crate) fn start(agent: &AgentId) -> Self {
        counter!(names::TURNS_STARTED, "agent" => agent.to_string()).increment(1);
        let running = gauge!(names::TURNS_RUNNING, "agent" => agent.to_string());
        running.increment(1);
        Self(running)
    }
}

impl Drop for TurnMeter {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// Says in the log which turn has failed, and why as far as it is no content: what its client was told stays out.
pub(crate) fn log_failure(session: &SessionId, turn: &TurnId, agent: &AgentId, end: &TurnEnd) {
    let (outcome, code, status) = match &end.outcome {
        TurnOutcome::Failed(failure) => ("failed", Some(failure.kind), failure.http_status()),
        TurnOutcome::Expired => ("expired", None, None),
        TurnOutcome::Done(_) | TurnOutcome::Interrupted { .. } => return,
    };
    let code = code.map(tracing::field::debug);
    if end.outcome.is_fault_of_asker() {
        tracing::info!(%session, %turn, %agent, outcome, code, status, "a turn has failed");
    } else {
        tracing::warn!(%session, %turn, %agent, outcome, code, status, "a turn has failed");
    }
}

/// A turn has ended.
pub(crate) fn turn_ended(agent: &AgentId, end: &TurnEnd) {
    let outcome = match &end.outcome {
        TurnOutcome::Done(_) => "done",
        TurnOutcome::Failed(_) => "failed",
        TurnOutcome::Interrupted { .. } => "interrupted",
        TurnOutcome::Expired => "expired",
    };
    let agent = agent.to_string();
    counter!(names::TURNS_ENDED, "agent" => agent.clone(), "outcome" => outcome).increment(1);
    let measured = [
        (names::TURN_SECONDS, end.metrics.wall_ms),
        (names::TURN_CPU_SECONDS, end.metrics.cpu_ms),
        (names::TURN_QUEUE_SECONDS, end.metrics.queue_ms),
        (names::TURN_FIRST_SECONDS, end.metrics.first_ms),
    ];
    for (name, millis) in measured {
        if let Some(millis) = millis {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds of a turn fit easily")]
            histogram!(name, "agent" => agent.clone()).record(millis as f64 / 1000.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_core::model::FailureKind;

    use super::*;
    use crate::captured::Captured;
    use crate::config::TelemetryConfig;

    fn logged(end: &TurnEnd) -> String {
        let config = TelemetryConfig { log_level: "info".into(), ..TelemetryConfig::default() };
        let (captured, _guard) = Captured::start(&config);
        log_failure(&"ses_1".into(), &"inv_1".into(), &"model".into(), end);
        captured.text()
    }

    #[test]
    fn a_turn_that_failed_is_in_the_log_without_what_was_said() {
        let secret = "the secret of ann";
        let line = logged(&TurnEnd::failed(FailureKind::ModelUnavailable, secret));
        for word in ["WARN", "model", "ses_1", "inv_1", "failed", "ModelUnavailable"] {
            assert!(line.contains(word), "{word}: {line}");
        }
        assert!(!line.contains("secret"), "{line}");
        let line = logged(&TurnEnd::failed(FailureKind::InvalidArgs, secret));
        assert!(line.contains("INFO") && !line.contains("secret"), "{line}");
        assert!(logged(&TurnEnd::new(TurnOutcome::Expired)).contains("expired"));
        assert_eq!(logged(&TurnEnd::complete()), "");
        assert_eq!(logged(&TurnEnd::new(TurnOutcome::Interrupted { abandoned: false })), "");
    }
}
