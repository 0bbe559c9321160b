"""Who may create a session: sections 2.3, 2.4 and 3."""

from vip_tokens import *
from vip_world import *


async def vip_001_a_valid_production_request_is_answered_with_201(world):
    began = time.time()
    answer = await world.post(issuer="es", metadata={"trace": "a-1"})
    created = answer.json()
    check(CREATED, created, "201")
    equal((created["environment"], created["mode"], created["issued_in_development"]), ("production", "external", False), "effective values")
    ensure(began - 2 < created["expires_at"] - created["limits"]["max_session_s"] < time.time() + 2, "expires_at", created)
    ensure(595 <= created["session_token_expires_at"] - began <= 605, "session_token_expires_at", created)
    ensure(created["session_id"] in created["transport"]["websocket"]["url"], "url", created)
    equal(created["audio"], {"input": "pcm16/16000", "output": "pcm16/24000", "frame_ms": 20, "framing": "binary"}, "audio")
    equal(created["turn_detection"], {"type": "client_vad", "silence_ms": 700, "no_speech_ms": 8000, "interrupt_response": True, "follow_up_listen": True}, "turn_detection")
    ensure("no-store" in answer.headers.get("cache-control", ""), "a token that caches may keep:", answer.headers)
    header, claims = read(created["session_token"])
    check(SESSION_CLAIMS, claims, "session token")
    equal(header.get("typ"), "vip-session+jwt", "typ")
    ensure(header.get("alg") in ("ES256", "EdDSA") and "kid" in header, "header", header)
    equal((claims["sid"], claims["app"], claims["env"], claims["mode"], claims["exp"] - claims["iat"]), (created["session_id"], "shop-web", "production", "external", 600), "claims")
    equal(claims["iss"], world.discovery["issuer"], "iss")
    keys = (await world.ask("GET", world.discovery["jwks_uri"], 200)).json()["keys"]
    import jwt

    key = jwt.PyJWK(next(key for key in keys if key["kid"] == header["kid"]), algorithm=header["alg"])
    jwt.decode(created["session_token"], key.key, algorithms=[header["alg"]], audience="vip-transport")
    for key in keys:
        ensure(not {"d", "p", "q", "k"} & set(key), "a secret is published:", sorted(key))


async def vip_002_production_without_a_token_is_401(world):
    await world.post(401, "AUTH_TOKEN_MISSING", token=None)
    await world.post(401, "AUTH_TOKEN_MISSING", token=None, environment=None)
    for header in ("Bearer", "Basic dXNlcjpwdw==", "Token x"):
        await world.post(401, ("AUTH_TOKEN_MISSING", "AUTH_TOKEN_INVALID"), token=None, headers={"Authorization": header})


async def vip_003_alg_none_is_refused_in_every_environment(world):
    for environment in ("production", "development"):
        for alg in ("none", "None", "NONE"):
            for issuer in (world.house.issuers["hs"], world.house.issuers["es"], world.house.development):
                token = issuer.token(header={"alg": alg}, env=environment)
                for one in (token, token.rsplit(".", 1)[0] + "."):
                    answer = await world.post(401, token=one, environment=environment)
                    known = issuer is not world.house.development or environment == "development"
                    if known and alg == "none":
                        equal(answer.json()["error"]["code"], "AUTH_ALG_FORBIDDEN", f"{alg} in {environment} of {issuer.name}")


async def vip_004_another_typ_is_refused(world):
    for typ in (None, "JWT", "vip-session+jwt", "at+jwt", "", "VIP-APP+JWT2"):
        await world.post(401, "AUTH_TOKEN_INVALID", token=world.token(header={"typ": typ}))
    session = await world.create()
    await world.post(401, "AUTH_TOKEN_INVALID", token=session.token)


async def vip_005_algorithms_outside_the_allow_list_are_refused(world):
    narrow, rs = world.house.issuers["narrow"], world.house.rs_of_narrow
    await world.post(201, token=narrow.token())
    await world.post(401, "AUTH_ALG_FORBIDDEN", token=narrow.token(key=rs))
    # Key confusion: the published key as an HMAC secret, in every spelling.
    for secret in (narrow.key.pem, narrow.key.pem.strip(), json.dumps(narrow.key.public).encode()):
        confused = Key("HS256", secret.decode())
        # PyJWT refuses such secrets, which is why the bytes are signed here.
        import hashlib, hmac

        confused.sign = lambda message, secret=secret: hmac.new(secret, message, hashlib.sha256).digest()
        confused.kid = narrow.key.kid
        await world.post(401, "AUTH_ALG_FORBIDDEN", token=narrow.token(key=confused))
    shared = Key("HS256", "secret-secret-secret-secret-secret")
    shared.kid = "shared"
    await world.post(401, "AUTH_ALG_FORBIDDEN", token=narrow.token(key=shared))
    # The other way round: an asymmetric token of an issuer with a secret.
    await world.post(401, "AUTH_ALG_FORBIDDEN", token=world.house.issuers["hs"].token(key=narrow.key))
    # A key of another issuer.
    es, ed = world.house.issuers["es"], world.house.issuers["ed"]
    await world.post(401, "AUTH_TOKEN_INVALID", token=es.token(key=narrow.key))
    await world.post(401, "AUTH_TOKEN_INVALID", token=es.token(key=narrow.key, header={"kid": es.key.kid}))
    await world.post(401, token=ed.token(key=es.key))
    for alg in ("HS384", "ES384", "RS512", "PS256", "hs256", "", 7):
        await world.post(401, ("AUTH_ALG_FORBIDDEN", "AUTH_TOKEN_INVALID"), token=world.token(header={"alg": alg}))


async def vip_006_a_jti_is_good_once(world):
    token = world.token()
    await world.post(201, token=token)
    await world.post(401, "AUTH_TOKEN_REPLAYED", token=token)
    claims = world.house.issuers["hs"].claims()
    await world.post(201, token=world.token(claims=claims))
    await world.post(401, "AUTH_TOKEN_REPLAYED", token=world.token(claims={**claims, "sub": "another", "exp": claims["exp"] + 10}))
    # Another issuer counts for itself.
    await world.post(201, token=world.token("es", claims={"jti": claims["jti"]}))
    # All at once.
    token = world.token()
    answers = await asyncio.gather(*(world.post((201, 401), token=token) for _ in range(8)))
    equal(sorted(answer.status_code for answer in answers), [201] + 7 * [401], "eight at once")
    # Development tokens too.
    token = world.house.development.token(env="development")
    await world.post(201, token=token, environment="development")
    await world.post(401, "AUTH_TOKEN_REPLAYED", token=token, environment="development")


async def vip_006_a_token_that_was_refused_is_not_used_up_by_a_bad_body(world):
    token = world.token()
    await world.ask("POST", "/v1/vip/sessions", 400, "PROTO_MALFORMED", b"{", token)
    await world.post(201, token=token)


async def vip_007_tokens_that_live_too_long_are_refused(world):
    now = int(time.time())
    await world.post(201, token=world.token(claims={"iat": now, "exp": now + 300}))
    for lifetime in (301, 3600, 10**9):
        await world.post(401, ("AUTH_TOKEN_INVALID", "AUTH_TOKEN_EXPIRED"), token=world.token(claims={"iat": now, "exp": now + lifetime}))


async def vip_007_times_are_honoured_with_60_s_of_skew(world):
    now = int(time.time())
    await world.post(201, token=world.token(claims={"iat": now - 250, "exp": now - 30}))
    await world.post(401, "AUTH_TOKEN_EXPIRED", token=world.token(claims={"iat": now - 300, "exp": now - 75}))
    await world.post(201, token=world.token(claims={"nbf": now + 30}))
    await world.post(401, "AUTH_TOKEN_EXPIRED", token=world.token(claims={"nbf": now + 90}))
    await world.post(401, "AUTH_TOKEN_EXPIRED", token=world.token(claims={"iat": now + 90, "exp": now + 200}))
    for wrong in ({"exp": None}, {"iat": None}, {"exp": "soon"}, {"exp": -1}, {"iat": -(10**18)}, {"exp": 10**30}, {"exp": now + 0.5, "iat": "x"}):
        await world.post(401, ("AUTH_TOKEN_INVALID", "AUTH_TOKEN_EXPIRED"), token=world.token(claims=wrong))


async def vip_008_four_algorithms_are_accepted(world):
    for name in ("es", "ed", "rs", "hs"):
        created = (await world.post(201, issuer=name)).json()
        check(CREATED, created, name)


async def vip_009_an_unknown_kid_refetches_once_in_30_s(world):
    issuer, keys, path = world.house.issuers["rotating"], world.house.keys, "/rotating"
    await world.post(201, token=issuer.token())
    equal(keys.asked[path], 1, "fetches for the first token")
    for _ in range(3):
        await world.post(201, token=issuer.token())
    equal(keys.asked[path], 1, "fetches while the key is cached")
    await asyncio.sleep(31)
    second, third, unknown = Key("ES256"), Key("ES256"), Key("ES256")
    keys.publish(path, issuer.key.public, second.public)
    answers = await asyncio.gather(*(world.post(201, token=issuer.token(key=second)) for _ in range(4)))
    equal(len(answers), 4, "answers")
    equal(keys.asked[path], 2, "fetches for a new kid")
    keys.publish(path, issuer.key.public, second.public, third.public)
    for key in (unknown, third, unknown):
        await world.post(401, "AUTH_TOKEN_INVALID", token=issuer.token(key=key))
    equal(keys.asked[path], 2, "fetches within 30 s")
    await asyncio.sleep(31)
    await world.post(201, token=issuer.token(key=third))
    equal(keys.asked[path], 3, "fetches after 30 s")


async def vip_009_without_key_sets_there_is_503_but_a_cached_key_is_enough(world):
    await world.post(503, "AUTH_JWKS_UNAVAILABLE", issuer="absent")
    await world.post(201, issuer="stale")
    world.house.keys.broken["/stale"] = True
    await world.post(201, issuer="stale")
    await world.post((401, 503), token=world.house.issuers["stale"].token(key=Key("ES256")))
    await world.post(201, issuer="stale")


async def vip_010_development_can_be_disabled(world):
    strict = world.strict
    await strict.post(403, "AUTH_ENVIRONMENT_FORBIDDEN", token=None, environment="development")
    await strict.post(403, "AUTH_ENVIRONMENT_FORBIDDEN", environment="development")
    token = world.house.issuers["hs"].token(env="development")
    await strict.post(403, "AUTH_ENVIRONMENT_FORBIDDEN", token=token, environment="development")
    # The environment is looked at before the token, and after the body.
    await strict.post(403, "AUTH_ENVIRONMENT_FORBIDDEN", token="rubbish", environment="development")
    await strict.ask("POST", "/v1/vip/sessions", 400, "PROTO_MALFORMED", {"environment": "development"})
    equal(strict.discovery["environments"], ["production"], "environments")
    await strict.post(201)


async def vip_011_development_without_a_token(world):
    answer = await world.post(201, token=None, environment="development")
    created = answer.json()
    check(CREATED, created, "201")
    equal((created["issued_in_development"], created["environment"]), (True, "development"), "relaxed")
    ensure(created["expires_at"] - time.time() <= 601, "a development session may last longer than 600 s")
    equal(read(created["session_token"])[1]["sub"], "dev-anonymous", "sub")
    await world.ask("DELETE", f"/v1/vip/sessions/{created['session_id']}", 204, token=created["session_token"])
    created = (await world.post(201, token=world.house.development.token(env="development", sub="me"), environment="development")).json()
    equal(read(created["session_token"])[1]["sub"], "me", "sub of a self-issued token")
    ensure(created["expires_at"] - time.time() <= 601, "a development session may last longer than 600 s")
    wrong = Key("HS256", "another-secret-that-is-long-enough-0000")
    await world.post(401, token=world.house.development.token(env="development", key=wrong), environment="development")
    await world.post(401, token="rubbish", environment="development")


async def vip_012_environments_have_to_agree(world):
    await world.post(403, "AUTH_ENVIRONMENT_MISMATCH", token=world.token(env="development"))
    await world.post(403, "AUTH_ENVIRONMENT_MISMATCH", token=world.token(env="production"), environment="development")
    await world.post((401, 403), token=world.house.development.token(env="production"))
    await world.post((401, 403), token=world.house.development.token(env="development"))
    await world.post((401, 403), token=world.token(env="staging"))


async def every_wrong_claim_is_refused(world):
    invalid = ("AUTH_TOKEN_INVALID",)
    for claims in ({"sub": None}, {"sub": ""}, {"sub": "x" * 129}, {"sub": 7}, {"aud": None}, {"aud": "https://other.example"}, {"aud": []}, {"aud": ["https://other.example"]}, {"aud": 7}, {"jti": None}, {"jti": ""}, {"jti": 7}, {"vip": None}, {"vip": "x"}, {"vip": []}):
        await world.post(401, invalid, token=world.token(claims=claims))
    await world.post(201, token=world.token(claims={"aud": ["https://other.example", world.discovery["issuer"]]}))
    await world.post(401, "AUTH_ISSUER_UNKNOWN", token=world.token(claims={"iss": "https://nobody.test"}))
    await world.post(401, token=world.token(claims={"iss": None}))
    await world.post(401, "AUTH_ISSUER_UNKNOWN", token=world.token(claims={"iss": "https://hs.test/"}))
    for vip in ({"env": "production", "scopes": ["session:create"]}, {"app_id": "shop-web", "scopes": ["session:create"]}, {"app_id": "x" * 65, "env": "production", "scopes": ["session:create"]}):
        await world.post((401, 403), token=world.token(claims={"vip": vip}))
    for vip in ({"app_id": "shop-web", "env": "production"}, {"app_id": "shop-web", "env": "production", "scopes": []}, {"app_id": "shop-web", "env": "production", "scopes": ["history:read"]}):
        await world.post((401, 403), ("AUTH_SCOPE", "AUTH_TOKEN_INVALID"), token=world.token(claims={"vip": vip}))
    await world.post(403, "AUTH_SCOPE", token=world.token(scopes=["history:read"]))
    await world.post(403, "AUTH_SCOPE", token=world.token(modes=["internal"]), mode="external")
    await world.post(201, token=world.token(modes=["external"]), mode="external")
    await world.post((401, 403), token=world.token(app_id="another-app"))
    await world.post(401, invalid, token=world.token("es", header={"kid": None}))
    await world.post(401, invalid, token=world.token("es", header={"kid": "unknown"}))
    for crit in (["b64"], ["exp"]):
        await world.post(401, invalid, token=world.token(header={"crit": crit, "b64": False}))


async def every_broken_token_is_refused(world):
    good = world.token()
    head, body, signature = good.split(".")
    broken = ["x", "..", "a.b", "a.b.c", good + ".x", f"{head}.{body}", f"{head}.{body}.", f"{head}.{body}.{signature[:-2]}", f"{head}.{body}.{signature}A", f"{head}.{b64(b'[]')}.{signature}", f"{b64(b'{}')}.{body}.{signature}", f"{head}=.{body}.{signature}", "a" * 9000]
    flipped = bytearray(unb64(signature))
    flipped[5] ^= 1
    broken.append(f"{head}.{body}.{b64(bytes(flipped))}")
    claims = read(good)[1]
    broken.append(f"{head}.{b64(json.dumps({**claims, 'sub': 'root'}).encode())}.{signature}")
    for token in broken:
        answer = await world.post((401, 400, 431), token=token)
        if answer.status_code == 401:
            ensure(answer.json()["error"]["code"] in ("AUTH_TOKEN_INVALID", "AUTH_ALG_FORBIDDEN"), token[:40], answer.text)
    await world.post(201, token=good)
    # The vector of the reference is long over, and from nobody that is known here.
    await world.post(401, token=VECTORS["V1"])
    equal(read(VECTORS["V1"])[1]["jti"], "6f1c2d9a", "V1")


async def origins_of_a_token_bind_the_browser(world):
    token = lambda: world.token(origins=[APP_ORIGIN, "https://other.example"])
    answer = await world.post(201, token=token(), headers={"Origin": APP_ORIGIN})
    equal(answer.headers.get("access-control-allow-origin"), APP_ORIGIN, "CORS of an origin that the token names")
    for origin in ("https://evil.example", "http://app.example", "https://app.example:8443", "https://app.example.evil.example", "null", "https://APP.example.evil"):
        answer = await world.post(403, "AUTH_ORIGIN", token=token(), headers={"Origin": origin})
        ensure(answer.headers.get("access-control-allow-origin") in (None,), "CORS for a foreign origin:", answer.headers)
    # Whoever is no browser has no Origin.
    await world.post(201, token=token())


async def a_foreign_origin_without_a_word_in_the_token(world):
    answer = await world.post((201, 403), headers={"Origin": "https://evil.example"})
    ensure(answer.headers.get("access-control-allow-origin") not in ("*", "https://evil.example"), "CORS reflects whoever asks:", answer.headers)
    answer = await world.http.options(world.base + "/v1/vip/sessions", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    ensure("access-control-allow-origin" not in answer.headers, "a preflight of a foreign origin:", answer.headers)
    # A page elsewhere that opens a socket of a session of development.
    session = await world.create(environment="development")
    await world.refused(session, 403, "AUTH_ORIGIN", origin="https://evil.example")


async def a_registered_origin_may_ask_from_a_browser(world):
    """17: CORS on E3 to E10, and the socket."""
    created = (await world.post(201, headers={"Origin": APP_ORIGIN})).json()
    place = f"{world.base}/v1/vip/sessions/{created['session_id']}"
    for method, url in (("POST", f"{world.base}/v1/vip/sessions"), ("GET", place), ("DELETE", place), ("POST", f"{place}/token"), ("GET", f"{place}/history")):
        answer = await world.http.options(url, headers={"Origin": APP_ORIGIN, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,content-type,idempotency-key"})
        ensure(answer.status_code in (200, 204), method, url, answer.status_code)
        equal(answer.headers.get("access-control-allow-origin"), APP_ORIGIN, f"preflight of {method} {url}")
        ensure(method in answer.headers.get("access-control-allow-methods", ""), "methods", answer.headers)
        allowed = answer.headers.get("access-control-allow-headers", "").lower()
        ensure(all(name in allowed for name in ("authorization", "content-type", "idempotency-key")), "headers", answer.headers)
        ensure("origin" in answer.headers.get("vary", "").lower(), "Vary", answer.headers)
    answer = await world.ask("GET", place, 200, token=created["session_token"], headers={"Origin": APP_ORIGIN})
    equal(answer.headers.get("access-control-allow-origin"), APP_ORIGIN, "an answer")
    ensure("x-request-id" in answer.headers.get("access-control-expose-headers", "").lower(), "what scripts may read", answer.headers)
    answer = await world.ask("GET", place, 401, headers={"Origin": APP_ORIGIN})
    equal(answer.headers.get("access-control-allow-origin"), APP_ORIGIN, "a refusal, which a script has to be able to read")
    session = Session(created, world.base)
    stream = await Stream.open(session, origin=APP_ORIGIN)
    await stream.connect()
    await stream.leave()


async def checks_come_in_their_order(world):
    """2.3: body, environment, token, app and origin, version, mode, audio; the first failure wins."""
    none = {"input_formats": ["x/1"], "output_formats": ["x/1"]}
    await world.ask("POST", "/v1/vip/sessions", 400, "PROTO_MALFORMED", {"protocol_versions": ["9.9"]})
    await world.post(401, "AUTH_TOKEN_MISSING", token=None, protocol_versions=["9.9"])
    await world.post(403, token=world.token(app_id="another"), protocol_versions=["9.9"], audio=none)
    await world.post(400, "PROTO_VERSION", protocol_versions=["9.9"], audio=none)
    await world.post(422, "PROTO_AUDIO_FORMAT", audio=none)


async def a_token_can_shorten_the_session(world):
    created = (await world.post(201, token=world.token(max_session_s=120))).json()
    ensure(110 <= created["expires_at"] - time.time() <= 122, "expires_at", created["expires_at"] - time.time())
    created = (await world.post(201, token=world.token(max_session_s=10**6))).json()
    ensure(created["expires_at"] - time.time() <= 14_401, "expires_at is beyond the maximum")
    ensure(created["expires_at"] - time.time() <= created["limits"]["max_session_s"] + 2, "a token may only lower the maximum")


async def instructions_need_development_or_a_scope(world):
    prompt = {"instructions": "Speak like a pirate."}
    await world.post(403, "AUTH_SCOPE", token=world.token(scopes=["session:create"]), prompt=prompt)
    await world.post(201, token=world.token(scopes=["session:create", "prompt:inline"]), prompt=prompt)
    await world.post(201, environment="development", prompt=prompt)
    await world.post(400, "PROTO_MALFORMED", prompt={"instructions": "x" * 16385})


async def ses_quota_bounds_the_sessions_of_a_user(world):
    sub = fresh("busy")
    sessions = [await world.create(token=world.token(sub=sub)) for _ in range(4)]
    answer = await world.post(429, "SES_QUOTA", token=world.token(sub=sub))
    ensure(answer.headers.get("retry-after"), "no Retry-After")
    await world.create(token=world.token(sub=fresh("other")))
    await world.ask("DELETE", f"/v1/vip/sessions/{sessions[0].id}", 204, token=sessions[0].token)
    await world.create(token=world.token(sub=sub))


CHECKS = [check for name, check in list(globals().items()) if asyncio.iscoroutinefunction(check) and check.__module__ == __name__]
PATIENT = [vip_009_an_unknown_kid_refetches_once_in_30_s]
CHECKS = [check for check in CHECKS if check not in PATIENT]
