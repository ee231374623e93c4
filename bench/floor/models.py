import uuid

from django.db import models


class Run(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    state = models.TextField(default="queued")
    seq = models.IntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)


class Request(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    run = models.ForeignKey(Run, models.CASCADE)
    kind = models.TextField()
    payload = models.JSONField()
    state = models.TextField(default="pending")
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["-created_at", "id"], name="floor_pending", condition=models.Q(state="pending"))
        ]


class Event(models.Model):
    run = models.ForeignKey(Run, models.CASCADE)
    kind = models.TextField()
    payload = models.JSONField()
    at = models.DateTimeField(auto_now_add=True)


class Job(models.Model):
    run = models.ForeignKey(Run, models.CASCADE, db_index=False)
    kind = models.TextField()
    at = models.DateTimeField(auto_now_add=True)
