"""How people get in: by an account an administrator made for them."""

from allauth.account.adapter import DefaultAccountAdapter


class Adapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request):
        return False
