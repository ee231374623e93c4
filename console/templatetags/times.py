"""Times in the console's zone, in words people use, with the exact instant in `datetime`."""

from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.html import format_html

register = template.Library()


@register.simple_tag(takes_context=True)
def clock(context, at, seconds=False):
    """17:40 today, "Thu 17:40" within a week, "26 Nov 2026, 17:40" otherwise."""
    if at is None:
        return "–"
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), words(at, _now(context), seconds))


@register.simple_tag(takes_context=True)
def until(context, at):
    """in 42 minutes; changes by the minute, never by the second."""
    left = at - _now(context)
    return f"in {span(left)}" if left > timedelta(0) else f"{span(-left)} ago"


@register.simple_tag(takes_context=True)
def since(context, at):
    return span(_now(context) - at)


@register.simple_tag(takes_context=True)
def took(context, start, end=None):
    return span((end or _now(context)) - start) if start else "–"


@register.filter
def seconds(count):
    """A number of seconds, as people say it."""
    return span(timedelta(seconds=count))


DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@register.filter
def cron_words(cron: str) -> str:
    """ "every Monday at 06:00 UTC": of five fields in the shapes people write; of others, the fields by name."""
    fields = cron.split()
    if len(fields) != 5:
        return cron
    minute, hour, day, month, weekday = fields
    at = _at(minute, hour)
    when = _on(day, month, weekday)
    return f"{when} {at}" if at.startswith("at ") else f"{at}, {when}"


def _at(minute: str, hour: str) -> str:
    match minute.isdecimal(), hour.isdecimal():
        case True, True:
            return f"at {int(hour):02}:{int(minute):02} UTC"
        case True, False if hour == "*":
            return f"every hour at minute {int(minute)}"
    if hour == "*" and minute == "*":
        return "every minute"
    if hour == "*" and minute.startswith("*/"):
        return f"every {minute[2:]} minutes"
    minutes = f"every {minute[2:]} minutes" if minute.startswith("*/") else f"at minute {minute}"
    return f"{minutes} of hour {hour} UTC"


def _on(day: str, month: str, weekday: str) -> str:
    months = "" if month == "*" else f" in month {month}"
    if day == weekday == "*":
        return f"every day{months}"
    parts = [] if weekday == "*" else [_weekdays(weekday)]
    parts += [] if day == "*" else [f"on day {day} of the month"]
    return " or ".join(parts) + months  # both named: cron means either


def _weekdays(weekday: str) -> str:
    first, _, last = weekday.partition("-")
    if first.isdecimal() and int(first) < 8 and last.isdecimal() and int(last) < 8:
        return f"{DAYS[int(first)]} to {DAYS[int(last)]}"
    days = weekday.split(",")
    if all(each.isdecimal() and int(each) < 8 for each in days):
        return "every " + ", ".join(DAYS[int(each)] for each in days)
    return f"on weekday {weekday}"


@register.filter
def steps(expires_at, now):
    """How much of the deadline bar is filled, of four."""
    left = expires_at - now
    limits = (timedelta(hours=1), timedelta(hours=4), timedelta(hours=12))
    return sum(left > limit for limit in limits) + 1


@register.simple_tag(takes_context=True)
def by_deadline(context, rows):
    """The rows under their deadlines, soonest first, those without one last: [(heading, note, rows)]."""
    now = _now(context)
    local = timezone.localtime(now)
    midnight = (local + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    groups = {"Within the hour": [], "Today": [], "Later": [], "No deadline": []}
    notes = {"Today": f"{local:%A} {local.day} {local:%B}", "No deadline": "open until established"}
    for row in rows:
        at = row.expires_at
        name = (
            "No deadline" if at is None
            else "Within the hour" if at - now <= timedelta(hours=1)
            else "Today" if at < midnight
            else "Later"
        )  # fmt: skip
        groups[name].append(row)
    return [(name, notes.get(name, ""), inside) for name, inside in groups.items() if inside]


def words(at: datetime, now: datetime, seconds=False) -> str:
    local, today = timezone.localtime(at), timezone.localtime(now).date()
    hour = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    if local.date() == today:
        return hour
    if abs((local.date() - today).days) < 6:
        return f"{local:%a} {hour}"
    year = f" {local.year}" if local.year != today.year else ""
    return f"{local.day} {local:%b}{year}, {hour}"


def span(length: timedelta) -> str:
    total = max(0, int(length.total_seconds()))
    if total < 60:
        return f"{total} s" if total else "under 1 s"
    minutes = total // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} day{'s' if days > 1 else ''}" + (f" {hours} h" if hours and days < 3 else "")


def _now(context) -> datetime:
    return context.get("now") or timezone.now()
