#!/bin/sh
# Writes the broker's password file from the secrets, anew at every start: a changed secret is a changed password.
set -eu
secrets="${1:-/run/secrets}"
target="${2:-/mosquitto/data/passwd}"
umask 077
for user in live machines; do
    printf '%s:%s\n' "$user" "$(cat "$secrets/mqtt_${user}_password")"
done > "$target.new"
mosquitto_passwd -U "$target.new"
mv "$target.new" "$target"
