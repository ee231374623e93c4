import os

from console.environ import database

SECRET_KEY = "floor"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["bench.floor"]
DATABASES = {"default": database(os.environ["BENCH_URL"], pooled=False) | {"CONN_MAX_AGE": None}}
