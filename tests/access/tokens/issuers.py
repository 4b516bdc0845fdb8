"""An outside issuer for tests: oidc-provider with keys that the test holds, so that it can also sign wrong tokens."""

from __future__ import annotations

import base64
import json
import secrets
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from joserfc import jws
from joserfc.jwk import ECKey, KeyParameters, OctKey, OKPKey, RSAKey

from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import free_port, running

Claims = dict[str, Any]
PrivateKey = RSAKey | ECKey | OKPKey

KEY_COUNTER = iter(range(1, 1_000_000))


def make_key(algorithm: str) -> PrivateKey:
    """A new private key for an algorithm, with an id."""
    named: KeyParameters = {"alg": algorithm, "use": "sig", "kid": f"key-{next(KEY_COUNTER)}"}
    if algorithm[:2] in ("RS", "PS"):
        return RSAKey.generate_key(2048, named)
    if algorithm == "Ed25519":
        return OKPKey.generate_key("Ed25519", named)
    return ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm], named)


def encode_part(value: Any) -> str:
    """One part of a compact signature: a JSON value, or bytes, as base64url."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(header: Claims, claims: Any, key: PrivateKey | OctKey) -> str:
    """A compact signature, also with headers and claims that no issuer would write."""
    text = f"{encode_part(header)}.{encode_part(claims)}"
    algorithm = jws.JWSRegistry.algorithms[header["alg"]]
    return f"{text}.{encode_part(algorithm.sign(text.encode(), key))}"


@dataclass
class DpopClient:
    """A sender that holds a key and makes proofs with it."""

    key: ECKey = field(default_factory=lambda: ECKey.generate_key("P-256"))

    @property
    def public(self) -> Claims:
        return dict(self.key.as_dict(private=False)) | {}

    @property
    def thumbprint(self) -> str:
        return self.key.thumbprint()

    def header(self) -> Claims:
        public = {name: self.public[name] for name in ("kty", "crv", "x", "y")}
        return {"typ": "dpop+jwt", "alg": "ES256", "jwk": public}

    def claims(self, method: str, url: str, token: str | None = None) -> Claims:
        claims: Claims = {"jti": secrets.token_hex(8), "htm": method, "htu": url, "iat": int(time.time())}
        if token is not None:
            claims["ath"] = encode_part(sha256(token.encode()).digest())
        return claims

    def prove(self, method: str, url: str, token: str | None = None) -> str:
        """A right proof for one request."""
        return sign(self.header(), self.claims(method, url, token), self.key)


@dataclass
class Issuer:
    """A running oidc-provider. `keys` are its private keys, the first one signs."""

    url: str
    keys_file: Path
    keys: list[PrivateKey]

    def write_keys(self) -> None:
        rows = [key.as_dict(private=True) for key in self.keys]
        self.keys_file.write_text(json.dumps({"keys": rows}), "utf-8")

    def rotate(self, key: PrivateKey) -> None:
        """Sign with a new key from now on; the old keys stay in the published set."""
        self.keys.insert(0, key)
        self.write_keys()
        self.control("keys")

    def control(self, name: str) -> Any:
        request = urllib.request.Request(f"{self.url}/test/{name}", method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def count(self, path: str) -> int:
        """How many requests this path got."""
        return int(self.control("counts").get(path, 0))

    def get_token(self, resource: str, scope: str = "mcp:use", dpop: DpopClient | None = None) -> str:
        """A token that oidc-provider itself makes, for the client `robot`."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        headers = {"Authorization": "Basic " + base64.b64encode(b"robot:robot-secret").decode()}
        url = f"{self.url}/token"
        if dpop is not None:
            headers["DPoP"] = dpop.prove("POST", url)
        request = urllib.request.Request(url, urlencode(form).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(json.load(answer)["access_token"])

    def header(self, **changes: Any) -> Claims:
        """The header of a right token; a change to None removes a member."""
        named = self.keys[0].as_dict(private=False)
        return changed({"typ": "at+jwt", "alg": named["alg"], "kid": named["kid"]}, changes)

    def claims(self, resource: str, **changes: Any) -> Claims:
        """The claims of a right token; a change to None removes a claim."""
        now = int(time.time())
        right = {"iss": self.url, "sub": "ann", "aud": resource, "exp": now + 600, "iat": now, "jti": "one"}
        return changed(right | {"client_id": "tests", "scope": "mcp:use", "groups": ["research"]}, changes)

    def mint(self, resource: str, header: Claims | None = None, **changes: Any) -> str:
        """A token signed with the issuer's own key, with changed claims and header."""
        return sign(self.header(**(header or {})), self.claims(resource, **changes), self.keys[0])


def changed(values: Claims, changes: Claims) -> Claims:
    """Values with some replaced, and those removed whose replacement is None."""
    return {name: value for name, value in (values | changes).items() if value is not None}


@contextmanager
def running_issuer(
    folder: Path, algorithm: str = "ES256", seconds: int = 600, more: Path | None = None, port: int = 0
) -> Iterator[Issuer]:
    """An issuer while it runs; its access tokens end after `seconds`.

    `more` is a file with further clients and the claims of people; `port` is a free one by default.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    issuer = Issuer(f"http://127.0.0.1:{port}", folder / "keys.json", [make_key(algorithm), make_key("RS256")])
    issuer.write_keys()
    program = ROOT / "tests/access/tokens/issuer.mjs"
    command = [str(NODE), str(program), str(PACKAGES), str(port), str(issuer.keys_file), str(seconds)]
    command += [str(more)] if more is not None else []
    with running(command, f"{issuer.url}/.well-known/openid-configuration", folder):
        yield issuer
