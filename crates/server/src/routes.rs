//! Which agent serves whom, where the client has not said.

use serde_json::Value;
use switchboard_core::{AgentId, PrincipalId};

use crate::config::RouteConfig;

/// The routes in their order; the first that fits counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(Vec<RouteConfig>);

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whence<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) path: &'a str,
    pub(crate) principal: &'a PrincipalId,
}

impl Routes {
    pub(crate) fn new(routes: &[RouteConfig]) -> Self {
        Self(routes.to_vec())
    }

    /// The agent for a connection; what depends on single requests does not count yet.
    pub(crate) fn of_connection(&self, whence: Whence<'_>) -> Option<AgentId> {
        let fits = |route: &&RouteConfig| route.meta.is_empty() && leads(route, whence);
        self.0.iter().find(fits).map(|route| AgentId::from(route.agent.as_str()))
    }

    /// The agent for a request that carries `meta`.
    pub(crate) fn of_request(&self, whence: Whence<'_>, meta: &Value) -> Option<AgentId> {
        // Spares the look at routes that were followed when the connection was made.
        if self.0.iter().all(|route| route.meta.is_empty()) {
            return None;
        }
        let says = |(key, value): (&String, &String)| match meta.get(key) {
            Some(Value::String(said)) => said == value,
            Some(said) => serde_json::from_str(value).is_ok_and(|wanted: Value| wanted == *said),
            None => false,
        };
        let fits = |route: &&RouteConfig| leads(route, whence) && route.meta.iter().all(says);
        self.0.iter().find(fits).map(|route| AgentId::from(route.agent.as_str()))
    }
}

fn leads(route: &RouteConfig, whence: Whence<'_>) -> bool {
    let fits = |pattern: &Option<String>, text: &str| match pattern.as_deref() {
        None => true,
        Some(pattern) => match pattern.strip_suffix('*') {
            Some(beginning) => text.starts_with(beginning),
            None => text == pattern,
        },
    };
    fits(&route.protocol, whence.protocol)
        && fits(&route.path, whence.path)
        && fits(&route.principal, whence.principal.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn route(agent: &str) -> RouteConfig {
        RouteConfig { agent: agent.into(), ..RouteConfig::default() }
    }

    #[test]
    fn the_first_route_that_fits_counts() {
        let routes = Routes::new(&[
            RouteConfig { meta: [("team".to_owned(), "blue".to_owned())].into(), ..route("blue") },
            RouteConfig { protocol: Some("acolyte".into()), ..route("terminal") },
            RouteConfig { path: Some("/v1/*".into()), principal: Some("ann".into()), ..route("anns") },
        ]);
        let (ann, bob) = (PrincipalId::from("ann"), PrincipalId::from("bob"));
        let from = |protocol, path, principal| Whence { protocol, path, principal };
        let agent = |whence| routes.of_connection(whence).map(|agent| agent.to_string());
        assert_eq!(agent(from("acolyte", "/v1/rpc", &ann)).as_deref(), Some("terminal"));
        assert_eq!(agent(from("asp", "/v1/agent-socket", &ann)).as_deref(), Some("anns"));
        assert_eq!(agent(from("asp", "/v1/agent-socket", &bob)), None);
        assert_eq!(agent(from("asp", "/ws", &ann)), None);

        let asked = |meta| routes.of_request(from("asp", "/ws", &bob), &meta).map(|agent| agent.to_string());
        assert_eq!(asked(json!({"team": "blue", "x": 1})).as_deref(), Some("blue"));
        assert_eq!(asked(json!({"team": "red"})), None);
        assert_eq!(asked(Value::Null), None);
    }

    #[test]
    fn values_other_than_text_are_compared_as_json() {
        let routes = Routes::new(&[RouteConfig {
            meta: [("tier".to_owned(), "2".to_owned())].into(),
            ..route("two")
        }]);
        let principal = PrincipalId::from("ann");
        let whence = Whence { protocol: "asp", path: "/", principal: &principal };
        assert!(routes.of_request(whence, &json!({"tier": 2})).is_some());
        assert!(routes.of_request(whence, &json!({"tier": "2"})).is_some());
        assert!(routes.of_request(whence, &json!({"tier": 3})).is_none());
    }
}
