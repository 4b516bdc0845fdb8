"""Requests whose token or proof is wrong in one place each, signed with the keys of a running issuer."""

from __future__ import annotations

import base64
import hmac
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from joserfc.jwk import OctKey

from tests.access.tokens.issuers import DpopClient, Issuer, encode_part, make_key, sign

RESOURCE = "http://localhost/mcp/echo"
FOREIGN_KEY = make_key("ES256")
SENDER = DpopClient()

Headers = dict[str, str]
Make = Callable[[Issuer], Headers]


@dataclass(frozen=True)
class Case:
    """One wrong request: what is wrong, how it is made, and what the answer has to say."""

    name: str
    make: Make
    reason: str
    error: str = "invalid_token"
    scheme: str = "Bearer"


def bearer(token: str) -> Headers:
    return {"Authorization": f"Bearer {token}"}


def claim(name: str, reason: str, **changes: Any) -> Case:
    """A token of the issuer with one wrong claim; the value may be a function of the issuer."""

    def make(issuer: Issuer) -> Headers:
        values = {key: value(issuer) if callable(value) else value for key, value in changes.items()}
        return bearer(issuer.mint(RESOURCE, **values))

    return Case(name, make, reason)


def header(name: str, reason: str, **changes: Any) -> Case:
    """A token of the issuer with one wrong member of the header."""
    return Case(name, lambda issuer: bearer(issuer.mint(RESOURCE, changes)), reason)


def text(name: str, reason: str, change: Callable[[str], str]) -> Case:
    """A right token whose text is changed."""
    return Case(name, lambda issuer: bearer(change(issuer.mint(RESOURCE))), reason)


def signed_by(name: str, reason: str, make: Callable[[Issuer], str]) -> Case:
    return Case(name, lambda issuer: bearer(make(issuer)), reason)


def proof(
    name: str,
    reason: str,
    header: dict[str, Any] | None = None,
    error: str = "invalid_dpop_proof",
    key: Any = None,
    **changes: Any,
) -> Case:
    """A DPoP proof with one wrong member; a change to None removes it."""

    def make(issuer: Issuer) -> Headers:
        token = issuer.mint(RESOURCE, cnf={"jkt": SENDER.thumbprint})
        claims = SENDER.claims("POST", RESOURCE, token) | changes
        head = SENDER.header() | (header or {})
        wrong = sign(
            {one: value for one, value in head.items() if value is not None},
            {one: value for one, value in claims.items() if value is not None},
            key or SENDER.key,
        )
        return {"Authorization": f"DPoP {token}", "DPoP": wrong}

    return Case(name, make, reason, error, "DPoP")


def now(seconds: int) -> Callable[[Issuer], int]:
    return lambda issuer: int(time.time()) + seconds


def sign_with_public_key(issuer: Issuer, algorithm: str) -> str:
    """A token of HS256 or HS512 whose secret is the issuer's public key: the confusion of algorithms."""
    head = f"{encode_part(issuer.header(alg=algorithm))}.{encode_part(issuer.claims(RESOURCE))}"
    secret = issuer.keys[0].as_pem(private=False)
    return f"{head}.{encode_part(hmac.digest(secret, head.encode(), algorithm.replace('HS', 'sha')))}"


def flip_signature(token: str) -> str:
    """The token with another first character in its signature."""
    head, _, signature = token.rpartition(".")
    return f"{head}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def swap_claims(token: str, **changes: Any) -> str:
    """A token whose claims are changed after it was signed."""
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return f"{head}.{encode_part(claims | changes)}.{signature}"


AUDIENCE = "the audience of the token is not this resource"
EXPIRED, EARLY = "the token is expired", "the token is not valid yet"
ISSUER, TYPE = "the issuer of the token is not", "the type of the token is not at+jwt"
ALGORITHM, NO_KEY = "the algorithm of the token is not accepted", "the issuer has no key with the id"
SIGNATURE, CHARACTERS = "the signature of the token is wrong", "is empty, or has characters that no token has"
OPAQUE, BASE64 = "the token is not a signed JSON object", "one of its parts is not base64url"
URL, METHOD, TIME = "another URL (htu)", "another method (htm)", "within the last 60 seconds (iat)"

TOKENS = [
    claim("aud of another host", AUDIENCE, aud="http://other.example/mcp/echo"),
    claim("aud of another port", AUDIENCE, aud="http://localhost:81/mcp/echo"),
    claim("aud of another scheme", AUDIENCE, aud="https://localhost/mcp/echo"),
    claim("aud of another server", AUDIENCE, aud="http://localhost/mcp/notes"),
    claim("aud of a longer name", AUDIENCE, aud="http://localhost/mcp/echo2"),
    claim("aud of a shorter name", AUDIENCE, aud="http://localhost/mcp/ech"),
    claim("aud below the server", AUDIENCE, aud="http://localhost/mcp/echo/more"),
    claim("aud with a query", AUDIENCE, aud=RESOURCE + "?a=b"),
    claim("aud in upper case", AUDIENCE, aud=RESOURCE.upper()),
    claim("aud with user information", AUDIENCE, aud="http://ann@localhost/mcp/echo"),
    claim("aud is a list of others", AUDIENCE, aud=["a", "b"]),
    claim("aud is the client", AUDIENCE, aud="tests"),
    claim("aud is missing", "the claim aud", aud=None),
    claim("aud is an empty list", "the claim aud", aud=[]),
    claim("aud is a number", "the claim aud", aud=7),
    claim("aud is a list with a number", "the claim aud", aud=[RESOURCE, 7]),
    claim("iss of another issuer", ISSUER, iss="https://other.example"),
    claim("iss with a slash at the end", ISSUER, iss=lambda issuer: issuer.url + "/"),
    claim("iss in upper case", ISSUER, iss=lambda issuer: issuer.url.upper()),
    claim("iss is missing", ISSUER, iss=None),
    claim("iss is a list", ISSUER, iss=lambda issuer: [issuer.url]),
    claim("exp is over", EXPIRED, exp=now(-60)),
    claim("exp is long over", EXPIRED, exp=1),
    claim("exp is negative", EXPIRED, exp=-1),
    claim("exp is missing", "the token has no expiry", exp=None),
    claim("exp is a text", "the claim exp is not a number", exp="9999999999"),
    claim("exp is true", "the claim exp is not a number", exp=True),
    claim("nbf is in the future", EARLY, nbf=now(120)),
    claim("nbf is a text", "the claim nbf is not a number", nbf="soon"),
    claim("iat is in the future", EARLY, iat=now(120)),
    claim("sub is missing", "the token has no subject", sub=None),
    claim("sub is empty", "the token has no subject", sub=""),
    claim("sub is a number", "the claim sub", sub=7),
    claim("sub has a line break", "the claim sub", sub="ann\nben"),
    claim("sub is too long", "the claim sub", sub="a" * 256),
    claim("scope is a number", "the claim scope", scope=7),
    claim("groups is an object", "the claim groups", groups={"research": True}),
    claim("groups were left out", "the issuer left out the claim groups", _claim_names={"groups": "src1"}),
    claim("act is a text", "the claim act", act="robot"),
    claim("bound to a certificate", "in a way that this hub cannot check", cnf={"x5t#S256": "abc"}),
    claim("bound to a key and a certificate", "cannot check", cnf={"jkt": "abc", "x5t#S256": "abc"}),
    header("typ of an ID token", TYPE, typ="JWT"),
    header("typ of a proof", TYPE, typ="dpop+jwt"),
    header("typ of a logout token", TYPE, typ="logout+jwt"),
    header("typ is missing", TYPE, typ=None),
    header("typ is a list", TYPE, typ=["at+jwt"]),
    header("kid is unknown", NO_KEY, kid="unknown"),
    header("kid is empty", NO_KEY, kid=""),
    header("kid is a path", NO_KEY, kid="../../key"),
    header("kid is a number", NO_KEY, kid=7),
    signed_by(
        "kid is of the RSA key",
        NO_KEY,
        lambda issuer: issuer.mint(RESOURCE, {"kid": issuer.keys[1].as_dict(private=False)["kid"]}),
    ),
    header("crit names an extension", "the extension crit", crit=["exp"]),
    header("the payload is not encoded", "the extension b64", b64=False),
    signed_by(
        "alg none",
        ALGORITHM,
        lambda issuer: f"{encode_part(issuer.header(alg='none'))}.{encode_part(issuer.claims(RESOURCE))}.AA",
    ),
    signed_by(
        "alg None with capitals",
        ALGORITHM,
        lambda issuer: f"{encode_part(issuer.header(alg='NonE'))}.{encode_part(issuer.claims(RESOURCE))}.AA",
    ),
    signed_by(
        "alg none without a signature",
        BASE64,
        lambda issuer: f"{encode_part(issuer.header(alg='none'))}.{encode_part(issuer.claims(RESOURCE))}.",
    ),
    signed_by(
        "alg HS256 with the public key",
        ALGORITHM,
        lambda issuer: sign_with_public_key(issuer, "HS256"),
    ),
    signed_by(
        "alg HS512 with the public key",
        ALGORITHM,
        lambda issuer: sign_with_public_key(issuer, "HS512"),
    ),
    signed_by(
        "alg is a list",
        ALGORITHM,
        lambda issuer: f"{encode_part(issuer.header(alg=['ES256']))}.{encode_part(issuer.claims(RESOURCE))}.AA",
    ),
    signed_by(
        "alg of another curve",
        NO_KEY,
        lambda issuer: sign(issuer.header(alg="ES384"), issuer.claims(RESOURCE), make_key("ES384")),
    ),
    signed_by(
        "alg of another type of key",
        NO_KEY,
        lambda issuer: sign(issuer.header(alg="RS256"), issuer.claims(RESOURCE), issuer.keys[1]),
    ),
    signed_by(
        "signed by a key that the issuer does not have",
        SIGNATURE,
        lambda issuer: sign(issuer.header(), issuer.claims(RESOURCE), FOREIGN_KEY),
    ),
    signed_by(
        "signed by the key in its own header",
        SIGNATURE,
        lambda issuer: sign(
            issuer.header(jwk=FOREIGN_KEY.as_dict(private=False)), issuer.claims(RESOURCE), FOREIGN_KEY
        ),
    ),
    signed_by(
        "names a key set of its own",
        SIGNATURE,
        lambda issuer: sign(issuer.header(jku="http://127.0.0.1:1/jwks"), issuer.claims(RESOURCE), FOREIGN_KEY),
    ),
    signed_by(
        "claims are a list",
        "its payload is not a JSON object",
        lambda issuer: sign(issuer.header(), [], issuer.keys[0]),
    ),
    signed_by(
        "claims have a name twice",
        "its payload is not JSON",
        lambda issuer: sign(
            issuer.header(),
            json.dumps(issuer.claims(RESOURCE)).replace("{", '{"sub": "ben", ', 1).encode(),
            issuer.keys[0],
        ),
    ),
    signed_by(
        "exp is infinite",
        "its payload is not JSON",
        lambda issuer: sign(
            issuer.header(), json.dumps(issuer.claims(RESOURCE, exp=math.inf)).encode(), issuer.keys[0]
        ),
    ),
    signed_by(
        "claims nest deeply",
        "its payload",
        lambda issuer: sign(issuer.header(), b'{"a":' + b"[" * 4000 + b"]" * 4000 + b"}", issuer.keys[0]),
    ),
    text("a changed signature", SIGNATURE, flip_signature),
    text("a signature of another length", SIGNATURE, lambda token: token + "AAAA"),
    text("a changed claim", SIGNATURE, lambda token: swap_claims(token, sub="ben")),
    text("an encrypted token's form", OPAQUE, lambda token: token + ".AA.AA"),
    text("two parts", OPAQUE, lambda token: token.rpartition(".")[0]),
    text("an empty signature", BASE64, lambda token: token.rpartition(".")[0] + "."),
    text("padding", CHARACTERS, lambda token: token.replace(".", "==.", 1)),
    text("a space inside", CHARACTERS, lambda token: token.replace(".", " .", 1)),
    text("two tokens", CHARACTERS, lambda token: f"{token},{token}"),
    text("a quote", CHARACTERS, lambda token: token + '"'),
    text("20,000 characters", "the token has more than 16384 characters", lambda token: token + "A" * 20_000),
    text("no token", CHARACTERS, lambda token: ""),
    text("an opaque token", OPAQUE, lambda token: "opaque"),
    Case(
        "a bound token without its proof's scheme",
        lambda issuer: bearer(issuer.mint(RESOURCE, cnf={"jkt": SENDER.thumbprint})),
        "send it as DPoP, with a proof",
        scheme="DPoP",
    ),
]


def unbound(issuer: Issuer) -> Headers:
    token = issuer.mint(RESOURCE)
    return {"Authorization": f"DPoP {token}", "DPoP": SENDER.prove("POST", RESOURCE, token)}


def other_sender(issuer: Issuer) -> Headers:
    """A stolen token with a proof of the thief."""
    token = issuer.mint(RESOURCE, cnf={"jkt": SENDER.thumbprint})
    return {"Authorization": f"DPoP {token}", "DPoP": DpopClient().prove("POST", RESOURCE, token)}


def without_proof(issuer: Issuer) -> Headers:
    return {"Authorization": f"DPoP {issuer.mint(RESOURCE, cnf={'jkt': SENDER.thumbprint})}"}


def two_proofs(issuer: Issuer) -> Headers:
    token = issuer.mint(RESOURCE, cnf={"jkt": SENDER.thumbprint})
    both = [SENDER.prove("POST", RESOURCE, token) for _ in range(2)]
    return {"Authorization": f"DPoP {token}", "DPoP": ",".join(both)}


PRIVATE = {name: SENDER.key.as_dict(private=True)[name] for name in ("kty", "crv", "x", "y", "d")}
PROOF = "invalid_dpop_proof"
PROOFS = [
    Case("no proof", without_proof, "the request has no DPoP proof", PROOF, "DPoP"),
    Case("two proofs", two_proofs, "the DPoP proof cannot be read", PROOF, "DPoP"),
    Case("a proof of another sender", other_sender, "the token is bound to another key", PROOF, "DPoP"),
    Case("a token that is not bound", unbound, "send it as Bearer", "invalid_token", "DPoP"),
    proof("proof typ JWT", "the type of the DPoP proof", {"typ": "JWT"}),
    proof("proof typ missing", "the type of the DPoP proof", {"typ": None}),
    proof("proof alg HS256", "the signature of the DPoP proof", {"alg": "HS256"}, key=OctKey.import_key("secret" * 8)),
    proof("proof alg of another curve", "the signature of the DPoP proof", {"alg": "ES384"}, key=make_key("ES384")),
    proof("proof without a key", "the key in the DPoP proof is not usable", {"jwk": None}),
    proof("proof with a private key", "has private members", {"jwk": PRIVATE}),
    proof("proof with a shared secret", "has private members", {"jwk": {"kty": "oct", "k": "c2VjcmV0"}}),
    proof("proof with a key that is not a point", "is not usable", {"jwk": SENDER.header()["jwk"] | {"x": "AAAA"}}),
    proof("proof signed by another key", "the signature of the DPoP proof", key=FOREIGN_KEY),
    proof("proof of another method", METHOD, htm="GET"),
    proof("proof of a method in lower case", METHOD, htm="post"),
    proof("proof without a method", METHOD, htm=None),
    proof("proof of another host", URL, htu="http://other.example/mcp/echo"),
    proof("proof of another server", URL, htu="http://localhost/mcp/notes"),
    proof("proof of another scheme", URL, htu="https://localhost/mcp/echo"),
    proof("proof without a URL", URL, htu=None),
    proof("proof of no URL", URL, htu="http://[half/mcp"),
    proof("proof of a list of URLs", URL, htu=[RESOURCE]),
    proof("old proof", TIME, iat=int(time.time()) - 3600),
    proof("proof from the future", TIME, iat=int(time.time()) + 36_000),
    proof("proof without a time", "no time (iat)", iat=None),
    proof("proof with a text as its time", "no time (iat)", iat="now"),
    proof("proof without an id", "no id (jti)", jti=None),
    proof("proof with an empty id", "no id (jti)", jti=""),
    proof("proof with an endless id", "no id (jti)", jti="a" * 1000),
    proof("proof without the token", "another token (ath)", ath=None),
    proof("proof of another token", "another token (ath)", ath=encode_part(b"0" * 32)),
    proof("proof with crit", "the extension crit", {"crit": ["exp"]}),
]
