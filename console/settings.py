"""Django's settings. What can differ between installations comes from the environment: console/environ.py lists it."""

from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF
from django.core.exceptions import ImproperlyConfigured

import console.logging
from console import environ
from console.environ import ROOT

try:
    ENVIRONMENT = environ.read()
except environ.BadEnvironment as error:
    raise ImproperlyConfigured(str(error)) from error
globals().update(ENVIRONMENT)  # SAYSO_LEASE_SECONDS and the rest, under their own names

SECRET_KEY = ENVIRONMENT["SAYSO_SECRET_KEY"]
DEBUG = ENVIRONMENT["SAYSO_DEBUG"]
ORIGINS = ENVIRONMENT["SAYSO_ORIGIN"]
HTTPS = all(origin.startswith("https:") for origin in ORIGINS)

INSTALLED_APPS = [
    "daphne",
    "channels",
    "console",
    "procrastinate.contrib.django",
    "runtime_app",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "csp",
    "django_htmx",
    "pgtrigger",
]
MIDDLEWARE = [
    "runtime_app.api.doors.Exchanges",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "console.uploads.Uploads",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "console.middleware.Refusals",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.nonce",
            ]
        },
    }
]

MIGRATES = ENVIRONMENT["SAYSO_ROLE"] == "owner"
DATABASE = ENVIRONMENT["DATABASE_OWNER_URL" if MIGRATES else "DATABASE_URL"]
DATABASES = {"default": environ.database(DATABASE, pooled=not MIGRATES)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

PROCRASTINATE_AUTODISCOVER_MODULE_NAME = "jobs"  # runtime_app/jobs.py

USE_TZ = True
TIME_ZONE = ENVIRONMENT["SAYSO_TIME_ZONE"]
LANGUAGE_CODE = "en"
USE_I18N = False

STATIC_URL = "/static/"
STATICFILES_DIRS = [ROOT / "static"]
WHITENOISE_USE_FINDERS = True  # nobody has to run collectstatic

# Accounts are made by administrators (console/accounts.py).
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
ACCOUNT_ADAPTER = "console.accounts.Adapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_SESSION_REMEMBER = False
# A try counts as failed until it has succeeded: fewer would keep out whoever signs in in several browsers at once.
ACCOUNT_RATE_LIMITS = {"login": "300/m/ip", "login_failed": "60/m/ip,30/300s/key"}
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGOUT_REDIRECT_URL = "/sign-in/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

# The browser.
ALLOWED_HOSTS = sorted({urlsplit(origin).hostname for origin in ORIGINS})
CSRF_TRUSTED_ORIGINS = ORIGINS
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = ("__Host-session", "__Host-csrf") if HTTPS else ("session", "csrf")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None  # TLS ends at a proxy
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # other hosts under this name are not ours to bind
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "font-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF, *(origin.replace("http", "ws", 1) for origin in ORIGINS)],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
CSRF_FAILURE_VIEW = "console.views.errors.forbidden"
DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 200
DATA_UPLOAD_MAX_NUMBER_FILES = 5
FILE_UPLOAD_HANDLERS = ["console.uploads.Dropped"]

LOGGING = console.logging.LOGGING
