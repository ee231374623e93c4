"""A script with Sayso's own client: it asks for words, then for permission; it sends once, under the key it was given.

python -m examples.elsewhere.plain
"""

from examples.elsewhere.installation import api, send_mail
from runtime_app.client import NotGiven, Report, Sayso

SUBJECT = {
    "type": "object",
    "properties": {"subject": {"type": "string", "title": "Subject", "maxLength": 80}},
    "required": ["subject"],
}


def send(key: str, parameters: dict) -> Report:
    """`parameters` are what was approved; a real provider gets `key`, so that it does one key once."""
    send_mail(**parameters)
    return Report(reference=key)


def main() -> None:
    with Sayso(*api()) as sayso, sayso.running("Tell Ada that the release is out", thread="releases") as run:
        words = sayso.ask(run, "What should the subject of the mail be?", SUBJECT)
        mail = {"to": "ada@example.com", "subject": words["subject"]}
        try:
            sayso.effect(run, "mail/send", mail, send, claim="The release is out, and Ada wants to know.")
            run.ends_with = "Ada knows."
        except NotGiven as no:
            run.ends_with = f"No mail was sent: {no}."
        print(run.ends_with)


if __name__ == "__main__":
    main()
