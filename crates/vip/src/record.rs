//! The row of a session, as it is looked up before anybody is let in.

use serde_json::{Value, json};
use switchboard_core::{Cell, Found, Timestamp};

use crate::context::Context;
use crate::error::Code;
use crate::limits::VipLimits;
use crate::minutes::{Settings, tables};

/// What is known of a session without following it.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecord {
    pub(crate) id: String,
    pub(crate) settings: Settings,
    state: String,
    state_seq: i64,
    context_version: i64,
    context: Option<String>,
    last_event_seq: i64,
    connected: bool,
    opened: bool,
    left_at: Option<i64>,
    live: bool,
}

impl SessionRecord {
    pub(crate) fn read(cells: &Found) -> Option<Self> {
        let cell = |column| tables::SESSIONS.column(column).and_then(|place| cells.get(place));
        let number = |column| cell(column).and_then(Cell::as_integer);
        let text = |column| cell(column).and_then(Cell::as_text);
        Some(Self {
            id: text("session_id")?.to_owned(),
            settings: serde_json::from_str(text("settings")?).ok()?,
            state: text("state").unwrap_or_default().to_owned(),
            state_seq: number("state_seq").unwrap_or_default(),
            context_version: number("context_version").unwrap_or_default(),
            context: text("context").map(str::to_owned),
            last_event_seq: number("last_event_seq").unwrap_or_default(),
            connected: number("connected") == Some(1),
            opened: number("opened") == Some(1),
            left_at: number("left_at"),
            live: number("live") == Some(1),
        })
    }

    /// Whether it can still be used; the code of the error if not. Nobody has to be there for a session to end
    /// by the clock.
    pub(crate) fn check(&self, limits: &VipLimits, now: Timestamp) -> Result<(), Code> {
        let now = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let after = |at: i64, seconds: u32| now > at.saturating_add(i64::from(seconds) * 1_000);
        let created = i64::try_from(self.settings.created_at).unwrap_or(i64::MAX);
        let expires = i64::try_from(self.settings.expires_at).unwrap_or(i64::MAX);
        if !self.live || now >= expires {
            return Err(Code::SesTerminated);
        }
        if !self.opened {
            return if after(created, limits.open_s) { Err(Code::SesNotFound) } else { Ok(()) };
        }
        if !self.connected && self.left_at.is_some_and(|at| after(at, self.settings.resume_s)) {
            return Err(Code::SesTerminated);
        }
        Ok(())
    }

    pub(crate) fn context(&self) -> Option<Context> {
        serde_json::from_str(self.context.as_deref()?).ok()
    }

    /// The status (E4).
    pub(crate) fn status(&self) -> Value {
        json!({
            "session_id": self.id,
            "state": self.state,
            "state_seq": self.state_seq,
            "mode": self.settings.mode,
            "environment": self.settings.environment,
            "context_version": self.context_version,
            "connected": self.connected,
            "created_at": self.settings.created_at / 1_000,
            "expires_at": self.settings.expires_at / 1_000,
            "last_event_seq": self.last_event_seq,
            "metadata": self.settings.metadata,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn check(columns: &[(&str, Cell)], now_ms: u64) -> Result<(), Code> {
        let record = SessionRecord::read(&samples::row(&samples::settings(), columns)).unwrap();
        record.check(&VipLimits::default(), Timestamp::from_millis(now_ms))
    }

    #[test]
    fn a_session_that_nobody_opens_is_soon_forgotten() {
        assert_eq!(check(&[], 1_030_000), Ok(()));
        assert_eq!(check(&[], 1_030_001), Err(Code::SesNotFound));
        assert_eq!(check(&[("opened", true.into()), ("connected", true.into())], 1_030_001), Ok(()));
    }

    #[test]
    fn vip_072_a_session_without_a_transport_waits_for_its_window_and_no_longer() {
        let left = [("opened", true.into()), ("connected", false.into()), ("left_at", 1_100_000i64.into())];
        assert_eq!(check(&left, 1_160_000), Ok(()));
        assert_eq!(check(&left, 1_160_001), Err(Code::SesTerminated));
        // Who is back has not left.
        let back = [("opened", true.into()), ("connected", true.into()), ("left_at", 1_100_000i64.into())];
        assert_eq!(check(&back, 1_160_001), Ok(()));
    }

    #[test]
    fn vip_078_a_session_that_is_over_is_over_for_everybody() {
        let connected = [("opened", true.into()), ("connected", true.into())];
        assert_eq!(check(&connected, 1_599_999), Ok(()));
        assert_eq!(check(&connected, 1_600_000), Err(Code::SesTerminated), "by the clock");
        assert_eq!(
            check(&[("live", false.into()), ("opened", true.into())], 1_000_001),
            Err(Code::SesTerminated)
        );
    }
}
