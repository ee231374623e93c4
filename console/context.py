"""What every template can name."""


def nonce(request):
    """django-htmx and our own scripts take the page's nonce from `csp_nonce`, as Django 6 calls it."""
    return {"csp_nonce": getattr(request, "csp_nonce", None)}
