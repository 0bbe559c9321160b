"""App Tokens of every kind, right and wrong, and the key sets that issuers publish (section 3)."""

import asyncio
import base64
import json
import secrets
import threading
import time

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

HS_SECRET = "an-app-secret-of-more-than-32-bytes-00"
DEVELOPMENT_SECRET = "vip-development-shared-secret-32"
SCOPES = ["session:create", "prompt:inline", "function:call", "history:read"]


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(data):
    return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))


def read(token):
    """Header and claims of a token, unverified."""
    head, body, _ = token.split(".")
    return json.loads(unb64(head)), json.loads(unb64(body))


class Key:
    """A key pair, or a shared secret."""

    def __init__(self, algorithm, secret=None):
        self.kid = f"{algorithm.lower()}-{secrets.token_hex(3)}"
        match algorithm:
            case "ES256":
                self.private, self.maker = ec.generate_private_key(ec.SECP256R1()), ECAlgorithm(ECAlgorithm.SHA256)
            case "EdDSA":
                self.private, self.maker = ed25519.Ed25519PrivateKey.generate(), OKPAlgorithm()
            case "RS256":
                self.private, self.maker = rsa.generate_private_key(65537, 2048), RSAAlgorithm(RSAAlgorithm.SHA256)
            case _:
                self.private, self.maker = secret.encode(), HMACAlgorithm(HMACAlgorithm.SHA256)
        self.algorithm = algorithm

    def sign(self, message):
        return self.maker.sign(message, self.private)

    @property
    def public(self):
        """The JWK that may be published."""
        jwk = self.maker.to_jwk(self.private.public_key(), as_dict=True)
        return {**{name: value for name, value in jwk.items() if name != "key_ops"}, "kid": self.kid, "alg": self.algorithm, "use": "sig"}

    @property
    def pem(self):
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class Issuer:
    """An Application Backend: a name, a key, and who its tokens are for."""

    def __init__(self, name, key, audience=None):
        self.name, self.key, self.audience = name, key, audience

    def claims(self, sub=None, env="production", app_id="shop-web", scopes=SCOPES, **vip):
        now = int(time.time())
        return {
            "iss": self.name,
            "sub": sub or f"user-{secrets.token_hex(6)}",
            "aud": self.audience,
            "iat": now,
            "exp": now + 240,
            "jti": secrets.token_hex(8),
            "vip": {"app_id": app_id, "env": env, "scopes": scopes, **vip},
        }

    def token(self, claims=None, header=None, key=None, **about):
        """A token; a claim or a member of the header that is given as None is left out."""
        key = key or self.key
        claims = {**self.claims(**about), **(claims or {})}
        header = {"alg": key.algorithm, "typ": "vip-app+jwt", "kid": key.kid, **(header or {})}
        strip = lambda members: {name: value for name, value in members.items() if value is not None}
        message = f"{b64(json.dumps(strip(header)).encode())}.{b64(json.dumps(strip(claims)).encode())}"
        signature = b"" if header.get("alg") == "none" else key.sign(message.encode())
        return f"{message}.{b64(signature)}"


class Outside:
    """What the server asks: key sets under paths, a provider, a function. Counts who asks, and can be out of order."""

    def __init__(self):
        self.answers, self.asked, self.broken, self.heard = {}, {}, {}, []

    async def start(self):
        # In a thread of its own, since the checks may be busy.
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        serving = asyncio.run_coroutine_threadsafe(asyncio.start_server(self.serve, "127.0.0.1", 0), loop)
        self.server = await asyncio.wrap_future(serving)
        self.base = "http://127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]
        return self

    def publish(self, path, *jwks):
        self.answers[path] = lambda _: (200, {"keys": list(jwks)})
        return f"{self.base}{path}"

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next((int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:")), 0)
            body = json.loads(await reader.readexactly(length)) if length else None
            path = head.split()[1]
            self.asked[path] = self.asked.get(path, 0) + 1
            self.heard.append((path, head, body))
            status, answer = (500, {}) if self.broken.get(path) else self.answers.get(path, lambda _: (404, {}))(body)
            if asyncio.iscoroutine(answer):
                answer = await answer
            data = json.dumps(answer).encode()
            writer.write(b"HTTP/1.1 %d Answer\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
            await writer.drain()
            writer.close()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
