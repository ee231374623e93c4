"""What the database holds and may not show: encrypted with a key of the installation."""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def seal(secret: bytes, purpose: str) -> bytes:
    return _key(purpose).encrypt(secret)


def opened(sealed: bytes, purpose: str) -> bytes | None:
    """None: it was sealed with another key, or for another purpose."""
    try:
        return _key(purpose).decrypt(bytes(sealed))
    except InvalidToken:
        return None


def derived(purpose: str, *of) -> str:
    """256 bits, as hex, that only this installation can make of these, and makes again."""
    parts = b"".join(len(part).to_bytes(8, "big") + part for part in (str(each).encode() for each in of))
    return hmac.new(_bits(purpose), parts, "sha256").hexdigest()


def _key(purpose: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(_bits(purpose)))


def _bits(purpose: str) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=f"sayso {purpose}".encode()).derive(settings.SECRET_KEY.encode())
