#!/bin/sh
# Sayso from a shell: start a Run, ask, wait, take the one use, act, say what became of it.
#   sh examples/elsewhere/with_curl.sh
# SAYSO_API_URL and SAYSO_API_TOKEN say where; else the demo.json of ./run demo.
set -eu
of() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }
demo=${SAYSO_DEMO:-var/demo.json}
url=${SAYSO_API_URL:-$(of '["api"]["base_url"]' < "$demo")}
token=${SAYSO_API_TOKEN:-$(of '["api"]["instance_token"]' < "$demo")}

call() { # METHOD PATH [JSON]: a dropped line is tried again under the same key; the token is no argument others can read
    printf 'Authorization: Bearer %s\nContent-Type: application/json\nIdempotency-Key: %s\n' \
        "$token" "$(cat /proc/sys/kernel/random/uuid)" |
        curl -sS --fail-with-body --retry 5 --retry-all-errors -X "$1" -H @- ${3:+-d "$3"} "$url$2"
}

run=$(call POST /runs '{"message": "Rotate the logs", "thread": "housekeeping"}')
id=$(echo "$run" | of '["id"]')
lease=$(echo "$run" | of '["lease"]')
action='"action": "logs/rotate", "parameters": {"keep_days": 14}'
asked=$(call POST "/runs/$id/requests" "{\"lease\": $lease, \"key\": \"rotate\", \"kind\": \"wait_approval\", $action}")
request=$(echo "$asked" | of '["id"]')
echo "Waiting for $request"
while [ "$(echo "$asked" | of '["state"]')" = pending ]; do
    asked=$(call GET "/requests/$request?wait=30s")
done
lease=$(call POST "/runs/$id/turn" '{}' | of '["lease"]')
if [ "$(echo "$asked" | of '["outcome"]')" != approved ]; then
    call POST "/runs/$id/fail" "{\"lease\": $lease, \"reason\": \"It was not approved.\"}" | of '["state"]'
    exit 1
fi
days=$(call POST "/requests/$request/dispatch" "{\"lease\": $lease}" | of '["parameters"]["keep_days"]')
echo "keep $days days" >> "${OUTBOX:-var/outbox.log}" && status=succeeded || status=unknown
call POST "/requests/$request/outcome" "{\"status\": \"$status\"}" > /dev/null
call POST "/runs/$id/complete" "{\"lease\": $lease, \"result\": \"The logs are rotated.\"}" | of '["state"]'
