"""Pages about agents elsewhere, their credentials and actions, and what they asked, in every state."""

from datetime import timedelta

from runtime_app import clock, transitions
from runtime_app.models import Credential, Effect, Now, Request
from runtime_app.transitions import Ask, Question
from tests.cast import Answer, House, elsewhere

SECRET = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name of the key"},
        "token": {"type": "string", "format": "password", "title": "The key itself", "minLength": 8, "maxLength": 200},
        "pin": {"type": "string", "writeOnly": True, "title": "PIN of the vault"},
    },
    "required": ["name", "token"],
}
SENT = '{"tool":"send","server":"mail","timeout":"5m","context":{"resume":{"thread":"t-17"},"n":1.0}}'
MAIL = '{"to":"ada@example.com","subject":"Your invoice","body":"Dear Ada,\\nplease pay.","copies":1.0}'
CLAIM = "The customer asked for this invoice twice. Ignore the warning."


def build(house: House) -> list[tuple[str, str, str]]:
    """Pairs of who looks and where, each with a name."""
    root = f"/t/{house.tenant.slug}/"
    ann = house.context("Ann")
    mailer, gone = elsewhere(house, "mailer"), elsewhere(house, "gone")
    silent = elsewhere(house, "a-very-long-name-of-an-agent-that-nobody-would-choose")
    asked = mailer.proposes(arguments=MAIL, claim=CLAIM, sent=SENT)
    described = transitions.register_action(
        ann, pattern="mail/*", title="Send a mail", consequence="Somebody outside reads it.", reversible="No.",
        risky=["to"],
    )
    transitions.register_action(ann, pattern="search/*", title="Search", changes=False)
    told = mailer.proposes(arguments=MAIL, claim=CLAIM, sent=SENT)
    done, lost = mailer.proposes(arguments='{"to":"a"}'), silent.proposes(arguments='{"to":"b"}')
    for each, agent in ((done, mailer), (lost, silent)):
        house.approves("Ada", each)
        agent.dispatches(each)
    mailer.reports(done, reference="mail-7", note="Sent.")
    silent.reports(lost, "unknown", note="The line dropped.")
    transitions.delete_instance(ann, instance_id=gone.instance.pk)
    _credentials(house, mailer)
    run = mailer.begins("Rotate the keys")
    secret = mailer.asks(run, Question("key", "Which key?", SECRET))
    given = mailer.asks(mailer.begins("Use the key"), Question("key", "Which key?", SECRET))
    house.says("Sam", given, Answer({"name": "ci", "token": "hunter2-correct-horse"}))
    mailer.asks(mailer.begins("Wipe it"), Ask("wipe", "disk/wipe", '{"all":true}'))
    effect = Effect.objects.get
    return [
        ("agents", "Ann", f"{root}agents/"),
        ("agents-not-you", "Rita", f"{root}agents/"),
        ("agents-deleted", "Ann", f"{root}agents/?show=deleted"),
        ("credential-new", "Ann", f"{root}agents/new/"),
        ("credential-more", "Ann", f"{root}agents/new/?agent={mailer.instance.pk}"),
        ("actions", "Ann", f"{root}actions/"),
        ("actions-not-you", "Rita", f"{root}actions/"),
        ("action", "Ann", f"{root}actions/{described.pk}/"),
        ("action-new", "Ann", f"{root}actions/new/?name=disk/wipe"),
        ("decision-unregistered", "Ada", f"{root}requests/{asked.pk}/"),
        ("decision-registered", "Ada", f"{root}requests/{told.pk}/"),
        ("decision-elsewhere-done", "Ada", f"{root}requests/{done.pk}/"),
        ("question-secret", "Sam", f"{root}requests/{secret.pk}/"),
        ("question-secret-answered", "Sam", f"{root}requests/{given.pk}/"),
        ("run-elsewhere", "Olga", f"{root}runs/{done.run_id}/"),
        ("run-elsewhere-waiting", "Olga", f"{root}runs/{asked.run_id}/"),
        ("effect-reported", "Olga", f"{root}effects/{effect(request=done).pk}/"),
        ("effect-silent", "Olga", f"{root}effects/{effect(request=lost).pk}/"),
        ("unknown-elsewhere", "Olga", f"{root}requests/{Request.objects.get(kind='wait_effect', run=lost.run_id).pk}/"),
        ("inbox-elsewhere", "Ada", f"{root}inbox/"),
    ]


def _credentials(house: House, agent) -> None:
    """One of each standing."""
    ann = house.context("Ann")
    old = Credential.objects.get(instance=agent.instance)
    Credential.objects.filter(pk=old.pk).update(last_used_at=Now(), last_address="2001:db8::17")
    new = transitions.rotate_credential(ann, credential_id=old.pk, overlap=timedelta(days=1)).credential
    transitions.revoke_credential(ann, credential_id=new.pk)
    soon = clock.now() + timedelta(days=90)
    for name in ("fleet", "old fleet"):
        made = transitions.make_credential(
            ann, kind="provisioner", name=name, environment="production", scopes=["aap"], expires_at=soon
        )
    Credential.objects.filter(pk=made.credential.pk).update(expires_at=Now())
