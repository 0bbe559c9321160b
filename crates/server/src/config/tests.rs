use std::collections::BTreeSet;

use switchboard_agents::{ButlerConfig, EchoConfig, FunctionConfig, McpConfig, OpenAiConfig, ScriptConfig};
use toml::{Table, Value};

use super::*;

fn load(file: &str, environment: &[(&str, &str)], overrides: &[&str]) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switchboard.toml");
    std::fs::write(&path, file).unwrap();
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(Some(&path), environment, overrides).map_err(|mut error| {
        for problem in &mut error.problems {
            if let Source::File(path) = &mut problem.source {
                *path = "switchboard.toml".into();
            }
        }
        error
    })
}

fn error(file: &str, environment: &[(&str, &str)], overrides: &[&str]) -> String {
    match load(file, environment, overrides) {
        Ok(_) => panic!("no error in {file} {environment:?} {overrides:?}"),
        Err(error) => error.to_string(),
    }
}

/// The dotted names of everything in a table that is not a table itself.
fn leaves(prefix: &str, table: &Table, names: &mut BTreeSet<String>) {
    for (name, value) in table {
        let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            Value::Table(table) => leaves(&name, table, names),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => drop(names.insert(name)),
        }
    }
}

#[test]
fn nothing_configured_is_the_default() {
    let none: [(String, String); 0] = [];
    let config = Config::load::<&str>(None, none, []).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(config.listen.to_string(), "127.0.0.1:4600");
    assert_eq!(config.store.kind, StoreKind::Sqlite);
    assert!(config.is_development());
}

#[test]
fn the_default_file_is_the_default() {
    let text = Config::default_toml();
    assert_eq!(load(&text, &[], &[]).unwrap(), Config::default(), "{text}");
    let mut written = BTreeSet::new();
    leaves("", &toml::from_str(&text).unwrap(), &mut written);
    let mut defaults = BTreeSet::new();
    leaves("", &Table::try_from(Config::default()).unwrap(), &mut defaults);
    // Lists of tables are only hinted at, so that [[…]] can follow.
    let hinted = [
        "alicia.elites",
        "auth.api_keys",
        "auth.jwt",
        "routes",
        "vip.functions",
        "vip.ice_servers",
        "vip.issuers",
        "vip.providers",
    ];
    let lists = defaults.extract_if(.., |name| hinted.contains(&name.as_str()));
    assert_eq!(lists.count(), hinted.len());
    assert_eq!(written, defaults);
}

#[test]
fn every_key_is_documented() {
    let keys = Config::keys();
    let mut defaults = BTreeSet::new();
    leaves("", &Table::try_from(Config::default()).unwrap(), &mut defaults);
    for name in &defaults {
        assert!(keys.iter().any(|key| key.matches(name)), "{name} is not documented");
    }
    let reference = Config::reference();
    for key in &keys {
        assert!(key.doc.ends_with('.'), "{}: {}", key.name, key.doc);
        assert!(reference.contains(&format!("| `{}` |", key.name)), "{}", key.name);
        let concrete = !key.name.contains("[]") && !key.name.contains("<name>") && key.default.is_some();
        if concrete && key.kind != Kind::Map {
            assert!(defaults.contains(&key.name), "{} is documented, but not read", key.name);
        }
    }
    let variables: BTreeSet<_> = keys.iter().filter_map(Key::environment).collect();
    assert_eq!(variables.len(), keys.iter().filter(|key| key.environment().is_some()).count());
    assert!(variables.contains("SWITCHBOARD_LIMITS__CONNECTIONS_PER_ADDRESS"));
    assert!(
        reference.contains("| `listen` | address | `\"127.0.0.1:4600\"` | `SWITCHBOARD_LISTEN` |"),
        "{reference}"
    );
}

#[test]
fn every_key_of_an_agent_is_documented_and_read() {
    let keys = Config::keys();
    let mut read = BTreeSet::new();
    for agent in [
        AgentConfig::Echo(EchoConfig { deltas: Some(1), ..EchoConfig::default() }),
        AgentConfig::Script(ScriptConfig { path: Some("story.toml".into()), ..ScriptConfig::default() }),
        AgentConfig::OpenAi(OpenAiConfig {
            api_key_env: Some("KEY".into()),
            proxy: Some("http://proxy.test".into()),
            system: Some("Be brief.".into()),
            temperature: Some(0.5),
            max_tokens: Some(1),
            history_tokens: Some(1),
            price_input: Some(1.0),
            price_cached_input: Some(1.0),
            price_output: Some(1.0),
            extra: std::iter::once(("seed".to_owned(), 1.into())).collect(),
            ..OpenAiConfig::default()
        }),
        AgentConfig::Function(FunctionConfig {
            secret_env: Some("SECRET".into()),
            ..FunctionConfig::default()
        }),
        AgentConfig::Butler(ButlerConfig::default()),
        AgentConfig::Demo(DemoConfig { mcp: Some(vec!["files".into()]) }),
        AgentConfig::Off(OffConfig {}),
    ] {
        read.extend(Table::try_from(agent).unwrap().keys().cloned());
    }
    let documented: BTreeSet<_> =
        keys.iter().filter_map(|key| key.name.strip_prefix("agents.<name>.")).map(str::to_owned).collect();
    assert_eq!(documented, read);
}

#[test]
fn every_key_of_an_mcp_server_is_documented_and_read() {
    let server = McpConfig {
        command: Some("tools".into()),
        args: vec!["-x".into()],
        env: [("A".to_owned(), "b".to_owned())].into(),
        env_from: vec!["TOKEN".into()],
        cwd: Some("/".into()),
        url: Some("http://tools.test".into()),
        bearer_env: Some("TOKEN".into()),
        prefix: Some("t.".into()),
        tools: Some(Vec::new()),
        confirm: vec!["wipe".into()],
        ..McpConfig::default()
    };
    let read: BTreeSet<_> = Table::try_from(server).unwrap().keys().cloned().collect();
    let keys = Config::keys();
    let documented: BTreeSet<_> =
        keys.iter().filter_map(|key| key.name.strip_prefix("mcp.<name>.")).map(str::to_owned).collect();
    assert_eq!(documented, read);
}

#[test]
fn functions_routes_and_servers_of_tools_are_checked() {
    let problems = |file: &str| load(file, &[("S", "whsec_short")], &[]).unwrap_err().to_string();
    let function = "[agents.f]\nkind = \"function\"\n";
    assert!(problems(&format!("{function}url = \"https://f.test\"")).contains("agents.f.secret_env"));
    let private = format!("{function}jwt = true\nurl = \"http://169.254.169.254\"");
    assert!(problems(&private).contains("allow_private"), "{}", problems(&private));
    assert!(problems("[[routes]]\nagent = \"nobody\"").contains("routes[0].agent"));
    assert!(problems("[mcp.x]").contains("mcp.x"));
    let unknown = problems("[agents.e]\nkind = \"echo\"\nmcp = [\"x\"]");
    assert!(unknown.contains("agents.e.mcp") && unknown.contains("no MCP server x"), "{unknown}");
    assert!(load(&format!("{function}jwt = true\nurl = \"https://f.test\""), &[], &[]).is_ok());
}

#[test]
fn elites_are_read_and_checked() {
    let elite = |rest: &str| format!("[[alicia.elites]]\nid = \"pa_fast\"\nlabel = \"Fast\"\n{rest}\n");
    let file = elite("agent = \"echo\"\nbest_for = \"Haste\"\nscores = { quality = 0.25 }");
    let config = load(&file, &[], &[]).unwrap();
    let [offer] = &config.alicia.offers()[..] else { panic!("{:?}", config.alicia) };
    assert_eq!((offer.elite.id.as_str(), offer.elite.best_for.as_str()), ("pa_fast", "Haste"));
    assert_eq!(offer.elite.scores.to_array(), [0.5, 0.25, 0.5, 0.5, 0.5, 0.5, 0.5]);
    assert_eq!(offer.agent.as_ref().unwrap().as_str(), "echo");
    let problem = |rest: &str| error(&elite(rest), &[], &[]);
    assert!(problem("agent = \"nobody\"").contains("alicia.elites[0].agent: no agent nobody"));
    assert!(problem("scores = { quality = 1.5 }").contains("alicia.elites[0].scores: 1.5 is out of bounds"));
    assert!(problem(&elite("")).contains("alicia.elites[1].id: pa_fast is used twice"));
    assert!(problem("[[alicia.elites]]\nid = \"a b\"\nlabel = \"B\"").contains("alicia.elites[1].id"));
    let idle = error("", &[], &["alicia.limits.idle_s=30"]);
    assert!(idle.contains("alicia.limits.idle_s: must be longer than ping_s"), "{idle}");
}

#[test]
fn the_key_of_the_embedding_model_is_found_and_needed() {
    let model = ["memory.embeddings.model=m", "memory.embeddings.api_key_env=EMBEDDINGS_KEY"];
    let config = load("", &[("EMBEDDINGS_KEY", "sk-3")], &model).unwrap();
    assert_eq!(config.secrets.find("EMBEDDINGS_KEY"), Some("sk-3"));
    let missing = error("", &[], &model);
    assert!(
        missing.contains("memory.embeddings.api_key_env: the environment variable EMBEDDINGS_KEY is not")
    );
    let error = error("[memory]\ntop = 0\nsimilarity = 1.5\n", &[], &[]);
    assert!(error.contains("memory.top: 0 is") && error.contains("memory.similarity: 1.5 is"), "{error}");
}

#[test]
fn what_cannot_change_while_the_server_runs_is_told() {
    let old = Config::default();
    let new =
        load("agent = \"echo\"\n[limits]\nmailbox = 7\n[agents.more]\nkind = \"echo\"\n", &[], &[]).unwrap();
    assert_eq!(old.differences(&new), ["limits"]);
    assert!(old.differences(&old).is_empty());
}

#[test]
fn later_sources_override_earlier_ones() {
    let file = "listen = \"127.0.0.1:1\"\n[limits]\nconnections = 1\nmailbox = 1\nring_events = 1\n";
    let environment =
        [("SWITCHBOARD_LIMITS__MAILBOX", "2"), ("SWITCHBOARD_LIMITS__RING_EVENTS", "2"), ("HOME", "/")];
    let config = load(file, &environment, &["limits.ring_events=3"]).unwrap();
    assert_eq!(config.listen.port(), 1);
    assert_eq!((config.limits.connections, config.limits.mailbox, config.limits.ring_events), (1, 2, 3));
    assert_eq!(config.limits.resident_sessions, LimitsConfig::default().resident_sessions);
}

#[test]
fn variables_and_flags_take_every_kind_of_value() {
    let environment = [
        ("SWITCHBOARD_DATA_DIR", "/var/lib/switchboard"),
        ("SWITCHBOARD_ALLOWED_ORIGINS", "https://a.test, https://b.test"),
        ("SWITCHBOARD_TRUSTED_PROXIES", "[\"10.0.0.1\"]"),
        ("SWITCHBOARD_STORE__SYNCHRONOUS", "full"),
        ("SWITCHBOARD_ASP__WS_ALIAS", "true"),
        ("SWITCHBOARD_AIP__ENABLED", "false"),
        ("SWITCHBOARD_LIMITS__CONNECTIONS", "1_000"),
        ("SWITCHBOARD_AGENTS__GPT__KIND", "openai"),
        ("SWITCHBOARD_AGENTS__GPT__API_KEY_ENV", "SWITCHBOARD_OPENAI_KEY"),
        ("SWITCHBOARD_AGENTS__GPT__MODEL", "gpt"),
        ("SWITCHBOARD_AGENTS__GPT__TEMPERATURE", "0.5"),
        ("SWITCHBOARD_AGENTS__DEMO__API_KEY_ENV", "OTHER_KEY"),
        ("SWITCHBOARD_AGENTS__DEMO__KIND", "openai"),
        ("SWITCHBOARD_AGENTS__DEMO__MODEL", "gpt"),
        ("OTHER_KEY", "sk-2"),
        ("SWITCHBOARD_AGENTS__ECHO__CHUNK", "7"),
        ("SWITCHBOARD_OPENAI_KEY", "sk-1"),
        ("SWITCHBOARD_CONFIG", "elsewhere.toml"),
    ];
    let overrides = [
        "auth.api_keys=[{id = \"a\", key_env = \"KEY_A\", principal = \"ann\", scopes = [\"admin\"]}]",
        "agents.echo.chunk=whole",
        "agent = gpt",
    ];
    let mut environment = environment.to_vec();
    environment.push(("KEY_A", "a-key-of-more-than-twenty-bytes"));
    let config = load("", &environment, &overrides).unwrap();
    assert_eq!(config.allowed_origins, ["https://a.test", "https://b.test"]);
    assert_eq!(config.trusted_proxies.len(), 1);
    assert_eq!(config.store.synchronous, Synchronous::Full);
    assert!(config.asp.ws_alias);
    assert_eq!(config.limits.connections, 1000);
    assert_eq!(config.auth.api_keys[0].principal, "ann");
    assert_eq!(config.secrets.find("KEY_A"), Some("a-key-of-more-than-twenty-bytes"));
    assert_eq!(config.secrets.find("HOME"), None);
    let AgentConfig::OpenAi(gpt) = &config.agents["gpt"] else { panic!("{:?}", config.agents) };
    assert_eq!(gpt.temperature, Some(0.5));
    assert_eq!(gpt.api_key.as_ref().unwrap().reveal(), "sk-1");
    assert!(config.agents.contains_key("echo"), "built-in agents stay");
    let shown = format!("{config:?}");
    assert!(!shown.contains("sk-1") && !shown.contains("more than twenty"), "{shown}");
    assert!(!toml::to_string(&config).unwrap().contains("sk-1"));
}

#[test]
fn an_agent_that_changes_its_kind_keeps_nothing() {
    let config = load("[agents.echo]\nkind = \"script\"\npath = \"story.toml\"\n", &[], &[]).unwrap();
    assert!(matches!(config.agents["echo"], AgentConfig::Script(_)));
    let config = load("", &[], &["agents.echo.kind=off"]).unwrap();
    assert_eq!(config.agents["echo"], AgentConfig::Off(OffConfig {}));
    assert_eq!(
        error("agent = \"echo\"\n[agents.echo]\nkind = \"off\"", &[], &[]),
        "switchboard.toml: agent: no agent echo: expected one of butler, demo"
    );
}

#[test]
fn errors_name_source_key_and_expectation() {
    let table = [
        (
            error("listen = 4600", &[], &[]),
            "switchboard.toml: listen: invalid type: integer `4600`, expected socket address",
        ),
        (
            error("[limits]\nconnections = \"many\"", &[], &[]),
            "switchboard.toml: limits.connections: invalid type: string \"many\", expected usize",
        ),
        (
            error("[limits]\nconections = 1", &[], &[]),
            "switchboard.toml: limits.conections: unknown field `conections`, expected one of",
        ),
        (
            error("lisssten = 1", &[], &[]),
            "switchboard.toml: lisssten: unknown field `lisssten`, expected one of `listen`",
        ),
        (
            error("[store]\nkind = \"mysql\"", &[], &[]),
            "switchboard.toml: store.kind: unknown variant `mysql`, expected `sqlite` or `memory`",
        ),
        (
            error("[[auth.jwt]]\nissuer = \"i\"\nalgorithm = \"none\"", &[], &[]),
            "switchboard.toml: auth.jwt[0].algorithm: unknown variant `none`, expected one of `HS256`",
        ),
        (error("[agents.x]\nmodel = \"m\"", &[], &[]), "switchboard.toml: agents.x: missing field `kind`"),
        (
            error("[agents.x]\nkind = \"openai\"\nmodle = \"m\"", &[], &[]),
            "switchboard.toml: agents.x: unknown field `modle`, expected one of `base_url`",
        ),
        (error("a = 1\nb = = 2", &[], &[]), "switchboard.toml: not TOML, line 2, column 5: "),
        (
            error("", &[("SWITCHBOARD_LIMITS__CONECTIONS", "1")], &[]),
            "environment SWITCHBOARD_LIMITS__CONECTIONS: limits.conections: no such key; did you mean limits.connections?",
        ),
        (
            error("", &[("SWITCHBOARD_WHATEVER", "1")], &[]),
            "environment SWITCHBOARD_WHATEVER: whatever: no such key; `switchboard config doc` lists all",
        ),
        (
            error("", &[("SWITCHBOARD_LIMITS__CONNECTIONS", "many")], &[]),
            "environment SWITCHBOARD_LIMITS__CONNECTIONS: limits.connections: expected a whole number",
        ),
        (
            error("", &[("SWITCHBOARD_LIMITS__CONNECTIONS", "-1")], &[]),
            "environment SWITCHBOARD_LIMITS__CONNECTIONS: limits.connections: invalid value: integer `-1`, expected usize",
        ),
        (
            error("", &[("SWITCHBOARD_LISTEN", "here")], &[]),
            "environment SWITCHBOARD_LISTEN: listen: invalid socket address syntax, expected an address with a port",
        ),
        (error("", &[], &["limits.connections"]), "flag: limits.connections: expected key=value"),
        (error("", &[], &["asp.enabled=maybe"]), "flag: asp.enabled: expected true or false"),
        (error("", &[], &["asp.enable=true"]), "flag: asp.enable: no such key; did you mean asp.enabled?"),
        (error("", &[], &["auth.api_keys=oops"]), "flag: auth.api_keys: expected a list of tables"),
    ];
    for (error, expected) in table {
        assert!(error.starts_with(expected), "{error}\n  is not\n{expected}");
    }
}

#[test]
fn a_missing_file_is_an_error() {
    let none: [(String, String); 0] = [];
    let error = Config::load::<&str>(Some("no/such/file.toml".as_ref()), none, []).unwrap_err().to_string();
    assert!(error.starts_with("no/such/file.toml: cannot be read: "), "{error}");
}

#[test]
fn errors_do_not_quote_the_file() {
    let error = error("[auth]\napi_keys = [{hash = \"5ec2e7\" oops}]", &[], &[]);
    assert!(!error.contains("5ec2e7"), "{error}");
}

#[test]
fn all_problems_are_told_at_once_and_blamed_on_their_source() {
    let error = error(
        "[asp.limits]\nwindow = 1\n",
        &[("SWITCHBOARD_ASP__LIMITS__HEARTBEAT_S", "1")],
        &["limits.mailbox=0"],
    );
    assert_eq!(
        error,
        "flag: limits.mailbox: 0 is out of bounds: expected 1 to 10000000\n\
         switchboard.toml: asp.limits.window: 1 is out of bounds: expected 16384 to 16777216\n\
         environment SWITCHBOARD_ASP__LIMITS__HEARTBEAT_S: asp.limits.heartbeat_s: 1 is out of bounds: expected 5 to 300"
    );
}

#[test]
fn exposure_is_refused() {
    let key = "[[auth.api_keys]]\nid = \"a\"\nprincipal = \"ann\"\nhash = \"";
    let key = format!("{key}{}\"\n", "0".repeat(64));
    let tls = "[tls]\nterminated_elsewhere = true\n";
    let table = [
        ("listen = \"0.0.0.0:1\"\n".to_owned(), "listen: 0.0.0.0:1 is not loopback: configure auth.api_keys"),
        (format!("listen = \"[::]:1\"\n{key}"), "tls: [::]:1 is not loopback: set tls.cert and tls.key"),
        (
            format!("listen = \"192.0.2.1:1\"\n{tls}[auth]\ndevelopment = true\n{key}"),
            "auth.development: must be off while listening on 192.0.2.1:1",
        ),
        ("[auth]\ndevelopment = false\n".to_owned(), "auth: nobody could connect"),
        (format!("[auth]\ndevelopment = true\n{key}"), "auth.development: must be off when"),
        ("[tls]\ncert = \"c\"\n".to_owned(), "tls.key: must be given together with tls.cert"),
        ("[tls]\nkey = \"k\"\n".to_owned(), "tls.cert: must be given together with tls.key"),
    ];
    for (file, expected) in table {
        let error = error(&file, &[], &[]);
        assert!(error.contains(expected), "{error}\n  lacks\n{expected}");
    }
    load(&format!("listen = \"0.0.0.0:1\"\n{tls}{key}"), &[], &[]).unwrap();
    load(&format!("listen = \"0.0.0.0:1\"\n[tls]\ncert = \"c\"\nkey = \"k\"\n{key}"), &[], &[]).unwrap();
    let config = load(&key, &[], &[]).unwrap();
    assert!(!config.is_development(), "a key ends development mode");
}

/// A key with every mark that keys may have.
const TOKEN: &str = "Az09!#$%&'*+-.^_`|~Az09";

#[test]
fn credentials_are_checked() {
    let secret = [("SECRET", "a secret of at least thirty-two bytes"), ("SHORT", "short"), ("TOKEN", TOKEN)];
    let jwt = |rest: &str| format!("[[auth.jwt]]\nissuer = \"i\"\naudience = \"a\"\n{rest}\n");
    let key = |rest: &str| format!("[[auth.api_keys]]\nid = \"a\"\nprincipal = \"ann\"\n{rest}\n");
    let hash = format!("hash = \"{}\"", "0".repeat(64));
    let hs256 = "algorithm = \"HS256\"\nsecret_env = \"SECRET\"";
    let table = [
        (key(""), "auth.api_keys[0]: expected exactly one of hash and key_env"),
        (key(&format!("{hash}\nkey_env = \"SECRET\"")), "auth.api_keys[0]: expected exactly one of"),
        (key("hash = \"abc\""), "auth.api_keys[0].hash: expected the SHA-256"),
        (key("key_env = \"NONE\""), "auth.api_keys[0].key_env: the environment variable NONE is not set"),
        (key("key_env = \"SHORT\""), "auth.api_keys[0].key_env: SHORT is too short to be secret"),
        (
            key("key_env = \"SECRET\""),
            "auth.api_keys[0].key_env: SECRET may hold only letters, digits and !#$",
        ),
        (key(&format!("{hash}\nscopes = [\"amdin\"]")), "auth.api_keys[0].scopes: amdin is no scope"),
        (key(&hash) + &key(&hash), "auth.api_keys[1].id: a is used twice"),
        (format!("[[auth.api_keys]]\n{hash}"), "auth.api_keys[0].id: is required"),
        (format!("[[auth.api_keys]]\n{hash}"), "auth.api_keys[0].principal: is required"),
        (jwt(""), "auth.jwt[0].algorithm: is required"),
        (
            jwt("algorithm = \"HS256\""),
            "auth.jwt[0]: expected exactly one of secret_env, public_key and jwks",
        ),
        (
            jwt("algorithm = \"HS256\"\npublic_key = \"k\""),
            "auth.jwt[0].algorithm: HS algorithms need secret_env",
        ),
        (jwt("algorithm = \"HS256\"\njwks = \"k\""), "auth.jwt[0].algorithm: HS algorithms need secret_env"),
        (jwt("algorithm = \"RS256\"\nsecret_env = \"SECRET\""), "auth.jwt[0].algorithm: HS algorithms need"),
        (jwt("algorithm = \"HS256\"\nsecret_env = \"SHORT\""), "auth.jwt[0].secret_env: SHORT is too short"),
        (
            jwt("algorithm = \"RS256\"\npublic_key = \"k\"\njwks = \"j\""),
            "auth.jwt[0]: expected exactly one of",
        ),
        (jwt(&format!("{hs256}\nnamespace = \"a|b\"")), "auth.jwt[0].namespace: must not contain |"),
        (
            jwt(hs256) + "[[auth.jwt]]\nissuer = \"j\"\naudience = \"a\"\nnamespace = \"i\"\n" + hs256,
            "auth.jwt[1].namespace: i belongs to i: two issuers must not share their principals",
        ),
        (format!("[[auth.jwt]]\n{hs256}"), "auth.jwt[0].audience: is required"),
    ];
    for (file, expected) in table {
        let error = error(&file, &secret, &[]);
        assert!(error.contains(expected), "{error}\n  lacks\n{expected}");
        assert!(!error.contains("thirty-two"), "{error}");
    }
    load(&(jwt(hs256) + &jwt(hs256) + &key(&hash)), &secret, &[]).unwrap();
    load(&key("key_env = \"TOKEN\""), &secret, &[]).unwrap();
    load(&key("key_env = \"SECRET\""), &secret, &["acolyte.enabled=false"]).unwrap();
}

#[test]
fn bounds_are_checked() {
    let table = [
        ("asp.limits.max_payload=16777217", "asp.limits.max_payload: "),
        ("asp.limits.max_inflight=1025", "asp.limits.max_inflight: "),
        ("asp.limits.max_inflight_bare=0", "asp.limits.max_inflight_bare: "),
        ("asp.limits.window=16383", "asp.limits.window: "),
        ("asp.limits.heartbeat_s=301", "asp.limits.heartbeat_s: "),
        ("asp.limits.dead_s=30", "asp.limits.dead_s: must be longer than heartbeat_s"),
        ("asp.limits.resume_s=601", "asp.limits.resume_s: "),
        ("limits.principal_turns_burst=0", "limits.principal_turns_burst: "),
        ("asp.limits.bytes_burst=1024", "asp.limits.bytes_burst: must be at least max_message"),
        ("asp.limits.frames_per_s=0", "asp.limits.frames_per_s: "),
        ("limits.connections=0", "limits.connections: "),
        ("session.running_turns=0", "session.running_turns: "),
        ("allowed_origins=app.test", "allowed_origins: app.test is no origin"),
        ("allowed_origins=https://app.test/", "allowed_origins: https://app.test/ is no origin"),
        ("acolyte.model=", "acolyte.model: must not be empty"),
        ("allowed_hosts=a b", "allowed_hosts: a b is no host name"),
        ("telemetry.log_level=loud", "telemetry.log_level: expected a level"),
        ("telemetry.log_level=info,axum=loud", "telemetry.log_level: expected a level"),
        ("telemetry.log_level=", "telemetry.log_level: expected a level"),
        ("agent=nobody", "agent: no agent nobody: expected one of butler, demo, echo"),
        ("data_dir=", "data_dir: must not be empty"),
        ("agents.gpt.kind=openai", "agents.gpt.model: is required"),
        ("agents.a b.kind=echo", "agents.a b: expected a name of 1 to 64"),
    ];
    for (flag, expected) in table {
        let error = error("", &[], &[flag]);
        assert!(error.contains(expected), "{error}\n  lacks\n{expected}");
    }
    for key in ["price_input", "price_cached_input", "price_output"] {
        let price = format!("agents.gpt.{key}=-0.5");
        let error = error("", &[], &["agents.gpt.kind=openai", "agents.gpt.model=m", &price]);
        assert!(error.contains(&format!("agents.gpt.{key}: -0.5 is out of bounds")), "{error}");
    }
    load(
        "",
        &[],
        &["asp.limits.resume_s=0", "asp.limits.window=16_384", "telemetry.log_level=info,axum=warn"],
    )
    .unwrap();
}

#[test]
fn vip_is_checked() {
    let secrets =
        [("SECRET", "a secret of at least thirty-two bytes"), ("SHORT", "short"), ("PROVIDER_KEY", "sk-9")];
    let issuer = |rest: &str| format!("[[vip.issuers]]\nissuer = \"https://shop.test\"\n{rest}\n");
    let hs256 = "algorithms = [\"HS256\"]\nsecret_env = \"SECRET\"";
    let provider = |rest: &str| format!("[[vip.providers]]\nid = \"house\"\nmodel = \"m\"\n{rest}\n");
    let function =
        |rest: &str| format!("[[vip.functions]]\nname = \"pay\"\nurl = \"https://f.test\"\n{rest}\n");
    let table = [
        ("[vip]\nagent = \"nobody\"".to_owned(), "vip.agent: no agent nobody"),
        ("[vip]\npublic_url = \"voice.test\"".to_owned(), "vip.public_url: expected an origin"),
        ("[vip]\npublic_url = \"https://voice.test/path\"".to_owned(), "vip.public_url: expected an origin"),
        ("[vip]\nissuer = \"\"".to_owned(), "vip.issuer: must not be empty"),
        (
            "[vip]\ndevelopment_secret_env = \"SHORT\"".to_owned(),
            "vip.development_secret_env: SHORT is too short",
        ),
        ("[vip.prompts.a]".to_owned(), "vip.prompts.a.instructions: is required"),
        (issuer(""), "vip.issuers[0].algorithms: is required"),
        (issuer("algorithms = [\"none\"]"), "vip.issuers[0].algorithms"),
        (
            issuer("algorithms = [\"HS256\"]\nsecret_env = \"SHORT\""),
            "vip.issuers[0].secret_env: SHORT is too",
        ),
        (
            issuer("algorithms = [\"HS256\"]\nsecret_env = \"NONE\""),
            "the environment variable NONE is not set",
        ),
        (issuer(hs256) + &issuer(hs256), "vip.issuers[1].issuer: https://shop.test is used twice"),
        (
            issuer(hs256) + "[[vip.issuers]]\nissuer = \"j\"\nnamespace = \"https://shop.test\"\n" + hs256,
            "vip.issuers[1].namespace: https://shop.test belongs to https://shop.test",
        ),
        (provider("ttl_s = 5"), "vip.providers[0].ttl_s: 5 is out of bounds"),
        (provider("ttl_s = 61"), "vip.providers[0].ttl_s: 61 is out of bounds: expected 10 to 60"),
        (
            provider("adapter = \"openai-realtime-v1\"\nttl_s = 601"),
            "vip.providers[0].ttl_s: 601 is out of bounds: expected 10 to 600",
        ),
        (provider("timeout_ms = 60000"), "vip.providers[0].timeout_ms: 60000 is out of bounds"),
        (provider("") + &provider(""), "vip.providers[1].id: house is used twice"),
        (function("max_answer_bytes = 0"), "vip.functions[0].max_answer_bytes: 0 is out of bounds"),
        (function("") + &function(""), "vip.functions[1].name: pay is used twice"),
        ("[[vip.ice_servers]]\nurls = [\"https://x\"]".to_owned(), "vip.ice_servers[0].urls: expected"),
        ("[[vip.ice_servers]]".to_owned(), "vip.ice_servers[0].urls: expected"),
        ("[vip.webrtc]\npeers = 0".to_owned(), "vip.webrtc.peers: 0 is out of bounds"),
        (
            "[vip.limits]\ntoken_s = 7200".to_owned(),
            "vip.limits.token_s: 7200 is out of bounds: expected 60 to 3600",
        ),
        ("[vip.limits]\ndevelopment_s = 601".to_owned(), "vip.limits.development_s: 601 is out of bounds"),
        ("[vip.limits]\nresume_s = 601".to_owned(), "vip.limits.resume_s: 601 is out of bounds"),
        ("[voice]\nhear_timeout_ms = 1".to_owned(), "voice.hear_timeout_ms: 1 is out of bounds"),
        ("[voice]\nrecognitions = 0".to_owned(), "voice.recognitions: 0 is out of bounds"),
        ("[voice]\nrecogniser = \"endpoint\"".to_owned(), "voice.recogniser: needs speech.recognition.model"),
        ("[voice]\nsynthesiser = \"endpoint\"".to_owned(), "voice.synthesiser: needs voice.synthesis.model"),
        ("[voice]\nsynthesiser = \"siri\"".to_owned(), "voice.synthesiser: unknown variant `siri`"),
    ];
    for (file, expected) in table {
        let error = error(&file, &secrets, &[]);
        assert!(error.contains(expected), "{error}\n  lacks\n{expected}");
        assert!(!error.contains("thirty-two"), "{error}");
    }
    let file =
        issuer(hs256) + &provider("api_key_env = \"PROVIDER_KEY\"") + &function("token_env = \"SHORT\"");
    let config = load(&file, &secrets, &["vip.webrtc.listen=0.0.0.0:4601"]).unwrap();
    assert_eq!(config.secrets.find("PROVIDER_KEY"), Some("sk-9"));
    assert_eq!(config.secrets.find("SHORT"), Some("short"));
    assert_eq!(config.webrtc_listen().to_string(), "0.0.0.0:4601");
}

#[test]
fn development_of_vip_is_that_of_the_server_unless_it_is_said() {
    let key = format!("[[auth.api_keys]]\nid = \"a\"\nprincipal = \"ann\"\nhash = \"{}\"\n", "0".repeat(64));
    let config = load("", &[], &[]).unwrap();
    assert!(config.allows_vip_development() && config.shows_demo());
    assert_eq!(config.webrtc_listen().to_string(), "127.0.0.1:0");
    assert_eq!(config.models_dir().to_str(), Some("switchboard-data/models"));
    let config = load(&key, &[], &[]).unwrap();
    assert!(!config.allows_vip_development() && !config.shows_demo());
    let config = load(&key, &[], &["vip.allow_development=true", "voice.models_dir=/opt/models"]).unwrap();
    assert!(config.allows_vip_development() && !config.shows_demo());
    assert_eq!(config.models_dir().to_str(), Some("/opt/models"));
}
